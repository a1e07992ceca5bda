import { formatCount } from '../errors.ts';
import { documentFormats, documentText } from './documents.ts';
import { type CsvFormat, textCell, verbatim } from './encode.ts';
import { parseExactJson } from './exact-json.ts';
import type { Field } from './field.ts';
import type { FieldType } from './type.ts';

/** Name of the field that contains the values of an organization's custom fields. */
export const customName = 'custom';

/** Returns the name of a custom field in parameters, columns and messages, for example `custom.score`. */
export const customFieldName = (key: string): string => `${customName}.${key}`;

/**
 * Maximum size of the values of a record's custom fields as JSON, in bytes. The values of each field group have the same
 * limit of their own, so that callers who cannot read a group cannot find out the size of its values.
 */
export const maxCustomBytes = 102_400;

/** Maximum size of a record's values in all groups, in bytes. */
const maxBytesInGroups = 10 * maxCustomBytes;

/** The value of a record without values of custom fields. */
export const noValues: Readonly<Record<string, never>> = Object.freeze({});

/**
 * The type of the field that contains the values of an organization's custom fields: an object with a value for each field.
 * Only values other than null are stored. Writes change the values that they contain and keep all others.
 */
export const customValuesType: FieldType = {
  expected: 'an object with the values of custom fields',
  expects: { type: 'customValues' },
  json: { type: 'object', additionalProperties: { type: ['string', 'number', 'boolean', 'null'] } },
  body: () => ({ type: 'object' }),
  columns: () => [{ suffix: '', type: 'jsonb', sample: `'{}'` }],
  empty: noValues,
  write: (value) => [documentText(value)],
  merge: (value, stored) => `jsonb_strip_nulls(${stored} || ${value})`,
  combine: (value, other) =>
    `${other} || (select coalesce(jsonb_object_agg(_k, _v), '{}') from jsonb_each(${value}) _c(_k, _v) where _v <> '""')`,
  integrity: ([column], hasGroups) =>
    `octet_length(${column}::text) <= ${hasGroups ? maxBytesInGroups : maxCustomBytes}`,
  integrityMessage: `must have at most ${formatCount(maxCustomBytes)} bytes in total`,
  ...documentFormats,
  custom: true,
  examples: [{}],
};

/** Returns the CSV format of the values of custom fields: one cell for each field. */
export function customCells(fields: readonly Pick<Field, 'custom'>[]): Pick<CsvFormat, 'encode' | 'cells'> {
  const keys = fields.map(({ custom }) => custom?.key ?? '');
  const comma = ','.charCodeAt(0);
  return {
    cells: keys.length,
    encode: (source, start, end, target, offset) => {
      const text = Buffer.from(source.buffer, source.byteOffset + start, end - start).toString();
      const values = parseExactJson(text) as Readonly<Record<string, unknown>>;
      let next = offset;
      for (const [index, key] of keys.entries()) {
        if (index > 0) target[next++] = comma;
        const value = values[key] ?? null;
        if (value === null) continue;
        const bytes = Buffer.from(String(value));
        const encode = typeof value === 'string' ? textCell : verbatim;
        next = encode(bytes, 0, bytes.length, target, next);
      }
      return next;
    },
  };
}
