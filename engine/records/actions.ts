import type { Database, TextRows } from '../database/index.ts';
import { entrySql } from '../effects/index.ts';
import { errors } from '../errors.ts';
import { documentIssue, humanize } from '../fields/index.ts';
import { cell, literal, prepare, rowDecoder } from '../sql/index.ts';
import { isAction } from './access.ts';
import { runSteps } from './execute.ts';
import type { TransactionExecutor } from './executor.ts';
import { compileLockedRecords, decodeLocked } from './hook-rows.ts';
import type { ModuleCode, ResourceAction } from './hook-types.ts';
import { fieldsByName, hookValuesJson, parseHookValues, toHookValues } from './hook-values.ts';
import { callModule, inHookTransaction } from './hooks.ts';
import { answerStored, type IdempotentPlan, keyStatements } from './idempotency.ts';
import type { CreateInput, OperationContext } from './operation.ts';
import { basePlan, commonParameters, recordId, rejectRequest, unknownParameters } from './requests.ts';
import { organizationOf } from './rows.ts';

/** An action of a module. */
export interface ModuleAction extends Omit<ResourceAction, 'permission'> {
  /** Name of the module. */
  readonly module: string;
  readonly name: string;
  /** The required grant on the resource: an action of the API, or the name of this action. */
  readonly permission: string;
}

/** The input of an action. `id` is absent for actions of the collection. */
export interface ActionInput extends CreateInput {
  readonly id?: string;
}

/** The result of an action, as JSON. */
interface ActionResult {
  readonly json: string;
  /** Whether an earlier request with the same idempotency key performed the action. */
  readonly isReplayed: boolean;
}

/** Performs an action in one transaction. @throws HttpError 400 for an invalid input; 404 if the record does not exist */
export type RunAction = (database: Database, input: ActionInput) => Promise<ActionResult>;

/** Returns the actions of a resource, in the order of the modules. */
export const actionsOfResource = (
  modules: readonly ModuleCode[],
  resource: string,
): readonly ModuleAction[] =>
  modules.flatMap(({ name: module, actions = {} }) =>
    Object.entries(actions[resource] ?? {}).map(([name, { permission, ...action }]) => ({
      ...action,
      permission: permission === 'own' ? name : (permission ?? (action.ofCollection ? 'create' : 'update')),
      module,
      name,
    })),
  );

/** Returns the actions with a grant of their own. */
export const ownGrants = (actions: readonly ModuleAction[]): readonly string[] =>
  actions.flatMap(({ permission }) => (isAction(permission) ? [] : [permission]));

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

const decodeResult = rowDecoder({ json: cell.text, isReplayed: cell.flag });

/** Compiles an action for callers with the same rights. */
export function compileAction(context: OperationContext, action: ModuleAction): RunAction {
  const { definition, hooks } = context;
  if (hooks === undefined) throw new Error('an instance with actions has hooks');
  const { module, name, permission, ofCollection, input: schema, run } = action;
  const issueOf = documentIssue(schema ?? { type: 'object' });
  const fields = fieldsByName(definition.fields);
  const place = `the action ${name} of ${definition.name}`;
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
  const locked = permission === 'update' || permission === 'delete' ? permission : 'read';
  let locks: ReturnType<typeof compileLockedRecords> | undefined;
  /** Returns the record as the caller sees it, locked. */
  const lockRecord = async (executor: TransactionExecutor, plan: IdempotentPlan, id: string) => {
    locks ??= compileLockedRecords(context, context);
    const statement = locks.byIds(locked, { ...plan, ids: [id] });
    const [row] = await executor.run(statement);
    if (row === undefined) throw errors.recordNotFound(definition.singular);
    return parseHookValues(fields, decodeLocked(row).json);
  };
  return async (database, input) => {
    const issue = issueOf(input.body);
    rejectRequest([
      ...unknownParameters(input, commonParameters),
      ...(issue === undefined ? [] : [issueInBody(issue)]),
    ]);
    const id = ofCollection ? undefined : recordId(context, { id: input.id ?? '' });
    const plan = { ...basePlan(input), idempotency: input.idempotency, hookInput: input };
    const path = `${definition.name}${actionPath(action).replace(':id', id ?? '')}`;
    const key = plan.idempotency === undefined ? undefined : keyStatements(plan, path);
    const perform = async (executor: TransactionExecutor): Promise<TextRows> => {
      const stored = key && (await answerStored(executor.run, key, plan));
      if (stored !== undefined) return [[stored, 'true']];
      const record = id === undefined ? undefined : await lockRecord(executor, plan, id);
      const target = { module, executor, plan, hooks, customFields: input.customFields };
      const values = toHookValues(new Map(), input.body);
      const result = await callModule(target, place, (given) =>
        run({ ...given, input: values, id: id === undefined ? undefined : BigInt(id), record }),
      );
      if (result !== undefined && !isPlainObject(result))
        throw errors.moduleFailed(module, place, 'it must return an object or nothing');
      const json = hookValuesJson(result ?? {});
      await executor.run(entry.bind({ ...plan, id }));
      if (key !== undefined) await executor.run(key.store(json));
      return [[json, 'false']];
    };
    const rows = await runSteps(database, plan, {
      lane: 'batch',
      run: (executor) => inHookTransaction(executor, plan, hooks, () => perform(executor)),
    });
    return decodeResult(rows[0] ?? []);
  };
}

const isPlainObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns the issue of a part of the body. */
function issueInBody({ path, reason }: NonNullable<ReturnType<ReturnType<typeof documentIssue>>>) {
  const field = path === '' ? 'body' : path.replace(/^\./, '');
  return { field, message: `${path === '' ? 'the body' : field} ${reason}` };
}
