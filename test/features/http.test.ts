// HTTP features that clients rely on: OPTIONS, cross-origin requests, compressed responses and bodies.
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { before, describe, test } from 'node:test';
import { brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import fastify from 'fastify';
import { readConfig } from '../../app/config.ts';
import { acceptedCoding, compression } from '../../engine/http/compression.ts';
import { cors, parseOrigins } from '../../engine/http/cors.ts';
import { httpServer } from '../../engine/http/index.ts';
import { workOf } from '../support/hostile/work.ts';
import { onBothDrivers } from '../support/instance.ts';
import { definitions, pathOf } from '../support/records.ts';
import { assertErrorShape, errorOf } from '../support/scenario.ts';

const page = 'https://app.example';

onBothDrivers(
  'HTTP',
  (instance) => {
    let key: string;
    let lead: string;
    before(async () => {
      ({ key } = await instance().organization('alpha'));
      for (let count = 0; count < 20; count++) {
        const made = await instance().call('POST /api/v1/leads', {
          key,
          body: { company: `company ${count}` },
        });
        lead = `/api/v1/leads/${made.json.id}`;
      }
    });

    for (const definition of definitions) {
      test(`OPTIONS of ${definition.name} returns the allowed methods without credentials or a body`, async () => {
        const all = await instance().call(`OPTIONS ${pathOf(definition)}`);
        assert.deepEqual(
          [all.status, all.text, all.headers.get('allow')],
          [204, '', 'GET, HEAD, QUERY, POST, OPTIONS'],
        );
        const one = await instance().call(`OPTIONS ${pathOf(definition, '1')}`);
        assert.equal(one.headers.get('allow'), 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS');
        assert.equal(one.headers.get('accept-patch'), 'application/json, application/merge-patch+json');
        const other = await instance().call(`PROPFIND ${pathOf(definition, '1')}`, { key });
        assert.deepEqual([other.status, other.headers.get('allow')], [405, one.headers.get('allow')]);
      });
    }

    test('no response with records is stored by caches', async () => {
      for (const [request, body, headers] of [
        ['GET /api/v1/leads'],
        ['HEAD /api/v1/leads'],
        ['GET /api/v1/leads', undefined, { accept: 'text/csv' }],
        [`GET ${lead}`],
        [`GET ${lead}`, undefined, { 'if-none-match': '*' }],
        [`GET ${lead}/history`],
        ['GET /api/v1/opportunities/aggregate'],
        ['POST /api/v1/leads/query', {}],
        ['QUERY /api/v1/leads', {}],
        [`PATCH ${lead}`, {}],
      ] as const) {
        const answer = await instance().call(request, {
          key,
          ...(body !== undefined && { body }),
          ...(headers !== undefined && { headers }),
        });
        assert.ok(answer.status < 400, answer.text);
        assert.equal(answer.headers.get('cache-control'), 'no-store', request);
      }
    });

    test('a request can last longer than the highest time limit of a statement', () => {
      const highestMs = 600_000;
      assert.ok(instance().app.server.timeout > highestMs);
    });

    test('idle connections are kept open longer than by load balancers, and request heads must arrive within ten seconds', () => {
      const { server } = instance().app;
      assert.ok(server.keepAliveTimeout > 60_000);
      assert.ok(server.headersTimeout <= 10_000);
    });

    describe('pages of other origins', () => {
      const call = (request: string, headers: Record<string, string>, as?: string) =>
        instance().call(request, { headers, ...(as !== undefined && { key: as }) });
      const allowed = 'access-control-allow-origin';
      test('can send preflight requests', async () => {
        const { status, headers } = await call(`OPTIONS ${lead}`, {
          origin: page,
          'access-control-request-method': 'PATCH',
          'access-control-request-headers': 'authorization,if-match',
        });
        assert.deepEqual([status, headers.get(allowed), headers.get('vary')], [204, page, 'origin']);
        const listed = (name: string) => headers.get(`access-control-allow-${name}`)?.split(', ') ?? [];
        for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'QUERY'])
          assert.ok(listed('methods').includes(method), method);
        for (const name of [
          ...['Authorization', 'Content-Type', 'Content-Encoding', 'If-Match', 'If-None-Match'],
          ...['Idempotency-Key', 'Prefer', 'X-Request-Id'],
        ])
          assert.ok(listed('headers').includes(name), name);
        assert.equal(headers.get('access-control-max-age'), '600');
      });
      test('can read responses, including errors, but never with credentials', async () => {
        for (const [as, status] of [
          [key, 200],
          [undefined, 401],
        ] as const) {
          const answer = await call(`GET ${lead}`, { origin: page }, as);
          assert.deepEqual([answer.status, answer.headers.get(allowed)], [status, page]);
          const readable = answer.headers.get('access-control-expose-headers')?.split(', ') ?? [];
          for (const name of [
            ...['ETag', 'Idempotency-Replayed', 'Link', 'Location', 'Preference-Applied', 'Retry-After'],
            ...['X-Request-Id', 'X-Total-Count', 'RateLimit', 'RateLimit-Policy'],
          ])
            assert.ok(readable.includes(name), name);
          assert.equal(answer.headers.get('access-control-allow-credentials'), null);
        }
      });
      test('lists in another format vary by every relevant header', async () => {
        const { headers } = await call('GET /api/v1/leads', { origin: page, accept: 'text/csv' }, key);
        assert.deepEqual(
          [headers.get(allowed), headers.get('vary')],
          [page, 'origin, accept, accept-encoding'],
        );
      });
      for (const origin of [
        'https://other.example',
        'http://app.example',
        'https://app.example.evil',
        'null',
      ]) {
        test(`rejects the origin ${origin}`, async () => {
          for (const request of [`OPTIONS ${lead}`, `GET ${lead}`]) {
            const { headers } = await call(request, { origin }, key);
            assert.deepEqual([headers.get(allowed), headers.get('vary')], [null, 'origin']);
          }
        });
      }
      test('every response varies by the origin, and every configured origin is allowed', async () => {
        const { headers } = await call(`GET ${lead}`, {}, key);
        assert.deepEqual([headers.get(allowed), headers.get('vary')], [null, 'origin']);
        const origin = 'http://localhost:5173';
        assert.equal((await call(`GET ${lead}`, { origin }, key)).headers.get(allowed), origin);
      });
      test('can only call the API', async () => {
        for (const path of ['/auth/me', '/setup/login', '/webhooks/inbound-leads']) {
          assert.equal((await call(`GET ${path}`, { origin: page }, key)).headers.get(allowed), null, path);
        }
      });
    });

    describe('compressed responses', () => {
      /** Returns the bytes as sent. fetch would decompress them. */
      const raw = (path: string, accept: string | undefined, method = 'GET', as = key, body = '') =>
        new Promise<{ headers: Record<string, unknown>; bytes: Buffer }>((resolve, reject) => {
          const headers = {
            authorization: `Bearer ${as}`,
            ...(accept !== undefined && { 'accept-encoding': accept }),
            ...(body !== '' && { 'content-type': 'application/json' }),
          };
          httpRequest(instance().url + path, { method, headers }, (response) => {
            const chunks: Buffer[] = [];
            response.on('data', (chunk: Buffer) => chunks.push(chunk));
            response.on('end', () => resolve({ headers: response.headers, bytes: Buffer.concat(chunks) }));
          })
            .on('error', reject)
            .end(body);
        });
      for (const path of ['/api/v1/leads', '/docs/openapi.json']) {
        test(`${path}: uses the client's preferred coding, and decodes to the same bytes`, async () => {
          const plain = await raw(path, undefined);
          assert.equal(plain.headers['content-encoding'], undefined);
          assert.match(String(plain.headers.vary), /accept-encoding/);
          for (const [accept, coding, decode] of [
            ['gzip', 'gzip', gunzipSync],
            ['br;q=0.5, gzip', 'gzip', gunzipSync],
            ['gzip, deflate, br, zstd', 'br', brotliDecompressSync],
          ] as const) {
            const { headers, bytes } = await raw(path, accept);
            assert.equal(headers['content-encoding'], coding);
            assert.ok(bytes.length < plain.bytes.length / 2, `${bytes.length} of ${plain.bytes.length}`);
            assert.deepEqual(decode(bytes), plain.bytes);
          }
        });
      }
      test('the API description has a length in every coding', async () => {
        for (const coding of ['br', 'gzip']) {
          const { headers, bytes } = await raw('/docs/openapi.json', coding);
          assert.deepEqual(
            [headers['content-encoding'], headers['content-length'], headers.vary],
            [coding, String(bytes.length), 'accept-encoding'],
          );
          const head = await raw('/docs/openapi.json', coding, 'HEAD');
          assert.equal(head.headers['content-length'], String(bytes.length));
        }
      });
      test('large concurrent lists are complete and have a length, compressed or not', async () => {
        const { key: many } = await instance().organization('many');
        for (let count = 0; count < 8; count++) {
          const body = { company: 'large', description: 'xyz '.repeat(10_000) };
          assert.equal((await instance().call('POST /api/v1/leads', { key: many, body })).status, 201);
        }
        const plain = await raw('/api/v1/leads', undefined, 'GET', many);
        const all = await Promise.all(
          Array.from({ length: 40 }, () => raw('/api/v1/leads', 'br', 'GET', many)),
        );
        for (const { headers, bytes } of all) {
          assert.equal(headers['content-length'], String(bytes.length));
          const isCompressed = headers['content-encoding'] === 'br';
          assert.deepEqual(isCompressed ? brotliDecompressSync(bytes) : bytes, plain.bytes);
        }
        assert.ok(all.some(({ headers }) => headers['content-encoding'] === 'br'));
      });
      test('compresses pages, but neither errors nor responses to methods other than GET', async () => {
        const page = await raw('/setup/login', 'gzip');
        assert.equal(page.headers['content-encoding'], 'gzip');
        assert.match(String(gunzipSync(page.bytes)), /^<!doctype html>/i);
        const unknown = Array.from({ length: 5 }, (_, index) => `x${index}[eq]=1`).join('&');
        for (const { headers, bytes } of [
          await raw(`/api/v1/leads?${unknown}`, 'gzip'),
          await raw('/api/v1/leads/query', 'gzip', 'POST', key, '{}'),
        ]) {
          assert.ok(bytes.length > 1024, String(bytes));
          assert.equal(headers['content-encoding'], undefined);
        }
      });
      test('does not compress small or huge responses, single records or responses without a body', async () => {
        for (const [path, method] of [
          ['/api/v1/accounts', 'GET'],
          [lead, 'GET'],
          ['/api/v1/leads', 'HEAD'],
          ['/api/v1/leads?page=x', 'GET'],
        ] as const) {
          assert.equal((await raw(path, 'gzip, br', method)).headers['content-encoding'], undefined, path);
        }
        const long = await instance().call('POST /api/v1/leads', {
          key,
          body: { description: 'x'.repeat(50_000) },
        });
        const huge = { description: 'x'.repeat(700_000) };
        const contact = await instance().call('POST /api/v1/contacts', { key, body: huge });
        assert.equal(contact.status, 201);
        assert.equal((await raw('/api/v1/contacts', 'gzip')).headers['content-encoding'], undefined);
        const { headers, bytes } = await raw(`/api/v1/leads/${long.json.id}`, 'gzip, br');
        assert.equal(headers['content-encoding'], undefined);
        assert.equal(bytes.toString(), long.text);
      });
    });

    describe('compressed bodies', () => {
      const post = (body: Uint8Array, coding: string, path = '/api/v1/leads', method = 'POST') =>
        instance().call(`${method} ${path}`, { key, body, headers: { 'content-encoding': coding } });
      for (const coding of ['gzip', 'GZIP', 'x-gzip']) {
        test(`${coding} is decoded`, async () => {
          const body = gzipSync(JSON.stringify({ company: 'packed', description: 'x'.repeat(100_000) }));
          const response = await post(body, coding);
          assert.deepEqual([response.status, response.json.company], [201, 'packed'], response.text);
          const changed = await post(
            gzipSync('{"company":"repacked"}'),
            coding,
            `/api/v1/leads/${response.json.id}`,
            'PATCH',
          );
          assert.equal(changed.json.company, 'repacked');
        });
      }
      test('identity is not a coding', async () =>
        assert.equal((await post(Buffer.from('{}'), 'identity')).status, 201));
      for (const coding of ['br', 'deflate', 'gzip, gzip', 'zstd', '*']) {
        test(`rejects ${coding} and names it`, async () => {
          const response = await post(gzipSync('{}'), coding);
          assert.equal(response.status, 400);
          assert.deepEqual(errorOf(response), {
            error: 'Content-Encoding must be gzip or identity',
            code: 'invalid_header',
          });
        });
      }
      test('rejects truncated bodies and bodies that are not gzip', async () => {
        for (const body of [Buffer.from('{}'), gzipSync('{}').subarray(0, 12)]) {
          const response = await post(body, 'gzip');
          assert.deepEqual([response.status, response.json.code], [400, 'invalid_json']);
          assertErrorShape(response);
        }
      });
      test('limits the size after decoding', async () => {
        const size = 200 * 1024 * 1024;
        const bomb = gzipSync(Buffer.alloc(size));
        assert.ok(bomb.length < 1024 * 1024);
        const { allocated } = await workOf(async () => {
          const response = await post(bomb, 'gzip');
          assert.deepEqual([response.status, response.json.code], [413, 'body_too_large']);
        });
        assert.ok(allocated < size / 4, `${allocated} bytes allocated for a body that decodes to ${size}`);
        const most = Buffer.alloc(1024 * 1024, ' ');
        most.write('{}', 0);
        assert.equal((await post(gzipSync(most), 'gzip')).status, 201);
      });
      test('checks permissions before decoding', async () => {
        const response = await instance().call('POST /api/v1/leads', {
          body: Buffer.from('x'),
          headers: { 'content-encoding': 'br' },
        });
        assert.equal(response.status, 401);
      });
    });
  },
  { environment: { CORS_ORIGINS: `${page}, http://localhost:5173` } },
);

