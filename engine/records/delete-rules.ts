import type { ResourceDefinition } from '../definition/index.ts';
import type { OnDelete } from '../fields/index.ts';

/** A reference field of a resource. */
export interface Referrer {
  readonly resource: string;
  readonly field: string;
  /** The column with the ID, whose name differs from the field's if the field refers to one of several resources. */
  readonly column: string;
  readonly onDelete: OnDelete;
  /** Whether the field's values are lists of references. */
  readonly isList: boolean;
  /** Whether the resource with the field has a trash. */
  readonly hasTrash: boolean;
}

/** How an operation removes records: directly, by moving them to the trash, or from the trash. */
export type Removal = 'delete' | 'trash' | 'purge';

/** Returns how the DELETE operations of a resource remove records. */
export const removalOf = ({ trash }: Pick<ResourceDefinition, 'trash'>): Removal =>
  trash === undefined ? 'delete' : 'trash';

/** Maximum number of records that a delete can remove, including the records named in the request. */
export const maxDeleted = 10_000;

/** A reference from a record to a record that a delete removes. */
interface DeletedReference extends Referrer {
  /** The resource to which the reference points. */
  readonly target: string;
}

/** The effects of a resource's deletes on other records, derived from every `on_delete`. */
export interface DeleteRules {
  readonly removal: Removal;
  /** The resources whose records a delete can remove, starting with the resource itself. */
  readonly resources: readonly string[];
  /** References that prevent a delete, references whose records are also deleted, and references that become null. */
  readonly restrict: readonly DeletedReference[];
  readonly cascade: readonly DeletedReference[];
  readonly clear: readonly DeletedReference[];
}

/**
 * Returns the rules for removing a resource's records, including the records that its deletes remove. Records in the trash
 * keep their references, and the references to them, so only `restrict` applies to moving a record there.
 */
export function deleteRulesOf(
  resource: string,
  referrers: ReadonlyMap<string, readonly Referrer[]>,
  removal: Removal,
): DeleteRules {
  if (removal === 'trash') {
    const restrict = (referrers.get(resource) ?? [])
      .filter(({ onDelete }) => onDelete === 'restrict')
      .map((referrer) => ({ ...referrer, target: resource }));
    return { removal, resources: [resource], restrict, cascade: [], clear: [] };
  }
  const resources = [resource];
  const references: DeletedReference[] = [];
  // The loop also visits the resources that it adds.
  for (const target of resources) {
    for (const referrer of referrers.get(target) ?? []) {
      references.push({ ...referrer, target });
      if (referrer.onDelete === 'cascade' && !resources.includes(referrer.resource))
        resources.push(referrer.resource);
    }
  }
  const withRule = (rule: Referrer['onDelete']) => references.filter(({ onDelete }) => onDelete === rule);
  return {
    removal,
    resources,
    restrict: withRule('restrict'),
    cascade: withRule('cascade'),
    clear: withRule('clear'),
  };
}

/** Returns whether a delete can be rejected because of other records, or also delete other records. */
export const hasDeleteRules = ({ restrict, cascade }: DeleteRules): boolean =>
  restrict.length > 0 || cascade.length > 0;
