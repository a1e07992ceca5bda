import pg from 'pg';
import { errors } from '../errors.ts';
import type { SessionTarget } from './address.ts';
import { FramedConnection, type StatementQuery } from './connection.ts';
import { cancelStatement, disconnect, pgInternals } from './pg-internals.ts';
import { cancellingRequest } from './requests.ts';
import { mismatchError, mismatchSql, type Route } from './route.ts';

/** Connection limits for a pool. */
export interface ConnectionLimits {
  readonly route: Route;
  readonly target: SessionTarget;
  /** Time limit for a statement, in milliseconds; 0 disables it. */
  readonly statementTimeoutMs: number;
  /** Whether the client must cancel slow statements, because the server does not enforce the limit. */
  readonly cancels: boolean;
  /** Called when the server has become read-only. */
  readonly becameReadOnly: () => void;
}

/**
 * Time allowed for the server to cancel a statement that reached its time limit, or to close a connection, in
 * milliseconds.
 */
const graceMs = 1000;

/** SQLSTATE returned for a write to a read-only server. The connection is no longer usable. */
const readOnlyState = '25006';

type ConnectCallback = (error: Error | null, client?: pg.Client) => void;
type Release = (drop?: Error | boolean) => void;

const beginPattern = /^\s*(?:begin|start transaction)\b/i;
const readPattern = /^\s*(?:select|with|explain|show)\b/i;
const writePattern =
  /\b(?:insert|update|delete|merge|nextval|setval|for\s+(?:key\s+)?share|pg_\w*lock\w*)\b/i;

/** Returns a query's text, and whether it only reads if this is known. */
function statementOf(query: unknown): Pick<StatementQuery, 'text' | 'onlyReads'> {
  if (typeof query === 'string') return { text: query };
  const { text = '', onlyReads } = (query ?? {}) as Partial<StatementQuery>;
  return { text, onlyReads };
}

/** Returns whether a statement of a query builder only reads, which only its text shows. */
const seemsToRead = (text: string): boolean => readPattern.test(text) && !writePattern.test(text);

/** A pool's connections. */
export interface ClientPool {
  /** Client class for the pool's `Client` option. */
  readonly Client: new (
    options?: pg.ClientConfig,
  ) => pg.Client;
  /** Cancels running statements and disconnects every connection. */
  readonly cancelAll: () => Promise<void>;
  /**
   * Disconnects every connection immediately, and cancels the statements that were running. These statements
   * fail as lost, not as cancelled, so that callers run them elsewhere.
   */
  readonly abandonAll: () => void;
}

/**
 * Creates a {@link ClientPool} whose connections enforce time limits for connecting, running statements and
 * closing. The server's own limits do not help if the server or the network stops responding.
 */
