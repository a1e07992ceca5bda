// Responses sent before the body has arrived reach clients that send first and read later (like Python's standard
// library), without a connection reset.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type Route, routesOf } from '../support/hostile/routes.ts';
import { type Instance, type Organization, startInstance } from '../support/instance.ts';
import { integrate, settingsFile } from '../support/partners.ts';

const types = [
  'application/json',
  'application/merge-patch+json',
  'text/csv',
  'application/x-ndjson',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/octet-stream',
];
const framings = ['length', 'chunked'] as const;
const codings = ['identity', 'gzip'] as const;
/** Bytes beyond a route's limit. */
const surplus = 1024 * 1024;
const chunk = Buffer.alloc(64 * 1024, 'a');

interface Upload {
  readonly line: string;
  readonly key: string;
  readonly type: string;
  readonly framing: (typeof framings)[number];
  readonly coding: (typeof codings)[number];
  readonly bytes: number;
  readonly connection?: 'close' | 'keep-alive';
}

/**
 * Sends a complete request before reading the response.
 * @returns the status
 * @throws if the connection is reset
 */
async function upload(
  base: string,
  { line, key, type, framing, coding, bytes, connection }: Upload,
): Promise<number> {
  const { hostname, port } = new URL(base);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true }).pause();
  const failed = new Promise<never>((_, reject) => socket.once('error', reject));
  failed.catch(() => {});
  const write = (data: string | Buffer) =>
    Promise.race([failed, new Promise<void>((resolve) => socket.write(data, () => resolve()))]);
  const head = [
    `${line} HTTP/1.1`,
    'Host: crm',
    `Authorization: Bearer ${key}`,
    `Content-Type: ${type}`,
    `Connection: ${connection ?? 'close'}`,
    ...(coding === 'gzip' ? ['Content-Encoding: gzip'] : []),
    framing === 'length' ? `Content-Length: ${bytes}` : 'Transfer-Encoding: chunked',
  ];
  try {
    await write(`${head.join('\r\n')}\r\n\r\n`);
    for (let sent = 0; sent < bytes; sent += chunk.length) {
      const next = chunk.subarray(0, Math.min(chunk.length, bytes - sent));
      await write(
        framing === 'length'
          ? next
          : Buffer.concat([Buffer.from(`${next.length.toString(16)}\r\n`), next, Buffer.from('\r\n')]),
      );
    }
    if (framing === 'chunked') await write('0\r\n\r\n');
    let text = '';
    socket.setEncoding('latin1').on('data', (data: string) => {
      text += data;
    });
    socket.resume();
    const complete = new Promise<void>((resolve) => {
      socket.once('end', resolve);
      if (connection === 'keep-alive') socket.on('data', () => /\r\n\r\n.*\}/s.test(text) && resolve());
    });
    await Promise.race([failed, complete]);
    const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(text) ?? assert.fail(`no response: ${text.slice(0, 100)}`);
    return Number(status);
  } finally {
    socket.destroy();
  }
}

describe('early responses', { concurrency: 1 }, () => {
  let instance: Instance;
  let acme: Organization;
  let channel: string;
  let routes: Route[];
  before(async () => {
    const { environment } = settingsFile({ partners: { inbound_leads: { secrets: ['${INBOUND}'] } } });
    const limit = { IMPORT_MAX_MB: '1' };
    const router = await routesOf(() =>
      startInstance('postgresql', {
        environment: { ...environment, ...limit, INBOUND: 'the secret of inbound leads' },
      }),
    );
    instance = router.built;
    routes = router.routes(instance.app);
    acme = await instance.organization('acme');
    channel = (await integrate(instance, acme, 'telegram')).path;
  });
  after(() => instance.close());

  test('reach clients that close the connection, on every route', async () => {
    const statuses: Record<number, number> = {};
    let turn = 0;
    const seen = new Set<string>();
    for (const { methods, url, bodyLimit } of routes) {
      for (const method of methods.filter((each) => !['GET', 'HEAD', 'OPTIONS', 'TRACE'].includes(each))) {
        const line = `${method} ${url.replaceAll(/:\w+(\([^)]*\))?/g, '1').replaceAll('*', 'x')}`;
        // All resources have the same routes.
        const kind = line.replace(/\/api\/v1\/(?!leads)[a-z_]+/, '/api/v1/*');
        if (seen.has(kind)) continue;
        seen.add(kind);
        const type = types[turn % types.length] ?? '';
        const coding = codings[turn % codings.length] ?? 'identity';
        const framing = framings[Math.floor(turn / 2) % framings.length] ?? 'length';
        turn++;
        const bytes = bodyLimit + surplus;
        const status = await upload(instance.url, {
          line,
          key: acme.key,
          type,
          framing,
          coding,
          bytes,
        }).catch((cause: Error) => assert.fail(`${line}, ${type}, ${framing}, ${coding}: ${cause.message}`));
        statuses[status] = (statuses[status] ?? 0) + 1;
      }
    }
    assert.ok((statuses[413] ?? 0) > 10, JSON.stringify(statuses));
  });

  for (const connection of ['close', 'keep-alive'] as const) {
    for (const coding of codings) {
      for (const framing of framings) {
        test(`return 413 for every content type: ${connection}, ${coding}, ${framing}`, async () => {
          for (const type of types) {
            const targets: readonly (readonly [line: string, bytes: number])[] = [
              ['POST /api/v1/leads', 2 * surplus],
              ['POST /auth/login', 2 * surplus],
              [`POST ${channel}`, 5 * surplus],
            ];
            for (const [line, bytes] of targets) {
              const request = { line, key: acme.key, type, framing, coding, bytes, connection };
              const status = await upload(instance.url, request);
              assert.ok([413, 401, 400].includes(status), `${line} ${type}: ${status}`);
              if (line !== `POST ${channel}`) assert.equal(status, 413, `${line} ${type}`);
            }
          }
          // Imports read their bodies themselves.
          const imports = { line: 'POST /api/v1/leads/import', key: acme.key, framing, coding, connection };
          for (const type of ['text/csv', 'application/x-ndjson', 'application/json']) {
            const status = await upload(instance.url, { ...imports, type, bytes: 4 * surplus });
            assert.ok(status === 413 || status === 400, `import ${type}: ${status}`);
          }
        });
      }
    }
  }

  test('return 413 for a small body that decompresses beyond the limit', async () => {
    const body = gzipSync(Buffer.alloc(4 * surplus, ' '));
    const response = await fetch(`${instance.url}/api/v1/leads`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${acme.key}`,
        'content-type': 'application/json',
        'content-encoding': 'gzip',
        connection: 'close',
      },
      body,
    });
    assert.equal(response.status, 413);
  });

  test('discard a bounded number of bytes, then close an endless request', async () => {
    const endless = {
      line: 'POST /api/v1/leads',
      key: acme.key,
      type: 'application/json',
      coding: 'identity',
    } as const;
    await assert.rejects(
      upload(instance.url, { ...endless, framing: 'chunked', bytes: 80 * surplus }),
      /EPIPE|ECONNRESET/,
    );
  });
});
