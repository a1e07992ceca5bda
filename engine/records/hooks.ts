import type { Unique } from '../definition/index.ts';
import { errors, type FieldIssue, HttpError, reasonKey } from '../errors.ts';
import { type Field, type FieldType, isHookWritable, isKeptIfAbsent } from '../fields/index.ts';
import { arrayText, cell, prepare, rowDecoder } from '../sql/index.ts';
import { type BatchPlan, idOf, withFailures } from './batch.ts';
import { type Body, bodyRules, writableLists } from './body.ts';
import { withBefore } from './changes.ts';
import type { CustomFields } from './custom-fields.ts';
import { execute } from './execute.ts';
import type { TransactionExecutor } from './executor.ts';
import { hookRecords } from './hook-records.ts';
import { compileLockedRecords, decodeLocked, type LockedRecords } from './hook-rows.ts';
import {
  type CompletedWrite,
  type HookCaller,
  type HookContext,
  type ModuleHooks,
  type PlannedWrite,
  Rejection,
} from './hook-types.ts';
import {
  fieldsByName,
  fromHookValues,
  type HookValues,
  parseHookValues,
  toHookValues,
} from './hook-values.ts';
import { isStoredSql, type KeyedPlan } from './idempotency.ts';
import { itemTable } from './items.ts';
import type {
  BodyInput,
  Caller,
  CompiledOperation,
  InstanceHooks,
  ModuleCall,
  OperationContext,
  OperationInput,
  OperationPlan,
} from './operation.ts';
import type { OperationResult } from './results.ts';
import { organizationOf } from './rows.ts';

/** Time limits of a hook, and of all hooks of a request, in milliseconds. */
const [hookTimeoutMs, requestTimeoutMs] = [5000, 30_000];
/** Maximum depth of writes by hooks within hooks, and maximum number of times that they cause further hooks in one transaction. */
const maxRounds = 10;

/** The operations with hooks. Bulk changes and imports consist of batches. */
export type HookedOperation =
  | 'create'
  | 'replace'
  | 'patch'
  | 'remove'
  | 'restore'
  | 'merge'
  | 'unmerge'
  | 'createBatch'
  | 'patchBatch'
  | 'removeBatch';

const actions = {
  create: 'create',
  replace: 'update',
  patch: 'update',
  remove: 'delete',
  restore: 'restore',
  merge: 'merge',
  unmerge: 'unmerge',
  createBatch: 'create',
  patchBatch: 'update',
  removeBatch: 'delete',
} as const satisfies Readonly<Record<HookedOperation, PlannedWrite['action']>>;

/** Returns whether an operation has hooks. */
export const isHooked = (name: string): name is HookedOperation => Object.hasOwn(actions, name);

/** A record that a write is about to change, before its hooks run. */
export interface HookItem {
  /** The item's number in a batch, starting at 1. */
  readonly number: number;
  /** ID as a decimal string; undefined if the record is new or found by its unique values. */
  readonly id: string | undefined;
  /** Undefined if the write has no values. */
  readonly body: Body | undefined;
}

/** What hooks decided about the items of a write, by number. */
interface HookDecisions {
  readonly bodies: ReadonlyMap<number, Body>;
  readonly failures: ReadonlyMap<number, HttpError>;
}

/** The hooks that run in one transaction. */
interface RunningHooks {
  /** Number of writes by hooks that are nested in each other. */
  readonly depth: number;
  /** Until when hooks can run, as returned by `performance.now()`. */
  readonly until: number;
}

const endless = 'it writes records whose hooks write records without end';

const firstHooks = (): RunningHooks => ({ depth: 0, until: performance.now() + requestTimeoutMs });

const running = new WeakMap<TransactionExecutor, RunningHooks>();

/** Returns the hooks that run before a resource's records are written. */
const beforeHooks = ({ definition, hooks }: OperationContext): readonly ModuleHooks[] =>
  (hooks.byResource.get(definition.name) ?? []).filter(
    ({ hooks: { beforeWrite, beforeWrites } }) => beforeWrite !== undefined || beforeWrites !== undefined,
  );

