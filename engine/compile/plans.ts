import type { Database } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, fieldColumns } from '../fields/index.ts';
import { listParameters, pageSize, recordQuery } from '../query/index.ts';
import {
  type Action,
  grantMasks,
  type OperationRequest,
  routedOperations,
  wildcard,
} from '../records/index.ts';
import { type Lane, literal, quote, type Statement, valuesOfMany } from '../sql/index.ts';
import type { Resource } from './compile.ts';

/** A statement, and how the database runs it. */
export interface StatementPlan {
  readonly resource: string;
  /** The request, such as `GET ?sort=name&page=2`. */
  readonly request: string;
  readonly lane: Lane;
  /** The indexes that it reads, in the order of the plan. */
  readonly indexes: readonly string[];
  /** What a statement that shares its connection must not do; empty for all other lanes. */
  readonly problems: readonly string[];
}

/** Records of each organization, and organizations, in a filled database. */
const [records, organizations] = [2000, 5];
const sharing: readonly Lane[] = ['read', 'list'];

/**
 * Fills the empty tables of the resources with made-up records, and explains every statement that they can make. Where
 * there are many filters, each alone and the first two together.
 * @param database has the tables, without a row; what is in it is of no use for anything else
 */
export async function explainStatements(
  resources: readonly Resource[],
  database: Database,
): Promise<StatementPlan[]> {
  const run = (text: string, values: Statement['values'] = []) => database.run({ name: '', text, values });
  const explained = async ({ text, values }: Pick<Statement, 'text' | 'values'>) => {
    const [row] = await run(`explain (format json) ${text}`, values);
    const [{ Plan: plan }] = JSON.parse(String(row?.[0])) as [{ Plan: PlanNode }];
    return flat(plan);
  };
  for (let id = 1; id <= organizations; id++) {
    await run(`insert into "crm_organizations" ("slug", "name") values (${literal(`o${id}`)}, '')`);
  }
  for (const resource of resources) await run(filling(resource));
  await run('analyze');
  const found: StatementPlan[] = [];
  for (const resource of resources) {
    for await (const [request, statement] of statementsOf(resource)) {
      const { lane, many } = statement;
      const nodes = await explained(statement);
      // What comes at the same time may be one statement.
      const ofMany =
        many === undefined
          ? []
          : await explained({ text: many.text, values: valuesOfMany([statement, statement]) });
      found.push({
        resource: resource.name,
        request,
        lane,
        indexes: [...new Set(nodes.flatMap((node) => node['Index Name'] ?? []))],
        problems: sharing.includes(lane) ? [...new Set([...nodes, ...ofMany].flatMap(problemsOf))] : [],
      });
    }
  }
  return found;
}

/** A node of a plan as EXPLAIN gives it. */
interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly Plans?: readonly PlanNode[];
}

const flat = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flat)];

function problemsOf(node: PlanNode): string[] {
  const { 'Node Type': type, 'Relation Name': table = '', 'Index Name': index } = node;
  // An incremental sort puts in order what has the same beginning, as it comes from the index.
  if (type === 'Sort') return ['sorts'];
  if (/^(Seq|Bitmap Heap) Scan$/.test(type)) return [`reads ${table} without an order (${type})`];
  if (index !== undefined && node['Index Cond']?.includes('organization_id') !== true) {
    return [`reads ${index} of all organizations`];
  }
  return [];
}

/** Every request that makes a statement of its own, and its statement; of lists in the lane `scan` one of a kind. */
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
      const request = requestOf(query, operation.path === '' ? undefined : '1', bodyFor(operation, body));
      const statement = compiled.statement(await compiled.plan(request));
      if (statement?.lane === 'scan') {
        // Lists with a filter that no index gives are alike, whatever their order and page.
        const { sort: _, dir: __, page: ___, ...filters } = query;
        const kind = Object.keys(filters).join(' ');
        if (scans.has(kind)) continue;
        if (kind !== '') scans.add(kind);
      }
      const shown = new URLSearchParams(query).toString();
      const name = `${operation.method} ${operation.path}${shown === '' ? '' : `?${shown}`}`;
      if (statement !== undefined) yield [name, statement];
    }
  }
  const refused = operations.create.rejection?.statement(
    operations.create.plan(requestOf({}, undefined, body)),
  );
  if (refused !== undefined) yield ['why a write was refused', refused];
}

