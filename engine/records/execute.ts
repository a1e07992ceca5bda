import {
  type Database,
  databaseFailure,
  isDeadlock,
  rejectingRule,
  type StatementContext,
  type TextRows,
} from '../database/index.ts';
import { errors, HttpError } from '../errors.ts';
import { canWrite } from './access.ts';
import type { Executor, TransactionExecutor } from './executor.ts';
import type {
  Caller,
  CompiledOperation,
  ExplainRejection,
  OperationInput,
  OperationPlan,
  TransactionSteps,
} from './operation.ts';
import { reserveRecords } from './record-limits.ts';
import { isRejection, rejectedItems } from './rejections.ts';
import type { OperationResult } from './results.ts';
import { outsideScope, type ReadAccess } from './rows.ts';
import { retryingDeadlocks, runAtomically } from './transactions.ts';

/**
 * Maximum number of attempts per write. A concurrent change can resolve a conflict before its cause is found.
 */
const maxTries = 10;

/** Runs the steps of a plan in one transaction. @throws HttpError for any failure */
export const runSteps = <T>(
  database: Database,
  plan: OperationPlan,
  steps: TransactionSteps<T>,
): Promise<T> => runAtomically(database, plan, steps).catch(rejectFailure);

/** Runs the steps of a plan in the caller's transaction or, without one, in a transaction of their own. @throws HttpError for any failure */
export const runStepsIn = <T>(
  database: Executor,
  plan: OperationPlan,
  steps: TransactionSteps<T>,
): Promise<T> => ('atomically' in database ? runSteps(database, plan, steps) : steps.run(database));

/**
 * Runs operations and other statements in one transaction.
 * @param creates the number of records that the operations create, which count towards the organization's limit
 * @throws HttpError for any failure
 */
export const inTransaction = <T>(
  database: Database,
  caller: Caller,
  creates: number,
  work: (executor: TransactionExecutor) => Promise<T>,
): Promise<T> => {
  const { organization } = caller.principal;
  return runSteps(database, { organization, caller }, { lane: 'write', creates, run: work });
};

/** Thrown to roll back a transaction whose work succeeded. */
class RolledBack extends Error {
  override readonly name = 'RolledBack';
}

/**
 * Runs operations in a transaction that is always rolled back. They are validated, and the hooks in their transactions run, but
 * nothing is written.
 * @param creates the number of records that the operations create, which count towards the organization's limit
 * @throws HttpError in the same cases as the operations
 */
export async function dryRun<T>(
  database: Database,
  caller: Caller,
  creates: number,
  work: (executor: TransactionExecutor) => Promise<T>,
): Promise<T> {
  let result: { readonly value: T } | undefined;
  try {
    await inTransaction(database, caller, creates, async (executor) => {
      result = { value: await work(executor) };
      throw errors.internal(new RolledBack());
    });
  } catch (cause) {
    if (!(cause instanceof HttpError && cause.cause instanceof RolledBack)) throw cause;
  }
  if (result === undefined) throw errors.internal(undefined);
  return result.value;
}

/** The properties of an operation that determine its statements. */
type Executable<P extends OperationPlan> = Pick<
  CompiledOperation<P>,
  | 'statement'
  | 'creates'
  | 'readsOnly'
  | 'followUp'
  | 'retryable'
  | 'rejection'
  | 'assignment'
  | 'violation'
  | 'splitter'
  | 'transaction'
>;

/** Plans and runs an operation. @throws HttpError in the same cases as its `plan` and {@link execute} */
export async function runOperation<
  P extends OperationPlan,
  Input extends OperationInput,
  Result extends OperationResult,
>(
  database: Executor,
  operation: CompiledOperation<P, Input, Result, P | Promise<P>>,
  input: Input,
): Promise<Result> {
  const plan = await operation.plan(input);
  return operation.result(plan, await execute(database, operation, plan));
}

