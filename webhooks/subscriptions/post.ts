import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { UserError } from '../../engine/errors.ts';
import { type AddressPolicy, pinnedAddress, type Resolve, receiverUrl } from './addresses.ts';

/** What became of a request. */
export interface PostResult {
  /** Undefined: there was no response. */
  readonly status: number | undefined;
  /** Why there was none, or none to use. */
  readonly problem: string;
  /** The heads of the request and its response, without what is secret. */
  readonly request: string;
  readonly response: string;
  /** What `Retry-After` says, in milliseconds. */
  readonly retryAfterMs: number | undefined;
}

/** Sends JSON to addresses that people of organizations give. */
export interface Poster {
  readonly post: (
    url: string,
    body: string,
    headers: Readonly<Record<string, string>>,
  ) => Promise<PostResult>;
  readonly close: () => void;
}

/** The time from the look-up of the name to the end of the response, in milliseconds, and the bytes that are read of it. */
export const [wholeMs, maxBytes] = [10_000, 64 * 1024];
/** Characters of a head that are kept. */
const keptHead = 4000;

/** Headers whose values are not kept. */
const secret = /^(?:set-cookie|authorization|proxy-|www-authenticate|webhook-signature)/i;

const head = (first: string, headers: Readonly<Record<string, unknown>>): string =>
  [
    first,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${secret.test(name) ? '…' : String(value)}`),
  ]
    .join('\n')
    // What a database can store, and a page can show.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what is replaced
    .replace(/[\0-\x08\x0b-\x1f\x7f]/g, '\ufffd')
    .slice(0, keptHead);

/** @param allowed where to, at the moment */
export function poster(allowed: () => AddressPolicy, resolve?: Resolve, longestMs = wholeMs): Poster {
  // A connection that is kept leads to an address that was checked.
  const options = { keepAlive: true, maxSockets: 128, maxFreeSockets: 64, timeout: 5000 };
  const [http, https] = [new HttpAgent(options), new HttpsAgent(options)];
  return {
    post: async (text, body, given) => {
      const headers = {
        'content-type': 'application/json',
        'user-agent': 'crm-events',
        ...given,
        'content-length': String(Buffer.byteLength(body)),
      };
      const sent = { request: head('POST', headers), response: '', retryAfterMs: undefined };
      try {
        const url = receiverUrl(text, allowed());
        const signal = AbortSignal.timeout(longestMs);
        const { address, family } = await inTime(pinnedAddress(url, allowed(), resolve), signal);
        const lookup: LookupFunction = (_host, { all }, done) =>
          all ? done(null, [{ address, family }]) : done(null, address, family);
        const response = await new Promise<IncomingMessage>((resolve, reject) => {
          const [send, agent] = url.protocol === 'http:' ? [httpRequest, http] : [httpsRequest, https];
          send(url, { method: 'POST', headers, agent, lookup, signal })
            .once('response', resolve)
            .once('error', reject)
            // Neither comes where the receiver asks for another protocol.
            .once('close', () => reject(new Error('closed')))
            .end(body);
        });
        await readSome(response);
        const { statusCode: status = 0, headersDistinct } = response;
        const shown = Object.fromEntries(
          Object.entries(headersDistinct).map(([name, values = []]) => [name, values.join(', ')]),
        );
        return {
          ...sent,
          status,
          problem: '',
          response: head(`HTTP ${status}`, shown),
          retryAfterMs: retryAfter(response.headers['retry-after']),
        };
      } catch (cause) {
        return { ...sent, status: undefined, problem: problemOf(cause as NodeJS.ErrnoException) };
      }
    },
    close: () => {
      http.destroy();
      https.destroy();
    },
  };
}

/** Work that cannot be ended, as long as somebody waits for it. */
const inTime = <T>(work: Promise<T>, signal: AbortSignal): Promise<T> =>
  Promise.race([
    work,
    new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    }),
  ]);

/** Reads the beginning of a body, for a connection that can be used again; one that does not end is cut. */
async function readSome(response: IncomingMessage): Promise<void> {
  let size = 0;
  try {
    for await (const chunk of response) {
      size += (chunk as Buffer).length;
      // Leaving the loop destroys it.
      if (size > maxBytes) return;
    }
  } catch {
    // The status has come; what follows it is of no use.
  }
}

/** Without texts of the system: they may hold addresses. */
const problemOf = (cause: NodeJS.ErrnoException): string =>
  cause instanceof UserError
    ? cause.message
    : ['TimeoutError', 'AbortError'].includes(cause.name)
      ? 'no response in time'
      : `no connection${cause.code === undefined ? '' : ` (${cause.code})`}`;

/** Seconds, or a date. */
function retryAfter(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