const everyGrant = grantMasks([{ object: wildcard, action: wildcard }]);
/** A body that an operation takes. @param record with every required field */
const bodyFor = ({ path }: { readonly path: string }, record: Readonly<Record<string, unknown>>) =>
  path === '/batch' ? { records: [{ ...record, id: 1 }], ids: [1] } : record;

const requestOf = (
  query: Readonly<Record<string, string>>,
  id: string | undefined,
  body: Readonly<Record<string, unknown>>,
): OperationRequest => ({
  caller: {
    principal: {
      kind: 'command',
      actor: null,
      name: null,
      organization: '1',
      user: null,
      grants: everyGrant,
    },
    requestId: '',
  },
  query,
  strict: false,
  id,
  headers: {},
  body: () => body,
  bytes: () => Buffer.alloc(0),
});

/** Pages that have statements of their own. */
const pages = ['1', '2', '6', String(10_000 / pageSize + 1)];

/** The queries of an operation that make statements of their own. */
function queriesOf({ definition }: Resource, action: Action): readonly Record<string, string>[] {
  const shaping = recordQuery.parameters(definition);
  const shapes: readonly Record<string, string>[] = [
    { fields: 'id' },
    ...(shaping.includes('expand') ? [{ expand: definition.expansion.map(({ name }) => name).join() }] : []),
  ];
  if (action === 'list') return [...listQueries(definition), ...shapes];
  return action === 'read' ? [{}, ...shapes] : [{}];
}

/** Every order, direction and depth of a list, with each filter. */
function listQueries(definition: ResourceDefinition): Record<string, string>[] {
  const known = listParameters(definition);
  const byName = new Map(definition.fields.map((field) => [field.name, field]));
  const filters = known.flatMap((parameter) => {
    const field = byName.get(parameter.replace(/\[.*/, ''));
    const example = parameter.endsWith('[is_null]')
      ? true
      : (field?.type.examples.find((each) => each !== null && each !== '') ?? 1);
    return field === undefined ? [] : [{ [parameter]: String(example) }];
  });
  const both = filters.length > 1 ? [{ ...filters[0], ...filters[1] } as Record<string, string>] : [];
  const orders: Record<string, string>[] = known.includes('sort')
    ? [...definition.sort.choices.keys()].flatMap((sort) => ['asc', 'desc'].map((dir) => ({ sort, dir })))
    : [{}];
  return [{}, ...filters, ...both].flatMap((filter) =>
    orders.flatMap((order) => pages.map((page) => ({ ...order, ...filter, page }))),
  );
}

/** SQL of made-up values by the type of a column; `n` counts the records. */
const values: Readonly<Record<string, string>> = {
  text: `'value ' || n`,
  bigint: 'n',
  integer: 'n',
  numeric: 'n',
  boolean: 'n % 2 = 0',
  timestamptz: `now() - n * interval '1 minute'`,
  date: `date '2020-01-01' + n % 1000`,
};

/** Inserts records of every organization. */
function filling({ name, definition }: Resource): string {
  const filters = new Set(definition.filters.map(({ field }) => field.name));
  const filled = definition.fields.filter((field) => !field.type.refers && field.set !== 'id');
  const columns = filled.flatMap((field) =>
    fieldColumns(field).map((column) => ({
      name: column.name,
      value: madeUp(field, column.type, filters.has(field.name)),
    })),
  );
  return `insert into ${quote(name)} (${columns.map((column) => quote(column.name)).join(', ')})
    select ${columns.map(({ value }) => value).join(', ')}
    from generate_series(1, ${organizations * records}) n`;
}

/** @param isFilter such fields have few values, so that one is that of many records */
const madeUp = ({ set, name, type }: Field, column: string, isFilter: boolean): string => {
  if (set === 'organization') return `1 + n % ${organizations}`;
  const value = values[column];
  if (value === undefined) throw new Error(`no made-up ${column} for ${name} (${type.expected})`);
  return `(${isFilter ? value.replace(/\bn\b/, `(n / ${organizations} % 4)`) : value})::${column}`;
};
