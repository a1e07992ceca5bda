import { type Field, int64 } from '../fields/index.ts';
import { column, type Placeholder } from '../sql/index.ts';

/** A position in a list, directly after a record. */
export interface CursorPosition {
  /** Number of the page that starts at this position, as decimal text. */
  readonly page: string;
  /** The record's sort key, as a parameter of the sort field's type. Null if the field is null. */
  readonly key: string | null;
  /** ID of the record, as decimal text. */
  readonly id: string;
}

/** A cursor from a request. Its signature must be verified before use. */
export interface UnverifiedCursor extends CursorPosition {
  /** The signed part of the cursor. */
  readonly text: string;
  readonly signature: string;
}

/** Returns the signed part of a cursor. */
export const positionText = ({ page, key, id }: CursorPosition): string =>
  Buffer.from(JSON.stringify([page, key, id])).toString('base64url');

/** Returns a cursor, which consists of the encoded position and its signature. */
export const encodeCursor = (text: string, signature: string): string => `${text}.${signature}`;

const cursorPattern = /^([\w-]{1,8000})\.([\w-]{1,100})$/;

/** Splits a cursor into the encoded position and its signature. @returns undefined if it is malformed */
export function cursorParts(cursor: string): Pick<UnverifiedCursor, 'text' | 'signature'> | undefined {
  const [, text, signature] = cursorPattern.exec(cursor) ?? [];
  return text === undefined || signature === undefined ? undefined : { text, signature };
}

/** Parses a cursor. @returns undefined if it is malformed */
export function parseCursor(cursor: string): UnverifiedCursor | undefined {
  const parts = cursorParts(cursor);
  if (parts === undefined) return undefined;
  const { text, signature } = parts;
  try {
    const [page, key, id] = JSON.parse(Buffer.from(text, 'base64url').toString()) as unknown[];
    const isPosition =
      typeof page === 'string' &&
      /^\d+$/.test(page) &&
      (key === null || typeof key === 'string') &&
      typeof id === 'string' &&
      int64(id) !== undefined;
    return isPosition ? { page, key, id, text, signature } : undefined;
  } catch {
    return undefined;
  }
}

/** Returns a key that identifies how a position affects the statement's text. */
export const positionShape = ({ key }: CursorPosition): string => (key === null ? 'after null' : 'after');

/**
 * Returns conditions, in list order, that together match the records after a position. Each condition can be
 * served by an index. PostgreSQL sorts nulls last in ascending order and first in descending order.
 */
export function afterPosition(
  field: Field,
  direction: 'asc' | 'desc',
  position: CursorPosition,
  placeholder: Placeholder<CursorPosition>,
): readonly string[] {
  const ascends = direction === 'asc';
  const operator = ascends ? '>' : '<';
  const value = column(field);
  const id = column({ name: 'id' });
  const bound = `${placeholder((input) => input.id)}::bigint`;
  if (position.key === null) {
    const condition = `${value} is null and ${id} ${operator} ${bound}`;
    return ascends ? [condition] : [condition, `${value} is not null`];
  }
  const keys = [...(field.type.order?.(value) ?? []), id];
  const bounds = [...(field.type.bounds?.(placeholder((input) => input.key)) ?? []), bound];
  const condition = `(${keys.join(', ')}) ${operator} (${bounds.join(', ')})`;
  return ascends && field.nullable ? [condition, `${value} is null`] : [condition];
}
