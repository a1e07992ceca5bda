import {
  type Database,
  databaseFailure,
  isStatementTimeout,
  type ReadServer,
  rejectingRule,
  type TextRows,
} from '../database/index.ts';
import { HttpError } from '../errors.ts';
import type { Statement } from '../sql/index.ts';
import { canWrite } from './access.ts';
import { rejectedItems } from './database-rejections.ts';
import type { CompiledOperation, OperationPlan } from './operation.ts';
import { isRejection } from './rejections.ts';

/** Maximum number of attempts of a write. A conflict can disappear before its reason is found. */
const maxTries = 10;

/** Maximum number of traced statements per request; exports and imports run any number. */
const mostTraced = 100;

/** The parts of an operation that determine its statements. */
type Executable<P extends OperationPlan> = Pick<
  CompiledOperation<P>,
  'statement' | 'creates' | 'readsOnly' | 'further' | 'retryable' | 'refusal' | 'parts'
>;

/**
 * Runs an operation's statement when its organization's turn has come. The one place where a request for records meets
 * the database.
 * @throws HttpError 400 naming the constraint or trigger of the operator's that rejects the write; 403 where the organization may have no more records; 400 naming every reference that points to no record of the organization; 409 naming the unique
 *   fields that another record has the same values of; 500 when the database fails or does not respond; 503 when the
 *   turn does not come in time or the database ends the statement
 */
export async function execute<P extends OperationPlan>(
  database: Database,
  operation: Executable<P>,
  plan: P,
  tries = 1,
): Promise<TextRows> {
  const { statement, creates, readsOnly, further, retryable, refusal, parts } = operation;
  const asked = statement(plan);
  if (asked === undefined) return [];
  if (creates !== undefined && tries === 1) {
    const admitted = database.admitRecords?.(plan.organization, creates(plan));
    if (admitted !== undefined) await admitted;
  }
  const run = readsOnly && database.replicas !== undefined ? onReplica : timed;
  try {
    const rows = await run(database, plan, asked).catch((cause: unknown) => {
      if (retryable?.(cause)) return run(database, plan, asked);
      throw cause;
    });
    const more = further?.(plan, rows);
    return more === undefined ? rows : [...rows, ...(await run(database, plan, more))];
  } catch (cause) {
    if (cause instanceof HttpError) throw cause;
    const why = isRejection(cause) && tries < maxTries ? refusal?.statement(plan) : undefined;
    if (refusal === undefined || why === undefined) {
      if (parts === undefined || rejectingRule(cause) === undefined || tries > maxTries)
        throw databaseFailure(cause);
      const rejected = await rejectedItems(database, plan, parts).catch((failure: unknown) => {
        throw failure instanceof HttpError ? failure : databaseFailure(failure);
      });
      if (rejected.size === 0) throw databaseFailure(cause);
      return execute(database, operation, parts.without(plan, rejected), tries + 1);
    }
    const rows = await timed(database, plan, why).catch((failure: unknown) => {
      throw failure instanceof HttpError ? failure : databaseFailure(failure);
    });
    return execute(database, operation, refusal.remaining(plan, rows), tries + 1);
  }
}

/** Runs on a replica if one is suitable, and on the primary otherwise or if the replica fails. */
async function onReplica(database: Database, plan: OperationPlan, statement: Statement): Promise<TextRows> {
  const { organization, caller } = plan;
  const replica = await database.replicas?.find(organization, canWrite(caller.principal.grants));
  if (replica === undefined) return timed(database, plan, statement);
  return timed(database, plan, statement, replica).catch((cause: unknown) => {
    // Another server would not be faster if the wait for a slot timed out.
    if (cause instanceof HttpError || isStatementTimeout(cause)) throw cause;
    return timed(database, plan, statement);
  });
}

/** As {@link inTurn}, with its time added to the cost of the request. */
function timed(
  database: Database,
  plan: OperationPlan,
  statement: Statement,
  server: ReadServer = database,
): Promise<TextRows> {
  const { trace } = plan.caller;
  if (trace === undefined) return inTurn(database, plan, statement, server);
  const began = performance.now();
  return inTurn(database, plan, statement, server).finally(() => {
    const { name, lane } = statement;
    const ms = performance.now() - began;
    trace.lane = lane;
    trace.statementMs += ms;
    const { statements } = trace;
    if (statements !== undefined && statements.length < mostTraced)
      statements.push({ name, lane, at: performance.timeOrigin + began, ms });
  });
}

/** Short reads share connections and writes are batched; all other statements use a separate connection. */
async function inTurn(
  database: Database,
  { organization }: OperationPlan,
  statement: Statement,
  server: ReadServer = database,
): Promise<TextRows> {
  const { admission, groups } = database;
  const { pipelines } = server;
  const turn = pipelines?.turn(statement, organization);
  if (pipelines !== undefined && turn !== undefined) {
    const rows = await admission.run(turn, organization, async () =>
      // While it waited, its organization may have been left to the pool.
      pipelines.turn(statement, organization) === undefined
        ? undefined
        : pipelines.run(statement, organization),
    );
    if (rows !== undefined) return rows;
  }
  if (groups?.takes(statement, organization) !== true)
    return admission.run(statement.lane, organization, () => server.run(statement));
  const rows = await admission.run('short write', organization, () => groups.run(statement));
  if (rows !== undefined) return rows;
  return admission.run(statement.lane, organization, () =>
    groups.alone(organization, () => server.run(statement)),
  );
}
