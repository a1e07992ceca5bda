import type { Unique } from '../definition/index.ts';
import {
  type Field,
  fieldColumns,
  lookupOf,
  type ParameterText,
  phoneVariants,
  refersToMany,
} from '../fields/index.ts';
import { arrayText, type Placeholder } from '../sql/index.ts';
import { type Assignment, assign, bodyParameters } from './assignments.ts';
import type { Body } from './body.ts';

/** A record to write. */
export interface BatchItem {
  /** ID as a decimal string; null if the record can be new. */
  readonly id: string | null;
  readonly body: Body;
  /** The country of phone numbers without a country code, if records are matched by all notations of their numbers. */
  readonly phoneRegion?: string | undefined;
}

/** The parameters of a statement that writes items. */
export interface ItemValues {
  readonly columns: readonly Readonly<ItemColumn>[];
  /** Indexes of the items to skip, starting at 1, as decimal strings. */
  readonly skipped: readonly string[];
}

/**
 * A statement's items as the table `_items`, which has one row per item. `_n` contains the item's index,
 * starting at 1.
 */
export interface ItemTable {
  /**
   * Returns the common table expression `_items`. @param guard a source with at most one row; if it is empty,
   * so is `_items`
   */
  readonly expression: (placeholder: Placeholder<ItemValues>, guard?: string) => string;
  /** Returns a field's columns and the SQL expressions for their values. */
  readonly assignments: (field: Field) => readonly Assignment[];
  /** Returns the SQL expressions for the parameters of a field's columns, as text. */
  readonly parameters: (field: Field) => readonly string[];
  /**
   * Returns an SQL expression for the digits of all notations of an item's phone number, as an array. It is null if the
   * number has only one. Undefined if the field does not contain unique phone numbers.
   */
  readonly notations: (field: Field) => string | undefined;
  /** Returns an SQL condition that is true if an item contains a field. */
  readonly hasField: (field: Field) => string;
  /** Returns whether any item contains a value other than null for a field without a default. */
  readonly hasValue: (values: Pick<ItemValues, 'columns'>, field: Field) => boolean;
  /** Appends an item to the columns, or nulls if it is undefined, so that later items keep their indexes. */
  readonly add: (columns: ItemColumn[], item: BatchItem | undefined) => void;
}

/** SQL expression for an item's ID. */
export const itemId = '_i._id::bigint';

/** The values of all items for a column. Items are appended to it. */
export interface ItemColumn {
  /** The elements of the PostgreSQL array literal. */
  elements: string;
  /** Whether any item has a value that is neither null nor an empty list of references. */
  hasValue: boolean;
}

/**
 * Compiles the {@link ItemTable} for items with values for these writable fields.
 * @param uniques the unique fields by which items can be matched with records
 */
export function itemTable(fields: readonly Field[], uniques: readonly Unique[] = []): ItemTable {
  const fieldEntries = fields.map((field) => ({
    field,
    parameters: bodyParameters(field),
    size: fieldColumns(field).length,
    isList: refersToMany(field),
  }));
  const names = [
    '_id',
    '_given',
    ...fields.flatMap((field) => fieldColumns(field)).map((_, index) => `_v${index}`),
  ];
  const phoneFields = fields.filter(
    (field) => field.comparison === 'digits' && uniques.some((unique) => unique.includes(field)),
  );
  const notations = new Map(phoneFields.map((field, index) => [field, `_d${index}`]));
  names.push(...notations.values());
  const assignments = new Map<Field, readonly Assignment[]>();
  const parameters = new Map<Field, readonly string[]>();
  const firstColumns = new Map<Field, number>();
  let next = 2;
  for (const { field, size } of fieldEntries) {
    const columns = names.slice(next, next + size).map((name) => `_i.${name}`);
    parameters.set(field, columns);
    // `assign` requests the placeholder of each column once, in order.
    let column = 0;
    assignments.set(
      field,
      assign<BatchItem>(
        field,
        () => columns[column++] ?? 'null',
        () => [],
      ),
    );
    firstColumns.set(field, next);
    next += size;
  }
  const arrays = names.map(
    (_, index) =>
      ({ columns: { [index]: column } }: ItemValues) =>
        column === undefined ? null : `{${column.elements}}`,
  );
  return {
    expression: ($, guard) => {
      const values = arrays.map((array) => `${$(array)}::text[]`).join(', ');
      const source = `unnest(${values}) with ordinality _i(${names.join(', ')}, _n)`;
      return `_items as materialized (select _i.* from ${guard === undefined ? '' : `${guard} cross join `}${source} where _i._n <> all(${$(skippedOf)}::bigint[]))`;
    },
    assignments: (field) => assignments.get(field) ?? [],
    parameters: (field) => parameters.get(field) ?? [],
    notations: (field) => {
      const name = notations.get(field);
      return name && `_i.${name}::text[]`;
    },
    hasField: (field) => `substr(_i._given, ${fields.indexOf(field) + 1}, 1) = '1'`,
    hasValue: ({ columns }, field) => {
      const first = firstColumns.get(field) ?? 0;
      return columns.slice(first, first + fieldColumns(field).length).some(({ hasValue }) => hasValue);
    },
    add: (columns, item) => {
      const add = (index: number, value: ParameterText, isList = false) => {
        const hasValue = value !== null && !(isList && value === '{}');
        const column = columns[index];
        if (column === undefined) columns[index] = { elements: element(value), hasValue };
        else {
          column.elements += `,${element(value)}`;
          column.hasValue ||= hasValue;
        }
      };
      add(0, item?.id ?? null);
      add(
        1,
        item === undefined
          ? null
          : fields.map(({ name }) => (item.body[name] === undefined ? '0' : '1')).join(''),
      );
      let index = 2;
      for (const { parameters, size, isList } of fieldEntries) {
        const values = item === undefined ? [] : parameters(item);
        for (let part = 0; part < size; part++) add(index++, values[part] ?? null, isList);
      }
      for (const { name } of phoneFields) add(index++, item === undefined ? null : notationsOf(item, name));
    },
  };
}

/** Returns the digits of all notations of an item's phone number as an array literal, or null if it has only one. */
function notationsOf({ body, phoneRegion }: BatchItem, name: string): string | null {
  const number = body[name];
  if (phoneRegion === undefined || typeof number !== 'string') return null;
  const variants = phoneVariants(number, phoneRegion);
  return variants.length > 1 ? arrayText(variants.map(lookupOf('digits').keyOf)) : null;
}

const skippedOf = ({ skipped }: ItemValues) => skipped;

/** Serializes a value as an array element. `replaceAll` is several times faster than a regular expression. */
const element = (value: ParameterText): string =>
  value === null ? 'null' : `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
