import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Database } from '../../engine/database/index.ts';
import { errors } from '../../engine/errors.ts';
import { json, refuseOtherMethods } from '../../engine/http/index.ts';
import type { Query } from '../../engine/query/index.ts';
import type { Principal, RecordResource, Signing } from '../../engine/records/index.ts';
import { keepEpoch } from './epoch.ts';
import { assertKept, type Page, readPage } from './feed.ts';
import { beginning, cursors, end, type GivenPlace, type Place } from './place.ts';
import { type FeedRequest, feedRequest, shownTo } from './request.ts';
import { type Waiting, waiting } from './waiting.ts';

/** What the feed needs of a running service. */
export interface FeedServices {
  readonly database: Database;
  readonly resources: readonly RecordResource[];
  readonly signing: Signing;
}

/** Its address; paths below `/api/v1` belong to resources. */
export const feedPath = '/events';

const eventStream = 'text/event-stream';
/** How often a stream without changes says that it is alive, in milliseconds. */
const heartbeatMs = 10_000;

/** Reads on from a place, with what the caller may see at the moment. */
type Read = (after: Place) => Promise<Page>;

/** `GET /events`: what changed in the records of an organization, in order: a page at a time, or as a stream. */
export function feed(app: FastifyInstance, services: FeedServices): void {
  const { database, resources, signing } = services;
  const readers = waiting(database);
  const stopping = new AbortController();
  app.addHook('preClose', async () => stopping.abort());

  /** Reads for a request. The caller is asked again each time: what is revoked meanwhile ends it. */
  const reader =
    (request: FastifyRequest, asked: FeedRequest): Read =>
    async (after) => {
      const principal = await app.authenticate(request);
      const caller = { principal, requestId: request.id };
      const fields = shownTo(principal, resources, asked.resources);
      const page = await readPage(database, { caller, fields, after });
      if (page !== undefined) return page;
      await keepEpoch(database, true);
      const again = await readPage(database, { caller, fields, after });
      if (again === undefined) throw errors.overloaded();
      return again;
    };

  app.route({
    method: 'GET',
    url: feedPath,
    onRequest: async (request) => {
      request.principal = await app.authenticate(request);
    },
    handler: async (request, reply) => {
      const principal = request.principal as Principal;
      const { organization } = principal;
      const lastEventId = request.headers['last-event-id'];
      const asked = feedRequest(request.query as Query, [lastEventId ?? []].flat()[0]);
      shownTo(principal, resources, asked.resources);
      const { read: placeOf, write: cursorOf } = cursors(signing, organization);
      const given = asked.after === undefined || asked.after === 'now' ? undefined : placeOf(asked.after);
      if (given === undefined && asked.after !== undefined && asked.after !== 'now') {
        throw errors.invalidParameter(
          'after',
          'must be the cursor of a response to this organization, or now',
        );
      }
      const read = reader(request, asked);
      const first = await read(given ?? (asked.after === 'now' ? end : beginning));
      if (given !== undefined) assertKept(given, first);
      reply.header('cache-control', 'no-store');

      const following = { read, readers, organization };
      const isHead = request.method === 'HEAD';
      if (!isHead && request.headers.accept?.includes(eventStream)) {
        const signal = AbortSignal.any([stopping.signal, goneSignal(request, reply)]);
        const leave = readers.enter(organization);
        const text = stream(first, { ...following, cursorOf, signal });
        // Proxies pass it on as it comes.
        reply.header('content-type', eventStream).header('x-accel-buffering', 'no');
        return reply.send(Readable.from(text, { objectMode: false }).once('close', leave));
      }
      const isWaiting = !isHead && asked.waitMs > 0 && first.entries.length === 0;
      const page = isWaiting
        ? await waited(first, asked.waitMs, {
            ...following,
            signal: AbortSignal.any([stopping.signal, goneSignal(request, reply)]),
          })
        : first;
      const changes = page.entries.map(({ change }) => change).join(',');
      reply.header('content-type', json);
      return `{"data":[${changes}],"next":${JSON.stringify(cursorOf(page.end))}}`;
    },
  });
  refuseOtherMethods(app, feedPath, ['GET', 'HEAD']);
}

/** Aborts when the client is gone before the response has ended. */
function goneSignal({ raw: { socket } }: FastifyRequest, { raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  const abort = () => gone.abort();
  // A response that has not begun emits no "close" when its connection is gone.
  socket.once('close', abort);
  raw.once('close', () => socket.off('close', abort));
  return gone.signal;
}

/** What reading on needs. */
interface Following {
  readonly read: Read;
  readonly readers: Waiting;
  readonly organization: string;
  /** Ends it: the client is gone, or the process stops. */
  readonly signal: AbortSignal;
}

/** The first page that has something, or that the time ends with. */
async function waited(
  first: Page,
  ms: number,
  { read, readers, organization, signal }: Following,
): Promise<Page> {
  const until = performance.now() + ms;
  let page = first;
  const leave = readers.enter(organization);
  try {
    for (;;) {
      const left = until - performance.now();
      if (page.entries.length > 0 || page.isFull || left <= 0 || signal.aborted) return page;
      await readers.wait(organization, page.end, left, signal);
      page = await read(page.end);
    }
  } finally {
    leave();
  }
}

/** The feed as server-sent events; their ids are cursors, by which a client continues. */
async function* stream(
  first: Page,
  {
    read,
    cursorOf,
    readers,
    organization,
    signal,
  }: Following & { readonly cursorOf: (place: GivenPlace) => string },
): AsyncGenerator<string> {
  let page = first;
  let isSilent = false;
  while (!signal.aborted) {
    for (const { change, place } of page.entries) yield `id: ${cursorOf(place)}\ndata: ${change}\n\n`;
    // Without data a client keeps the id and shows nothing.
    if (isSilent && page.entries.length === 0) yield `: heartbeat\nid: ${cursorOf(page.end)}\n\n`;
    const began = performance.now();
    if (!page.isFull) await readers.wait(organization, page.end, heartbeatMs, signal);
    if (signal.aborted) return;
    isSilent = performance.now() - began >= heartbeatMs;
    try {
      page = await read(page.end);
    } catch {
      // The client comes again with its last id, and is told why if that fails too.
      return;
    }
  }
}
