import { fieldTypes } from '../fields/index.ts';
import { record } from '../sql/index.ts';
import { assignIf, assignmentsOf } from './assignments.ts';
import {
  type BatchPlan,
  batchBytes,
  batchPlan,
  batchResponse,
  envelopeOf,
  idOf,
  objectOf,
  splitterOf,
  withFailures,
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
  updateItems,
} from './batch-statements.ts';
import { itemId } from './items.ts';
import type { Operation } from './operation.ts';
import { patchRules } from './patch.ts';
import { createRejectionFinder } from './rejections.ts';
import { rejectRequest } from './requests.ts';
import { organizationOf, visibleSql } from './rows.ts';

/**
 * `PATCH /R/batch`: updates up to 1,000 records in one statement. Each item contains its ID and the fields to
 * change.
 */
export const patchBatch: Operation<BatchPlan, Promise<BatchPlan>> = {
  method: 'PATCH',
  path: '/batch',
  action: 'update',
  status: 200,
  isBatch: true,
  bodyLimit: batchBytes,
  compile: (context) => {
    const { definition, items: table } = context;
    const { fields } = definition;
    const rules = patchRules(context);
    const { bind } = prepareBatch<BatchPlan>(($) => {
      organizationOf($);
      const assignments = assignmentsOf(fields, 'update', $, (field) =>
        assignIf(table.hasField(field), table.assignments(field)),
      );
      const lockedItems = lockedItemsSql(context, `${visibleSql($)} and ${record}."id" = ${itemId}`);
      const write = updateItems(context, assignments, $, '_written', allFoundSql($));
      const results = [`select _f._n, ${successSql(200, '_f."id"')} from _found _f`, missingResults($)];
      return `with ${table.expression($)}, ${lockedItems}, ${write} select ${resultsSql($, results)}, ${missingIndexes}`;
    });
    const finder = createRejectionFinder(definition, table, 'patch');
    return {
      plan: (request) =>
        batchPlan(request, envelopeOf(request, 'records'), {
          table,
          location: (number) => `records[${number - 1}]`,
          read: (value) => {
            const body = objectOf(value);
            const id = idOf(body.id);
            const unexpected = request.strict ? rules.unexpected(body) : [];
            rejectRequest([
              ...(id === undefined
                ? [{ field: 'id', message: `id must be ${fieldTypes.int64.expected}` }]
                : []),
              ...unexpected.filter(({ field }) => field !== 'id'),
              ...rules.validate(body),
            ]);
            return { id: id ?? null, body };
          },
          key: ({ id }) => String(id),
        }),
      statement: bind,
      respond: batchResponse,
      retryable: isDeadlock,
      splitter: splitterOf<BatchPlan>(bind),
      rejection: {
        statement: (plan) => finder.statement?.bind(plan),
        remaining: (plan, rows) => withFailures(plan, finder.errors(plan, rows)),
      },
    };
  },
  describe: ({ recordName, pluralName, definition }) => ({
    operationId: `batchPatch${pluralName}`,
    summary: `Change fields of many ${definition.name.replaceAll('_', ' ')}`,
    body: {
      description:
        'Up to 1,000 records, 8 MiB, each with its `id` and the fields to change. Other fields are not changed.',
      schema: `${recordName}BatchPatch`,
    },
    success: {
      description: 'The result of each record, in the order of the request.',
      schema: 'BatchResults',
    },
  }),
};
