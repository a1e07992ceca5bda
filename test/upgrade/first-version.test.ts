// A database created by the first version with known migrations is upgraded without losing anything.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { drivers } from '../support/instance.ts';
import {
  contents,
  crmJson,
  type Service,
  type Storage,
  serve,
  unmigratedStorage,
} from '../support/process.ts';

/**
 * A pg_dump of the first version's data from PostgreSQL 15: two organizations with records, keys, a user, an
 * invitation, an integration and its delivery. Its keys and passwords are not used anywhere else.
 */
const dump = readFileSync(join(import.meta.dirname, 'fixtures/first-version.sql'), 'utf8');
const key = 'crm_4WYkbYHjZu_KQf5cFmM5WWf4WHV89Uj90aCouy4Zk3BLHF7yWkqLPt10XuuV';
const ada = { email: 'ada@acme.example', password: 'a password of the first version' };
const secrets = { AUTH_SECRETS: 'the-secrets-of-the-first-version-0123456789' };
/** The change log replaced the activity table row by row. */
const renamed: Readonly<Record<string, string>> = { crm_activity: 'crm_ledger' };

type Row = Readonly<Record<string, unknown>>;
const rowsOf = (texts: readonly string[] = []): Row[] => texts.map((text) => JSON.parse(text) as Row);

for (const driver of drivers) {
  describe(`the first version's database (${driver})`, () => {
    let storage: Storage;
    let service: Service;
    let old: Record<string, string[]>;
    let now: Record<string, string[]>;
    before(async () => {
      storage = await unmigratedStorage(driver);
      const database = await openDatabase(readConfig(storage.environment), []);
      await database.orm.em.getConnection().executeDump(dump);
      await database.close();
      old = await contents(storage.environment);
      const { applied } = await crmJson(['migrate'], storage.environment);
      assert.ok((applied as readonly unknown[]).length > 10);
      now = await contents(storage.environment);
      service = await serve({ ...storage.environment, ...secrets });
    });
    after(async () => {
      service.signal('SIGTERM');
      await service.ended;
      await storage.remove();
    });

    test('keeps every row and its values', () => {
      const problems: string[] = [];
      for (const [table, texts] of Object.entries(old)) {
        const found = rowsOf(now[renamed[table] ?? table]);
        for (const row of rowsOf(texts)) {
          const kept = found.some((each) =>
            Object.entries(row).every(([name, value]) => !(name in each) || each[name] === value),
          );
          if (!kept) problems.push(`${table}: ${JSON.stringify(row)}`);
        }
      }
      assert.deepEqual(problems, []);
      assert.ok(Object.values(old).flat().length > 50);
    });

    test('keeps its records, keys, users and integrations working', async () => {
      const get = async (path: string) => (await service.call(`GET /api/v1/${path}`, { key })).text;
      assert.match(
        await get('opportunities/1'),
        /"amount":12345678901234567890\.1000000000000000055.*"close_date":"2026-03-01T10:00:00\+05:30"/,
      );
      assert.match(
        await get('cases/1'),
        /"queue_id":9223372036854775807.*"account_name":"Analytical Engines"/,
      );
      assert.match(await get('contacts/1'), /"email":"Ada@Engines\.example"/);
      assert.match(await get('leads/1'), /"rating":"Cold"/);
      assert.match(await get('leads/2'), /not found/);
      assert.match(await get('leads/3'), /not found/, 'of the other organization');
      assert.match(await get('leads?rating=Cold'), /"last_name":"Babbage"/);
      const login = await service.call('POST /auth/login', { body: ada });
      assert.equal(login.status, 200, login.text);
      const [, endpoint = ''] = /'telegram', 'Bot', '([^']+)'/.exec(dump) ?? [];
      const delivery = await service.call(`POST /webhooks/channels/telegram/${endpoint}`, {
        body: { update_id: 7 },
        headers: { 'x-telegram-bot-api-secret-token': 'the-secret-of-the-bot' },
      });
      assert.equal(delivery.status, 200, delivery.text);
      const made = await service.call('POST /api/v1/leads', { key, body: { last_name: 'New' } });
      assert.deepEqual([made.status, made.json.id], [201, 5], 'IDs continue');
    });
  });
}
