import type { Database } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { type ColumnDefinition, type Field, fieldColumns } from '../fields/index.ts';
import { listParameters, operatorOf, recordQuery } from '../query/index.ts';
import { type Action, commandCaller, type EveryInput, routedOperations } from '../records/index.ts';
import { batchValues, cell, type Lane, literal, quote, rowDecoder, type Statement } from '../sql/index.ts';
import type { Resource } from './compile.ts';

/** A statement and its query plan. */
export interface StatementPlan {
  readonly resource: string;
  /** The request, for example `GET ?sort=name&page=2`. */
  readonly request: string;
  readonly lane: Lane;
  /** Indexes read by the statement, in plan order. */
  readonly indexes: readonly string[];
  /** Plan operations that are too slow for a shared connection. Empty if the lane does not share a connection. */
  readonly problems: readonly string[];
}

const decodeExplained = rowDecoder({ json: cell.text });

/** Number of records per organization, and number of organizations. */
const [records, organizations] = [2000, 5];
/** Lanes whose statements share a connection. */
const sharedLanes: readonly Lane[] = ['read', 'list'];

/**
 * Inserts generated records into the tables of the resources, and explains every statement of their operations. Lists
 * are explained with each filter alone and with the first two filters combined.
 * @param database a scratch database with empty tables
 */
export async function explainStatements(
  resources: readonly Resource[],
  database: Database,
): Promise<StatementPlan[]> {
  const run = (text: string, values: Statement['values'] = []) => database.run({ name: '', text, values });
  const explain = async ({ text, values }: Pick<Statement, 'text' | 'values'>) => {
    const [row] = await run(`explain (format json) ${text}`, values);
    const [{ Plan: plan }] = JSON.parse(decodeExplained(row ?? []).json) as [{ Plan: PlanNode }];
    return flatten(plan);
  };
  for (let id = 1; id <= organizations; id++) {
    await run(`insert into "crm_organizations" ("slug", "name") values (${literal(`o${id}`)}, '')`);
  }
  for (const resource of resources) await run(insertRecordsSql(resource));
  await run('analyze');
  const plans: StatementPlan[] = [];
  for (const resource of resources) {
    for await (const [request, statement] of statementsOf(resource)) {
      const { lane, many } = statement;
      const nodes = await explain(statement);
      // The statements of concurrent requests can be combined into one.
      const batchNodes =
        many === undefined
          ? []
          : await explain({ text: many.text, values: batchValues([statement, statement]) });
      plans.push({
        resource: resource.name,
        request,
        lane,
        indexes: [...new Set(nodes.flatMap((node) => node['Index Name'] ?? []))],
        problems: sharedLanes.includes(lane) ? [...new Set([...nodes, ...batchNodes].flatMap(issuesOf))] : [],
      });
    }
  }
  return plans;
}

/** A node of the plan returned by EXPLAIN. */
interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly Plans?: readonly PlanNode[];
}

/** Returns a node and its descendants. */
const flatten = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flatten)];

/** Returns descriptions of a plan node's operations that are too slow for a shared connection. */
function issuesOf(node: PlanNode): string[] {
  const { 'Node Type': type, 'Relation Name': table = '', 'Index Name': index } = node;
  // "Incremental Sort" is fine: it only sorts rows with equal index keys.
  if (type === 'Sort') return ['sorts'];
  if (/^(Seq|Bitmap Heap) Scan$/.test(type)) return [`reads ${table} without an order (${type})`];
  if (index !== undefined && node['Index Cond']?.includes('organization_id') !== true) {
    return [`reads ${index} across all organizations`];
  }
  return [];
}

