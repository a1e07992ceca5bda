import type { ResourceDefinition } from '../definition/index.ts';
import { errors, type HttpError } from '../errors.ts';
import type { Field, Transitions } from '../fields/index.ts';
import { column, literal, type Placeholder, quote, record } from '../sql/index.ts';
import { raisedSql, raisedText } from './raised.ts';
import { type CallerScope, scopesSql } from './rows.ts';

/** Prefix of the text that fails to be an integer if a write makes a transition that is not allowed. */
const invalidPrefix = 'invalid transition';

const listSql = (values: readonly string[]): string => `array[${values.map(literal).join(', ')}]::text[]`;

/** What the condition of a write depends on, apart from the field. */
interface WriteContext {
  readonly verb: 'create' | 'update';
  /** The resource's scopes, to which transitions can be limited. */
  readonly scopes: ResourceDefinition['scopes'];
  readonly placeholder: Placeholder<CallerScope>;
}

/**
 * Returns an SQL expression for a value that a write assigns to a field. It fails if the field cannot change to the value.
 * The condition is part of the write, which evaluates it on the latest version of the record, so that concurrent writes
 * cannot skip a value.
 */
export function allowedValue(field: Field, value: string, context: WriteContext): string {
  const { transitions, values, default: none, name } = field;
  if (transitions === undefined || values === undefined) return value;
  const states = listSql(values.list);
  const positionOf = (text: string) => `coalesce(array_position(${states}, ${text}), 0)`;
  const stored = context.verb === 'create' ? undefined : `${record}.${quote(name)}`;
  const next = stored === undefined ? '' : nextSql(transitions, stored, context);
  const condition =
    stored === undefined
      ? isInitialSql(transitions, value, none)
      : `(${stored} is not distinct from ${value} or ${value} = any(${next}))`;
  const from = stored === undefined ? "'-'" : positionOf(stored);
  // Which values are allowed depends on the caller.
  const allowed =
    stored === undefined || transitions.scopes === undefined
      ? ''
      : ` || ' ' || array_to_string(array(select array_position(${states}, _v) from unnest(${next}) _v), ',')`;
  const failure = `${raisedSql(`${literal(`${invalidPrefix} ${name} `)} || ${from} || ' ' || ${positionOf(value)}${allowed}`)}::text`;
  return `case when ${condition} then ${value} else ${failure} end`;
}

/** Returns the condition that a new record can have a value. */
function isInitialSql({ initial }: Transitions, value: string, none: Field['default']): string {
  const isInitial = `${value} = any(${listSql(initial)})`;
  if (none === null) return `(${value} is null or ${isInitial})`;
  return none === '' ? `(${value} = '' or ${isInitial})` : isInitial;
}

/**
 * Returns an SQL expression for the values to which a record's value can change. A record without a value is like a new one.
 */
function nextSql(
  { initial, next, scopes: limits }: Transitions,
  stored: string,
  context: WriteContext,
): string {
  const allowed = [...next].map(([from, to]) => {
    const limited = limits?.get(from);
    const values =
      limited === undefined
        ? listSql(to)
        : `array_remove(array[${to.map((value) => inScopeSql(value, limited.get(value), context)).join(', ')}]::text[], null)`;
    return `when ${literal(from)} then ${values}`;
  });
  return `case coalesce(${stored}, '') when '' then ${listSql(initial)} ${allowed.join(' ')} end`;
}

/** Returns an SQL expression for a value, or for null unless the stored record is in the scope. */
function inScopeSql(
  value: string,
  scopeName: string | undefined,
  { scopes, placeholder }: Pick<WriteContext, 'scopes' | 'placeholder'>,
): string {
  const scope = scopes.find(({ name }) => name === scopeName);
  if (scope === undefined) return literal(value);
  return `case when ${scopesSql([scope], placeholder, (name) => column({ name }))} then ${literal(value)} end`;
}

/** Returns the error for a write that was rejected because of a transition, or undefined for other failures. */
export function invalidTransition({ fields }: ResourceDefinition, cause: unknown): HttpError | undefined {
  const [name, from = '', to = '', allowed] = raisedText(
    cause,
    `${invalidPrefix} (\\w+) (-|\\d+) (\\d+)(?: ([\\d,]*))?`,
  );
  const { transitions, values } = fields.find((field) => field.name === name) ?? {};
  if (name === undefined || transitions === undefined) return undefined;
  const valueAt = (position: string) => values?.list[Number(position) - 1];
  const previous = valueAt(from);
  return errors.invalidTransition(
    name,
    from === '-' ? undefined : { value: previous },
    valueAt(to),
    allowed === undefined
      ? previous === undefined
        ? transitions.initial
        : (transitions.next.get(previous) ?? [])
      : allowed.split(',').flatMap((position) => valueAt(position) ?? []),
  );
}
