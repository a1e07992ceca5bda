import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { UserError } from '../../engine/errors.ts';
import {
  countsOf,
  type FamilyValues,
  type ReadinessReport,
} from '../../plugins/operations/monitoring/index.ts';
import type { Config } from '../config.ts';
import { heartbeats, intervalFor, missedAtStartFor } from './heartbeats.ts';
import { closeMs, drainMs } from './stop.ts';
import {
  ask,
  sendMessage,
  type WorkerMessage,
  type WorkerMessageOf,
  waitForMessage,
} from './worker-messages.ts';

/** A connection that Node's `cluster` sends to a worker. */
interface ConnectionHandle {
  readonly close: () => void;
}

/** Fields of `cluster` messages about connections. */
interface ClusterMessage {
  readonly act?: string;
  readonly seq?: number;
  readonly ack?: number;
}

/**
 * Closes connections that a worker has not accepted when it dies. Otherwise Node's primary process keeps them
 * open, and their clients wait forever (nodejs/node#21746). Relies on Node's undocumented messages. If they
 * change, workers still receive connections, but unaccepted ones are no longer closed.
 */
function closeUnclaimedConnections(worker: Worker): void {
  const { process: child } = worker;
  const unclaimed = new Map<number | undefined, ConnectionHandle>();
  const { send } = child;
  child.send = ((message: ClusterMessage | undefined, handle?: ConnectionHandle, ...options: unknown[]) => {
    if (message?.act === 'newconn' && handle !== undefined) unclaimed.set(message.seq, handle);
    return Reflect.apply(send, child, [message, handle, ...options]) as boolean;
  }) as typeof send;
  child.on('internalMessage', ({ ack }: ClusterMessage) => unclaimed.delete(ack));
  const closeUnclaimed = () => {
    for (const handle of unclaimed.values()) handle.close();
    unclaimed.clear();
  };
  // Node.js can hand over more connections until both events have fired.
  worker.on('disconnect', closeUnclaimed).on('exit', closeUnclaimed);
}

/** Maximum time between two exits that count as consecutive, in milliseconds. */
const inARowMs = 30_000;
/** Number of consecutive exits after which an instance without serving workers stops. */
const maxExits = 8;
/** Delay before the first restart, which doubles with each exit, and maximum delay, both in milliseconds. */
const [firstDelayMs, longestDelayMs] = [100, 10_000];

/** Calculates restart delays for workers that exit repeatedly. */
interface RestartBackoff {
  /**
   * Counts an exit.
   * @param now time on a monotonic clock, in milliseconds
   * @param othersServe whether other workers are serving
   * @returns the delay in milliseconds, or undefined if workers exit too often to be restarted
   */
  readonly next: (now: number, othersServe: boolean) => number | undefined;
}

/**
 * Creates a backoff with exponentially growing delays. A worker that exits occasionally is restarted after the shortest
 * delay.
 */
export function restartBackoff(): RestartBackoff {
  let exits = 0;
  let lastExit = Number.NEGATIVE_INFINITY;
  return {
    next: (now, othersServe) => {
      exits = now - lastExit > inARowMs ? 1 : exits + 1;
      lastExit = now;
      if (exits > maxExits && !othersServe) return undefined;
      return Math.min(firstDelayMs * 2 ** (exits - 1), longestDelayMs);
    },
  };
}

