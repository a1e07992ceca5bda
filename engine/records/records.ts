import { type Database, rejectingRule } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { errors, type FieldIssue, type HttpError } from '../errors.ts';
import { type Field, indexedPrefix, lookupOf } from '../fields/index.ts';
import {
  type ParsedQuery,
  parseQuery,
  type Query,
  queryClauses,
  queryShape,
  withCustomFilters,
} from '../query/index.ts';
import {
  column,
  type Placeholder,
  type Prepared,
  prepare,
  quote,
  record,
  type Statement,
} from '../sql/index.ts';
import { runForId, type Tables, transaction } from '../tables/index.ts';
import type { Principal } from './access.ts';
import {
  type Assignment,
  assign,
  assignments,
  onlyAllowed,
  serverValue,
  type WriteValues,
} from './assignments.ts';
import { type Body, withoutLists, writableLists } from './body.ts';
import { isInBody, withDefaults } from './default-values.ts';
import { reserveRecords } from './execute.ts';
import { namesOf, violatedUnique } from './indexes.ts';
import { callerSql } from './link-tables.ts';
import type { Caller, OperationContext, OperationPlan } from './operation.ts';
import type { CompiledOperations } from './operations.ts';
import { statementsByShape } from './projected-columns.ts';
import { organizationOf, ownRowsSql, trashSql, visibleSql } from './rows.ts';
import { compileSequences, sequenceFields } from './sequences.ts';
import { type ById, byIdSql, effectsOf, tableOf, updateOf } from './statements.ts';
import { violations } from './violations.ts';

/** A resource's list filters, for use outside lists. */
export interface Matching {
  /** Returns the names of the filter parameters. @param customFields the custom fields of the resource; none by default */
  readonly parameters: (customFields?: readonly Field[]) => readonly string[];
  /**
   * Parses filters and adds their issues to `issues`.
   * @param customFields the custom fields of the resource; none by default
   * @param phoneRegion see {@link Principal}; by default, phone numbers are compared only by their digits
   */
  readonly parse: (
    query: Query,
    issues: FieldIssue[],
    customFields?: readonly Field[],
    phoneRegion?: Principal['phoneRegion'],
  ) => ParsedQuery;
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
        const { where = [] } = queryClauses(definition, query, $, callerSql(context, $));
        const conditions = [byIdSql(context, 'read', $), ...where].join(' and ');
        return `select ${record}."id"::text from ${tableOf(context)} ${record} where ${conditions}`;
      }),
    );
  const foundByShape = statementsByShape<FindPlan>(context, 'find');
  const findStatement = (query: ParsedQuery): Prepared<FindPlan> =>
    foundByShape(queryShape(query), (name) =>
      prepare<FindPlan>(name, 'read', ($) => {
        const { where = [] } = queryClauses(definition, query, $, callerSql(context, $));
        const conditions = [visibleSql(context, 'list', $), ...where].join(' and ');
        return `select ${record}."id"::text from ${tableOf(context)} ${record} where ${conditions} order by ${record}."id" limit ${$(({ limit }) => String(limit))}::int`;
      }),
    );
  return {
    parameters: (customFields = []) =>
      withCustomFilters(definition, customFields).filters.flatMap(({ parameters }) =>
        parameters.map(({ name }) => name),
      ),
    parse: (query, issues, customFields = [], phoneRegion) =>
      parseQuery(withCustomFilters(definition, customFields), query, issues, phoneRegion),
    statement: (plan) => matchStatement(plan.parsedQuery).bind(plan),
    findStatement: (plan) => findStatement(plan.parsedQuery).bind(plan),
  };
}

/** The properties of a resource that {@link Records} needs. */
export interface RecordResource {
  readonly name: string;
  readonly definition: ResourceDefinition;
  readonly context: OperationContext;
  readonly operations: Pick<CompiledOperations, 'create'>;
}

