import { setTimeout as delay } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import pg from 'pg';
import { type Address, describeHost, type Host, type SessionTarget } from './address.ts';
import { sqlState } from './failures.ts';
import { disconnect, pgInternals } from './pg-internals.ts';

/** A host and one way to encrypt the connection to it. */
export interface RouteCandidate {
  readonly host: string;
  readonly port: number;
  readonly ssl: ConnectionOptions | false;
}

/** The result of a trial connection. */
export interface TrialResult {
  readonly way: RouteCandidate;
  /** Whether a pooler is in between: the process that runs statements is not the one that was connected to. */
  readonly pooled: boolean;
  /** The schemas where it looks for tables. */
  readonly searchPath: string;
}

/** Finds the server to connect to. */
export interface Route {
  /**
   * The way that new connections use. If there are several, it is searched again after {@link forget}.
   * @throws Error as {@link find}
   */
  readonly way: () => Promise<RouteCandidate>;
  /**
   * Tries the ways with trial connections, each host with a head start over the next.
   * @throws Error with each host and the reason why it is not usable
   */
  readonly find: () => Promise<TrialResult>;
  /** Forgets the way after a connection failed or its server became read-only: the next one searches again. */
  readonly forget: () => void;
}

/** The head start of a host before the next one is tried too, in milliseconds. */
const headStartMs = 250;

/** A server that does not allow a connection with, or without, encryption. */
const encryptionRefused = '28000';

const checks: Readonly<Record<SessionTarget, string>> = {
  any: 'false',
  'read-write': `current_setting('transaction_read_only') = 'on'`,
  primary: 'pg_is_in_recovery()',
};
const refusals = { any: '', 'read-write': 'it is read-only', primary: 'it is a standby' } as const;

/** SQL of whether a server does not match target_session_attrs. */
export const mismatchSql = (target: SessionTarget): string => checks[target];

/** The error for a server where {@link mismatchSql} is true. */
export const mismatchError = (target: SessionTarget): Error =>
  Object.assign(new Error(`Connection terminated: ${refusals[target]}`), { code: '25006' });

/**
 * @param login connection options other than host and TLS: user, password, database, session parameters
 * @param timeoutMs time limit of a search
 */
export function route({ hosts, target }: Address, login: pg.ClientConfig, timeoutMs: number): Route {
  const [first, second] = hosts.flatMap(waysTo);
  const only = second === undefined ? first : undefined;
  let current: RouteCandidate | undefined;
  let finding: Promise<TrialResult> | undefined;

  /** Connects and disconnects. @throws Error when the server does not respond or does not match */
  async function tryWay(way: RouteCandidate, signal: AbortSignal): Promise<TrialResult> {
    const client = new pg.Client({ ...login, ...way });
    const stop = () => disconnect(client);
    client.on('error', () => {});
    signal.addEventListener('abort', stop);
    try {
      signal.throwIfAborted();
      await client.connect();
      const { rows } = await client.query<{ unfit: boolean; pid: number; path: string }>(
        `select ${mismatchSql(target)} as unfit, pg_backend_pid() as pid, current_setting('search_path') as path`,
      );
      const [row] = rows;
      if (row?.unfit !== false) throw mismatchError(target);
      return { way, pooled: row.pid !== pgInternals(client).processID, searchPath: row.path };
    } catch (cause) {
      throw signal.aborted ? new Error('timeout exceeded when trying to connect') : cause;
    } finally {
      signal.removeEventListener('abort', stop);
      void client.end().catch(() => {});
      setTimeout(stop, timeoutMs).unref();
    }
  }

  /** The ways to one host, one after the other: one without encryption must not win a race. */
  async function tryHost(host: Host, signal: AbortSignal): Promise<TrialResult> {
    let failed: unknown;
    for (const way of waysTo(host)) {
      try {
        return await tryWay(way, signal);
      } catch (cause) {
        failed = cause;
        // Only encryption differs between the ways: other refusals, such as a wrong password, would repeat.
        const state = sqlState(cause);
        if (state !== undefined && state !== encryptionRefused) break;
      }
    }
    throw failed;
  }

  async function tryHosts(): Promise<TrialResult> {
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, AbortSignal.timeout(timeoutMs)]);
    const trials: Promise<TrialResult>[] = [];
    try {
      for (const host of hosts) {
        const trial = tryHost(host, signal);
        trials.push(trial);
        const found = trial.then(
          () => true,
          () => false,
        );
        if (await Promise.race([found, delay(headStartMs, false, { ref: false })])) break;
      }
      const found = await Promise.any(trials);
      current = found.way;
      return found;
    } catch (cause) {
      throw failure(hosts, (cause as AggregateError).errors as Error[]);
    } finally {
      over.abort();
    }
  }

  const find = () => {
    finding ??= tryHosts().finally(() => {
      finding = undefined;
    });
    return finding;
  };
  return {
    find,
    way: async () => only ?? current ?? (await find()).way,
    forget: () => {
      current = undefined;
    },
  };
}

const waysTo = ({ host, port, encryption }: Host): RouteCandidate[] =>
  encryption.map((ssl) => ({ host, port, ssl }));

/** One error for all hosts; the driver's own if there is one host. */
function failure(hosts: readonly Host[], causes: readonly Error[]): Error {
  const [cause] = causes;
  if (cause !== undefined && hosts.length === 1) return cause;
  const reasons = hosts.map((host, index) => `${describeHost(host)}: ${connectionErrorText(causes[index])}`);
  return Object.assign(new Error(`Connection terminated: ${reasons.join('; ')}`), { code: '08001' });
}

/** The message of a failed connection, or its code if it has no message. */
export function connectionErrorText(cause: unknown): string {
  const { code, message } = (cause ?? {}) as { code?: string; message?: string };
  return message || code || 'no reason given';
}
