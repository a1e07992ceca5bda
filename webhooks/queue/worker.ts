import { setImmediate as requestsFirst } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { type Database, failureDetails } from '../../engine/database/index.ts';
import { repeatedWork } from '../../engine/modules/index.ts';
import { tablesOf, transaction } from '../../engine/tables/index.ts';
import type { ItemOutcome } from './attempts.ts';
import { type ClaimedItem, claim, createSettler } from './claim.ts';
import type { Queue } from './queue.ts';
import { reasonSentence } from './reasons.ts';

/** Logs failures: the first failure immediately, and repeated failures once a minute with their count. */
interface FailureLog {
  /**
   * Reports a failure. Failures with the same key count as repetitions, and the log entry contains the latest
   * failure's details.
   */
  readonly report: (key: string, details: object, text: string) => void;
  /** Logs the remaining counts and stops. */
  readonly close: () => void;
}

interface FailureCount {
  count: number;
  details: object;
  text: string;
}

/** Maximum number of failures counted separately within a minute. Additional failures are counted together. */
const maxKeys = 100;

/** Creates a failure log. @param intervalMs interval between log entries for a repeated failure, in milliseconds */
export function failureLog(log: (details: object, text: string) => void, intervalMs = 60_000): FailureLog {
  const counts = new Map<string, FailureCount>();
  const flush = () => {
    for (const [key, { count, details, text }] of [...counts]) {
      // A failure that did not recur within the interval is forgotten.
      if (count === 0) counts.delete(key);
      else {
        log({ ...details, count }, text);
        counts.set(key, { count: 0, details, text });
      }
    }
  };
  const timer = setInterval(flush, intervalMs).unref();
  return {
    report: (key, details, text) => {
      const countKey = counts.has(key) || counts.size < maxKeys ? key : '';
      const entry = counts.get(countKey);
      if (entry === undefined) log({ ...details, count: 1 }, text);
      counts.set(countKey, { count: entry === undefined ? 0 : entry.count + 1, details, text });
    },
    close: () => {
      clearInterval(timer);
      flush();
    },
  };
}

/** The organization and owner whose work occupies a slot. */
interface SlotHolder {
  readonly organization: string;
  /** ID of the integration or subscription. */
  readonly owner: string;
}

/** Slots for work in progress. A free slot always remains for other organizations and owners. */
interface Slots {
  readonly free: () => number;
  /**
   * Returns the number of slots to fill at a time: a fraction of the free slots, so that some remain for
   * other organizations.
   */
  readonly share: () => number;
  /** Returns organizations that occupy at least as many slots as are free, and must not receive more. */
  readonly fullOrganizations: () => readonly string[];
  /** Returns owners that occupy at least half as many slots as are free, and must not receive more. */
  readonly fullOwners: () => readonly string[];
  /** Occupies a slot until the work is finished. The promise must not reject. */
  readonly hold: (holder: SlotHolder, work: Promise<void>, onRelease: () => void) => void;
  /** Resolves when all work in progress is finished. */
  readonly done: () => Promise<void>;
}

/**
 * Creates slots. A single organization can occupy half of the slots, two organizations can each occupy a
 * third, and so on. Another organization therefore always finds a free slot, no matter how long the work
 * takes. The same applies to owners within an organization.
 * @param maxShare maximum number of slots to fill at a time
 */
export function slots(concurrency: number, maxShare: number): Slots {
  const organizations = new Map<string, number>();
  const owners = new Map<string, number>();
  const occupied = new Set<Promise<void>>();
  const free = () => concurrency - occupied.size;
  const change = (counts: Map<string, number>, key: string, delta: number) => {
    const count = (counts.get(key) ?? 0) + delta;
    if (count === 0) counts.delete(key);
    else counts.set(key, count);
  };
  const atLeast = (counts: ReadonlyMap<string, number>, minimum: number) =>
    [...counts].filter(([, count]) => count >= minimum).map(([key]) => key);
  return {
    free,
    share: () => Math.min(maxShare, Math.ceil(free() / 4)),
    fullOrganizations: () => atLeast(organizations, free()),
    fullOwners: () => atLeast(owners, free() / 2),
    hold: ({ organization, owner }, work, onRelease) => {
      const count = (delta: number) => {
        change(organizations, organization, delta);
        change(owners, owner, delta);
      };
      count(1);
      const slot = work.finally(() => {
        occupied.delete(slot);
        count(-1);
        onRelease();
      });
      occupied.add(slot);
    },
    done: async () => {
      await Promise.all(occupied);
    },
  };
}

