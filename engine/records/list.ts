import type { FieldIssue } from '../errors.ts';
import {
  describeQuery,
  foreignCursorIssue,
  listParameters,
  type ParsedQuery,
  parseQuery,
  queryShape,
} from '../query/index.ts';
import {
  type BatchForm,
  inputIndex,
  inputs,
  type Placeholder,
  type Prepared,
  prepare,
  recordsAsJson,
} from '../sql/index.ts';
import { exportReader } from './export.ts';
import { formatNames } from './formats.ts';
import { isValidCursor, type LinkedPlan, linkHeader } from './links.ts';
import { compileListScope, hasStablePlan, listColumns, listLane } from './list-scope.ts';
import type { CompiledOperation, CountMode, Operation, OperationContext } from './operation.ts';
import { authorizeExpansion, statementsByShape } from './projected-columns.ts';
import { commonParameters, planRequest, rejectRequest, unknownParameters } from './requests.ts';
import { wrapBody } from './responses.ts';
import { estimate, totalColumn, totalOf } from './total.ts';

/** The plan for a list request. */
export interface ListPlan extends LinkedPlan {
  /** How to count the records on all pages; undefined if they are not counted. */
  readonly counting: CountMode | undefined;
  readonly strict: boolean;
}

/** `GET /R`: a page of records. */
export const list: Operation<ListPlan> = {
  method: 'GET',
  path: '',
  action: 'list',
  status: 200,
  responseHeaders: {
    Link: {
      description:
        'The first page (`rel="first"`) and, if this page is full, the next page (`rel="next"`). Following these URLs costs the same at any depth.',
      schema: { type: 'string' },
    },
    'X-Total-Count': {
      description: 'The total number of records, with `Prefer: count=exact` or `count=estimated`.',
      schema: { type: 'integer', minimum: 0 },
    },
  },
  formats: formatNames,
  compile: (context) => {
    const { definition } = context;
    const knownParameters = [...commonParameters, ...listParameters(definition)];
    const byShape = statementsByShape<ListPlan>(context, 'list');
    const statementFor = ({ parsedQuery: query, counting }: ListPlan) =>
      byShape(`${queryShape(query)}${counting === undefined ? '' : ` ${counting}`}`, (name) =>
        listStatement(context, query, counting, name),
      );
    const compiled: CompiledOperation<ListPlan> = {
      plan: (request) => {
        // Filters always reject unknown parameters with brackets, so these issues are reported elsewhere.
        const issues: FieldIssue[] = unknownParameters(request, knownParameters).filter(
          ({ field }) => !field.includes('['),
        );
        const parsedQuery = parseQuery(definition, request.query, issues);
        authorizeExpansion(request.caller.principal, parsedQuery);
        rejectRequest(issues);
        const { links, query, counting, strict } = request;
        const resource = definition.name;
        const plan = { ...planRequest(request), resource, parsedQuery, query, links, counting, strict };
        if (!isValidCursor(plan)) rejectRequest([foreignCursorIssue()]);
        return plan;
      },
      // A page beyond the maximum offset is empty and needs a statement only to count records.
      statement: (plan) =>
        plan.parsedQuery.page.offset === undefined && plan.counting === undefined
          ? undefined
          : statementFor(plan).bind(plan),
      readsOnly: true,
      followUp: (plan, rows) => estimate(context, plan, rows),
      respond: (plan, rows) => {
        const [records, count, id, key] = rows[0] ?? [];
        const { page, sort } = plan.parsedQuery;
        const pageNumber = sort.after?.page ?? page.page;
        const { toBound = (text: string) => text } = sort.field.type;
        const isFull = Number(count) === definition.page.size;
        const last = isFull ? { id: String(id), key: key == null ? null : toBound(String(key)) } : undefined;
        return {
          body: wrapBody(
            '{"data":[',
            records ?? '',
            `],"page":${pageNumber},"per_page":${definition.page.size}}`,
          ),
          headers: headersOf(plan, linkHeader(plan, last), totalOf(rows)),
        };
      },
    };
    return { ...compiled, export: exportReader(context, compiled.plan) };
  },
  describe: ({ definition, pluralName, recordName }) => ({
    operationId: `list${pluralName}`,
    summary: `List ${definition.name}`,
    parameters: describeQuery(definition),
    success: { description: `A page of ${definition.name}.`, schema: `${recordName}List` },
  }),
};

/** Returns the headers of a page. */
function headersOf(
  { counting, strict }: ListPlan,
  link: string | undefined,
  total: string | undefined,
): Readonly<Record<string, string>> {
  const preferences = [...(strict ? ['handling=strict'] : []), `count=${counting}`].join(', ');
  return {
    ...(link !== undefined && { link }),
    ...(total !== undefined && { 'x-total-count': total, 'preference-applied': preferences }),
  };
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

/** Returns the batch form of a list's statement, for lists that differ only in their values. */
const listOfMany = (page: ($: Placeholder<ListPlan>) => string): BatchForm<ListPlan> => ({
  write: ($) => ` select ${inputIndex}, _p.* from ${inputs} cross join lateral (${page($)}) _p`,
  differ: 0,
  lists: true,
});
