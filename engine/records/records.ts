import { rejectingRule, violatedConstraint } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { errors, type HttpError } from '../errors.ts';
import { type Field, indexedPrefix, lookupOf } from '../fields/index.ts';
import {
  column,
  type Placeholder,
  type Prepared,
  prepare,
  quote,
  record,
  type Statement,
} from '../sql/index.ts';
import { type Assignment, assign, assignments, serverValue, type WriteValues } from './assignments.ts';
import type { Body } from './body.ts';
import { uniqueIndexName } from './indexes.ts';
import type { Caller, OperationContext, OperationPlan } from './operation.ts';
import type { CompiledOperations } from './operations.ts';
import { organizationOf, visibleSql } from './rows.ts';
import { type ById, byIdSql, effectsOf, tableOf } from './statements.ts';
import { namesOf } from './uniques.ts';
import { updateOf } from './update.ts';

/** A resource as far as modules write and find its records. */
export interface RecordResource {
  readonly name: string;
  readonly definition: ResourceDefinition;
  readonly context: OperationContext;
  readonly operations: Pick<CompiledOperations, 'create'>;
}

/** Access to records for modules, within a module's transaction. IDs are decimal text. */
export interface Records {
  /**
   * Creates a record like POST.
   * @param readOnly values of read-only fields, as PostgreSQL parses them
   * @throws HttpError 400 with every invalid field; 409 for a duplicate value
   */
  readonly create: (
    resource: string,
    body: Body,
    readOnly?: Readonly<Record<string, unknown>>,
  ) => Promise<string>;
  /**
   * Updates some fields of a record, including read-only ones; other fields are not changed.
   * @param values by field; values of read-only fields as PostgreSQL parses them
   */
  readonly patch: (resource: string, id: string, values: Readonly<Record<string, unknown>>) => Promise<void>;
  /**
   * Finds a record by a field that is declared as a lookup, or by id, and locks it; the newest of several.
   * @param key the field and the value to find it by
   * @param last records whose field has one of these values are considered last
   */
  readonly find: (
    resource: string,
    key: readonly [field: string, value: string],
    last?: readonly [field: string, values: readonly string[]],
  ) => Promise<string | undefined>;
}

/**
 * Access to records for one caller.
 * @param run runs a statement within the caller's transaction and returns the id in its first row
 */
export function records(
  resources: readonly RecordResource[],
  caller: Caller,
  run: (statement: Statement) => Promise<string | undefined>,
): Records {
  const { organization } = caller.principal;
  const find = (name: string): RecordResource => {
    const resource = resources.find((each) => each.name === name);
    if (resource === undefined) throw new Error(`this instance declares no ${name}`);
    return resource;
  };
  const written = ({ definition }: RecordResource, statement: Statement) =>
    run(statement).catch((cause: unknown) => {
      const rule = rejectingRule(cause);
      throw duplicateOf(definition, cause) ?? (rule ? errors.rejectedByDatabase(rule, cause) : cause);
    });
  return {
    create: async (name, body, readOnly = {}) => {
      const { context, operations } = find(name);
      const { create } = operations;
      const plan = create.plan({
        caller,
        query: {},
        headers: {},
        strict: false,
        body: () => body,
        bytes: () => Buffer.alloc(0),
      });
      const given = Object.keys(readOnly).map((field) => fieldOf(context.definition, field));
      const statement =
        given.length === 0
          ? (create.statement(plan) as Statement)
          : insertStatement(context, given).bind({ ...plan, body: { ...plan.body, ...readOnly } });
      return String(await written(find(name), statement));
    },
    patch: async (name, id, values) => {
      const { context } = find(name);
      const fields = Object.keys(values).map((field) => fieldOf(context.definition, field));
      if (fields.length === 0) return;
      const plan = { organization, caller, id, body: values };
      await written(find(name), patchStatement(context, fields).bind(plan));
    },
    find: (name, [field, value], last) => {
      const { definition } = find(name);
      const after = last && { field: fieldOf(definition, last[0]), values: last[1] };
      return run(findStatement(definition, fieldOf(definition, field), value, after).bind({ organization }));
    },
  };
}