/**
 * Returns the context in which records are written after hooks, see {@link openContext}. Bodies that reach it must come from
 * {@link writableValues}. It is the context itself if no hooks run before writes.
 */
export const hookedContext = (context: OperationContext): OperationContext =>
  beforeHooks(context).length === 0 ? context : openContext(context);

/** Returns the type of a field that callers cannot write, with its own columns. */
const hookWrittenType = ({ type, readOnly }: Field): FieldType =>
  readOnly ? { ...type, ...type.readOnly } : type;

/** Returns a context in which all fields can be written whose values the server does not set itself. */
function openContext(context: OperationContext): OperationContext {
  const { definition, stored } = context;
  const writable = writableNames(context);
  const fields = stored.fields.map(
    (field): Field =>
      writable.has(field.name) || !isHookWritable(field)
        ? field
        : { ...field, type: hookWrittenType(field), readOnly: false, required: false, isKept: true },
  );
  const visible = new Set(definition.fields.map(({ name }) => name));
  const byName = fieldsByName(fields);
  return {
    ...context,
    definition: {
      ...definition,
      fields: [
        ...definition.fields.map((field) => byName.get(field.name) ?? field),
        ...fields.filter(({ name, readOnly }) => !readOnly && !visible.has(name)),
      ],
    },
    stored: { ...stored, fields },
    body: bodyRules(fields, fields, false, writableLists(definition)),
    items: itemTable(
      fields.filter(({ readOnly }) => !readOnly),
      stored.uniques,
    ),
  };
}

/** Returns the context for modules that write records with system access: they can also write fields that callers cannot write. */
export const systemContext = (context: OperationContext): OperationContext => ({
  ...openContext(context),
  // Keeps the names of statements distinct.
  view: 'system',
});

/** Returns the names of the values that a body can contain: writable fields, and lists of children. */
const writableNames = ({ definition }: OperationContext): ReadonlySet<string> =>
  new Set([
    ...definition.fields.filter(({ readOnly }) => !readOnly).map(({ name }) => name),
    ...writableLists(definition),
  ]);

/** Returns the values of a body that the caller can write, including lists of children. */
export function writableValues(context: OperationContext): (body: Body) => Body {
  const names = writableNames(context);
  return (body) => Object.fromEntries(Object.entries(body).filter(([name]) => names.has(name)));
}

/** Returns the body of a PUT request with the values that it gives to absent fields, so that hooks see what will be stored. */
const completedBody = ({ definition }: OperationContext, body: Body): Body => ({
  ...Object.fromEntries(
    definition.fields
      .filter((field) => !field.readOnly && !isKeptIfAbsent(field) && field.aliasOf === undefined)
      .filter(({ type }) => type.custom !== true)
      .map(({ name, default: value }) => [name, value]),
  ),
  ...Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)),
});

/** The part of a plan that the hooks of its operation need. */
interface HookedPlan {
  readonly hookInput?: OperationInput;
}

/**
 * Adds the hooks of an instance to an operation of a resource: hooks before the write run in its transaction, and hooks after it before
 * the transaction is committed. Returns the operation itself if no hooks can run because of it.
 * @param compile compiles the operation without hooks
 */
export function withHooks<
  P extends OperationPlan,
  Input extends OperationInput,
  Result extends OperationResult,
  Planned extends P | Promise<P>,
>(
  context: OperationContext,
  name: HookedOperation,
  compile: (context: OperationContext) => CompiledOperation<P, Input, Result, Planned>,
): CompiledOperation<P, Input, Result, Planned> {
  const { hooks, definition } = context;
  const own = compile(context);
  const hasBefore = beforeHooks(context).length > 0;
  if (!hasBefore && !hooks.afterResources.has(definition.name)) return own;
  const written = hasBefore ? compile(hookedContext(context)) : own;
  const before = hasBefore ? compileBefore(context, name, written) : undefined;
  return {
    ...own,
    plan: (input) => {
      const planned = own.plan(input);
      const keep = (plan: P): P => ({ ...plan, hookInput: input });
      return (planned instanceof Promise ? planned.then(keep) : keep(planned as P)) as Planned;
    },
    transaction: (plan) => {
      const steps = written.transaction?.(plan);
      return {
        lane: steps?.lane ?? (name.endsWith('Batch') ? 'batch' : 'write'),
        creates: (steps === undefined ? written.creates?.(plan) : steps.creates) ?? 0,
        ...(steps?.reserve && { reserve: steps.reserve }),
        run: (executor) =>
          inHookTransaction(executor, plan, hooks, async () => {
            const final = before === undefined ? plan : await before(executor, plan);
            return execute(executor, written, final);
          }),
      };
    },
  };
}

