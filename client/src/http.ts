// Requests: sent again as long as that is safe, and no longer than is bearable.
import type { Id } from './client.ts';
import { ApiError, apiError, ConnectionError, type CrmError } from './errors.ts';

/** How to reach an instance. */
export interface ClientOptions {
  /** Where the instance is, such as `https://crm.example.com`. */
  readonly url: string;
  /** An API key, or the token of a login; a function is asked before each attempt. Without: the browser's cookie. */
  readonly key?: string | (() => string | Promise<string>);
  /** Slug of the organization, for people who belong to several. */
  readonly organization?: string;
  /** Refuse what the instance does not know (400), instead of ignoring it. Default: true. */
  readonly strict?: boolean;
  /** How often a request is sent again. Default: 5. */
  readonly retries?: number;
  /** Milliseconds for a response to come, at each attempt. Default: 30,000. Imports have no limit. */
  readonly timeout?: number;
  /** The longest wait before an attempt, in milliseconds: a longer `Retry-After` fails immediately. Default: 60,000. */
  readonly maxWait?: number;
  /** Sends requests instead of the global `fetch`. */
  readonly fetch?: typeof fetch;
}

/** What every call may have. */
export interface CallOptions {
  /** Ends the call. */
  readonly signal?: AbortSignal;
}

/**
 * When a request may be sent again: `always`, because it has the same effect twice as once; if it was `refused` with
 * a code that says that nothing was done; or `never`.
 */
export type Resend = 'always' | 'refused' | 'never';

/** A request. */
export interface Request<T> extends CallOptions {
  readonly method: string;
  /** Below the instance's URL. */
  readonly path: string;
  readonly query?: URLSearchParams;
  readonly headers?: Readonly<Record<string, string>>;
  readonly preferences?: readonly string[];
  /** The response says what was ignored, so nothing need be refused. */
  readonly isLenient?: boolean;
  readonly body?: string | Blob | ReadableStream<Uint8Array>;
  readonly resend: Resend;
  readonly read: (response: Response) => Promise<T>;
  readonly timeout?: number;
}

/** Sends a request. @throws CrmError @throws the reason of an aborted signal */
export type Send = <T>(request: Request<T>) => Promise<T>;

/** The first wait is up to this long, each further one up to twice as long as the one before. */
const firstWaitMs = 200;
const maxBackoffMs = 10_000;

/** Makes the function that sends requests to an instance. */
export function sender(options: ClientOptions): Send {
  const { organization, strict = true, retries = 5, timeout: usual = 30_000, maxWait = 60_000 } = options;
  const base = new URL(options.url).href.replace(/\/+$/, '');

  async function attempt<T>(request: Request<T>): Promise<T> {
    const { method, query, body, signal, timeout = usual } = request;
    const url = new URL(`${base}${request.path}`);
    url.search = String(query ?? '');
    if (organization !== undefined) url.searchParams.set('org', organization);
    const headers = new Headers(request.headers);
    const key = typeof options.key === 'function' ? await options.key() : options.key;
    if (key !== undefined) headers.set('authorization', `Bearer ${key}`);
    const preferences = [
      ...(strict && !request.isLenient ? ['handling=strict'] : []),
      ...(request.preferences ?? []),
    ];
    if (preferences.length > 0) headers.set('prefer', preferences.join(', '));
    const late = new AbortController();
    const timer = timeout === Infinity ? undefined : setTimeout(() => late.abort(), timeout);
    try {
      const response = await (options.fetch ?? fetch)(url, {
        method,
        headers,
        // A redirect would turn POST into GET, or carry the key elsewhere.
        redirect: 'manual',
        signal: AbortSignal.any(signal === undefined ? [late.signal] : [late.signal, signal]),
        ...(body !== undefined && { body }),
        ...(body instanceof ReadableStream && { duplex: 'half' }),
      });
      if (response.ok) return await request.read(response);
      throw apiError(response.status, response.headers, await response.text());
    } catch (cause) {
      if (cause instanceof ApiError) throw cause;
      signal?.throwIfAborted();
      const what = late.signal.aborted ? `no response within ${timeout} ms` : 'the connection failed';
      throw new ConnectionError(`${method} ${url.pathname}: ${what}`, { cause });
    } finally {
      clearTimeout(timer);
    }
  }

  return async (request) => {
    let isUncertain = false;
    for (let sent = 1; ; sent++) {
      try {
        return await attempt(request);
      } catch (error) {
        if (!(error instanceof ApiError || error instanceof ConnectionError)) throw error;
        if (error instanceof ApiError) error.isUncertain = isUncertain;
        const told = toldToWait(error);
        if (sent > retries || !mayResend(error, request.resend) || told > maxWait) throw error;
        isUncertain ||= !wasRefused(error);
        await pause(told + backoff(sent, maxWait), request.signal);
      }
    }
  };
}

/** Codes that say that nothing was done; a proxy's 503 does not say so. */
const refusals: readonly string[] = [
  'rate_limited',
  'in_progress',
  'overloaded',
  'too_slow',
  'shutting_down',
];

const wasRefused = (error: CrmError): boolean =>
  error instanceof ApiError && refusals.includes(error.code) && error.report === undefined;

function mayResend(error: CrmError, resend: Resend): boolean {
  if (resend === 'never') return false;
  if (wasRefused(error)) return true;
  const mayPass =
    error instanceof ConnectionError || (error instanceof ApiError && passing.includes(error.status));
  return resend === 'always' && mayPass;
}

/** Statuses that another attempt may not meet. */
const passing: readonly number[] = [408, 429, 500, 502, 503, 504];

/** Milliseconds that the response says to wait. */
const toldToWait = (error: CrmError): number =>
  ((error instanceof ApiError ? error.retryAfter : undefined) ?? 0) * 1000;

/** Milliseconds to wait besides; at random, so that clients that failed together do not come back together. */
const backoff = (sent: number, maxWait: number): number =>
  Math.random() * Math.min(firstWaitMs * 2 ** (sent - 1), maxBackoffMs, maxWait);

/** Returns an ID as paths have it. @throws TypeError for a number that is not an exact integer */
export function pathId(id: Id): string {
  if (typeof id === 'number' && !Number.isSafeInteger(id)) throw new TypeError(`no id: ${id}`);
  return String(id);
}

/** Waits. @throws the reason of the signal once it is aborted */
export async function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, milliseconds);
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    }
    signal?.addEventListener('abort', done);
  });
  signal?.throwIfAborted();
}