/** Processes that serve one instance. */
interface WorkerPool {
  /** Starts a worker. @throws the worker's error if it cannot serve */
  readonly add: () => Promise<WorkerMessageOf<'listening'>>;
  /** Chooses a serving worker to run the background work. */
  readonly lead: (isFirst: boolean) => Promise<WorkerMessageOf<'leading'>>;
  /** Starts missing workers, and from then on replaces workers that exit. */
  readonly replaceTheDead: () => void;
  /**
   * Returns the reason the whole process should be restarted, or undefined if it works or replacing workers
   * is sufficient.
   */
  readonly liveness: () => string | undefined;
  readonly readiness: () => Promise<ReadinessReport>;
  /** Returns the metrics of each worker, and the accumulated counters of workers that have exited. */
  readonly metrics: () => Promise<readonly (readonly FamilyValues[])[]>;
  readonly signal: (name: NodeJS.Signals) => void;
  /** Announces the stop. Requests are still served, but connections close after their response. */
  readonly drain: () => void;
  /**
   * Stops the workers one by one while the remaining workers keep serving.
   * @returns whether all requests were completed
   */
  readonly stop: () => Promise<boolean>;
  /** Kills all workers immediately. */
  readonly kill: () => void;
}

/**
 * Creates a worker pool without workers.
 * @param timeoutMs time after which an unresponsive worker is replaced, in milliseconds
 * @param giveUp called if workers keep exiting as soon as they are started
 */
