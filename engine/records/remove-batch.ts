import { errors } from '../errors.ts';
import { fieldTypes } from '../fields/index.ts';
import { record } from '../sql/index.ts';
import {
  type BatchPlan,
  batchBytes,
  batchPlan,
  batchResponse,
  envelopeOf,
  idOf,
  splitterOf,
} from './batch.ts';
import {
  allFoundSql,
  isDeadlock,
  lockedItemsSql,
  missingIndexes,
  missingResults,
  prepareBatch,
  resultsSql,
  successSql,
} from './batch-statements.ts';
import { itemId, itemTable } from './items.ts';
import type { Operation } from './operation.ts';
import { clearReferencesSql, isReferenceConflict } from './remove.ts';
import { organizationOf, visibleSql } from './rows.ts';
import { effectsOf, tableOf } from './statements.ts';

/** `DELETE /R/batch`: deletes up to 1,000 records in one statement. */
export const removeBatch: Operation<BatchPlan, Promise<BatchPlan>> = {
  method: 'DELETE',
  path: '/batch',
  action: 'delete',
  status: 200,
  isBatch: true,
  bodyLimit: batchBytes,
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
      plan: (request) =>
        batchPlan(request, envelopeOf(request, 'ids'), {
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
      respond: batchResponse,
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
        'The result of each record, in the order of the request. References to deleted records are set to null.',
      schema: 'BatchResults',
    },
  }),
};
