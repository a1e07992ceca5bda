import { type Encoder, textCell, verbatim } from './encode.ts';
import { integerText, jsonNumber } from './exact-json.ts';
import { bigintType } from './numbers.ts';
import type { FieldType } from './type.ts';

/** Maximum number of records to which a field of a record can refer. */
export const maxReferences = 100;

const [comma, semicolon] = [','.charCodeAt(0), ';'.charCodeAt(0)];

/** Encodes a JSON array of IDs as a cell: the IDs, separated by semicolons. An empty array becomes `""`. */
const idCells: Encoder = (source, start, end, target, offset) => {
  const [first, last] = [start + 1, end - 1];
  if (first === last) return textCell(source, first, last, target, offset);
  let next = offset;
  for (let index = first; index < last; index++) {
    const byte = source[index] as number;
    target[next++] = byte === comma ? semicolon : byte;
  }
  return next;
};

/** Parses IDs separated by spaces, commas or semicolons. Other texts are kept, so that validation rejects them. */
const parseIds = (text: string): readonly unknown[] =>
  text
    .split(/[\s,;]+/)
    .filter((part) => part !== '')
    .map((part) => jsonNumber(part) ?? part);

/**
 * The IDs of records in the same organization, in ascending order and without duplicates. The record contains the IDs,
 * and a trigger copies them to a table whose foreign keys reject other IDs.
 */
export const referencesType: FieldType = {
  expected: `a list of at most ${maxReferences} record ids (integers)`,
  expects: { type: 'records', max: maxReferences },
  json: { type: 'array', items: bigintType.json },
  element: {
    schema: bigintType.json,
    expected: 'the id of a record (an integer)',
    expects: { type: 'record' },
    sql: 'bigint',
    example: 1,
  },
  body: () => ({
    type: 'array',
    maxItems: maxReferences,
    items: { exact: { kind: 'int64', orNull: false } },
  }),
  columns: () => [{ suffix: '', type: 'bigint[]', sample: `'{}'` }],
  empty: Object.freeze([]),
  // The order is kept, so that errors can contain the position of an ID.
  write: (value) => [`{${(Array.isArray(value) ? value : []).map(integerText).join()}}`],
  assign: ([placeholder]) => [
    `array(select distinct _e from unnest(${placeholder}::text::bigint[]) _e order by 1)`,
  ],
  combine: (value, other) => `array(select distinct _e from unnest(${value} || ${other}) _e order by 1)`,
  read: ([column = '']) => `array_to_json(${column})`,
  encode: verbatim,
  csv: { encode: idCells, parse: (cell) => (cell === undefined ? undefined : parseIds(cell)) },
  form: { control: 'checkboxes', parse: parseIds },
  equals: (column, placeholder) => `${column} @> array[${placeholder}::bigint]`,
  among: (column, placeholder) => `${column} && ${placeholder}::bigint[]`,
  includes: (column, placeholder) => `${column} @> ${placeholder}::bigint[]`,
  parse: (text) => bigintType.parse?.(text),
  refers: true,
  examples: [[]],
};