/**
 * Runs work and then, unless it is part of another write, the hooks after all writes of the transaction.
 * @param hasHookedWrites returns whether the work has written records that can have hooks; always by default
 */
export async function inHookTransaction<T>(
  executor: TransactionExecutor,
  plan: OperationPlan & HookedPlan,
  hooks: InstanceHooks,
  work: () => Promise<T>,
  hasHookedWrites: () => boolean = () => true,
): Promise<T> {
  if (running.has(executor)) return work();
  running.set(executor, firstHooks());
  try {
    const result = await work();
    if (hasHookedWrites()) await runAfter(executor, plan, hooks);
    return result;
  } finally {
    running.delete(executor);
  }
}

/** Returns a function that runs an operation's hooks before the write and returns the plan with their values. */
function compileBefore<P extends OperationPlan, Input extends OperationInput>(
  context: OperationContext,
  name: HookedOperation,
  written: Pick<CompiledOperation<P, Input, OperationResult, P | Promise<P>>, 'plan'>,
): (executor: TransactionExecutor, plan: P & HookedPlan) => Promise<P> {
  const valuesOf = writableValues(context);
  const run = compileBeforeHooks(context);
  const path = name === 'createBatch' ? `${context.definition.name}/batch` : context.definition.name;
  const action = actions[name];
  return async (executor, plan) => {
    const input = plan.hookInput as (Input & Partial<BodyInput>) | undefined;
    if (input === undefined) return plan;
    const replan = async (body: Body | undefined): Promise<P> =>
      written.plan(
        Object.create(input, {
          strict: { value: false },
          ...(body !== undefined && { body: { value: body } }),
        }) as Input,
      );
    const isRepeated = await isAnswered(executor, plan, path);
    const { customFields } = input;
    if (!isBatchPlan(plan)) {
      const hasBody = name === 'create' || name === 'replace' || name === 'patch';
      const sent = hasBody ? valuesOf(input.body ?? {}) : undefined;
      const body = sent && name === 'replace' ? completedBody(context, sent) : sent;
      if (isRepeated) return replan(body);
      const { id } = plan as { readonly id?: string };
      const { bodies, failures } = await run(executor, plan, action, [{ number: 1, id, body }], {
        customFields,
      });
      for (const failure of failures.values()) throw failure;
      if (name === 'merge' || name === 'unmerge') {
        // The other record is deleted or moved to the trash, or restored from it.
        const { from } = plan as { readonly from?: string };
        const source = await run(
          executor,
          plan,
          name === 'merge' ? 'delete' : 'restore',
          [{ number: 1, id: from, body: undefined }],
          { customFields },
        );
        for (const failure of source.failures.values()) throw failure;
      }
      return replan(hasBody ? (bodies.get(1) ?? body) : undefined);
    }
    const { failures: invalid, stops, location } = plan;
    const list = name === 'removeBatch' ? 'ids' : 'records';
    const sent = input.body?.[list] as readonly unknown[];
    const items = sent.flatMap((item, index): HookItem[] => {
      const number = index + 1;
      if (invalid.has(number)) return [];
      if (list === 'ids') return [{ number, id: idOf(item), body: undefined }];
      const record = item as Body;
      return [{ number, id: name === 'patchBatch' ? idOf(record.id) : undefined, body: valuesOf(record) }];
    });
    const decisions = isRepeated
      ? noDecisions
      : await run(executor, plan, action, items, { customFields, match: matchOf(context, plan) });
    const bodies = new Map(items.map(({ number, body }) => [number, decisions.bodies.get(number) ?? body]));
    const records = sent.map((item, index) => {
      // Planned again, an invalid item could have the same key as a valid one.
      if (invalid.has(index + 1)) return null;
      const body = bodies.get(index + 1);
      if (body === undefined) return item;
      return name === 'patchBatch' ? { ...body, id: (item as Body).id } : body;
    });
    // The caller's choice applies to the failures of hooks, too.
    const replanned = (await replan({ ...input.body, on_error: 'continue', [list]: records })) as P &
      BatchPlan;
    return withFailures({ ...replanned, stops, location }, new Map([...invalid, ...decisions.failures]));
  };
}

