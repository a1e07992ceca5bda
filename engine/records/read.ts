import { errors, type FieldIssue } from '../errors.ts';
import { type RequestedProjection, recordQuery } from '../query/index.ts';
import { cell, inputIndex, inputs, prepare, record, rowDecoder } from '../sql/index.ts';
import { authorizeExpansion, expansionIssues, expansionLane } from './expanded.ts';
import type { Operation, OperationContext, OperationInput, OperationPlan, ReadInput } from './operation.ts';
import { type ConditionalPlan, entityTag, preconditionsOf, unmetPrecondition } from './preconditions.ts';
import { projectedColumns, selectProjection, statementsByShape } from './projected-columns.ts';
import { basePlan, commonParameters, recordId, rejectRequest, unknownParameters } from './requests.ts';
import { etagHeader, type RecordResult } from './results.ts';
import { readAccess } from './rows.ts';
import {
  type ById,
  byIdSql,
  decodeRecord,
  foundRow,
  selectRead,
  selectRecord,
  statementName,
  tableOf,
} from './statements.ts';

/** The plan for a GET request for one record. */
export interface ReadPlan extends OperationPlan, ById, ConditionalPlan {
  /** The requested projection; undefined for all fields without expansion. */
  readonly projection: RequestedProjection | undefined;
}

/** Decodes a partial record. */
const decodePart = rowDecoder({ json: cell.encoded });

/** `GET /R/{id}`: returns the record, or 304 if the caller has the current version. */
export const read: Operation<ReadPlan, ReadInput, RecordResult> = {
  method: 'GET',
  path: '/:id',
  action: 'read',
  status: 200,
  responseHeaders: etagHeader,
  compile: (context) => {
    const { definition } = context;
    const full = prepare<ReadPlan>(
      statementName(context, 'read'),
      'read',
      ($) => `${selectRead(context, $)} where ${byIdSql(context, 'read', $)}`,
      { fields: definition.fields, additional: ['_versions'] },
      {
        write: ($) => {
          const source = `${inputs} join ${tableOf(context)} ${record} on ${byIdSql(context, 'read', $)}`;
          const { columns, joins, versions } = context.projection;
          return ` select ${inputIndex}, ${columns}, ${versions} as "_versions" from ${source}${joins($)}`;
        },
        differ: 0,
      },
    );
    const byShape = statementsByShape<ReadPlan>(context, 'read');
    const projectedStatement = (projection: RequestedProjection) =>
      byShape(recordQuery.shape(projection), (name) => prepareProjected(context, projection, name));
    const projectionParameters = recordQuery.parameters(definition);
    const knownParameters = [...commonParameters, ...projectionParameters];
    return {
      plan: (input) => {
        const issues = unknownParameters(input, knownParameters);
        const { query } = input;
        const hasProjection =
          query !== undefined && projectionParameters.some((name) => query[name] !== undefined);
        const requested = hasProjection ? projectionOf(context, input, issues) : undefined;
        const projection = input.selection ? { selection: input.selection, expansion: [] } : requested;
        rejectRequest(issues);
        const conditions = preconditionsOf(context, input);
        return { ...basePlan(input), conditions, projection, id: recordId(context, input) };
      },
      statement: (plan) =>
        (plan.projection === undefined ? full : projectedStatement(plan.projection)).bind(plan),
      readsOnly: readAccess(context),
      result: ({ conditions, projection }, rows) => {
        const row = foundRow(context, rows);
        const { json, versions } =
          projection === undefined ? decodeRecord(row) : { ...decodePart(row), versions: undefined };
        const unmet = conditions && unmetPrecondition(conditions, versions);
        if (unmet === 'match') throw errors.preconditionFailed();
        // A partial record has no entity tag, because its text can change without a new version of the
        // record.
        const tag = versions === undefined ? undefined : entityTag(context, versions);
        return { kind: 'record', json, tag, isKnown: unmet === 'noneMatch' };
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
function projectionOf(
  context: OperationContext,
  { query = {}, caller }: OperationInput,
  issues: FieldIssue[],
): RequestedProjection | undefined {
  const projection = recordQuery.parse(context.definition, query, issues);
  authorizeExpansion(context, caller.principal, projection.expansion);
  issues.push(...expansionIssues(projection.expansion, 1));
  return projection.selection === undefined && projection.expansion.length === 0 ? undefined : projection;
}

/** Prepares the statement that reads a projection of a record. */
const prepareProjected = (context: OperationContext, projection: RequestedProjection, name: string) =>
  prepare<ReadPlan>(
    name,
    expansionLane(context, projection.expansion, 1) ?? 'read',
    ($) =>
      `${selectRecord(selectProjection(context, projection, $), tableOf(context), $)} where ${byIdSql(context, 'read', $)}`,
    { fields: projectedColumns(context, projection) },
  );
