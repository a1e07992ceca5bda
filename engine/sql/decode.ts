/** A value in a row of a statement: text or bytes, or null. */
export type Cell = string | Buffer | null;

type Decode<T> = (cell: Cell) => T;

/** Returns a type's decoder for columns that are never null. */
const required =
  <T>(decode: Decode<T>): Decode<T> =>
  (cell) => {
    if (cell === null) throw new Error('a column is unexpectedly null');
    return decode(cell);
  };

/** Column types, each with the function that decodes its values. */
export const cell = {
  text: required(String),
  nullableText: (value: Cell): string | null => (value === null ? null : String(value)),
  /** Encoded records, which stay encoded. Empty if the column is null because there are no records. */
  encoded: (value: Cell): string | Buffer => value ?? '',
  count: required(Number),
  /** A boolean converted to text. */
  flag: (value: Cell): boolean => String(value) === 'true',
} satisfies Readonly<Record<string, Decode<unknown>>>;

/** A statement's columns in order, with their types. */
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

/** A decoded row with its kind. */
type RowOfKind<Kinds extends Readonly<Record<string, Columns>>> = {
  [Kind in keyof Kinds]: { readonly kind: Kind } & Row<Kinds[Kind]>;
}[keyof Kinds];

/** Rows of several kinds, combined with UNION ALL. The first column is the kind. */
interface RowKinds<Kinds extends Readonly<Record<string, Columns>>> {
  /** Returns the SQL expression for the first column of a kind's rows. */
  readonly column: (kind: keyof Kinds & string) => string;
  /**
   * Returns the SELECT list for a kind's rows, which has the same number of columns for all kinds.
   * @param columns SQL expressions for the columns of this kind, separated by commas
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
