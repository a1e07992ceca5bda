import type { TextRows } from '../database/index.ts';
import type { WriteAction } from '../effects/index.ts';
import { errors } from '../errors.ts';
import {
  type Columns,
  cell,
  identifier,
  inputIndex,
  inputs,
  literal,
  type Placeholder,
  type Prepared,
  prepare,
  quote,
  type Row,
  record,
  rowDecoder,
  rowKinds,
  type Statement,
  versionColumn,
} from '../sql/index.ts';
import type { Action } from './access.ts';
import type { Assignment } from './assignments.ts';
import type { OperationContext, OperationPlan, RecordInput } from './operation.ts';
import { type ConditionalPlan, entityTag, preconditionsOf, preconditionsSql } from './preconditions.ts';
import type { Projection } from './projection.ts';
import { basePlan, commonParameters, recordId, rejectRequest, unknownParameters } from './requests.ts';
import type { RecordResult } from './results.ts';
import { type CallerScope, organizationOf, ownRowsSql, returningSql, visibleLimitSql } from './rows.ts';

/** A plan for one record. */
export interface ById extends OperationPlan {
  /** ID as a decimal string. */
  readonly id: string;
}

const id = ({ id }: ById) => id;

/** Returns the condition that finds a plan's record, if the caller can perform the action on it. */
export const byIdSql = (context: OperationContext, action: Action, placeholder: Placeholder<ById>): string =>
  `${ownRowsSql(placeholder)} and ${record}."id" = ${placeholder(id)}::bigint${visibleLimitSql(context, action, placeholder)}`;

/**
 * Returns the SELECT and FROM clauses for a record's columns.
 * @param extraColumns additional columns, each named and starting with a comma
 */
export const selectRecord = (
  { columns, joins }: Pick<Projection, 'columns' | 'joins'>,
  source: string,
  placeholder: Placeholder<CallerScope>,
  extraColumns = '',
): string => `select ${columns}${extraColumns} from ${source} ${record}${joins(placeholder)}`;

/** Returns the SELECT and FROM clauses for a record's columns, and its versions as "_versions". */
export const selectRead = (context: OperationContext, placeholder: Placeholder<CallerScope>): string =>
  selectRecord(
    context.projection,
    tableOf(context),
    placeholder,
    `, ${context.projection.versions} as "_versions"`,
  );

/**
 * Returns a SELECT statement for records as JSON, with their versions and IDs as text.
 * @param names the names of the three columns
 * @param first an additional first column, followed by a comma
 * @param join an additional join, starting with a space
 */
export const selectResult = (
  { projection }: OperationContext,
  source: string,
  placeholder: Placeholder<CallerScope>,
  [json, versions, id]: readonly [string, string, string] = ['record', 'versions', 'id'],
  first = '',
  join = '',
): string =>
  `select ${first}row_to_json(_r)::text as ${quote(json)}, ${projection.versions} as ${quote(versions)}, ${record}."id"::text as ${quote(id)} from ${source} ${record}${join}${projection.joins(placeholder)} cross join lateral (select ${projection.columns}) _r`;

/** Columns that a statement returns for a record: its JSON and its versions. */
const recordColumns = { json: cell.encoded, versions: cell.text };

/** Columns that a statement returns for a written record. */
export const writtenColumns = { ...recordColumns, id: cell.text };

/** Decodes a record's JSON and versions. */
export const decodeRecord = rowDecoder(recordColumns);

/** Decodes a written record. */
export const decodeWritten = rowDecoder(writtenColumns);

/** Returns a record's row. @throws HttpError 404 if the record does not exist */
export function foundRow(
  { definition }: Pick<OperationContext, 'definition'>,
  [row]: TextRows,
): TextRows[number] {
  if (row === undefined) throw errors.recordNotFound(definition.singular);
  return row;
}

/** Returns a record and its entity tag. */
export const recordResult = (
  context: OperationContext,
  { json, versions }: Row<typeof recordColumns>,
): RecordResult => ({ kind: 'record', json, tag: entityTag(context, versions) });

