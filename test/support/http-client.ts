// Test support: sends requests over pooled connections. Unlike `fetch`, which does more work than the service
// under test, it does not request a compressed response.
import { Agent, type IncomingMessage, request } from 'node:http';
import { brotliDecompressSync, inflateSync, unzipSync, zstdDecompressSync } from 'node:zlib';

/**
 * Options of agents that use connections again, unless they were idle for 12 of the 72 seconds after which the service closes
 * them. With the default, a second before, a busy process sends requests on connections that the service has just closed.
 */
export const keepAlive = { keepAlive: true, agentKeepAliveTimeoutBuffer: 60_000 } as const;

const agent = new Agent(keepAlive);

/** A response with its complete body. */
export interface Received {
  readonly status: number;
  readonly headers: Headers;
  /** The decompressed body. */
  readonly text: string;
}

const decompress: Readonly<Record<string, (body: Buffer) => Buffer>> = {
  gzip: unzipSync,
  deflate: inflateSync,
  br: brotliDecompressSync,
  zstd: zstdDecompressSync,
};

/**
 * Sends a request and returns the response. Redirects are not followed.
 * @throws Error if the connection fails before the end of the response
 */
export async function exchange(
  url: URL,
  options: {
    method: string;
    headers: Readonly<Record<string, string>>;
    body?: string | Uint8Array | undefined;
  },
): Promise<Received> {
  const { method, headers, body } = options;
  const sent = request(url, { agent, method, headers: { ...headers, ...lengthOf(body) } });
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  sent.once('response', resolve);
  sent.once('error', reject);
  sent.end(body);
  const response = await promise;
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  const encoded = Buffer.concat(chunks);
  const encoding = response.headers['content-encoding'];
  const decoded = encoding === undefined || encoded.length === 0 ? encoded : decompress[encoding]?.(encoded);
  if (decoded === undefined) throw new Error(`unknown encoding ${encoding}`);
  const result = new Headers();
  for (const [name, values = []] of Object.entries(response.headersDistinct)) {
    for (const value of values) result.append(name, value);
  }
  return { status: response.statusCode ?? 0, headers: result, text: new TextDecoder().decode(decoded) };
}

/** Returns the headers that state the body's length. Without a body, POST, PUT and PATCH state a length of 0. */
function lengthOf(body: string | Uint8Array | undefined): Record<string, string> {
  return body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
}
