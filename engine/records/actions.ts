import type { Database } from '../database/index.ts';
import { entrySql } from '../effects/index.ts';
import { errors } from '../errors.ts';
import { documentIssue, humanize } from '../fields/index.ts';
import { literal, prepare } from '../sql/index.ts';
import { isAction } from './access.ts';
import { runStepsIn } from './execute.ts';
import type { Executor, TransactionExecutor } from './executor.ts';
import { compileLockedRecords, decodeLocked } from './hook-rows.ts';
import type { HookRecords, ModuleCode, ResourceAction } from './hook-types.ts';
import {
  fieldsByName,
  type HookValues,
  hookValuesJson,
  parseHookValues,
  toHookValues,
} from './hook-values.ts';
import { callModule, inHookTransaction } from './hooks.ts';
import { answerStored, type IdempotentPlan, keyStatements } from './idempotency.ts';
import { queueJob } from './jobs.ts';
import type { CreateInput, OperationContext, OperationPlan } from './operation.ts';
import { moduleTransaction } from './organization-records.ts';
import { basePlan, commonParameters, recordId, rejectRequest, unknownParameters } from './requests.ts';
import { organizationOf } from './rows.ts';

/** An action of a module. */
export type ModuleAction = ResourceAction & {
  /** Name of the module. */
  readonly module: string;
  readonly name: string;
  /** The required grant on the resource: an action of the API, or the name of this action. */
  readonly grant: string;
};

/** The input of an action. `id` is absent for actions of the collection. */
export interface ActionInput extends CreateInput {
  readonly id?: string;
}

/** The result of an action, as JSON. */
interface ActionResult {
  /** The action's result or, if it is a job, the queued job. */
  readonly json: string;
  /** Whether an earlier request with the same idempotency key performed the action. */
  readonly isReplayed: boolean;
}

/** The caller for whom a part of a job runs, with its current grants. */
type PartInput = Pick<ActionInput, 'caller' | 'customFields'>;

/** An action, compiled for callers with the same rights. */
export interface CompiledAction {
  /**
   * Performs the action in one transaction or, if it is a job, queues it. Within a caller's transaction, a job starts after its
   * commit.
   * @throws HttpError 400 for an invalid input; 404 if the record does not exist; 429 if too many jobs are queued
   */
  readonly run: (database: Executor, input: ActionInput) => Promise<ActionResult>;
  /**
   * Checks the input, and that the caller can perform the action on the record, without performing it.
   * @throws HttpError in the same cases as `run`
   */
  readonly check: (database: Executor, input: ActionInput) => Promise<void>;
  /** Returns the record of a job as the caller sees it. @throws HttpError 404 if it does not exist */
  readonly readRecord: (database: Executor, input: PartInput, id: string) => Promise<HookValues>;
  /**
   * Runs a part of a job in a transaction of its own. @throws the error of the work; HttpError 500 if it takes too long or hooks fail
   */
  readonly runPart: <T>(
    database: Database,
    input: PartInput,
    work: (records: HookRecords) => T | Promise<T>,
  ) => Promise<T>;
}

/** Returns the actions of a resource, in the order of the modules. */
export const actionsOfResource = (
  modules: readonly ModuleCode[],
  resource: string,
): readonly ModuleAction[] =>
  modules.flatMap(({ name: module, actions = {} }) =>
    Object.entries(actions[resource] ?? {}).map(([name, action]) => ({
      ...action,
      grant:
        action.permission === 'own'
          ? name
          : (action.permission ?? (action.ofCollection ? 'create' : 'update')),
      module,
      name,
    })),
  );

/** Returns the actions with a grant of their own. */
export const ownGrants = (actions: readonly ModuleAction[]): readonly string[] =>
  actions.flatMap(({ grant }) => (isAction(grant) ? [] : [grant]));

/** The path of an action, relative to its resource's path. */
export const actionPath = ({ name, ofCollection }: Pick<ModuleAction, 'name' | 'ofCollection'>): string =>
  `${ofCollection ? '' : '/:id'}/actions/${name}`;

/** Returns the label of an action: its `label`, or a label derived from its name. */
export const labelOfAction = ({ label, name }: Pick<ModuleAction, 'label' | 'name'>): string =>
  label ?? humanize(name.replaceAll('-', '_'));

/** Returns whether an action can be performed without a body, because its schema requires no property. */
export const acceptsEmptyBody = ({ input }: Pick<ModuleAction, 'input'>): boolean => {
  const required = input?.required;
  return !Array.isArray(required) || required.length === 0;
};

/** Returns the name of an action in errors and metrics. */
export const placeOfAction = (action: string, resource: string): string =>
  `the action ${action} of ${resource}`;