/** A write to records, which can be rendered for one input or for many. */
interface Write<P> {
  /** The operation's name, for the statement's name. */
  readonly name: string;
  /** Whether it can be rendered for only one input. */
  readonly isAlone?: boolean;
  /** The action that the caller must be able to perform on the record. */
  readonly action: Action & WriteAction;
  /** The action in the change log, if it differs. */
  readonly effect?: WriteAction;
  /**
   * Returns the INSERT, UPDATE or DELETE statement, which returns the written rows.
   * @param source the table of inputs; undefined for one input
   * @param condition the condition that finds the record; empty for an INSERT
   */
  readonly change: (placeholder: Placeholder<P>, source: string | undefined, condition: string) => string;
  /**
   * Returns expressions that the change reads, each followed by a comma.
   * @param source the table of inputs; undefined for one input
   */
  readonly before?: (placeholder: Placeholder<P>, source: string | undefined) => string;
  /**
   * Returns additional expressions that read the written rows, each starting with a comma.
   * @param join joins written rows to their inputs; undefined for one input
   */
  readonly additional?: (placeholder: Placeholder<P>, join: JoinInputs | undefined) => string;
  /**
   * Returns the statement's final SELECT from `_written`; {@link selectResult} by default.
   * @param first an additional first column, followed by a comma
   * @param join an additional join, starting with a space
   */
  readonly result?: (first?: string, join?: string) => string;
}

/**
 * Returns a join of written rows to their inputs, starting with a space.
 * @param column the column of written rows that contains the ID of the input's record
 */
export type JoinInputs = (row: string, column?: string) => string;

/**
 * Returns the statement for one record: the write, its effects and its result.
 * @param first an additional first column, followed by a comma
 */
function writeOne<P extends OperationPlan>(
  context: OperationContext,
  write: Write<P>,
  placeholder: Placeholder<P>,
  condition: string,
  first = '',
): string {
  const { change, before, additional } = write;
  const beforeSql = before?.(placeholder, undefined) ?? '';
  const changeSql = change(placeholder, undefined, condition);
  const additionalSql = additional?.(placeholder, undefined) ?? '';
  return `with ${beforeSql}_written as (${changeSql})${additionalSql}${effectsAndResult(context, write, placeholder, first)}`;
}

/**
 * Returns the effects of a write and the final SELECT.
 * @param first an additional first column, followed by a comma
 */
function effectsAndResult<P extends OperationPlan>(
  context: OperationContext,
  { action, effect = action, result }: Write<P>,
  placeholder: Placeholder<P>,
  first: string,
  join?: JoinInputs,
): string {
  const joinSql = join?.(record) ?? '';
  const effects = (from: WrittenRows) => effectsOf(context, effect, placeholder, from, join);
  if (result !== undefined) return `${effects({ name: '_written' })} ${result(first, joinSql)}`;
  const { projection } = context;
  const isLoggedAsReturned = !projection.hasJoins && projection.loggedColumns === projection.columns;
  const hasEffects = context.effects.some(({ on }) => on.includes(effect));
  if (!hasEffects || !isLoggedAsReturned) {
    return `${effects({ name: '_written' })} ${selectResult(context, '_written', placeholder, undefined, first, joinSql)}`;
  }
  // The record's JSON is created once, for both the response and the change log.
  const version = quote(versionColumn);
  const recordJson = `, _shown as materialized (select ${record}."organization_id", ${record}."id", ${record}.${version}, row_to_json(_r)::text as "_json" from _written ${record} cross join lateral (select ${projection.columns}) _r)`;
  return `${recordJson}${effects({ name: '_written', from: '_shown', json: '"_json"' })} select ${first}${record}."_json" as "record", ${record}.${version}::text as "versions", ${record}."id"::text as "id" from _shown ${record}${joinSql}`;
}

/**
 * Returns the statement for many inputs; see {@link BatchForm}.
 * @param id SQL expression for the ID of an input's record
 */
function writeMany<P extends OperationPlan>(
  context: OperationContext,
  write: Write<P>,
  placeholder: Placeholder<P>,
  condition: string,
  id: string,
): string {
  const { change, before, additional } = write;
  const beforeSql = before?.(placeholder, inputs) ?? '';
  const changeSql = change(placeholder, inputs, condition);
  const join = joinInputs(organizationOf(placeholder), id);
  const additionalSql = additional?.(placeholder, join) ?? '';
  return `, ${beforeSql}_written as (${changeSql})${additionalSql}${effectsAndResult(context, write, placeholder, `${inputIndex}, `, join)}`;
}