export function createClientPool({
  route,
  target,
  statementTimeoutMs,
  cancels,
  becameReadOnly,
}: ConnectionLimits): ClientPool {
  const clients = new Set<GuardedClient>();

  class GuardedClient extends pg.Client {
    #statements = 0;
    #isRunning = false;
    #timer: NodeJS.Timeout | undefined;
    /** Whether the connection is in a read-write transaction. */
    #isWriting = false;
    /**
     * The pending cancel request. Resolves to whether it can no longer cancel a later statement, which is
     * unknown if the server does not respond in time.
     */
    #cancellation: Promise<boolean> | undefined;
    /** Stops listening for a disconnect of the HTTP client whose statement is running. */
    #stopListening: (() => void) | undefined;
    #release: Release | undefined;

    constructor(options?: pg.ClientConfig) {
      super(options);
      const { keepAlive = false, keepAliveInitialDelayMillis = 0 } = options ?? {};
      Object.assign(this, { connection: new FramedConnection({ keepAlive, keepAliveInitialDelayMillis }) });
      // Callers waiting for the connection also receive the error. Without a listener, it would terminate the
      // process.
      this.on('error', route.forget);
    }

    override connect(): Promise<this>;
    override connect(callback: ConnectCallback): void;
    override connect(callback?: ConnectCallback): Promise<this> | undefined {
      const connection = this.#connect();
      if (callback === undefined) return connection;
      connection.then(() => callback(null, this), callback);
      return undefined;
    }

    async #connect(): Promise<this> {
      clients.add(this);
      try {
        const { host, port, ssl } = await route.candidate();
        // Finding a server took too long, or the pool was closed in the meantime.
        if (pgInternals(this).connection.stream.destroyed) throw new Error('Connection terminated');
        Object.assign(pgInternals(this), { host, port, ssl });
        pgInternals(this).connection.ssl = ssl;
        await super.connect();
        if (target !== 'any') await this.#assertTarget();
      } catch (cause) {
        // The pool forgets this client, even if its server is connected.
        disconnect(this);
        clients.delete(this);
        route.forget();
        throw cause;
      }
      this.once('end', () => {
        clients.delete(this);
        clearTimeout(this.#timer);
      });
      this.#watch();
      return this;
    }

    async #assertTarget(): Promise<void> {
      const { rows } = await super.query<{ unfit: boolean }>(`select ${mismatchSql(target)} as unfit`);
      if (rows[0]?.unfit !== false) {
        disconnect(this);
        throw mismatchError(target);
      }
    }

    /**
     * The pool sets this on every checkout. The connection is not returned to the pool until no pending
     * cancel request can reach it, and it is dropped if that is unknown.
     */
    get release(): Release | undefined {
      const release = this.#release;
      return (
        release &&
        ((drop) => {
          if (this.#cancellation === undefined) release(drop);
          else void this.#cancellation.then((isOver) => release(drop || !isOver));
        })
      );
    }

    set release(release: Release | undefined) {
      this.#release = release;
    }

    /**
     * Tracks whether a statement is running and whether writes are rejected, based on the server's messages.
     */
    #watch(): void {
      const { connection } = pgInternals(this);
      connection.on('readyForQuery', () => {
        this.#isRunning = false;
        this.#stopListening?.();
        this.#stopListening = undefined;
      });
      connection.on('errorMessage', ({ code }: { code?: string }) => {
        // Disconnection is deferred until the statement has received its error.
        if (code !== readOnlyState) return;
        setImmediate(() => {
          this.#terminate('the server is read-only');
          becameReadOnly();
        });
      });
      const { query } = this;
      this.query = ((...args: unknown[]) => {
        const [queryArg] = args;
        this.#startStatement(statementOf(queryArg));
        const result: unknown = Reflect.apply(query, this, args);
        if (!(result instanceof Promise)) return result;
        if (typeof queryArg === 'string' && beginPattern.test(queryArg)) return this.#finishBegin(result);
        return queryArg === 'rollback' ? this.#finishRollback(result) : result;
      }) as typeof this.query;
    }

    #startStatement({ text, onlyReads }: ReturnType<typeof statementOf>): void {
      if (beginPattern.test(text)) this.#isWriting = !/read only\s*$/i.test(text);
      else if (text === 'commit' || text === 'rollback') this.#isWriting = false;
      else if (!this.#isWriting && (onlyReads ?? seemsToRead(text))) this.#cancelOnDisconnect();
      this.#statements++;
      this.#isRunning = true;
      if (statementTimeoutMs === 0) return;
      const limit = cancels ? statementTimeoutMs : statementTimeoutMs + graceMs;
      this.#timer = this.#timer?.refresh() ?? setTimeout(() => this.#timeOut(), limit).unref();
    }

    /**
     * Cancels the statement if its client disconnects.
     * @throws HttpError 400 if the client disconnected while the statement waited for the connection
     */
    #cancelOnDisconnect(): void {
      const request = cancellingRequest();
      if (request?.isDisconnected) throw errors.incompleteRequest();
      this.#stopListening?.();
      this.#stopListening = request?.onDisconnect(() => void this.cancelRunning());
    }

    #cancel(): Promise<boolean> {
      this.#cancellation ??= cancelStatement(this, graceMs).finally(() => {
        this.#cancellation = undefined;
      });
      return this.#cancellation;
    }

    /** Cancels the running statement, if any. */
    async cancelRunning(): Promise<void> {
      if (this.#isRunning) await this.#cancel();
    }

    /** Disconnects after a failed `begin`, because Kysely does not return such a connection to the pool. */
    async #finishBegin(result: Promise<unknown>): Promise<unknown> {
      try {
        return await result;
      } catch (cause) {
        pgInternals(this).release?.(true);
        throw cause;
      }
    }

    /**
     * Treats a lost connection as a successful rollback. Kysely returns a connection to the pool only after a
     * successful rollback, so a transaction that lost its connection would otherwise leak it.
     */
    async #finishRollback(result: Promise<unknown>): Promise<unknown> {
      try {
        return await result;
      } catch {
        // The server's last message can arrive before the connection is closed.
        disconnect(this);
        return { command: 'ROLLBACK', rowCount: null, oid: 0, fields: [], rows: [] };
      }
    }

    /** Cancels the last statement if it is still running after its time limit. */
    #timeOut(): void {
      const statement = this.#statements;
      const isStillRunning = () => this.#isRunning && this.#statements === statement;
      const terminateIfRunning = () => {
        if (isStillRunning()) this.#terminate('no response in time');
      };
      // Data that arrived while this process was busy is read first.
      setImmediate(() => {
        if (!isStillRunning()) return;
        void this.#cancel();
        // The server should have cancelled the statement. If it did not, a cancel request keeps the
        // connection usable.
        if (cancels) setTimeout(terminateIfRunning, graceMs).unref();
        else terminateIfRunning();
      });
    }

    #terminate(reason: string): void {
      pgInternals(this).connection.stream.destroy(new Error(`Connection terminated: ${reason}`));
    }

    override end(): Promise<void>;
    override end(callback: (error: Error) => void): void;
    override end(callback?: (error: Error) => void): Promise<void> | undefined {
      setTimeout(() => disconnect(this), graceMs).unref();
      return callback === undefined ? super.end() : void super.end(callback);
    }
  }
  return {
    Client: GuardedClient,
    cancelAll: async () => {
      const cancelAndDisconnect = async (client: GuardedClient) => {
        await client.cancelRunning();
        disconnect(client);
      };
      await Promise.all([...clients].map(cancelAndDisconnect));
    },
    abandonAll: () => {
      for (const client of clients) {
        void client.cancelRunning();
        disconnect(client);
      }
    },
  };
}
