import { foreignKeyViolation, sqlState, type TextRows } from '../database/index.ts';
import type { Trash } from '../definition/index.ts';
import { errors, formatCount, pluralize } from '../errors.ts';
import { fieldTypes } from '../fields/index.ts';
import { cell, type Placeholder, prepare, record, rowDecoder } from '../sql/index.ts';
import {
  allFoundSql,
  type BatchPlan,
  batchLimits,
  batchPlan,
  batchResult,
  envelopeOf,
  idOf,
  lockedItemsSql,
  maxItems,
  missingIndexes,
  missingResults,
  prepareBatch,
  resultsSql,
  splitterOf,
  successSql,
  withFailures,
} from './batch.ts';
import { clearReferencesSql } from './clear-references.ts';
import { deletionSql, explainDeletes, removalSql, unreferencedSql } from './delete-referrers.ts';
import { type DeleteRules, deleteRulesOf, hasDeleteRules, type Removal, removalOf } from './delete-rules.ts';
import { type ItemColumn, itemId, itemTable } from './items.ts';
import type {
  BodyInput,
  CompiledOperation,
  ExplainRejection,
  Operation,
  OperationContext,
  RecordInput,
} from './operation.ts';
import { type ConditionalPlan, preconditionsSql } from './preconditions.ts';
import type { BatchResult, DeletedResult } from './results.ts';
import { organizationOf, visibleSql } from './rows.ts';
import {
  byIdSql,
  effectsOf,
  foundRow,
  prepareById,
  tableOf,
  type WriteById,
  writeById,
} from './statements.ts';
import { violations } from './violations.ts';

/**
 * Returns whether a delete was rejected because of a concurrently written reference. A retry will clear that
 * reference.
 */
const isReferenceConflict = (cause: unknown): boolean => sqlState(cause) === foreignKeyViolation;

/** Column that the statement returns for a deleted record. */
const deletedColumns = { marker: cell.text };

/** A compiled operation that removes one record. */
export type RemoveOperation = CompiledOperation<WriteById, RecordInput, DeletedResult>;

/** `DELETE /R/{id}`: deletes the record and sets references to it to null, or moves it to the trash. */
export const remove: Operation<WriteById, RecordInput, DeletedResult> = {
  method: 'DELETE',
  path: '/:id',
  action: 'delete',
  status: 200,
  compile: (context) => compileRemove(context, removalOf(context.definition)),
  describe: ({ definition, aRecord, recordName, deleteRules }) => ({
    operationId: `delete${recordName}`,
    summary: definition.trash ? `Move ${aRecord} to the trash` : `Delete ${aRecord}`,
    success: {
      description: definition.trash
        ? `The record was moved to the trash, where it can be restored for ${daysText(definition.trash)}. References to it were kept.`
        : deleteRules.cascade.length === 0
          ? 'The record was deleted. References to it were set to null.'
          : `The record was deleted, together with ${dependentsText(deleteRules)}. Other references were set to null.`,
      schema: 'Deleted',
    },
  }),
};

/** Returns the period for which records stay in the trash, for example "30 days". */
export const daysText = ({ days }: Trash): string => pluralize(days, 'day');

/** Compiles the operation that removes one record. */
function compileRemove(context: OperationContext, removal: Removal): RemoveOperation {
  const rules = deleteRulesOf(context.definition.name, context.referrers, removal);
  const { statement, written, isWritten } = prepareDelete(context, rules);
  const explanation = hasDeleteRules(rules)
    ? explainDelete(context, rules, (plan, rows) => !isWritten(plan, rows))
    : undefined;
  return {
    plan: (input) => writeById(context, input),
    statement,
    ...(explanation === undefined ? { retryable: isReferenceConflict } : { rejection: explanation }),
    result: (plan, rows) => {
      written(plan, rows);
      return { kind: 'deleted' };
    },
  };
}

/** Compiles the operation that deletes a record from the trash. */
export const compilePurge = (context: OperationContext): RemoveOperation => ({
  ...compileRemove({ ...context, trashed: 'only' }, 'purge'),
  violation: violations(context),
});

/** Compiles the operation that deletes a record, even if the record is in the trash or would be moved there. */
export const compileErase = (context: OperationContext): RemoveOperation =>
  compileRemove(
    context.definition.trash === undefined ? context : { ...context, trashed: 'included' },
    'delete',
  );