/**
 * Joins written rows to their inputs.
 * @param organization SQL expression for the input's organization
 * @param id SQL expression for the ID of the input's record
 */
const joinInputs =
  (organization: string, id: string): JoinInputs =>
  (row, column = 'id') =>
    ` join ${inputs} on ${row}."organization_id" = ${organization} and ${row}.${quote(column)} = ${id}`;

/**
 * Returns an INSERT statement without RETURNING.
 * @param source what the values are selected from; by default, they are the values of one record
 */
export function insertSql(
  context: OperationContext,
  assigned: readonly Assignment[],
  source?: string,
): string {
  const columns = assigned.map(({ column }) => column).join(', ');
  const values = assigned.map(({ value }) => value).join(', ');
  return `insert into ${tableOf(context)} (${columns}) ${source === undefined ? `values (${values})` : `select ${values} from ${source}`}`;
}

/** Prepares an INSERT statement. If there are many inputs, they provide the new IDs as "_id". */
export function prepareInsert<P extends OperationPlan>(
  context: OperationContext,
  write: Write<P>,
): Prepared<P> {
  const table = literal(tableOf(context));
  return prepare<P>(
    statementName(context, write.name),
    'write',
    ($) => {
      organizationOf($);
      return writeOne(context, write, $, '');
    },
    undefined,
    // RETURNING cannot refer to the table of inputs, which contains the callers.
    context.rows?.create === undefined
      ? {
          write: ($) => {
            organizationOf($);
            return writeMany(context, write, $, '', `${inputs}."_id"`);
          },
          columns: `nextval(pg_get_serial_sequence(${table}, 'id')) as "_id", `,
          differ: 0,
        }
      : undefined,
  );
}

/** A plan that writes one record if it meets the request's preconditions. */
export interface WriteById extends OperationPlan, ById, ConditionalPlan {}

/** Returns the plan for a write of one record without a body. @throws HttpError 400 or 404 if the request is invalid */
export function writeById(context: OperationContext, input: RecordInput): WriteById {
  rejectRequest(unknownParameters(input, commonParameters));
  const conditions = preconditionsOf(context, input);
  return { ...basePlan(input), conditions, id: recordId(context, input) };
}

/** A prepared write of one record. */
interface PreparedWrite<P, C extends Columns> {
  readonly statement: (plan: P) => Statement;
  /**
   * Returns the row of the written record.
   * @throws HttpError 404 if the record does not exist; 412 if it does not meet the plan's preconditions
   */
  readonly written: (plan: P, rows: TextRows) => Row<C>;
  /** Returns whether the statement wrote the record. */
  readonly isWritten: (plan: P, rows: TextRows) => boolean;
}

/**
 * Prepares a write of one record: a statement without preconditions, and one that checks them atomically with
 * the write.
 * @param columns columns that the write returns
 */
export function prepareById<P extends WriteById, C extends Columns>(
  context: OperationContext,
  columns: C,
  write: Write<P>,
): PreparedWrite<P, C> {
  const kinds = rowKinds({ written: columns, unmet: {} });
  const unconditional = prepare<P>(
    statementName(context, write.name),
    'write',
    ($) => writeOne(context, write, $, byIdSql(context, write.action, $)),
    undefined,
    write.isAlone === true
      ? undefined
      : {
          write: ($) => writeMany(context, write, $, byIdSql(context, write.action, $), `${$(id)}::bigint`),
          // The first two values, the organization and the ID, identify the record.
          differ: 2,
        },
  );
  const conditional = prepare<P>(statementName(context, `${write.name}_if`), 'write', ($) => {
    const found = byIdSql(context, write.action, $);
    const condition = `${found} and ${preconditionsSql(context, $)}`;
    const statement = writeOne(context, write, $, condition, `${kinds.column('written')}, `);
    return `${statement} union all select ${kinds.select('unmet')} from ${tableOf(context)} ${record} where ${found} and not exists (select from _written)`;
  });
  const decode = rowDecoder(columns);
  return {
    statement: (plan) => (plan.conditions === undefined ? unconditional : conditional).bind(plan),
    written: (plan, rows) => {
      const row = foundRow(context, rows);
      if (plan.conditions === undefined) return decode(row);
      const result = kinds.decode(row);
      if (result.kind === 'unmet') throw errors.preconditionFailed();
      return result;
    },
    isWritten: ({ conditions }, [row]) =>
      row !== undefined && (conditions === undefined || kinds.decode(row).kind === 'written'),
  };
}

