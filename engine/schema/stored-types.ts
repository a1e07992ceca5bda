import type { TableShape } from '../database/index.ts';

/** The foreign key of a reference. */
interface Link {
  readonly name: string;
  readonly to: string;
}

/** Returns the foreign key of a reference, or undefined for other columns. */
export function linkOf({ foreignKeys }: TableShape, column: string): Link | undefined {
  // The organization is the first column of every foreign key between records.
  const [name, key] = Object.entries(foreignKeys).find(([, { columns }]) => columns[1] === column) ?? [];
  return name === undefined || key === undefined ? undefined : { name, to: key.to };
}

/** Field types by column type, for column types with another name. */
const storedTypes: Readonly<Record<string, string>> = {
  text: 'string',
  jsonb: 'json',
  'text[]': 'list',
  'integer[]': 'list',
  'numeric[]': 'list',
};

/** Returns the field type of a stored column, for migrations that do not record field types. */
export function storedType(shape: TableShape, column: string): string {
  const type = String(shape.columns[column]?.type);
  if (type === 'bigint') return linkOf(shape, column) === undefined ? 'int64' : 'reference';
  if (type.startsWith('timestamp')) return 'timestamp';
  return storedTypes[type] ?? (type.startsWith('numeric') ? 'number' : type);
}
