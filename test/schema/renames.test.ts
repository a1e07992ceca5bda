// Declared renames keep everything: values, indexes, links, grants and the change log.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { drivers } from '../support/instance.ts';
import { type OwnFiles, ownFiles } from '../support/own-files.ts';
import {
  crm,
  crmJson,
  migratedStorage,
  rows,
  type Service,
  type Storage,
  serve,
} from '../support/process.ts';
import { patient } from '../support/promised.ts';

const alias = 'alias: true, deprecated: 2026-11-22, sunset: 2027-06-30';

for (const driver of drivers) {
  describe(`renames (${driver})`, () => {
    let storage: Storage;
    let own: OwnFiles;
    let environment: Readonly<Record<string, string>>;
    let key: string;
    let ids: { account: unknown; lead: unknown; case: unknown };

    /** Runs the service for a few requests. */
    const serving = async <T>(work: (service: Service) => Promise<T>): Promise<T> => {
      const service = await serve({ ...environment, MIGRATE_ON_START: 'true' });
      try {
        key ??= String(service.printed.key);
        return await work(service);
      } finally {
        service.signal('SIGTERM');
        assert.equal((await service.ended).code, 0);
      }
    };
    /**
     * Sends the same batch with the same key, under the first name.
     * @returns whether the batch had already been executed
     */
    const isRepeated = async (call: Service['call']) => {
      const { status, headers, text } = await call('POST /api/v1/cases/batch', {
        key,
        headers: { 'idempotency-key': 'once' },
        body: { records: [{ subject: 'Batched' }] },
      });
      assert.equal(status, 200, text);
      return headers.get('idempotency-replayed') === 'true';
    };
    const migrate = async (name: string, ...more: string[]) =>
      (await crmJson(['migrate', '--create', name, ...more], environment)).statements as string[];

    before(async () => {
      own = ownFiles();
      storage = await migratedStorage(driver);
      environment = { ...patient, ...storage.environment, ...own.environment };
      own.add(
        'projects',
        'common: all\nfields:\n  due: { type: timestamp, nullable: true }\n  code: { type: string, sequence: "P-{00}" }\nfilters: [due]\n',
      );
      await migrate('projects');
      ids = await serving(async ({ call }) => {
        const post = async (path: string, body: object) => {
          const made = await call(`POST /api/v1/${path}`, { key, body });
          assert.equal(made.status, 201, made.text);
          return made.json.id;
        };
        const account = await post('accounts', { name: 'Acme' });
        await post('projects', {});
        const project = await post('projects', {});
        assert.equal((await call(`DELETE /api/v1/projects/${project}`, { key })).status, 200);
        assert.equal(await isRepeated(call), false);
        return {
          account,
          lead: await post('leads', { company: 'Kept', phone: '+49 30 1', timezone: 'Europe/Berlin' }),
          case: await post('cases', { subject: 'Broken', account_id: account }),
        };
      });
    });
    after(async () => {
      await storage.remove();
      own.remove();
    });

    test('renames a field and a resource without moving data', async () => {
      own.edit(
        'leads',
        '  timezone: { type: string,',
        `  zone: { type: string, renamed_from: timezone, ${alias},`,
      );
      own.edit('projects', 'due: {', 'ends: { renamed_from: due,');
      own.edit('projects', 'filters: [due]', 'filters: [ends]');
      own.edit('projects', 'code: {', 'number: { renamed_from: code,');
      own.edit('cases', /account_id:\s+\{/, 'customer_id: { renamed_from: account_id,');
      own.edit('cases', 'through: account_id', 'through: customer_id');
      own.edit('cases', 'field: account_id', 'field: customer_id');
      own.edit('cases', 'priority, account_id', 'priority, customer_id');
      own.edit('cases', 'queue_id: { type: int64,', 'queue_id: { type: int64, group: routing,');
      own.add('tickets', `renamed_from: cases\n${alias.replaceAll(', ', '\n')}\n${own.text('cases')}`);
      own.drop('cases');
      const statements = await migrate('names');
      assert.deepEqual(
        statements.filter((each) => /create index|drop index|add "|drop column|type /.test(each)),
        [],
        'no column or index is created again',
      );
      for (const expected of [
        'alter table "cases" rename to "tickets";',
        'alter table "leads" rename column "timezone" to "zone";',
        'alter table "projects" rename column "due_offset" to "ends_offset";',
        'alter index "projects_due_index" rename to "projects_ends_index";',
        'alter table "tickets" rename constraint "cases_account_id_foreign" to "tickets_customer_id_foreign";',
        'alter table "tickets" rename constraint "cases_pkey" to "tickets_pkey";',
        `update "crm_grants" set "object" = 'tickets' where "object" = 'cases';`,
        `update "crm_grants" set "object" = 'tickets.routing' where "object" = 'cases.routing';`,
        `update "crm_ledger" set "object" = 'tickets' where "object" = 'cases';`,
        `update "crm_sequences" set "field" = 'projects.number' where "field" = 'projects.code';`,
      ]) {
        assert.ok(statements.includes(expected), `${expected} in\n${statements.join('\n')}`);
      }
      assert.deepEqual(await migrate('again'), []);
    });

    test('keeps values, links and counters, and serves both names while both are declared', async () => {
      await serving(async ({ call }) => {
        const read = async (path: string) => (await call(`GET /api/v1/${path}`, { key })).json;
        const lead = await read(`leads/${ids.lead}`);
        assert.deepEqual(
          [lead.zone, lead.timezone, lead.company],
          ['Europe/Berlin', 'Europe/Berlin', 'Kept'],
        );
        for (const path of ['tickets', 'cases']) {
          const ticket = await read(`${path}/${ids.case}`);
          assert.deepEqual(
            [ticket.subject, ticket.customer_id, ticket.account_name],
            ['Broken', ids.account, 'Acme'],
          );
        }
        const project = await call('POST /api/v1/projects', { key, body: {} });
        assert.equal(project.json.number, 'P-03', 'the sequence also knows deleted records');
        assert.equal(await isRepeated(call), true, 'a batch under the old name is not written again');
        assert.equal((await call(`DELETE /api/v1/accounts/${ids.account}`, { key })).status, 200);
        const unlinked = await read(`tickets/${ids.case}`);
        assert.equal(unlinked.customer_id, null, 'the trigger and the foreign key use the new name');
      });
      const audited = await rows(
        storage.environment,
        `select distinct object from crm_ledger where object in ('cases', 'tickets')`,
      );
      assert.deepEqual(audited, [['tickets']]);
      const named = await rows(
        storage.environment,
        `select c.relname::text from pg_class c join pg_index i on i.indexrelid = c.oid where c.relname ~ 'cases|projects_due|timezone'
         union all select conname::text from pg_constraint where conname ~ 'cases|projects_due|timezone' and contype <> 'n'
         union all select proname::text from pg_proc where proname ~ 'cases'`,
      );
      assert.deepEqual(named, []);
    });

    test('removes a retired field from the API, and restores it with its values', async () => {
      own.edit(
        'leads',
        `  zone: { type: string, renamed_from: timezone, ${alias},`,
        '  zone: { retired: true, type: string,',
      );
      assert.deepEqual(await migrate('retire'), [], 'the column is unchanged');
      await serving(async ({ call }) => {
        const { json } = await call(`GET /api/v1/leads/${ids.lead}`, { key });
        assert.ok(!('zone' in json) && !('timezone' in json));
        const made = await call('POST /api/v1/leads', { key, body: { company: 'Later', zone: 'UTC' } });
        assert.equal(made.status, 201, made.text);
        ids = { ...ids, account: made.json.id };
      });
      own.edit('leads', '  zone: { retired: true,', '  zone: {');
      await serving(async ({ call }) => {
        const zone = async (id: unknown) => (await call(`GET /api/v1/leads/${id}`, { key })).json.zone;
        assert.deepEqual([await zone(ids.lead), await zone(ids.account)], ['Europe/Berlin', '']);
      });
    });

    test('rejects an unknown previous name with its location', async () => {
      own.edit('leads', '  zone: {', '  zone_name: { renamed_from: zones,');
      const { code, stderr } = await crm(['migrate', '--create', 'x'], environment);
      assert.equal(code, 1);
      assert.match(stderr, /leads\.yaml:\d+:3 {2}renamed_from: no field in \S+ has been named "zones"/);
      own.edit('leads', '  zone_name: { renamed_from: zones,', '  zone: {');
    });

    test('a field with values can get a sequence, which continues after them', async () => {
      own.edit('accounts', /\n {2}name:/, '\n  note_1: { type: string }\n  name:');
      await migrate('notes');
      const ids = await serving(({ call }) =>
        Promise.all(
          ['X-07', 'X-3', 'other', '', 'X-3'].map(
            async (note) =>
              (await call('POST /api/v1/accounts', { key, body: { name: note, note_1: note } })).json.id,
          ),
        ),
      );
      own.edit('accounts', 'note_1: { type: string }', 'note_1: { type: string, sequence: "X-{00}" }');
      const { checks } = await crmJson(['plan'], environment);
      assert.partialDeepStrictEqual(checks, [
        { name: 'accounts.note_1', says: 'has a duplicate value', count: 2 },
      ]);
      await rows(storage.environment, `delete from accounts where id = ${ids[4]} returning id`);
      const statements = await migrate('numbered');
      assert.ok(
        statements.some((statement) => /create unique index .*"accounts_note_1_unique"/.test(statement)),
      );
      await serving(async ({ call }) => {
        const noteOf = async (id: unknown) => (await call(`GET /api/v1/accounts/${id}`, { key })).json.note_1;
        assert.deepEqual(await Promise.all(ids.slice(0, 4).map(noteOf)), ['X-07', 'X-3', 'other', '']);
        const created = await call('POST /api/v1/accounts', { key, body: { name: 'New' } });
        assert.equal(created.json.note_1, 'X-08');
      });
    });
  });
}
