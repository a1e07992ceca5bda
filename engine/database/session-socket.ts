import { createServer, type Socket } from 'node:net';
import type { PGlite } from '@electric-sql/pglite';
import { codes, frames, headLength } from './frames.ts';
import { prepareSocket } from './socket-path.ts';

/** Runs protocol messages on the single session. */
type RunMessages = (messages: Buffer) => Promise<Uint8Array>;

/** Statements that reset the session between two uses of the socket. */
const renewal = `reset all; set default_statistics_target = 10; reset session authorization; close all; unlisten *;
  select pg_advisory_unlock_all(); discard temp`;

/** Maximum idle time in a transaction, as for PostgreSQL connections, in milliseconds. */
const idleMs = 10_000;

/** Codes at the start of a connection. */
const requests = { version3: 3, ssl: 80_877_103, gss: 80_877_104, cancel: 80_877_102 } as const;

/** Codes of client messages. */
const [query, parse, sync, flush, functionCall, terminate] = [0x51, 0x50, 0x53, 0x48, 0x46, 0x58] as const;

/** Codes of COPY: PGlite would wait for rows forever. */
const readsInput = /\bfrom\s+stdin\b/i;
const refusal = `do $$ begin raise exception 'COPY FROM STDIN is not possible over this socket'
  using errcode = 'feature_not_supported'; end $$`;

/** Builds a simple query message. */
function queryMessage(text: string): Buffer {
  const message = Buffer.alloc(headLength + Buffer.byteLength(text) + 1);
  message[0] = query;
  message.writeInt32BE(message.length - 1, 1);
  message.write(text, headLength);
  return message;
}

/** Builds a startup message for `postgres`. */
function startupMessage(): Buffer {
  const parameters = Buffer.from('user\0postgres\0database\0postgres\0\0');
  const message = Buffer.alloc(8 + parameters.length);
  message.writeInt32BE(message.length, 0);
  message.writeInt16BE(requests.version3, 4);
  parameters.copy(message, 8);
  return message;
}

/**
 * Serves the embedded database to PostgreSQL clients on this machine, on a Unix socket in the data folder that only its owner
 * can open. All clients share one session with the server: a connection uses it for one statement or transaction at a time,
 * and the session is reset afterwards. Without Unix sockets (Windows, some volumes), it does nothing.
 * @param run runs messages like the server's own
 * @param died called when PGlite has terminated
 * @returns a function that rolls back open transactions and closes the socket
 */
export async function serveSession(
  client: PGlite,
  dataFolder: string,
  run: RunMessages,
  died: (cause: unknown) => void,
): Promise<() => Promise<void>> {
  if (process.platform === 'win32') return async () => {};
  const exclusively: RunMessages = (messages) =>
    client._runExclusiveQuery(async () => {
      try {
        return await run(messages);
      } catch (cause) {
        died(cause);
        throw cause;
      }
    });
  const greeting = Buffer.from(await exclusively(startupMessage()));
  await exclusively(queryMessage(renewal));
  const sessions = new Map<Socket, Session>();
  const server = createServer((socket) => {
    const session = new Session(client, exclusively, socket);
    sessions.set(socket, session);
    socket.on('error', () => {});
    socket.once('close', () => session.leave().finally(() => sessions.delete(socket)));
    socket.on('data', startup(socket, greeting, session));
  });
  const place = prepareSocket(dataFolder);
  const listening = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    // The file is created immediately and must never be accessible to other users.
    const mask = process.umask(0o177);
    server.listen(place.path, () => resolve(true));
    process.umask(mask);
  });
  server.unref();
  return async () => {
    if (listening) server.close();
    for (const socket of sessions.keys()) socket.destroy();
    await Promise.all([...sessions.values()].map((session) => session.leave()));
    place.remove();
  };
}

