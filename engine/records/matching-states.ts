import type { TextRows } from '../database/index.ts';
import type { Field } from '../fields/index.ts';
import { conditionFields, type ParsedQuery, queryClauses, queryShape } from '../query/index.ts';
import { cell, type Prepared, prepare, quote, record, rowDecoder, type Statement } from '../sql/index.ts';
import { withBefore } from './changes.ts';
import {
  type ChangeInput,
  type ChangePlan,
  changePlanOf,
  loggedFieldsSql,
  rowsAtPosition,
} from './history.ts';
import { callerSql } from './link-tables.ts';
import type { OperationContext } from './operation.ts';
import { statementsByShape } from './projected-columns.ts';
import { isLogged } from './projection.ts';
import { imageValue } from './visible-changes.ts';

/** A resource's list filters, for the states of records before and after a change. */
export interface MatchingStates {
  /** Returns the fields of filters that cannot be evaluated on earlier states of a record. */
  readonly unsupported: (query: ParsedQuery) => readonly Field[];
  /** @throws HttpError 404 if the position is not valid */
  readonly plan: (input: ChangeInput, query: ParsedQuery) => StatesPlan;
  /** Returns a statement that reads a change. The filters must be supported. */
  readonly statement: (plan: StatesPlan) => Statement;
  /** Returns undefined if the caller cannot see the change or the change log no longer contains it. */
  readonly result: (rows: TextRows) => MatchingResult | undefined;
}

/** The plan for checking which states of a record match filters. */
interface StatesPlan extends ChangePlan {
  readonly parsedQuery: ParsedQuery;
}

/** Whether a record matched filters before and after a change. A record that does not exist never matches. */
export interface MatchingResult {
  readonly before: boolean;
  readonly after: boolean;
}

const decodeResult = rowDecoder({ before: cell.flag, after: cell.flag });

/** Compiles a resource's filters for the states of records in the change log. */
export function matchingStates(context: OperationContext): MatchingStates {
  const { definition } = context;
  const byShape = statementsByShape<StatesPlan>(context, 'match_states');
  const statementOf = (query: ParsedQuery): Prepared<StatesPlan> =>
    byShape(queryShape(query), (name) =>
      prepare<StatesPlan>(name, 'deep', ($) => {
        const fields = new Set(conditionFields(query.filters));
        const matches = (image: string): string => {
          const values = [...fields].map(
            (field) => `${imageValue(field, image).value} as ${quote(field.name)}`,
          );
          const { where = [] } = queryClauses(definition, query, $, callerSql(context, $));
          // The alias stands for the state, so that the filters' conditions apply to it.
          return `(${[`${image} is not null`, `exists (select from (select ${values.join(', ')}) ${record} where ${where.join(' and ') || 'true'})`].join(' and ')})::text`;
        };
        return `select ${matches('_s."before"')}, ${matches('_s."after"')} ${withBefore(rowsAtPosition(context, $), loggedFieldsSql(definition), ' offset 0')}`;
      }),
    );
  const plan = changePlanOf(context);
  return {
    unsupported: ({ filters }) => conditionFields(filters).filter((field) => !isEvaluable(field, definition)),
    plan: (input, parsedQuery) => ({ ...plan(input), parsedQuery }),
    statement: (states) => statementOf(states.parsedQuery).bind(states),
    result: ([row]) => row && decodeResult(row),
  };
}

/** Returns whether filters by a field can be evaluated on a state in the change log, which contains a single value of it. */
const isEvaluable = (field: Field, { fields }: OperationContext['definition']): boolean =>
  fields.some(({ name }) => name === field.name) &&
  isLogged(field) &&
  [field.custom, field.computed, field.alternatives, field.type.element, field.type.currency].every(
    (property) => property === undefined,
  ) &&
  (field.type.fromText !== undefined || field.type.refers === true || field.type.users === true);
