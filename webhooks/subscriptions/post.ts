import { Agent as HttpAgent, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import {
  AddressError,
  type AddressPolicy,
  pinnedLookup,
  type Resolve,
  receiverUrl,
  sendRequest,
} from '../../engine/addresses.ts';
import type { DeliveryReason } from './reasons.ts';

/** A POST request's result. */
export interface PostResult {
  /** The response's status code, or undefined if the request failed. */
  readonly status: number | undefined;
  /** Why the request failed, or undefined if there was a response. */
  readonly failure: DeliveryReason | undefined;
  /** Request and response headers, without secrets. */
  readonly request: string;
  readonly response: string;
  /** The start of the response body, see {@link bodyStart}. */
  readonly body: string;
  /** Size of the response body in bytes, or undefined without a response. Larger than {@link maxBytes} if only a part was read. */
  readonly bytes: number | undefined;
  /** Value of `Retry-After`, in milliseconds. */
  readonly retryAfterMs: number | undefined;
}

/** Sends requests to URLs specified by customers. */
export interface Poster {
  readonly post: (
    url: string,
    body: Buffer,
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

/** Maximum number of bytes of a body to store. */
export const maxStoredBytes = 8 * 1024;

/** Replaces control characters, which cannot be stored or displayed. */
const displayable = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are replaced
  text.replace(/[\0-\x08\x0b-\x1f\x7f]/g, '\ufffd');

/** Returns the text of a body's first {@link maxStoredBytes} bytes, or an empty string if the body is not UTF-8 text. */
export function bodyStart(body: Buffer): string {
  const start = body.subarray(0, maxStoredBytes);
  if (start.includes(0)) return '';
  try {
    // A character that is incomplete because of the limit is omitted.
    const text = new TextDecoder('utf-8', { fatal: true }).decode(start, {
      stream: body.length > start.length,
    });
    return displayable(text.replaceAll('\r\n', '\n'));
  } catch {
    return '';
  }
}

const head = (firstLine: string, headers: Readonly<Record<string, unknown>>): string =>
  displayable(
    [
      firstLine,
      ...Object.entries(headers).map(
        ([name, value]) => `${name}: ${secret.test(name) ? '…' : String(value)}`,
      ),
    ].join('\n'),
  ).slice(0, maxHeadLength);

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
        'content-length': String(body.length),
      };
      const baseResult = {
        ...{ request: head('POST', headers), response: '', body: '', bytes: undefined },
        retryAfterMs: undefined,
      };
      try {
        const url = receiverUrl(text, policyOf());
        const signal = AbortSignal.timeout(timeoutMs);
        const lookup = await pinnedLookup(url, policyOf(), signal, resolve);
        const agent = url.protocol === 'http:' ? http : https;
        const response = await sendRequest(url, { method: 'POST', headers, agent, lookup, signal }, body);
        const content = await readLimited(response);
        const { statusCode: status = 0, headersDistinct } = response;
        const headerTexts = Object.fromEntries(
          Object.entries(headersDistinct).map(([name, values = []]) => [name, values.join(', ')]),
        );
        return {
          ...baseResult,
          ...content,
          status,
          failure: undefined,
          response: head(`HTTP ${status}`, headerTexts),
          retryAfterMs: retryAfter(response.headers['retry-after']),
        };
      } catch (cause) {
        const failure = reasonOf(cause as NodeJS.ErrnoException, timeoutMs);
        return { ...baseResult, status: undefined, failure };
      }
    },
    close: () => {
      http.destroy();
      https.destroy();
    },
  };
}

/**
 * Reads a body so that the connection can be reused, and returns its start and size. Closes the connection if the body is too
 * large.
 */
async function readLimited(response: IncomingMessage): Promise<Pick<PostResult, 'body' | 'bytes'>> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response) {
      if (bytes <= maxStoredBytes) chunks.push(chunk as Buffer);
      bytes += (chunk as Buffer).length;
      // Leaving the loop destroys the stream.
      if (bytes > maxBytes) break;
    }
  } catch {
    // Ignored, because only the status matters and it has already been received.
  }
  return { body: bodyStart(Buffer.concat(chunks)), bytes };
}

/** Returns the reason for a failure. Omits system messages, because they might contain IP addresses. */
function reasonOf(cause: NodeJS.ErrnoException, timeoutMs: number): DeliveryReason {
  if (cause instanceof AddressError) return { code: cause.code, values: cause.values };
  if (['TimeoutError', 'AbortError'].includes(cause.name))
    return { code: 'timeout', values: { seconds: String(timeoutMs / 1000) } };
  return { code: 'connection', values: { code: cause.code ?? '' } };
}

/** Parses a `Retry-After` header (a number of seconds or a date) and returns the delay in milliseconds. */
function retryAfter(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
