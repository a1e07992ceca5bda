import { type Database, rejectingRule, type StatementRunner, type TextRows } from '../database/index.ts';
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
import type { Principal } from './access.ts';
import { type Assignment, assign, assignments, type WriteValues } from './assignments.ts';
import { type Body, withoutLists, writableLists } from './body.ts';
import { isInBody, withDefaults } from './default-values.ts';
import { execute } from './execute.ts';
import type { TransactionExecutor } from './executor.ts';
import { inHookTransaction } from './hooks.ts';
import { namesOf, violatedUnique } from './indexes.ts';
import { callerSql } from './link-tables.ts';
import type {
  Caller,
  CompiledOperation,
  OperationContext,
  OperationInput,
  OperationPlan,
} from './operation.ts';
import type { CompiledOperations } from './operations.ts';
import { statementsByShape } from './projected-columns.ts';
import type { OperationResult } from './results.ts';
import { organizationOf, ownRowsSql, trashSql, visibleSql } from './rows.ts';
import { compileSequences, sequenceFields } from './sequence-numbers.ts';
import { type ById, byIdSql, effectsOf, insertSql, tableOf } from './statements.ts';
import { runAtomically } from './transactions.ts';
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

/** The operations with which {@link Records} writes records. */
interface WriteOperations {
  readonly operations: Pick<CompiledOperations, 'create' | 'patch'>;
}

/** The properties of a resource that {@link Records} needs. */
export interface RecordResource extends WriteOperations {
  readonly name: string;
  readonly definition: ResourceDefinition;
  readonly context: OperationContext;
  /** Returns the operations for modules, which can also write fields that callers cannot write. */
  readonly systemView: () => WriteOperations;
}

/** Access to existing records for modules, within the module's transaction. IDs are decimal strings. */
export interface ExistingRecords {
  /**
   * Updates some fields of a record as PATCH does, including read-only fields whose values the server does not set itself.
   * Does nothing if the record does not exist.
   * @throws HttpError 400 with all invalid fields; 409 for a duplicate value
   */
  readonly patch: (resource: string, id: string, values: Body) => Promise<void>;
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
   * Creates a record as POST does, without children. The values can include read-only fields whose values the server does not
   * set itself.
   * @throws HttpError 400 with all invalid fields; 409 for a duplicate value
   */
  readonly create: (resource: string, values: Body) => Promise<string>;
}

/** Runs a function that can create a record within its transaction, with a runner for the transaction's other statements. */
export type RecordsWork<T, R extends ExistingRecords> = (records: R, run: StatementRunner) => Promise<T>;

/**
 * Runs a function that can create a record, within a transaction as {@link changingRecords} does.
 * @throws HttpError 403 if the organization has reached its record limit
 */
export const creatingRecords = <T>(
  database: Database,
  resources: readonly RecordResource[],
  caller: Caller,
  work: RecordsWork<T, Records>,
): Promise<T> => inTransaction(database, resources, caller, work, 1);

/**
 * Runs a function that changes existing records, within a transaction. Hooks before each write run with it, and hooks after the
 * writes run at the end of the transaction, which is repeated after a deadlock.
 */
export const changingRecords: <T>(
  database: Database,
  resources: readonly RecordResource[],
  caller: Caller,
  work: RecordsWork<T, ExistingRecords>,
) => Promise<T> = (database, resources, caller, work) => inTransaction(database, resources, caller, work, 0);

function inTransaction<T>(
  database: Database,
  resources: readonly RecordResource[],
  caller: Caller,
  work: RecordsWork<T, Records>,
  creates: number,
): Promise<T> {
  const plan = { organization: caller.principal.organization, caller };
  const hooks = resources[0]?.context.hooks;
  return runAtomically(database, plan, {
    lane: 'write',
    creates,
    run: (executor) => {
      let hasHookedWrites = false;
      const access = records(resources, caller, executor, () => {
        hasHookedWrites = true;
      });
      const perform = () => work(access, executor.runWithoutSavepoint);
      return hooks === undefined
        ? perform()
        : inHookTransaction(executor, plan, hooks, perform, () => hasHookedWrites);
    },
  });
}

