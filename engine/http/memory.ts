import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { type Database, RequestScope, runInRequest } from '../database/index.ts';
import { errors } from '../errors.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * Owner whose limits apply to a request without a principal: an organization ID, or a different key for a
     * user who has not selected an organization. Empty if unknown; these requests all share the same limits.
     */
    owner: string;
    /**
     * Rejects if the caller is no longer authorized to read the response; absent for unauthenticated callers.
     */
    assertAllowed?: () => Promise<unknown>;
    /** Context in which the request's statements run. */
    scope: RequestScope;
  }
  interface FastifyContextConfig {
    /** Content types that the route can stream, without parameters. If absent, it cannot send streams. */
    streams?: readonly string[];
  }
}

/** Returns the owner whose limits a request's statements and memory count against. */
const ownerOf = ({ principal, owner }: FastifyRequest): string => principal?.organization ?? owner;

/** Limits on the memory used by clients. Sizes are in bytes. */
interface MemoryOptions {
  /** Counts unread response bytes, and delays statements while they exceed a limit. */
  readonly database: Pick<Database, 'hold'>;
  /** Maximum number of connections. Requests on additional connections get a 503. */
  readonly maxConnections: number;
  /**
   * Limit on the total size of large request bodies in flight. Any one organization, or all unauthenticated
   * callers together, can use half of it.
   */
  readonly bodyBytes: number;
  /** Time during which a client can read more slowly than {@link minimumRate}, in milliseconds. */
  readonly windowMs?: number;
}

/** Interval at which the caller of a streamed response is reauthorized, in milliseconds. */
const checkMs = 1000;
/**
 * Minimum size of the request bodies and responses to count, in bytes. Smaller ones are limited by the number
 * of connections.
 */
const largeSize = 32 * 1024;
/** Maximum number of bytes to write at a time when sending a large response. */
const sliceSize = 16 * 1024;
/** Minimum rate at which clients must read, in bytes per second. */
const minimumRate = 1024;

/** Limits connections and the memory for their bodies and responses, and disconnects slow readers. */
export const memory = fastifyPlugin(
  async (app: FastifyInstance, options: MemoryOptions) => {
    const { database, windowMs = 30_000 } = options;
    boundConnections(app, options.maxConnections);
    boundBodies(app, options.bodyBytes);
    const transfers = new Set<Transfer>();
    const sweep = setInterval(() => {
      for (const transfer of transfers) disconnectIfSlow(transfer, windowMs);
    }, windowMs / 6).unref();
    app.addHook('onClose', async () => clearInterval(sweep));
    /** Disconnects the client if it reads this response too slowly. */
    const watch = (request: FastifyRequest, reply: FastifyReply) => {
      const { socket } = request.raw;
      const transfer = { socket, since: performance.now(), bytesRead: bytesReadBy(socket) };
      transfers.add(transfer);
      afterwards(request, reply, () => transfers.delete(transfer));
    };

    app.addHook('onSend', (request, reply, payload, done) => {
      if (isStream(payload)) {
        if (request.method === 'HEAD') {
          // For HEAD, Fastify would read the complete stream, even after the response. `respond` explains why the empty body is a
          // stream, too.
          payload.destroy();
          return done(null, Readable.from([]));
        }
        const problem = streamProblem(request, reply);
        if (problem !== undefined) {
          payload.destroy();
          request.log.error(problem);
          return done(new Error(problem));
        }
        watch(request, reply);
        checkCaller(payload, request);
        return done(null, payload);
      }
      if (isShort(payload, reply)) return done(null, String(payload));
      const isText = typeof payload === 'string';
      const isLarge = (isText || Buffer.isBuffer(payload)) && payload.length >= largeSize;
      if (!isLarge || request.method === 'HEAD') return done(null, payload);
      // Buffers are outside the heap, so slow readers cannot exhaust the heap.
      const bytes = isText ? Buffer.from(payload) : payload;
      watch(request, reply);
      // Only bytes created for this request are counted. Responses to unauthenticated callers share one
      // buffer.
      const release =
        isText || request.principal !== null ? database.hold(ownerOf(request), bytes.length) : () => {};
      afterwards(request, reply, release);
      reply.header('content-length', bytes.length);
      done(null, slices(bytes));
    });
  },
  { name: 'memory', fastify: '5.x', dependencies: ['errors'] },
);

/** Body length, in bytes, below which sending a string is faster than sending bytes. */
const shortBody = 2048;

/**
 * Returns whether a response is short JSON that is not compressed. Node sends a short string together with the headers, but
 * needs a second write for bytes.
 */
const isShort = (payload: unknown, reply: FastifyReply): boolean =>
  Buffer.isBuffer(payload) &&
  payload.length < shortBody &&
  !reply.hasHeader('content-encoding') &&
  String(reply.getHeader('content-type')).startsWith('application/json');

/** A large response in flight. */
interface Transfer {
  readonly socket: Socket;
  /** Time of the last check, and the number of bytes that the client had read by that time. */
  since: number;
  bytesRead: number;
}

/** Returns the number of bytes that a connection's client has read. */
const bytesReadBy = ({ bytesWritten, writableLength }: Socket): number => bytesWritten - writableLength;

/**
 * Returns whether a body is neither text nor bytes. Handlers must send Node.js streams, because other kinds
 * of streams cannot be ended here.
 */
const isStream = (payload: unknown): payload is Readable =>
  typeof payload === 'object' && payload !== null && !ArrayBuffer.isView(payload);

/**
 * Returns the reason a route must not send a stream, or undefined if the route declares the stream's type and
 * its caller can be reauthorized.
 */
