import type { Database } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import {
  type ColumnDefinition,
  type Field,
  fieldColumns,
  hasCustomFields,
  refersToMany,
} from '../fields/index.ts';
import { farOffset, listParameters, type OperatorName, operatorOf } from '../query/index.ts';
import {
  type Caller,
  commandCaller,
  compileGrants,
  constraints,
  customFieldsTable,
  fieldGroups,
  type Grants,
  groupObject,
  groupsOf,
  measuresOf,
  operationsOf,
  type RoutedOperation,
  routedOperation,
  wildcard,
} from '../records/index.ts';
import { batchValues, cell, type Lane, literal, quote, rowDecoder, type Statement } from '../sql/index.ts';
import { insertMembersSql, userTable } from '../tables/index.ts';
import type { Resource, ResourceView } from './compile.ts';
import { sortByReferences } from './reference-order.ts';

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
/** Number of users, all of whom are members of every organization. */
const members = 1000;
/** Lanes whose statements share a connection. */
const sharedLanes: readonly Lane[] = ['read', 'list'];

/**
 * Inserts generated records into the tables of the resources, and explains every statement of their operations. Lists
 * are explained with each filter alone and with the first two filters combined. Every operation is also explained for callers
 * limited to each scope, and reads and lists for callers limited to each two scopes, except {@link omittedPairs}.
 *
 * Statements that share a connection are explained without bitmap scans: for a few hundred records, an index in order
 * and a bitmap scan with a sort cost almost the same, so that the planner's choice would be chance. Without an index
 * that provides the order, the plan still sorts or scans the table.
 * @param database an embedded scratch database, which has one connection, with empty tables
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
  for (const statement of insertMembersSql(members)) await run(statement);
  for (const resource of sortByReferences(resources)) {
    // The generated values do not meet rules.
    for (const { name } of constraints(resource.definition))
      await run(`alter table ${quote(resource.name)} drop constraint ${quote(name)}`);
    await run(insertRecordsSql(resource));
  }
  const customized = resources.filter(({ definition }) => hasCustomFields(definition));
  if (customized.length > 0) await run(insertCustomFieldsSql(customized));
  await run('analyze');
  const plans: StatementPlan[] = [];
  for (const resource of resources) {
    for await (const [request, statement] of statementsFor(resource, resources)) {
      const { lane, many } = statement;
      const isShared = sharedLanes.includes(lane);
      await run(`set enable_bitmapscan = ${isShared ? 'off' : 'on'}`);
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
        problems: isShared ? [...new Set([nodes, batchNodes].flatMap(issuesIn))] : [],
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

/** Returns descriptions of a plan's operations that are too slow for a shared connection. */
const issuesIn = (nodes: readonly PlanNode[]): string[] =>
  // A plan that reads nothing has contradictory conditions.
  nodes.some((node) => node['Relation Name'] !== undefined) ? nodes.flatMap(issuesOf) : [];

/** Returns descriptions of a plan node's operations that are too slow for a shared connection. */
function issuesOf(node: PlanNode): string[] {
  const { 'Node Type': type, 'Relation Name': table = '', 'Index Name': index } = node;
  // "Incremental Sort" is fine: it only sorts rows with equal index keys.
  if (type === 'Sort') return ['sorts'];
  if (/^(Seq|Bitmap Heap) Scan$/.test(type)) return [`reads ${table} without an order (${type})`];
  // Users do not belong to an organization, so they are found by their ID alone.
  const isUser = table === userTable && node['Index Cond'] !== undefined;
  if (index !== undefined && !isUser && node['Index Cond']?.includes('organization_id') !== true) {
    return [`reads ${index} across all organizations`];
  }
  return [];
}

/** Yields every request with a distinct statement, first for callers without limits and then for each limit. */
async function* statementsFor(
  resource: Resource,
  resources: readonly Resource[],
): AsyncGenerator<readonly [string, Statement]> {
  yield* statementsOf(resource, commandCaller('1'), operationsOf(resource.definition));
  for (const scopes of scopeSets(resource.definition)) {
    const principal = { ...userPrincipal, grants: limitedGrants(resource, scopes, resources) };
    const view = resource.viewFor(principal.grants);
    const caller = { principal, requestId: '' };
    const isIncluded = ({ action, path }: RoutedOperation['operation']) =>
      scopes.length === 1 || action === 'list' || (action === 'read' && path === '/:id');
    const label = `in the ${scopes.length === 1 ? 'scope' : 'scopes'} ${scopes.join(' and ')}`;
    for await (const [request, statement] of statementsOf(
      view,
      caller,
      operationsOf(resource.definition).filter(({ operation }) => isIncluded(operation)),
    ))
      yield [`${request} ${label}`, statement];
  }
}

