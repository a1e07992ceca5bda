import { foreignKeyViolation, sqlState } from '../database/index.ts';
import { errors } from '../errors.ts';
import { fieldTypes } from '../fields/index.ts';
import { cell, type Placeholder, quote, record } from '../sql/index.ts';
import {
  allFoundSql,
  type BatchPlan,
  batchLimits,
  batchPlan,
  batchResult,
  envelopeOf,
  idOf,
  isDeadlock,
  lockedItemsSql,
  missingIndexes,
  missingResults,
  prepareBatch,
  resultsSql,
  splitterOf,
  successSql,
} from './batch.ts';
import { itemId, itemTable } from './items.ts';
import type { BodyInput, Operation, OperationContext, OperationPlan, RecordInput } from './operation.ts';
import { preconditionsOf } from './preconditions.ts';
import { basePlan, commonParameters, recordId, rejectRequest, unknownParameters } from './requests.ts';
import type { BatchResult, DeletedResult } from './results.ts';
import { organizationOf, type RowScope, visibleSql } from './rows.ts';
import { effectsOf, type JoinInputs, prepareById, tableOf, type WriteById } from './statements.ts';

/**
 * Returns whether a delete was rejected because of a concurrently written reference. A retry will clear that
 * reference.
 */
const isReferenceConflict = (cause: unknown): boolean => sqlState(cause) === foreignKeyViolation;

/** Column that the statement returns for a deleted record. */
const deletedColumns = { marker: cell.text };

/** `DELETE /R/{id}`: deletes the record and sets references to it to null. */
export const remove: Operation<WriteById, RecordInput, DeletedResult> = {
  method: 'DELETE',
  path: '/:id',
  action: 'delete',
  status: 200,
  compile: (context) => {
    const table = tableOf(context);
    const { statement, written } = prepareById(context, deletedColumns, {
      name: `${context.definition.name}_delete`,
      action: 'delete',
      // If records refer to records of the same resource, a batch could both update and delete a record in
      // one statement, which PostgreSQL does not support.
      isAlone: context.referrers.some(({ resource }) => resource === context.definition.name),
      change: (_, source, condition) =>
        `delete from ${table} ${record}${source === undefined ? '' : ` using ${source}`} where ${condition} returning ${record}.*`,
      additional: ($: Placeholder<WriteById>, join) => clearReferencesSql(context, $, { join }),
      result: (first = '', join = '') => `select ${first}1 from _written ${record}${join}`,
    });
    return {
      plan: (input) => {
        rejectRequest(unknownParameters(input, commonParameters));
        const conditions = preconditionsOf(context, input);
        return { ...basePlan(input), conditions, id: recordId(context, input) };
      },
      statement,
      retryable: isReferenceConflict,
      result: (plan, rows) => {
        written(plan, rows);
        return { kind: 'deleted' };
      },
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `delete${recordName}`,
    summary: `Delete ${aRecord}`,
    success: { description: 'The record was deleted. References to it were set to null.', schema: 'Deleted' },
  }),
};

/** Options of {@link clearReferencesSql}. */
interface ClearOptions {
  readonly join?: JoinInputs | undefined;
  /**
   * An expression with the IDs of records that the statement deletes. These records are skipped, because a
   * statement cannot also update them.
   */
  readonly deletedRows?: string;
}

/**
 * Returns the common table expressions that set references to records deleted by `_written` to null, and run
 * the effects of the updates. Foreign keys only reject remaining references. If they cleared references
 * instead, the change log would be incomplete.
 */