const isBatchPlan = <P extends OperationPlan>(plan: P): plan is P & BatchPlan => 'failures' in plan;

/** Returns the unique fields by which a batch finds existing records, if any. */
const matchOf = ({ definition }: OperationContext, plan: OperationPlan): Unique | undefined => {
  const { match } = plan as { readonly match?: string };
  if (match === undefined || match === '') return undefined;
  const names = match.split(' ');
  return definition.uniques.find(
    (unique) => unique.length === names.length && unique.every(({ name }) => names.includes(name)),
  );
};

/** Returns whether a response to the same idempotency key is stored, so that nothing will be written. */
async function isAnswered(executor: TransactionExecutor, plan: KeyedPlan, path: string): Promise<boolean> {
  if (plan.idempotency === undefined) return false;
  const { bind } = prepare<KeyedPlan>('', 'write', ($) => {
    organizationOf($);
    return `select 1 where ${isStoredSql($, path)}`;
  });
  return (await executor.run(bind(plan))).length > 0;
}

/** Options for the hooks before a write. */
interface BeforeOptions {
  readonly customFields?: CustomFields | undefined;
  /** The unique fields by which a batch finds existing records. */
  readonly match?: Unique | undefined;
}

/** Runs the hooks before the write of some records, and returns what they decided. */
export type RunBefore = (
  executor: TransactionExecutor,
  plan: OperationPlan,
  action: PlannedWrite['action'],
  items: readonly HookItem[],
  options?: BeforeOptions,
) => Promise<HookDecisions>;

const noDecisions: HookDecisions = { bodies: new Map(), failures: new Map() };

/** Compiles the hooks that run before a resource's records are written. */
export function compileBeforeHooks(context: OperationContext): RunBefore {
  const { hooks } = context;
  const own = beforeHooks(context);
  if (own.length === 0) return async () => noDecisions;
  const resource = context.definition.name;
  const full = hooks.fullContext(resource);
  const fields = fieldsByName(full.definition.fields);
  const written = hookedContext(context);
  const known = writableNames(written);
  let locks: LockedRecords | undefined;
  return async (executor, plan, action, items, { customFields, match } = {}) => {
    locks ??= compileLockedRecords(context, full);
    const previous = await lockedRecords(executor, locks, plan, action, items, match);
    const bodies = new Map<number, Body>();
    const failures = new Map<number, HttpError>();
    for (const {
      module,
      hooks: { beforeWrite, beforeWrites },
    } of own) {
      // Records that do not exist, or that an earlier hook rejected, are not passed to hooks.
      const writes = items.flatMap(({ number, id, body: sent }) => {
        const found = previous.get(number);
        if (failures.has(number) || (id !== undefined && found === undefined)) return [];
        const body = bodies.get(number) ?? sent;
        return {
          number,
          write: {
            action: id === undefined && found !== undefined ? ('update' as const) : action,
            id: found === undefined ? undefined : BigInt(found.id),
            input: body && toHookValues(fields, body),
            previous: found && parseHookValues(fields, found.json),
          },
        };
      });
      if (writes.length === 0) continue;
      const target = { module, executor, plan, hooks, customFields };
      const decide = (number: number, result: unknown, hook: string) => {
        if (result === undefined) return;
        if (result instanceof HttpError) failures.set(number, result);
        else if (result instanceof Rejection) failures.set(number, rejection(result));
        else
          bodies.set(
            number,
            newBody(result, { module, hook, resource, known, fields: written.definition.fields }),
          );
      };
      if (beforeWrites !== undefined) {
        const results = await callModule(target, `beforeWrites of ${resource}`, (given) =>
          beforeWrites({ ...given, writes: writes.map(({ write }) => write) }),
        );
        if (results === undefined) continue;
        if (!Array.isArray(results) || results.length !== writes.length)
          throw errors.moduleFailed(
            module,
            `beforeWrites of ${resource}`,
            `it must return ${writes.length} results`,
          );
        for (const [index, { number }] of writes.entries()) decide(number, results[index], 'beforeWrites');
      }
      if (beforeWrite !== undefined)
        for (const { number, write } of writes) {
          if (failures.has(number)) continue;
          const body = bodies.get(number);
          const current = body === undefined ? write : { ...write, input: toHookValues(fields, body) };
          try {
            decide(
              number,
              await executor.nested(() =>
                callModule(target, `beforeWrite of ${resource}`, (given) =>
                  beforeWrite({ ...given, ...current }),
                ),
              ),
              'beforeWrite',
            );
          } catch (cause) {
            if (!(cause instanceof HttpError) || cause.status >= 500) throw cause;
            failures.set(number, cause);
          }
        }
    }
    return { bodies, failures };
  };
}