/** Polling interval for items queued by other nodes or due for a retry, in milliseconds. */
const pollMs = 1000;

/**
 * Returns the delay after the n-th failure, in milliseconds. The delay doubles from 2 s up to `maxMs`, and half of it
 * is random.
 */
export function backoff(attempts: number, maxMs = 3_600_000, random: () => number = Math.random): number {
  const delay = Math.min(2000 * 2 ** (attempts - 1), maxMs);
  return delay / 2 + (delay / 2) * random();
}

/** Processes an item. If it throws, the error is logged, and the item is retried after its lease expires. */
type ProcessItem<Row> = (item: ClaimedItem<Row>) => Promise<ItemOutcome>;

/** Processes a queue's items on this node. */
interface Worker {
  /** Triggers processing of new items. */
  readonly wake: () => void;
}

/** Starts a worker. Before the server closes, the worker finishes its current items and stops. */
export function startWorker<Row>(
  app: FastifyInstance,
  database: Database,
  queue: Queue,
  process: ProcessItem<Row>,
): Worker {
  const failures = failureLog((details, text) => app.log.warn(details, text));
  const reportFailure = (cause: unknown) =>
    failures.report(
      'unreadable',
      failureDetails(cause),
      `failed to read the queue "${queue.name}"; will retry`,
    );

  const settle = createSettler(() => tablesOf(database), queue);
  /** Whether items became ready since the last claim. */
  let isFollowed = false;
  const work = async (item: ClaimedItem<Row>): Promise<void> => {
    // The embedded database responds within the same iteration of the event loop, so a full queue would keep
    // the process from reading requests.
    await requestsFirst();
    const at = new Date().toISOString();
    const start = performance.now();
    const outcome = await process(item);
    const ms = Math.round(performance.now() - start);
    const { failure, retryMs } = outcome;
    if (failure !== undefined) {
      const { id, attempts, organization, owner } = item;
      const isDeadLetter = retryMs === undefined;
      const details = {
        organization,
        [queue.owner.property]: owner,
        item: id,
        attempts,
        given_up: isDeadLetter,
      };
      const sentence = reasonSentence(queue.reasons, failure);
      failures.report(`${owner} ${isDeadLetter} ${sentence}`, details, sentence);
    }
    if (await settle(item, outcome, { at, ms })) isFollowed = true;
  };
  const itemSlots: Slots = slots(queue.concurrency, queue.batch);
  let isStopping = false;
  /** The organization of the last claimed item. */
  let lastOrganization = '0';
  /** Whether the last claim may have left due items, and how many items have started and finished since. */
  let hasMore = false;
  let startedCount = 0;
  let finishedCount = 0;
  const start = (item: ClaimedItem<Row>): void => {
    lastOrganization = item.organization;
    startedCount += 1;
    itemSlots.hold(item, work(item).catch(reportFailure), () => {
      finishedCount += 1;
      if (isFollowed || (hasMore && finishedCount >= Math.min(queue.batch, startedCount))) wake();
    });
  };
  /** Claims due items while slots are free. A slow item does not delay other organizations' items. */
  const drain = async (): Promise<void> => {
    startedCount = 0;
    finishedCount = 0;
    isFollowed = false;
    do {
      const limit = itemSlots.share();
      const [excludedOrganizations, excludedOwners] = [itemSlots.fullOrganizations(), itemSlots.fullOwners()];
      hasMore = limit === 0 || excludedOrganizations.length > 0 || excludedOwners.length > 0;
      if (limit === 0) return;
      const request = { limit, excludedOrganizations, excludedOwners, after: lastOrganization };
      const items = await transaction(database, (tables) => claim<Row>(tables, queue, request));
      items.forEach(start);
      if (items.length < limit || app.isReadOnly?.() === true) return;
      hasMore = true;
    } while (!isStopping);
  };
  const { wake, ended } = repeatedWork(
    () => drain().catch(reportFailure),
    () => isStopping || app.isReadOnly?.() === true,
  );
  const { runNow: now } = app.background.every(app, queue.name, pollMs, wake);
  app.addHook('preClose', async () => {
    isStopping = true;
    await ended();
    await itemSlots.done();
    failures.close();
  });
  return { wake: now };
}
