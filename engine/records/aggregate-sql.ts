import { queryClauses } from '../query/index.ts';
import { column, type Placeholder, quote, record } from '../sql/index.ts';
import { type Group, groupOfMeasure, type Measure } from './aggregate-names.ts';
import { type AggregatePlan, havingOperators, typeOfValue } from './aggregate-request.ts';
import { callerSql } from './link-tables.ts';
import type { OperationContext } from './operation.ts';
import { visibleSql } from './rows.ts';
import { tableOf } from './statements.ts';

/** Maximum number of groups in a response. */
export const maxGroups = 1000;

/** Alias of the groups, whose columns are selected in the form used in responses. */
const groupAlias = '_a';

const timeZone = ({ timeZone }: AggregatePlan) => timeZone;

/**
 * Returns the statement that selects the groups, ordered by their values, nulls last. It selects one more group than a
 * response can contain, so that larger results are recognized.
 */
export function aggregateSql(
  context: OperationContext,
  { parsedQuery, groups, measures, having }: AggregatePlan,
  $: Placeholder<AggregatePlan>,
): string {
  // The first parameter of every statement is the organization.
  const rows = visibleSql(context, 'list', $);
  const { where = [] } = queryClauses(context.definition, parsedQuery, $, callerSql(context, $));
  const keys = groups.map((group, index) => ({
    group,
    columns: keysOf(group, $).map((sql, part) => ({ sql, name: quote(`_g${index}_${part}`) })),
  }));
  const keyColumns = keys.flatMap(({ columns }) => columns);
  const values = measures.map((measure, index) => ({
    measure,
    sql: measureSql(measure),
    name: quote(`_m${index}`),
  }));
  const selected = [...keyColumns, ...values].map(({ sql, name }) => `${sql} as ${name}`).join(', ');
  const havingConditions = having.map(({ measure, operator }, index) => {
    const [value] = typeOfValue(measure).bounds?.($((plan) => plan.having[index]?.value ?? null)) ?? [];
    return `${measureSql(measure)} ${havingOperators[operator]} ${value}`;
  });
  const groupClause =
    keyColumns.length === 0 ? '' : ` group by ${keyColumns.map((_, index) => index + 1).join(', ')}`;
  const havingClause = havingConditions.length === 0 ? '' : ` having ${havingConditions.join(' and ')}`;
  const groupRows = `select ${selected} from ${tableOf(context)} ${record} where ${[rows, ...where].join(' and ')}${groupClause}${havingClause} limit ${maxGroups + 1}`;

  const columnOf = (name: string) => `${groupAlias}.${name}`;
  const columnsOfGroup = (name: string) =>
    keys.find(({ group }) => group.name === name)?.columns.map((key) => columnOf(key.name)) ?? [];
  const output = [
    ...keys.map(({ group }) => `${groupValueSql(group, columnsOfGroup(group.name))} as ${quote(group.name)}`),
    ...values.map(({ measure, name }) => {
      const currency = groupOfMeasure(measure);
      const columns = [columnOf(name), ...(currency === undefined ? [] : columnsOfGroup(currency.name))];
      return `${measureValueSql(measure, columns)} as ${quote(measure.name)}`;
    }),
  ];
  const order =
    keyColumns.length === 0 ? '' : ` order by ${keyColumns.map(({ name }) => columnOf(name)).join(', ')}`;
  return `select ${output.join(', ')} from (${groupRows}) ${groupAlias}${order}`;
}

/** Returns SQL expressions that are equal for the records of a group. A reference to one of several resources has several. */
function keysOf({ field, period }: Group, $: Placeholder<AggregatePlan>): readonly string[] {
  if (period === undefined)
    return (field.alternatives ?? [field]).flatMap((stored) => stored.type.groupKey?.(column(stored)) ?? []);
  const local = field.type.localTime?.(column(field), () => `${$(timeZone)}::text`);
  return [`date_trunc('${period}', ${local})`];
}

/** Returns an SQL expression for a group's value in a response, or for the first day of its period. */
const groupValueSql = ({ field, period }: Group, columns: readonly string[]): string =>
  period === undefined ? (field.type.read?.(columns) ?? columns.join()) : `${columns.join()}::date`;

/** Returns an SQL expression for a measure. As in rollups, a sum of no values is 0, and averages have at most 16 decimal places. */
function measureSql({ function: combination, field }: Measure): string {
  if (field === undefined) return 'count(*)';
  const combined = `${combination}(${column(field)})`;
  if (field.type.calculated === undefined) return combined;
  if (combination === 'avg') return `trim_scale(round(${combined}, 16))`;
  const value = combination === 'sum' ? `coalesce(${combined}, 0)` : combined;
  // Equal decimals with different scales could otherwise be returned in either form.
  return field.type.operand === 'integer' ? value : `trim_scale(${value})`;
}

/**
 * Returns an SQL expression for a measure's value in a response.
 * @param columns the measure's column, and the currency's column for amounts in different currencies
 */
const measureValueSql = ({ field }: Measure, columns: readonly string[]): string =>
  field?.type.read?.(columns) ?? columns.join();
