import type { FieldProblem } from '../errors.ts';
import { type Asked, parseQuery, type Query, queryClauses, queryShape } from '../query/index.ts';
import { type Prepared, prepare, record, type Statement } from '../sql/index.ts';
import type { OperationContext, Plan } from './operation.ts';
import { visible } from './rows.ts';
import { statementsByShape } from './shown.ts';
import { type ById, identified, tableOf } from './statements.ts';

/** The filters of a resource's list, asked of one record. */
export interface Matching {
  /** Names of the parameters that are filters. */
  readonly parameters: readonly string[];
  /** Reads filters; adds everything that is wrong to `problems`. */
  readonly parse: (query: Query, problems: FieldProblem[]) => Asked;
  /** Selects a row if the record meets them. */
  readonly statement: (plan: MatchPlan) => Statement;
  /** Selects the ids of the records that meet them, the lowest first, at most so many. */
  readonly found: (plan: FindPlan) => Statement;
}

/** Whether a record meets filters. */
export interface MatchPlan extends Plan, ById {
  readonly asked: Asked;
}

/** Which records meet filters. */
export interface FindPlan extends Plan {
  readonly asked: Asked;
  readonly most: number;
}

/** Compiles the filters of a resource for one record at a time, and for all. */
export function matching(context: OperationContext): Matching {
  const { definition } = context;
  const byShape = statementsByShape<MatchPlan>(context, 'match');
  const prepared = (asked: Asked): Prepared<MatchPlan> =>
    byShape(queryShape(asked), (name) =>
      prepare<MatchPlan>(name, 'read', ($) => {
        const { where = [] } = queryClauses(definition, asked, $);
        const conditions = [identified($), ...where].join(' and ');
        return `select ${record}."id"::text from ${tableOf(context)} ${record} where ${conditions}`;
      }),
    );
  const foundByShape = statementsByShape<FindPlan>(context, 'find');
  const finding = (asked: Asked): Prepared<FindPlan> =>
    foundByShape(queryShape(asked), (name) =>
      prepare<FindPlan>(name, 'read', ($) => {
        const { where = [] } = queryClauses(definition, asked, $);
        const conditions = [visible($), ...where].join(' and ');
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
