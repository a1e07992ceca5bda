import pg from 'pg';
import type { SessionTarget } from './address.ts';
import { FramedConnection } from './connection.ts';
import { cancelStatement, disconnect, pgInternals } from './pg-internals.ts';
import { cancellingRequest } from './requests.ts';
import { mismatchError, mismatchSql, type Route } from './route.ts';

/** Limits of a pool's connections. */
export interface ConnectionLimits {
  readonly route: Route;
  readonly target: SessionTarget;
  /** Time limit of a statement in milliseconds; 0 disables it. */
  readonly statementTimeoutMs: number;
  /** Whether the client must cancel statements, because the server does not enforce the limit. */
  readonly cancels: boolean;
  /** Called when the server has become read-only. */
  readonly becameReadOnly: () => void;
}

/** Time that a server has to end a statement after its limit, and to close a connection. */
const graceMs = 1000;

/** SQLSTATE of a server that has become read-only; the connection is unusable. */
const readOnly = '25006';

type Connected = (error: Error | null, client?: pg.Client) => void;
type Release = (drop?: Error | boolean) => void;

const begins = /^\s*(?:begin|start transaction)\b/i;
const reads = /^\s*(?:select|with|explain|show)\b/i;
const writes = /\b(?:insert|update|delete|merge|nextval|setval|for\s+(?:key\s+)?share|pg_\w*lock\w*)\b/i;

/** Whether a statement changes nothing, so that it can be cancelled when its client disconnects. */
const onlyReads = (text: string): boolean => reads.test(text) && !writes.test(text);

/** Returns the text of a query. */
function textOf(given: unknown): string {
  if (typeof given === 'string') return given;
  const { text = '' } = (given ?? {}) as { readonly text?: string };
  return text;
}

/** Connections of one pool. */
export interface ClientPool {
  /** Client class of the pool. */
  readonly Client: new (
    options?: pg.ClientConfig,
  ) => pg.Client;
  /** Cancels running statements and disconnects every connection. */
  readonly cutAll: () => Promise<void>;
}

/**
 * Creates connections with a limit on every wait: connecting, running a statement, closing. The server's own limits do not
 * help if the server or the network stops responding.
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
    /** Whether it is in a transaction that can write. */
    #isWriting = false;
    /** Resolves when the cancel request can no longer reach another statement. */
    #cancelling: Promise<void> | undefined;
    /** Stops listening for a disconnect of the current statement's client. */
    #ignoreClient: (() => void) | undefined;
    #release: Release | undefined;

    constructor(options?: pg.ClientConfig) {
      super(options);
      const { keepAlive = false, keepAliveInitialDelayMillis = 0 } = options ?? {};
      Object.assign(this, { connection: new FramedConnection({ keepAlive, keepAliveInitialDelayMillis }) });
      // Callers waiting for the connection get the error too. Without a listener, it would end the process.
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
        // Finding a server took too long, or the pool was closed in the meantime.
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

    /** Set by the pool on every checkout. The connection is returned when no cancel request can reach it any longer. */
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

    /** Tracks from the server's messages whether a statement is running, and whether writes are rejected. */
    #watch(): void {
      const { connection } = pgInternals(this);
      connection.on('readyForQuery', () => {
        this.#waiting = false;
        this.#ignoreClient?.();
        this.#ignoreClient = undefined;
      });
      connection.on('errorMessage', ({ code }: { code?: string }) => {
        // Runs after the statement has received its error.
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

    /** Cancels the statement if its client disconnects. */
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

    /** Cancels the running statement and disconnects. */
    async giveUp(): Promise<void> {
      if (this.#waiting) await this.#cancel();
      disconnect(this);
    }

    /** Disconnects after a failed `begin`, because Kysely never returns such a connection to the pool. */
    async #started(result: Promise<unknown>): Promise<unknown> {
      try {
        return await result;
      } catch (cause) {
        pgInternals(this).release?.(true);
        throw cause;
      }
    }

    /**
     * Treats a lost connection as a successful rollback. Kysely returns a connection to the pool only after a successful
     * rollback, so every transaction with a lost connection would leak one.
     */
    async #rolledBack(result: Promise<unknown>): Promise<unknown> {
      try {
        return await result;
      } catch {
        // The server's last message can arrive before the connection ends.
        disconnect(this);
        return { command: 'ROLLBACK', rowCount: null, oid: 0, fields: [], rows: [] };
      }
    }

    /** Ends the last statement if it still runs after its limit. */
    #late(): void {
      const statement = this.#statements;
      const waits = () => this.#waiting && this.#statements === statement;
      const silent = () => {
        if (waits()) this.#cut('no response in time');
      };
      // First read data that arrived while this process was busy.
      setImmediate(() => {
        if (!waits()) return;
        void this.#cancel();
        // The server should have ended it already. If cancelling succeeds, the connection stays usable.
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
