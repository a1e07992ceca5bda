// Memory that clients can make the process use: unread responses, request bodies and connections.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { after, afterEach, before, describe, test } from 'node:test';
import fastify, { type FastifyInstance } from 'fastify';
import { type AdmissionLimits, createAdmission } from '../../engine/database/admission.ts';
import { createNotFound, errorHandling } from '../../engine/http/error-handling.ts';
import { memory } from '../../engine/http/memory.ts';
import { onBothDrivers } from '../support/instance.ts';
import { until } from '../support/process.ts';
import { patienceMs } from '../support/promised.ts';

const opened = new Set<Socket>();
// Closes the connections of failed tests, or the service would wait for them.
afterEach(() => {
  for (const socket of opened) socket.destroy();
  opened.clear();
});

/** Opens a connection whose client reads only when the test requests it. */
async function open(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  opened.add(socket);
  socket.pause();
  // The service can close the connection, which some tests wait for.
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

const get = (socket: Socket, path: string, headers = '') =>
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`);

/** Reads until the connection ends. Closes it if it stays silent for too long. */
async function rest(socket: Socket): Promise<string> {
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  socket.setTimeout(patienceMs, () => socket.destroy());
  socket.resume();
  if (!socket.closed) await once(socket, 'close');
  return text;
}

describe('slow readers', () => {
  const windowMs = 600;
  /** Exceeds what the kernel buffers. */
  const size = 24 * 1024 * 1024;
  let app: FastifyInstance;
  let url: string;
  let heldBytes = 0;
  let lastStream: Readable | undefined;
  /** The callers of streams that were checked. */
  const checks: string[] = [];
  const streamed = () => {
    lastStream = Readable.from(['a,b']);
    return lastStream;
  };

  before(async () => {
    const each = { perOrganization: 100, total: 100 };
    const all = [each];
    const short = { 'short read': all, 'short list': all, 'short write': all };
    const turns: AdmissionLimits['lanes'] = {
      ...short,
      read: all,
      write: all,
      list: all,
      scan: all,
      aggregate: all,
      export: all,
      stream: all,
      batch: all,
      module: all,
      lookup: all,
    };
    const counted = createAdmission({ lanes: turns, queue: each, bytes: each, waitMs: 1000 });
    app = fastify();
    app.decorateRequest('principal', null);
    app.decorateRequest('owner', '');
    app.addHook('onRequest', async (request) => {
      request.owner = String(request.headers['x-owner'] ?? '');
    });
    await app.register(errorHandling, { missing: createNotFound([]) });
    await app.register(memory, {
      database: {
        hold: (organization, bytes) => {
          heldBytes += bytes;
          const release = counted.hold(organization, bytes);
          return () => {
            heldBytes -= bytes;
            release();
          };
        },
      },
      maxConnections: 20,
      bodyBytes: 4 * 1024 * 1024,
      windowMs,
    });
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    app.post('/body', { bodyLimit: 2 * 1024 * 1024 }, async () => 'read');
    app.get('/large', async () => 'x'.repeat(size));
    app.get('/shared', async () => Buffer.alloc(size));
    const streamRoute = { config: { streams: ['text/csv'] } };
    app.get('/streams/none', async (_request, reply) => reply.type('text/csv').send(streamed()));
    app.get('/streams/other', streamRoute, async (_request, reply) =>
      reply.type('text/html').send(streamed()),
    );
    app.get('/streams/stranger', streamRoute, async (_request, reply) =>
      reply.type('text/csv').send(streamed()),
    );
    app.get('/streams/waiting', streamRoute, async (request, reply) => {
      request.assertAllowed = async () => {};
      lastStream = new Readable({ read: () => {} });
      lastStream.push('first,');
      return reply.type('text/csv').send(lastStream);
    });
    app.get('/streams/checked', streamRoute, async (request, reply) => {
      const name = String(request.headers['x-owner']);
      request.assertAllowed = () => {
        checks.push(name);
        return name === 'undecided' ? new Promise(() => {}) : Promise.resolve();
      };
      const stream = name === 'short' ? streamed() : new Readable({ read: () => {} });
      return reply.type('text/csv').send(stream);
    });
    app.get('/streams/caller', streamRoute, async (request, reply) => {
      request.assertAllowed = async () => {};
      return reply.type('text/csv').send(streamed());
    });
    await app.listen({ host: '127.0.0.1', port: 0 });
    url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  });
  after(() => app.close());
  const connections = () =>
    new Promise<number>((resolve) => app.server.getConnections((_, count) => resolve(count)));

  for (const path of ['/large', '/shared']) {
    test(`${path}: disconnects a client that does not read, and releases its memory`, async () => {
      const socket = await open(url);
      get(socket, path);
      if (path === '/large') await until(() => heldBytes === size, 'the response to be held');
      else {
        await once(socket, 'readable');
        assert.equal(heldBytes, 0, 'all callers share the response');
      }
      await until(async () => (await connections()) === 0, 'the client to be disconnected');
      const text = await rest(socket);
      assert.ok(text.length < size, `${text.length}`);
      assert.equal(heldBytes, 0);
    });
  }

  test('a client that reads slowly but fast enough gets the complete response', async () => {
    let startedAt = 0;
    // If this process is stopped for a while, the client counts as slow too.
    await until(async () => {
      const socket = await open(url);
      get(socket, '/large', 'Connection: close\r\n');
      let read = 0;
      startedAt = performance.now();
      socket.on('data', (chunk: Buffer) => {
        read += chunk.length;
        socket.pause();
        // Do not read more slowly, because the client's kernel accepts more data only after a large part of
        // its buffer has been read.
        setTimeout(() => socket.resume(), 5);
      });
      socket.resume();
      await once(socket, 'close');
      return read > size;
    }, 'read the complete response');
    assert.ok(
      performance.now() - startedAt > 2 * windowMs,
      'longer than the timeout for clients that do not read',
    );
    assert.equal(heldBytes, 0);
  });

  test('a client that has read everything is not disconnected while the next part is not ready', async () => {
    const reader = await open(url);
    get(reader, '/streams/waiting', 'Connection: close\r\n');
    await once(reader, 'readable');
    // This client connects later, so the reader has been checked by the time it is disconnected.
    const other = await open(url);
    get(other, '/large');
    await until(() => heldBytes === size, 'the response to be held');
    await until(() => heldBytes === 0, 'the other client to be disconnected');
    lastStream?.push('last');
    lastStream?.push(null);
    assert.match(await rest(reader), /first,\r\n4\r\nlast\r\n0\r\n\r\n$/);
  });

  test('a client that disconnects before the response or between pipelined responses holds nothing', async () => {
    for (let count = 0; count < 5; count++) {
      const socket = await open(url);
      for (let index = 0; index < 3; index++) get(socket, '/large');
      if (count % 2 === 0) await until(() => heldBytes > 0, 'a response to be held');
      socket.destroy();
    }
    await until(() => heldBytes === 0, 'everything to be released');
  });

  const megabyte = 1024 * 1024;
  /** Sends the head of a request with a body. */
  const post = async (...headers: readonly string[]) => {
    const socket = await open(url);
    socket.write(['POST /body HTTP/1.1', 'Host: x', 'Connection: close', ...headers, '', ''].join('\r\n'));
    return socket;
  };
  const largeBody = `Content-Length: ${megabyte}`;
  /** Waits until another large body is rejected, after the bodies that have been announced have been counted. */
  const untilRejected = (...headers: readonly string[]) => {
    let attempts = 0;
    return until(async () => {
      assert.ok(++attempts <= 50, 'no large body is rejected');
      const socket = await post(largeBody, ...headers);
      const text = await Promise.race([rest(socket), new Promise<string>((end) => setTimeout(end, 200, ''))]);
      socket.destroy();
      return text.startsWith('HTTP/1.1 503 ') && text.includes('"code":"overloaded"');
    }, 'a large body to be rejected');
  };
  const assertAccepted = async (socket: Socket) => {
    socket.write('x'.repeat(megabyte));
    assert.match(await rest(socket), /^HTTP\/1.1 200 /);
  };

  test('rejects large concurrent bodies beyond half of the limit before reading them, but never small ones', async () => {
    // Together, they are half of 4 MiB.
    const sending = [await post(largeBody), await post(largeBody)];
    await untilRejected();
    const small = await fetch(`${url}/body`, { method: 'POST', body: 'x' });
    assert.equal(small.status, 200);
    for (const socket of sending) await assertAccepted(socket);
    await assertAccepted(await post(largeBody));
  });

  for (const [name, ...headers] of [
    ['sent in chunks', 'Transfer-Encoding: chunked'],
    ['compressed', 'Content-Encoding: gzip', 'Content-Length: 40000'],
  ] as const) {
    test(`a body that is ${name} counts as the largest body that its route accepts`, async () => {
      const sending = await post(...headers);
      await untilRejected();
      sending.destroy();
      await until(async () => {
        const next = await post(largeBody);
        next.write('x'.repeat(megabyte));
        return (await rest(next)).startsWith('HTTP/1.1 200 ');
      }, 'the memory to be released');
    });
  }

  test('the large bodies of all callers are limited together, but each caller can always send one', async () => {
    const owner = (name: string) => `X-Owner: ${name}`;
    const sending = await Promise.all(['a', 'b', 'c', 'd'].map((name) => post(largeBody, owner(name))));
    await untilRejected(owner('a'));
    await assertAccepted(await post(largeBody, owner('e')));
    for (const socket of sending) await assertAccepted(socket);
  });

  for (const [path, status] of [
    ['none', 500],
    ['other', 500],
    ['stranger', 500],
    ['caller', 200],
  ] as const) {
    test(`a stream requires a route that declares its type and a caller that can be checked again: ${path}`, async () => {
      const response = await fetch(`${url}/streams/${path}`);
      assert.deepEqual([response.status, (await response.text()) === 'a,b'], [status, status === 200]);
      assert.ok(lastStream?.destroyed);
    });
  }

  test('the caller of a stream is checked until the stream ends, one check at a time', async () => {
    const start = async (name: string) => {
      const socket = await open(url);
      get(socket, '/streams/checked', `X-Owner: ${name}\r\nConnection: close\r\n`);
      return socket;
    };
    const checksOf = (name: string) => checks.filter((checked) => checked === name).length;
    assert.match(await rest(await start('short')), /a,b/);
    const before = checksOf('short');
    const sockets = [await start('undecided'), await start('long')];
    await until(() => checksOf('long') >= 2 && checksOf('undecided') >= 1, 'several checks');
    assert.deepEqual([checksOf('short'), checksOf('undecided')], [before, 1]);
    for (const socket of sockets) socket.destroy();
  });

  test('large responses support Content-Length, HEAD and keep-alive like any other', async () => {
    const response = await fetch(`${url}/large`);
    assert.equal(response.headers.get('content-length'), String(size));
    assert.equal((await response.text()).length, size);
    const head = await fetch(`${url}/large`, { method: 'HEAD' });
    assert.equal(head.headers.get('content-length'), String(size));
    assert.equal(heldBytes, 0);
  });
});

onBothDrivers(
  'memory held by requests',
  (instance) => {
    test('connections beyond MAX_CONNECTIONS get 503 until others have closed', async () => {
      const { url } = instance();
      const before = await Promise.all(Array.from({ length: 5 }, () => open(url)));
      const surplus = await open(url);
      get(surplus, '/docs/openapi.json');
      const text = await rest(surplus);
      assert.match(text, /^HTTP\/1\.1 503 /);
      assert.match(text, /\r\nretry-after: 1\r\n/i);
      assert.match(text, /\r\nconnection: close\r\n/i);
      assert.match(text, /"code":"overloaded"/);
      // Many more connections are closed immediately.
      const others = await Promise.all(Array.from({ length: 10 }, () => open(url)));
      const ended = (await open(url)).resume();
      await once(ended, 'close');
      for (const socket of others) assert.ok(!socket.closed);
      for (const socket of [...before, ...others]) socket.destroy();
      await until(async () => {
        const socket = await open(url);
        get(socket, '/docs/openapi.json', 'Connection: close\r\n');
        return (await rest(socket)).startsWith('HTTP/1.1 200 ');
      }, 'a connection to be served');
    });

    test('an organization with unread responses has to wait, but others do not', async () => {
      const { call, url } = instance();
      const [slow, other] = [await instance().organization('slow'), await instance().organization('other')];
      const body = { last_name: 'large', description: 'x'.repeat(900_000) };
      for (let count = 0; count < 8; count++) {
        assert.equal((await call('POST /api/v1/leads', { key: slow.key, body })).status, 201);
      }
      const headers = `Authorization: Bearer ${slow.key}\r\n`;
      const sockets: Socket[] = [];
      const isHeld = async () => (await call('GET /api/v1/cases', { key: slow.key })).status === 503;
      // Each response is 7 MB, some of which the kernel buffers. Half of RESPONSE_BUFFER_MB fits one response.
      /** Requests two large responses. If this process is stopped for a while, the service disconnects stalled readers. */
      const hold = async () => {
        for (const socket of sockets.splice(0)) socket.destroy();
        for (let count = 0; count < 2; count++) {
          const socket = await open(url);
          get(socket, '/api/v1/leads', headers);
          sockets.push(socket);
        }
        for (let requests = 0; requests < 50; requests++) if (await isHeld()) return true;
        return false;
      };
      await until(hold, 'a statement to be rejected');
      const response = await call('GET /api/v1/cases', { key: slow.key });
      assert.deepEqual([response.status, response.json.code], [503, 'overloaded']);
      assert.equal((await call('GET /api/v1/cases', { key: other.key })).status, 200);
      for (const socket of sockets) socket.destroy();
      await until(async () => !(await isHeld()), 'the organization to be served');
    });
  },
  { environment: { MAX_CONNECTIONS: '5', RESPONSE_BUFFER_MB: '4', DATABASE_CONNECT_TIMEOUT_MS: '500' } },
);
