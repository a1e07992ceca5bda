import { Agent as HttpAgent, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import {
  type AddressPolicy,
  pinnedLookup,
  type Resolve,
  receiverUrl,
  sendRequest,
} from '../../engine/addresses.ts';
import { UserError } from '../../engine/errors.ts';

/** A POST request's result. */
export interface PostResult {
  /** The response's status code, or undefined if the request failed. */
  readonly status: number | undefined;
  /** Why the request failed, or an empty string. */
  readonly error: string;
  /** Request and response headers, without secrets. */
  readonly request: string;
  readonly response: string;
  /** Value of `Retry-After`, in milliseconds. */
  readonly retryAfterMs: number | undefined;
}

/** Sends requests to URLs specified by customers. */
export interface Poster {
  readonly post: (
    url: string,
    body: string,
    headers: Readonly<Record<string, string>>,
  ) => Promise<PostResult>;
  readonly close: () => void;
}

/** Timeout from DNS lookup to end of response, in milliseconds, and maximum response size, in bytes. */
export const [requestTimeoutMs, maxBytes] = [10_000, 64 * 1024];
/** Maximum number of header characters to store. */
const maxHeadLength = 4000;

/** Headers whose values are not stored. */
const secret = /^(?:set-cookie|authorization|proxy-|www-authenticate|webhook-signature)/i;

const head = (firstLine: string, headers: Readonly<Record<string, unknown>>): string =>
  [
    firstLine,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${secret.test(name) ? '…' : String(value)}`),
  ]
    .join('\n')
    // Control characters cannot be stored or displayed.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are replaced
    .replace(/[\0-\x08\x0b-\x1f\x7f]/g, '\ufffd')
    .slice(0, maxHeadLength);

/** Creates a poster. @param policyOf returns the current restrictions on receiver URLs */
export function poster(
  policyOf: () => AddressPolicy,
  resolve?: Resolve,
  timeoutMs = requestTimeoutMs,
): Poster {
  // Connections can be reused, because their IP addresses were checked.
  const options = { keepAlive: true, maxSockets: 128, maxFreeSockets: 64, timeout: 5000 };
  const [http, https] = [new HttpAgent(options), new HttpsAgent(options)];
  return {
    post: async (text, body, extraHeaders) => {
      const headers = {
        'user-agent': 'crm-events',
        ...extraHeaders,
        'content-length': String(Buffer.byteLength(body)),
      };
      const baseResult = { request: head('POST', headers), response: '', retryAfterMs: undefined };
      try {
        const url = receiverUrl(text, policyOf());
        const signal = AbortSignal.timeout(timeoutMs);
        const lookup = await pinnedLookup(url, policyOf(), signal, resolve);
        const agent = url.protocol === 'http:' ? http : https;
        const response = await sendRequest(url, { method: 'POST', headers, agent, lookup, signal }, body);
        await readLimited(response);
        const { statusCode: status = 0, headersDistinct } = response;
        const headerTexts = Object.fromEntries(
          Object.entries(headersDistinct).map(([name, values = []]) => [name, values.join(', ')]),
        );
        return {
          ...baseResult,
          status,
          error: '',
          response: head(`HTTP ${status}`, headerTexts),
          retryAfterMs: retryAfter(response.headers['retry-after']),
        };
      } catch (cause) {
        return { ...baseResult, status: undefined, error: reasonOf(cause as NodeJS.ErrnoException) };
      }
    },
    close: () => {
      http.destroy();
      https.destroy();
    },
  };
}

/** Reads a body so that the connection can be reused. Closes the connection if the body is too large. */
async function readLimited(response: IncomingMessage): Promise<void> {
  let size = 0;
  try {
    for await (const chunk of response) {
      size += (chunk as Buffer).length;
      // Leaving the loop destroys the stream.
      if (size > maxBytes) return;
    }
  } catch {
    // Ignored, because only the status matters and it has already been received.
  }
}

/** Returns the reason for a failure. Omits system messages, because they might contain IP addresses. */
const reasonOf = (cause: NodeJS.ErrnoException): string =>
  cause instanceof UserError
    ? cause.message
    : ['TimeoutError', 'AbortError'].includes(cause.name)
      ? 'no response in time'
      : `connection failed${cause.code === undefined ? '' : ` (${cause.code})`}`;

/** Parses a `Retry-After` header (a number of seconds or a date) and returns the delay in milliseconds. */
function retryAfter(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
