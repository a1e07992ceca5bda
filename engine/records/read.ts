import { errors, type FieldIssue } from '../errors.ts';
import { type RequestedProjection, recordQuery } from '../query/index.ts';
import { inputIndex, inputs, prepare, record } from '../sql/index.ts';
import type { Operation, OperationContext, OperationPlan, OperationRequest } from './operation.ts';
import { type ConditionalPlan, parsePreconditions, unmetPrecondition } from './preconditions.ts';
import {
  authorizeExpansion,
  projectedColumns,
  selectProjection,
  statementsByShape,
} from './projected-columns.ts';
import { commonParameters, planRequest, recordId, rejectRequest, unknownParameters } from './requests.ts';
import { recordResponse, recordRow } from './responses.ts';
import { type ById, byIdSql, selectRead, selectRecord, statementName, tableOf } from './statements.ts';

/** The plan of a GET of one record. */
export interface ReadPlan extends OperationPlan, ById, ConditionalPlan {
  /** The requested projection; undefined for all fields without expansion. */
  readonly shown: RequestedProjection | undefined;
}

/** `GET /R/{id}`: the record, or 404; 304 if the caller has the current version. */
export const read: Operation<ReadPlan> = {
  method: 'GET',
  path: '/:id',
  action: 'read',
  status: 200,
  compile: (context) => {
    const { definition } = context;
    const whole = prepare<ReadPlan>(
      statementName(context, 'read'),
      'read',
      ($) => `${selectRead(context)} where ${byIdSql($)}`,
      { fields: definition.fields, additional: ['_versions'] },
      {
        write: ($) => {
          const found = `${inputs} join ${tableOf(context)} ${record} on ${byIdSql($)}`;
          const { columns, joins, versions } = context.projection;
          return ` select ${inputIndex}, ${columns}, ${versions} as "_versions" from ${found}${joins}`;
        },
        differ: 0,
      },
    );
    const byShape = statementsByShape<ReadPlan>(context, 'read');
    const partly = (shown: RequestedProjection) =>
      byShape(recordQuery.shape(shown), (name) => shownStatement(context, shown, name));
    const shaping = recordQuery.parameters(definition);
    const known = [...commonParameters, ...shaping];
    return {
      plan: (request) => {
        const problems = unknownParameters(request, known);
        const isShaped = shaping.some((name) => request.query[name] !== undefined);
        const shown = isShaped ? shownOf(context, request, problems) : undefined;
        rejectRequest(problems);
        const conditions = parsePreconditions(context, request);
        return { ...planRequest(request), conditions, shown, id: recordId(context, request) };
      },
      statement: (plan) => (plan.shown === undefined ? whole : partly(plan.shown)).bind(plan),
      readsOnly: true,
      respond: ({ conditions, shown }, rows) => {
        const [body, versions] = recordRow(context, rows);
        // A partial record has no entity tag: its bytes can change without the record's version.
        const response = shown === undefined ? recordResponse(context, rows) : { body };
        const failed =
          conditions && unmetPrecondition(conditions, shown === undefined ? versions : undefined);
        if (failed === 'match') throw errors.preconditionFailed();
        return failed === undefined ? response : { ...response, body: '', status: 304 };
      },
    };
  },
  describe: ({ definition, aRecord, recordName }) => ({
    operationId: `get${recordName}`,
    summary: `Read ${aRecord}`,
    parameters: recordQuery.describe(definition),
    success: { description: 'The record.', schema: `${recordName}Projection` },
  }),
};

/**
 * Returns the requested projection, or undefined for all fields without expansion.
 * @throws HttpError 403 for a reference to a resource that the caller cannot read
 */
function shownOf(
  { definition }: OperationContext,
  { query, caller }: OperationRequest,
  problems: FieldIssue[],
): RequestedProjection | undefined {
  const shown = recordQuery.parse(definition, query, problems);
  authorizeExpansion(caller.principal, shown);
  return shown.selection === undefined && shown.expansion.length === 0 ? undefined : shown;
}

/** Returns the statement that reads a projection of a record. */
const shownStatement = (context: OperationContext, shown: RequestedProjection, name: string) =>
  prepare<ReadPlan>(
    name,
    'read',
    ($) =>
      `${selectRecord({ projection: selectProjection(context, shown, $) }, tableOf(context))} where ${byIdSql($)}`,
    { fields: projectedColumns(context, shown) },
  );