/** Returns the result of an action as JSON. @throws HttpError 500 if it is not an object */
export function actionResultJson(module: string, place: string, result: HookValues | undefined): string {
  if (result !== undefined && !isPlainObject(result))
    throw errors.moduleFailed(module, place, 'it must return an object or nothing');
  return hookValuesJson(result ?? {});
}

/** Compiles an action for callers with the same rights. */
export function compileAction(context: OperationContext, action: ModuleAction): CompiledAction {
  const { definition, hooks } = context;
  const { module, name, grant, ofCollection, input: schema } = action;
  const issueOf = documentIssue(schema ?? { type: 'object' });
  const fields = fieldsByName(definition.fields);
  const place = placeOfAction(name, definition.name);
  /** Records in the change log that the action was performed. */
  const entry = prepare<IdempotentPlan & { readonly id: string | undefined }>('', 'write', ($) =>
    entrySql({
      organization: organizationOf($),
      action: literal(name),
      object: literal(definition.name),
      objectId: `${$(({ id }) => id ?? null)}::bigint`,
      placeholder: $,
    }),
  );
  const locked = grant === 'update' || grant === 'delete' ? grant : 'read';
  let locks: ReturnType<typeof compileLockedRecords> | undefined;
  /** Returns the record as the caller sees it, locked. */
  const lockRecord = async (executor: TransactionExecutor, plan: OperationPlan, id: string) => {
    locks ??= compileLockedRecords(context, context);
    const statement = locks.byIds(locked, { ...plan, ids: [id] });
    const [row] = await executor.run(statement);
    if (row === undefined) throw errors.recordNotFound(definition.singular);
    return parseHookValues(fields, decodeLocked(row).json);
  };
  /** Checks the input. @returns the record's ID; undefined for actions of the collection */
  const checkedId = (input: ActionInput): string | undefined => {
    const issue = issueOf(input.body);
    rejectRequest([
      ...unknownParameters(input, commonParameters),
      ...(issue === undefined ? [] : [issueInBody(issue)]),
    ]);
    return ofCollection ? undefined : recordId(context, { id: input.id ?? '' });
  };
  const run: CompiledAction['run'] = async (database, input) => {
    const id = checkedId(input);
    const plan = { ...basePlan(input), idempotency: input.idempotency, hookInput: input };
    const path = `${definition.name}${actionPath(action).replace(':id', id ?? '')}`;
    const key = plan.idempotency === undefined ? undefined : keyStatements(plan, path);
    const values = toHookValues(new Map(), input.body);
    /** Performs the action, or queues the job. @returns the response as JSON */
    const respond = async (executor: TransactionExecutor): Promise<string> => {
      const record = id === undefined ? undefined : await lockRecord(executor, plan, id);
      if (action.job) {
        const job = { resource: definition.name, action: name, id, input: hookValuesJson(values) };
        return queueJob(executor, { ...plan, ...job });
      }
      const target = { module, executor, plan, hooks, customFields: input.customFields };
      const result = await callModule(target, place, (given) =>
        action.run({ ...given, input: values, id: id === undefined ? undefined : BigInt(id), record }),
      );
      return actionResultJson(module, place, result);
    };
    const perform = async (executor: TransactionExecutor): Promise<ActionResult> => {
      const stored = key && (await answerStored(executor.run, key, plan));
      if (stored !== undefined) return { json: stored, isReplayed: true };
      const json = await respond(executor);
      await executor.run(entry.bind({ ...plan, id }));
      if (key !== undefined) await executor.run(key.store(json));
      return { json, isReplayed: false };
    };
    const result = await runStepsIn(database, plan, {
      lane: 'batch',
      creates: 0,
      run: (executor) => inHookTransaction(executor, plan, hooks, () => perform(executor)),
    });
    if (action.job && 'atomically' in database) hooks.observer.jobQueued?.();
    return result;
  };
  const readRecord: CompiledAction['readRecord'] = async (database, input, id) => {
    const plan = basePlan(input);
    return runStepsIn(database, plan, { lane: 'batch', run: (executor) => lockRecord(executor, plan, id) });
  };
  const check: CompiledAction['check'] = async (database, input) => {
    const id = checkedId(input);
    if (id !== undefined) await readRecord(database, input, id);
  };
  const runPart: CompiledAction['runPart'] = (database, input, work) =>
    moduleTransaction(database, { ...input, module, place, hooks }, work);
  return { run, check, readRecord, runPart };
}

const isPlainObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns the issue of a part of the body. */
function issueInBody({ path, reason }: NonNullable<ReturnType<ReturnType<typeof documentIssue>>>) {
  const field = path === '' ? 'body' : path.replace(/^\./, '');
  return { field, message: `${path === '' ? 'the body' : field} ${reason}` };
}