/** Access to existing records for modules, within the module's transaction. IDs are decimal strings. */
export interface ExistingRecords {
  /**
   * Updates some fields of a record, including read-only fields.
   * @param values values by field; values for read-only fields are text that PostgreSQL parses
   */
  readonly patch: (resource: string, id: string, values: Readonly<Record<string, unknown>>) => Promise<void>;
  /**
   * Finds a record by its ID or by a lookup field, and locks it. If several records match, returns the
   * newest.
   * @param key the field and its value, or several values of which the record has one
   * @param last a field and values; records with these values are returned only if no other record matches
   */
  readonly find: (
    resource: string,
    key: readonly [field: string, value: string | readonly string[]],
    last?: readonly [field: string, values: readonly string[]],
  ) => Promise<string | undefined>;
}

/** Access to existing records, with the ability to create records. */
export interface Records extends ExistingRecords {
  /**
   * Creates a record as POST does, without children.
   * @param readOnly values for read-only fields, as text that PostgreSQL parses
   * @throws HttpError 400 with all invalid fields; 409 for a duplicate value
   */
  readonly create: (
    resource: string,
    body: Body,
    readOnly?: Readonly<Record<string, unknown>>,
  ) => Promise<string>;
}

/**
 * Runs a function that can create a record, within a transaction.
 * @throws HttpError 403 if the organization has reached its record limit
 */
export async function creatingRecords<T>(
  database: Database,
  resources: readonly RecordResource[],
  caller: Caller,
  work: (records: Records, tables: Tables) => Promise<T>,
): Promise<T> {
  // Counting uses another connection, so it must not run within the transaction.
  const release = await reserveRecords(database, caller.principal.organization, 1);
  return transaction(database, (tables) =>
    work(
      records(resources, caller, (statement) => runForId(tables, statement)),
      tables,
    ),
  ).finally(release);
}

/**
 * Returns access to records for one caller, without a limit on the number of records.
 * @param run runs a statement within the caller's transaction and returns the ID from its first row
 */
export function records(
  resources: readonly RecordResource[],
  caller: Caller,
  run: (statement: Statement) => Promise<string | undefined>,
): Records {
  const { organization } = caller.principal;
  const find = (name: string): RecordResource => {
    const resource = resources.find((candidate) => candidate.name === name);
    if (resource === undefined) throw new Error(`this instance does not declare ${name}`);
    return resource;
  };
  const write = ({ definition, context }: RecordResource, statement: Statement) =>
    run(statement).catch((cause: unknown) => {
      const rule = rejectingRule(cause);
      throw (
        duplicateOf(definition, cause) ??
        violations(context)(cause) ??
        (rule ? errors.rejectedByDatabase(rule, cause) : cause)
      );
    });
  return {
    create: async (name, body, readOnly = {}) => {
      const { context, operations } = find(name);
      const { create } = operations;
      const lists = writableLists(context.definition);
      const plan = create.plan({ caller, body: lists.length === 0 ? body : withoutLists(body, lists) });
      const readOnlyFields = Object.keys(readOnly).map((field) => fieldOf(context.definition, field));
      const statement =
        readOnlyFields.length === 0
          ? (create.statement(plan) as Statement)
          : insertStatement(context, readOnlyFields).bind({ ...plan, body: { ...plan.body, ...readOnly } });
      return String(await write(find(name), statement));
    },
    patch: async (name, id, values) => {
      const { context } = find(name);
      const fields = Object.keys(values).map((field) => fieldOf(context.definition, field));
      if (fields.length === 0) return;
      const plan = { organization, caller, id, body: values };
      await write(find(name), patchStatement(context, fields).bind(plan));
    },
    find: (name, [field, value], last) => {
      const { definition } = find(name);
      const lastValues = last && { field: fieldOf(definition, last[0]), values: last[1] };
      return run(
        findStatement(definition, fieldOf(definition, field), [value].flat(), lastValues).bind({
          organization,
        }),
      );
    },
  };
}

/**
 * Returns the error for a duplicate value. It does not contain the other record's ID, because the failed
 * transaction cannot run another statement.
 */
function duplicateOf(definition: ResourceDefinition, cause: unknown): HttpError | undefined {
  const unique = violatedUnique(definition, cause);
  return unique && errors.duplicate(namesOf(unique));
}

function fieldOf({ name, fields }: ResourceDefinition, fieldName: string): Field {
  const field = fields.find((candidate) => candidate.name === fieldName);
  if (field === undefined) throw new Error(`${name} does not have a field "${fieldName}"`);
  return field;
}

