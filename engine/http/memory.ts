import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Admission } from '../database/index.ts';
import { errors } from '../errors.ts';
import { ownerOf } from './owner.ts';

/** Limits on the memory that clients can use. Sizes are in bytes. */
export interface MemoryOptions {
  /** Counts unread response bytes, and delays statements while there are too many. */
  readonly admission: Admission;
  /** Maximum number of connections; additional ones get 503. */
  readonly maxConnections: number;
  /** Limit on all large request bodies in flight. One organization, or all unauthenticated callers together, can use half. */
  readonly bodyBytes: number;
  /** A client that reads slower than {@link minimumRate} for this time is disconnected, in milliseconds. */
  readonly windowMs?: number;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Rejects once the caller is no longer allowed to read the response; absent for strangers. */
    assertAllowed?: () => Promise<unknown>;
  }
  interface FastifyContextConfig {
    /** Content types that the route can send as a stream, without parameters. Other routes cannot send streams. */
    streams?: readonly string[];
  }
}

/** How often the caller of a streamed response is checked again, in milliseconds. */
const checkMs = 1000;
/** Minimum size of bodies and responses that are counted; smaller ones are bounded by the number of connections. */
const large = 32 * 1024;
/** Bytes written at a time from a large response. */
const slice = 16 * 1024;
/** Minimum read rate, in bytes per second. */
const minimumRate = 1024;

/** Limits connections, the bodies and responses they hold in memory, and slow readers. */
export const memory = fastifyPlugin(
  async (app: FastifyInstance, options: MemoryOptions) => {
    const { admission, windowMs = 30_000 } = options;
    boundConnections(app, options.maxConnections);
    boundBodies(app, options.bodyBytes);
    const transfers = new Set<Transfer>();
    const sweep = setInterval(() => {
      for (const transfer of transfers) cutSlow(transfer, windowMs);
    }, windowMs / 6).unref();
    app.addHook('onClose', async () => clearInterval(sweep));
    /** Disconnects the client if it reads this response too slowly. */
    const watch = (request: FastifyRequest, reply: FastifyReply) => {
      const { socket } = request.raw;
      const transfer = { socket, since: performance.now(), taken: takenOf(socket) };
      transfers.add(transfer);
      afterwards(request, reply, () => transfers.delete(transfer));
    };

    app.addHook('onSend', (request, reply, payload, done) => {
      if (isStream(payload)) {
        const problem = request.method === 'HEAD' ? undefined : streamProblem(request, reply);
        if (problem !== undefined) {
          payload.destroy();
          request.log.error(problem);
          return done(new Error(problem));
        }
        watch(request, reply);
        checkCaller(payload, request);
        return done(null, payload);
      }
      const isText = typeof payload === 'string';
      const isLarge = (isText || Buffer.isBuffer(payload)) && payload.length >= large;
      if (!isLarge || request.method === 'HEAD') return done(null, payload);
      // A buffer is outside the heap, so slow readers do not exhaust the heap limit.
      const bytes = isText ? Buffer.from(payload) : payload;
      watch(request, reply);
      // Only bytes created for this request count; unauthenticated callers share one buffer.
      const release =
        isText || request.principal !== null ? admission.hold(ownerOf(request), bytes.length) : () => {};
      afterwards(request, reply, release);
      reply.header('content-length', bytes.length);
      done(null, slices(bytes));
    });
  },
  { name: 'memory', fastify: '5.x', dependencies: ['errors'] },
);

/** A large response in flight. */
interface Transfer {
  readonly socket: Socket;
  /** Time of the last check of its reader, and the bytes read by then. */
  since: number;
  taken: number;
}

/** Returns the bytes read by the client of a connection. */
const takenOf = ({ bytesWritten, writableLength }: Socket): number => bytesWritten - writableLength;

/** Whether a body is neither text nor bytes. Handlers send Node's streams only, because others cannot be ended here. */
const isStream = (payload: unknown): payload is Readable =>
  typeof payload === 'object' && payload !== null && !ArrayBuffer.isView(payload);

