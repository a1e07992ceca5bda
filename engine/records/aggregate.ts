import { sqlState, type TextRows } from '../database/index.ts';
import { aggregateParameters } from '../definition/index.ts';
import { errors, formatCount } from '../errors.ts';
import {
  conditionParameters,
  describeConditions,
  describeNames,
  isGroup,
  parameterIssue,
  parseConditions,
  parseWhere,
  queryShape,
} from '../query/index.ts';
import { cell, prepare, rowDecoder, type SelectedColumns, type Statement } from '../sql/index.ts';
import { groupsOf, measuresOf, typeOfGroup, typeOfMeasure } from './aggregate-names.ts';
import {
  type AggregatePlan,
  havingOperators,
  isHaving,
  maxNames,
  parseAggregate,
} from './aggregate-request.ts';
import { aggregateSql, maxGroups } from './aggregate-sql.ts';
import { type FormatName, formatNames, formatOf } from './formats.ts';
import { callerUser, compileListParameters } from './list-parameters.ts';
import type { CompiledOperation, ListInput, Operation, OperationContext } from './operation.ts';
import { statementsByShape } from './projected-columns.ts';
import { basePlan, commonParameters, rejectRequest } from './requests.ts';
import type { AggregateResult } from './results.ts';
import { readAccess } from './rows.ts';

/** Decodes the row that the statement returns: the groups and their number. */
const decodeGroups = rowDecoder({ json: cell.encoded, count: cell.count });

/** SQLSTATE for an invalid value of a parameter, for example an unknown time zone. */
const invalidParameterValue = '22023';

/** The input of an aggregate. */
export interface AggregateInput extends ListInput {
  /** Conditions on records, as in the body of a query, in addition to the filters among the parameters. */
  readonly where?: unknown;
}

/** `GET /R/aggregate`: counts, sums, averages, minimums and maximums of records, by groups. */
export const aggregate: Operation<AggregatePlan, AggregateInput, AggregateResult> = {
  method: 'GET',
  path: '/aggregate',
  appliesTo: ({ aggregates }) => aggregates !== undefined,
  action: 'list',
  status: 200,
  formats: formatNames,
  compile: compileAggregate,
  describe: ({ definition, pluralName, recordName }) => ({
    operationId: `aggregate${pluralName}`,
    summary: `Count and measure ${definition.name}`,
    parameters: [
      describeNames(
        'group_by',
        `Groups records by the values of up to ${maxNames} comma-separated fields, or by the periods of dates and timestamps. Groups are ordered by these values; null is last. Without it, all records form one group.`,
        groupsOf(definition).map(({ name }) => name),
      ),
      describeNames(
        'measure',
        `Comma-separated values of each group; default \`count()\`. A condition such as \`having[count()][gte]=2\` returns only groups whose measure meets it. Operators: ${Object.keys(havingOperators).join(', ')}.`,
        measuresOf(definition).map(({ name }) => name),
      ),
      {
        name: 'tz',
        in: 'query',
        description: 'IANA time zone in which the periods of timestamps start; default `UTC`.',
        schema: { type: 'string', examples: ['Europe/Berlin'] },
      },
      ...describeConditions(definition),
    ],
    success: {
      description: `The groups, at most ${maxGroups}.`,
      schema: `${recordName}Aggregates`,
      lines: `${recordName}Aggregates`,
    },
  }),
};

function compileAggregate(
  context: OperationContext,
): CompiledOperation<AggregatePlan, AggregateInput, AggregateResult> {
  const { definition } = context;
  const readParameters = compileListParameters(definition, [
    ...commonParameters,
    ...conditionParameters(definition),
    ...aggregateParameters,
  ]);
  const byShape = statementsByShape<AggregatePlan>(context, 'aggregate');
  const statementFor = (plan: AggregatePlan, format?: FormatName): Statement => {
    const compile = (name: string) =>
      prepare<AggregatePlan>(
        name,
        'aggregate',
        ($) => aggregateSql(context, plan, $),
        columnsOf(plan, format),
      );
    // There are too many combinations of conditions to prepare a statement for each.
    const prepared = plan.parsedQuery.filters.some(isGroup)
      ? compile('')
      : byShape(shapeOf(plan, format), compile);
    return prepared.bind(plan);
  };
  const planOf = (input: AggregateInput): AggregatePlan => {
    const { query = {}, where } = input;
    const { declarations, query: parameters, issues } = readParameters(input);
    const request = parseAggregate(definition, query, issues);
    const conditions = Object.entries(parameters).filter(([name]) => !isHaving(name));
    const parsedQuery = parseConditions(
      declarations,
      Object.fromEntries(conditions),
      issues,
      input.caller.principal.phoneRegion,
    );
    const { phoneRegion } = input.caller.principal;
    const conditionsOfBody =
      where === undefined
        ? []
        : parseWhere({ filters: declarations.filters, user: callerUser(input), phoneRegion, issues }, where);
    rejectRequest(issues);
    const filters = [...parsedQuery.filters, ...conditionsOfBody];
    return { ...basePlan(input), ...request, parsedQuery: { ...parsedQuery, filters } };
  };
  return {
    plan: planOf,
    statement: (plan) => statementFor(plan),
    readsOnly: readAccess(context),
    // The database server can lack a time zone that this process knows.
    violation: (cause) =>
      sqlState(cause) === invalidParameterValue
        ? errors.invalidFields([parameterIssue('tz', 'is not a time zone that the database knows')])
        : undefined,
    result: (_, rows) => ({ kind: 'aggregate', json: groupsIn(rows) }),
    export: {
      plan: planOf,
      authorizeRelated: () => {},
      begin: () => [],
      head: (plan, format) =>
        formatOf(format).head?.(columnsOf(plan, format).fields.map(({ name }) => name)) ?? '',
      statement: statementFor,
      batch: (_, rows) => (rows.length === 0 ? undefined : { bytes: groupsIn(rows), next: undefined }),
    },
  };
}

/** Returns the groups in a statement's rows. @throws HttpError 400 if there are too many */
function groupsIn([row]: TextRows): AggregateResult['json'] {
  if (row === undefined) return '';
  const { json, count } = decodeGroups(row);
  if (count > maxGroups) {
    const message = `results in more than ${formatCount(maxGroups)} groups. Add filters, or use fewer fields or longer periods.`;
    rejectRequest([parameterIssue('group_by', message)]);
  }
  return json;
}

/** Returns the values of a group in a response, in order. */
const columnsOf = ({ groups, measures }: AggregatePlan, format: FormatName | undefined): SelectedColumns => ({
  fields: [
    ...groups.map((group) => ({ name: group.name, type: typeOfGroup(group) })),
    ...measures.map((measure) => ({ name: measure.name, type: typeOfMeasure(measure) })),
  ],
  // Also returns the number of rows.
  last: [],
  ...(format !== undefined && { layout: formatOf(format).layout }),
});

/** Returns a key for everything that affects the text of an aggregate's statement. */
const shapeOf = ({ groups, measures, having, parsedQuery }: AggregatePlan, format = 'json'): string =>
  [
    format,
    groups.map(({ name }) => name).join(),
    measures.map(({ name }) => name).join(),
    having.map(({ measure, operator }) => `${measure.name} ${operator}`).join(),
    queryShape(parsedQuery),
  ].join(' ');
