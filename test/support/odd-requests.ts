// Requests from careless and hostile clients. They are sent over real sockets, because Node's fetch would
// repair many of them.
import { Agent, request as httpRequest } from 'node:http';
import fc, { type Arbitrary } from 'fast-check';
import type { Resource } from '../../engine/compile/compile.ts';
import { bodyText, edgyInteger, type KnownIds, oddJson } from './arbitraries.ts';
import { keepAlive } from './http-client.ts';
import type { Answer } from './instance.ts';
import { patienceMs } from './promised.ts';

/** A request as sent over the network. */
export interface OddRequest {
  readonly method: string;
  /** Printable Latin-1 without spaces, sent unescaped. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Latin-1 represents bytes. */
  readonly body: Buffer | undefined;
  /** Whether the body is sent in chunks, without Content-Length. */
  readonly chunked: boolean;
}

const often = <T>(weight: number, arbitrary: Arbitrary<T>) => ({ weight, arbitrary });

const anyMethod = fc.constantFrom(
  ...['GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'PATCH', 'OPTIONS', 'TRACE', 'SEARCH', 'PROPFIND', 'LOCK'],
  ...['UNKNOWN', 'get'],
);

/** Text that a request line can contain, with all notations for characters. */
const junk = fc.oneof(
  fc.string({ maxLength: 12 }).map(encodeURIComponent),
  fc
    .string({ unit: 'grapheme', maxLength: 8 })
    .filter((text) => text.isWellFormed())
    .map(encodeURIComponent),
  fc.constantFrom(
    '%',
    '%2',
    '%zz',
    '%00',
    '%2F',
    '%2e%2e',
    '..',
    '.',
    '%ff',
    '%c3%28',
    '%ed%a0%80',
    ';',
    "'",
    '"',
    '<b>',
    '{}',
    '\\',
    '|',
    '^',
    '`',
    '\xff',
    '*',
    ':id',
    '%0d%0aX:1',
    '//',
    '__proto__',
    'constructor',
    '%F0%9F%8C%8D',
  ),
);

const id = (ids: readonly string[]) =>
  fc.oneof(
    often(6, fc.constantFrom(...ids)),
    often(2, edgyInteger.map(String)),
    often(2, junk),
    often(1, fc.constantFrom('01', '+1', '1.0', '1e3', '0x10', ' 1', '-0', '9'.repeat(300))),
  );

/** Method and path, which usually belong together. */
const line = (
  resources: readonly Resource[],
  ids: readonly string[],
): Arbitrary<readonly [string, string]> => {
  const many = fc.constantFrom(...resources.map(({ name }) => `/api/v1/${name}`));
  const one = fc.tuple(many, id(ids)).map((parts) => parts.join('/'));
  const elsewhere = fc.oneof(
    many,
    one,
    fc.tuple(one, junk).map((parts) => parts.join('/')),
    fc.constantFrom(
      '/',
      '//',
      '/api',
      '/api/v1',
      '/api/v1/',
      '/api/v1//',
      '/docs/openapi.json',
      '/docs',
      '/docs/',
    ),
    fc.constantFrom(
      '/API/V1/leads',
      '/api/v1/leads/',
      '/api/v2/leads',
      '/api/v1/users',
      '/webhooks/inbound-leads',
    ),
    fc.constantFrom(
      '*',
      'http://elsewhere/api/v1/leads',
      '/health/live',
      '/api/v1/leads;a=b',
      '/api/v1/leads#x',
    ),
    junk.map((text) => `/${text}`),
    junk.map((text) => `/api/v1/${text}`),
  );
  return fc.oneof(
    often(3, fc.tuple(fc.constantFrom('GET', 'POST'), many)),
    often(3, fc.tuple(fc.constantFrom('GET', 'PUT', 'DELETE'), one)),
    often(1, fc.tuple(anyMethod, elsewhere)),
  );
};

const query = (resources: readonly Resource[]) => {
  const names = new Set(resources.flatMap(({ definition }) => definition.fields.map((field) => field.name)));
  const key = fc.oneof(
    often(
      6,
      fc.constantFrom(
        'page',
        'sort',
        'dir',
        'org',
        ...resources.flatMap(({ definition }) => definition.filters.map(({ field }) => field.name)),
      ),
    ),
    often(1, fc.constantFrom('per_page', 'page[]', 'page[$gt]', '', 'access_token', ...names)),
    often(1, junk),
  );
  const value = fc.oneof(
    often(
      3,
      fc.constantFrom(
        '',
        'asc',
        'DESC',
        'New',
        'Hot',
        'id',
        '0',
        '-1',
        '1',
        '6',
        '1000000000000',
        `1${'0'.repeat(30)}`,
        '1;drop table',
        ...names,
      ),
    ),
    often(1, edgyInteger.map(String)),
    often(2, junk),
  );
  const pair = fc.tuple(key, value).map((parts) => parts.join('='));
  return fc.oneof(
    often(3, fc.constant('')),
    often(
      6,
      fc.array(pair, { minLength: 1, maxLength: 4 }).map((pairs) => `?${pairs.join('&')}`),
    ),
    often(
      1,
      junk.map((text) => `?${text}`),
    ),
    often(
      1,
      fc
        .tuple(pair, fc.integer({ min: 50, max: 400 }))
        .map(([one, times]) => `?${Array(times).fill(one).join('&')}`),
    ),
  );
};

/** Header values consist of tabs and printable Latin-1. */
const headerValue = fc
  .string({
    unit: fc
      .integer({ min: 0x20, max: 0xff })
      .filter((code) => code !== 0x7f)
      .map((code) => String.fromCharCode(code)),
    maxLength: 40,
  })
  .map((text) => text.trim());

const headers = (keys: readonly string[]) => {
  const authorization = fc.oneof(
    often(
      12,
      fc.constantFrom(...keys).map((key) => `Bearer ${key}`),
    ),
    often(
      1,
      fc.constantFrom(...keys).map((key) => `bearer  ${key.slice(0, -1)}x`),
    ),
    often(
      1,
      fc.constantFrom(
        'Bearer',
        'Bearer ',
        'Basic YTpi',
        'Bearer crm_',
        'Bearer crm_x_y',
        `Bearer ${'x'.repeat(9000)}`,
        'Bearer a.b.c',
        '',
      ),
    ),
    often(1, headerValue),
  );
  const contentType = fc.oneof(
    often(12, fc.constant('application/json')),
    often(
      2,
      fc.constantFrom(
        'application/json; charset=utf-8',
        'application/json;charset=utf-16',
        'text/plain',
        'application/x-www-form-urlencoded',
        'multipart/form-data',
        'application/json, text/plain',
        '',
        ';',
        '/',
      ),
    ),
    often(1, headerValue),
  );
  const other = fc.oneof(
    ...Object.entries({
      prefer: fc.constantFrom('handling=strict', 'return=minimal, handling="strict"', ';;', 'handling'),
      'x-org-slug': fc.constantFrom('beta', '', 'alpha'),
      accept: fc.constantFrom('*/*', 'text/html', 'application/xml', 'x'),
      cookie: headerValue,
      'if-match': headerValue,
      'idempotency-key': headerValue,
      'content-encoding': fc.constantFrom('gzip', 'identity', 'x'),
      'x-http-method-override': fc.constantFrom('DELETE', 'x'),
      'x-forwarded-for': headerValue,
      origin: fc.constantFrom('https://evil.example', 'null'),
      range: fc.constantFrom('bytes=0-1', 'x'),
      te: fc.constantFrom('trailers', 'gzip'),
      upgrade: fc.constantFrom('h2c', 'websocket'),
      expect: fc.constantFrom('100-continue'),
      host: fc.constantFrom('elsewhere', 'a b', '127.0.0.1:1'),
      'x-odd': headerValue,
      'x-long': fc.integer({ min: 1, max: 20_000 }).map((length) => 'x'.repeat(length)),
    }).map(([name, value]) => value.map((text) => [name, text] as const)),
  );
  const more = fc.array(other, { maxLength: 3 }).map((list) => Object.fromEntries(list));
  return fc
    .tuple(
      fc.oneof(often(15, authorization), often(1, fc.constant(undefined))),
      fc.oneof(often(8, contentType), often(1, fc.constant(undefined))),
      fc.oneof(often(2, fc.constant({})), often(1, more)),
    )
    .map(([authorized, type, others]) => ({
      ...others,
      ...(authorized === undefined ? {} : { authorization: authorized }),
      ...(type === undefined ? {} : { 'content-type': type }),
    }));
};

const body = (resources: readonly Resource[], ids: KnownIds): Arbitrary<Buffer | undefined> => {
  const texts = fc.oneof(
    often(8, fc.oneof(...resources.map((resource) => bodyText(resource, ids)))),
    often(2, oddJson),
    often(
      1,
      fc.constantFrom(
        '',
        '{',
        '{}',
        '[]',
        'null',
        '{"a":1,"a":2}',
        '{"a":1}}',
        '\uFEFF{}',
        '{"page":NaN}',
        `{"a":${'['.repeat(100_000)}`,
      ),
    ),
    often(
      1,
      fc
        .tuple(oddJson, fc.integer({ min: 100, max: 3000 }))
        .map(
          ([json, times]) =>
            `{${Array.from({ length: times }, (_, index) => `"k${index}":${json.length < 100 ? json : 1}`)}}`,
        ),
    ),
  );
  return fc.oneof(
    often(
      12,
      texts.map((text) => Buffer.from(text)),
    ),
    often(
      1,
      fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
    ),
    often(
      1,
      texts.map((text) => Buffer.from(text.slice(0, 5000), 'utf16le')),
    ),
    often(2, fc.constant(undefined)),
  );
};

/** Generates requests of any kind, most of them with a key and an existing path. */
export function oddRequests(
  resources: readonly Resource[],
  keys: readonly string[],
  ids: KnownIds,
): Arbitrary<OddRequest> {
  const every = [...new Set(Object.values(ids).flat())];
  return fc
    .record({
      line: line(resources, every),
      query: query(resources),
      headers: headers(keys),
      body: body(resources, ids),
      chunked: fc.constantFrom(false, false, false, true),
    })
    .map(({ line: [method, path], query, ...rest }) => {
      const target = `${path}${query}`.replace(/[^\x21-\xff]/g, '_');
      const head = target.length + Object.values(rest.headers).join('').length;
      // A request rejected while its head is parsed gets a response with a body, even if its method is HEAD.
      const understood = head < 10_000 && /^\/[\x21-\x7e]*$/.test(target);
      return { ...rest, path: target, method: method === 'HEAD' && !understood ? 'GET' : method };
    });
}

/** Formats a request as one line for failure messages. */
export const inOneLine = ({ method, path, headers, body, chunked }: OddRequest): string =>
  `${method} ${path.slice(0, 300)} ${JSON.stringify(headers).slice(0, 500)} ${chunked ? 'chunked ' : ''}${JSON.stringify(body?.toString('latin1').slice(0, 500))}`;

/** Sends requests over a few keep-alive connections, as long-lived clients do. */
export function sender(url: string): { send: (odd: OddRequest) => Promise<Answer>; close: () => void } {
  const agent = new Agent({ ...keepAlive, maxSockets: 16 });
  const { hostname, port } = new URL(url);
  const send = ({ method, path, headers, body, chunked }: OddRequest) =>
    new Promise<Answer>((resolve, reject) => {
      // Node's client frames the bodies of GET, HEAD and DELETE requests only if the length is set.
      const framing = chunked
        ? { 'transfer-encoding': 'chunked' }
        : { 'content-length': String(body?.length) };
      const length = body === undefined ? {} : framing;
      const request = httpRequest({
        agent,
        hostname,
        port,
        method,
        path,
        headers: { ...headers, ...length },
        timeout: patienceMs,
      });
      request.on('timeout', () => request.destroy(new Error('no response')));
      request.on('error', reject);
      request.on('response', (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(parts).toString('utf8');
          const list = Object.entries(response.headers).flatMap(([name, value]) =>
            [value ?? []].flat().map((one) => [name, one] as [string, string]),
          );
          resolve({
            status: response.statusCode ?? 0,
            headers: new Headers(list),
            text,
            get json() {
              return JSON.parse(text) as Record<string, unknown>;
            },
          });
        });
      });
      request.end(body);
    });
  return { send, close: () => agent.destroy() };
}
