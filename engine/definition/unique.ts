import type { Field } from '../fields/index.ts';
import { suggestion, withArticle } from '../yaml/index.ts';
import type { RawResource, Unique } from './definition.ts';

/** Reports issues at their location. */
interface Reports {
  readonly atField: (field: Field, message: string) => void;
  readonly atResource: (path: readonly number[], message: string) => void;
}

/** Reads unique fields and groups of fields: `unique: true` of fields, then `unique` of the resource. */
export function readUniques(
  raw: RawResource,
  fields: ReadonlyMap<string, Field>,
  { atField, atResource }: Reports,
): Unique[] {
  const uniques: Unique[] = [];
  const add = (unique: Unique, report: (message: string) => void): void => {
    const same = uniques.some(
      (other) => other.length === unique.length && unique.every((field) => other.includes(field)),
    );
    if (same) report('these fields are already unique');
    else uniques.push(unique);
  };
  for (const field of fields.values()) {
    if (!field.unique) continue;
    const problem = problemOf(field, true);
    if (problem !== undefined) atField(field, problem);
    else add([field], (message) => atField(field, message));
  }
  for (const [index, names] of groupsOf(raw).entries()) {
    const members = names.map((name, place) => {
      const field = fields.get(name);
      const problem =
        field === undefined
          ? `unknown field "${name}"${suggestion(name, [...fields.keys()])}`
          : problemOf(field, names.length === 1);
      if (problem !== undefined) atResource(isOne(raw) ? [place] : [index, place], problem);
      return problem === undefined ? field : undefined;
    });
    const [first, ...rest] = members.filter((each) => each !== undefined);
    if (first === undefined || 1 + rest.length < names.length) continue;
    add([first, ...rest], (message) => atResource(isOne(raw) ? [] : [index], message));
  }
  return uniques;
}

/** Whether `unique` is a single group of names. */
const isOne = ({ unique = [] }: RawResource): boolean => typeof unique[0] === 'string';

/** Returns the groups of names that are unique together. */
function groupsOf({ unique = [] }: RawResource): readonly (readonly string[])[] {
  const names = unique.filter((each) => typeof each === 'string');
  return names.length > 0 ? [names] : unique.filter((each) => typeof each !== 'string');
}

/** Returns why a field cannot be unique, or undefined. */
function problemOf(field: Field, alone: boolean): string | undefined {
  const { name, typeName, type, readOnly, required, default: value } = field;
  if (type.distinct === undefined) return `${withArticle(typeName)} field cannot be unique`;
  if (readOnly)
    return `"${name}" is read-only and cannot be unique, because callers could not fix a duplicate value`;
  if (alone && !required && value !== null && value !== '') {
    return `only one record could have the default of "${name}". Add "nullable: true" or "required: true".`;
  }
  return undefined;
}
