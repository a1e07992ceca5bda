import type { TextRows } from '../database/index.ts';
import type { FieldIssue } from '../errors.ts';
import { type Field, hasCustomFields } from '../fields/index.ts';
import {
  describeQuery,
  foreignCursorIssue,
  isGroup,
  listParameters,
  type ParsedQuery,
  parseQuery,
  type Query,
  queryClauses,
  queryShape,
} from '../query/index.ts';
import {
  type BatchForm,
  cell,
  inputIndex,
  inputs,
  type Placeholder,
  type Prepared,
  prepare,
  record,
  recordsAsJson,
  rowDecoder,
  type Statement,
} from '../sql/index.ts';
import { allows } from './access.ts';
import { authorizeExpansion, expansionIssues } from './expanded.ts';
import { exportReader } from './export.ts';
import { formatNames } from './formats.ts';
import { callerSql } from './link-tables.ts';
import { compileListParameters } from './list-parameters.ts';
import {
  compileListScope,
  decodePage,
  hasStablePlan,
  isValidCursor,
  type ListPlan,
  lastPosition,
  listColumns,
  listLane,
  neighbors,
  pageWidth,
} from './list-scope.ts';
import type { CompiledOperation, CountMode, ListInput, Operation, OperationContext } from './operation.ts';
import { statementsByShape } from './projected-columns.ts';
import { basePlan, commonParameters, rejectRequest } from './requests.ts';
import type { PageResult } from './results.ts';
import { readAccess, visibleSql } from './rows.ts';
import { tableOf } from './statements.ts';
import { trashContext, trashedParameter, withTrash } from './trash-list.ts';

/** Decodes the count in a list statement's row, which follows the page's columns. */
const decodeTotal = ({ parsedQuery }: ListPlan, row: TextRows[number]): number =>
  cell.count(row[pageWidth(parsedQuery)] ?? null);
/** Decodes the first line of PostgreSQL's query plan, which contains the estimated number of rows. */
const decodeExplained = rowDecoder({ line: cell.text });

/** Maximum number of records to count exactly when an estimate is requested. */
export const maxExactCount = 10_000;

/**
 * Returns the column with the number of records on all pages.
 * @param conditions the list's WHERE clause, without the cursor's position
 */
function totalColumn(context: OperationContext, conditions: string, counting: CountMode): string {
  const source = `from ${tableOf(context)} ${record} ${conditions}`;
  return counting === 'exact'
    ? `(select count(*) ${source})::text`
    : `(select count(*) from (select ${source} limit ${maxExactCount + 1}) _c)::text`;
}

/**
 * Returns the statement that estimates the number of records, or undefined if the list's statement counted
 * all of them.
 */
function estimate(context: OperationContext, plan: ListPlan, rows: TextRows): Statement | undefined {
  const [row] = rows;
  if (plan.counting !== 'estimated' || (row && decodeTotal(plan, row) <= maxExactCount)) return undefined;
  const { after: _, ...sort } = plan.parsedQuery.sort;
  // This statement does not use the offset, and PostgreSQL cannot infer the type of an unused parameter.
  const page = { ...plan.parsedQuery.page, depth: 'first' } as const;
  const parsedQuery = { ...plan.parsedQuery, sort, page };
  // The statement is unnamed because it rarely runs.
  const { bind } = prepare<ListPlan>('', 'scan', ($) => {
    const { where = [] } = queryClauses(context.definition, parsedQuery, $, callerSql(context, $));
    return `explain select from ${tableOf(context)} ${record} where ${[visibleSql(context, 'list', $), ...where].join(' and ')}`;
  });
  return bind(plan);
}

/** Returns the number of records on all pages, or undefined if it was not requested. */
function totalOf(plan: ListPlan, [page, explained]: TextRows): number | undefined {
  if (explained !== undefined) {
    const [, count] = /rows=(\d+)/.exec(decodeExplained(explained).line) ?? [];
    return Math.max(Number(count), maxExactCount + 1);
  }
  return plan.counting === undefined || page === undefined ? undefined : decodeTotal(plan, page);
}

/** OpenAPI description of the parameter that selects the records in the trash. */
export const trashedDescription = {
  name: trashedParameter,
  in: 'query',
  description:
    'With `true`, lists the records in the trash instead, each with `trashed_at`. Also requires the `restore` grant.',
  schema: { type: 'boolean', default: false },
};

/** `GET /R`: a page of records. */
export const list: Operation<ListPlan, ListInput, PageResult> = {
  method: 'GET',
  path: '',
  action: 'list',
  status: 200,
  responseHeaders: {
    Link: {
      description:
        'The first page (`rel="first"`), the previous page (`rel="prev"`) unless this is the first one and, if this page is full, the next page (`rel="next"`). Following `next`, and `prev` after `next`, costs the same at any depth.',
      schema: { type: 'string' },
    },
    'X-Total-Count': {
      description: 'The total number of records, with `Prefer: count=exact` or `count=estimated`.',
      schema: { type: 'integer', minimum: 0 },
    },
  },
  formats: formatNames,
  compile: (context) => {
    const compiled = compileList(context, compileUrlRequest(context));
    if (context.definition.trash === undefined) return compiled;
    const trash = trashContext(context);
    return withTrash(context, compiled, compileList(trash, compileUrlRequest(trash)));
  },
  describe: ({ definition, pluralName, recordName }) => ({
    operationId: `list${pluralName}`,
    summary: `List ${definition.name}`,
    parameters: [
      ...describeQuery(definition),
      ...(definition.trash === undefined ? [] : [trashedDescription]),
    ],
    success: { description: `A page of ${definition.name}.`, schema: `${recordName}List` },
  }),
};