const clearReferencesSql = (
  { definition, referrers, effects, projections }: OperationContext,
  $: Placeholder<RowScope & Pick<OperationPlan, 'caller'>>,
  { join, deletedRows }: ClearOptions,
): string =>
  [...Map.groupBy(referrers, ({ resource }) => resource)]
    .map(([resource, references], index) => {
      const name = `_unlinked_${index}`;
      const row = `r${index}`;
      const table = quote(resource);
      const sameOrganization = (alias: string) =>
        join === undefined ? visibleSql($, alias) : `${alias}."organization_id" = _written."organization_id"`;
      const exclusion =
        deletedRows === undefined || resource !== definition.name
          ? ''
          : ` and not exists (select from ${deletedRows} _d where _d."id" = ${row}."id")`;
      const bound = sameOrganization(row);
      const [firstColumn, ...otherColumns] = references.map(({ field }) => `${row}.${quote(field)}`);
      const update = `update ${table} ${row} set ${references.map(({ field }) => `${quote(field)} = ${otherColumns.length === 0 ? 'null' : `case when exists (select from _written where ${bound} and _written."id" = ${row}.${quote(field)}) then null else ${row}.${quote(field)} end`}`).join(', ')}`;
      // A record can refer to deleted records through several fields, but a statement can update it only
      // once.
      const referenceRows = [firstColumn, ...otherColumns].map(
        (field) =>
          `select ${row}."organization_id", ${row}."id", _written."id" as "_cause" from ${table} ${row} join _written on ${bound} and ${field} = _written."id"`,
      );
      const updates =
        otherColumns.length === 0
          ? `${update} from _written where ${bound} and ${firstColumn} = _written."id"${exclusion} returning ${row}.*, _written."id" as "_cause"`
          : `${update} from (${referenceRows.join(' union all ')}) _f where ${row}."organization_id" = _f."organization_id" and ${row}."id" = _f."id"${exclusion} returning ${row}.*, _f."_cause"`;
      const projection = projections.get(resource);
      if (projection === undefined) throw new Error(`Unknown resource ${resource}`);
      const target = { definition: { name: resource }, effects, projection };
      const ofInput = join && ((alias: string) => join(alias, '_cause'));
      return `, ${name} as (${updates})${effectsOf(target, 'update', $, { name }, ofInput)}`;
    })
    .join('');

/** `DELETE /R/batch`: deletes up to 1,000 records in one statement. */
export const removeBatch: Operation<BatchPlan, BodyInput, BatchResult, Promise<BatchPlan>> = {
  method: 'DELETE',
  path: '/batch',
  action: 'delete',
  status: 200,
  isBatch: true,
  body: batchLimits,
  compile: (context) => {
    const table = itemTable([]);
    const { bind } = prepareBatch<BatchPlan>(($) => {
      organizationOf($);
      const lockedItems = lockedItemsSql(
        context,
        `${visibleSql($)} and ${record}."id" = ${itemId}`,
        'update',
      );
      const where = `${visibleSql($)} and ${record}."id" = _f."id"${allFoundSql($)}`;
      const write = `_written as (delete from ${tableOf(context)} ${record} using _found _f where ${where} returning ${record}.*)${clearReferencesSql(context, $, { deletedRows: '_found' })}${effectsOf(context, 'delete', $)}`;
      const results = [`select _f._n, ${successSql(200, '_f."id"')} from _found _f`, missingResults($)];
      return `with ${table.expression($)}, ${lockedItems}, ${write} select ${resultsSql($, results)}, ${missingIndexes}`;
    });
    return {
      plan: (input) =>
        batchPlan(input, envelopeOf(input, 'ids'), {
          table,
          location: (number) => `ids[${number - 1}]`,
          read: (value) => {
            const id = idOf(value);
            if (id === undefined) throw errors.invalidItem(`must be ${fieldTypes.int64.expected}`);
            return { id, body: {} };
          },
          key: ({ id }) => String(id),
          sameKey: errors.invalidItem('appears several times'),
        }),
      statement: bind,
      result: batchResult,
      retryable: (cause) => isDeadlock(cause) || isReferenceConflict(cause),
      splitter: splitterOf<BatchPlan>(bind),
    };
  },
  describe: ({ pluralName, definition }) => ({
    operationId: `batchDelete${pluralName}`,
    summary: `Delete many ${definition.name.replaceAll('_', ' ')}`,
    body: { description: 'Up to 1,000 IDs.', schema: 'BatchIds' },
    success: {
      description:
        'The result for each record, in request order. References to deleted records are set to null.',
      schema: 'BatchResults',
    },
  }),
};
