import type { Database, TextRows } from '../database/index.ts';
import { errors, type FieldIssue, HttpError } from '../errors.ts';
import { integerText, parseOwnJson } from '../fields/index.ts';
import { parameterIssue } from '../query/index.ts';
import { cell, type Prepared, prepare, record, rowDecoder } from '../sql/index.ts';
import { allows } from './access.ts';
import { ItemFailures } from './batch.ts';
import { type Body, withoutLists } from './body.ts';
import { type ChildList, compileChildLists, decodeExisting, maxChildren } from './child-lists.ts';
import {
  type ChildItem,
  type ChildrenPlan,
  childBatch,
  childError,
  exactId,
  locateError,
  parseChildren,
} from './child-plan.ts';
import type { CustomFields } from './custom-fields.ts';
import { execute } from './execute.ts';
import type { TransactionExecutor } from './executor.ts';
import { expandedKey, listUrl } from './expanded.ts';
import { type ChildrenLock, compileChildrenLock } from './find-lock.ts';
import { type KeyedPlan, storeResponse } from './idempotency.ts';
import type {
  CompiledOperation,
  EveryInput,
  OperationContext,
  OperationPlan,
  TransactionSteps,
} from './operation.ts';
import { entityTag } from './preconditions.ts';
import { reserveRecords } from './record-limits.ts';
import type { CreatedResult, OperationResult, RecordResult } from './results.ts';
import { ownRowsSql } from './rows.ts';
import { type ById, decodeRecord, selectResult, tableOf } from './statements.ts';

/** The operations that can write children together with a record. */
export type NestingOperation = 'create' | 'replace' | 'patch';

/** A compiled operation in the form that routes use. */
type CompiledRoute = CompiledOperation<
  OperationPlan,
  EveryInput,
  OperationResult,
  OperationPlan | Promise<OperationPlan>
>;

/** The plan of an operation whose body contains children. */
interface NestedPlan extends KeyedPlan {
  /** ID of the existing record; absent if the operation creates it. */
  readonly id?: string;
  readonly children: readonly ChildrenPlan[];
  readonly customFields?: CustomFields | undefined;
}

/** The context of operations that write children together with a record. */
interface NestingContext extends OperationContext {
  /** Reads a record after its children were written. Absent if the record does not depend on them. */
  readonly current?: Prepared<OperationPlan & ById>;
  /** Rejects requests with children of locked records. Absent if the resource has no locks. */
  readonly lock?: ChildrenLock;
}

const hasChildren = (plan: OperationPlan): plan is NestedPlan => 'children' in plan;

/** Number of children above which the transaction is scheduled like a batch. */
const maxShort = 50;

/** Extends an operation so that bodies can contain the writable lists of children. */
export function withChildren(
  context: OperationContext,
  name: NestingOperation,
  compiled: CompiledRoute,
): CompiledRoute {
  const lists = compileChildLists(context);
  if (lists.length === 0) return compiled;
  const lock = compileChildrenLock(context);
  const nesting = {
    ...context,
    ...(hasRollups(context) && { current: prepareCurrent(context) }),
    ...(lock && { lock }),
  };
  return {
    ...compiled,
    plan: (input) => {
      const { body } = input;
      const sent = lists.filter((list) => body[list.name] !== undefined);
      return sent.length === 0 ? compiled.plan(input) : nestedPlan(compiled, input, body, sent, name);
    },
    transaction: (plan) => (hasChildren(plan) ? writeTogether(nesting, compiled, plan) : undefined),
    result: (plan, rows) =>
      hasChildren(plan)
        ? withExpanded(context, compiled.result(plan, rows.slice(0, -1)), rows.at(-1))
        : compiled.result(plan, rows),
  };
}

/** Validates a record and its children. @throws HttpError 400 with all issues */
async function nestedPlan(
  compiled: CompiledRoute,
  input: EveryInput,
  body: Body,
  lists: readonly ChildList[],
  operation: NestingOperation,
): Promise<NestedPlan> {
  const { caller, strict = false, customFields } = input;
  const parsed = [];
  for (const list of lists)
    parsed.push(
      await parseChildren(list, body[list.name], { caller, strict, customFields }, operation === 'create'),
    );
  const issues = parsed.flatMap((children) => children.issues);
  const ownBody = withoutLists(
    body,
    lists.map((list) => list.name),
  );
  const ownInput = Object.create(input, { body: { value: ownBody } }) as EveryInput;
  const plan = await planWith(() => compiled.plan(ownInput), issues);
  return { ...plan, children: parsed.map((children) => children.plan), customFields };
}

/** Plans the record's own write. @throws HttpError 400 with the issues of the record and of its children */
async function planWith(
  plan: () => OperationPlan | Promise<OperationPlan>,
  childIssues: readonly FieldIssue[],
): Promise<OperationPlan> {
  const ownIssues: FieldIssue[] = [];
  try {
    const result = await plan();
    if (childIssues.length === 0) return result;
  } catch (cause) {
    if (childIssues.length === 0 || !(cause instanceof HttpError)) throw cause;
    if (cause.code === 'invalid_input') ownIssues.push(...(cause.extra.fields ?? []));
  }
  throw errors.invalidFields([...ownIssues, ...childIssues]);
}

