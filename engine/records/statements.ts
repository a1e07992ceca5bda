import type { WriteAction } from '../effects/index.ts';
import { type Placeholder, quote, record } from '../sql/index.ts';
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

/** The part of a statement that returns records as JSON: the columns and their sources. */
export const selectRecord = ({ projection }: OperationContext, source: string): string =>
  `select ${projection.columns} from ${source} ${record}${projection.joins}`;

/** Wraps a write and its effects in a statement that returns the record as JSON, and its id. */
export function writeStatement(
  context: OperationContext,
  action: WriteAction,
  write: string,
  placeholder: Placeholder<Plan>,
): string {
  return `with _written as (${write} returning *)${effectsOf(context, action, placeholder)} select row_to_json(_r)::text, _r."id"::text from (${selectRecord(context, '_written')}) _r`;
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
