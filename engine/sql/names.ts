import { createHash } from 'node:crypto';
import { type Field, indexedPrefix, lookupOf } from '../fields/index.ts';

/** Quotes an identifier. Names come from checked definitions only, so they cannot contain quotes. */
export const quote = (name: string): string => `"${name}"`;

/** Maximum length of a name. PostgreSQL truncates longer names, which could then collide. */
const maxIdentifier = 63;

/**
 * Shortens a name to PostgreSQL's limit. A shortened name ends with a hash of the original name.
 * @param suffix text that PostgreSQL or MikroORM appends to the name, for example to name its primary key
 */
export function identifier(name: string, suffix = ''): string {
  const length = maxIdentifier - suffix.length;
  if (name.length <= length) return name;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 8);
  return `${name.slice(0, length - 9)}_${hash}`;
}

/** Quotes a string literal, for example a default from a definition. */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/**
 * Alias of a resource's table in statements that read or write records. All other generated names start with
 * an underscore.
 */
export const record = 't';

/**
 * Name of the column that counts writes to a record. A trigger increments it on every update. The name cannot collide
 * with a field name.
 */
export const versionColumn = '_version';

/**
 * Name of the column with the time at which a record was moved to the trash; null for other records. The name cannot
 * collide with a field name.
 */
export const trashedColumn = '_trashed_at';

/** Returns the qualified name of a field's first column, or the expression for the values of a computed field. */
export const column = (field: Pick<Field, 'name' | 'computed'>, alias: string = record): string =>
  field.computed?.sql((name) => `${alias}.${quote(name)}`) ?? `${alias}.${quote(field.name)}`;

/** Returns a field's index key: its first ORDER BY key, whose size is bounded. */
export function indexKey({ name, type, computed }: Field): string {
  const value = computed?.sql(quote) ?? quote(name);
  return type.order?.(value)[0] ?? value;
}

/** Returns the index key for finding a field's values: the key of its comparison or lookup, if any, or {@link indexKey}. */
export const lookupKey = (field: Field): string => {
  const lookup = field.comparison ?? field.lookup;
  return lookup === undefined ? indexKey(field) : indexedPrefix(lookupOf(lookup).key(quote(field.name)));
};

/** An index as data. */
export interface IndexShape {
  /** SQL expressions, for example `"organization_id"` or `left("name", 100)`. */
  readonly keys: readonly string[];
  /** The kind of uniqueness that the index enforces, if any. */
  readonly kind?: 'primary key' | 'unique constraint' | 'unique';
  /** The access method. If absent, B-tree. */
  readonly method?: 'gin';
  /** SQL condition, if the index is partial. */
  readonly where?: string;
}

/** Returns the CREATE INDEX statement for an index that does not belong to a constraint. */
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
