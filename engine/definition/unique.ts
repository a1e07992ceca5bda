import type { Field } from '../fields/index.ts';
import { suggestion } from '../yaml/index.ts';
import type { RawResource, Unique } from './definition.ts';

/** Reports mistakes where they are written. */
interface Reports {
  readonly atField: (field: Field, message: string) => void;
  readonly atResource: (path: readonly number[], message: string) => void;
}

/** Reads which fields are unique, alone or together: `unique: true` of fields, then `unique` of the resource. */
export function readUniques(
  raw: RawResource,
  fields: ReadonlyMap<string, Field>,
  { atField, atResource }: Reports,
): Unique[] {
  const found: Unique[] = [];
  const add = (unique: Unique, report: (message: string) => void): void => {
    const same = found.some(
      (each) => each.length === unique.length && unique.every((one) => each.includes(one)),
    );
    if (same) report('these fields are unique already');
    else found.push(unique);
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
          ? `no field "${name}"${suggestion(name, [...fields.keys()])}`
          : problemOf(field, names.length === 1);
      if (problem !== undefined) atResource(isOne(raw) ? [place] : [index, place], problem);
      return problem === undefined ? field : undefined;
    });
    const [first, ...rest] = members.filter((each) => each !== undefined);
    if (first === undefined || 1 + rest.length < names.length) continue;
    add([first, ...rest], (message) => atResource(isOne(raw) ? [] : [index], message));
  }
  return found;
}

/** Whether the key of the resource has one group, without further brackets. */
const isOne = ({ unique = [] }: RawResource): boolean => typeof unique[0] === 'string';

/** The names of the fields that are unique together. */
function groupsOf({ unique = [] }: RawResource): readonly (readonly string[])[] {
  const names = unique.filter((each) => typeof each === 'string');
  return names.length > 0 ? [names] : unique.filter((each) => typeof each !== 'string');
}

/** Why a field cannot be unique, or undefined. */
function problemOf(field: Field, alone: boolean): string | undefined {
  const { name, typeName, type, readOnly, required, default: value } = field;
  if (type.distinct === undefined) return `a ${typeName} field cannot be unique`;
  if (readOnly) return `"${name}" is read-only: nobody could mend a value that another record has`;
  if (alone && !required && value !== null && value !== '') {
    return `only one record could have the default of "${name}": give "nullable: true" or "required: true"`;
  }
  return undefined;
}
