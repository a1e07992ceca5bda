import { setImmediate as requestsFirst } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Database } from '../../engine/database/index.ts';
import { tablesOf, transaction } from '../../engine/tables/index.ts';
import { type ClaimedItem, claim, createSettler, type ItemOutcome } from './claim.ts';
import { failureLog } from './failures.ts';
import type { Queue } from './queue.ts';
import { type Slots, slots } from './slots.ts';

/** How often to look for items that other nodes queued or whose retry is due, in milliseconds. */
const pollMs = 1000;

/** The delay after the n-th failure, in milliseconds: doubles from 2 s to the longest, half of it is random. */
export function backoff(attempts: number, longestMs = 3_600_000, random: () => number = Math.random): number {
  const longest = Math.min(2000 * 2 ** (attempts - 1), longestMs);
  return longest / 2 + (longest / 2) * random();
}

/** Processes an item; what it throws is logged, and the item is tried again when its lease ends. */
export type ProcessItem<Row> = (item: ClaimedItem<Row>) => Promise<ItemOutcome>;

/** Processes the items of a queue on any free node. */
export interface Worker {
  /** Signals new items. */
  readonly wake: () => void;
}

export function startWorker<Row>(
  app: FastifyInstance,
  database: Database,
  queue: Queue,
  process: ProcessItem<Row>,
): Worker {
  const failures = failureLog((details, text) => app.log.warn(details, text));
  const unreadable = (cause: { code?: string } | undefined) =>
    failures.report('unreadable', { code: cause?.code }, `${queue.name} could not be read; trying again`);

  const settled = createSettler(() => tablesOf(database), queue);
  /** Whether items became ready since the last claim. */
  let isFollowed = false;
  const work = async (item: ClaimedItem<Row>): Promise<void> => {
    // The embedded database responds within the same turn of the event loop: without this, a full queue would keep
    // the process from reading requests.
    await requestsFirst();
    const outcome = await process(item);
    const { reason, retryMs } = outcome;
    if (reason !== '') {
      const { id, attempts, organization, owner } = item;
      const givenUp = retryMs === undefined;
      const details = {
        organization,
        [queue.owner.column.replace(/_id$/, '')]: owner,
        item: id,
        attempts,
        given_up: givenUp,
      };
      failures.report(`${owner} ${givenUp} ${reason}`, details, reason);
    }
    if (await settled(item, outcome)) isFollowed = true;
  };
  const busy: Slots = slots(queue.concurrency, queue.batch);
  let stopping = false;
  /** The organization that was served last. */
  let last = '0';
  /** Whether the last claim may have left due items, and how many items have begun and ended since. */
  let more = false;
  let begun = 0;
  let ended = 0;
  const begin = (item: ClaimedItem<Row>): void => {
    last = item.organization;
    begun += 1;
    busy.hold(item, work(item).catch(unreadable), () => {
      ended += 1;
      if (isFollowed || (more && ended >= Math.min(queue.batch, begun))) wake();
    });
  };
  /** Claims due items while there are slots. A slow item does not delay items of other organizations. */
  const drain = async (): Promise<void> => {
    begun = 0;
    ended = 0;
    isFollowed = false;
    do {
      const limit = busy.share();
      const [without, withoutOwners] = [busy.full(), busy.fullOwners()];
      more = limit === 0 || without.length > 0 || withoutOwners.length > 0;
      if (limit === 0) return;
      const wanted = { limit, without, withoutOwners, after: last };
      const items = await transaction(database, (within) => claim<Row>(within, queue, wanted));
      items.forEach(begin);
      if (items.length < limit || app.isReadOnly?.() === true) return;
      more = true;
    } while (!stopping);
  };
  let running: Promise<void> | undefined;
  let again = false;
  const wake = () => {
    again = true;
    if (stopping || running !== undefined || app.isReadOnly?.() === true) return;
    again = false;
    running = drain()
      .catch(unreadable)
      .finally(() => {
        running = undefined;
        if (again) wake();
      });
  };
  const { now } = app.background.every(app, queue.name, pollMs, wake);
  app.addHook('preClose', async () => {
    stopping = true;
    await running;
    await busy.done();
    failures.close();
  });
  return { wake: now };
}
