import { quote } from './names.ts';

/** An index as data. */
export interface IndexShape {
  /** SQL expressions, for example `"organization_id"` or `left("name", 100)`. */
  readonly keys: readonly string[];
  /** The values that the index enforces to be unique, if any. */
  readonly kind?: 'primary key' | 'unique constraint' | 'unique';
  /** The access method; a B-tree if absent. */
  readonly method?: 'gin';
  /** SQL condition of a partial index. */
  readonly where?: string;
}

/** Returns the CREATE INDEX statement of an index that does not belong to a constraint. */
export function createIndexSql(
  table: string,
  name: string,
  { keys, kind, method, where }: IndexShape,
  option?: 'concurrently',
): string {
  const words = ['create', ...(kind === 'unique' ? ['unique'] : []), 'index', ...(option ? [option] : [])];
  const using = method === undefined ? '' : `using ${method} `;
  const condition = where === undefined ? '' : ` where ${where}`;
  return `${words.join(' ')} ${quote(name)} on ${quote(table)} ${using}(${keys.join(', ')})${condition}`;
}
