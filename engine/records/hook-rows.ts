import type { Unique } from '../definition/index.ts';
import { arrayText, cell, type Placeholder, record, rowDecoder, type Statement } from '../sql/index.ts';
import { prepareBatch } from './batch.ts';
import { matchedSql } from './indexes.ts';
import type { ItemValues } from './items.ts';
import type { OperationContext, OperationPlan } from './operation.ts';
import { organizationOf, visibleSql } from './rows.ts';
import { selectResult, tableOf } from './statements.ts';

/** A plan that locks records by their IDs. */
interface ById extends OperationPlan {
  readonly ids: readonly string[];
}

/** The actions for which hooks lock existing records. */
type LockedAction = 'read' | 'update' | 'delete' | 'restore';

/** Statements that lock records and return them with all fields. Records on which the caller cannot perform the action are omitted. */
export interface LockedRecords {
  readonly byIds: (action: LockedAction, plan: ById) => Statement;
  /** Finds the existing records that a batch updates because they have the same unique values. */
  readonly byMatch: (match: Unique, plan: OperationPlan & ItemValues) => Statement;
}

/** Decodes a locked record: the item's number or an empty text, then its JSON and its ID. */
export const decodeLocked = rowDecoder({
  number: cell.text,
  json: cell.text,
  versions: cell.text,
  id: cell.text,
});

/**
 * Compiles the statements that lock a resource's records.
 * @param context the resource as the caller sees it
 * @param full the resource as a caller without limits sees it
 */
export function compileLockedRecords(context: OperationContext, full: OperationContext): LockedRecords {
  const table = tableOf(context);
  const selectLocked = (
    $: Placeholder<OperationPlan>,
    {
      number,
      from,
      where,
      mode,
    }: { readonly number: string; readonly from: string; readonly where: string; readonly mode: string },
  ): string => {
    const rows = `(select ${record}.*, ${number} as "_number" from ${from} where ${where} order by ${record}."id" for ${mode} of ${record})`;
    return selectResult(full, rows, $, undefined, `${record}."_number" as "number", `);
  };
  const lockOf = (action: LockedAction) =>
    prepareBatch<ById>(($) => {
      organizationOf($);
      const visible = action === 'restore' ? ({ ...context, trashed: 'only' } as const) : context;
      return selectLocked($, {
        number: "''",
        from: `${table} ${record}`,
        where: `${visibleSql(visible, action, $)} and ${record}."id" = any(${$(({ ids }) => arrayText(ids))}::bigint[])`,
        mode: action === 'delete' ? 'update' : 'no key update',
      });
    });
  const locks = {
    read: lockOf('read'),
    update: lockOf('update'),
    delete: lockOf('delete'),
    restore: lockOf('restore'),
  };
  return {
    byIds: (action, plan) => locks[action].bind(plan),
    byMatch: (match, plan) =>
      prepareBatch<OperationPlan & ItemValues>(($) => {
        organizationOf($);
        const { items } = context;
        const rows = selectLocked($, {
          number: '_i._n::text',
          from: `_items _i join ${table} ${record} on ${visibleSql(context, 'update', $)} and ${matchedSql(items, match)}`,
          where: 'true',
          mode: 'no key update',
        });
        return `with ${items.expression($)} ${rows}`;
      }).bind(plan),
  };
}