onBothDrivers('HTTP defaults', (instance) => {
  test('pages of other origins cannot call the API', async () => {
    const { headers } = await instance().call('GET /api/v1/leads', { headers: { origin: page } });
    for (const name of headers.keys()) assert.doesNotMatch(name, /^access-control-/);
  });
});

test('with *, pages of every origin can call the API, but never with credentials', async () => {
  const app = fastify();
  cors(app, ['*'], ['X-Added']);
  app.get('/', async () => 'read');
  for (const origin of [page, 'null']) {
    const { headers } = await app.inject({ url: '/', headers: { origin } });
    assert.equal(headers['access-control-allow-origin'], '*');
    assert.match(String(headers['access-control-expose-headers']), /\bX-Added\b/);
    for (const name of ['vary', 'access-control-allow-credentials']) assert.equal(headers[name], undefined);
  }
  assert.equal((await app.inject('/')).headers['access-control-allow-origin'], undefined);
});

test('accepts * or exact origins', () => {
  for (const text of ['*', page, 'http://localhost:5173', `${page},http://x.example:8080`]) {
    assert.deepEqual(parseOrigins(text), text.split(','));
  }
  for (const text of [
    `${page}/`,
    'app.example',
    'https://*.example',
    'ftp://a',
    `${page},`,
    'null',
    'javascript:1',
  ]) {
    assert.equal(parseOrigins(text), undefined, text);
  }
});

