import type { Deprecation, Field, FieldType } from '../fields/index.ts';
import type { RawRename } from './definition.ts';

/** What a field or a resource says of the name that it had. */
export interface FormerName {
  readonly renamedFrom?: string;
  readonly alias?: Deprecation;
}

const dayMs = 86_400_000;
/** How long an old name stays by the suggestion that an incomplete alias gets. */
const usualDays = 180;
const day = (days: number): string => new Date(Date.now() + days * dayMs).toISOString().slice(0, 10);

/** Reads the keys that declare a new name; `report` gets the key and the message of each mistake. */
export function readFormerName(
  name: string,
  { renamed_from: from, alias, deprecated, sunset }: RawRename,
  report: (key: 'renamed_from' | 'alias' | 'deprecated' | 'sunset', message: string) => void,
): FormerName {
  if (from === name) report('renamed_from', `"${name}" is the name that it has`);
  if (alias === true) {
    if (from === undefined) report('alias', '"alias" needs "renamed_from"');
    if (deprecated === undefined || sunset === undefined) {
      const since = deprecated ?? day(0);
      report(
        'alias',
        `callers must know how long: add deprecated: ${since}, sunset: ${sunset ?? day(usualDays)}`,
      );
    } else if (sunset < deprecated) report('sunset', `must not be before "deprecated" (${deprecated})`);
  } else {
    for (const [key, value] of Object.entries({ deprecated, sunset })) {
      if (value !== undefined) report(key as 'sunset', `"${key}" needs "alias: true"`);
    }
  }
  return {
    ...(from !== undefined && { renamedFrom: from }),
    ...(alias === true &&
      deprecated !== undefined &&
      sunset !== undefined && { alias: { deprecated, sunset } }),
  };
}

/** The field that shows the value of another one under its former name; undefined if callers do not have it. */
export function aliasOf(field: Field): Field | undefined {
  const { renamedFrom, alias, to: _to, set: _set, lookup: _lookup, ...rest } = field;
  if (renamedFrom === undefined || alias === undefined) return undefined;
  const { expected, json, encode, examples } = field.type;
  const type: FieldType = { expected, json, encode, examples };
  return {
    ...rest,
    name: renamedFrom,
    type,
    description: `The former name of \`${field.name}\`, until ${alias.sunset}.`,
    readOnly: true,
    required: false,
    unique: false,
    aliasOf: field,
  };
}
