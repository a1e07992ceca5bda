import { type Placeholder, record } from '../sql/index.ts';
import type { Assignment } from './assignments.ts';
import type { OperationContext } from './operation.ts';
import { type PreparedWrite, prepareById, tableOf, type WriteById, writtenColumns } from './statements.ts';

/**
 * Prepares an update of one record, with its effects and preconditions.
 * @param assignments returns the columns to write with their values
 */
export const prepareUpdate = <P extends WriteById>(
  context: OperationContext,
  name: string,
  assignments: (placeholder: Placeholder<P>) => readonly Assignment[],
): PreparedWrite<P, typeof writtenColumns> =>
  prepareById(context, writtenColumns, {
    name,
    action: 'update',
    change: ($: Placeholder<P>, source, condition) =>
      `${updateOf(context, assignments($), condition, source === undefined ? '' : ` from ${source}`)} returning ${record}.*`,
  });

/**
 * Returns an UPDATE. Without columns, it still returns whether the record exists.
 * @param from additional tables, starting with a space
 */
export function updateOf(
  context: Pick<OperationContext, 'definition'>,
  assignments: readonly Assignment[],
  where: string,
  from = '',
): string {
  const set =
    assignments.length === 0
      ? `"id" = ${record}."id"`
      : assignments.map(({ column, value }) => `${column} = ${value}`).join(', ');
  return `update ${tableOf(context)} ${record} set ${set}${from} where ${where}`;
}
