import { type Database, runOutsideRequests } from '../../engine/database/index.ts';
import { errors } from '../../engine/errors.ts';
import { arrayText, prepare } from '../../engine/sql/index.ts';
import type { FeedPage } from './feed.ts';
import type { FeedPosition, UnverifiedPosition } from './position.ts';

/** Readers waiting for changes. They do not hold database connections. */
interface Waiters {
  /**
   * Reserves a slot for a waiting reader. Call the returned function to release it.
   * @throws HttpError 503 if too many readers are already waiting, either for the organization or in total
   */
  readonly enter: (organization: string) => () => void;
  /** Waits until the organization has changes after a position or the time is up. */
  readonly wait: (
    organization: string,
    after: FeedPosition,
    ms: number,
    signal: AbortSignal,
  ) => Promise<void>;
}

/** Maximum number of waiting readers in one process, per organization and in total. */
const [maxOfOrganization, maxTotal] = [50, 1000];
/** Interval between polls, and delay before retrying a failed poll, in milliseconds. */
const [pollIntervalMs, retryIntervalMs] = [100, 1000];

/** A reader waiting for changes after its position. */
interface Reader extends FeedPosition {
  readonly organization: string;
  readonly wake: () => void;
}

/** Statement that returns the 1-based indexes of the readers that have changes to read. */
const findReadyReaders = prepare<readonly Reader[]>('ledger_new', 'read', ($) => {
  const texts = (value: (reader: Reader) => string) =>
    `${$((readers) => arrayText(readers.map(value)))}::text[]`;
  const arrays = [
    texts(({ organization }) => organization),
    texts(({ transaction }) => transaction),
    texts(({ id }) => id),
  ];
  return `select w."number"::text from unnest(${arrays.join(', ')}) with ordinality w("organization", "transaction", "id", "number") where exists (select from "crm_ledger" l where l."organization_id" = w."organization"::bigint and (l."transaction", l."id") > (w."transaction"::xid8, w."id"::bigint) and l."transaction" < pg_snapshot_xmin(pg_current_snapshot()) and l."version" is not null)`;
});

/** Creates the waiters for one process. */
export function createWaiters(database: Database): Waiters {
  const readers = new Set<Reader>();
  const counts = new Map<string, number>();
  let total = 0;
  let isPolling = false;
  const poll = async (): Promise<void> => {
    const polledReaders = [...readers];
    let next = pollIntervalMs;
    try {
      for (const [number] of await database.run(findReadyReaders.bind(polledReaders)))
        polledReaders[Number(number) - 1]?.wake();
    } catch {
      // When their time is up, the waiting readers read a page and receive the error directly.
      next = retryIntervalMs;
    }
    isPolling = readers.size > 0;
    if (isPolling) setTimeout(poll, next).unref();
  };
  return {
    enter: (organization) => {
      const count = counts.get(organization) ?? 0;
      if (count >= maxOfOrganization || total >= maxTotal) throw errors.overloaded();
      counts.set(organization, count + 1);
      total++;
      let isActive = true;
      return () => {
        if (!isActive) return;
        isActive = false;
        total--;
        const remaining = (counts.get(organization) ?? 1) - 1;
        if (remaining === 0) counts.delete(organization);
        else counts.set(organization, remaining);
      };
    },
    wait: (organization, { transaction, id }, ms, signal) =>
      new Promise((resolve) => {
        const wake = () => {
          readers.delete(reader);
          clearTimeout(timeout);
          signal.removeEventListener('abort', wake);
          resolve();
        };
        const reader: Reader = { organization, transaction, id, wake };
        const timeout = setTimeout(wake, ms);
        if (signal.aborted) return wake();
        signal.addEventListener('abort', wake);
        readers.add(reader);
        if (isPolling) return;
        isPolling = true;
        // The poll serves all readers, so it must not be part of the first reader's request.
        runOutsideRequests(() => setTimeout(poll, pollIntervalMs).unref());
      }),
  };
}

/** Interval between heartbeats on a stream without changes, in milliseconds. */
const defaultHeartbeatMs = 10_000;
/** Maximum size of one write, in bytes. */
const chunkSize = 16 * 1024;

/** Context for reading more pages. */
interface ReaderContext {
  /** Reads the next page after a position, with the caller's current permissions. */
  readonly read: (after: UnverifiedPosition) => Promise<FeedPage>;
  readonly wait: Waiters['wait'];
  readonly organization: string;
  /** Aborts when the client disconnects or the process stops. */
  readonly signal: AbortSignal;
}

/** Context for streaming the feed. */
export interface StreamContext extends ReaderContext {
  readonly cursorOf: (position: UnverifiedPosition) => string;
  /** Counts bytes that the client has not read yet. Call the returned function once they are read. */
  readonly hold: Database['hold'];
  readonly heartbeatMs?: number;
}

/** Waits for a page with changes. Returns the last page read when the time is up. */
export async function waitForPage(
  first: FeedPage,
  ms: number,
  { read, wait, organization, signal }: ReaderContext,
): Promise<FeedPage> {
  const deadline = performance.now() + ms;
  let page = first;
  for (;;) {
    const remainingMs = deadline - performance.now();
    if (page.entries.length > 0 || page.isFull || remainingMs <= 0 || signal.aborted) return page;
    await wait(organization, page.end, remainingMs, signal);
    page = await read(page.end);
  }
}

/** Streams the feed as server-sent events. The events' IDs are cursors from which a client can resume. */
export async function* stream(first: FeedPage, context: StreamContext): AsyncGenerator<Buffer> {
  const { read, wait, organization, signal, cursorOf, hold, heartbeatMs = defaultHeartbeatMs } = context;
  let page = first;
  // The first write must not be delayed, because it carries the response headers.
  let sentAt = Number.NEGATIVE_INFINITY;
  const silentFor = () => performance.now() - sentAt;
  while (!signal.aborted) {
    const isHeartbeat = page.entries.length === 0 && silentFor() >= heartbeatMs;
    // The stream yields buffers, because they are allocated outside the heap. A heartbeat also updates the
    // client's last event ID.
    const bytes = Buffer.from(
      isHeartbeat ? `: heartbeat\nid: ${cursorOf(page.end)}\n\n` : eventsOf(page, cursorOf),
    );
    const { end, isFull } = page;
    page = { ...page, entries: [] };
    const release = hold(organization, bytes.length);
    try {
      for (let offset = 0; offset < bytes.length; offset += chunkSize) {
        yield bytes.subarray(offset, offset + chunkSize);
        if (signal.aborted) return;
      }
    } finally {
      release();
    }
    if (bytes.length > 0) sentAt = performance.now();
    if (!isFull) await wait(organization, end, Math.max(0, heartbeatMs - silentFor()), signal);
    if (signal.aborted) return;
    try {
      page = await read(end);
    } catch {
      // The client reconnects with its last event ID, and receives the error if reading fails again.
      return;
    }
  }
}

const eventsOf = ({ entries }: FeedPage, cursorOf: StreamContext['cursorOf']): string =>
  entries.map(({ change, position }) => `id: ${cursorOf(position)}\ndata: ${change}\n\n`).join('');