/** Returns the body for values returned by a hook. @throws HttpError 500 if they are not values of the resource's fields */
function newBody(
  values: unknown,
  {
    module,
    hook,
    resource,
    known,
    fields,
  }: {
    readonly module: string;
    readonly hook: string;
    readonly resource: string;
    readonly known: ReadonlySet<string>;
    readonly fields: readonly Field[];
  },
): Body {
  const fail = (reason: string) => errors.moduleFailed(module, `${hook} of ${resource}`, reason);
  if (typeof values !== 'object' || values === null || Array.isArray(values))
    throw fail('it must return an object or nothing');
  const unknown = Object.keys(values).find((name) => !known.has(name));
  if (unknown !== undefined) throw fail(`it returned "${unknown}", which is not a field that can be written`);
  return fromHookValues(fieldsByName(fields), values as HookValues);
}

/** A locked record. */
interface LockedRecord {
  /** ID as a decimal string. */
  readonly id: string;
  readonly json: string;
}

/** Locks the existing records of a write. @returns the records by the numbers of their items */
async function lockedRecords(
  executor: TransactionExecutor,
  locks: LockedRecords,
  plan: OperationPlan,
  action: PlannedWrite['action'],
  items: readonly HookItem[],
  match: Unique | undefined,
): Promise<ReadonlyMap<number, LockedRecord>> {
  if (match !== undefined && isBatchPlan(plan)) {
    const rows = (await executor.run(locks.byMatch(match, plan))).map((row) => decodeLocked(row));
    return new Map(rows.map(({ number, id, json }) => [Number(number), { id, json }]));
  }
  const ids = items.flatMap(({ id }) => id ?? []);
  if (ids.length === 0 || action === 'create') return new Map();
  const lockAction = action === 'merge' || action === 'unmerge' ? 'update' : action;
  const rows = (await executor.run(locks.byIds(lockAction, { ...plan, ids }))).map((row) =>
    decodeLocked(row),
  );
  const byId = new Map(rows.map(({ id, json }) => [id, { id, json }]));
  return new Map(
    items.flatMap(({ number, id }) => {
      const found = byId.get(id ?? '');
      return found === undefined ? [] : [[number, found]];
    }),
  );
}

/** For which write a module's code runs. */
interface ModuleTarget {
  readonly module: string;
  readonly executor: TransactionExecutor;
  readonly plan: OperationPlan;
  readonly hooks: InstanceHooks;
  readonly customFields?: CustomFields | undefined;
}

/**
 * Calls a module's code. @param place names the hook or the action
 * @throws HttpError 400 if it rejects the request; 500 if it fails, takes too long or never stops writing
 */
