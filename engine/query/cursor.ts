import { type Field, int64 } from '../fields/index.ts';
import { column, type Placeholder } from '../sql/index.ts';
import type { ListOrder } from './expansion.ts';

/**
 * The records of a page, relative to a record: the first ones `after` it or `from` it, or the last ones `before` it or
 * `through` it. `from` and `through` include the record itself.
 */
export type PageSide = 'after' | 'from' | 'before' | 'through';

/** The position of a page in a list, relative to a record. */
export interface CursorPosition {
  /** Number of the page. */
  readonly page: bigint;
  /** The record's sort keys, as parameters of the sort fields' types. Null if a field is null. */
  readonly keys: readonly (string | null)[];
  /** ID of the record, as decimal text. */
  readonly id: string;
  /** Default: `after`. */
  readonly side?: PageSide;
}

/** A cursor from a request. Its signature must be verified before use. */
export interface UnverifiedCursor extends CursorPosition {
  /** The signed part of the cursor. */
  readonly text: string;
  readonly signature: string;
}

/** Returns the signed part of a cursor. */
export const positionText = ({ page, keys, id, side = 'after' }: CursorPosition): string =>
  Buffer.from(JSON.stringify([String(page), ...keys, id, ...(side === 'after' ? [] : [side])])).toString(
    'base64url',
  );

/** The side of the neighboring page, whose records are all other records of the list. */
const oppositeSides = { after: 'through', from: 'before', before: 'from', through: 'after' } as const;

/** Returns the side of the records that precede a page that reads forward, or that follow one that reads backward. */
export const oppositeSide = ({ side = 'after' }: Pick<CursorPosition, 'side'>): PageSide =>
  oppositeSides[side];

/** Returns whether a page contains the last records before a position instead of the first records after it. */
export const readsBackward = ({ side }: Pick<CursorPosition, 'side'>): boolean =>
  side === 'before' || side === 'through';

/** Returns a cursor, which consists of the encoded position and its signature. */
export const encodeCursor = (text: string, signature: string): string => `${text}.${signature}`;

/** Matches positions with up to four sort keys of 500 characters, each of which has up to six bytes in JSON. */
const cursorPattern = /^([\w-]{1,17000})\.([\w-]{1,100})$/;

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
    const [page, ...values] = JSON.parse(Buffer.from(text, 'base64url').toString()) as unknown[];
    const side = isSide(values.at(-1)) ? (values.pop() as PageSide) : 'after';
    const id = values.pop();
    const isPosition =
      typeof page === 'string' &&
      /^\d+$/.test(page) &&
      values.length > 0 &&
      values.every(isKey) &&
      typeof id === 'string' &&
      int64(id) !== undefined;
    return isPosition
      ? { page: BigInt(page), keys: values.filter(isKey), id, side, text, signature }
      : undefined;
  } catch {
    return undefined;
  }
}

const isSide = (value: unknown): value is PageSide =>
  typeof value === 'string' && Object.hasOwn(oppositeSides, value);

const isKey = (value: unknown): value is string | null => value === null || typeof value === 'string';

/** Returns a key that identifies how a position affects the statement's text. */
export const positionShape = ({ keys, side = 'after' }: CursorPosition): string =>
  [side, ...keys.map((key) => (key === null ? 'null' : 'value'))].join(' ');

/** Returns the order in which a page's records are read, which is reversed if the page reads backward. */
export const readingOrder = (
  orders: readonly ListOrder[],
  position: Pick<CursorPosition, 'side'> | undefined,
): readonly ListOrder[] =>
  position === undefined || !readsBackward(position)
    ? orders
    : orders.map(({ field, direction }) => ({ field, direction: direction === 'asc' ? 'desc' : 'asc' }));

/**
 * Returns conditions, in reading order, that together match the records on a position's side. With one sort key, each
 * condition can be served by an index. PostgreSQL sorts nulls last in ascending order and first in descending order.
 */
export function positionConditions(
  orders: readonly ListOrder[],
  position: CursorPosition,
  placeholder: Placeholder<CursorPosition>,
): readonly string[] {
  const read = readingOrder(orders, position);
  const includesRecord = position.side === 'from' || position.side === 'through';
  const operator = `${read.at(-1)?.direction === 'desc' ? '<' : '>'}${includesRecord ? '=' : ''}`;
  const id = column({ name: 'id' });
  const bound = `${placeholder((input) => input.id)}::bigint`;
  const keys = read.map(({ field, direction }, index): SortKey => {
    const isNull = position.keys[index] === null;
    return {
      field,
      ascends: direction === 'asc',
      columns: field.type.order?.(column(field)) ?? [],
      bounds: isNull ? undefined : field.type.bounds?.(placeholder((input) => input.keys[index] ?? null)),
    };
  });
  const [key] = keys;
  if (key === undefined || keys.length > 1) {
    const beyond = keys.flatMap((each, index) => {
      const condition = beyondKey(each);
      return condition === undefined
        ? []
        : [[...keys.slice(0, index).map(equalsKey), condition].join(' and ')];
    });
    const ties = [...keys.map(equalsKey), `${id} ${operator} ${bound}`].join(' and ');
    return [`((${[ties, ...beyond].join(') or (')}))`];
  }
  const { field, ascends, columns, bounds } = key;
  const value = column(field);
  if (bounds === undefined) {
    const condition = `${value} is null and ${id} ${operator} ${bound}`;
    return ascends ? [condition] : [condition, `${value} is not null`];
  }
  const condition = `(${[...columns, id].join(', ')}) ${operator} (${[...bounds, bound].join(', ')})`;
  return ascends && field.nullable ? [condition, `${value} is null`] : [condition];
}

/** A sort key in reading order, and the parameters of its value at a position. */
interface SortKey {
  readonly field: Field;
  readonly ascends: boolean;
  readonly columns: readonly string[];
  /** SQL expressions for the value; undefined if it is null. */
  readonly bounds: readonly string[] | undefined;
}

/** Returns the condition that a record has the same sort key as the position. */
const equalsKey = ({ field, columns, bounds }: SortKey): string =>
  bounds === undefined ? `${column(field)} is null` : `(${columns.join(', ')}) = (${bounds.join(', ')})`;

/** Returns the condition that a record's sort key follows the position's, or undefined if none can. */
function beyondKey({ field, ascends, columns, bounds }: SortKey): string | undefined {
  if (bounds === undefined) return ascends ? undefined : `${column(field)} is not null`;
  const condition = `(${columns.join(', ')}) ${ascends ? '>' : '<'} (${bounds.join(', ')})`;
  return ascends && field.nullable ? `(${condition} or ${column(field)} is null)` : condition;
}
