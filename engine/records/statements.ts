import type { WriteAction } from '../effects/index.ts';
import {
  identifier,
  inputIndex,
  inputs,
  literal,
  type Placeholder,
  type Prepared,
  prepare,
  quote,
  record,
  type Statement,
  versionColumn,
} from '../sql/index.ts';
import type { OperationContext, OperationPlan } from './operation.ts';
import { type ConditionalPlan, preconditionsSql } from './preconditions.ts';
import type { Projection } from './projection.ts';
import { organizationOf, type RowScope, visibleSql } from './rows.ts';

/** A plan about one record. */
export interface ById extends RowScope {
  /** Decimal text. */
  readonly id: string;
}

const id = ({ id }: ById) => id;

/** The condition that finds the record of a plan. */
export const byIdSql = (placeholder: Placeholder<ById>): string =>
  `${visibleSql(placeholder)} and ${record}."id" = ${placeholder(id)}::bigint`;

/**
 * The part of a statement that returns a record's columns, and further ones.
 * @param further each with a name, and beginning with a comma
 */
export const selectRecord = (
  { projection }: { readonly projection: Pick<Projection, 'columns' | 'joins'> },
  source: string,
  further = '',
): string => `select ${projection.columns}${further} from ${source} ${record}${projection.joins}`;

/** The part of a statement that returns a record's columns, and its versions as "_versions". */
export const selectRead = (context: OperationContext): string =>
  selectRecord(context, tableOf(context), `, ${context.projection.versions} as "_versions"`);

/**
 * The part of a statement that returns records as JSON, with their versions and ids, each as text.
 * @param names of the three columns
 * @param number a first column, with a comma after it
 * @param join what else the records are joined to; begins with a space
 */
export const selectResult = (
  { projection }: OperationContext,
  source: string,
  [json, versions, id]: readonly [string, string, string] = ['record', 'versions', 'id'],
  number = '',
  join = '',
): string =>
  `select ${number}row_to_json(_r)::text as ${quote(json)}, ${projection.versions} as ${quote(versions)}, ${record}."id"::text as ${quote(id)} from ${source} ${record}${join}${projection.joins} cross join lateral (select ${projection.columns}) _r`;

/** A write of records, in its form for one and in that for many. */
export interface Write<P> {
  readonly name: string;
  /** Whether it has only the form for one. */
  readonly isAlone?: boolean;
  readonly action: WriteAction;
  /**
   * The INSERT, UPDATE or DELETE, which returns what was written.
   * @param source the table of the inputs; undefined for one input
   * @param condition finds the record; empty for an INSERT
   */
  readonly change: (placeholder: Placeholder<P>, source: string | undefined, condition: string) => string;
  /**
   * Further expressions that read what was written, each beginning with a comma.
   * @param join joins written rows to their inputs; undefined for one input
   */
  readonly further?: (placeholder: Placeholder<P>, join: JoinInputs | undefined) => string;
  /**
   * The SELECT of what the statement returns, from `_written`; absent: as {@link selectResult}.
   * @param number a first column, with a comma after it
   * @param join beginning with a space
   */
  readonly result?: (number?: string, join?: string) => string;
}

/** Joins written rows to their inputs, beginning with a space. @param column of the row with the id of its input's record */
export type JoinInputs = (row: string, column?: string) => string;

/** Writes the statement of one record: the write and its effects, and what it returns. */
function writeOne<P extends OperationPlan>(
  context: OperationContext,
  write: Write<P>,
  placeholder: Placeholder<P>,
  condition: string,
): string {
  const { change, further } = write;
  const changed = change(placeholder, undefined, condition);
  const more = further?.(placeholder, undefined) ?? '';
  return `with _written as (${changed})${more}${ending(context, write, placeholder)}`;
}

/** The effects of a write, and what its statement returns. */
function ending<P extends OperationPlan>(
  context: OperationContext,
  { action, result }: Write<P>,
  placeholder: Placeholder<P>,
  join?: JoinInputs,
): string {
  const returned: [number?: string, join?: string] =
    join === undefined ? [] : [`${inputIndex}, `, join(record)];
  const effects = (from: Written) => effectsOf(context, action, placeholder, from, join);
  if (result !== undefined) return `${effects({ name: '_written' })} ${result(...returned)}`;
  const { projection } = context;
  const isKeptAsShown = projection.joins === '' && projection.kept === projection.columns;
  if (context.effects.length === 0 || !isKeptAsShown) {
    return `${effects({ name: '_written' })} ${selectResult(context, '_written', undefined, ...returned)}`;
  }
  // Its JSON is made once, for the response and for what is kept.
  const [number = '', joined = ''] = returned;
  const version = quote(versionColumn);
  const shown = `, _shown as materialized (select ${record}."organization_id", ${record}."id", ${record}.${version}, row_to_json(_r)::text as "_json" from _written ${record} cross join lateral (select ${projection.columns}) _r)`;
  return `${shown}${effects({ name: '_written', from: '_shown', json: '"_json"' })} select ${number}${record}."_json" as "record", ${record}.${version}::text as "versions", ${record}."id"::text as "id" from _shown ${record}${joined}`;
}

