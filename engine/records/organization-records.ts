import type { Database } from '../database/index.ts';
import { organizationCustomFields } from './custom-definitions.ts';
import type { CustomFields } from './custom-fields.ts';
import { runSteps } from './execute.ts';
import type { TransactionExecutor } from './executor.ts';
import { hookRecords, reopenedRecords } from './hook-records.ts';
import type { Awaitable, HookRecords } from './hook-types.ts';
import { callModule, inHookTransaction } from './hooks.ts';
import type { Caller, InstanceHooks } from './operation.ts';
import type { RecordResource } from './record-resource.ts';
import { basePlan } from './requests.ts';

/** For which module and caller a transaction runs. */
interface TransactionTarget {
  /** Name of the module. */
  readonly module: string;
  /** Names the code in errors, logs and metrics. */
  readonly place: string;
  readonly hooks: InstanceHooks;
  readonly caller: Caller;
  readonly customFields?: CustomFields | undefined;
}

/**
 * Runs a module's work on records in one transaction, with the time limit of an action. The work runs again if PostgreSQL rolls it back
 * because of a deadlock.
 * @throws the error of the work; HttpError 500 if it takes too long or hooks fail
 */
export async function moduleTransaction<T>(
  database: Database,
  { module, place, hooks, caller, customFields }: TransactionTarget,
  work: (records: HookRecords) => Awaitable<T>,
): Promise<T> {
  const input = { caller, customFields };
  const plan = { ...basePlan(input), hookInput: input };
  let failure: { readonly cause: unknown } | undefined;
  const perform = (executor: TransactionExecutor) => {
    failure = undefined;
    return callModule({ module, executor, plan, hooks, customFields }, place, async ({ records }) => {
      try {
        return await work(records);
      } catch (cause) {
        failure = { cause };
        throw cause;
      }
    });
  };
  try {
    return await runSteps(database, plan, {
      lane: 'batch',
      creates: 0,
      run: (executor) => inHookTransaction(executor, plan, hooks, () => perform(executor)),
    });
  } catch (cause) {
    // The caller can handle its own errors.
    throw failure === undefined ? cause : failure.cause;
  }
}

/** Access to an organization's records for code that is not a hook or an action. Every call is a transaction of its own. */
export interface OrganizationRecords extends HookRecords {
  /**
   * Runs work in one transaction, within 5 seconds, and returns its result. The work must access records only with the `records` that it
   * receives. It runs again if PostgreSQL rolls it back because of a deadlock.
   */
  readonly transaction: <T>(work: (records: HookRecords) => Awaitable<T>) => Promise<T>;
}

/** For which module and caller records are accessed. */
interface AccessTarget {
  readonly database: Database;
  readonly resources: readonly Pick<RecordResource, 'context' | 'definition'>[];
  readonly module: string;
  readonly caller: Caller;
  /** If it is set, the caller's limits do not apply. See {@link HookRecords.asSystem}. */
  readonly reason?: string;
}

/** Returns access to the records of a caller's organization. */
export function organizationRecords({
  database,
  resources,
  module,
  caller,
  reason,
}: AccessTarget): OrganizationRecords {
  const hooks = resources[0]?.context.hooks;
  if (hooks === undefined) throw new Error('this instance has no resources');
  const targetOf = async () => ({
    ...{ module, caller, hooks },
    customFields: await organizationCustomFields(database, resources, caller.principal.organization),
  });
  return {
    ...reopenedRecords(
      async (call) => call(hookRecords({ ...(await targetOf()), run: (work) => work(database) })),
      reason,
    ),
    transaction: async (work) =>
      moduleTransaction(database, { ...(await targetOf()), place: 'a transaction' }, (records) =>
        work(reason === undefined ? records : records.asSystem(reason)),
      ),
  };
}
