import { setTimeout as delay } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import pg from 'pg';
import { type Address, describeHost, type Host, type SessionTarget } from './address.ts';
import { sqlState } from './failures.ts';
import { disconnect, pgInternals } from './pg-internals.ts';

/** A host and one of its encryption options. */
export interface RouteCandidate {
  readonly host: string;
  readonly port: number;
  readonly ssl: ConnectionOptions | false;
}

/** Result of a trial connection. */
export interface TrialResult {
  readonly candidate: RouteCandidate;
  /**
   * Whether a pooler is in use, in which case statements run in a different server process than the one
   * connected to.
   */
  readonly pooled: boolean;
  /** The session's search path. */
  readonly searchPath: string;
}

/** Finds the server to connect to. */
export interface Route {
  /**
   * Returns the candidate for new connections. If there are several candidates, the search is repeated after
   * {@link forget}.
   * @throws Error in the same cases as {@link find}
   */
  readonly candidate: () => Promise<RouteCandidate>;
  /**
   * Tries all candidates with trial connections. Each host has a head start over the next.
   * @throws Error with the reason for each unusable host
   */
  readonly find: () => Promise<TrialResult>;
  /**
   * Forgets the current candidate after a connection failed or its server became read-only. The next
   * connection searches again.
   */
  readonly forget: () => void;
}

/** Head start of a host before the next one is also tried, in milliseconds. */
const headStartMs = 250;

/** SQLSTATE returned by a server that rejects encrypted or unencrypted connections. */
const encryptionRejected = '28000';

const mismatchConditions: Readonly<Record<SessionTarget, string>> = {
  any: 'false',
  'read-write': `current_setting('transaction_read_only') = 'on'`,
  primary: 'pg_is_in_recovery()',
};
const mismatchReasons = { any: '', 'read-write': 'it is read-only', primary: 'it is a standby' } as const;

/** Returns an SQL condition that is true if a server does not match target_session_attrs. */
export const mismatchSql = (target: SessionTarget): string => mismatchConditions[target];

/** Returns the error for a server that does not match target_session_attrs. */
export const mismatchError = (target: SessionTarget): Error =>
  Object.assign(new Error(`Connection terminated: ${mismatchReasons[target]}`), { code: '25006' });

/**
 * Creates a route.
 * @param login connection options except host and TLS: user, password, database, session parameters
 * @param timeoutMs time limit of a search
 */
export function route({ hosts, target }: Address, login: pg.ClientConfig, timeoutMs: number): Route {
  const [first, second] = hosts.flatMap(candidatesOf);
  const single = second === undefined ? first : undefined;
  let current: RouteCandidate | undefined;
  let search: Promise<TrialResult> | undefined;

  /** Connects and disconnects. @throws Error if the server does not respond or does not match */
  async function tryCandidate(candidate: RouteCandidate, signal: AbortSignal): Promise<TrialResult> {
    const client = new pg.Client({ ...login, ...candidate });
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
      return { candidate, pooled: row.pid !== pgInternals(client).processID, searchPath: row.path };
    } catch (cause) {
      throw signal.aborted ? new Error('timeout exceeded when trying to connect') : cause;
    } finally {
      signal.removeEventListener('abort', stop);
      void client.end().catch(() => {});
      setTimeout(stop, timeoutMs).unref();
    }
  }

  /** Tries a host's encryption options in order, so that an unencrypted one cannot win a race. */
  async function tryHost(host: Host, signal: AbortSignal): Promise<TrialResult> {
    let lastError: unknown;
    for (const candidate of candidatesOf(host)) {
      try {
        return await tryCandidate(candidate, signal);
      } catch (cause) {
        lastError = cause;
        // The options differ only in encryption. Other rejections, for example of a wrong password, would
        // recur.
        const state = sqlState(cause);
        if (state !== undefined && state !== encryptionRejected) break;
      }
    }
    throw lastError;
  }

  async function tryHosts(): Promise<TrialResult> {
    const controller = new AbortController();
    const signal = AbortSignal.any([controller.signal, AbortSignal.timeout(timeoutMs)]);
    const trials: Promise<TrialResult>[] = [];
    try {
      for (const host of hosts) {
        const trial = tryHost(host, signal);
        trials.push(trial);
        const outcome = trial.then(
          () => true,
          () => false,
        );
        if (await Promise.race([outcome, delay(headStartMs, false, { ref: false })])) break;
      }
      const result = await Promise.any(trials);
      current = result.candidate;
      return result;
    } catch (cause) {
      throw failure(hosts, (cause as AggregateError).errors as Error[]);
    } finally {
      controller.abort();
    }
  }

  const find = () => {
    search ??= tryHosts().finally(() => {
      search = undefined;
    });
    return search;
  };
  return {
    find,
    candidate: async () => single ?? current ?? (await find()).candidate,
    forget: () => {
      current = undefined;
    },
  };
}

const candidatesOf = ({ host, port, encryption }: Host): RouteCandidate[] =>
  encryption.map((ssl) => ({ host, port, ssl }));

/** Combines the errors of all hosts. A single host's error is returned unchanged. */
function failure(hosts: readonly Host[], causes: readonly Error[]): Error {
  const [cause] = causes;
  if (cause !== undefined && hosts.length === 1) return cause;
  const reasons = hosts.map((host, index) => `${describeHost(host)}: ${connectionErrorText(causes[index])}`);
  return Object.assign(new Error(`Connection terminated: ${reasons.join('; ')}`), { code: '08001' });
}

/** Returns the message of a failed connection, or its code if it has no message. */
export function connectionErrorText(cause: unknown): string {
  const { code, message } = (cause ?? {}) as { code?: string; message?: string };
  return message || code || 'no reason given';
}
