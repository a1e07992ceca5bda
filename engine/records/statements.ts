import type { WriteAction } from '../effects/index.ts';
import { identifier, type Placeholder, prepare, quote, record, type Statement } from '../sql/index.ts';
import { type Conditional, meetsSql } from './conditions.ts';
import type { OperationContext, Plan } from './operation.ts';
import { type Scope, visible } from './rows.ts';

/** A plan about one record. */
export interface ById extends Scope {
  /** Decimal text. */
  readonly id: string;
}

const id = ({ id }: ById) => id;

/** The condition that finds the record of a plan. */
export const identified = (placeholder: Placeholder<ById>): string =>
  `${visible(placeholder)} and ${record}."id" = ${placeholder(id)}::bigint`;

/**
 * The part of a statement that returns a record's columns, and further ones.
 * @param further each with a name, and beginning with a comma
 */
export const selectRecord = ({ projection }: OperationContext, source: string, further = ''): string =>
  `select ${projection.columns}${further} from ${source} ${record}${projection.joins}`;

/** Wraps a write and its effects in a statement that returns the record as JSON, its versions and its id. */
export function writeStatement(
  context: OperationContext,
  action: WriteAction,
  write: string,
  placeholder: Placeholder<Plan>,
): string {
  return `with _written as (${write} returning *)${effectsOf(context, action, placeholder)} ${selectResult(context, '_written')}`;
}

/** The part of a statement that returns a record's columns, and its versions as "_versions". */
export const selectRead = (context: OperationContext): string =>
  selectRecord(context, tableOf(context), `, ${context.projection.versions} as "_versions"`);

/**
 * The part of a statement that returns one record as JSON, its versions and its id, each as text.
 * @param names of the three columns
 */
export const selectResult = (
  { projection }: OperationContext,
  source: string,
  [json, versions, id]: readonly [string, string, string] = ['record', 'versions', 'id'],
): string =>
  `select row_to_json(_r)::text as ${quote(json)}, ${projection.versions} as ${quote(versions)}, ${record}."id"::text as ${quote(id)} from ${source} ${record}${projection.joins} cross join lateral (select ${projection.columns}) _r`;

/** A plan that writes one record, under the conditions of its request. */
export interface WriteById extends Plan, ById, Conditional {}

/**
 * Prepares a write of one record: one statement without conditions, and one that checks them where it writes, so that
 * no other write comes between.
 * @param columns how many the statement returns
 * @param write the statement, with the condition that finds the record
 */
export function prepareById<P extends WriteById>(
  context: OperationContext,
  name: string,
  columns: number,
  write: (placeholder: Placeholder<P>, where: string) => string,
): (plan: P) => Statement {
  const unconditional = prepare<P>(identifier(name), 'write', ($) => write($, identified($)));
  const checked = prepare<P>(identifier(`${name}_if`), 'write', ($) => {
    const statement = write($, `${identified($)} and ${meetsSql(context, $)}`);
    // A row of nulls: the record is there and was not written.
    const nulls = Array(columns).fill('null').join(', ');
    return `${statement} union all select ${nulls} from ${tableOf(context)} ${record} where ${identified($)} and not exists (select from _written)`;
  });
  return (plan) => (plan.conditions === undefined ? unconditional : checked).bind(plan);
}

/** The further expressions of a statement that writes; each begins with a comma. */
export const effectsOf = (
  { definition, effects }: Pick<OperationContext, 'definition' | 'effects'>,
  action: WriteAction,
  placeholder: Placeholder<Plan>,
): string =>
  effects
    .filter((effect) => effect.on.includes(action))
    .map((effect) => `, ${effect.expression({ resource: definition.name, action, placeholder })}`)
    .join('');

/** The quoted table of a resource. */
export const tableOf = ({ definition }: Pick<OperationContext, 'definition'>): string =>
  quote(definition.name);