/**
 * Runs an operation's statement when the organization gets a slot. All requests for records pass through this
 * function.
 * @throws HttpError 400 naming every missing reference or assigned user who is not a member, or the operator's
 * constraint or trigger that rejected the write; 403 if the organization has reached its record limit or the written
 * record would leave the caller's scopes; 409 naming
 * the unique fields whose values another record already has; 500 if the database fails or does not respond; 503
 * if no slot is available in time or the database cancels the statement
 */
export async function execute<P extends OperationPlan>(
  database: Executor,
  operation: Executable<P>,
  plan: P,
  tries = 0,
): Promise<TextRows> {
  const steps = operation.transaction?.(plan);
  if (steps !== undefined) return runStepsIn(database, plan, steps);
  const { statement, creates, readsOnly, followUp, retryable, rejection, assignment, violation, splitter } =
    operation;
  const assigneeStatement = tries === 0 ? assignment?.statement(plan) : undefined;
  if (assignment !== undefined && assigneeStatement !== undefined) {
    const rows = await database.run(assigneeStatement, contextOf(plan)).catch(rejectFailure);
    const { assignment: _, ...write } = operation;
    return execute(database, write, assignment.remaining(plan, rows));
  }
  const firstStatement = statement(plan);
  if (firstStatement === undefined) return [];
  if (creates !== undefined && tries === 0) {
    if (!('atomically' in database)) database.reserve(creates(plan));
    else {
      const reservation = reserveRecords(database, plan.organization, creates(plan));
      if (reservation !== undefined) {
        const release = await reservation;
        return execute(database, operation, plan, 1).finally(release);
      }
    }
  }
  const context = contextOf(plan, readsOnly);
  const explain = async ({ statement, remaining }: ExplainRejection<P>) => {
    const explanation = tries < maxTries ? statement(plan) : undefined;
    if (explanation === undefined) return undefined;
    const rows = await database.run(explanation, contextOf(plan)).catch(rejectFailure);
    return execute(database, operation, remaining(plan, rows), tries + 1);
  };
  try {
    const run = () => database.run(firstStatement, context);
    const rows = await run().catch((cause: unknown) => {
      // Within a transaction, the other locks would still be held, so the whole transaction is repeated.
      if (isDeadlock(cause) && 'atomically' in database) return retryingDeadlocks(run, 2);
      if (retryable?.(cause)) return run();
      throw cause;
    });
    if (rejection?.isRejected?.(plan, rows)) {
      const result = await explain(rejection);
      // Other writes have repeatedly changed the records that prevented this write.
      if (result === undefined) throw errors.overloaded();
      return result;
    }
    const secondStatement = followUp?.(plan, rows);
    return secondStatement === undefined
      ? rows
      : [...rows, ...(await database.run(secondStatement, context))];
  } catch (cause) {
    if (cause instanceof HttpError) throw cause;
    const outside = outsideScope(cause);
    if (outside !== undefined && splitter === undefined) throw outside;
    const result = rejection !== undefined && isRejection(cause) ? await explain(rejection) : undefined;
    if (result !== undefined) return result;
    const violated = violation?.(cause);
    const isItemRejected =
      outside !== undefined || violated !== undefined || rejectingRule(cause) !== undefined;
    if (splitter === undefined || !isItemRejected || tries > maxTries)
      throw violated ?? databaseFailure(cause);
    const itemErrors = await rejectedItems(database, plan, splitter, violation).catch(rejectFailure);
    if (itemErrors.size === 0) throw databaseFailure(cause);
    return execute(database, operation, splitter.without(plan, itemErrors), tries + 1);
  }
}

/** Converts a failure. @throws HttpError always */
function rejectFailure(cause: unknown): never {
  throw databaseFailure(cause);
}

/** Returns the context of a plan's statements. */
function contextOf({ organization, caller }: OperationPlan, readsOnly?: ReadAccess): StatementContext {
  const isCurrent = readsOnly === 'current' || canWrite(caller.principal.grants);
  const access = readsOnly === undefined ? 'write' : isCurrent ? 'read' : 'delayed read';
  return { organization, access, trace: caller.trace };
}
