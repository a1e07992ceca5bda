import type { Admission } from '../../engine/database/index.ts';
import type { FeedPage } from './feed.ts';
import type { UnverifiedPosition } from './position.ts';
import type { Waiters } from './waiters.ts';

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
  /** Counts bytes that the client has not read yet. Call the returned function when they have been read. */
  readonly hold: Admission['hold'];
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
    // Buffers are used because they are allocated outside the heap. A heartbeat also updates the client's last event
    // ID.
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