export async function callModule<T>(
  { module, executor, plan: { caller }, hooks, customFields }: ModuleTarget,
  place: string,
  call: (context: HookContext) => T | Promise<T>,
): Promise<T> {
  const state = running.get(executor) ?? firstHooks();
  const fail = (reason: string, cause?: unknown) => errors.moduleFailed(module, place, reason, cause);
  if (state.depth >= maxRounds) throw fail(endless);
  const left = state.until - performance.now();
  if (left <= 0) throw fail(`the hooks of the request took longer than ${requestTimeoutMs / 1000} seconds`);
  // A copy, so that writes by the hook know how deep they are nested.
  const inner = { ...executor };
  running.set(inner, { depth: state.depth + 1, until: state.until });
  const lease = leaseExecutor(inner);
  const signal = AbortSignal.timeout(Math.min(hookTimeoutMs, Math.ceil(left)));
  const context = {
    caller: hookCaller(caller),
    records: hookRecords({ module, caller, customFields, run: lease.run, hooks }),
    signal,
  };
  try {
    const isRejected = (cause: unknown) =>
      cause instanceof HttpError ? cause.status < 500 : asRejection(cause) !== undefined;
    const measured = () =>
      measuredCall(hooks.observer, { module, place, signal, isRejected }, () => call(context));
    const { inTransaction } = hooks.observer;
    return await (inTransaction === undefined ? measured() : inTransaction({ module, place }, measured));
  } catch (cause) {
    const reason = signal.aborted
      ? `it took longer than ${hookTimeoutMs / 1000} seconds`
      : 'it threw an error';
    throw moduleError(cause, () => fail(reason, cause));
  } finally {
    await lease.end();
  }
}

/** Returns the error of the API for an error that a module's code threw. @param failed returns the error for a failure of the module */
export function moduleError(cause: unknown, failed: () => HttpError): HttpError {
  if (cause instanceof HttpError) return cause;
  const rejected = asRejection(cause);
  return rejected === undefined ? failed() : rejection(rejected);
}

/** The call of a module's code that is measured. */
interface MeasuredTarget extends Pick<ModuleCall, 'module' | 'place'> {
  /** Aborted when the call has exceeded its time limit. */
  readonly signal: AbortSignal;
  /** Returns whether an error rejects a request. By default, all errors are failures. */
  readonly isRejected?: (cause: unknown) => boolean;
}

/**
 * Calls a module's code, and reports the call.
 * @throws the error of the code, or the signal's reason
 */
export async function measuredCall<T>(
  observer: InstanceHooks['observer'],
  { module, place, signal, isRejected = () => false }: MeasuredTarget,
  call: () => T | Promise<T>,
): Promise<T> {
  const start = performance.now();
  const report = (result: ModuleCall['result']) =>
    observer.call?.({ module, place, seconds: (performance.now() - start) / 1000, result });
  try {
    const given = call();
    const result = given instanceof Promise ? await Promise.race([given, rejectOnAbort(signal)]) : given;
    report('completed');
    return result;
  } catch (cause) {
    report(isRejected(cause) ? 'rejected' : 'failed');
    throw cause;
  }
}

/** Returns a promise that rejects when the signal is aborted. */
export const rejectOnAbort = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));

/** Access to a transaction for one call of a hook. */
interface ExecutorLease {
  /** Runs work after all previous work, unless the lease has ended. What failed work wrote is undone. */
  readonly run: <T>(work: (executor: TransactionExecutor) => Promise<T>) => Promise<T>;
  /** Ends the lease, and waits for running work. */
  readonly end: () => Promise<void>;
}

function leaseExecutor(executor: TransactionExecutor): ExecutorLease {
  let last: Promise<unknown> = Promise.resolve();
  let isOver = false;
  return {
    run: (work) => {
      const result = last.then(() => {
        if (isOver) throw new Error('The hook has ended, so it can no longer access records.');
        return executor.nested(() => work(executor));
      });
      last = result.catch(() => {});
      return result;
    },
    end: async () => {
      isOver = true;
      await last;
    },
  };
}

/** Returns a caller as hooks see it. */
export const hookCaller = ({ principal, requestId }: Caller): HookCaller => ({
  kind: principal.kind,
  id: principal.actor === null ? null : BigInt(principal.actor),
  name: principal.name,
  user: principal.user === null ? null : BigInt(principal.user),
  organization: BigInt(principal.organization),
  requestId,
});

