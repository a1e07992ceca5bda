import { prepare, record, type Statement } from '../sql/index.ts';
import type { Action } from './access.ts';
import type { TransactionExecutor } from './executor.ts';
import { compileLockedRecords } from './hook-rows.ts';
import type { Caller, OperationContext, RecordInput } from './operation.ts';
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

/** Locks records for a write until the end of the transaction, in the order of their IDs. Records that the caller cannot write are omitted. */
export type LockForWrite = (
  executor: TransactionExecutor,
  action: 'update' | 'delete',
  input: { readonly caller: Caller; readonly ids: readonly string[] },
) => Promise<void>;

/** Compiles {@link LockForWrite} for callers with the same rights. */
export function compileLockForWrite(context: OperationContext): LockForWrite {
  const { byIds } = compileLockedRecords(context, context);
  return async (executor, action, { caller, ids }) => {
    await executor.run(byIds(action, { ...basePlan({ caller }), ids }));
  };
}
