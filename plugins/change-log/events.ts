import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Resource } from '../../engine/compile/index.ts';
import { boundToRequest, type Database } from '../../engine/database/index.ts';
import type { AuditConfig } from '../../engine/effects/index.ts';
import { errors } from '../../engine/errors.ts';
import { authenticateAgain, json, rejectOtherMethods } from '../../engine/http/index.ts';
import type { Query } from '../../engine/query/index.ts';
import type { Principal, TextSigner } from '../../engine/records/index.ts';
import { ensureEpoch } from './epoch.ts';
import { assertRetained, type FeedPage, feedReader } from './feed.ts';
import {
  afterAllChanges,
  beforeAllChanges,
  type FeedPosition,
  feedCursors,
  type UnverifiedPosition,
} from './position.ts';
import { type FeedRequest, type FeedView, feedRequest, feedView } from './request.ts';
import { createWaiters, stream, waitForPage } from './stream.ts';

/** Services used by the feed. */
interface FeedServices {
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly signing: TextSigner;
}

/** The feed's path. Paths below `/api/v1` are reserved for resources. */
const feedPath = '/events';

const eventStream = 'text/event-stream';
/** Maximum number of consecutive pages without a change that the caller can see. The next request continues after them. */
const maxEmptyPages = 100;
/** Total size of records after which a page ends, in bytes, for single pages and for streams. */
const [pageBytes, streamBytes] = [2 * 1024 * 1024, 256 * 1024];

/** Serves `GET /events`: an organization's changes in order, as pages or as a stream. */
export function feed(app: FastifyInstance, services: FeedServices): void {
  const { config, database, resources, signing } = services;
  const readPage = feedReader(database);
  const waiters = createWaiters(database);
  const stopping = new AbortController();
  app.addHook('preClose', async () => stopping.abort());

  /**
   * Returns a reader for a request. The reader reauthenticates the caller on each read, so that revoking
   * access ends the stream. It also ends if the caller's limits change, because the changes read so far do not show which
   * records the caller sees now.
   * @param key identifies the caller's limits
   */
  const reader = (request: FastifyRequest, query: FeedRequest, key: string, isStream: boolean) => {
    /** Names of the resources whose changes the stream has read. */
    const streamed = new Set<string>();
    /**
     * Returns the caller and the part of the feed that it sees now.
     * @throws HttpError 400 if its limits have changed, or if it can no longer list a resource whose changes the stream
     * has read
     */
    const currentView = async () => {
      const principal = await authenticateAgain(app, request);
      const view = feedView(principal, resources, query.resources);
      const names = namesOf(view);
      if (view.key !== key || [...streamed].some((name) => !names.includes(name))) throw invalidCursor();
      return { principal, view, names };
    };
    const readOnce = async (after: FeedPosition | UnverifiedPosition): Promise<FeedPage> => {
      const { principal, view, names } = await currentView();
      // The caller can list a resource for less time than passes between two checks.
      if (isStream) for (const name of names) streamed.add(name);
      const caller = { principal, requestId: request.id };
      const feedQuery = { caller, view, after, maxBytes: isStream ? streamBytes : pageBytes };
      let page = await readPage(feedQuery);
      if (page === undefined) {
        await ensureEpoch(database, config.audit);
        page = await readPage(feedQuery);
      }
      if (page === undefined) throw errors.overloaded();
      // A position from another epoch is meaningless and could be beyond the last change.
      if ('epoch' in after && after.epoch !== page.end.epoch) throw errors.cursorExpired();
      return page;
    };
    const read = async (after: FeedPosition | UnverifiedPosition): Promise<FeedPage> => {
      let page = await readOnce(after);
      for (let pages = 1; page.entries.length === 0 && page.isFull && pages < maxEmptyPages; pages++)
        page = await readOnce(page.end);
      return page;
    };
    return { read, currentView };
  };

  app.route({
    method: 'GET',
    url: feedPath,
    config: { streams: [eventStream] },
    onRequest: async (request) => {
      request.principal = await app.authenticate(request);
      request.assertAllowed = () => authenticateAgain(app, request);
    },
    handler: async (request, reply) => {
      if (!config.audit) throw errors.notRecorded();
      const principal = request.principal as Principal;
      const { organization } = principal;
      const lastEventId = request.headers['last-event-id'];
      const query = feedRequest(request.query as Query, [lastEventId ?? []].flat()[0]);
      const { key } = feedView(principal, resources, query.resources);
      const { read: readCursor, write: cursorOf } = feedCursors(signing, organization, key);
      const position =
        query.after === undefined || query.after === 'now' ? undefined : readCursor(query.after);
      if (position === undefined && query.after !== undefined && query.after !== 'now') throw invalidCursor();
      const isHead = request.method === 'HEAD';
      const isStream = !isHead && request.headers.accept?.includes(eventStream) === true;
      const { read, currentView } = reader(request, query, key, isStream);
      const firstPage = await read(position ?? (query.after === 'now' ? afterAllChanges : beforeAllChanges));
      if (position !== undefined) assertRetained(position, firstPage);
      reply.header('cache-control', 'no-store');

      const isWaiting = !isHead && query.waitMs > 0 && firstPage.entries.length === 0;
      let page = firstPage;
      if (isStream || isWaiting) {
        const release = waiters.enter(organization);
        const revocation = new AbortController();
        const signal = AbortSignal.any([
          stopping.signal,
          disconnectSignal(request, reply),
          revocation.signal,
        ]);
        const context = { read, wait: waiters.wait, organization, signal };
        if (isStream) {
          // Ends the stream between two events. The client receives the reason when it reconnects.
          request.assertAllowed = () => currentView().catch(() => revocation.abort());
          const events = stream(firstPage, { ...context, cursorOf, hold: database.hold });
          const text = Readable.from(boundToRequest(events), { objectMode: false });
          const { socket } = request.raw;
          // The stream ends on its own unless the client has stopped reading.
          const cut = () => (text.readableLength + socket.writableLength > 0 ? socket.destroy() : undefined);
          const ending = AbortSignal.any([stopping.signal, revocation.signal]);
          ending.addEventListener('abort', cut);
          text.once('close', () => {
            release();
            ending.removeEventListener('abort', cut);
          });
          // Tells proxies not to buffer the stream.
          reply.header('content-type', eventStream).header('x-accel-buffering', 'no');
          return reply.send(text);
        }
        page = await waitForPage(firstPage, query.waitMs, context).finally(release);
      }
      const changes = page.entries.map(({ change }) => change).join(',');
      reply.header('content-type', json);
      return `{"data":[${changes}],"next":${JSON.stringify(cursorOf(page.end))}}`;
    },
  });
  rejectOtherMethods(app, feedPath, ['GET', 'HEAD']);
}

const namesOf = ({ resources }: Pick<FeedView, 'resources'>): readonly string[] =>
  resources.map(({ definition }) => definition.name);

const invalidCursor = () =>
  errors.invalidParameter('after', 'must be a cursor from a previous response for this organization, or now');

/** Returns a signal that aborts when the client disconnects before the response is complete. */
function disconnectSignal({ raw: { socket } }: FastifyRequest, { raw }: FastifyReply): AbortSignal {
  const disconnection = new AbortController();
  const abort = () => disconnection.abort();
  // Until the response has started, closing the connection does not emit "close" on it.
  socket.once('close', abort);
  raw.once('close', () => socket.off('close', abort));
  return disconnection.signal;
}
