import type { Deprecation, Field, FieldType } from '../fields/index.ts';
import type { RawRename } from './definition.ts';

/** The former name of a field or a resource. */
interface FormerName {
  readonly renamedFrom?: string;
  readonly alias?: Deprecation;
}

const dayMs = 86_400_000;
/** Days from now to the sunset date suggested for an alias without dates. */
const suggestedDays = 180;
/** Returns the date the given number of days from now, as YYYY-MM-DD. */
const day = (days: number): string => new Date(Date.now() + days * dayMs).toISOString().slice(0, 10);

/** Parses the keys that declare a rename. Calls `report` for each issue. */
export function readFormerName(
  name: string,
  { renamed_from: from, alias, deprecated, sunset }: RawRename,
  report: (key: 'renamed_from' | 'alias' | 'deprecated' | 'sunset', message: string) => void,
): FormerName {
  if (from === name) report('renamed_from', `"${name}" is already the current name. Remove "renamed_from".`);
  if (alias === true) {
    if (from === undefined) report('alias', '"alias" needs "renamed_from"');
    if (deprecated === undefined || sunset === undefined) {
      const since = deprecated ?? day(0);
      report(
        'alias',
        `"alias" needs dates. Add deprecated: ${since}, sunset: ${sunset ?? day(suggestedDays)}`,
      );
    } else if (sunset < deprecated)
      report('sunset', `"sunset" must not be before "deprecated" (${deprecated})`);
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

/**
 * Returns a read-only field that exposes a field's value under its former name, or undefined if the field has no alias.
 */
export function aliasOf(field: Field): Field | undefined {
  const {
    renamedFrom,
    alias,
    to: _to,
    alternatives: _alternatives,
    set: _set,
    lookup: _lookup,
    ...rest
  } = field;
  if (renamedFrom === undefined || alias === undefined) return undefined;
  const { expected, json, encode, csv, form, display, examples } = field.type;
  const type: FieldType = { expected, json, encode, csv, form, examples, ...(display && { display }) };
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
