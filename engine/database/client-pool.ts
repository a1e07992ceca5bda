import pg from 'pg';
import type { SessionTarget } from './address.ts';
import { FramedConnection } from './connection.ts';
import { cancelStatement, disconnect, pgInternals } from './pg-internals.ts';
import { cancellingRequest } from './requests.ts';
import { mismatchError, mismatchSql, type Route } from './route.ts';

/** The limits of a pool's connections. */
export interface ConnectionLimits {
  readonly route: Route;
  readonly target: SessionTarget;
  /** The time limit of a statement; 0: no limit. */
  readonly statementTimeoutMs: number;
  /** Whether the server does not enforce that limit, so that the client has to cancel statements. */
  readonly cancels: boolean;
  /** Called when the server turns out to have become read-only. */
  readonly becameReadOnly: () => void;
}

/** How long a server may take to end a statement after its time limit, and to close a connection. */
const graceMs = 1000;

/** SQLSTATE of a server that has become read-only: the connection is no longer usable. */
const readOnly = '25006';

type Connected = (error: Error | null, client?: pg.Client) => void;
type Release = (drop?: Error | boolean) => void;

const begins = /^\s*(?:begin|start transaction)\b/i;
const reads = /^\s*(?:select|with|explain|show)\b/i;
const writes = /\b(?:insert|update|delete|merge|nextval|setval|for\s+(?:key\s+)?share|pg_\w*lock\w*)\b/i;

/** Whether a statement changes nothing, so that it can be cancelled when its client disconnects. */
const onlyReads = (text: string): boolean => reads.test(text) && !writes.test(text);

/** The text of what was given to `query`. */
function textOf(given: unknown): string {
  if (typeof given === 'string') return given;
  const { text = '' } = (given ?? {}) as { readonly text?: string };
  return text;
}

/** The connections of one pool. */
export interface ClientPool {
  /** The client class of the pool. */
  readonly Client: new (
    options?: pg.ClientConfig,
  ) => pg.Client;
  /** Cuts every connection, after cancelling the statement that it runs. */
  readonly cutAll: () => Promise<void>;
}

/**
 * Connections with a limit on every wait: to connect, for a statement, and to close. The server's own limits do not
 * help if the server, or the network to it, stops responding.
 */
