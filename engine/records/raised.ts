import { sqlState } from '../database/index.ts';

/**
 * Returns an SQL expression of type bigint that fails with a text. PostgreSQL cannot raise an error in an expression, so the
 * text is cast to a type to which it cannot be cast.
 * @param text SQL expression for the text, which must not be a number
 */
export const raisedSql = (text: string): string => `(${text})::bigint`;

/**
 * Returns the groups of a pattern that the text of a failed {@link raisedSql} matches. Empty if the statement failed for another
 * reason.
 */
export function raisedText(cause: unknown, pattern: string): readonly string[] {
  if (sqlState(cause) !== '22P02') return [];
  return new RegExp(`"${pattern}"`).exec(String((cause as Error).message))?.slice(1) ?? [];
}
