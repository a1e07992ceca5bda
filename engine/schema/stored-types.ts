import type { TableShape } from '../database/index.ts';

/** The foreign key of a reference. */
interface Link {
  readonly name: string;
  readonly to: string;
}

/** A table's name without that of its schema. */
const withoutSchema = (table: string): string => table.slice(table.lastIndexOf('.') + 1);

/** The foreign key of a reference; undefined for a column that is none. */
export function linkOf({ foreignKeys }: TableShape, column: string): Link | undefined {
  // The organization comes first, in every key between records.
  const [name, key] =
    Object.entries(foreignKeys).find(
      ([, { columnNames }]) => (columnNames as readonly string[])[1] === column,
    ) ?? [];
  return name === undefined ? undefined : { name, to: withoutSchema(String(key?.referencedTableName)) };
}

/** The name of the field type that is stored in a column, for migrations that do not say more. */
export function storedType(shape: TableShape, column: string): string {
  const type = String(shape.columns[column]?.type);
  if (type === 'bigint') return linkOf(shape, column) === undefined ? 'int64' : 'reference';
  if (type.startsWith('timestamp')) return 'timestamp';
  return { text: 'string', int: 'integer' }[type] ?? (type.startsWith('numeric') ? 'number' : type);
}
