import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { FieldProblem } from '../errors.ts';
import {
  type Asked,
  describeQuery,
  listParameters,
  pageSize,
  parseQuery,
  queryClauses,
  queryCost,
  queryShape,
} from '../query/index.ts';
import { identifier, type Prepared, prepare, record } from '../sql/index.ts';
import { isIndexed } from './indexes.ts';
import type { Operation, OperationContext, Plan } from './operation.ts';
import { commonParameters, planOf, refuse, unknownParameters } from './requests.ts';
import { around } from './responses.ts';
import { visible } from './rows.ts';
import { selectRecord, tableOf } from './statements.ts';

/** GET of a list. */
export interface ListPlan extends Plan {
  /** The parsed parameters of each query part. */
  readonly asked: Asked;
}

/** Statements kept for one resource; the least recently used is dropped and prepared again when needed. */
const maxShapes = 500;

/** `GET /R`: a page of records. */
export const list: Operation<ListPlan> = {
  method: 'GET',
  path: '',
  action: 'list',
  status: 200,
  compile: (context) => {
    const { definition } = context;
    const known = [...commonParameters, ...listParameters(definition)];
    const prepared = listStatements(context);
    return {
      plan: (request) => {
        const problems: FieldProblem[] = unknownParameters(request, known);
        const asked = parseQuery(definition, request.query, problems);
        refuse(problems);
        return { ...planOf(request), asked };
      },
      // A page beyond the end of any table is empty without a statement.
      statement: (plan) =>
        plan.asked.page.offset === undefined ? undefined : prepared(plan.asked).bind(plan),
      respond: ({ asked }, rows) => ({
        body: around('{"data":[', rows[0]?.[0] ?? '', `],"page":${asked.page.page},"per_page":${pageSize}}`),
      }),
    };
  },
  describe: ({ definition, pluralName, recordName }) => ({
    operationId: `list${pluralName}`,
    summary: `List ${definition.name}`,
    parameters: describeQuery(definition),
    success: { description: `A page of ${definition.name}.`, schema: `${recordName}List` },
  }),
};

/** The statements of lists by shape, each prepared when it is first needed. */
function listStatements(context: OperationContext): (asked: Asked) => Prepared<ListPlan> {
  const made = new LRUCache<string, Prepared<ListPlan>>({ max: maxShapes });
  return (asked) => {
    const shape = queryShape(asked);
    const known = made.get(shape);
    if (known !== undefined) return known;
    // The same shape has the same name on every node and after every restart.
    const hash = createHash('sha256').update(shape).digest('hex').slice(0, 16);
    const prepared = listStatement(context, asked, identifier(`${context.definition.name}_list_${hash}`));
    made.set(shape, prepared);
    return prepared;
  };
}

/** The statement of a list. */
const listStatement = (context: OperationContext, asked: Asked, name: string): Prepared<ListPlan> =>
  prepare<ListPlan>(
    name,
    laneOf(context, asked),
    ($) => {
      const { definition, projection } = context;
      const table = tableOf(context);
      const rows = visible($);
      const { where = [], order = [], limit, offset, keysFirst } = queryClauses(definition, asked, $);
      const conditions = `where ${[rows, ...where].join(' and ')}`;
      const ordered = `order by ${order.join(', ')}`;
      const paged = `limit ${limit}${offset === undefined ? '' : ` offset ${offset}::bigint`}`;
      const gathered = findsFirst(asked);
      // OFFSET 0 keeps the planner from walking the order instead, which reads every record that does not match.
      const found = gathered
        ? `(select ${record}.* from ${table} ${record} ${conditions} offset 0) ${record}`
        : `${table} ${record} ${conditions}`;
      return keysFirst || gathered
        ? `select ${projection.columns} from (select ${record}."id" from ${found} ${ordered} ${paged}) k join ${table} ${record} on ${rows} and ${record}."id" = k."id"${projection.joins} ${ordered}`
        : `${selectRecord(context, table)} ${conditions} ${ordered} ${paged}`;
    },
    context.definition,
  );

/** Whether an index finds the records, but not in the order of the list: they are gathered, then sorted. */
function findsFirst(asked: Asked): boolean {
  const { find, gather, sort } = queryCost(asked);
  return gather || find.some((field) => field !== sort);
}

/** Whether an index gives the page without reading the organization's other records, and how much of the index. */
function laneOf({ definition }: OperationContext, asked: Asked): 'list' | 'deep' | 'scan' {
  const { equal, find, sort, scan } = queryCost(asked);
  const inOrder = find.every((field) => field === sort);
  if (scan || !inOrder || !isIndexed(definition, equal, sort)) return 'scan';
  return asked.page.depth === 'deep' ? 'deep' : 'list';
}
