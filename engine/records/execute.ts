import {
  type Database,
  databaseFailure,
  rejectingRule,
  type StatementContext,
  type TextRows,
} from '../database/index.ts';
import { HttpError } from '../errors.ts';
import { canWrite } from './access.ts';
import type { CompiledOperation, OperationInput, OperationPlan } from './operation.ts';
import { isRejection, rejectedItems } from './rejections.ts';
import type { OperationResult } from './results.ts';

/**
 * Reserves capacity for records before they are created. Returns undefined if capacity is unlimited.
 * @returns a function to call when the write has finished, successfully or not
 * @throws HttpError 403 if the organization's limit would be exceeded
 */
export type ReserveRecords = (organization: string, count: number) => Promise<() => void> | undefined;

const limits = new WeakMap<Database, ReserveRecords>();

/** Limits the number of records in a database. `reserve` is called before records are created. */
export function limitRecords(database: Database, reserve: ReserveRecords): void {
  limits.set(database, reserve);
}

/** Reserves capacity for at least this many records, if the number of records is limited. */
export const reserveRecords: (
  database: Database,
  ...reservation: Parameters<ReserveRecords>
) => ReturnType<ReserveRecords> = (database, organization, count) =>
  limits.get(database)?.(organization, count);

/**
 * Maximum number of attempts per write. A concurrent change can resolve a conflict before its cause is found.
 */
const maxTries = 10;

/** The properties of an operation that determine its statements. */
type Executable<P extends OperationPlan> = Pick<
  CompiledOperation<P>,
  'statement' | 'creates' | 'readsOnly' | 'followUp' | 'retryable' | 'rejection' | 'assignment' | 'splitter'
>;

/** Plans and runs an operation. @throws HttpError in the same cases as its `plan` and {@link execute} */
export async function runOperation<
  P extends OperationPlan,
  Input extends OperationInput,
  Result extends OperationResult,
>(
  database: Database,
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
 * constraint or trigger that rejected the write; 403 if the organization has reached its record limit; 409 naming
 * the unique fields whose values another record already has; 500 if the database fails or does not respond; 503
 * if no slot is available in time or the database cancels the statement
 */
export async function execute<P extends OperationPlan>(
  database: Database,
  operation: Executable<P>,
  plan: P,
  tries = 0,
): Promise<TextRows> {
  const { statement, creates, readsOnly, followUp, retryable, rejection, assignment, splitter } = operation;
  const assigneeStatement = tries === 0 ? assignment?.statement(plan) : undefined;
  if (assignment !== undefined && assigneeStatement !== undefined) {
    const rows = await database.run(assigneeStatement, contextOf(plan)).catch(rejectFailure);
    const { assignment: _, ...write } = operation;
    return execute(database, write, assignment.remaining(plan, rows));
  }
  const firstStatement = statement(plan);
  if (firstStatement === undefined) return [];
  if (creates !== undefined && tries === 0) {
    const reservation = reserveRecords(database, plan.organization, creates(plan));
    if (reservation !== undefined) {
      const release = await reservation;
      return execute(database, operation, plan, 1).finally(release);
    }
  }
  const context = contextOf(plan, readsOnly);
  try {
    const rows = await database.run(firstStatement, context).catch((cause: unknown) => {
      if (retryable?.(cause)) return database.run(firstStatement, context);
      throw cause;
    });
    const secondStatement = followUp?.(plan, rows);
    return secondStatement === undefined
      ? rows
      : [...rows, ...(await database.run(secondStatement, context))];
  } catch (cause) {
    if (cause instanceof HttpError) throw cause;
    const explanation = isRejection(cause) && tries < maxTries ? rejection?.statement(plan) : undefined;
    if (rejection === undefined || explanation === undefined) {
      if (splitter === undefined || rejectingRule(cause) === undefined || tries > maxTries)
        throw databaseFailure(cause);
      const itemErrors = await rejectedItems(database, plan, splitter).catch(rejectFailure);
      if (itemErrors.size === 0) throw databaseFailure(cause);
      return execute(database, operation, splitter.without(plan, itemErrors), tries + 1);
    }
    const rows = await database.run(explanation, contextOf(plan)).catch(rejectFailure);
    return execute(database, operation, rejection.remaining(plan, rows), tries + 1);
  }
}

/** Converts a failure. @throws HttpError always */
function rejectFailure(cause: unknown): never {
  throw cause instanceof HttpError ? cause : databaseFailure(cause);
}

/** Returns the context of a plan's statements. */
function contextOf({ organization, caller }: OperationPlan, readsOnly = false): StatementContext {
  const access = !readsOnly ? 'write' : canWrite(caller.principal.grants) ? 'read' : 'delayed read';
  return { organization, access, trace: caller.trace };
}