/** Yields every request with a distinct statement, but only one of several similar `scan` lists. */
async function* statementsOf(resource: Resource): AsyncGenerator<readonly [string, Statement]> {
  const { definition, operations } = resource;
  const body = Object.fromEntries(
    definition.fields
      .filter((field) => field.required)
      .map((field) => [field.name, field.type.examples.find((example) => example !== null)]),
  );
  const scans = new Set<string>();
  for (const { operation, compiled } of routedOperations(operations)) {
    const queries = queriesOf(resource, operation.action);
    for (const query of queries) {
      const statement = compiled.statement(await compiled.plan(inputOf(query, bodyFor(operation, body))));
      if (statement?.lane === 'scan') {
        // If no index supports the filter, the plan is the same for every order and page.
        const { sort: _, dir: __, page: ___, ...filters } = query;
        const kind = Object.keys(filters).join(' ');
        if (scans.has(kind)) continue;
        if (kind !== '') scans.add(kind);
      }
      const search = new URLSearchParams(query).toString();
      const name = `${operation.method} ${operation.path}${search === '' ? '' : `?${search}`}`;
      if (statement !== undefined) yield [name, statement];
    }
  }
  const rejection = operations.create.rejection?.statement(operations.create.plan(inputOf({}, body)));
  if (rejection !== undefined) yield ['why a write was rejected', rejection];
}

/** Returns a valid body for an operation. @param record a record with all required fields */
const bodyFor = (
  { isBatch }: { readonly isBatch?: true },
  record: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> => (isBatch ? { records: [{ ...record, id: 1 }], ids: [1] } : record);

const inputOf = (
  query: Readonly<Record<string, string>>,
  body: Readonly<Record<string, unknown>>,
): EveryInput => ({ caller: commandCaller('1'), query, id: '1', body });

/** Number of records that precede a very distant page. */
const farOffset = 10_000;

/** Returns the queries of an operation that have distinct statements. */
function queriesOf({ definition }: Resource, action: Action): readonly Record<string, string>[] {
  const projectionParameters = recordQuery.parameters(definition);
  const projections: readonly Record<string, string>[] = [
    { fields: 'id' },
    ...(projectionParameters.includes('expand')
      ? [{ expand: definition.expansion.map(({ name }) => name).join() }]
      : []),
  ];
  if (action === 'list') return [...listQueries(definition), ...projections];
  return action === 'read' ? [{}, ...projections] : [{}];
}

/** Returns list queries for every combination of sort field, direction, page depth and filter. */
function listQueries(definition: ResourceDefinition): Record<string, string>[] {
  const parameters = listParameters(definition);
  const filters = definition.filters.flatMap(({ field, parameters }) =>
    parameters.map(({ name, operator }): Record<string, string> => {
      const example = field.type.examples.find((value) => value !== null && value !== '') ?? 1;
      return { [name]: operatorOf(operator).words?.[0] ?? String(example) };
    }),
  );
  const combination = filters.length > 1 ? [{ ...filters[0], ...filters[1] } as Record<string, string>] : [];
  const orders: Record<string, string>[] = parameters.includes('sort')
    ? [...definition.sort.choices.keys()].flatMap((sort) => ['asc', 'desc'].map((dir) => ({ sort, dir })))
    : [{}];
  // Pages with distinct statements: the first page, an early page, a deep page and a very distant page.
  const pages = ['1', '2', '6', String(Math.ceil(farOffset / definition.page.size) + 1)];
  return [{}, ...filters, ...combination].flatMap((filter) =>
    orders.flatMap((order) => pages.map((page) => ({ ...order, ...filter, page }))),
  );
}

/** Returns SQL that inserts records for every organization. */
function insertRecordsSql({ name, definition }: Resource): string {
  const filters = new Set(definition.filters.map(({ field }) => field.name));
  const fields = definition.fields.filter((field) => !field.type.refers && field.set !== 'id');
  const columns = fields.flatMap((field) =>
    fieldColumns(field).map((column) => ({
      name: column.name,
      value: sampleValueSql(field, column, filters.has(field.name)),
    })),
  );
  return `insert into ${quote(name)} (${columns.map((column) => quote(column.name)).join(', ')})
    select ${columns.map(({ value }) => value).join(', ')}
    from generate_series(1, ${organizations * records}) n`;
}

/**
 * Returns an SQL expression that generates a value.
 * @param isFilter whether to use only a few values, so that each value matches many records
 */
const sampleValueSql = ({ set }: Field, { sample, type }: ColumnDefinition, isFilter: boolean): string => {
  if (set === 'organization') return `1 + n % ${organizations}`;
  return `(${isFilter ? sample.replace(/\bn\b/, `(n / ${organizations} % 4)`) : sample})::${type}`;
};