/** Returns the steps that write a record and its children. They return the rows of the record's own write, and the children. */
function writeTogether(context: NestingContext, compiled: CompiledRoute, plan: NestedPlan): TransactionSteps {
  const created = plan.children.reduce((sum, children) => sum + children.created.length, 0);
  const size = plan.children.reduce((sum, children) => sum + children.updated.length, created);
  const creates = created + (compiled.creates?.(plan) ?? 0);
  return {
    lane: size > maxShort ? 'batch' : 'write',
    creates,
    reserve: (database) => reserve(database, plan, creates),
    run: (executor) => write(executor, context, compiled, plan),
  };
}

/**
 * Reserves capacity for new records. If there is not enough, the children that the request deletes are taken into account.
 * @throws HttpError 403 if the organization's limit would be exceeded
 */
async function reserve(
  database: Database,
  plan: NestedPlan,
  creates: number,
): Promise<(() => void) | undefined> {
  const { organization, id: parent, children } = plan;
  try {
    return await reserveRecords(database, organization, creates);
  } catch (cause) {
    if (parent === undefined) throw cause;
    let deleted = 0;
    for (const { list, updated } of children) {
      if (!allows(plan.caller.principal.grants, list.child.stored, 'delete')) continue;
      const rows = await database.run(list.existing.bind({ ...plan, parent }), {
        organization,
        access: 'write',
      });
      deleted += othersOf(rows, updated).filter(({ isDeletable }) => isDeletable).length;
    }
    if (deleted === 0) throw cause;
    return creates > deleted ? reserveRecords(database, organization, creates - deleted) : undefined;
  }
}

/** Returns the existing children that a request does not update, and therefore deletes. */
const othersOf = (rows: TextRows, updated: readonly ChildItem[]) => {
  const kept = new Set(updated.map(({ id }) => id));
  return rows.map((row) => decodeExisting(row)).filter(({ id }) => !kept.has(id));
};

/** Writes a record and its children. */
async function write(
  executor: TransactionExecutor,
  context: NestingContext,
  compiled: CompiledRoute,
  plan: NestedPlan,
): Promise<TextRows> {
  const { lock } = context;
  if (lock !== undefined && plan.id !== undefined)
    lock.check(await executor.run(lock.statement.bind({ ...plan, id: plan.id })));
  // Locks the record, so that concurrent requests replace its children one after the other.
  const rows = await execute(executor, compiled, plan);
  const result = compiled.result(plan, rows) as CreatedResult | RecordResult;
  const created = result.kind === 'created' ? result : undefined;
  const parent = created?.id ?? plan.id ?? '';
  const lists: string[] = [];
  if (created?.isReplayed === true) {
    // If the caller's rights are not limited, the stored response contains the children.
    if (context.view !== '')
      for (const { list } of plan.children)
        if (allows(plan.caller.principal.grants, list.child.stored, 'list'))
          lists.push(listJson(list, parent, await executor.run(list.listed.bind({ ...plan, parent }))));
    return [...rows, [lists.length === 0 ? null : `{${lists.join()}}`]];
  }
  if (lock !== undefined && created !== undefined)
    await executor.run(lock.created.bind({ ...plan, id: parent }));
  for (const children of plan.children) {
    const ids = await writeChildren(executor, plan, children, parent, created !== undefined);
    lists.push(
      listJson(children.list, parent, await executor.run(children.list.written.bind({ ...plan, ids }))),
    );
  }
  const expanded = `{${lists.join()}}`;
  // The record's own write did not see the children.
  const [current] =
    context.current === undefined ? [] : await executor.run(context.current.bind({ ...plan, id: parent }));
  if (created !== undefined && plan.idempotency !== undefined && context.view === '') {
    const json = expandedJson(current === undefined ? created.json : decodeRecord(current).json, expanded);
    await executor.run(storeResponse(plan, context.definition.name, json));
  }
  return [...rows, [expanded, ...(current ?? [])]];
}

const hasRollups = ({ definition }: OperationContext): boolean =>
  definition.fields.some(({ rollup }) => rollup !== undefined);

/** Prepares the statement that reads a record after its children were written. */
const prepareCurrent = (context: OperationContext) =>
  prepare<OperationPlan & ById>(
    '',
    'batch',
    ($) =>
      `${selectResult(context, tableOf(context), $)} where ${ownRowsSql($)} and ${record}."id" = ${$(({ id }) => id)}::bigint`,
  );

