import { errors } from '../errors.ts';
import {
  cell,
  column,
  type Placeholder,
  prepare,
  quote,
  record,
  rowDecoder,
  trashedColumn,
} from '../sql/index.ts';
import { allows } from './access.ts';
import { assignmentsOf } from './assignments.ts';
import { namesOf, sameKeySql, showsValues } from './indexes.ts';
import type { ExplainRejection, Operation, OperationContext, RecordInput } from './operation.ts';
import { etagHeader, type RecordResult } from './results.ts';
import { type CallerScope, limitSql, organizationOf, ownRowsSql } from './rows.ts';
import {
  prepareById,
  recordResult,
  tableOf,
  updateOf,
  type WriteById,
  writeById,
  writtenColumns,
} from './statements.ts';

/** `POST /R/{id}/restore`: returns a record from the trash, with its ID. */
export const restore: Operation<WriteById, RecordInput, RecordResult> = {
  method: 'POST',
  path: '/:id/restore',
  appliesTo: ({ trash }) => trash !== undefined,
  action: 'restore',
  status: 200,
  responseHeaders: etagHeader,
  compile: (context) => {
    const { statement, written } = prepareById<WriteById, typeof writtenColumns>(
      { ...context, trashed: 'only' },
      writtenColumns,
      {
        name: 'restore',
        action: 'restore',
        change: ($, source, condition) =>
          restoreSql(context, condition, $, source === undefined ? '' : ` from ${source}`),
      },
    );
    return {
      plan: (input) => writeById(context, input),
      statement,
      result: (plan, rows) => recordResult(context, written(plan, rows)),
      ...(context.stored.uniques.length > 0 && { rejection: explainConflict(context) }),
    };
  },
  describe: ({ definition, aRecord, recordName }) => ({
    operationId: `restore${recordName}`,
    summary: `Restore ${aRecord}`,
    success: {
      description: `The restored ${definition.singular.replaceAll('_', ' ')}, which has the same ID.`,
      schema: recordName,
    },
  }),
};

/**
 * Returns the UPDATE statement that takes records from the trash, and returns their rows.
 * @param from additional tables, starting with a space
 */
export function restoreSql(
  context: OperationContext,
  condition: string,
  $: Placeholder<CallerScope>,
  from = '',
): string {
  const assignments = [
    ...assignmentsOf(context.stored, 'update', $, () => []),
    { column: quote(trashedColumn), value: 'null' },
  ];
  return `${updateOf(context, assignments, condition, from)} returning ${record}.*`;
}

/** Finds the unique value of a trashed record that another record has now. */
function explainConflict(context: OperationContext): ExplainRejection<WriteById> {
  const { uniques } = context.stored;
  const trashed = '_o';
  const { bind } = prepare<WriteById>('', 'batch', ($) => {
    organizationOf($);
    const conflicts = uniques.map(
      (unique, index) =>
        `(select case when true${limitSql(context, 'read', $)} then ${record}."id"::text else '' end from ${tableOf(context)} ${record} where ${ownRowsSql($)} and ${record}.${quote(trashedColumn)} is null and ${sameKeySql(
          unique,
          unique.map((field) => column(field, trashed)),
        )} limit 1) as _u${index}`,
    );
    return `select ${conflicts.join(', ')} from ${tableOf(context)} ${trashed} where ${ownRowsSql($, trashed)} and ${trashed}."id" = ${$(({ id }) => id)}::bigint`;
  });
  const decoders = uniques.map((_, index) => rowDecoder({ existing: cell.nullableText }, index));
  return {
    statement: bind,
    remaining: (plan, [row = []]) => {
      const canRead = allows(plan.caller.principal.grants, context.stored, 'read');
      for (const [index, unique] of uniques.entries()) {
        const existing = decoders[index]?.(row).existing ?? null;
        // The ID is empty if the caller cannot read the record. If it cannot read the values, the ID would reveal them.
        if (existing !== null) {
          const isShown = canRead && showsValues(context.definition, unique) && existing !== '';
          throw errors.duplicate(namesOf(unique), isShown ? existing : undefined);
        }
      }
      return plan;
    },
  };
}
