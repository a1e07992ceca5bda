import { assignments, type WriteValues } from './assignments.ts';
import { keepingHidden } from './link-tables.ts';
import type { Operation, UpdateInput } from './operation.ts';
import { preconditionsOf } from './preconditions.ts';
import { explainRejection } from './rejections.ts';
import { basePlan, recordId, validBody } from './requests.ts';
import { etagHeader, type RecordResult } from './results.ts';
import { prepareUpdate, recordResult, type WriteById } from './statements.ts';

/** The plan for a PUT request. */
export interface ReplacePlan extends WriteById, WriteValues {
  readonly caller: WriteById['caller'];
}

/**
 * `PUT /R/{id}`: sets every writable field as POST with the same body would. Read-only fields are not
 * changed.
 */
export const replace: Operation<ReplacePlan, UpdateInput, RecordResult> = {
  method: 'PUT',
  path: '/:id',
  action: 'update',
  status: 200,
  responseHeaders: etagHeader,
  compile: (context) => {
    const { definition, body } = context;
    const { statement, written } = prepareUpdate<ReplacePlan>(context, 'replace', ($) =>
      assignments(definition, 'update', $, (field, writes) =>
        keepingHidden(field, context.resources, $, writes),
      ),
    );
    return {
      plan: (input) => ({
        ...basePlan(input),
        body: validBody(body, input, definition, 'replace'),
        conditions: preconditionsOf(context, input),
        id: recordId(context, input),
      }),
      statement,
      result: (plan, rows) => recordResult(context, written(plan, rows)),
      ...explainRejection<ReplacePlan>(context, 'replace', ({ id, body }) => ({ id, body })),
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `replace${recordName}`,
    summary: `Replace ${aRecord}`,
    body: {
      description: 'All writable fields. An absent field is set to its default.',
      schema: `${recordName}Input`,
    },
    success: { description: 'The updated record.', schema: recordName },
  }),
};