/** Writes one list of children. @returns the IDs of the written children */
async function writeChildren(
  executor: TransactionExecutor,
  plan: NestedPlan,
  { list, created, updated }: ChildrenPlan,
  parent: string,
  isNew: boolean,
): Promise<readonly string[]> {
  const { name, reference, operations } = list;
  if (!isNew) await removeOthers(executor, plan, { list, created, updated }, parent);
  const located = async <T>(items: readonly ChildItem[], work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (cause) {
      throw locateError(name, items, cause);
    }
  };
  if (updated.length > 0) {
    await located(updated, async () => {
      const batch = await childBatch(list, updated, plan, executor);
      return operations.patch.result(batch, await execute(executor, operations.patch, batch));
    });
  }
  if (created.length === 0) return updated.map(({ id }) => String(id));
  const newIds = await located(created, async () => {
    const batch = await childBatch(list, created, plan, executor, { [reference.name]: exactId(parent) });
    const { caller } = plan;
    const createPlan = { ...batch, caller, match: '', idempotency: undefined };
    const { json } = operations.create.result(
      createPlan,
      await execute(executor, operations.create, createPlan),
    );
    const { results } = parseOwnJson(String(json)) as {
      readonly results: readonly { readonly id: unknown }[];
    };
    return results.map(({ id }) => String(integerText(id)));
  });
  return [...updated.map(({ id }) => String(id)), ...newIds];
}

/**
 * Deletes the record's children that are not in the body, except those that the caller cannot see.
 * @throws HttpError 400 for IDs of other records; 403 if the caller cannot update or delete one of the children
 */
async function removeOthers(
  executor: TransactionExecutor,
  plan: NestedPlan,
  { list, updated }: ChildrenPlan,
  parent: string,
): Promise<void> {
  const { name, child, locked, operations } = list;
  const { stored } = child;
  const { grants } = plan.caller.principal;
  // For a caller without any of these grants, the record has no children. Otherwise, an error would reveal them.
  const seesChildren = (['read', 'update', 'delete'] as const).some((action) =>
    allows(grants, stored, action),
  );
  if (!seesChildren) return;
  const rows = await executor.run(locked.bind({ ...plan, parent }));
  const others = othersOf(rows, updated);
  if (others.length > maxChildren) {
    const message = `does not contain more than ${maxChildren} of the existing records, which would be deleted. Delete them in batches first.`;
    throw errors.invalidFields([parameterIssue(name, message)]);
  }
  const byId = new Map(rows.map(decodeExisting).map((row) => [row.id, row]));
  const failures = updated.flatMap(({ id, index }) => {
    const row = byId.get(String(id));
    if (row?.isUpdatable === true) return [];
    const error =
      row === undefined
        ? errors.invalidFields([{ field: 'id', message: `id ${id} does not belong to this record` }])
        : errors.forbidden(stored.name, 'update');
    return [[index, error] as const];
  });
  if (failures.length > 0) throw childError(name, new Map(failures));
  if (others.length === 0) return;
  const isAllowed = allows(grants, stored, 'delete');
  if (!isAllowed || others.some(({ isDeletable }) => !isDeletable))
    throw errors.forbidden(stored.name, 'delete');
  const { caller, customFields } = plan;
  const removal = await operations.remove.plan({
    caller,
    customFields,
    body: { ids: others.map(({ id }) => exactId(id)) },
  });
  try {
    operations.remove.result(removal, await execute(executor, operations.remove, removal));
  } catch (cause) {
    // The children are not in the body, so the error has no location.
    const [error] =
      cause instanceof HttpError && cause.cause instanceof ItemFailures ? cause.cause.failures.values() : [];
    throw error ?? cause;
  }
}

const decodeJson = rowDecoder({ json: cell.text });

/** Returns a list of children in the form that `?expand=` returns, as a property. */
function listJson(
  { name, child, reference, order }: ChildList,
  parent: string,
  [row = []]: TextRows,
): string {
  const resource = child.resources.get(child.definition.name);
  if (resource === undefined) throw new Error(`${child.definition.name} is not compiled`);
  const { beforeId, afterId } = listUrl(resource, { reference, order });
  const url = `${beforeId}${parent}${afterId}`;
  return `${JSON.stringify(name)}:{"data":${decodeJson(row).json},"has_more":false,"url":${JSON.stringify(url)}}`;
}

/** Adds children to a record's JSON. */
const expandedJson = (json: RecordResult['json'], expanded: string): string =>
  `${String(json).slice(0, -1)},"${expandedKey}":${expanded}}`;

/** Returns a record's result with its children. */
function withExpanded(
  context: OperationContext,
  result: OperationResult,
  row: TextRows[number] = [],
): OperationResult {
  if (result.kind !== 'record' && result.kind !== 'created') return result;
  const { view, definition } = context;
  // A response stored before the caller's rights were limited could contain children that the caller cannot read.
  if (view !== '' && String(result.json).includes(`,"${expandedKey}":{`))
    throw errors.recordNotFound(definition.singular);
  const [expanded = null, ...current] = row;
  if (expanded === null) return result;
  if (current.length === 0) return { ...result, json: expandedJson(result.json, String(expanded)) };
  const { json, versions } = decodeRecord(current);
  return { ...result, json: expandedJson(json, String(expanded)), tag: entityTag(context, versions) };
}
