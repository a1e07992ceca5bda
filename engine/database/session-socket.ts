import { createServer, type Socket } from 'node:net';
import type { PGlite } from '@electric-sql/pglite';
import { codes, frames, headLength } from './frames.ts';
import { prepareSocket } from './socket-path.ts';

/** Runs protocol messages in the database's only session. */
type RunMessages = (messages: Buffer) => Promise<Uint8Array>;

/**
 * Statements that reset the session between two clients of the socket. PGlite ignores RESET SESSION AUTHORIZATION, because no
 * client has logged in.
 */
const resetSql = `reset all; set default_statistics_target = 10; set session authorization postgres; close all; unlisten *;
  select pg_advisory_unlock_all(); discard temp`;

/** Maximum idle time in a transaction, as for PostgreSQL connections, in milliseconds. */
const idleMs = 10_000;

/** Request codes at the start of a connection. */
const requests = { version3: 3, ssl: 80_877_103, gss: 80_877_104, cancel: 80_877_102 } as const;

/** Type codes of client messages. */
const [query, parse, sync, flush, functionCall, terminate] = [0x51, 0x50, 0x53, 0x48, 0x46, 0x58] as const;

/** COPY is rejected, because PGlite would wait for rows forever. */
const copyFromStdin = /\bfrom\s+stdin\b/i;
const rejectSql = `do $$ begin raise exception 'COPY FROM STDIN is not supported over this socket'
  using errcode = 'feature_not_supported'; end $$`;

/** Builds a simple query message. */
function queryMessage(text: string): Buffer {
  const message = Buffer.alloc(headLength + Buffer.byteLength(text) + 1);
  message[0] = query;
  message.writeInt32BE(message.length - 1, 1);
  message.write(text, headLength);
  return message;
}

/** Builds a startup message for the user and database `postgres`. */
function startupMessage(): Buffer {
  const parameters = Buffer.from('user\0postgres\0database\0postgres\0\0');
  const message = Buffer.alloc(8 + parameters.length);
  message.writeInt32BE(message.length, 0);
  message.writeInt16BE(requests.version3, 4);
  parameters.copy(message, 8);
  return message;
}

/**
 * Serves the embedded database to PostgreSQL clients on this machine, on a Unix socket in the data folder
 * that only its owner can open. All clients share one session with the server. A connection uses the session
 * for one statement or transaction at a time, and the session is reset afterwards. Does nothing if Unix
 * sockets are not supported (on Windows and on some volumes).
 * @param run runs messages as the server does
 * @param onTerminated called when PGlite has terminated
 * @returns a function that rolls back open transactions and closes the socket
 */
export async function serveSession(
  client: PGlite,
  dataFolder: string,
  run: RunMessages,
  onTerminated: (cause: unknown) => void,
): Promise<() => Promise<void>> {
  if (process.platform === 'win32') return async () => {};
  const runExclusively: RunMessages = (messages) =>
    client._runExclusiveQuery(async () => {
      try {
        return await run(messages);
      } catch (cause) {
        onTerminated(cause);
        throw cause;
      }
    });
  const greeting = Buffer.from(await runExclusively(startupMessage()));
  await runExclusively(queryMessage(resetSql));
  const sessions = new Map<Socket, Session>();
  const server = createServer((socket) => {
    const session = new Session(client, runExclusively, socket);
    sessions.set(socket, session);
    socket.on('error', () => {});
    socket.once('close', () => session.leave().finally(() => sessions.delete(socket)));
    socket.on('data', startup(socket, greeting, session));
  });
  const preparedSocket = prepareSocket(dataFolder);
  const isListening = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    // The file is created synchronously and must never be accessible to other users.
    const mask = process.umask(0o177);
    server.listen(preparedSocket.path, () => resolve(true));
    process.umask(mask);
  });
  server.unref();
  return async () => {
    if (isListening) server.close();
    for (const socket of sessions.keys()) socket.destroy();
    await Promise.all([...sessions.values()].map((session) => session.leave()));
    preparedSocket.remove();
  };
}