test('each worker accepts its share of connections and large bodies, and LOG_SLOW_MS=0 logs no statement as slow', async () => {
  const config = readConfig({ MAX_CONNECTIONS: '1000', RESPONSE_BUFFER_MB: '4', LOG_SLOW_MS: '0' });
  const app = await httpServer({ ...config, workers: 4 }, { hold: () => () => {} }, []);
  // Ten percent more are accepted and receive a 503.
  assert.deepEqual([app.server.maxConnections, app.slowMs], [275, Number.POSITIVE_INFINITY]);
  const [arrived, response] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  app.post('/first', () => {
    arrived.resolve();
    return response.promise;
  });
  app.post('/second', async () => 'read');
  const origin = await app.listen({ port: 0, host: '127.0.0.1' });
  const headers = { 'content-type': 'text/plain' };
  const statusOf = async (path: string) => {
    const body = 'x'.repeat(300 * 1024);
    const response = await fetch(`${origin}${path}`, { method: 'POST', headers, body });
    await response.text();
    return response.status;
  };
  const first = statusOf('/first');
  await arrived.promise;
  // One caller can use half of a worker's MiB.
  assert.equal(await statusOf('/second'), 503);
  response.resolve('read');
  assert.equal(await first, 200);
  assert.equal(await statusOf('/second'), 200);
  await app.close();
});

