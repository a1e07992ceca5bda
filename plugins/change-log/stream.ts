import type { Admission } from '../../engine/database/index.ts';
import type { FeedPage } from './feed.ts';
import type { UnverifiedPosition } from './position.ts';
import type { Waiters } from './waiters.ts';

/** How often a stream says that it is alive when it has no changes, in milliseconds. */
const silenceMs = 10_000;
/** Bytes in one write. */
const slice = 16 * 1024;

/** What reading on needs. */
export interface Following {
  /** Reads on from a place, with what the caller may see at the moment. */
  readonly read: (after: UnverifiedPosition) => Promise<FeedPage>;
  readonly wait: Waiters['wait'];
  readonly organization: string;
  /** Ends it: the client is gone, or the process stops. */
  readonly signal: AbortSignal;
}

/** What a stream needs besides. */
export interface Streaming extends Following {
  readonly cursorOf: (place: UnverifiedPosition) => string;
  /** Counts what its reader has not taken yet. */
  readonly hold: Admission['hold'];
  readonly heartbeatMs?: number;
}

/** The first page that has something, or that the time ends with. */
export async function waitForPage(
  first: FeedPage,
  ms: number,
  { read, wait, organization, signal }: Following,
): Promise<FeedPage> {
  const until = performance.now() + ms;
  let page = first;
  for (;;) {
    const left = until - performance.now();
    if (page.entries.length > 0 || page.isFull || left <= 0 || signal.aborted) return page;
    await wait(organization, page.end, left, signal);
    page = await read(page.end);
  }
}

/** The feed as server-sent events; their ids are cursors, by which a client continues. */
export async function* stream(first: FeedPage, streaming: Streaming): AsyncGenerator<Buffer> {
  const { read, wait, organization, signal, cursorOf, hold, heartbeatMs = silenceMs } = streaming;
  let page = first;
  // The first write is due at once: the head goes with it.
  let sentAt = Number.NEGATIVE_INFINITY;
  const silentFor = () => performance.now() - sentAt;
  while (!signal.aborted) {
    const isHeartbeat = page.entries.length === 0 && silentFor() >= heartbeatMs;
    // Outside of the heap, and the page is not needed meanwhile. Without data a client keeps the id and shows nothing.
    const bytes = Buffer.from(
      isHeartbeat ? `: heartbeat\nid: ${cursorOf(page.end)}\n\n` : eventsOf(page, cursorOf),
    );
    const { end, isFull } = page;
    page = { ...page, entries: [] };
    const release = hold(organization, bytes.length);
    try {
      for (let at = 0; at < bytes.length; at += slice) {
        yield bytes.subarray(at, at + slice);
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
      // The client comes again with its last id, and is told why if that fails too.
      return;
    }
  }
}

const eventsOf = ({ entries }: FeedPage, cursorOf: Streaming['cursorOf']): string =>
  entries.map(({ change, place }) => `id: ${cursorOf(place)}\ndata: ${change}\n\n`).join('');
