/** A value in a result row: text, bytes, null, or the number of records that the reader of the rows counted. */
export type Cell = string | number | Buffer | null;

type Decode<T> = (cell: Cell) => T;

/** Returns a decoder for non-null columns of a type. */
const required =
  <T>(decode: Decode<T>): Decode<T> =>
  (cell) => {
    if (cell === null) throw new Error('a column is unexpectedly null');
    return decode(cell);
  };

/** Functions that decode column values, keyed by column type. */
export const cell = {
  text: required(String),
  nullableText: (value: Cell): string | null => (value === null ? null : String(value)),
  /** Encoded records, which are not decoded. Empty if the column is null because no records exist. */
  encoded: (value: Cell): string | Buffer => (typeof value === 'number' ? String(value) : (value ?? '')),
  count: required(Number),
  /** A boolean that the statement converts to text. */
  flag: (value: Cell): boolean => String(value) === 'true',
} satisfies Readonly<Record<string, Decode<unknown>>>;

/** A statement's columns and their types, in order. */
export type Columns = Readonly<Record<string, Decode<unknown>>>;

/** A decoded row. */
export type Row<C extends Columns> = { readonly [Name in keyof C]: ReturnType<C[Name]> };

/** Returns a function that decodes rows with these columns. @param offset number of columns to skip */
export function rowDecoder<C extends Columns>(columns: C, offset = 0): (row: readonly Cell[]) => Row<C> {
  const addTo = columnDecoder(columns, offset);
  return (row) => addTo({}, row) as Row<C>;
}

/** Returns a function that decodes a row and adds its values to an object. */
function columnDecoder(columns: Columns, offset: number) {
  const names = Object.keys(columns);
  const decoders = Object.values(columns);
  return (values: Record<string, unknown>, row: readonly Cell[]) => {
    for (let index = 0; index < names.length; index++)
      values[names[index] as string] = decoders[index]?.(row[index + offset] ?? null);
    return values;
  };
}

/** A decoded row and its kind. */
type RowOfKind<Kinds extends Readonly<Record<string, Columns>>> = {
  [Kind in keyof Kinds]: { readonly kind: Kind } & Row<Kinds[Kind]>;
}[keyof Kinds];

/** Rows of several kinds, combined with UNION ALL. The first column is the kind. */
interface RowKinds<Kinds extends Readonly<Record<string, Columns>>> {
  /** Returns the SQL expression for the first column in rows of a kind. */
  readonly column: (kind: keyof Kinds & string) => string;
  /**
   * Returns the SELECT list for rows of a kind. It has the same number of columns for all kinds.
   * @param columns comma-separated SQL expressions for the columns of this kind
   */
  readonly select: (kind: keyof Kinds & string, columns?: string) => string;
  readonly decode: (row: readonly Cell[]) => RowOfKind<Kinds>;
}

/** Defines rows of several kinds. */
export function rowKinds<Kinds extends Readonly<Record<string, Columns>>>(kinds: Kinds): RowKinds<Kinds> {
  const sizeOf = (kind: string) => Object.keys(kinds[kind] ?? {}).length;
  const width = Math.max(...Object.keys(kinds).map(sizeOf));
  const decoders = new Map(Object.entries(kinds).map(([kind, columns]) => [kind, columnDecoder(columns, 1)]));
  const column = (kind: string) => `'${kind}' as "kind"`;
  return {
    column,
    select: (kind, columns) => {
      const unused = Array<string>(width - sizeOf(kind)).fill('null');
      return [column(kind), ...(columns === undefined ? [] : [columns]), ...unused].join(', ');
    },
    decode: (row) => {
      const kind = String(row[0]);
      return decoders.get(kind)?.({ kind }, row) as RowOfKind<Kinds>;
    },
  };
}
