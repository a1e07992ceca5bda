import pg from 'pg';
import type { SessionTarget } from './address.ts';
import { FramedConnection } from './connection.ts';
import { cancelStatement, disconnect, pgInternals } from './pg-internals.ts';
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

/** The connections of one pool. */
export interface ClientPool {
  /** The client class of the pool. */
  readonly Client: new (
    options?: pg.ClientConfig,
  ) => pg.Client;
  /** Cuts every connection. */
  readonly cutAll: () => void;
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

    /** Tracks the server's messages: whether a statement is still running, and whether writes are refused. */
    #watch(): void {
      const { connection } = pgInternals(this);
      connection.on('readyForQuery', () => {
        this.#waiting = false;
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
        this.#begin();
        const result: unknown = Reflect.apply(query, this, given);
        if (!(result instanceof Promise)) return result;
        const [text] = given;
        if (text === 'begin' || (typeof text === 'string' && text.startsWith('start transaction')))
          return this.#started(result);
        return text === 'rollback' ? this.#rolledBack(result) : result;
      }) as typeof this.query;
    }

    #begin(): void {
      if (statementTimeoutMs === 0) return;
      this.#statements++;
      this.#waiting = true;
      const limit = cancels ? statementTimeoutMs : statementTimeoutMs + graceMs;
      this.#timer = this.#timer?.refresh() ?? setTimeout(() => this.#late(), limit).unref();
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
        if (!cancels) return silent();
        cancelStatement(this, graceMs);
        setTimeout(silent, graceMs).unref();
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
  return { Client: GuardedClient, cutAll: () => all.forEach(disconnect) };
}