/**
 * Returns access to records for one caller.
 * @param onHookedWrite called before each write that can have hooks
 */
function records(
  resources: readonly RecordResource[],
  caller: Caller,
  executor: TransactionExecutor,
  onHookedWrite: () => void,
): Records {
  const { organization } = caller.principal;
  const find = (name: string): RecordResource => {
    const resource = resources.find((candidate) => candidate.name === name);
    if (resource === undefined) throw new Error(`this instance does not declare ${name}`);
    return resource;
  };
  const operationsFor = (resource: RecordResource, values: Body): WriteOperations['operations'] =>
    resource.definition.fields.some(({ name, readOnly }) => readOnly && values[name] !== undefined)
      ? resource.systemView().operations
      : resource.operations;
  const write = <P extends OperationPlan, Input extends OperationInput, Result extends OperationResult>(
    { context }: RecordResource,
    operation: CompiledOperation<P, Input, Result>,
    plan: P,
  ): Promise<TextRows> => {
    if (operation.transaction?.(plan) !== undefined) {
      onHookedWrite();
      return execute(executor, operation, plan);
    }
    if (operation.creates !== undefined) executor.reserve(operation.creates(plan));
    // Without hooks, the write is a single statement, and nothing follows its failure.
    return executor.runWithoutSavepoint(operation.statement(plan) as Statement).catch(rejectWrite(context));
  };
  return {
    create: async (name, values) => {
      const resource = find(name);
      const { create } = operationsFor(resource, values);
      const lists = writableLists(resource.definition);
      const plan = create.plan({ caller, body: lists.length === 0 ? values : withoutLists(values, lists) });
      return create.result(plan, await write(resource, create, plan)).id;
    },
    patch: async (name, id, values) => {
      if (Object.keys(values).length === 0) return;
      const resource = find(name);
      const { patch } = operationsFor(resource, values);
      await write(resource, patch, patch.plan({ caller, id, body: values }));
    },
    find: async (name, [field, value], last) => {
      const { definition } = find(name);
      const lastValues = last && { field: fieldOf(definition, last[0]), values: last[1] };
      const statement = findStatement(definition, fieldOf(definition, field), [value].flat(), lastValues);
      const [row] = await executor.runWithoutSavepoint(statement.bind({ organization }));
      return row && String(row[0]);
    },
  };
}

/**
 * Creates a record without hooks, within a transaction. Used for sample records.
 * @param readOnly values for read-only fields, also for fields that the server sets, as text that PostgreSQL parses
 * @param run runs a statement within the transaction and returns the ID from its first row
 * @throws HttpError 400 with all invalid fields; 409 for a duplicate value
 */
export async function insertRecord(
  { context, operations: { create } }: Pick<RecordResource, 'context' | 'operations'>,
  caller: Caller,
  values: Body,
  readOnly: Body,
  run: (statement: Statement) => Promise<string | undefined>,
): Promise<string> {
  const plan = create.plan({ caller, body: withoutLists(values, writableLists(context.definition)) });
  const readOnlyFields = Object.keys(readOnly).map((field) => fieldOf(context.definition, field));
  const statement = insertStatement(context, readOnlyFields);
  const id = await run(statement.bind({ ...plan, body: { ...plan.body, ...readOnly } })).catch(
    rejectWrite(context),
  );
  return String(id);
}

/** Returns a function that explains why the database rejected a write. It throws an HttpError, or else the database's error. */
const rejectWrite =
  (context: OperationContext) =>
  (cause: unknown): never => {
    const rule = rejectingRule(cause);
    throw (
      duplicateOf(context.definition, cause) ??
      violations(context)(cause) ??
      (rule ? errors.rejectedByDatabase(rule, cause) : cause)
    );
  };

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
    return `with ${sequences.expressions($)}_written as (${insertSql(context, allAssignments)} returning *)${effectsOf(context, 'create', $)} select "id"::text from _written`;
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