/** A user for whom `me` has a value. */
const userPrincipal = { kind: 'user', actor: '1', name: '', organization: '1', user: '1' } as const;

/** Maximum number of pairs of scopes to explain. */
const maxPairs = 30;

/** Returns the names of each scope, and of each two scopes up to {@link maxPairs}. */
function scopeSets({ scopes }: ResourceDefinition): readonly (readonly string[])[] {
  const names = scopes.map(({ name }) => name);
  const pairs = names.flatMap((first, index) => names.slice(index + 1).map((second) => [first, second]));
  return [...names.map((name) => [name]), ...pairs.slice(0, maxPairs)];
}

/** Returns the number of pairs of scopes of a resource that {@link explainStatements} omits, because there are many. */
export const omittedPairs = ({ scopes: { length } }: Pick<ResourceDefinition, 'scopes'>): number =>
  Math.max(0, (length * (length - 1)) / 2 - maxPairs);

/** Returns grants that are limited to scopes of one resource, and otherwise allow everything. */
const limitedGrants = (
  { name }: Resource,
  scopes: readonly string[],
  resources: readonly Resource[],
): Grants =>
  compileGrants([
    ...scopes.map((scope) => ({ object: name, action: `${wildcard}:${scope}` })),
    ...resources.flatMap(({ name: other, definition }) => [
      ...(other === name ? [] : [{ object: other, action: wildcard }]),
      ...fieldGroups(definition).map((group) => ({ object: groupObject(other, group), action: wildcard })),
    ]),
  ]);

/** Yields every request with a distinct statement, but only one of several similar `scan` lists. */
async function* statementsOf(
  resource: ResourceView,
  caller: Caller,
  included: readonly RoutedOperation[],
): AsyncGenerator<readonly [string, Statement]> {
  const { definition, operations } = resource;
  const input = (query: Readonly<Record<string, string>>, body: Readonly<Record<string, unknown>>) => ({
    caller,
    query,
    id: '1',
    body,
  });
  const body = Object.fromEntries(
    definition.fields
      .filter((field) => field.required)
      .map((field) => {
        const [alternative] = field.alternatives ?? [];
        const reference = alternative && { resource: alternative.to, id: 1 };
        return [field.name, reference ?? field.type.examples.find((example) => example !== null) ?? 1];
      }),
  );
  const scans = new Set<string>();
  for (const { name, operation } of included) {
    const compiled = routedOperation(operations, name);
    const queries = queriesOf(resource, name, operation).filter(
      // The scopes affect only whether an index finds the records, which does not depend on the page.
      ({ page = '1' }) => resource.context.view === '' || page === '1',
    );
    for (const query of queries) {
      const sent = name === 'query' ? anyOfFilters(definition) : bodyFor(operation, body);
      const statement = compiled.statement(await compiled.plan(input(query, sent)));
      if (statement?.lane === 'scan') {
        // If no index supports the filter, the plan is the same for every order and page.
        const { sort: _, dir: __, page: ___, ...filters } = query;
        const kind = Object.keys(filters).join(' ');
        if (scans.has(kind)) continue;
        if (kind !== '') scans.add(kind);
      }
      const search = new URLSearchParams(query).toString();
      const parameters = `${search === '' ? '' : `?${search}`}${name === 'query' ? ` ${JSON.stringify(sent)}` : ''}`;
      const request = `${operation.method} ${operation.path}${parameters}`;
      if (statement !== undefined) yield [request, statement];
    }
  }
  if (!included.some(({ name }) => name === 'create')) return;
  const rejection = operations.create.rejection?.statement(operations.create.plan(input({}, body)));
  if (rejection !== undefined) yield ['why a write was rejected', rejection];
}