/** A list's request, parsed. */
export interface ListRequest {
  readonly parsedQuery: ParsedQuery;
  /** The parameters to repeat in links to other pages. */
  readonly query: Query;
  readonly customFields: readonly Field[];
  readonly issues: FieldIssue[];
}

/** Returns a function that parses the parameters in the URL of a list. */
function compileUrlRequest({
  definition,
}: Pick<OperationContext, 'definition'>): (input: ListInput) => ListRequest {
  const readParameters = compileListParameters(definition, [
    ...commonParameters,
    ...listParameters(definition),
    ...(definition.trash === undefined ? [] : [trashedParameter]),
  ]);
  return (input) => {
    const { declarations, query, customFields, issues } = readParameters(input);
    return {
      parsedQuery: parseQuery(declarations, query, issues, input.caller.principal.phoneRegion),
      query: input.query ?? {},
      customFields,
      issues,
    };
  };
}

/** Compiles a list. @param readRequest parses the request, and adds every issue to the result's `issues` */
export function compileList<Input extends ListInput>(
  context: OperationContext,
  readRequest: (input: Input) => ListRequest,
): CompiledOperation<ListPlan, Input, PageResult> {
  const { definition } = context;
  const isCustom = hasCustomFields(definition);
  // The planner's estimate depends on the size of the table, and so on records and fields that the caller cannot see.
  const needsExactCount = ({ caller: { principal } }: ListInput) =>
    context.view !== '' ||
    (definition.trash !== undefined && !allows(principal.grants, definition, 'restore'));
  const byShape = statementsByShape<ListPlan>(context, 'list');
  const statementFor = ({ parsedQuery: query, counting }: ListPlan) =>
    // There are too many combinations of conditions to prepare a statement for each.
    query.filters.some(isGroup)
      ? listStatement(context, query, counting, '')
      : byShape(`${queryShape(query)}${counting === undefined ? '' : ` ${counting}`}`, (name) =>
          listStatement(context, query, counting, name),
        );
  const compiled: CompiledOperation<ListPlan, Input, PageResult> = {
    plan: (input) => {
      const { signing, pageSize } = input;
      const { parsedQuery: requested, query, customFields, issues } = readRequest(input);
      const parsedQuery =
        pageSize === undefined ? requested : { ...requested, page: { ...requested.page, size: pageSize } };
      const counting = input.counting === 'estimated' && needsExactCount(input) ? 'exact' : input.counting;
      authorizeExpansion(context, input.caller.principal, parsedQuery.expansion);
      issues.push(...expansionIssues(parsedQuery.expansion, pageSize ?? definition.page.size));
      rejectRequest(issues);
      const plan = {
        ...basePlan(input),
        resource: definition.name,
        view: context.view,
        ...(context.trashed && { trashed: context.trashed }),
        parsedQuery,
        query,
        ...(isCustom && { customFields }),
        signing,
        counting,
      };
      if (!isValidCursor(plan)) rejectRequest([foreignCursorIssue()]);
      return plan;
    },
    // A page beyond the maximum offset is empty and needs a statement only to count records.
    statement: (plan) =>
      plan.parsedQuery.page.offset === undefined && plan.counting === undefined
        ? undefined
        : statementFor(plan).bind(plan),
    readsOnly: readAccess(context),
    followUp: (plan, rows) => estimate(context, plan, rows),
    result: (plan, rows) => {
      const { parsedQuery } = plan;
      const row = rows[0] && decodePage(parsedQuery, rows[0]);
      const isFull = row?.count === (parsedQuery.page.size ?? definition.page.size);
      return {
        kind: 'page',
        json: row?.json ?? '',
        page: parsedQuery.sort.after?.page ?? parsedQuery.page.page,
        ...neighbors(plan, isFull ? lastPosition(parsedQuery, row) : undefined),
        total: totalOf(plan, rows),
        query: plan.query,
      };
    },
  };
  return { ...compiled, export: exportReader(context, compiled.plan) };
}

/**
 * Prepares a list's statement, which returns the records, their count, and the last record's ID and sort key.
 */
function listStatement(
  context: OperationContext,
  query: ParsedQuery,
  counting: CountMode | undefined,
  name: string,
): Prepared<ListPlan> {
  const columns = listColumns(context, query);
  const compileParts = ($: Placeholder<ListPlan>) => {
    const { conditions, page } = compileListScope(context, query, $);
    return { page, conditions };
  };

  if (counting === undefined) {
    const page = ($: Placeholder<ListPlan>) => compileParts($).page;
    const batchForm = hasStablePlan(context, query) ? listOfMany(page) : undefined;
    return prepare<ListPlan>(name, listLane(context, query), page, columns, batchForm);
  }
  // The total is required even if the page is empty, so both are returned in one row.
  return prepare<ListPlan>(name, 'scan', ($) => {
    const { page, conditions } = compileParts($);
    return `select _p.*, ${totalColumn(context, conditions, counting)} from (${recordsAsJson(page, columns)}) _p`;
  });
}

/** Returns the batch form of a list's statement, which merges lists that differ only in their values. */
const listOfMany = (page: ($: Placeholder<ListPlan>) => string): BatchForm<ListPlan> => ({
  write: ($) => ` select ${inputIndex}, _p.* from ${inputs} cross join lateral (${page($)}) _p`,
  differ: 0,
  lists: true,
});
