import type { Field } from '../fields/index.ts';
import type { RawResource, Trash } from './definition.ts';

/** Names that a list of trashed records uses: the parameter that selects them, and the key that it adds to each record. */
export const trashNames: readonly string[] = ['trashed', 'trashed_at'];

/** Returns the resource's trash, and reports fields whose names the trash needs. */
export function readTrash(
  { trash }: RawResource,
  fields: readonly Field[],
  report: (field: Field, message: string) => void,
): { readonly trash?: Trash } {
  if (trash === undefined) return {};
  for (const field of fields.filter(({ name }) => trashNames.includes(name)))
    report(field, `a resource with "trash" cannot have a field named "${field.name}". Rename the field.`);
  return { trash: { days: Number.parseInt(trash, 10) } };
}