/** Returns a valid body for an operation. @param record a record with all required fields */
const bodyFor = (
  { isBatch, sampleBody }: Pick<RoutedOperation['operation'], 'isBatch' | 'sampleBody'>,
  record: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> =>
  sampleBody ?? (isBatch ? { records: [{ ...record, id: 1 }], ids: [1] } : record);

/** Returns the queries of an operation that have distinct statements. */
function queriesOf(
  { definition }: ResourceView,
  name: RoutedOperation['name'],
  { action, preference }: RoutedOperation['operation'],
): readonly Record<string, string>[] {
  if (name === 'aggregate') return aggregateQueries(definition);
  // Without groups, a query has the same statements as a list.
  if (name === 'query') return [{}];
  if (preference === 'bulk') return filterQueries(definition);
  const references = definition.expansion.filter(({ isList }) => !isList).map(({ name }) => name);
  // Each list is expanded alone, because several lists can require another lane.
  const lists = definition.expansion.filter(({ isList }) => isList).map(({ name }) => name);
  const projections: readonly Record<string, string>[] = [
    { fields: 'id' },
    ...(references.length > 0 ? [{ expand: references.join() }] : []),
    ...lists.map((expand) => ({ expand })),
  ];
  if (action === 'list') return [...listQueries(definition), ...projections];
  return action === 'read' ? [{}, ...projections] : [{}];
}

/** Returns queries for each group alone with the number of records, and with one measure. */
function aggregateQueries(definition: ResourceDefinition): Record<string, string>[] {
  const [, measure] = measuresOf(definition).map(({ name }) => name);
  const groups = groupsOf(definition).map(({ name }) => ({ group_by: name }));
  return [{}, ...groups].flatMap((group) => [
    group,
    ...(measure === undefined ? [] : [{ ...group, measure }]),
  ]);
}

/** Returns a query for the records that meet a condition with one of the first two filters. */
function anyOfFilters(definition: ResourceDefinition): Readonly<Record<string, unknown>> {
  const any = definition.filters.slice(0, 2).flatMap(({ name, field, parameters: [parameter] }) => {
    if (parameter === undefined) return [];
    const { operator } = parameter;
    return [{ field: name, op: operator, value: exampleValues(field, operator)[0] }];
  });
  return any.length === 0 ? {} : { where: { any } };
}

/** Returns values for a condition, one for each resource to which the field can refer. */
function exampleValues(
  { type: { element, priced, examples }, alternatives }: Field,
  operator: OperatorName,
): readonly string[] {
  const [word] = operatorOf(operator).words ?? [];
  if (word !== undefined) return [word];
  const candidates = element === undefined && priced === undefined ? examples : [];
  const example = candidates.find((value) => value !== null && value !== '') ?? 1;
  return alternatives?.map(({ to }) => `${to}/1`) ?? [String(example)];
}

/** Returns a query for each filter. */
export const filterQueries = (definition: Pick<ResourceDefinition, 'filters'>): Record<string, string>[] =>
  definition.filters.flatMap(({ field, parameters }) =>
    parameters.flatMap(({ name, operator }) =>
      exampleValues(field, operator).map((value): Record<string, string> => ({ [name]: value })),
    ),
  );

/** Returns list queries for every combination of sort field, direction, page depth and filter. */
function listQueries(definition: ResourceDefinition): Record<string, string>[] {
  const parameters = listParameters(definition);
  const filters = filterQueries(definition);
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
  // A required reference points to the record with the same sequence number, which is in the same organization.
  const fields = definition.fields.filter(
    (field) => (!field.type.refers || field.required || refersToMany(field)) && field.set !== 'id',
  );
  const columns = fields.flatMap((field) =>
    fieldColumns(field).map((column) => ({
      name: column.name,
      value: sampleValueSql(field, column, filters.has(field.name) && !field.type.refers),
    })),
  );
  return `insert into ${quote(name)} (${columns.map((column) => quote(column.name)).join(', ')})
    select ${columns.map(({ value }) => value).join(', ')}
    from generate_series(1, ${organizations * records}) n`;
}

/** Returns SQL that inserts custom fields for every organization, most of them for other resources. */
function insertCustomFieldsSql(resources: readonly Pick<Resource, 'name'>[]): string {
  const names = resources.map(({ name }) => literal(name)).join(', ');
  return `insert into ${quote(customFieldsTable)} ("organization_id", "resource", "name", "type", "options")
    select o, coalesce((array[${names}])[n], 'other_' || n), 'field', 'string', '{}'
    from generate_series(1, ${organizations}) o, generate_series(1, ${records}) n`;
}

/**
 * Returns an SQL expression that generates a value.
 * @param isFilter whether to use only a few values, so that each value matches many records
 */
const sampleValueSql = ({ set }: Field, { sample, type }: ColumnDefinition, isFilter: boolean): string => {
  if (set === 'organization') return `1 + n % ${organizations}`;
  return `(${isFilter ? sample.replace(/\bn\b/, `(n / ${organizations} % 4)`) : sample})::${type}`;
};
