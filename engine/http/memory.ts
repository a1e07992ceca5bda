import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Admission } from '../database/index.ts';
import { errors } from '../errors.ts';
import { ownerOf } from './owner.ts';

/** Bounds on the memory that clients use. Sizes in bytes. */
export interface MemoryOptions {
  /** Counts responses that their readers have not taken, and holds back statements while there are too many. */
  readonly admission: Admission;
  /** Connections; further ones get 503. */
  readonly maxConnections: number;
  /** Large request bodies in flight in total; one organization, or all partners and strangers, may have half. */
  readonly bodyBytes: number;
  /** A client that reads slower than {@link minimumRate} over this time is cut, in milliseconds. */
  readonly windowMs?: number;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Rejects once the caller is no longer allowed to read the response; absent for strangers. */
    assertAllowed?: () => Promise<unknown>;
  }
}

/** How often the caller of a streamed response is checked again, in milliseconds. */
const checkMs = 1000;
/** Smaller bodies and responses are bounded by the number of connections. */
const large = 32 * 1024;
/** Bytes of a large response in one write. */
const slice = 16 * 1024;
/** Bytes per second. */
const minimumRate = 1024;

/** Bounds connections, the bodies and responses that they hold in memory, and the time that slow readers get. */
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
    /** Cuts the connection if the reader of this response is too slow. */
    const watch = (request: FastifyRequest, reply: FastifyReply) => {
      const { socket } = request.raw;
      const transfer = { socket, since: performance.now(), taken: takenOf(socket) };
      transfers.add(transfer);
      afterwards(request, reply, () => transfers.delete(transfer));
    };

    app.addHook('onSend', (request, reply, payload, done) => {
      if (payload instanceof Readable) {
        watch(request, reply);
        checkCaller(payload, request);
        return done(null, payload);
      }
      const isText = typeof payload === 'string';
      const isLarge = (isText || Buffer.isBuffer(payload)) && payload.length >= large;
      if (!isLarge || request.method === 'HEAD') return done(null, payload);
      // Outside of the heap, so that slow readers do not use up the heap's limit.
      const bytes = isText ? Buffer.from(payload) : payload;
      watch(request, reply);
      // Made for this request; a buffer that strangers get is shared by all.
      const release =
        isText || request.principal !== null ? admission.hold(ownerOf(request), bytes.length) : () => {};
      afterwards(request, reply, release);
      reply.header('content-length', bytes.length);
      done(null, slices(bytes));
    });
  },
  { name: 'memory', fastify: '5.x', dependencies: ['errors'] },
);

/** A large response on its way. */
interface Transfer {
  readonly socket: Socket;
  /** When its reader was last checked, and how much it had read by then. */
  since: number;
  taken: number;
}

/** Bytes that the reader of a connection has taken. */
const takenOf = ({ bytesWritten, writableLength }: Socket): number => bytesWritten - writableLength;

/** Ends a streamed response once its caller is no longer allowed to read it, however slowly it is read. */
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

/** A stream that produces bytes only as fast as the client reads them. */
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
  // Where nothing waits for the reader, the reader waits for the database.
  if (isSlow && transfer.socket.writableLength > 0) transfer.socket.destroy();
  transfer.since = now;
  transfer.taken = taken;
}

/** Responds 503 on connections beyond the bound; a tenth more, and further ones are closed immediately. */
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

/** Refuses large bodies while too many are held; runs after authentication, which says whose they are. */
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
    // Without a length, or compressed, it may be as long as the route allows. Longer ones are refused anyway.
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

/** Work for when a connection is gone: one listener for each, however many requests it has pipelined. */
const endings = new WeakMap<Socket, Set<() => void>>();

/** Runs work once, when the response has been sent or its connection is closed. */
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
    // A response that has not begun emits no "close" when its connection is gone.
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
