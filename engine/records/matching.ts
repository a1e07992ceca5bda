import type { FieldIssue } from '../errors.ts';
import { type ParsedQuery, parseQuery, type Query, queryClauses, queryShape } from '../query/index.ts';
import { type Prepared, prepare, record, type Statement } from '../sql/index.ts';
import type { OperationContext, OperationPlan } from './operation.ts';
import { statementsByShape } from './projected-columns.ts';
import { visibleSql } from './rows.ts';
import { type ById, byIdSql, tableOf } from './statements.ts';

/** The filters of a resource's list, applied to one record. */
export interface Matching {
  /** Names of the filter parameters. */
  readonly parameters: readonly string[];
  /** Parses filters; adds all issues to `problems`. */
  readonly parse: (query: Query, problems: FieldIssue[]) => ParsedQuery;
  /** Selects a row if the record matches. */
  readonly statement: (plan: MatchPlan) => Statement;
  /** Selects the IDs of matching records in ascending order, up to a limit. */
  readonly found: (plan: FindPlan) => Statement;
}

/** Returns whether a record matches filters. */
export interface MatchPlan extends OperationPlan, ById {
  readonly asked: ParsedQuery;
}

/** Returns the records that match filters. */
export interface FindPlan extends OperationPlan {
  readonly asked: ParsedQuery;
  readonly most: number;
}

/** Compiles a resource's filters, for a single record and for all records. */
export function matching(context: OperationContext): Matching {
  const { definition } = context;
  const byShape = statementsByShape<MatchPlan>(context, 'match');
  const prepared = (asked: ParsedQuery): Prepared<MatchPlan> =>
    byShape(queryShape(asked), (name) =>
      prepare<MatchPlan>(name, 'read', ($) => {
        const { where = [] } = queryClauses(definition, asked, $);
        const conditions = [byIdSql($), ...where].join(' and ');
        return `select ${record}."id"::text from ${tableOf(context)} ${record} where ${conditions}`;
      }),
    );
  const foundByShape = statementsByShape<FindPlan>(context, 'find');
  const finding = (asked: ParsedQuery): Prepared<FindPlan> =>
    foundByShape(queryShape(asked), (name) =>
      prepare<FindPlan>(name, 'read', ($) => {
        const { where = [] } = queryClauses(definition, asked, $);
        const conditions = [visibleSql($), ...where].join(' and ');
        return `select ${record}."id"::text from ${tableOf(context)} ${record} where ${conditions} order by ${record}."id" limit ${$(({ most }) => String(most))}::int`;
      }),
    );
  return {
    parameters: definition.filters.flatMap(({ parameters }) => parameters.map(({ name }) => name)),
    parse: (query, problems) => parseQuery(definition, query, problems),
    statement: (plan) => prepared(plan.asked).bind(plan),
    found: (plan) => finding(plan.asked).bind(plan),
  };
}
