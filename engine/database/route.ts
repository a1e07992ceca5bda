import { setTimeout as delay } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import pg from 'pg';
import { type Address, describeHost, type Host, type SessionTarget } from './address.ts';
import { sqlState } from './failures.ts';
import { disconnect, pgInternals } from './pg-internals.ts';

/** A host and one encryption option. */
export interface RouteCandidate {
  readonly host: string;
  readonly port: number;
  readonly ssl: ConnectionOptions | false;
}

/** Result of a trial connection. */
export interface TrialResult {
  readonly way: RouteCandidate;
  /** Whether a pooler is in between: statements run in another process than the one connected to. */
  readonly pooled: boolean;
  /** Schemas in the search path. */
  readonly searchPath: string;
}

/** Finds the server to connect to. */
export interface Route {
  /**
   * Returns the route for new connections. With several candidates, it is determined again after {@link forget}.
   * @throws Error like {@link find}
   */
  readonly way: () => Promise<RouteCandidate>;
  /**
   * Tries all candidates with trial connections, each host with a head start over the next.
   * @throws Error with the reason for each unusable host
   */
  readonly find: () => Promise<TrialResult>;
  /** Forgets the route after a connection failed or its server became read-only. The next connection searches again. */
  readonly forget: () => void;
}

/** Head start of a host before the next one is also tried, in milliseconds. */
const headStartMs = 250;

/** Errors of a server that rejects connections with, or without, encryption. */
const encryptionRefused = '28000';

const checks: Readonly<Record<SessionTarget, string>> = {
  any: 'false',
  'read-write': `current_setting('transaction_read_only') = 'on'`,
  primary: 'pg_is_in_recovery()',
};
const refusals = { any: '', 'read-write': 'it is read-only', primary: 'it is a standby' } as const;

/** SQL condition that a server does not match target_session_attrs. */
export const mismatchSql = (target: SessionTarget): string => checks[target];

/** Errors for servers where {@link mismatchSql} is true. */
export const mismatchError = (target: SessionTarget): Error =>
  Object.assign(new Error(`Connection terminated: ${refusals[target]}`), { code: '25006' });

/**
 * Creates a route.
 * @param login connection options other than host and TLS: user, password, database, session parameters
 * @param timeoutMs time limit of a search
 */
export function route({ hosts, target }: Address, login: pg.ClientConfig, timeoutMs: number): Route {
  const [first, second] = hosts.flatMap(waysTo);
  const only = second === undefined ? first : undefined;
  let current: RouteCandidate | undefined;
  let finding: Promise<TrialResult> | undefined;

  /** Connects and disconnects. @throws Error if the server does not respond or does not match */
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

  /** Tries the options of one host in order, so that an unencrypted one cannot win a race. */
  async function tryHost(host: Host, signal: AbortSignal): Promise<TrialResult> {
    let failed: unknown;
    for (const way of waysTo(host)) {
      try {
        return await tryWay(way, signal);
      } catch (cause) {
        failed = cause;
        // Options differ only in encryption. Other rejections, for example of the password, would repeat.
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

/** Combines the errors of all hosts; returns the driver's own error for a single host. */
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