/** Returns why a route must not send a stream: it must have declared it, and its caller must be known. */
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

/** Ends a streamed response when its caller is no longer authorized, however slowly it is read. */
function checkCaller(stream: Readable, { assertAllowed }: FastifyRequest): void {
  if (assertAllowed === undefined) return;
  let isChecking = false;
  const check = async () => {
    if (isChecking) return;
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

/** Returns a stream that produces bytes as fast as the client reads them. */
function slices(bytes: Buffer): Readable {
  let written = 0;
  return new Readable({
    highWaterMark: slice,
    read() {
      const next = bytes.subarray(written, written + slice);
      written += next.length;
      this.push(next.length === 0 ? null : next);
    },
  });
}

function cutSlow(transfer: Transfer, windowMs: number): void {
  const now = performance.now();
  if (now - transfer.since < windowMs) return;
  const taken = takenOf(transfer.socket);
  const isSlow = taken - transfer.taken < (minimumRate * windowMs) / 1000;
  // If no bytes are waiting for the reader, the reader is waiting for the database.
  if (isSlow && transfer.socket.writableLength > 0) transfer.socket.destroy();
  transfer.since = now;
  transfer.taken = taken;
}

/** Responds 503 on connections beyond the limit; from 10 % above it, connections are closed immediately. */
function boundConnections(app: FastifyInstance, max: number): void {
  const surplus = new WeakSet<Socket>();
  let open = 0;
  app.server.maxConnections = max + Math.max(10, Math.ceil(max / 10));
  app.server.on('connection', (socket) => {
    if (++open > max) surplus.add(socket);
    socket.once('close', () => open--);
  });
  app.addHook('onRequest', ({ raw }, _reply, done) =>
    done(surplus.has(raw.socket) ? errors.tooManyConnections() : undefined),
  );
}

/** Rejects large bodies while too many are held. Runs after authentication, which identifies their owner. */
function boundBodies(app: FastifyInstance, total: number): void {
  const held = new Map<string, number>();
  let all = 0;
  const add = (organization: string, size: number) => {
    const now = (held.get(organization) ?? 0) + size;
    if (now === 0) held.delete(organization);
    else held.set(organization, now);
    all += size;
  };
  app.addHook('preParsing', (request, reply, payload, done) => {
    const {
      'content-length': length,
      'transfer-encoding': encoding,
      'content-encoding': coding,
    } = request.headers;
    const limit = request.routeOptions.bodyLimit ?? 0;
    // Without a length, or compressed, a body can be as long as the route allows. Longer ones are rejected anyway.
    const size = (encoding ?? coding) === undefined ? Math.min(Number(length ?? 0), limit) : limit;
    if (size < large) return done(null, payload);
    const organization = ownerOf(request);
    const heldBytes = held.get(organization) ?? 0;
    if (heldBytes > 0 && (heldBytes + size > total / 2 || all + size > total))
      return done(errors.overloaded());
    add(organization, size);
    afterwards(request, reply, () => add(organization, -size));
    done(null, payload);
  });
}

/** Work to run when a connection closes: one listener per connection, however many requests are pipelined. */
const endings = new WeakMap<Socket, Set<() => void>>();

/** Runs work once, when the response has been sent or its connection has closed. */
export function afterwards(
  { raw: { socket } }: FastifyRequest,
  { raw }: FastifyReply,
  work: () => void,
): void {
  if (socket.destroyed) {
    work();
    return;
  }
  let pending = endings.get(socket);
  if (pending === undefined) {
    const all = new Set<() => void>();
    pending = all;
    endings.set(socket, all);
    // A response that has not started emits no "close" when its connection closes.
    socket.once('close', () => {
      for (const end of all) end();
    });
  }
  const waiting = pending;
  const end = () => {
    if (waiting.delete(end)) work();
  };
  waiting.add(end);
  raw.once('close', end);
}
