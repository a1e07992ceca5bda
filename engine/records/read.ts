import { errors, type FieldProblem } from '../errors.ts';
import { recordQuery, type Shown } from '../query/index.ts';
import { inputNumber, inputs, prepare, record } from '../sql/index.ts';
import { type Conditional, conditionsOf, unmet } from './conditions.ts';
import type { Operation, OperationContext, OperationRequest, Plan } from './operation.ts';
import { commonParameters, planOf, recordId, refuse, unknownParameters } from './requests.ts';
import { foundRow, recordResponse } from './responses.ts';
import { permitExpansion, selectShown, shownColumns, statementsByShape } from './shown.ts';
import { type ById, identified, selectRead, selectRecord, statementName, tableOf } from './statements.ts';

/** GET of one record. */
export interface ReadPlan extends Plan, ById, Conditional {
  /** What to show of it; undefined: all of its fields, and nothing else. */
  readonly shown: Shown | undefined;
}

/** `GET /R/{id}`: the record, or 404; 304 if the caller has it as it is. */
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
      ($) => `${selectRead(context)} where ${identified($)}`,
      { fields: definition.fields, further: ['_versions'] },
      {
        write: ($) => {
          const found = `${inputs} join ${tableOf(context)} ${record} on ${identified($)}`;
          const { columns, joins, versions } = context.projection;
          return ` select ${inputNumber}, ${columns}, ${versions} as "_versions" from ${found}${joins}`;
        },
        differ: 0,
      },
    );
    const byShape = statementsByShape<ReadPlan>(context, 'read');
    const partly = (shown: Shown) =>
      byShape(recordQuery.shape(shown), (name) => shownStatement(context, shown, name));
    const shaping = recordQuery.parameters(definition);
    const known = [...commonParameters, ...shaping];
    return {
      plan: (request) => {
        const problems = unknownParameters(request, known);
        const isShaped = shaping.some((name) => request.query[name] !== undefined);
        const shown = isShaped ? shownOf(context, request, problems) : undefined;
        refuse(problems);
        const conditions = conditionsOf(context, request);
        return { ...planOf(request), conditions, shown, id: recordId(context, request) };
      },
      statement: (plan) => (plan.shown === undefined ? whole : partly(plan.shown)).bind(plan),
      readsOnly: true,
      respond: ({ conditions, shown }, rows) => {
        const [body, versions] = foundRow(context, rows);
        // What is shown in part has no tag: its bytes may change without the record's version.
        const response = shown === undefined ? recordResponse(context, rows) : { body };
        const failed = conditions && unmet(conditions, shown === undefined ? versions : undefined);
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
 * What a request asks to see of the record; undefined if that is all of it and nothing else.
 * @throws HttpError 403 for a reference to what the caller may not read
 */
function shownOf(
  { definition }: OperationContext,
  { query, caller }: OperationRequest,
  problems: FieldProblem[],
): Shown | undefined {
  const shown = recordQuery.parse(definition, query, problems);
  permitExpansion(caller.principal, shown);
  return shown.selection === undefined && shown.expansion.length === 0 ? undefined : shown;
}

/** The statement that reads what is shown of a record. */
const shownStatement = (context: OperationContext, shown: Shown, name: string) =>
  prepare<ReadPlan>(
    name,
    'read',
    ($) =>
      `${selectRecord({ projection: selectShown(context, shown, $) }, tableOf(context))} where ${identified($)}`,
    { fields: shownColumns(context, shown) },
  );