/** Returns the error of a duplicate value, without the other record's ID: the failed transaction cannot run a statement. */
function duplicateOf({ name, uniques }: ResourceDefinition, cause: unknown): HttpError | undefined {
  const constraint = violatedConstraint(cause);
  const unique = uniques.find((each) => uniqueIndexName(name, each) === constraint);
  return unique && errors.duplicate(namesOf(unique));
}

function fieldOf({ name, fields }: ResourceDefinition, wanted: string): Field {
  const field = fields.find((each) => each.name === wanted);
  if (field === undefined) throw new Error(`${name} have no ${wanted}`);
  return field;
}

/** How the given values of a field are written. */
function assignGiven(field: Field, $: Placeholder<WriteValues>): Assignment[] {
  const write = field.readOnly ? (value: unknown) => [String(value)] : (field.type.write ?? (() => []));
  return assign<WriteValues>(field, $, ({ body }) => write(body[field.name]));
}

/** Creates a record with values of the given read-only fields. */
function insertStatement(
  context: OperationContext,
  given: readonly Field[],
): Prepared<OperationPlan & WriteValues> {
  return prepare<OperationPlan & WriteValues>('', 'write', ($) => {
    organizationOf($);
    const { fields } = context.definition;
    const assigned = [
      ...assignments(
        fields.filter((field) => !given.includes(field)),
        'create',
        $,
      ),
      ...given.flatMap((field) => assignGiven(field, $)),
    ];
    const columns = assigned.map(({ column }) => column).join(', ');
    const values = assigned.map(({ value }) => value).join(', ');
    return `with _written as (insert into ${tableOf(context)} (${columns}) values (${values}) returning *)${effectsOf(context, 'create', $)} select "id"::text from _written`;
  });
}

/** Writes the given fields, and those that the server sets on every update unless they are given. */
function patchStatement(
  context: OperationContext,
  fields: readonly Field[],
): Prepared<OperationPlan & WriteValues & ById> {
  return prepare<OperationPlan & WriteValues & ById>('', 'write', ($) => {
    const where = byIdSql($);
    const given = fields.flatMap((field) => assignGiven(field, $));
    const server = context.definition.fields
      .filter((field) => !fields.includes(field))
      .flatMap((field) => {
        const value = serverValue(field, 'update', $);
        return value === undefined ? [] : [{ column: quote(field.name), value }];
      });
    const update = updateOf(context, [...given, ...server], where);
    return `with _written as (${update} returning ${record}.*)${effectsOf(context, 'update', $)} select "id"::text from _written`;
  });
}

/** Finds the newest matching record and locks it. */
function findStatement(
  { name, fields }: ResourceDefinition,
  key: Field,
  value: string,
  last: { readonly field: Field; readonly values: readonly string[] } | undefined,
): Prepared<{ readonly organization: string }> {
  return prepare('', 'write', ($) => {
    const rows = visibleSql($);
    const wanted = $(() => value);
    const lookup = key.lookup === undefined ? undefined : lookupOf(key.lookup).key;
    // The column's collation on both sides: the result of lower() depends on it.
    const same = (side: (text: string) => string) =>
      `${side(column(key))} = ${side(`${wanted}::text collate "C"`)}`;
    const condition =
      lookup === undefined
        ? key.type.equals?.(column(key), wanted)
        : `${same((text) => indexedPrefix(lookup(text)))} and ${same(lookup)}`;
    const created = fields.find((field) => field.set === 'created');
    const order = [
      ...(last === undefined ? [] : [`(${column(last.field)} = any(${$(() => last.values)}::text[])) asc`]),
      ...(created === undefined ? [] : [`${column(created)} desc`]),
      `${record}."id" desc`,
    ];
    return `select ${record}."id"::text as id from ${quote(name)} ${record} where ${rows} and ${condition} order by ${order.join(', ')} limit 1 for update`;
  });
}
