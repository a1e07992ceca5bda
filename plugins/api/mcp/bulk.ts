import type { ResourceView } from '../../../engine/compile/index.ts';
import { errors, HttpError } from '../../../engine/errors.ts';
import { ExactNumber } from '../../../engine/fields/index.ts';
import {
  type Body,
  compileLockForWrite,
  dryRun,
  type Executor,
  inTransaction,
  type LockForWrite,
  type RecordValues,
  recordValues,
  runOperation,
  type TransactionExecutor,
} from '../../../engine/records/index.ts';
import { compactor, textLengths } from './compact-records.ts';
import { type BulkCall, confirmationMinutes, maxUnconfirmed } from './confirmations.ts';
import { type Arguments, permit, type ToolCall, type ToolResult } from './tool.ts';

const locks = new WeakMap<ResourceView['context'], LockForWrite>();

/** Returns the function that locks a view's records, which is compiled once. */
function lockFor({ context }: ResourceView): LockForWrite {
  const lock = locks.get(context) ?? compileLockForWrite(context);
  locks.set(context, lock);
  return lock;
}

/** A write of one of several records. */
interface BulkWrite {
  /** The tool's name. */
  readonly tool: 'update' | 'delete';
  /** The written values, if any. */
  readonly body: Body;
  /** Writes a locked record. @returns the record; null if it was deleted */
  readonly write: (executor: Executor, id: string) => Promise<RecordValues | null>;
  /** Returns the result for a written record in a dry run. */
  readonly preview: (before: RecordValues, after: RecordValues | null) => RecordValues;
}

/**
 * Writes several records in one transaction. More than {@link maxUnconfirmed} require the confirmation that a dry run of the same
 * call returns, while the records are unchanged.
 * @throws HttpError 400 naming the records that cannot be written
 */
export async function writeRecords(
  call: ToolCall,
  view: ResourceView,
  args: Arguments,
  { tool, body, write, preview }: BulkWrite,
): Promise<ToolResult> {
  permit(call, view, 'read');
  const { database, caller, confirmations } = call;
  const ids = args.ids();
  const { organization, actor } = caller.principal;
  const bulkCall = (tags: readonly string[]): BulkCall => ({
    ...{ organization, actor, tool, resource: view.name, ids, body, tags },
  });
  /** Calls a function for each record in turn. */
  const forEach = async <T>(work: (id: string) => Promise<T>): Promise<readonly T[]> => {
    const results: T[] = [];
    for (const id of ids) {
      const result = await work(id).catch((cause: unknown) => {
        if (!(cause instanceof HttpError) || cause.status >= 500) throw cause;
        throw errors.itemsRejected(new Map([[id, cause]]), cause);
      });
      results.push(result);
    }
    return results;
  };
  /** Locks the records, and reads them. Their versions cannot change until the end of the transaction, except by its own writes. */
  const lockAndRead = async (executor: TransactionExecutor) => {
    await lockFor(view)(executor, tool, { caller, ids });
    return forEach(async (id) => {
      const result = await runOperation(executor, view.operations.read, { caller, id });
      if (result.tag === undefined) throw errors.internal(undefined);
      return { before: recordValues(result), tag: result.tag };
    });
  };
  if (args.isTrue('dry_run')) {
    const previews = await dryRun(database, caller, 0, async (executor) => {
      const records = await lockAndRead(executor);
      const after = await forEach((id) => write(executor, id));
      return records.map((record, index) => ({ ...record, after: after[index] ?? null }));
    });
    return {
      dry_run: true,
      records: previews.map(({ before, after }) => ({ id: before.id, ...preview(before, after) })),
      ...(ids.length > maxUnconfirmed && {
        confirm: confirmations.issue(bulkCall(previews.map(({ tag }) => tag))),
        note: `Show the changes to your user. If the user agrees, call the tool with "confirm" within ${confirmationMinutes} minutes.`,
      }),
    };
  }
  await inTransaction(database, caller, 0, async (executor) => {
    const tags = (await lockAndRead(executor)).map(({ tag }) => tag);
    if (ids.length > maxUnconfirmed) confirmations.verify(bulkCall(tags), args.text('confirm'));
    await forEach((id) => write(executor, id));
  });
  return { written: ids.map((id) => new ExactNumber(id)) };
}

/** Returns how a changed record is described in a dry run. */
export const changePreview =
  (call: ToolCall, view: ResourceView): BulkWrite['preview'] =>
  (before, after) => ({ changes: compactor(call, textLengths.many).changes(view, before, after) });

/** Returns how a deleted record is described in a dry run. */
export const titlePreview =
  ({ titles }: ToolCall, view: ResourceView): BulkWrite['preview'] =>
  (before) => ({ name: titles.of(view, before) });
