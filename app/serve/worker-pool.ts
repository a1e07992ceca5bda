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
import { closeUnclaimedConnections } from './inherited-sockets.ts';
import { restartBackoff } from './restart-backoff.ts';
import { closeMs, drainMs } from './stop.ts';
import { ask, hear, tell } from './worker-conversations.ts';
import type { WorkerMessage, WorkerMessageOf } from './worker-messages.ts';

/** Several processes that serve one instance. */
export interface WorkerPool {
  /** Starts a worker. @throws when it cannot serve, with its reason */
  readonly add: () => Promise<WorkerMessageOf<'listening'>>;
  /** Chooses a serving worker to run the background work. */
  readonly lead: (isFirst: boolean) => Promise<WorkerMessageOf<'leading'>>;
  /** From now on, workers that die are replaced. */
  readonly replaceTheDead: () => void;
  /** Why the whole process should be restarted; undefined while it serves or replaces its workers by itself. */
  readonly liveness: () => string | undefined;
  readonly readiness: () => Promise<ReadinessReport>;
  /** What operators watch, of each worker, those that have ended included. */
  readonly metrics: () => Promise<readonly (readonly FamilyValues[])[]>;
  readonly signal: (name: NodeJS.Signals) => void;
  /** Everything is still served, but connections close after their response. */
  readonly leave: () => void;
  /** Stops the workers one after another while the others keep serving. @returns whether all requests got their response */
  readonly stop: () => Promise<boolean>;
  /** Ends all of them immediately. */
  readonly kill: () => void;
}

/**
 * @param timeoutMs how long a worker may hang before it is replaced
 * @param giveUp called when workers die as soon as they are started
 */
