import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { boundToRequest, type Database } from '../../engine/database/index.ts';
import type { AuditConfig } from '../../engine/effects/index.ts';
import { errors } from '../../engine/errors.ts';
import { authenticateAgain, json, rejectOtherMethods } from '../../engine/http/index.ts';
import type { Query } from '../../engine/query/index.ts';
import type { Principal, RecordResource, TextSigner } from '../../engine/records/index.ts';
import { ensureEpoch } from './epoch.ts';
import { assertRetained, type FeedPage, readPage } from './feed.ts';
import {
  afterAllChanges,
  beforeAllChanges,
  type FeedPosition,
  feedCursors,
  type UnverifiedPosition,
} from './position.ts';
import { type FeedRequest, feedRequest, visibleFields } from './request.ts';
import { createWaiters, stream, waitForPage } from './stream.ts';

/** Services used by the feed. */
interface FeedServices {
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly RecordResource[];
  readonly signing: TextSigner;
}

/** The feed's path. Paths below `/api/v1` are reserved for resources. */
const feedPath = '/events';

const eventStream = 'text/event-stream';
/** Total size of records after which a page ends, in bytes, for single pages and for streams. */
const [pageBytes, streamBytes] = [2 * 1024 * 1024, 256 * 1024];

/** Serves `GET /events`: an organization's changes in order, as pages or as a stream. */
export function feed(app: FastifyInstance, services: FeedServices): void {
  const { config, database, resources, signing } = services;
  const waiters = createWaiters(database);
  const stopping = new AbortController();
  app.addHook('preClose', async () => stopping.abort());

  /**
   * Returns a reader for a request. The reader reauthenticates the caller on each read, so that revoking
   * access ends the stream.
   */
  const reader =
    (request: FastifyRequest, query: FeedRequest, maxBytes: number) =>
    async (after: FeedPosition | UnverifiedPosition): Promise<FeedPage> => {
      const principal = await authenticateAgain(app, request);
      const caller = { principal, requestId: request.id };
      const feedQuery = {
        caller,
        fields: visibleFields(principal, resources, query.resources),
        after,
        maxBytes,
      };
      let page = await readPage(database, feedQuery);
      if (page === undefined) {
        await ensureEpoch(database, config.audit);
        page = await readPage(database, feedQuery);
      }
      if (page === undefined) throw errors.overloaded();
      // A position from another epoch is meaningless and could be beyond the last change.
      if ('epoch' in after && after.epoch !== page.end.epoch) throw errors.cursorExpired();
      return page;
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
      visibleFields(principal, resources, query.resources);
      const { read: readCursor, write: cursorOf } = feedCursors(signing, organization);
      const position =
        query.after === undefined || query.after === 'now' ? undefined : readCursor(query.after);
      if (position === undefined && query.after !== undefined && query.after !== 'now') {
        throw errors.invalidParameter(
          'after',
          'must be a cursor from a previous response for this organization, or now',
        );
      }
      const isHead = request.method === 'HEAD';
      const isStream = !isHead && request.headers.accept?.includes(eventStream) === true;
      const read = reader(request, query, isStream ? streamBytes : pageBytes);
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
          let visible = visibleFields(principal, resources, query.resources);
          request.assertAllowed = async () => {
            try {
              const now = visibleFields(await authenticateAgain(app, request), resources, query.resources);
              if ([...visible.keys()].some((name) => !now.has(name))) revocation.abort();
              visible = now;
            } catch {
              revocation.abort();
            }
          };
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

/** Returns a signal that aborts when the client disconnects before the response is complete. */
function disconnectSignal({ raw: { socket } }: FastifyRequest, { raw }: FastifyReply): AbortSignal {
  const disconnection = new AbortController();
  const abort = () => disconnection.abort();
  // Until the response has started, closing the connection does not emit "close" on it.
  socket.once('close', abort);
  raw.once('close', () => socket.off('close', abort));
  return disconnection.signal;
}