/** Returns a field's columns and their values from the body. Values for read-only fields are sent as text. */
function assignValue(field: Field, $: Placeholder<WriteValues>): Assignment[] {
  const write = field.readOnly ? (value: unknown) => [String(value)] : (field.type.write ?? (() => []));
  return assign<WriteValues>(field, $, ({ body }) => write(body[field.name]));
}

/** Prepares a statement that creates a record with values for these read-only fields. */
function insertStatement(
  context: OperationContext,
  readOnlyFields: readonly Field[],
): Prepared<OperationPlan & WriteValues> {
  const { fields, name } = context.definition;
  const sequences = compileSequences<OperationPlan & WriteValues>(
    name,
    sequenceFields(context.definition).filter((field) => !readOnlyFields.includes(field)),
  );
  return prepare<OperationPlan & WriteValues>('', 'write', ($) => {
    organizationOf($);
    const writableAssignments = assignments(
      { ...context.definition, fields: fields.filter((field) => !readOnlyFields.includes(field)) },
      'create',
      $,
    );
    const allAssignments = [
      ...withDefaults(context.definition, writableAssignments, $, isInBody($)),
      ...readOnlyFields.flatMap((field) => assignValue(field, $)),
      ...sequences.assignments($),
    ];
    const columns = allAssignments.map(({ column }) => column).join(', ');
    const values = allAssignments.map(({ value }) => value).join(', ');
    return `with ${sequences.expressions($)}_written as (insert into ${tableOf(context)} (${columns}) values (${values}) returning *)${effectsOf(context, 'create', $)} select "id"::text from _written`;
  });
}

/**
 * Prepares a statement that writes these fields and the other fields that the server sets on every update.
 */
function patchStatement(
  context: OperationContext,
  fields: readonly Field[],
): Prepared<OperationPlan & WriteValues & ById> {
  return prepare<OperationPlan & WriteValues & ById>('', 'write', ($) => {
    const where = byIdSql(context, 'update', $);
    const { scopes } = context.definition;
    const fieldAssignments = fields.flatMap((field) =>
      onlyAllowed(field, assignValue(field, $), { verb: 'update', scopes, placeholder: $ }),
    );
    const serverAssignments = context.definition.fields
      .filter((field) => !fields.includes(field))
      .flatMap((field) => {
        const value = serverValue(field, 'update', $);
        return value === undefined ? [] : [{ column: quote(field.name), value }];
      });
    const update = updateOf(context, [...fieldAssignments, ...serverAssignments], where);
    return `with _written as (${update} returning ${record}.*)${effectsOf(context, 'update', $)} select "id"::text from _written`;
  });
}

/** Prepares a statement that finds the newest matching record and locks it. */
function findStatement(
  definition: ResourceDefinition,
  key: Field,
  values: readonly string[],
  last: { readonly field: Field; readonly values: readonly string[] } | undefined,
): Prepared<{ readonly organization: string }> {
  const { name, fields } = definition;
  return prepare('', 'write', ($) => {
    const rows = `${ownRowsSql($)}${trashSql({ definition })}`;
    const parameter = $(() => values);
    const lookup = key.lookup === undefined ? undefined : lookupOf(key.lookup).key;
    // Both sides need the column's collation, because the result of lower() depends on it.
    const equal = (side: (text: string) => string) =>
      `${side(column(key))} = any(array(select ${side('_v collate "C"')} from unnest(${parameter}::text[]) _v))`;
    const condition =
      lookup === undefined
        ? key.type.among?.(column(key), parameter)
        : `${equal((text) => indexedPrefix(lookup(text)))} and ${equal(lookup)}`;
    const createdField = fields.find((field) => field.set === 'created');
    const order = [
      ...(last === undefined ? [] : [`(${column(last.field)} = any(${$(() => last.values)}::text[])) asc`]),
      ...(createdField === undefined ? [] : [`${column(createdField)} desc`]),
      `${record}."id" desc`,
    ];
    return `select ${record}."id"::text as id from ${quote(name)} ${record} where ${rows} and ${condition} order by ${order.join(', ')} limit 1 for update`;
  });
}
