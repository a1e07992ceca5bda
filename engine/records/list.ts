import type { FieldIssue } from '../errors.ts';
import {
  describeQuery,
  foreignCursorIssue,
  listParameters,
  type ParsedQuery,
  pageSize,
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
import { exporting } from './export.ts';
import { formatNames } from './formats.ts';
import { isValidCursor, type LinkedPlan, linkHeader } from './links.ts';
import { compileListScope, hasStablePlan, listColumns, listLane } from './list-scope.ts';
import type { CompiledOperation, CountMode, Operation, OperationContext } from './operation.ts';
import { authorizeExpansion, statementsByShape } from './projected-columns.ts';
import { commonParameters, planRequest, rejectRequest, unknownParameters } from './requests.ts';
import { wrapBody } from './responses.ts';
import { estimate, totalColumn, totalOf } from './total.ts';

/** The plan of a list; `asked` contains the parsed parameters of each query part. */
export interface ListPlan extends LinkedPlan {
  /** How to count the records of all pages, or undefined if they are not counted. */
  readonly counting: CountMode | undefined;
  readonly strict: boolean;
}

/** `GET /R`: a page of records. */
export const list: Operation<ListPlan> = {
  method: 'GET',
  path: '',
  action: 'list',
  status: 200,
  formats: formatNames,
  compile: (context) => {
    const { definition } = context;
    const known = [...commonParameters, ...listParameters(definition)];
    const byShape = statementsByShape<ListPlan>(context, 'list');
    const prepared = ({ asked, counting }: ListPlan) =>
      byShape(`${queryShape(asked)}${counting === undefined ? '' : ` ${counting}`}`, (name) =>
        listStatement(context, asked, counting, name),
      );
    const compiled: CompiledOperation<ListPlan> = {
      plan: (request) => {
        // Filters reject unknown names with brackets, whether the request is strict or not.
        const problems: FieldIssue[] = unknownParameters(request, known).filter(
          ({ field }) => !field.includes('['),
        );
        const asked = parseQuery(definition, request.query, problems);
        authorizeExpansion(request.caller.principal, asked);
        rejectRequest(problems);
        const { links, query, counting, strict } = request;
        const resource = definition.name;
        const plan = { ...planRequest(request), resource, asked, query, links, counting, strict };
        if (!isValidCursor(plan)) rejectRequest([foreignCursorIssue()]);
        return plan;
      },
      // A page beyond the end of any table is empty; it needs a statement only to count records.
      statement: (plan) =>
        plan.asked.page.offset === undefined && plan.counting === undefined
          ? undefined
          : prepared(plan).bind(plan),
      readsOnly: true,
      further: (plan, rows) => estimate(context, plan, rows),
      respond: (plan, rows) => {
        const [records, count, id, shown] = rows[0] ?? [];
        const { page, sort } = plan.asked;
        const number = sort.after?.page ?? page.page;
        const { toBound: place = (text: string) => text } = sort.field.type;
        const isFull = Number(count) === pageSize;
        const last = isFull
          ? { id: String(id), key: shown == null ? null : place(String(shown)) }
          : undefined;
        return {
          body: wrapBody('{"data":[', records ?? '', `],"page":${number},"per_page":${pageSize}}`),
          headers: headersOf(plan, linkHeader(plan, last), totalOf(rows)),
        };
      },
    };
    return { ...compiled, export: exporting(context, compiled.plan) };
  },
  describe: ({ definition, pluralName, recordName }) => ({
    operationId: `list${pluralName}`,
    summary: `List ${definition.name}`,
    parameters: describeQuery(definition),
    success: { description: `A page of ${definition.name}.`, schema: `${recordName}List`, headers },
  }),
};

const headers = {
  Link: {
    description:
      'The first page (`rel="first"`) and, if this page is full, the next page (`rel="next"`). Following these URLs costs the same at any depth.',
    schema: { type: 'string' },
  },
  'X-Total-Count': {
    description: 'The total number of records, with `Prefer: count=exact` or `count=estimated`.',
    schema: { type: 'integer', minimum: 0 },
  },
};

/** Returns the headers of a page. */
function headersOf(
  { counting, strict }: ListPlan,
  link: string | undefined,
  total: string | undefined,
): Readonly<Record<string, string>> {
  const applied = [...(strict ? ['handling=strict'] : []), `count=${counting}`].join(', ');
  return {
    ...(link !== undefined && { link }),
    ...(total !== undefined && { 'x-total-count': total, 'preference-applied': applied }),
  };
}

/** Returns the statement of a list: its records, their number, and the ID and sort key of the last one. */
function listStatement(
  context: OperationContext,
  asked: ParsedQuery,
  counting: CountMode | undefined,
  name: string,
): Prepared<ListPlan> {
  const selected = listColumns(context, asked);
  const parts = ($: Placeholder<ListPlan>) => {
    const { conditions, page } = compileListScope(context, asked, $);
    return { page, conditions };
  };

  if (counting === undefined) {
    const page = ($: Placeholder<ListPlan>) => parts($).page;
    const many = hasStablePlan(context, asked) ? listOfMany(page) : undefined;
    return prepare<ListPlan>(name, listLane(context, asked), page, selected, many);
  }
  // The total is required even if the page is empty, so the database returns both in one row.
  return prepare<ListPlan>(name, 'scan', ($) => {
    const { page, conditions } = parts($);
    return `select _p.*, ${totalColumn(context, conditions, counting)} from (${recordsAsJson(page, selected)}) _p`;
  });
}

/** Combines lists that differ only in their values. @param page the statement of one list */
const listOfMany = (page: ($: Placeholder<ListPlan>) => string): BatchForm<ListPlan> => ({
  write: ($) => ` select ${inputIndex}, _p.* from ${inputs} cross join lateral (${page($)}) _p`,
  differ: 0,
  lists: true,
});