/**
 * Writes the statement of many records, each with an input of its own, see {@link ForMany}.
 * @param id SQL of the id of an input's record
 */
function writeMany<P extends OperationPlan>(
  context: OperationContext,
  write: Write<P>,
  placeholder: Placeholder<P>,
  condition: string,
  id: string,
): string {
  const { change, further } = write;
  const changed = change(placeholder, inputs, condition);
  const join = joinInputs(organizationOf(placeholder), id);
  const more = further?.(placeholder, join) ?? '';
  return `, _written as (${changed})${more}${ending(context, write, placeholder, join)}`;
}

/** The join of a written row to its input. @param organization SQL of the input's organization, @param id of its record's id */
const joinInputs =
  (organization: string, id: string): JoinInputs =>
  (row, column = 'id') =>
    ` join ${inputs} on ${row}."organization_id" = ${organization} and ${row}.${quote(column)} = ${id}`;

/** Prepares an INSERT; its inputs, if they are many, have the new ids in "_id". */
export function prepareInsert<P extends OperationPlan & RowScope>(
  context: OperationContext,
  write: Write<P>,
): Prepared<P> {
  const table = literal(tableOf(context));
  return prepare<P>(
    write.name,
    'write',
    ($) => {
      organizationOf($);
      return writeOne(context, write, $, '');
    },
    undefined,
    {
      write: ($) => {
        organizationOf($);
        return writeMany(context, write, $, '', `${inputs}."_id"`);
      },
      columns: `nextval(pg_get_serial_sequence(${table}, 'id')) as "_id", `,
      differ: 0,
    },
  );
}

/** A plan that writes one record, under the conditions of its request. */
export interface WriteById extends OperationPlan, ById, ConditionalPlan {}

/**
 * Prepares a write of one record: one statement without conditions, and one that checks them where it writes, so that
 * no other write comes between.
 * @param columns how many the statement returns
 */
export function prepareById<P extends WriteById>(
  context: OperationContext,
  columns: number,
  write: Write<P>,
): (plan: P) => Statement {
  const unconditional = prepare<P>(
    identifier(write.name),
    'write',
    ($) => writeOne(context, write, $, byIdSql($)),
    undefined,
    write.isAlone === true
      ? undefined
      : {
          write: ($) => writeMany(context, write, $, byIdSql($), `${$(id)}::bigint`),
          // The organization and the id.
          differ: 2,
        },
  );
  const checked = prepare<P>(identifier(`${write.name}_if`), 'write', ($) => {
    const statement = writeOne(context, write, $, `${byIdSql($)} and ${preconditionsSql(context, $)}`);
    // A row of nulls: the record is there and was not written.
    const nulls = Array(columns).fill('null').join(', ');
    return `${statement} union all select ${nulls} from ${tableOf(context)} ${record} where ${byIdSql($)} and not exists (select from _written)`;
  });
  return (plan) => (plan.conditions === undefined ? unconditional : checked).bind(plan);
}

/** Rows that a statement has written. */
interface Written {
  /** The expression that wrote them; it returns the rows of their table. */
  readonly name: string;
  /** Another expression that has their organization, id and version, and SQL of the JSON that may be kept of them there. */
  readonly from?: string;
  readonly json?: string;
}

/**
 * The further expressions of a statement that writes; each begins with a comma.
 * @param join joins the rows to their inputs where these are many
 */
export const effectsOf = (
  { definition, effects, projection }: Recorded,
  action: WriteAction,
  placeholder: Placeholder<Pick<OperationPlan, 'caller'>>,
  { name: written, from = written, json }: Written = { name: '_written' },
  join: (row: string) => string = () => '',
): string =>
  effects
    .filter((effect) => effect.on.includes(action))
    .map(
      (effect) =>
        `, ${effect.expression({
          resource: definition.name,
          action,
          written,
          source: `${from} ${writtenRow}${join(writtenRow)}`,
          row: writtenRow,
          columns: projection.kept,
          json: json && `${writtenRow}.${json}`,
          placeholder,
        })}`,
    )
    .join('');

/** What effects need of the resource that is written. */
interface Recorded extends Pick<OperationContext, 'effects'> {
  readonly definition: Pick<OperationContext['definition'], 'name'>;
  readonly projection: Pick<Projection, 'kept'>;
}

/** The alias of a written row for effects, which read the table too. */
const writtenRow = '_w';

/** The name of the statement of an operation; the one that reads excerpts has a name of its own. */
export const statementName = (
  { definition, excerpt }: Pick<OperationContext, 'definition' | 'excerpt'>,
  operation: string,
): string => identifier(`${definition.name}_${operation}${excerpt === undefined ? '' : `_${excerpt}`}`);

/** The quoted table of a resource. */
export const tableOf = ({ definition }: Pick<OperationContext, 'definition'>): string =>
  quote(definition.name);
