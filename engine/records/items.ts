import { type Field, fieldColumns, type ParameterText } from '../fields/index.ts';
import type { Placeholder } from '../sql/index.ts';
import { type Assignment, assign, bodyParameters } from './assignments.ts';
import type { Body } from './body.ts';

/** A record to write. */
export interface BatchItem {
  /** Decimal text; null for a record that may be new. */
  readonly id: string | null;
  readonly body: Body;
}

/** The input of one statement. */
export interface ItemValues {
  /** The values of all items by column, each as the text of a PostgreSQL array. */
  readonly columns: readonly string[];
  /** Numbers of the items that the statement skips, as decimal text, starting at 1. */
  readonly skipped: readonly string[];
}

/** The items of a statement as a table `_items`, with one row per item and its number in `_n`. */
export interface ItemTable {
  /** The expression `_items`. @param guard a source of one row; if it is empty, so is `_items` */
  readonly expression: (placeholder: Placeholder<ItemValues>, guard?: string) => string;
  /** The columns of a field and the SQL of their values. */
  readonly assigned: (field: Field) => readonly Assignment[];
  /** The condition that an item contains a field. */
  readonly isGiven: (field: Field) => string;
  /** Adds an item to the columns; undefined stands for a skipped item. */
  readonly add: (columns: ItemColumn[], item: BatchItem | undefined) => void;
}

/** SQL of an item's id. */
export const itemId = '_i._id::bigint';

/** A column that is being written. */
export interface ItemColumn {
  text: string;
}

/** Compiles how statements read items with values of these writable fields. */
export function itemTable(fields: readonly Field[]): ItemTable {
  const parts = fields.map((field) => ({
    field,
    parameters: bodyParameters(field),
    size: fieldColumns(field).length,
  }));
  const names = [
    '_id',
    '_given',
    ...fields.flatMap((field) => fieldColumns(field)).map((_, index) => `_v${index}`),
  ];
  const assigned = new Map<Field, readonly Assignment[]>();
  let next = 2;
  for (const { field, size } of parts) {
    const own = names.slice(next, next + size).map((name) => `_i.${name}`);
    // Columns are requested once each, in order.
    let column = 0;
    assigned.set(
      field,
      assign<BatchItem>(
        field,
        () => own[column++] ?? 'null',
        () => [],
      ),
    );
    next += size;
  }
  const arrays = names.map(
    (_, index) =>
      ({ columns }: ItemValues) =>
        columns[index] ?? null,
  );
  return {
    expression: ($, guard) => {
      const values = arrays.map((array) => `${$(array)}::text[]`).join(', ');
      const source = `unnest(${values}) with ordinality _i(${names.join(', ')}, _n)`;
      return `_items as materialized (select _i.* from ${guard === undefined ? '' : `${guard} cross join `}${source} where _i._n <> all(${$(skipped)}::bigint[]))`;
    },
    assigned: (field) => assigned.get(field) ?? [],
    isGiven: (field) => `substr(_i._given, ${fields.indexOf(field) + 1}, 1) = '1'`,
    add: (columns, item) => {
      const add = (index: number, value: ParameterText) => {
        const column = columns[index];
        if (column === undefined) columns[index] = { text: element(value) };
        else column.text += `,${element(value)}`;
      };
      add(0, item?.id ?? null);
      add(
        1,
        item === undefined
          ? null
          : fields.map(({ name }) => (item.body[name] === undefined ? '0' : '1')).join(''),
      );
      let index = 2;
      for (const { parameters, size } of parts) {
        const values = item === undefined ? [] : parameters(item);
        for (let part = 0; part < size; part++) add(index++, values[part] ?? null);
      }
    },
  };
}

const skipped = ({ skipped }: ItemValues) => skipped;

/** The texts of arrays. */
export const arrayTexts = (columns: readonly ItemColumn[]): string[] =>
  columns.map(({ text }) => `{${text}}`);

/** Serializes a value as an array element. Plain replacements are several times faster than a regular expression. */
const element = (value: ParameterText): string =>
  value === null ? 'null' : `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