/** Handles the start of a connection and passes later messages to its session. */
function startup(socket: Socket, greeting: Buffer, session: Session): (chunk: Buffer) => void {
  const onData = frames((code, bytes, start, end) =>
    session.take(code, bytes.subarray(start - headLength, end)),
  );
  let pending = Buffer.alloc(0);
  let isStarted = false;
  return (chunk) => {
    if (isStarted) return onData(chunk);
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 8 && !isStarted) {
      const [length, request] = [pending.readInt32BE(0), pending.readInt32BE(4)];
      if (pending.length < length) return;
      pending = pending.subarray(length);
      if (request === requests.ssl || request === requests.gss) socket.write('N');
      else if (request >> 16 !== requests.version3) {
        // Cancel requests are not supported, because the only thread is busy while a statement runs.
        socket.destroy();
        return;
      } else {
        isStarted = true;
        socket.write(greeting);
        if (pending.length > 0) onData(pending);
      }
    }
  };
}

/** A client connection. Its messages run in order while it holds the database session. */
class Session {
  readonly #client: PGlite;
  readonly #run: RunMessages;
  readonly #socket: Socket;
  /** Messages up to the next one that requires a response. */
  #messages: Buffer[] = [];
  #last: Promise<void> = Promise.resolve();
  /** Releases the database session; undefined if this connection does not hold it. */
  #release: (() => void) | undefined;
  #idleTimer: NodeJS.Timeout | undefined;

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
    this.#messages.push(isRejected(code, message) ? rejectionMessage(code, message) : message);
    const ends = code === query || code === sync || code === functionCall;
    if (!ends && code !== flush) return;
    const messages = Buffer.concat(this.#messages);
    this.#messages = [];
    this.#enqueue(() => this.#respond(messages, ends));
  }

  /** Rolls back an open transaction and releases the database session after all messages have run. */
  leave(): Promise<void> {
    this.#enqueue(async () => {
      clearTimeout(this.#idleTimer);
      if (this.#release === undefined) return;
      await this.#run(queryMessage('rollback')).finally(() => this.#resetAndRelease());
    });
    return this.#last;
  }

  #enqueue(work: () => Promise<void>): void {
    this.#last = this.#last.then(work).catch(() => {
      this.#socket.destroy();
    });
  }

  /** Runs messages and sends the response. @param ends whether the response reports the transaction state */
  async #respond(messages: Buffer, ends: boolean): Promise<void> {
    clearTimeout(this.#idleTimer);
    if (this.#socket.destroyed) return;
    this.#release ??= await this.#acquire();
    // The socket might have been closed while this connection waited for the session.
    if (this.#socket.destroyed) return;
    const response = Buffer.from(await this.#run(messages));
    if (ends && isIdle(response)) await this.#resetAndRelease();
    else this.#idleTimer = setTimeout(() => this.#socket.destroy(), idleMs).unref();
    this.#socket.write(response);
  }

  #acquire(): Promise<() => void> {
    return new Promise((resolve, reject) => {
      this.#client._runExclusiveTransaction(() => new Promise<void>(resolve)).catch(reject);
    });
  }

  async #resetAndRelease(): Promise<void> {
    try {
      await this.#run(queryMessage(resetSql));
    } finally {
      this.#release?.();
      this.#release = undefined;
    }
  }
}

/** Returns whether a response ends with a ReadyForQuery outside a transaction. */
const isIdle = (response: Buffer): boolean =>
  response.at(-6) === codes.readyForQuery && response.at(-1) === 0x49;

const isRejected = (code: number, message: Buffer): boolean =>
  (code === query || code === parse) && copyFromStdin.test(message.toString('latin1', headLength));

/** Replaces a rejected message with one of the same kind that fails with an explanation. */
function rejectionMessage(code: number, message: Buffer): Buffer {
  if (code === query) return queryMessage(rejectSql);
  const name = message.subarray(headLength, message.indexOf(0, headLength) + 1);
  const body = Buffer.concat([name, Buffer.from(`${rejectSql}\0\0\0`)]);
  const head = Buffer.alloc(headLength);
  head[0] = parse;
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