/** Names the records that are deleted with the records to which they refer. */
const dependentsText = ({ cascade }: DeleteRules): string =>
  `the records that refer to it by ${cascade.map(({ resource, field }) => `\`${resource}.${field}\``).join(' or ')}`;

/** Prepares the statement that deletes one record. */
function prepareDelete(context: OperationContext, rules: DeleteRules) {
  if (rules.cascade.length > 0) return prepareCascade(context, rules);
  const table = tableOf(context);
  const unreferenced = unreferencedSql(rules);
  return prepareById(context, deletedColumns, {
    name: 'delete',
    action: 'delete',
    effect: rules.removal,
    // If records refer to records of the same resource, a batch could both update and delete a record in
    // one statement, which PostgreSQL does not support.
    isAlone: [...rules.clear, ...rules.restrict].some(({ resource }) => resource === context.definition.name),
    change: (_, source, condition) =>
      `${removalSql(rules, table, source, `${condition}${unreferenced}`)} returning ${record}.*`,
    additional: ($: Placeholder<WriteById>, join) =>
      clearReferencesSql(context, rules, $, {
        join,
        deletedFrom: () => '_written',
        deletedRows: () => undefined,
      }),
    result: (first = '', join = '') => `select ${first}1 from _written ${record}${join}`,
  });
}

/** Prepares the statement that deletes one record and the records that depend on it. */
function prepareCascade(
  context: OperationContext,
  rules: DeleteRules,
): Pick<
  ReturnType<typeof prepareById<WriteById, typeof deletedColumns>>,
  'statement' | 'written' | 'isWritten'
> {
  // The statement is unnamed, because a plan cached while the tables were small would read them completely.
  const prepareIf = (isConditional: boolean) =>
    prepare<WriteById>('', 'batch', ($) => {
      const conditions = `${byIdSql(context, 'delete', $)}${isConditional ? ` and ${preconditionsSql(context, $)}` : ''}`;
      const source = `${tableOf(context)} ${record} where ${conditions}`;
      return `with ${deletionSql(context, rules, $, { source })} select 1 from _written ${record}`;
    });
  const [unconditional, conditional] = [prepareIf(false), prepareIf(true)];
  const decode = rowDecoder(deletedColumns);
  return {
    statement: (plan) => (plan.conditions === undefined ? unconditional : conditional).bind(plan),
    written: (_, rows) => decode(foundRow(context, rows)),
    isWritten: (_, rows) => rows.length > 0,
  };
}

/** Explains why a record was not deleted. */
function explainDelete(
  context: OperationContext,
  rules: DeleteRules,
  isRejected: (plan: WriteById, rows: TextRows) => boolean,
): ExplainRejection<WriteById> {
  const table = itemTable([]);
  const missing = errors.recordNotFound(context.definition.singular);
  const explanation = explainDeletes(context, rules, table, missing);
  return {
    isRejected,
    statement: (plan) => {
      const columns: ItemColumn[] = [];
      table.add(columns, { id: plan.id, body: {} });
      const items = { columns, skipped: [] };
      return explanation.statement.bind({ ...plan, ...items, isSeparate: false });
    },
    remaining: (plan, rows) => {
      const [error] = explanation.errors(plan, rows).values();
      if (error !== undefined) throw error;
      return plan;
    },
  };
}

/** Decodes whether a batch was allowed to delete its records; this column follows the results. */
const decodeAllowed = rowDecoder({ isAllowed: cell.flag }, 2);

/** A plan that deletes many records. */
export interface DeleteBatchPlan extends BatchPlan, ConditionalPlan {
  /** Number of times that items were rejected and the batch continued without them. */
  readonly rejections: number;
}

/**
 * Number of rejections after which the records that other items delete also prevent an item's delete. Rejecting an
 * item can cause the rejection of other items, so there could otherwise be as many rejections as items.
 */
const maxRejections = 3;

/** `DELETE /R/batch`: deletes up to 1,000 records in one statement. */
export const removeBatch: Operation<DeleteBatchPlan, BodyInput, BatchResult, Promise<DeleteBatchPlan>> = {
  method: 'DELETE',
  path: '/batch',
  action: 'delete',
  status: 200,
  isBatch: true,
  body: batchLimits,
  compile: (context) => compileRemoveBatch(context, removalOf(context.definition)),
  describe: ({ pluralName, definition, deleteRules }) => ({
    operationId: `batchDelete${pluralName}`,
    summary: `Delete many ${definition.name.replaceAll('_', ' ')}`,
    body: { description: `Up to ${formatCount(maxItems)} IDs.`, schema: 'BatchIds' },
    success: {
      description: `The result for each record, in request order. ${
        definition.trash
          ? `Deleted records are moved to the trash, where they can be restored for ${daysText(definition.trash)}.`
          : deleteRules.cascade.length === 0
            ? 'References to deleted records are set to null.'
            : `The batch also deletes ${dependentsText(deleteRules)}. Other references to deleted records are set to null.`
      }`,
      schema: 'BatchResults',
    },
  }),
};

/** Compiles the operation that removes many records. @param max the maximum number of records */
function compileRemoveBatch(
  context: OperationContext,
  removal: Removal,
  max = maxItems,
): ReturnType<typeof removeBatch.compile> {
  const table = itemTable([]);
  const rules = deleteRulesOf(context.definition.name, context.referrers, removal);
  const isGuarded = hasDeleteRules(rules);
  const { bind } = prepareBatch<BatchPlan>(($) => {
    organizationOf($);
    const lockedItems = lockedItemsSql(
      context,
      `${visibleSql(context, 'delete', $)} and ${record}."id" = ${itemId}`,
      'update',
    );
    const found = `${visibleSql(context, 'delete', $)} and ${record}."id" = _f."id"`;
    const deletion = isGuarded
      ? deletionSql(context, rules, $, {
          source: `${tableOf(context)} ${record} join _found _f on ${found}`,
          condition: allFoundSql($),
        })
      : `_written as (${removalSql(rules, tableOf(context), '_found _f', `${found}${allFoundSql($)}`)} returning ${record}.*)${clearReferencesSql(
          context,
          rules,
          $,
          {
            deletedFrom: () => '_written',
            deletedRows: (resource) => (resource === context.definition.name ? '_found' : undefined),
          },
        )}${effectsOf(context, rules.removal, $, { name: '_written', isMany: true })}`;
    const results = [`select _f._n, ${successSql(200, '_f."id"')} from _found _f`, missingResults($)];
    const isAllowed = isGuarded ? ', (exists (select from _allowed))::text' : '';
    return `with ${table.expression($)}, ${lockedItems}, ${deletion} select ${resultsSql($, results)}, ${missingIndexes}${isAllowed}`;
  });
  const explanation = isGuarded ? explainDeletes(context, rules, table, errors.notFound()) : undefined;
  return {
    plan: async (input) => {
      const plan = await batchPlan(input, envelopeOf(input, 'ids', { max }), {
        table,
        location: (number) => `ids[${number - 1}]`,
        read: (value) => {
          const id = idOf(value);
          if (id === undefined) throw errors.invalidItem(`must be ${fieldTypes.int64.expected}`);
          return { id, body: {} };
        },
        key: ({ id }) => String(id),
        sameKey: errors.invalidItem('appears several times'),
      });
      return { ...plan, conditions: undefined, rejections: 0 };
    },
    statement: bind,
    result: batchResult,
    ...(explanation === undefined && { retryable: isReferenceConflict }),
    ...(explanation && {
      rejection: {
        isRejected: (_, [row = []]) => !decodeAllowed(row).isAllowed,
        statement: (plan) =>
          explanation.statement.bind({ ...plan, isSeparate: plan.rejections >= maxRejections }),
        remaining: (plan, rows) => {
          const failures = explanation.errors(plan, rows);
          const rejections = plan.rejections + Number(failures.size > 0);
          return withFailures({ ...plan, rejections }, failures);
        },
      } satisfies ExplainRejection<DeleteBatchPlan>,
    }),
    splitter: splitterOf<DeleteBatchPlan>(bind),
  };
}

/** Compiles the operation that deletes up to `max` records, or moves them to the trash. */
export const compileRemoveMany = (
  context: OperationContext,
  max: number,
): ReturnType<typeof removeBatch.compile> => compileRemoveBatch(context, removalOf(context.definition), max);

/** Compiles the operation that deletes many records from the trash. */
export const compilePurgeBatch = (context: OperationContext): ReturnType<typeof removeBatch.compile> => ({
  ...compileRemoveBatch({ ...context, trashed: 'only' }, 'purge'),
  violation: violations(context),
});
