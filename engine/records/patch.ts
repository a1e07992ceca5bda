import { literal } from '../sql/index.ts';
import { assign, assignIf, assignmentsOf, bodyParameters, type WriteValues } from './assignments.ts';
import { type BodyRules, bodyRules } from './body.ts';
import type { Operation, OperationContext, UpdateInput } from './operation.ts';
import { preconditionsOf } from './preconditions.ts';
import { mergePatchTypes } from './read-body.ts';
import { explainRejection } from './rejections.ts';
import { basePlan, recordId, validBody } from './requests.ts';
import { etagHeader } from './response-headers.ts';
import type { RecordResult } from './results.ts';
import { recordResult, type WriteById } from './statements.ts';
import { prepareUpdate } from './update.ts';

/** The plan for a PATCH request. */
interface PatchPlan extends WriteById, WriteValues {
  readonly caller: WriteById['caller'];
  /** Names of the writable fields in the body. */
  readonly fieldNames: readonly string[];
}

/** Returns rules that accept bodies without required fields. */
export const patchRules = ({ definition: { fields }, body }: OperationContext): BodyRules =>
  fields.some(({ required }) => required) ? bodyRules(fields, true) : body;

/** `PATCH /R/{id}`: a JSON merge patch (RFC 7396). Fields absent from the body are not changed. */
export const patch: Operation<PatchPlan, UpdateInput, RecordResult> = {
  method: 'PATCH',
  path: '/:id',
  action: 'update',
  status: 200,
  responseHeaders: etagHeader,
  body: { types: mergePatchTypes },
  compile: (context) => {
    const { definition } = context;
    const rules = patchRules(context);
    const writable = definition.fields.filter(({ readOnly }) => !readOnly);
    const { statement, written } = prepareUpdate<PatchPlan>(context, `${definition.name}_patch`, ($) => {
      const names = `${$((plan) => plan.fieldNames)}::text[]`;
      return assignmentsOf(definition.fields, 'update', $, (field) =>
        // The statement is the same for any combination of fields, so that the server can reuse its plan.
        assignIf(
          `${literal(field.name)} = any(${names})`,
          assign<PatchPlan>(field, $, bodyParameters(field)),
        ),
      );
    });
    return {
      plan: (input) => {
        const body = validBody(rules, input);
        return {
          ...basePlan(input),
          body,
          fieldNames: writable.flatMap(({ name }) => (body[name] === undefined ? [] : [name])),
          conditions: preconditionsOf(context, input),
          id: recordId(context, input),
        };
      },
      statement,
      result: (plan, rows) => recordResult(context, written(plan, rows)),
      ...explainRejection<PatchPlan>(context, 'patch', ({ id, body }) => ({ id, body })),
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `patch${recordName}`,
    summary: `Change fields of ${aRecord}`,
    body: {
      description: 'The fields to change (JSON merge patch, RFC 7396). Other fields are not changed.',
      schema: `${recordName}Patch`,
    },
    success: { description: 'The updated record.', schema: recordName },
  }),
};
