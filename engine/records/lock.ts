import { prepare, record, type Statement } from '../sql/index.ts';
import type { Action } from './access.ts';
import type { OperationContext, RecordInput } from './operation.ts';
import { basePlan, recordId } from './requests.ts';
import { type ById, byIdSql, tableOf } from './statements.ts';

/**
 * Compiles the statement that finds a record on which the caller can perform an action, and prevents its deletion until the
 * end of the transaction. The result row contains the record's ID.
 */
export function compileLock(
  context: OperationContext,
  action: Action,
): (input: Pick<RecordInput, 'caller' | 'id'>) => Statement {
  const { bind } = prepare<ById>(
    '',
    'write',
    ($) =>
      `select ${record}."id"::text as id from ${tableOf(context)} ${record} where ${byIdSql(context, action, $)} for key share`,
  );
  return (input) => bind({ ...basePlan(input), id: recordId(context, input) });
}