test("selects the client's preferred coding", () => {
  for (const [header, coding] of [
    ['', undefined],
    ['identity', undefined],
    ['gzip', 'gzip'],
    ['GZip', 'gzip'],
    ['*', 'br'],
    ['br;q=0, *', 'gzip'],
    ['gzip;q=0', undefined],
    ['br;q=0.2,gzip;q=0.3', 'gzip'],
    ['deflate, zstd', undefined],
    ['br;q=nonsense', undefined],
  ] as const) {
    assert.equal(acceptedCoding(header), coding, header);
  }
});

describe('compression', () => {
  const bytes = Buffer.from(JSON.stringify(Array.from({ length: 20_000 }, (_, index) => `value ${index}`)));
  const headers = { 'accept-encoding': 'br' };

  /** Starts a server that collects its response payloads in `sent`. */
  async function server(compress: boolean) {
    const app = fastify();
    const sent: unknown[] = [];
    await app.register(compression, { compress });
    app.addHook('onSend', async (_request, _reply, payload) => {
      sent.push(payload);
      return payload;
    });
    const shared = app.sharedBody(bytes);
    app.get('/shared', async (request, reply) => {
      reply.header('content-type', 'application/json');
      return shared(request, reply);
    });
    app.get('/list', async (_request, reply) => {
      reply.header('content-type', 'application/json');
      return Buffer.from(bytes);
    });
    return { app, sent };
  }

  test('compresses shared responses once', async () => {
    const { app, sent } = await server(true);
    for (let count = 0; count < 3; count++) {
      const { rawPayload } = await app.inject({ url: '/shared', headers });
      assert.deepEqual(brotliDecompressSync(rawPayload), bytes);
    }
    assert.equal(new Set(sent).size, 1);
    await app.inject({ url: '/shared' });
    assert.equal(sent.at(-1), bytes);
  });

  test('compresses a bounded number of concurrent lists and delays none', async () => {
    const { app, sent } = await server(true);
    const all = await Promise.all(Array.from({ length: 40 }, () => app.inject({ url: '/list', headers })));
    const compressed = all.filter((each) => each.headers['content-encoding'] === 'br');
    assert.ok(compressed.length >= 8 && compressed.length < 20, `${compressed.length}`);
    for (const each of all) {
      const { rawPayload } = each;
      assert.deepEqual(compressed.includes(each) ? brotliDecompressSync(rawPayload) : rawPayload, bytes);
      assert.equal(each.headers.vary, 'accept-encoding');
    }
    for (const payload of sent) assert.ok(Buffer.isBuffer(payload), 'the size of the payload is known');
    // Each response releases its encoder.
    for (let count = 0; count < 20; count++) {
      const response = await app.inject({ url: '/list', headers });
      assert.equal(response.headers['content-encoding'], 'br', `response ${count} after the burst`);
    }
  });

  test('does not compress if a proxy does', async () => {
    const { app } = await server(false);
    for (const url of ['/shared', '/list']) {
      const response = await app.inject({ url, headers });
      assert.equal(response.headers['content-encoding'], undefined);
      assert.deepEqual(response.rawPayload, bytes);
    }
  });
});
