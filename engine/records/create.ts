import { type Placeholder, prepare } from '../sql/index.ts';
import { assignments, type WriteValues } from './assignments.ts';
import { type IdempotentPlan, idempotentResult, idempotentStatement, lostRace } from './idempotency.ts';
import type { CreateInput, Operation, OperationContext } from './operation.ts';
import { entityTag } from './preconditions.ts';
import { explainRejection } from './rejections.ts';
import { basePlan, validBody } from './requests.ts';
import { etagHeader, locationHeader, replayedHeader } from './response-headers.ts';
import type { CreatedResult } from './results.ts';
import { organizationOf } from './rows.ts';
import { decodeWritten, effectsOf, foundRow, prepareInsert, selectResult, tableOf } from './statements.ts';

/** The plan for a POST request that creates a record. */
interface CreatePlan extends IdempotentPlan, WriteValues {
  readonly caller: IdempotentPlan['caller'];
}

/** `POST /R`: creates a record. Absent fields are set to their defaults; the server sets read-only fields. */
export const create: Operation<CreatePlan, CreateInput, CreatedResult> = {
  method: 'POST',
  path: '',
  action: 'create',
  status: 201,
  responseHeaders: { ...locationHeader, ...replayedHeader, ...etagHeader },
  compile: (context) => {
    const { definition, body } = context;
    const { name } = definition;
    const simple = prepareInsert<CreatePlan>(context, {
      name: `${name}_create`,
      action: 'create',
      change: ($, source) => {
        const { into, values } = insertion(context, $, source !== undefined);
        return `${into} ${source === undefined ? `values (${values})` : `select ${values} from ${source}`} returning *`;
      },
    });
    const idempotent = prepare<CreatePlan>(`${name}_create_once`, 'write', ($) => {
      organizationOf($);
      const { into, values } = insertion(context, $);
      const effects = effectsOf(context, 'create', $);
      return idempotentStatement($, {
        path: name,
        write: (source) => `_written as (${into} select ${values} from ${source} returning *)${effects}`,
        result: selectResult(context, '_written', ['record', 'tag', 'record_id']),
        mark: `-${context.projection.mark}`,
      });
    });
    return {
      plan: (input) => ({
        ...basePlan(input),
        body: validBody(body, input),
        idempotency: input.idempotency,
      }),
      statement: (plan) => (plan.idempotency === undefined ? simple : idempotent).bind(plan),
      result: (plan, rows) => {
        if (plan.idempotency !== undefined) return { ...idempotentResult(plan, rows), kind: 'created' };
        const { json, versions, id } = decodeWritten(foundRow(context, rows));
        return { kind: 'created', json, tag: entityTag(context, versions), id, isReplayed: false };
      },
      creates: () => 1,
      retryable: lostRace,
      ...explainRejection<CreatePlan>(context, 'create', ({ body }) => ({ id: null, body })),
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `create${recordName}`,
    summary: `Create ${aRecord}`,
    body: { schema: `${recordName}Input` },
    success: { description: 'The created record.', schema: recordName },
  }),
};

/**
 * Returns an INSERT up to its column list, and the SQL expressions for the values.
 * @param hasId whether the source provides the record's ID as "_id"
 */
function insertion(context: OperationContext, placeholder: Placeholder<CreatePlan>, hasId = false) {
  const entries = [
    ...(hasId ? [{ column: '"id"', value: '"_id"' }] : []),
    ...assignments(context.definition.fields, 'create', placeholder),
  ];
  const columns = entries.map(({ column }) => column).join(', ');
  return {
    into: `insert into ${tableOf(context)} (${columns})`,
    values: entries.map(({ value }) => value).join(', '),
  };
}
