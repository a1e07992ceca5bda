import type { FieldIssue } from '../errors.ts';
import { type ParsedQuery, parseQuery, type Query, queryClauses, queryShape } from '../query/index.ts';
import { type Prepared, prepare, record, type Statement } from '../sql/index.ts';
import type { OperationContext, OperationPlan } from './operation.ts';
import { statementsByShape } from './projected-columns.ts';
import { visibleSql } from './rows.ts';
import { type ById, byIdSql, tableOf } from './statements.ts';

/** The filters of a resource's list, for use on records outside the list. */
export interface Matching {
  /** Names of the filter parameters. */
  readonly parameters: readonly string[];
  /** Parses filters and adds their issues to `issues`. */
  readonly parse: (query: Query, issues: FieldIssue[]) => ParsedQuery;
  /** Returns a statement that selects a row if the record matches. */
  readonly statement: (plan: MatchPlan) => Statement;
  /** Returns a statement that selects the IDs of matching records in ascending order, up to a limit. */
  readonly findStatement: (plan: FindPlan) => Statement;
}

/** The plan for checking whether a record matches filters. */
interface MatchPlan extends OperationPlan, ById {
  readonly parsedQuery: ParsedQuery;
}

/** The plan for finding records that match filters. */
interface FindPlan extends OperationPlan {
  readonly parsedQuery: ParsedQuery;
  readonly limit: number;
}

/** Compiles a resource's filters for a single record and for all records. */
export function matching(context: OperationContext): Matching {
  const { definition } = context;
  const byShape = statementsByShape<MatchPlan>(context, 'match');
  const matchStatement = (query: ParsedQuery): Prepared<MatchPlan> =>
    byShape(queryShape(query), (name) =>
      prepare<MatchPlan>(name, 'read', ($) => {
        const { where = [] } = queryClauses(definition, query, $);
        const conditions = [byIdSql($), ...where].join(' and ');
        return `select ${record}."id"::text from ${tableOf(context)} ${record} where ${conditions}`;
      }),
    );
  const foundByShape = statementsByShape<FindPlan>(context, 'find');
  const findStatement = (query: ParsedQuery): Prepared<FindPlan> =>
    foundByShape(queryShape(query), (name) =>
      prepare<FindPlan>(name, 'read', ($) => {
        const { where = [] } = queryClauses(definition, query, $);
        const conditions = [visibleSql($), ...where].join(' and ');
        return `select ${record}."id"::text from ${tableOf(context)} ${record} where ${conditions} order by ${record}."id" limit ${$(({ limit }) => String(limit))}::int`;
      }),
    );
  return {
    parameters: definition.filters.flatMap(({ parameters }) => parameters.map(({ name }) => name)),
    parse: (query, issues) => parseQuery(definition, query, issues),
    statement: (plan) => matchStatement(plan.parsedQuery).bind(plan),
    findStatement: (plan) => findStatement(plan.parsedQuery).bind(plan),
  };
}