/** Handles the start of a connection and passes later messages on. */
function startup(socket: Socket, greeting: Buffer, session: Session): (chunk: Buffer) => void {
  const next = frames((code, bytes, start, end) =>
    session.take(code, bytes.subarray(start - headLength, end)),
  );
  let pending = Buffer.alloc(0);
  let isStarted = false;
  return (chunk) => {
    if (isStarted) return next(chunk);
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 8 && !isStarted) {
      const [length, request] = [pending.readInt32BE(0), pending.readInt32BE(4)];
      if (pending.length < length) return;
      pending = pending.subarray(length);
      if (request === requests.ssl || request === requests.gss) socket.write('N');
      else if (request >> 16 !== requests.version3) {
        // A statement cannot be cancelled while the only thread runs it.
        socket.destroy();
        return;
      } else {
        isStarted = true;
        socket.write(greeting);
        if (pending.length > 0) next(pending);
      }
    }
  };
}

/** One connection, whose messages run in order while it holds the session. */
class Session {
  readonly #client: PGlite;
  readonly #run: RunMessages;
  readonly #socket: Socket;
  /** Messages up to one that requires a response. */
  #messages: Buffer[] = [];
  #last: Promise<void> = Promise.resolve();
  /** Releases the session; undefined if this connection does not hold it. */
  #endTurn: (() => void) | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(client: PGlite, run: RunMessages, socket: Socket) {
    this.#client = client;
    this.#run = run;
    this.#socket = socket;
  }

  take(code: number, message: Buffer): void {
    if (code === terminate) {
      this.#socket.end();
      return;
    }
    this.#messages.push(isRefused(code, message) ? refused(code, message) : message);
    const ends = code === query || code === sync || code === functionCall;
    if (!ends && code !== flush) return;
    const messages = Buffer.concat(this.#messages);
    this.#messages = [];
    this.#queue(() => this.#respond(messages, ends));
  }

  /** Releases the connection's resources after its messages have run. */
  leave(): Promise<void> {
    this.#queue(async () => {
      clearTimeout(this.#idle);
      if (this.#endTurn === undefined) return;
      await this.#run(queryMessage('rollback')).finally(() => this.#renewAndEndTurn());
    });
    return this.#last;
  }

  #queue(work: () => Promise<void>): void {
    this.#last = this.#last.then(work).catch(() => {
      this.#socket.destroy();
    });
  }

  /** @param ends whether the response reports the transaction state */
  async #respond(messages: Buffer, ends: boolean): Promise<void> {
    clearTimeout(this.#idle);
    if (this.#socket.destroyed) return;
    this.#endTurn ??= await this.#turn();
    // The statement can have taken long.
    if (this.#socket.destroyed) return;
    const response = Buffer.from(await this.#run(messages));
    if (ends && isIdle(response)) await this.#renewAndEndTurn();
    else this.#idle = setTimeout(() => this.#socket.destroy(), idleMs).unref();
    this.#socket.write(response);
  }

  #turn(): Promise<() => void> {
    return new Promise((resolve, reject) => {
      this.#client._runExclusiveTransaction(() => new Promise<void>(resolve)).catch(reject);
    });
  }

  async #renewAndEndTurn(): Promise<void> {
    try {
      await this.#run(queryMessage(renewal));
    } finally {
      this.#endTurn?.();
      this.#endTurn = undefined;
    }
  }
}

/** Whether a response ends with a ReadyForQuery outside a transaction. */
const isIdle = (response: Buffer): boolean =>
  response.at(-6) === codes.readyForQuery && response.at(-1) === 0x49;

const isRefused = (code: number, message: Buffer): boolean =>
  (code === query || code === parse) && readsInput.test(message.toString('latin1', headLength));

/** Builds a message of the same kind that fails with a reason. */
function refused(code: number, message: Buffer): Buffer {
  if (code === query) return queryMessage(refusal);
  const name = message.subarray(headLength, message.indexOf(0, headLength) + 1);
  const body = Buffer.concat([name, Buffer.from(`${refusal}\0\0\0`)]);
  const head = Buffer.alloc(headLength);
  head[0] = parse;
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
