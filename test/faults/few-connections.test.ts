// A database role with fewer connections than the pools are configured for: the pools share the available
// connections.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connected, makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import { type Service, serve } from '../support/process.ts';

describe('a role limited to 6 connections', () => {
  let server: Server;
  let service: Service;
  let key: string;
  before(async () => {
    server = await startPostgres();
    const { url } = await makeDatabase(server.url);
    const limited = new URL(url);
    await connected(server.url, async (client) => {
      await client.query(`create role limited login password 'limited' connection limit 6`);
      await client.query(`alter database "${limited.pathname.slice(1)}" owner to limited`);
    });
    limited.username = 'limited';
    limited.password = 'limited';
    await connected(url, (client) => client.query('grant all on schema public to limited'));
    service = await serve({ DATABASE_URL: limited.href, MIGRATE_ON_START: 'true', LOG_LEVEL: 'fatal' });
    key = String(service.printed.key);
  });
  after(async () => {
    await service?.kill();
    await server?.stop();
  });

  test('serves concurrent lists and writes without failures', async () => {
    const failures: string[] = [];
    const each = async (name: string, body?: object) => {
      let { status, text } = await service.call(name, { key, ...(body && { body }) });
      // On a slow machine some requests wait too long for a slot. Clients retry a 503.
      for (let retry = 0; status === 503 && retry < 10; retry++) {
        ({ status, text } = await service.call(name, { key, ...(body && { body }) }));
      }
      if (status >= 300) failures.push(`${name}: ${status} ${text}`);
    };
    for (let round = 0; round < 10; round++) {
      await Promise.all([
        ...Array.from({ length: 20 }, () => each('POST /api/v1/leads', { last_name: 'x' })),
        ...Array.from({ length: 20 }, () => each('GET /api/v1/leads?page=6')),
        ...Array.from({ length: 10 }, () => each('GET /api/v1/leads')),
      ]);
    }
    assert.deepEqual(failures, []);
  });
});
