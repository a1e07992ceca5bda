import { HttpError } from '../errors.ts';
import { type Admission, createAdmission } from './admission.ts';
import type {
  Database,
  Runnable,
  Server,
  Servers,
  StatementContext,
  StatementRunner,
  TextRows,
} from './database.ts';
import { isStatementTimeout } from './failures.ts';
import { slotOwner } from './requests.ts';

/** Maximum number of traced statements per request. Exports and imports can run any number of statements. */
const maxTracedStatements = 100;

/**
 * Schedules statements on servers. Short reads share connections and writes are batched; other statements,
 * and statements that failed there, use a separate connection.
 */
export function scheduleOn(servers: Servers): Database & Servers & { readonly admission: Admission } {
  const { primary, writeBatcher, replicas } = servers;
  const admission = createAdmission(servers.limits);

  const schedule: Database['schedule'] = (work, context) => {
    if (context !== undefined) return admission.run(context.lane, context.organization, work);
    const owner = slotOwner();
    if (owner === undefined) return work();
    return admission.run(owner === '' ? 'lookup' : 'module', owner, work);
  };

  /** Runs a statement on a server, in its lane. */
  async function runInLane(server: Server, statement: Runnable, organization: string): Promise<TextRows> {
    const { lane = 'read' } = statement;
    // Later pages take longer than the first ones, so they do not share connections, but they use the same pool.
    const poolLane = lane === 'deep' ? 'list' : lane;
    const runInPool = () => server.run(statement);
    const shared = lane === 'write' ? writeBatcher : server.pipelines;
    const sharedLane = shared?.laneOf(statement, organization);
    if (shared === undefined || sharedLane === undefined)
      return admission.run(poolLane, organization, runInPool);
    const rows = await admission.run(sharedLane, organization, () =>
      // The statement or its organization might have been excluded while the statement waited.
      shared.laneOf(statement, organization) === undefined
        ? Promise.resolve(undefined)
        : shared.run(statement, organization),
    );
    if (rows !== undefined) return rows;
    return admission.run(poolLane, organization, () => shared.runAlone(organization, runInPool));
  }

  /** Runs a statement with {@link runInLane} and adds its duration to the trace. */
  const runTraced = (
    server: Server,
    statement: Runnable,
    { organization, trace }: StatementContext,
  ): Promise<TextRows> => traced(statement, trace, (toRun) => runInLane(server, toRun, organization));

  /** Runs a statement and adds its duration to the trace. */
  function traced(
    statement: Runnable,
    trace: StatementContext['trace'],
    run: StatementRunner,
  ): Promise<TextRows> {
    if (trace === undefined) return run(statement);
    const start = performance.now();
    return run(statement).finally(() => {
      const { name, lane = 'read' } = statement;
      const ms = performance.now() - start;
      trace.lane = lane;
      trace.statementMs += ms;
      const { statements } = trace;
      if (statements !== undefined && statements.length < maxTracedStatements)
        statements.push({ name, lane, at: performance.timeOrigin + start, ms });
    });
  }

  /** Runs a statement on a replica, or on the primary if no replica is suitable or the replica fails. */
  async function runOnReplica(statement: Runnable, context: StatementContext): Promise<TextRows> {
    const replica = await replicas?.find(context.organization, context.access);
    if (replica === undefined) return runTraced(primary, statement, context);
    return runTraced(replica, statement, context).catch((cause: unknown) => {
      // If the wait for a slot or the statement timed out, the primary would not be faster.
      if (cause instanceof HttpError || isStatementTimeout(cause)) throw cause;
      return runTraced(primary, statement, context);
    });
  }

  return {
    ...servers,
    admission,
    run: (statement, context) => {
      if (context === undefined) return schedule(() => primary.run(statement));
      return replicas === undefined || context.access === 'write'
        ? runTraced(primary, statement, context)
        : runOnReplica(statement, context);
    },
    schedule,
    atomically: (work, { organization, lane, trace }) =>
      admission.run(lane, organization, () =>
        primary.transaction((run) => work((statement) => traced(statement, trace, run))),
      ),
    hold: admission.hold,
    status: () => ({
      ...admission.load(),
      connections: servers.connections?.() ?? [],
      replicas: replicas?.status(),
    }),
  };
}