export function createWorkerPool(
  { workers: size, workerTimeoutMs: timeoutMs }: Pick<Config, 'workers' | 'workerTimeoutMs'>,
  giveUp: () => void,
): WorkerPool {
  const alive = new Set<Worker>();
  const serving = new Set<Worker>();
  const deaths = restartBackoff();
  const pulse = heartbeats<Worker>(size, missedAtStartFor(timeoutMs));
  let leader: Worker | undefined;
  let phase: 'starting' | 'running' | 'stopping' = 'starting';
  let isLeaving = false;
  let reports = 0;
  /** What each worker said last, and what those said that have ended: what is counted must not become less. */
  const lastFamilies = new Map<Worker, readonly FamilyValues[]>();
  let ended: Promise<readonly FamilyValues[]> = Promise.resolve([]);

  const add: WorkerPool['add'] = async () => {
    const worker = cluster.fork();
    closeUnclaimedConnections(worker);
    alive.add(worker);
    pulse.add(worker);
    // A message to a worker that has just died.
    worker.on('error', () => {});
    worker.on('message', (message: WorkerMessage) => {
      if (message.kind === 'task' && leader !== undefined) tell(leader, message);
      if (message.kind === 'pong') pulse.responded(worker);
    });
    worker.once('exit', (code: number, signal: string | null) => {
      alive.delete(worker);
      serving.delete(worker);
      pulse.remove(worker);
      const last = lastFamilies.get(worker);
      lastFamilies.delete(worker);
      if (last !== undefined) ended = ended.then((before) => countsOf([before, last]));
      if (leader === worker) {
        leader = undefined;
        appoint();
      }
      if (phase === 'running') void replace(worker, signal ?? `code ${code}`);
    });
    const listening = await hear(worker, 'listening');
    serving.add(worker);
    pulse.serves(worker);
    if (isLeaving) tell(worker, { kind: 'leave' });
    return listening;
  };

  const lead: WorkerPool['lead'] = async (isFirst) => {
    const [next] = serving;
    if (next === undefined) throw new UserError('no worker is serving');
    leader = next;
    tell(next, { kind: 'lead', isFirst });
    return hear(next, 'leading');
  };
  /** Makes sure that one leads, if one serves. One that dies before it leads is followed by the next. */
  const appoint = (): void => {
    if (phase === 'running' && leader === undefined && serving.size > 0) lead(false).catch(() => {});
  };

  const replace = async (worker: Worker, how: string): Promise<void> => {
    const delay = deaths.next(performance.now(), serving.size > 0);
    if (delay === undefined) {
      report(`workers end as soon as they are started, the last one by ${how}: the service stops`);
      giveUp();
      return;
    }
    report(`worker ${worker.process.pid} has ended by ${how}; another one starts`);
    await pause(delay);
    if (phase === 'stopping') return;
    // One that does not get as far as to serve ends, and is replaced in its turn.
    await add().then(appoint, ({ message }: Error) => report(message));
  };

  const checkPulse = (): void => {
    const { hung, others } = pulse.beat();
    for (const worker of hung) {
      report(`worker ${worker.process.pid} has not responded for ${timeoutMs / 1000} s: it is killed`);
      worker.process.kill('SIGKILL');
    }
    for (const worker of others) tell(worker, { kind: 'ping' });
  };
  setInterval(checkPulse, intervalFor(timeoutMs)).unref();

  const stop: WorkerPool['stop'] = async () => {
    phase = 'stopping';
    const end = performance.now() + drainMs;
    for (const worker of alive) if (!serving.has(worker)) worker.process.kill('SIGKILL');
    const leaving = [...serving];
    const ends: Promise<unknown[]>[] = [];
    for (const worker of leaving) {
      const ended = once(worker, 'exit');
      ends.push(ended);
      serving.delete(worker);
      tell(worker, { kind: 'stop', withinMs: Math.max(0, end - performance.now()) });
      await Promise.race([ended, pause(drainMs / leaving.length)]);
    }
    const late = pause(Math.max(0, end - performance.now()) + 2 * closeMs, undefined);
    const codes = await Promise.race([Promise.all(ends), late]);
    for (const worker of alive) worker.process.kill('SIGKILL');
    return codes?.every(([code]) => code === 0) ?? false;
  };

  const readiness: WorkerPool['readiness'] = async () => {
    const asked = [...serving];
    const number = ++reports;
    const found = await Promise.all(
      asked.map(async (worker) => (await ask(worker, { kind: 'report', number }))?.readiness),
    );
    const known = found.filter((each) => each !== undefined);
    const silent = asked.length - known.length;
    const first = (check: keyof (typeof known)[number]['checks']) =>
      known.map(({ checks }) => checks[check]).find((problem) => problem !== undefined);
    const replicas = known[0]?.replicas;
    return {
      ...(replicas && { replicas }),
      checks: {
        database: first('database'),
        migrations: first('migrations'),
        configuration: first('configuration'),
        draining: isLeaving ? 'stopping' : undefined,
        workers: silent > 0 ? `${silent} do not respond` : asked.length === 0 ? 'none serves' : undefined,
      },
      workers: { serving: known.length, of: size },
    };
  };

  const metrics: WorkerPool['metrics'] = async () => {
    const first = leader ?? serving.values().next().value;
    const number = ++reports;
    const found = await Promise.all(
      [...serving].map(async (worker) => {
        const told = await ask(worker, { kind: 'metrics', number, ofInstance: worker === first });
        // One that is too busy to say has what it had.
        if (told === undefined) return lastFamilies.get(worker) ?? [];
        if (alive.has(worker)) lastFamilies.set(worker, told.families);
        return told.families;
      }),
    );
    return [await ended, ...found];
  };

  return {
    add,
    lead,
    replaceTheDead: () => {
      phase = 'running';
      for (let missing = size - alive.size; missing > 0; missing--) void add().catch(() => {});
      appoint();
    },
    liveness: () => (phase === 'stopping' ? undefined : pulse.problem()),
    readiness,
    metrics,
    signal: (name) => {
      for (const worker of alive) worker.process.kill(name);
    },
    leave: () => {
      isLeaving = true;
      for (const worker of serving) tell(worker, { kind: 'leave' });
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
