import { assignments, type WriteValues } from './assignments.ts';
import type { Operation } from './operation.ts';
import { parsePreconditions } from './preconditions.ts';
import { explainRejection } from './rejections.ts';
import { planRequest, recordId, validBody } from './requests.ts';
import { etagHeader } from './response-headers.ts';
import { recordResponse } from './responses.ts';
import type { WriteById } from './statements.ts';
import { prepareUpdate } from './update.ts';

/** The plan for a PUT request. */
export interface ReplacePlan extends WriteById, WriteValues {
  readonly caller: WriteById['caller'];
}

/**
 * `PUT /R/{id}`: sets every writable field as POST with the same body would. Read-only fields are not
 * changed.
 */
export const replace: Operation<ReplacePlan> = {
  method: 'PUT',
  path: '/:id',
  action: 'update',
  status: 200,
  responseHeaders: etagHeader,
  compile: (context) => {
    const { definition, body } = context;
    const statement = prepareUpdate<ReplacePlan>(context, `${definition.name}_replace`, ($) =>
      assignments(definition.fields, 'update', $),
    );
    return {
      plan: (request) => ({
        ...planRequest(request),
        body: validBody(body, request),
        conditions: parsePreconditions(context, request),
        id: recordId(context, request),
      }),
      statement,
      respond: (_, rows) => recordResponse(context, rows),
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
