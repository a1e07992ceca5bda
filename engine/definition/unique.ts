import { type Field, isAssignable, typeLabel } from '../fields/index.ts';
import { suggestion, withArticle } from '../yaml/index.ts';
import type { RawResource, Unique } from './definition.ts';

/** Functions that report an issue at a field or at the resource's `unique` key. */
interface Reports {
  readonly atField: (field: Field, message: string) => void;
  readonly atResource: (path: readonly number[], message: string) => void;
}

/**
 * Returns the sets of unique fields: first the fields with `unique: true`, then the sets in the resource's `unique`
 * key.
 */
export function readUniques(
  raw: RawResource,
  fields: ReadonlyMap<string, Field>,
  { atField, atResource }: Reports,
): Unique[] {
  const uniques: Unique[] = [];
  const add = (unique: Unique, report: (message: string) => void): void => {
    const isDuplicate = uniques.some(
      (other) => other.length === unique.length && unique.every((field) => other.includes(field)),
    );
    if (isDuplicate) report('these fields are already unique');
    else uniques.push(unique);
  };
  for (const field of fields.values()) {
    if (!field.unique) continue;
    const issue = findIssue(field, true);
    if (issue !== undefined) atField(field, issue);
    else add([field], (message) => atField(field, message));
  }
  for (const [index, names] of groupsOf(raw).entries()) {
    const members = names.map((name, position) => {
      const field = fields.get(name);
      const issue =
        field === undefined
          ? `unknown field "${name}"${suggestion(name, [...fields.keys()])}`
          : findIssue(field, names.length === 1);
      if (issue !== undefined) atResource(isSingleGroup(raw) ? [position] : [index, position], issue);
      return issue === undefined ? field : undefined;
    });
    const [first, ...rest] = members.filter((member) => member !== undefined);
    if (first === undefined || 1 + rest.length < names.length) continue;
    add([first, ...rest], (message) => atResource(isSingleGroup(raw) ? [] : [index], message));
  }
  return uniques;
}

/** Returns whether `unique` is a single group of names. */
const isSingleGroup = ({ unique = [] }: RawResource): boolean => typeof unique[0] === 'string';

/** Returns the groups of names that are unique together. */
function groupsOf({ unique = [] }: RawResource): readonly (readonly string[])[] {
  const names = unique.filter((name) => typeof name === 'string');
  return names.length > 0 ? [names] : unique.filter((name) => typeof name !== 'string');
}

/**
 * Returns the reason a field cannot be unique, or undefined if it can.
 * @param isAlone whether the field is unique on its own
 */
function findIssue(field: Field, isAlone: boolean): string | undefined {
  const { name, type, readOnly, required, default: value } = field;
  if (type.distinct === undefined) return `${withArticle(typeLabel(field))} field cannot be unique`;
  if (field.sequence !== undefined) return `"${name}" has a sequence and is unique already`;
  if (isAssignable(field)) return `"${name}" is assignable and cannot be unique`;
  if (readOnly)
    return `"${name}" is read-only and cannot be unique, because callers could not fix a duplicate value`;
  if (isAlone && !required && value !== null && value !== '') {
    return `only one record could have the default of "${name}". Add "nullable: true" or "required: true".`;
  }
  return undefined;
}