/** The rows written by a statement. */
interface WrittenRows {
  /** Name of the expression that wrote the rows and returns all of their columns. */
  readonly name: string;
  /**
   * Name of another expression that contains the rows' organization, ID and version. Its column `json`
   * contains the JSON for the change log.
   */
  readonly from?: string;
  readonly json?: string;
  /** Whether a request can write several rows, whose effects are then in the order of their IDs. */
  readonly isMany?: boolean;
}

/**
 * Returns the effects of a write as additional expressions, each starting with a comma.
 * @param join joins the rows to their inputs if there are many
 */
export const effectsOf = (
  { definition, effects, projection }: EffectTarget,
  action: WriteAction,
  placeholder: Placeholder<Pick<OperationPlan, 'caller'>>,
  { name, from = name, json, isMany = false }: WrittenRows = { name: '_written' },
  join: (row: string) => string = () => '',
): string =>
  effects
    .filter((effect) => effect.on.includes(action))
    .map(
      (effect) =>
        `, ${effect.expression({
          resource: definition.name,
          action,
          written: name,
          source: `${from} ${writtenRow}${join(writtenRow)}`,
          order: isMany ? ` order by ${writtenRow}."id"` : '',
          row: writtenRow,
          columns: projection.loggedColumns,
          json: json && `${writtenRow}.${json}`,
          placeholder,
        })}`,
    )
    .join('');

/** Properties of the written resource that effects use. */
interface EffectTarget extends Pick<OperationContext, 'effects'> {
  readonly definition: Pick<OperationContext['definition'], 'name'>;
  readonly projection: Pick<Projection, 'loggedColumns'>;
}

/** Alias of a written row. It differs from the table's alias, because effects also read the table. */
const writtenRow = '_w';

/** Returns the name of an operation's statement. Excerpts, views and the trash have separate statements. */
export const statementName = (
  {
    definition,
    excerpt,
    view,
    trashed,
  }: Pick<OperationContext, 'definition' | 'excerpt' | 'view' | 'trashed'>,
  operation: string,
): string => {
  const parts = [excerpt, trashed === undefined ? undefined : `trashed_${trashed}`, view || undefined];
  const variant = parts.map((part) => (part === undefined ? '' : `_${part}`)).join('');
  return identifier(`${definition.name}_${operation}${variant}`);
};

/** Returns the quoted table name of a resource, or the FROM clause item with its rows. */
export const tableOf = ({ definition, source }: Pick<OperationContext, 'definition' | 'source'>): string =>
  source ?? quote(definition.name);

/**
 * Prepares an update of one record, with its effects and preconditions.
 * @param assignments returns the columns to write with their values
 */
export const prepareUpdate = <P extends WriteById>(
  context: OperationContext,
  name: string,
  assignments: (placeholder: Placeholder<P>) => readonly Assignment[],
): PreparedWrite<P, typeof writtenColumns> =>
  prepareById(context, writtenColumns, {
    name,
    action: 'update',
    change: ($: Placeholder<P>, source, condition) =>
      `${updateOf(context, assignments($), condition, source === undefined ? '' : ` from ${source}`)} ${returningSql(context, 'update', $)}`,
  });

/**
 * Returns an UPDATE statement. Without columns, it still returns whether the record exists.
 * @param from additional tables, starting with a space
 */
export function updateOf(
  context: Pick<OperationContext, 'definition'>,
  assignments: readonly Assignment[],
  where: string,
  from = '',
): string {
  const set =
    assignments.length === 0
      ? `"id" = ${record}."id"`
      : assignments.map(({ column, value }) => `${column} = ${value}`).join(', ');
  return `update ${tableOf(context)} ${record} set ${set}${from} where ${where}`;
}