function streamProblem(
  { routeOptions, assertAllowed }: FastifyRequest,
  reply: FastifyReply,
): string | undefined {
  const [type = ''] = String(reply.getHeader('content-type')).split(';');
  const route = `${routeOptions.method} ${routeOptions.url}`;
  if (!routeOptions.config.streams?.includes(type))
    return `${route} sends a stream of ${type} that its option "streams" does not declare`;
  return assertAllowed === undefined
    ? `${route} sends a stream to a caller that cannot be checked again`
    : undefined;
}

/** Ends a streamed response when its caller is no longer authorized, however slowly the caller reads. */
function checkCaller(stream: Readable, { assertAllowed }: FastifyRequest): void {
  if (assertAllowed === undefined) return;
  let isChecking = false;
  const check = async () => {
    // Closing can take a while, for example until the database has responded.
    if (isChecking || stream.destroyed) return;
    isChecking = true;
    try {
      await assertAllowed();
    } catch (cause) {
      stream.destroy(cause as Error);
    } finally {
      isChecking = false;
    }
  };
  const timer = setInterval(check, checkMs).unref();
  stream.once('close', () => clearInterval(timer));
}

/** Returns a stream that produces bytes no faster than the client reads them. */
function slices(bytes: Buffer): Readable {
  let offset = 0;
  return new Readable({
    highWaterMark: sliceSize,
    read() {
      const next = bytes.subarray(offset, offset + sliceSize);
      offset += next.length;
      this.push(next.length === 0 ? null : next);
    },
  });
}

function disconnectIfSlow(transfer: Transfer, windowMs: number): void {
  const now = performance.now();
  if (now - transfer.since < windowMs) return;
  const bytesRead = bytesReadBy(transfer.socket);
  const isSlow = bytesRead - transfer.bytesRead < (minimumRate * windowMs) / 1000;
  // If no bytes are waiting for the client, the client is waiting for the database.
  if (isSlow && transfer.socket.writableLength > 0) transfer.socket.destroy();
  transfer.since = now;
  transfer.bytesRead = bytesRead;
}

/**
 * Responds with 503 on connections beyond the limit. If the limit is exceeded by more than 10 %, closes new
 * connections immediately.
 */
function boundConnections(app: FastifyInstance, max: number): void {
  const surplus = new WeakSet<Socket>();
  let openCount = 0;
  app.server.maxConnections = max + Math.max(10, Math.ceil(max / 10));
  app.server.on('connection', (socket) => {
    if (++openCount > max) surplus.add(socket);
    socket.once('close', () => openCount--);
  });
  app.addHook('onRequest', ({ raw }, _reply, done) =>
    done(surplus.has(raw.socket) ? errors.tooManyConnections() : undefined),
  );
}

/** Rejects large bodies if too many are in memory. Runs after authentication, which identifies the owner. */
function boundBodies(app: FastifyInstance, total: number): void {
  const heldBytes = new Map<string, number>();
  let totalBytes = 0;
  const add = (organization: string, size: number) => {
    const newSize = (heldBytes.get(organization) ?? 0) + size;
    if (newSize === 0) heldBytes.delete(organization);
    else heldBytes.set(organization, newSize);
    totalBytes += size;
  };
  app.addHook('preParsing', (request, reply, payload, done) => {
    const {
      'content-length': length,
      'transfer-encoding': encoding,
      'content-encoding': coding,
    } = request.headers;
    const limit = request.routeOptions.bodyLimit ?? 0;
    // Without a length, or if compressed, a body can be as long as the route allows. Longer bodies are
    // rejected anyway.
    const size = (encoding ?? coding) === undefined ? Math.min(Number(length ?? 0), limit) : limit;
    if (size < largeSize) return done(null, payload);
    const organization = ownerOf(request);
    const ownBytes = heldBytes.get(organization) ?? 0;
    if (ownBytes > 0 && (ownBytes + size > total / 2 || totalBytes + size > total))
      return done(errors.overloaded());
    add(organization, size);
    afterwards(request, reply, () => add(organization, -size));
    done(null, payload);
  });
}

/**
 * Callbacks to run when a connection is closed. Each connection has one listener, however many requests are
 * pipelined.
 */
const cleanups = new WeakMap<Socket, Set<() => void>>();

/** Runs work once, when the response has been sent or the connection has been closed. */
function afterwards({ raw: { socket } }: FastifyRequest, { raw }: FastifyReply, work: () => void): void {
  if (socket.destroyed) {
    work();
    return;
  }
  let pending = cleanups.get(socket);
  if (pending === undefined) {
    const callbacks = new Set<() => void>();
    pending = callbacks;
    cleanups.set(socket, callbacks);
    // A response that has not started does not emit "close" when its connection is closed.
    socket.once('close', () => {
      for (const callback of callbacks) callback();
    });
  }
  const pendingCallbacks = pending;
  const runOnce = () => {
    if (pendingCallbacks.delete(runOnce)) work();
  };
  pendingCallbacks.add(runOnce);
  raw.once('close', runOnce);
}

/**
 * Runs handlers in a context that links each statement to its request, so that the database knows whether the
 * client has disconnected.
 */
export const requestScopes = fastifyPlugin(
  async (app: FastifyInstance) => {
    app.decorateRequest('owner', '');
    app.addHook('onRequest', (request, reply, done) => {
      const scope = new RequestScope(() => ownerOf(request));
      request.scope = scope;
      afterwards(request, reply, () => {
        if (!reply.raw.writableFinished) scope.disconnect();
      });
      runInRequest(scope, done);
    });
    // Body events run in the connection's context, so the request's context is restored here.
    app.addHook('preValidation', (request, _reply, done) => runInRequest(request.scope, done));
  },
  { name: 'request-scopes', fastify: '5.x', dependencies: ['errors'] },
);
