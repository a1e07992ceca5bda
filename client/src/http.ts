// Sends requests and retries them if that is safe.
import type { Id } from './client.ts';
import { ApiError, apiError, ConnectionError, type CrmError } from './errors.ts';

/** Options of a client. */
export interface ClientOptions {
  /** URL of the instance, for example `https://crm.example.com`. */
  readonly url: string;
  /** API key or session token, or a function that returns it before each attempt. Default: the browser's cookie. */
  readonly key?: string | (() => string | Promise<string>);
  /** Slug of the organization, for users who belong to several organizations. */
  readonly organization?: string;
  /** Whether unknown parameters and fields are rejected with status 400 instead of being ignored. Default: true. */
  readonly strict?: boolean;
  /** Maximum number of retries. Default: 5. */
  readonly retries?: number;
  /** Timeout for each attempt, in milliseconds. Default: 30,000. Does not apply to imports. */
  readonly timeout?: number;
  /**
   * Maximum wait before a retry, in milliseconds. If `Retry-After` is longer, the call fails immediately. Default:
   * 60,000.
   */
  readonly maxWait?: number;
  /** Replacement for the global `fetch`. */
  readonly fetch?: typeof fetch;
}

/** Options that every call accepts. */
export interface CallOptions {
  /** Aborts the call. */
  readonly signal?: AbortSignal;
}

/**
 * When a request can be retried: `always` because it is idempotent, `refused` only after an error code that
 * guarantees that the request did not have any effect, or `never`.
 */
export type Resend = 'always' | 'refused' | 'never';

/** A request. */
export interface Request<T> extends CallOptions {
  readonly method: string;
  /** Path relative to the instance's URL. */
  readonly path: string;
  readonly query?: URLSearchParams;
  readonly headers?: Readonly<Record<string, string>>;
  readonly preferences?: readonly string[];
  /**
   * Whether unknown input is ignored despite `strict`, because the response reports it or the path does not support
   * strict handling.
   */
  readonly isLenient?: boolean;
  readonly body?: string | Blob | ReadableStream<Uint8Array>;
  readonly resend: Resend;
  readonly read: (response: Response) => Promise<T>;
  readonly timeout?: number;
}

/** Sends a request. @throws CrmError if it fails @throws the signal's reason if the signal is aborted */
export type Send = <T>(request: Request<T>) => Promise<T>;

/** Maximum wait before the first retry, in milliseconds. It doubles with each retry, up to `maxBackoffMs`. */
const firstWaitMs = 200;
const maxBackoffMs = 10_000;

/** Creates the function that sends requests to an instance. */
export function sender(options: ClientOptions): Send {
  const {
    organization,
    strict = true,
    retries = 5,
    timeout: defaultTimeout = 30_000,
    maxWait = 60_000,
  } = options;
  const base = new URL(options.url).href.replace(/\/+$/, '');

  async function attempt<T>(request: Request<T>): Promise<T> {
    const { method, query, body, signal, timeout = defaultTimeout } = request;
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
    const timeoutController = new AbortController();
    const timer = timeout === Infinity ? undefined : setTimeout(() => timeoutController.abort(), timeout);
    try {
      const response = await (options.fetch ?? fetch)(url, {
        method,
        headers,
        // Following a redirect could turn POST into GET or send the key to another host.
        redirect: 'manual',
        signal: AbortSignal.any(
          signal === undefined ? [timeoutController.signal] : [timeoutController.signal, signal],
        ),
        ...(body !== undefined && { body }),
        ...(body instanceof ReadableStream && { duplex: 'half' }),
      });
      if (response.ok) return await request.read(response);
      throw apiError(response.status, response.headers, await response.text());
    } catch (cause) {
      if (cause instanceof ApiError) throw cause;
      signal?.throwIfAborted();
      const reason = timeoutController.signal.aborted
        ? `no response within ${timeout} ms`
        : 'the connection failed';
      throw new ConnectionError(`${method} ${url.pathname}: ${reason}`, { cause });
    } finally {
      clearTimeout(timer);
    }
  }

  return async (request) => {
    let isUncertain = false;
    for (let attempts = 1; ; attempts++) {
      try {
        return await attempt(request);
      } catch (error) {
        if (!(error instanceof ApiError || error instanceof ConnectionError)) throw error;
        if (error instanceof ApiError) error.isUncertain = isUncertain;
        const requestedWait = requestedWaitMs(error);
        if (attempts > retries || !canRetry(error, request.resend) || requestedWait > maxWait) throw error;
        isUncertain ||= !hadNoEffect(error);
        await pause(requestedWait + backoff(attempts, maxWait), request.signal);
      }
    }
  };
}

/**
 * Error codes that guarantee that the request did not have any effect. A 503 from a proxy does not have such
 * a code.
 */
const codesWithoutEffect: readonly string[] = [
  'rate_limited',
  'in_progress',
  'overloaded',
  'too_slow',
  'shutting_down',
];

const hadNoEffect = (error: CrmError): boolean =>
  error instanceof ApiError && codesWithoutEffect.includes(error.code);

function canRetry(error: CrmError, resend: Resend): boolean {
  if (resend === 'never') return false;
  if (hadNoEffect(error)) return true;
  const isTemporary =
    error instanceof ConnectionError ||
    (error instanceof ApiError && temporaryStatuses.includes(error.status));
  return resend === 'always' && isTemporary;
}

/** HTTP status codes that indicate temporary errors. */
const temporaryStatuses: readonly number[] = [408, 429, 500, 502, 503, 504];

/** Returns the delay before a retry that the response requests, in milliseconds. */
const requestedWaitMs = (error: CrmError): number =>
  ((error instanceof ApiError ? error.retryAfter : undefined) ?? 0) * 1000;

/** Returns a random additional delay, in milliseconds, so that clients do not all retry at the same time. */
const backoff = (attempts: number, maxWait: number): number =>
  Math.random() * Math.min(firstWaitMs * 2 ** (attempts - 1), maxBackoffMs, maxWait);

/** Formats an ID for use in a path. @throws TypeError for a number that is not a safe integer */
export function pathId(id: Id): string {
  if (typeof id === 'number' && !Number.isSafeInteger(id)) throw new TypeError(`not a safe integer: ${id}`);
  return String(id);
}

/** Waits for a number of milliseconds, or throws the signal's reason if it is aborted. */
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