export function createClientPool({
  route,
  target,
  statementTimeoutMs,
  cancels,
  becameReadOnly,
}: ConnectionLimits): ClientPool {
  const all = new Set<GuardedClient>();

  class GuardedClient extends pg.Client {
    #statements = 0;
    #waiting = false;
    #timer: NodeJS.Timeout | undefined;
    /** Whether it is within a transaction that may write. */
    #isWriting = false;
    /** Resolves when the request to cancel its statement can hit no other one. */
    #cancelling: Promise<void> | undefined;
    /** Stops listening for the client of the current statement. */
    #ignoreClient: (() => void) | undefined;
    #release: Release | undefined;

    constructor(options?: pg.ClientConfig) {
      super(options);
      const { keepAlive = false, keepAliveInitialDelayMillis = 0 } = options ?? {};
      Object.assign(this, { connection: new FramedConnection({ keepAlive, keepAliveInitialDelayMillis }) });
      // Callers that wait for the connection get the error too; without a listener it would end the process.
      this.on('error', route.forget);
    }

    override connect(): Promise<this>;
    override connect(callback: Connected): void;
    override connect(callback?: Connected): Promise<this> | undefined {
      const connected = this.#connect();
      if (callback === undefined) return connected;
      connected.then(() => callback(null, this), callback);
      return undefined;
    }

    async #connect(): Promise<this> {
      all.add(this);
      try {
        const { host, port, ssl } = await route.way();
        // Finding a server took too long for the pool, or the pool was closed meanwhile.
        if (pgInternals(this).connection.stream.destroyed) throw new Error('Connection terminated');
        Object.assign(pgInternals(this), { host, port, ssl });
        pgInternals(this).connection.ssl = ssl;
        await super.connect();
        if (target !== 'any') await this.#assertFit();
      } catch (cause) {
        all.delete(this);
        route.forget();
        throw cause;
      }
      this.once('end', () => {
        all.delete(this);
        clearTimeout(this.#timer);
      });
      this.#watch();
      return this;
    }

    async #assertFit(): Promise<void> {
      const { rows } = await super.query<{ unfit: boolean }>(`select ${mismatchSql(target)} as unfit`);
      if (rows[0]?.unfit !== false) {
        disconnect(this);
        throw mismatchError(target);
      }
    }

    /** The pool sets this each time that it lends the connection. It comes back once it can no longer be hit by a cancel request. */
    get release(): Release | undefined {
      const release = this.#release;
      return (
        release &&
        ((drop) => {
          if (this.#cancelling === undefined) release(drop);
          else void this.#cancelling.then(() => release(drop));
        })
      );
    }

    set release(release: Release | undefined) {
      this.#release = release;
    }

    /** Tracks the server's messages: whether a statement is still running, and whether writes are refused. */
    #watch(): void {
      const { connection } = pgInternals(this);
      connection.on('readyForQuery', () => {
        this.#waiting = false;
        this.#ignoreClient?.();
        this.#ignoreClient = undefined;
      });
      connection.on('errorMessage', ({ code }: { code?: string }) => {
        // After the statement has its error.
        if (code !== readOnly) return;
        setImmediate(() => {
          this.#cut('the server is read-only');
          becameReadOnly();
        });
      });
      const { query } = this;
      this.query = ((...given: unknown[]) => {
        const [first] = given;
        this.#begin(textOf(first));
        const result: unknown = Reflect.apply(query, this, given);
        if (!(result instanceof Promise)) return result;
        if (typeof first === 'string' && begins.test(first)) return this.#started(result);
        return first === 'rollback' ? this.#rolledBack(result) : result;
      }) as typeof this.query;
    }

    #begin(text: string): void {
      this.#statements++;
      this.#waiting = true;
      if (begins.test(text)) this.#isWriting = !/read only\s*$/i.test(text);
      else if (text === 'commit' || text === 'rollback') this.#isWriting = false;
      else if (!this.#isWriting && onlyReads(text)) this.#followClient();
      if (statementTimeoutMs === 0) return;
      const limit = cancels ? statementTimeoutMs : statementTimeoutMs + graceMs;
      this.#timer = this.#timer?.refresh() ?? setTimeout(() => this.#late(), limit).unref();
    }

    /** Cancels the statement if the client that it is for disconnects. */
    #followClient(): void {
      this.#ignoreClient?.();
      this.#ignoreClient = cancellingRequest()?.onDisconnect(() => {
        if (this.#waiting) void this.#cancel();
      });
    }

    #cancel(): Promise<void> {
      this.#cancelling ??= cancelStatement(this, graceMs).finally(() => {
        this.#cancelling = undefined;
      });
      return this.#cancelling;
    }

    /** Cuts the connection, after cancelling the statement that it runs. */
    async giveUp(): Promise<void> {
      if (this.#waiting) await this.#cancel();
      disconnect(this);
    }

    /** Kysely never returns a connection to the pool on which a transaction could not begin. */
    async #started(result: Promise<unknown>): Promise<unknown> {
      try {
        return await result;
      } catch (cause) {
        pgInternals(this).release?.(true);
        throw cause;
      }
    }

    /**
     * The end of a connection is a rollback too. Kysely returns a connection to the pool only after a rollback that
     * succeeds, so every transaction with a lost connection would leak one.
     */
    async #rolledBack(result: Promise<unknown>): Promise<unknown> {
      try {
        return await result;
      } catch {
        // The server's last message may come before the end of the connection.
        disconnect(this);
        return { command: 'ROLLBACK', rowCount: null, oid: 0, fields: [], rows: [] };
      }
    }

    /** Ends the last statement if it still runs after its time limit. */
    #late(): void {
      const statement = this.#statements;
      const waits = () => this.#waiting && this.#statements === statement;
      const silent = () => {
        if (waits()) this.#cut('no response in time');
      };
      // Data that arrived while this process was busy is read first.
      setImmediate(() => {
        if (!waits()) return;
        void this.#cancel();
        // The server should have ended it by itself; if it cancels, the connection stays usable.
        if (cancels) setTimeout(silent, graceMs).unref();
        else silent();
      });
    }

    #cut(why: string): void {
      pgInternals(this).connection.stream.destroy(new Error(`Connection terminated: ${why}`));
    }

    override end(): Promise<void>;
    override end(callback: (error: Error) => void): void;
    override end(callback?: (error: Error) => void): Promise<void> | undefined {
      setTimeout(() => disconnect(this), graceMs).unref();
      return callback === undefined ? super.end() : void super.end(callback);
    }
  }
  const cutAll = async () => {
    await Promise.all([...all].map((client) => client.giveUp()));
  };
  return { Client: GuardedClient, cutAll };
}