/** Returns an error that rejects the write, or undefined if the error is a failure of the hook. */
function asRejection(cause: unknown): Rejection | undefined {
  if (cause instanceof Rejection) return cause;
  if (!(cause instanceof Error) || !('field' in cause) || typeof cause.field !== 'string') return undefined;
  const { field, hint } = cause as { readonly field: string; readonly hint?: unknown };
  return new Rejection(cause.message, { field, ...(typeof hint === 'string' && { hint }) });
}

function rejection({ message, field, hint }: Rejection): HttpError {
  if (field === undefined) return errors.rejectedByModule(message, hint);
  const issue: FieldIssue =
    hint === undefined ? { field, message } : { field, message: `${message}. ${hint}`, hint };
  return errors.invalidFields([{ ...issue, [reasonKey]: { kind: 'message' } }]);
}

const decodeChange = rowDecoder({
  place: cell.text,
  resource: cell.text,
  id: cell.text,
  action: cell.text,
  after: cell.nullableText,
  before: cell.nullableText,
});

/** The changes that a transaction has made so far. */
interface ChangesPlan {
  readonly organization: string;
  /** ID of the last change that is already known. */
  readonly after: string;
  readonly resources: readonly string[];
}

const changes = prepare<ChangesPlan>('', 'batch', ($) => {
  const rows = `select * from "crm_ledger" where "organization_id" = ${$(({ organization }) => organization)}::bigint and "transaction" = pg_current_xact_id() and "id" > ${$(({ after }) => after)}::bigint and "object" = any(${$(({ resources }) => arrayText(resources))}::text[]) and "version" is not null`;
  return `select l."id"::text, l."object", l."object_id"::text, l."action", _s."after"::text, _s."before"::text ${withBefore(rows, "'{}'::text[]")} order by l."id"`;
});

/** Runs the hooks after all writes of a transaction, until they no longer write anything. */
async function runAfter(
  executor: TransactionExecutor,
  plan: OperationPlan & HookedPlan,
  hooks: InstanceHooks,
): Promise<void> {
  const resources = hooks.observedResources;
  if (resources.length === 0) return;
  let after = '0';
  for (let round = 0; ; round++) {
    const rows = (
      await executor.run(changes.bind({ organization: plan.organization, after, resources }))
    ).map((row) => decodeChange(row));
    const last = rows.at(-1);
    if (last === undefined) return;
    if (round === maxRounds) {
      const [owner] = hooks.byResource.get(last.resource) ?? [];
      throw errors.moduleFailed(owner?.module ?? '', `afterWrite of ${last.resource}`, endless);
    }
    after = last.place;
    for (const [resource, rowsOfResource] of Map.groupBy(rows, (row) => row.resource))
      await runAfterHooks(executor, plan, hooks, resource, rowsOfResource);
  }
}

/** Runs the hooks after writes to one resource. */
async function runAfterHooks(
  executor: TransactionExecutor,
  plan: OperationPlan & HookedPlan,
  hooks: InstanceHooks,
  resource: string,
  rows: readonly ReturnType<typeof decodeChange>[],
): Promise<void> {
  const fields = fieldsByName(hooks.fullContext(resource).definition.fields);
  const writes = rows.map(
    ({ action, id, after, before }): CompletedWrite => ({
      action: action as CompletedWrite['action'],
      id: BigInt(id),
      record: after === null ? undefined : parseHookValues(fields, after),
      previous: before === null ? undefined : parseHookValues(fields, before),
    }),
  );
  for (const {
    module,
    hooks: { afterWrite, afterWrites },
  } of hooks.byResource.get(resource) ?? []) {
    const target = { module, executor, plan, hooks, customFields: plan.hookInput?.customFields };
    if (afterWrites !== undefined)
      await callModule(target, `afterWrites of ${resource}`, (context) =>
        afterWrites({ ...context, writes }),
      );
    if (afterWrite !== undefined)
      for (const write of writes)
        await callModule(target, `afterWrite of ${resource}`, (context) =>
          afterWrite({ ...context, ...write }),
        );
  }
}