export function createWorkerPool(
  { workers: size, workerTimeoutMs: timeoutMs }: Pick<Config, 'workers' | 'workerTimeoutMs'>,
  giveUp: () => void,
): WorkerPool {
  const alive = new Set<Worker>();
  const serving = new Set<Worker>();
  const backoff = restartBackoff();
  const detector = heartbeats<Worker>(size, missedAtStartFor(timeoutMs));
  let leader: Worker | undefined;
  let phase: 'starting' | 'running' | 'stopping' = 'starting';
  let isDraining = false;
  let reports = 0;
  /**
   * Each worker's most recent metrics. The metrics of exited workers are added to `exitedFamilies`, because
   * counters must not decrease.
   */
  const lastFamilies = new Map<Worker, readonly FamilyValues[]>();
  let exitedFamilies: Promise<readonly FamilyValues[]> = Promise.resolve([]);

  const add: WorkerPool['add'] = async () => {
    const worker = cluster.fork();
    closeUnclaimedConnections(worker);
    alive.add(worker);
    detector.add(worker);
    // Sending a message to a worker that has just exited fails.
    worker.on('error', () => {});
    worker.on('message', (message: WorkerMessage) => {
      if (message.kind === 'task' && leader !== undefined) sendMessage(leader, message);
      if (message.kind === 'pong') detector.responded(worker);
    });
    worker.once('exit', (code: number, signal: string | null) => {
      alive.delete(worker);
      serving.delete(worker);
      detector.remove(worker);
      const lastValues = lastFamilies.get(worker);
      lastFamilies.delete(worker);
      if (lastValues !== undefined)
        exitedFamilies = exitedFamilies.then((totals) => countsOf([totals, lastValues]));
      if (leader === worker) {
        leader = undefined;
        appoint();
      }
      if (phase === 'running') void replace(worker, signal ?? `code ${code}`);
    });
    const listening = await waitForMessage(worker, 'listening');
    serving.add(worker);
    detector.serves(worker);
    if (isDraining) sendMessage(worker, { kind: 'drain' });
    return listening;
  };

  const lead: WorkerPool['lead'] = async (isFirst) => {
    const [next] = serving;
    if (next === undefined) throw new UserError('no worker is serving');
    leader = next;
    sendMessage(next, { kind: 'lead', isFirst });
    return waitForMessage(next, 'leading');
  };
  /**
   * Selects a leader if a worker is serving and none is leading. If the leader exits, the exit handler selects the
   * next one.
   */
  const appoint = (): void => {
    if (phase === 'running' && leader === undefined && serving.size > 0) lead(false).catch(() => {});
  };

  const replace = async (worker: Worker, cause: string): Promise<void> => {
    const delay = backoff.next(performance.now(), serving.size > 0);
    if (delay === undefined) {
      report(`workers exit immediately after starting (last exit: ${cause}); stopping the service`);
      giveUp();
      return;
    }
    report(`worker ${worker.process.pid} exited (${cause}); starting another one`);
    await pause(delay);
    if (phase === 'stopping') return;
    // A worker that cannot serve exits, and its exit handler replaces it.
    await add().then(appoint, ({ message }: Error) => report(message));
  };

  const checkHeartbeats = (): void => {
    const { hung, others } = detector.beat();
    for (const worker of hung) {
      report(`worker ${worker.process.pid} has not responded for ${timeoutMs / 1000} s; killing it`);
      worker.process.kill('SIGKILL');
    }
    for (const worker of others) sendMessage(worker, { kind: 'ping' });
  };
  setInterval(checkHeartbeats, intervalFor(timeoutMs)).unref();

  const stop: WorkerPool['stop'] = async () => {
    phase = 'stopping';
    const deadline = performance.now() + drainMs;
    for (const worker of alive) if (!serving.has(worker)) worker.process.kill('SIGKILL');
    const stopping = [...serving];
    const exits: Promise<unknown[]>[] = [];
    for (const worker of stopping) {
      const exit = once(worker, 'exit');
      exits.push(exit);
      serving.delete(worker);
      sendMessage(worker, { kind: 'stop', withinMs: Math.max(0, deadline - performance.now()) });
      await Promise.race([exit, pause(drainMs / stopping.length)]);
    }
    const timeout = pause(Math.max(0, deadline - performance.now()) + 2 * closeMs, undefined);
    const codes = await Promise.race([Promise.all(exits), timeout]);
    for (const worker of alive) worker.process.kill('SIGKILL');
    return codes?.every(([code]) => code === 0) ?? false;
  };

  const readiness: WorkerPool['readiness'] = async () => {
    const workers = [...serving];
    const reportId = ++reports;
    const readinessReports = await Promise.all(
      workers.map(async (worker) => (await ask(worker, { kind: 'report', number: reportId }))?.readiness),
    );
    const responses = readinessReports.filter((report) => report !== undefined);
    const unresponsive = workers.length - responses.length;
    const firstProblem = (check: keyof (typeof responses)[number]['checks']) =>
      responses.map(({ checks }) => checks[check]).find((problem) => problem !== undefined);
    const replicas = responses[0]?.replicas;
    return {
      ...(replicas && { replicas }),
      checks: {
        database: firstProblem('database'),
        migrations: firstProblem('migrations'),
        configuration: firstProblem('configuration'),
        draining: isDraining ? 'stopping' : undefined,
        workers:
          unresponsive > 0
            ? `${unresponsive} do not respond`
            : workers.length === 0
              ? 'none serves'
              : undefined,
      },
      workers: { serving: responses.length, of: size },
    };
  };

  const metrics: WorkerPool['metrics'] = async () => {
    const measuringWorker = leader ?? serving.values().next().value;
    const reportId = ++reports;
    const families = await Promise.all(
      [...serving].map(async (worker) => {
        const response = await ask(worker, {
          kind: 'metrics',
          number: reportId,
          ofInstance: worker === measuringWorker,
        });
        // Use the previous metrics of a worker that is too busy to respond.
        if (response === undefined) return lastFamilies.get(worker) ?? [];
        if (alive.has(worker)) lastFamilies.set(worker, response.families);
        return response.families;
      }),
    );
    return [await exitedFamilies, ...families];
  };

  return {
    add,
    lead,
    replaceTheDead: () => {
      phase = 'running';
      for (let count = size - alive.size; count > 0; count--) void add().catch(() => {});
      appoint();
    },
    liveness: () => (phase === 'stopping' ? undefined : detector.problem()),
    readiness,
    metrics,
    signal: (name) => {
      for (const worker of alive) worker.process.kill(name);
    },
    drain: () => {
      isDraining = true;
      for (const worker of serving) sendMessage(worker, { kind: 'drain' });
    },
    stop,
    kill: () => {
      phase = 'stopping';
      for (const worker of alive) worker.process.kill('SIGKILL');
    },
  };
}

const report = (text: string): void => {
  process.stderr.write(`crm: ${text}\n`);
};
