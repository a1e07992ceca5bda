// Requests to a running node are not affected while its database is extended (PostgreSQL).
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { drivers } from '../support/instance.ts';
import { type OwnFiles, ownFiles } from '../support/own-files.ts';
import {
  apart,
  assertRefused,
  crm,
  crmJson,
  migratedStorage,
  rows,
  type Service,
  type Storage,
  serve,
  until,
} from '../support/process.ts';
import { patient } from '../support/promised.ts';

const suite = drivers.includes('postgresql') ? describe : describe.skip;

suite('a running node', { concurrency: 1 }, () => {
  let storage: Storage;
  let own: OwnFiles;
  let service: Service;
  let environment: Readonly<Record<string, string>>;
  before(async () => {
    own = ownFiles();
    storage = await migratedStorage('postgresql');
    environment = { ...patient, ...storage.environment, ...own.environment };
    service = await serve(environment);
  });
  after(async () => {
    await storage.remove();
    own.remove();
  });

  test('keeps working with the tables it knows while fields, indexes and a resource are added', async () => {
    const key = String(service.printed.key);
    const call = (request: string, body?: unknown) =>
      service.call(request.replace(' ', ' /api/v1/'), { key, body });
    const failures: string[] = [];
    let requests = 0;
    let isDone = false;
    const client = async () => {
      while (!isDone) {
        const made = await call('POST leads', { company: 'Busy', phone: '1' });
        const { id } = made.json;
        const answers = [
          made,
          await call(`GET leads/${id}`),
          await call(`PATCH leads/${id}`, { rating: 'Hot' }),
          await call('GET leads?rating=Hot&fields=id,rating'),
          await call('GET leads?q=busy&page=2'),
          await call('POST leads/batch', { records: [{ company: 'a' }, { company: 'b' }] }),
          await call(`DELETE leads/${id}`),
        ];
        requests += answers.length;
        failures.push(...answers.filter(({ status }) => status >= 300).map(({ text }) => text));
      }
    };
    const clients = [client(), client()];
    own.edit(
      'leads',
      '  timezone:',
      '  fax: { type: string, default: none }\n  visits: { type: int64 }\n  timezone:',
    );
    own.edit('leads', 'filters:\n', 'filters:\n  - fax\n  - { field: visits, operators: [gte] }\n');
    own.add(
      'projects',
      'common: all\nfields:\n  name: { type: string }\n  lead_id: { type: reference, to: leads, nullable: true }\n',
    );
    await crmJson(['migrate', '--create', 'more'], environment);
    assert.equal((await crm(['migrate'], environment)).code, 0);
    const before = requests;
    while (requests < before + 50 && failures.length === 0) await call('GET accounts');
    isDone = true;
    await Promise.all(clients);
    assert.deepEqual(failures, []);
    const restarted = await serve(environment);
    const made = await restarted.call('POST /api/v1/leads', { key, body: { company: 'New', visits: 1 } });
    assert.deepEqual([made.json.fax, made.json.visits], ['none', 1]);
    const nodes = async () => (await rows(environment, 'select name from crm_nodes')).length;
    assert.equal(await nodes(), 2);
    restarted.signal('SIGTERM');
    await restarted.ended;
    assert.equal(await nodes(), 1, 'migrations do not wait for a node that has stopped');
  });

  test('works next to a newer node during renames, type changes and removals, until old parts are removed', async () => {
    service.signal('SIGTERM');
    await service.ended;
    const key = String(service.printed.key);
    const old = await serve(environment);
    const sql = (text: string) => rows(environment, text);
    const failures: string[] = [];
    let isDone = false;
    let requests = 0;
    /** Uses a node as a client of its version would, until `isDone` is set. */
    const client = async ({ call }: Service, { lead, cases, path }: Bodies) => {
      const send = async (request: string, body?: unknown) => {
        const response = await call(request.replace(' ', ' /api/v1/'), { key, body });
        requests++;
        if (response.status >= 300) failures.push(`${request}: ${response.text}`);
        return response.json;
      };
      while (!isDone && failures.length === 0) {
        const { id, ...made } = await send('POST leads', lead);
        for (const [name, value] of Object.entries(lead)) {
          if (made[name] !== value) failures.push(`${name} is ${made[name]}, not ${value}`);
        }
        await send(`GET leads/${id}`);
        await send(`PATCH leads/${id}`, { ...lead, rating: 'Hot' });
        await send('GET leads?rating=Hot&q=busy&sort=created_at&direction=desc');
        await send('POST leads/batch', { records: [lead, lead] });
        await send(`DELETE leads/${id}`);
        const { id: other } = await send(`POST ${path}`, cases);
        await send(`PUT ${path}/${other}`, cases);
        await send(`GET ${path}/${other}/history`);
        await send(`GET ${path}?status=New`);
      }
    };
    const clients = [
      client(old, {
        lead: {
          company: 'Busy',
          timezone: 'UTC',
          instagram_handle: 'busy',
          lead_score: 7,
          linkedin_url: '42',
        },
        cases: { subject: 'Busy', queue_id: null },
        path: 'cases',
      }),
    ];
    const passes = async (more: number) => {
      const end = requests + more;
      await until(() => requests >= end || failures.length > 0, 'serve requests');
      assert.deepEqual(failures, []);
    };
    await passes(20);
    await sql(
      `insert into crm_profiles (organization_id, name) select min(id), 'Support' from crm_organizations`,
    );
    const grant = (action: string) =>
      sql(
        `insert into crm_grants (organization_id, profile_id, object, action) select organization_id, id, 'cases', '${action}' from crm_profiles where name = 'Support'`,
      );
    const grants = async () =>
      String(
        await sql(
          `select object, action from crm_grants where object in ('cases', 'tickets') order by object, action`,
        ),
      );
    await grant('read');
    own.edit('leads', '  timezone: { type: string,', '  zone: { type: string, renamed_from: timezone,');
    own.edit('leads', 'lead_score: { type: int64,', 'lead_score: { type: string,');
    own.edit('leads', '  measures: [lead_score]\n', '');
    own.edit('leads', 'linkedin_url: { type: string,', 'linkedin_url: { type: integer,');
    own.edit('leads', /^ {2}instagram_handle:.*\n/m, '');
    own.edit('leads', '  linkedin_url:', '  code: { type: date, required: true }\n  linkedin_url:');
    const notNull = own
      .text('cases')
      .replace('int64, nullable: true', 'int64')
      .replace('{ field: queue_id, operators: [in, is_null] }', '{ field: queue_id, operators: [in] }');
    own.add('tickets', `renamed_from: cases\n${notNull}`);
    own.drop('cases');
    own.drop('projects');
    const intent = [
      '--allow-drop',
      'leads.instagram_handle',
      'projects',
      '--default',
      'leads.code=2026-01-01',
      '--default',
      'leads.linkedin_url=0',
    ];
    const { statements } = await crmJson(['migrate', '--create', 'others', ...intent], environment);
    assert.match(String(statements), /rename column "timezone".*set not null/s);
    const migrated = await crm(['migrate'], environment);
    assert.equal(migrated.code, 0, migrated.stderr);
    await passes(40);
    const status = await crm(['migrate', '--status'], environment);
    assert.match(
      status.stdout,
      /^Migration\d+_others still has to drop objects that older nodes use: it is waiting for node \S+:\d+\/\w+ \(latest migration: Migration\d+_more, running since/,
    );
    assert.doesNotMatch(status.stdout, /differs from the migrations/);
    own.edit('leads', '  linkedin_url:', '  later: { type: string }\n  linkedin_url:');
    await crmJson(['migrate', '--create', 'later'], environment);
    assertRefused(
      await crm(['migrate'], environment),
      /_later has to wait: Migration\d+_others is waiting for node /,
    );
    for (const name of own.migrations().filter((each) => each.includes('_later'))) own.removeMigration(name);
    own.edit('leads', '  later: { type: string }\n', '');

    const next = await serve(environment);
    clients.push(
      client(next, {
        lead: { company: 'Busy', zone: 'UTC', code: '2026-02-02', lead_score: '8', linkedin_url: 43 },
        cases: { subject: 'Busy', queue_id: 7 },
        path: 'tickets',
      }),
    );
    await passes(80);
    assert.equal(
      (
        await sql(
          `select from pg_attribute where attname = 'instagram_handle' and attrelid = 'leads'::regclass`,
        )
      ).length,
      1,
    );
    // Grants apply under both names, regardless of the node that changes them.
    await grant('update');
    await sql(`delete from crm_grants where object = 'tickets' and action = 'read'`);
    assert.equal(await grants(), 'cases,update,tickets,update');
    // The same records, on every page.
    const { id } = (
      await old.call('POST /api/v1/leads', {
        key,
        body: { company: 'x', timezone: 'Asia/Tokyo', lead_score: 9, linkedin_url: '1' },
      })
    ).json;
    const shown = (await next.call(`GET /api/v1/leads/${id}`, { key })).json;
    assert.deepEqual(
      [shown.zone, shown.code, shown.lead_score, shown.linkedin_url],
      ['Asia/Tokyo', '2026-01-01', '9', 1],
    );
    await next.call(`PATCH /api/v1/leads/${id}`, { key, body: { lead_score: '10', linkedin_url: 2 } });
    const again = (await old.call(`GET /api/v1/leads/${id}`, { key })).json;
    assert.deepEqual([again.timezone, again.lead_score, again.linkedin_url], ['Asia/Tokyo', 10, '2']);
    isDone = true;
    await Promise.all(clients);
    assert.deepEqual(failures, []);
    old.signal('SIGTERM');
    await old.ended;
    isDone = false;
    const last = client(next, {
      lead: { zone: 'UTC', code: '2026-02-02' },
      cases: { subject: 'x', queue_id: 1 },
      path: 'tickets',
    });
    await until(async () => (await crm(['migrate', '--status'], environment)).code === 0, 'remove old parts');
    await passes(20);
    isDone = true;
    await last;
    assert.deepEqual(failures, []);
    assert.deepEqual(await sql(`select from pg_namespace where nspname like 'crm\\_views%'`), []);
    assert.equal(await grants(), 'tickets,update');
    next.signal('SIGTERM');
    await next.ended;
  });
});

suite('a node that hung for longer than others wait for it', () => {
  let storage: Storage;
  let own: OwnFiles;
  let environment: Readonly<Record<string, string>>;
  before(async () => {
    own = ownFiles();
    storage = await migratedStorage('postgresql');
    environment = { ...patient, ...storage.environment, ...own.environment };
  });
  after(async () => {
    await storage.remove();
    own.remove();
  });
  const nodes = async () => (await rows(environment, 'select name from crm_nodes')).flat();
  /** Migrates while a node is silent and considered dead, as after 15 s. */
  const migrateWithout = async (node: Service, name: string) => {
    await crmJson(['migrate', '--create', name], environment);
    node.signal('SIGSTOP');
    // Its last heartbeat can still be running.
    const beat = `select from pg_stat_activity where datname = current_database() and state = 'active' and query like 'update "crm_nodes"%'`;
    await until(async () => (await rows(environment, beat)).length === 0, 'finish the heartbeat');
    await rows(environment, `update crm_nodes set seen_at = now() - interval '16 seconds'`);
    const migrated = await crm(['migrate'], environment);
    assert.equal(migrated.code, 0, migrated.stderr);
    assert.deepEqual(await nodes(), []);
    node.signal('SIGCONT');
  };

  test('continues if the schema is compatible, exits if it is not, and does not start again with the old version', async () => {
    const node = await serve(environment);
    const key = String(node.printed.key);
    const [name] = await nodes();
    own.edit('leads', '  timezone:', '  fax: { type: string, default: none }\n  timezone:');
    await migrateWithout(node, 'more');
    await until(async () => (await nodes())[0] === name, 'say again that it runs');
    assert.equal((await node.call('POST /api/v1/leads', { key, body: { company: 'Back' } })).status, 201);

    const before = own.text('leads');
    own.edit('leads', '  timezone: { type: string,', '  zone: { type: string, renamed_from: timezone,');
    await migrateWithout(node, 'other');
    const { code, stderr } = await node.ended;
    const says =
      /^crm: the database is ahead of this code, which is not compatible with it: the column leads\.timezone is missing\. Start the version that includes Migration\d+_other$/m;
    assert.match(stderr, says);
    assert.equal(code, 1);

    own.add('leads', before);
    for (const each of own.migrations().filter((file) => file.includes('_other'))) own.removeMigration(each);
    const started = await crm(['serve'], { ...environment, PORT: '0' }, apart);
    assert.match(started.stderr, says);
    assert.equal(started.code, 1);
    assert.deepEqual(await nodes(), []);
  });
});

/** The requests of one version's client. */
interface Bodies {
  readonly lead: Readonly<Record<string, unknown>>;
  readonly cases: Readonly<Record<string, unknown>>;
  /** Path of the cases. */
  readonly path: string;
}
