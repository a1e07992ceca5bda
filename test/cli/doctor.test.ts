// `crm doctor` reports every planted fault in a real instance, and does not report anything in a healthy one.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { checksOf } from '../../app/commands/checks.ts';
import { readConfig } from '../../app/config.ts';
import { modules } from '../../app/modules.ts';
import { connectionsOf } from '../../engine/database/limits.ts';
import { lockFolder } from '../../engine/database/lock.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { feedDelay } from '../../plugins/change-log/check.ts';
import { addressChecks } from '../../plugins/operations/doctor/addresses.ts';
import { dataFolder, diskFindings, nodeFindings } from '../../plugins/operations/doctor/machine.ts';
import { serverChecks, versionFindings } from '../../plugins/operations/doctor/server.ts';
import { mailModule } from '../../plugins/operations/mail/index.ts';
import type { MailSettings } from '../../plugins/operations/mail/mail.ts';
import { readSettingsFile } from '../../webhooks/settings/load.ts';
import { mountDisk } from '../support/disk.ts';
import { drivers, temporaryFolder } from '../support/instance.ts';
import { startMailServer } from '../support/mail.ts';
import { settingsFile } from '../support/partners.ts';
import { noPooler, startPooler } from '../support/pooler.ts';
import { makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import {
  connected,
  crm,
  type Environment,
  migrated,
  migratedStorage,
  type Outcome,
  onDatabase,
  project,
  type Storage,
  until,
} from '../support/process.ts';

/** A finding in the output of `crm doctor --json`. */
interface ReportedFinding {
  readonly check: string;
  readonly place: string;
  readonly problem: string;
  readonly advice: string;
}

/** Output of `crm doctor --json`. */
interface Report {
  readonly ok: boolean;
  readonly wrong: readonly ReportedFinding[];
  readonly notes: readonly ReportedFinding[];
  readonly skipped: readonly { readonly check: string; readonly reason: string }[];
  readonly checks: number;
}

/** Formats findings as the text output does, without this test's folders. */
const linesOf = (findings: readonly ReportedFinding[]): string[] =>
  findings.map(
    ({ place, problem, advice }) =>
      `${place.replace(/^\S*config\.yaml/, 'config.yaml')}: ${problem}. ${advice}`,
  );

function reportOf({ code, stdout, stderr }: Pick<Outcome, 'code' | 'stdout' | 'stderr'>): Report {
  assert.equal(stderr, '');
  const report = JSON.parse(stdout) as Report;
  assert.equal(code, report.wrong.length === 0 ? 0 : 1);
  assert.equal(report.ok, report.wrong.length === 0);
  return report;
}
const doctor = async (environment: Environment): Promise<Report> =>
  reportOf(await crm(['doctor', '--json'], environment));

/** Settings of every instance in this file. */
const settings = `partners:
  booking_forms_whatsapp: { organization: acme }
messaging:
  acme: { sender: log }
`;
const mail = await startMailServer();
const well = (storage: Storage): Environment => ({
  ...storage.environment,
  ...settingsFile(settings).environment,
  AUTH_SECRETS: 'the-secret-that-signs-everything-0123456789',
  INBOUND_SECRET: 'the-secret-of-inbound',
  BOOKING_FORMS_WHATSAPP_TOKEN: 'the-token-of-booking',
  PUBLIC_URL: 'https://crm.example',
  TRUSTED_PROXIES: '1',
  MAIL_FROM: 'crm@acme.example',
  SMTP_URL: mail.url,
});
const organization = "insert into crm_organizations (slug, name) values ('acme', 'Acme')";

/** Faults in one instance's environment variables, config.yaml and rows. They must not hide each other. */
const broken = `partners:
  booking_forms_whatsapp: { organization: shop }
  payments:
    acme:
      organization: acme
      verify: { header: X-Key, secrets: ["\${ACME_KEY}"] }
      lead: { id: "{{id}}" }
    other:
      organization: acne
      verify: { header: X-Key, secrets: [a-secret-in-the-file] }
      lead: { id: "{{id}}" }
messaging:
  acme: { sender: whatsapp_cloud, phone_number_id: "1", access_token: "\${WHATSAPP_TOKEN}" }
login:
  providers:
    away: { name: Away, issuer: "http://127.0.0.1:2", client_id: crm, client_secret: a-secret-in-the-file }
    off: { name: Off, issuer: "http://127.0.0.1:1", client_id: "", client_secret: "" }
read_only: true
`;
const faultyEnvironment: Environment = {
  DATABSE_URL: 'x',
  ADMIN_PORT: '9',
  ADMIN_HOST: '0.0.0.0',
  PUBLIC_URL: 'http://crm.example.org',
  SMTP_URL: 'smtp://127.0.0.1:1',
};
const faultyRows = [
  "insert into crm_organizations (slug, name) values ('shop', 'Shop'), ('demo', 'Demo')",
  "insert into crm_users (email, password_hash, verified_at) values ('admin@demo.example', '', now())",
  "insert into crm_profiles (organization_id, name) select id, 'some' from crm_organizations where slug = 'acme'",
  `insert into crm_grants (organization_id, profile_id, object, action)
   select organization_id, id, object, action from crm_profiles, (values ('leads', 'read'), ('leads', 'update:owm')) v (object, action) where name = 'some'`,
  `insert into crm_api_keys (organization_id, public_id, secret_hash, last_four, name, profile_id, expires_at, last_used_at)
   select organization_id, 'x', 'x', 'abcd', 'Website', id, now() + interval '3 days', now() from crm_profiles where name = 'some'`,
  `insert into crm_integrations (organization_id, provider, name, endpoint, verify_token_hash, secret, token)
   select id, 'telegram', 'Bot', 'x', 'x', '', 'sealed with another' from crm_organizations where slug = 'acme'`,
  `insert into crm_inbox (organization_id, integration_id, event_id, payload, status, next_at)
   select organization_id, id, n::text, '', case when n < 3 then 'dead' else 'waiting' end, now() - interval '1 hour'
   from crm_integrations, generate_series(1, 3) n`,
  `insert into crm_event_subscriptions (organization_id, profile_id, url, actions, filter, secret, previous_secret, epoch, transaction, ledger_id, failures, failing_since, state)
   select organization_id, id, url, '', '', '', case state when 'on' then 'sealed with another' else '' end, '', '1', 0, 7, now() - interval '1 hour', state from crm_profiles,
     (values ('https://hooks.example/with-a-secret', 'on'), ('https://gone.example/', 'gone'), ('https://failed.example/', 'failed')) v (url, state) where name = 'some'`,
  `insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, action, status)
   select organization_id, id, 'x', '', 'test', 'dead' from crm_event_subscriptions where state = 'on'`,
  "insert into crm_integrations (organization_id, provider, name, endpoint, verify_token_hash, secret, token, enabled) select id, 'telegram', 'Old bot', 'y', 'x', '', '', false from crm_organizations where slug = 'shop'",
  // Due deliveries: two of an open subscription, the second of which waits for the first.
  `insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, object_id, version, action, next_at)
   select organization_id, id, n::text, 'leads', 1, n, 'update', now() - interval '1 hour'
   from crm_event_subscriptions, generate_series(1, 2) n where state = 'on'`,
  // Nothing else is overdue: disabled and paused owners keep their items, and other items are not late yet.
  `insert into crm_event_subscriptions (organization_id, profile_id, url, actions, filter, secret, epoch, transaction, ledger_id, state, paused_until, failing_since)
   select organization_id, id, 'https://' || state || '.example/', '', '', '', '', '1', 0, state, until, since from crm_profiles,
     (values ('on', now() + interval '1 day', null), ('off', '-infinity', now() - interval '1 hour')) v (state, until, since) where name = 'some'`,
  `insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, action, next_at)
   select organization_id, id, 'y', '', 'test', now() - interval '1 hour' from crm_event_subscriptions where state <> 'on' or paused_until > now()`,
  `insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, action, next_at)
   select organization_id, id, 'z', '', 'test', now() - interval '1 minute' from crm_event_subscriptions`,
  `insert into crm_inbox (organization_id, integration_id, event_id, payload, next_at)
   select organization_id, id, 'y', '', now() - case when enabled then interval '1 minute' else interval '1 hour' end from crm_integrations`,
  'create table planted as select n, repeat(n::text, 20) as text from generate_series(1, 20000) n',
  // The service does not use tables in other schemas.
  'create schema elsewhere',
  'create table elsewhere.others as select n, repeat(n::text, 20) as text from generate_series(1, 20000) n',
  'create index others_n on elsewhere.others (n)',
  "update pg_index set indisvalid = false where indexrelid = 'elsewhere.others_n'::regclass",
  "update pg_index set indisvalid = false where indexrelid = 'crm_api_keys_public_id'::regclass",
  "delete from crm_migrations where name like '%events%'",
  "insert into crm_migrations (name) values ('Migration20991231235959_of_tomorrow')",
];
const faultyServer = [
  "select pg_create_physical_replication_slot('forgotten', true)",
  'alter database this connection limit 20',
  'alter database this set synchronous_commit = off',
  'alter database this set default_transaction_read_only = on',
];
/** Tables that have changed since they were analyzed, by a number of rows: the first by enough for other plans. */
const changedTables: readonly (readonly [table: string, rows: number, added: number])[] = [
  ['changed', 2000, 2001],
  ['changed_less', 2000, 2000],
  ['changed_small', 100, 1000],
];

/** Planted faults, and the expected line for each: location, problem and advice. */
const planted: readonly (readonly [fault: string, says: RegExp, only?: 'postgresql'])[] = [
  ['a misspelled variable', /^DATABSE_URL: is not a known variable\. Did you mean DATABASE_URL\?/],
  [
    'an unset variable in config.yaml',
    /^config\.yaml:6:41: payments of acme is off \(501\): ACME_KEY is not set\. Set the variable/,
  ],
  [
    'an unset variable in another setting',
    /^config\.yaml:13:71: WHATSAPP_TOKEN is not set, so messaging\.acme\.access_token is incomplete\. Set the variable/,
  ],
  [
    'an unknown organization',
    /^config\.yaml:9:21: organization "acne" does not exist\. Did you mean "acme"\?/,
  ],
  [
    'an endpoint that cannot work',
    /^booking_forms_whatsapp of \S+: POST \/api\/booking-forms\/whatsapp cannot work: messaging has no sender for "shop"/,
  ],
  [
    'a secret in a file that others can read',
    /^config\.yaml:10:42: any user on this machine can read its secrets, for example partners\.payments\.other\.verify\.secrets\.0\. Restrict access: chmod o= /,
  ],
  ['a public URL without TLS', /^public_url: http:\/\/crm\.example\.org does not use TLS/],
  [
    'an unreachable mail server',
    /^mail: the mail server rejected the connection or the login \(connect ECONNREFUSED/,
  ],
  [
    'an unreachable OpenID Connect provider',
    /^login\.providers\.away: http:\/\/127\.0\.0\.1:2 cannot be reached \(ECONNREFUSED\)\. Correct its issuer/,
  ],
  [
    'a key in use that expires soon',
    /^organization acme: the API key \d+, Website \(…abcd\), expires .* and is in use\. Rotate it/,
  ],
  [
    'a grant on a scope that does not exist',
    /^organization acme, profile some: the grant leads:update:owm allows nothing: leads does not define scopes, but the grant names "owm"\. Define what it names, or remove the grant: crm profile revoke "some" leads:update:owm --org acme$/,
  ],
  [
    'a stored secret that cannot be decrypted',
    /^organization acme: the secrets of integration 1 cannot be decrypted with any of AUTH_SECRETS\. Add the previous secret/,
  ],
  [
    'a previous signing secret that cannot be decrypted',
    /^organization acme: the secrets of event subscription \d+ cannot be decrypted with any of AUTH_SECRETS\. .* "crm subscription rotate"/,
  ],
  [
    'dead inbox items',
    /^organization acme: 2 inbox items failed permanently\. See the reason with "crm inbox list --org acme --status dead"/,
  ],
  [
    'overdue inbox items',
    /^organization acme: one inbox item has been due for more than 10 minutes\. No server/,
  ],
  [
    'a dead delivery',
    /^organization acme: one event delivery failed permanently\. See the reason with "crm delivery list/,
  ],
  [
    'an overdue delivery',
    /^organization acme: one event delivery has been due for more than 10 minutes\. No server/,
  ],
  [
    'a failing receiver',
    /^organization acme: the receiver of event subscription \d+, https:\/\/hooks\.example, has failed 7 times since /,
  ],
  [
    'a receiver that responded with 410',
    /^organization acme: the receiver of event subscription \d+, https:\/\/gone\.example, responded with 410, so the subscription was disabled\..* "crm subscription on \d+ --org acme"\.$/,
  ],
  [
    'a receiver that failed for days',
    /^organization acme: the receiver of event subscription \d+, https:\/\/failed\.example, failed for days, so the subscription was disabled\..* "crm subscription on \d+ --org acme"\.$/,
  ],
  ['a table that was never analyzed', /^table planted: it was never analyzed, .*Run: analyze "planted"/],
  [
    'a table that has changed since it was analyzed',
    /^table changed: most of it has changed since it was analyzed, .*Run: analyze "changed"/,
    'postgresql',
  ],
  ['an invalid index', /^index crm_api_keys_public_id: it is invalid/],
  ['a pending migration', /^migrations: Migration\d+_events is pending\. Run "crm migrate"/],
  [
    'a database ahead of the code',
    /^migrations: the database is ahead of this code: it has Migration20991231235959_of_tomorrow/,
  ],
  [
    'a primary configured as a replica',
    /^replica \S+: it is not a replica, so its reads go to the primary/,
    'postgresql',
  ],
  [
    'workers with too few connections',
    /^DATABASE_POOL: 8 connections are too few for 4 workers\. Set it to at least 12/,
    'postgresql',
  ],
  [
    'a connection limit',
    /^connection limit of the database: it allows 20 connections, but each node uses up to 32\b/,
    'postgresql',
  ],
  ['a forgotten replication slot', /^replication slot forgotten: it has no consumer/, 'postgresql'],
  ['commits that do not wait for the disk', /^synchronous_commit: it is off: a server crash/, 'postgresql'],
  [
    'a read-only database',
    /^DATABASE_URL: the database rejects writes: .*read-only.*\. It is a standby or read-only\./,
    'postgresql',
  ],
];
const plantedNotes: readonly (readonly [fault: string, says: RegExp])[] = [
  ['an unrestricted admin port', /^ADMIN_HOST: ADMIN_PORT 9 listens on 0\.0\.0\.0 without authentication/],
  [
    'a disabled integration',
    /^organization shop: integration \d+, "Old bot" \(telegram\), is disabled, so its URL responds with 404/,
  ],
  [
    'maintenance mode left enabled',
    /^read_only of \S+: every write is rejected with 503, and background work is paused/,
  ],
  ['a disabled OpenID Connect provider', /^login\.providers\.off: the provider is disabled because its name/],
  [
    'the demo organization',
    /^organization demo: the demo organization exists, and admin@demo\.example can log in\. If the instance contains real records, run: crm user disable admin@demo\.example$/,
  ],
];

test('at least twenty faults are planted', () => assert.ok(planted.length >= 20));

let server: Server;
before(async () => {
  // Autovacuum is enabled, but does not start during the tests: it would analyze tables and open transactions.
  if (drivers.includes('postgresql'))
    server = await startPostgres({
      ...{ fsync: 'on', autovacuum_naptime: '1d', max_prepared_transactions: '1' },
    });
});
after(() => server?.stop());

/**
 * Creates a migrated database on this file's own server, because doctor would find other tests' transactions
 * and slots.
 */
async function storageOf(driver: (typeof drivers)[number]): Promise<Storage> {
  if (driver === 'embedded') return migratedStorage(driver);
  const [database, folder] = [await makeDatabase(server.url, migrated), temporaryFolder()];
  return {
    driver,
    folder: join(folder.path, 'data'),
    environment: { DATABASE_URL: database.url, DATA_DIR: join(folder.path, 'data') },
    remove: async () => {
      await database.drop();
      folder.remove();
    },
  };
}

for (const driver of drivers) {
  describe(`doctor (${driver})`, () => {
    let storage: Storage;
    let environment: Environment;
    let report: Report;
    before(async () => {
      storage = await storageOf(driver);
      environment = well(storage);
      await onDatabase(environment, (query) => query(organization));
    });
    after(async () => {
      if (driver === 'postgresql')
        await connected(server.url, (client) => client.query("select pg_drop_replication_slot('forgotten')"));
      await storage.remove();
    });

    test('reports no findings, notes or skipped checks for a healthy instance', async () => {
      const report = await doctor(environment);
      assert.deepEqual([...linesOf(report.wrong), ...linesOf(report.notes), ...report.skipped], []);
      // Four parts are not in the list of checks: environment, config.yaml, definitions and database.
      assert.equal(report.checks, checksOf({ modules }).length + 4);
    });

    test('prints the same findings as text', async () => {
      const { code, stdout } = await crm(['doctor'], { ...environment, INBOUND_SECRET: '' });
      assert.equal(code, 0);
      assert.match(
        stdout,
        /^note {5}\S+config\.yaml:2:3: inbound_leads is off \(501\): INBOUND_SECRET is not set\n {9}Set the variable.*\nNo problems found: \d+ checks, 1 note, 0 skipped\.\n$/,
      );
    });

    describe('finds', () => {
      before(async () => {
        const more =
          driver === 'embedded'
            ? {}
            : { WORKERS: '4', DATABASE_POOL: '8', DATABASE_REPLICA_URLS: String(environment.DATABASE_URL) };
        if (driver === 'postgresql')
          await connected(String(environment.DATABASE_URL), async (client) => {
            for (const [table, rows, added] of changedTables) {
              const values = (count: number) => `select n from generate_series(1, ${count}) n`;
              await client.query(`create table ${table} as ${values(rows)}`);
              // Otherwise, the statistics count these rows only after the analysis.
              await client.query('select pg_stat_force_next_flush()');
              await client.query(`analyze ${table}`);
              await client.query(`insert into ${table} ${values(added)}`);
              await client.query('select pg_stat_force_next_flush()');
            }
          });
        await onDatabase(environment, async (query) => {
          for (const text of faultyRows) await query(text);
          if (driver === 'embedded') return;
          const name = new URL(String(environment.DATABASE_URL)).pathname.slice(1);
          for (const text of faultyServer) await query(text.replace('database this', `database ${name}`));
        });
        const file = settingsFile(broken);
        report = await doctor({ ...environment, ...faultyEnvironment, ...more, ...file.environment });
      });
      for (const [fault, says, only] of planted) {
        if (only !== undefined && only !== driver) continue;
        test(fault, () => {
          const lines = linesOf(report.wrong);
          assert.equal(lines.filter((line) => says.test(line)).length, 1, lines.join('\n'));
        });
      }
      for (const [fault, says] of plantedNotes) {
        test(`${fault}, as a note`, () => {
          const lines = linesOf(report.notes);
          assert.equal(lines.filter((line) => says.test(line)).length, 1, lines.join('\n'));
        });
      }
      test('nothing else, prints no secrets, and gives advice for each finding', () => {
        const all = [...report.wrong, ...report.notes];
        const expected = planted.filter(([, , only]) => only === undefined || only === driver);
        const others = linesOf(all).filter(
          (line) => ![...expected, ...plantedNotes].some(([, says]) => says.test(line)),
        );
        // Planted faults also cause findings about tables and indexes that differ from the applied migrations.
        assert.deepEqual(
          others.filter((line) => !/^migrations: /.test(line)),
          [],
        );
        assert.doesNotMatch(JSON.stringify(report), /a-secret-in-the-file|with-a-secret|the-secret-/);
        for (const { advice } of all) assert.match(advice, /\w{3}/);
      });
    });
  });
}

describe('doctor with a PostgreSQL server', { skip: !drivers.includes('postgresql') }, () => {
  let storage: Storage;
  let environment: Environment;
  before(async () => {
    storage = await storageOf('postgresql');
    environment = well(storage);
    await onDatabase(environment, (query) => query(organization));
  });
  after(() => storage.remove());

  test('reports a pooler and the settings that its role needs', { skip: noPooler }, async () => {
    const pooler = await startPooler(String(environment.DATABASE_URL));
    try {
      const { wrong } = await doctor({ ...environment, DATABASE_URL: pooler.url });
      const [line = '', ...more] = linesOf(wrong);
      assert.match(
        line,
        /^pooler: it shares connections .*role: alter role "postgres" set lock_timeout = '2000ms'; alter role "postgres" set idle_in_transaction_session_timeout = '10s'; alter role "postgres" set max_parallel_workers_per_gather = 0;/,
      );
      assert.deepEqual(more, []);
    } finally {
      await pooler.stop();
    }
  });

  test('reports a database with another encoding and without tables', async () => {
    const name = 'not_utf8';
    await connected(server.url, (client) =>
      client.query(`create database ${name} encoding 'LATIN1' locale 'C' template template0`),
    );
    const url = new URL(String(environment.DATABASE_URL));
    url.pathname = `/${name}`;
    const { wrong, skipped } = await doctor({ ...environment, DATABASE_URL: url.href });
    const lines = linesOf(wrong);
    assert.ok(
      lines.some((line) =>
        /^database not_utf8: its encoding is LATIN1, which cannot store every character/.test(line),
      ),
      lines.join('\n'),
    );
    assert.ok(lines.some((line) => /_initial is pending/.test(line)));
    assert.ok(skipped.some(({ reason }) => reason === 'the database has pending migrations'));
  });

  for (const [fault, change, says] of [
    [
      'a database that does not exist',
      { pathname: '/nope' },
      'does not exist: create it, or correct DATABASE_URL',
    ],
    ['a wrong password', { password: 'wrong' }, 'rejects the login: correct DATABASE_URL'],
  ] as const) {
    test(fault, async () => {
      const url = new URL(String(environment.DATABASE_URL));
      Object.assign(url, change);
      const { wrong } = await doctor({ ...environment, DATABASE_URL: url.href });
      assert.deepEqual(
        wrong.map(({ check, problem }) => [check, problem.includes(says)]),
        [['database', true]],
      );
    });
  }

  /** Returns the findings about connections. */
  const connectionFindings = async (
    config: ReturnType<typeof readConfig>,
    database: Awaited<ReturnType<typeof openDatabase>>,
  ) => {
    const check = serverChecks.find(({ name }) => name === 'connections') ?? assert.fail();
    return (await check.run({ config, database })).map(({ location, message }) => `${location}: ${message}`);
  };

  test('reports nodes that need connections that the server keeps for superusers', async () => {
    const database = await openDatabase(readConfig(environment), []);
    try {
      const [[most, reserved] = []] = await database.run({
        ...{ name: '', values: [] },
        text: `select current_setting('max_connections'), current_setting('superuser_reserved_connections')`,
      });
      const available = Number(most) - Number(reserved);
      // The pools have as many connections as DATABASE_POOL; each process uses a few more.
      const extra = connectionsOf({ pool: 10, workers: 1 }) - 10;
      const configOf = (count: number) =>
        readConfig({ ...environment, DATABASE_POOL: String(count - extra) });
      assert.equal(connectionsOf(configOf(available)), available);
      assert.deepEqual(await connectionFindings(configOf(available), database), []);
      assert.deepEqual(await connectionFindings(configOf(available + 1), database), [
        `max_connections: it allows ${available} connections, but each node uses up to ${available + 1}`,
      ]);
    } finally {
      await database.close();
    }
  });

  test('does not report a role that cannot create temporary tables', async () => {
    const url = new URL(String(environment.DATABASE_URL));
    const name = url.pathname.slice(1);
    await connected(server.url, async (client) => {
      await client.query(`create role without_tables login password 'without'`);
      await client.query(`revoke temporary on database ${name} from public`);
    });
    Object.assign(url, { username: 'without_tables', password: 'without' });
    const config = readConfig({ ...environment, DATABASE_URL: url.href });
    const database = await openDatabase(config, []);
    try {
      const check = serverChecks.find((each) => each.name === 'writing') ?? assert.fail();
      assert.deepEqual(await check.run({ config, database }), []);
    } finally {
      await database.close();
    }
  });

  test('reports a role that has reached its connection limit, at startup and later', async () => {
    const url = new URL(String(environment.DATABASE_URL));
    await connected(server.url, (client) =>
      client.query(`create role full_role login password 'full' connection limit 1`),
    );
    Object.assign(url, { username: 'full_role', password: 'full' });
    const full = { ...environment, DATABASE_URL: url.href };
    // The check waits this long for a free connection. A busy machine can take as long to connect.
    const config = readConfig({ ...full, DATABASE_CONNECT_TIMEOUT_MS: '1000' });
    const database = await openDatabase(config, []);
    try {
      assert.deepEqual(await connectionFindings(config, database), [
        `connection limit of the role: it allows 1 connections, but each node uses up to ${connectionsOf(config)}`,
      ]);
      await connected(server.url, (client) =>
        client.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'full_role'`),
      );
      const holding = () =>
        connected(url.href, async () => {
          const findings = await serverChecks
            .find(({ name }) => name === 'writing')
            ?.run({ config, database } as Parameters<(typeof serverChecks)[number]['run']>[0]);
          assert.deepEqual(findings, [
            {
              location: 'DATABASE_URL',
              message:
                'the connection limit of the server, the database or the role has been reached (SQLSTATE 53300)',
              advice:
                'Raise max_connections or the connection limit, lower DATABASE_POOL or WORKERS, disconnect other clients, or use PgBouncer.',
            },
          ]);
          const { wrong, skipped } = await doctor(full);
          assert.deepEqual(linesOf(wrong), [
            `database: the database at ${url.host}${url.pathname} has no connections left for this login: raise max_connections or the connection limit of the role or database, lower DATABASE_POOL or WORKERS, or disconnect other clients (too many connections for role "full_role"). Then run "crm doctor" again.`,
          ]);
          assert.ok(skipped.every(({ reason }) => reason === 'the database cannot be used'));
          return true;
        });
      // The terminated connection might still count towards the limit.
      const isFull = (cause: { code?: string }) => {
        if (cause.code !== '53300') throw cause;
        return false;
      };
      await until(() => holding().catch(isFull), 'hold the only connection');
    } finally {
      await database.close();
    }
  });

  test('reports a wrong database clock, risky settings and indexes of another collation version', async () => {
    // Functions with the same names, first in the search path, simulate another clock and another server.
    const simulate = (name: string, type: string, value: string) =>
      `create or replace function other.${name} returns ${type} language sql as $$ select ${value} $$`;
    await onDatabase(environment, async (query) => {
      await query('create schema other');
      await query(simulate('clock_timestamp()', 'timestamptz', "now() + interval '1 hour'"));
      const off = "('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum')";
      const setting = `case when $1 in ${off} then 'off' else pg_catalog.current_setting($1) end`;
      await query(simulate('current_setting(text)', 'text', setting));
      await query(simulate('pg_database_collation_actual_version(oid)', 'text', "'2.0'"));
      await query("update pg_database set datcollversion = '1.0' where datname = current_database()");
    });
    const url = `${environment.DATABASE_URL}?options=-c%20search_path%3Dother,pg_catalog,public`;
    const config = readConfig({ DATABASE_URL: url });
    const database = await openDatabase(config, []);
    const findings = async (check: string) =>
      (await serverChecks.find(({ name }) => name === check)?.run({ config, database })) ?? [];
    const lines = async (check: string) =>
      (await findings(check)).map(({ location, message }) => `${location}: ${message}`);
    try {
      const ahead = await lines('time');
      await onDatabase(environment, (query) =>
        query(simulate('clock_timestamp()', 'timestamptz', "now() - interval '1 hour'")),
      );
      const all = [
        ...[...ahead, ...(await lines('time')), ...(await lines('server settings'))],
        ...(await lines('encoding and collation')),
      ];
      const name = new URL(String(environment.DATABASE_URL)).pathname.slice(1);
      assert.deepEqual(
        all.map((line) => line.replace(/ 3\d{3}\.\d s /, ' an hour ')),
        [
          'database clock: the database clock is an hour ahead of this machine’s clock',
          'database clock: the database clock is an hour behind this machine’s clock',
          'fsync: it is off: a power failure can destroy the database',
          'full_page_writes: it is off: a power failure can corrupt database pages',
          'synchronous_commit: it is off: a server crash can lose recently acknowledged writes',
          'autovacuum: it is off: dead rows are never removed, so tables grow',
          `database ${name}: its indexes were built with collation version 1.0, but the system has 2.0, so indexes can miss rows`,
        ],
      );
    } finally {
      await database.close();
      await onDatabase(environment, (query) =>
        query('update pg_database set datcollversion = null where datname = current_database()'),
      );
    }
  });

  test('reports a transaction that delays the change feed', async () => {
    const config = readConfig(environment);
    const database = await openDatabase(config, []);
    try {
      const url = String(environment.DATABASE_URL);
      await connected(url, (reader) =>
        connected(url, async (client) => {
          // A transaction without writes does not delay the feed.
          await reader.query('begin; select 1');
          await client.query('begin; select pg_current_xact_id()');
          assert.deepEqual(await feedDelay(database, 60_000), []);
          const [finding, ...more] = await feedDelay(database, 0);
          assert.match(String(finding?.location), /^process \d+ on the database server$/);
          assert.match(String(finding?.advice), /select pg_terminate_backend\(\d+\)/);
          assert.deepEqual(more, []);
          await client.query(`prepare transaction 'forgotten'`);
          assert.deepEqual(
            (await feedDelay(database, 0)).map(({ location, advice }) => `${location}: ${advice}`),
            [
              "prepared transaction forgotten: End it with: rollback prepared 'forgotten'; or commit prepared 'forgotten';",
            ],
          );
          await client.query(`rollback prepared 'forgotten'`);
        }),
      );
    } finally {
      await database.close();
    }
  });
});

describe('doctor with unusable resources', () => {
  const folder = temporaryFolder();
  after(folder.remove);

  test('reports an unreachable database, a low file limit, a nearly full disk and an accessible folder', async (t) => {
    const disk = mountDisk(8);
    const data = join(disk?.path ?? folder.path, 'data');
    mkdirSync(data);
    chmodSync(data, 0o755);
    writeFileSync(join(data, 'auth-secret'), 'short', { mode: 0o640 });
    try {
      const environment = {
        PATH: String(process.env.PATH),
        DATABASE_URL: 'postgres://user:the-password@127.0.0.1:1/crm',
        DATA_DIR: data,
      };
      const { stdout, stderr, code } = await new Promise<{ stdout: string; stderr: string; code: number }>(
        (resolve) => {
          const command = `ulimit -n 400 && exec "${process.execPath}" app/main.ts doctor --json`;
          execFile('sh', ['-c', command], { cwd: project, env: environment }, (error, out, err) =>
            resolve({ stdout: out, stderr: err, code: Number(error?.code ?? 0) }),
          );
        },
      );
      const report = reportOf({ stdout, stderr, code });
      const lines = linesOf(report.wrong);
      const expected = [
        /^ulimit -n: a process can open 400 files, but MAX_CONNECTIONS requires 5166\. Raise the limit .* MAX_CONNECTIONS to 234\.$/,
        ...(disk === undefined ? [] : [/^\S+\/data: the disk is nearly full: \d+ MiB of 8 MiB are free\./]),
        /^\S+\/data: other users on this machine can access it \(mode 0755\)\. Restrict access: chmod go= /,
        /^\S+\/data\/auth-secret: other users on this machine can access it \(mode 0640\)/,
        /^database: the database at 127\.0\.0\.1:1\/crm does not respond: connect ECONNREFUSED/,
      ];
      assert.equal(lines.length, expected.length, lines.join('\n'));
      for (const says of expected)
        assert.ok(
          lines.some((line) => says.test(line)),
          `${says}\n${lines.join('\n')}`,
        );
      assert.ok(
        report.skipped.some(
          ({ check, reason }) => check === 'indexes' && reason === 'the database cannot be used',
        ),
      );
      assert.doesNotMatch(stdout, /the-password/);
      if (disk === undefined) t.diagnostic('not permitted: to mount a disk of its own');
    } finally {
      disk?.remove();
    }
  });

  test('does not wait for a server that does not respond', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    try {
      const { wrong } = await doctor({
        DATABASE_URL: `postgres://user:secret@127.0.0.1:${port}/crm?sslmode=disable`,
        DATABASE_CONNECT_TIMEOUT_MS: '200',
      });
      assert.match(
        linesOf(wrong).join(),
        /^database: the database at \S+ does not respond: timeout exceeded/,
      );
    } finally {
      silent.close();
    }
  });

  test('reports errors in config.yaml and definitions with their locations, and runs the remaining checks', async () => {
    const resources = join(folder.path, 'resources');
    mkdirSync(resources);
    writeFileSync(join(resources, 'things.yaml'), 'singular: thing\nfields:\n  name: { type: strng }\n');
    const file = settingsFile('partners:\n  inbound_leads: { secrets: ["${INBOUND_SECRET"] }\n');
    const { wrong, skipped, notes } = await doctor({
      DATA_DIR: join(folder.path, 'nothing-yet'),
      RESOURCES_DIR: resources,
      ...file.environment,
    });
    const lines = linesOf(wrong);
    assert.ok(
      lines.some((line) => /^config\.yaml:2:30: "\$\{" has no closing "\}"\. Correct the line/.test(line)),
      lines.join('\n'),
    );
    assert.ok(
      lines.some((line) => /things\.yaml:3:17: unknown type "strng"\. Did you mean "string"\?/.test(line)),
      lines.join('\n'),
    );
    assert.deepEqual(notes, []);
    assert.ok(
      skipped.some(({ check, reason }) => check === 'mail' && reason === 'config.yaml cannot be used'),
    );
    assert.ok(
      skipped.some(
        ({ check, reason }) =>
          check === 'writing' &&
          /nothing-yet does not contain a database yet; the first start creates it$/.test(reason),
      ),
    );
  });

  test('reports all invalid variables together', async () => {
    const { wrong, skipped } = await doctor({ PORT: 'abc', DATABASE_URL: 'mysql://x' });
    assert.deepEqual(
      wrong.map(({ place, problem }) => `${place}: ${problem}`),
      [
        'environment: PORT must be an integer from 0 to 65535',
        'environment: DATABASE_URL must be a PostgreSQL URL, such as postgres://user:password@host:5432/name',
      ],
    );
    assert.ok(skipped.every(({ reason }) => reason === 'the environment cannot be used'));
    const { code, stdout } = await crm(['doctor'], { PORT: 'abc', DATABASE_URL: 'mysql://x' });
    const names = skipped.map(({ check }) => check).join(', ');
    assert.equal(code, 1);
    assert.match(
      stdout,
      /^wrong {4}environment: PORT must be .*\n {9}See .*\nwrong {4}environment: DATABASE_URL /,
    );
    assert.ok(
      stdout.endsWith(
        `skipped  ${names}\n         the environment cannot be used\n2 problems: 2 checks, 0 notes, ${skipped.length} skipped.\n`,
      ),
      stdout,
    );
  });

  test('uses the running server, skips a locked folder, and reports a missing secret', {
    skip: !drivers.includes('embedded'),
  }, async () => {
    const { environment, folder: data, remove } = await migratedStorage('embedded');
    try {
      const release = lockFolder(data);
      const { wrong, skipped } = await doctor({ ...environment, DATABASE_CONNECT_TIMEOUT_MS: '200' });
      release();
      // A copied folder has default file modes.
      assert.ok(wrong.every(({ check }) => check === 'data folder'));
      const reason = `another process is using ${data} but does not respond to requests. Stop it first.`;
      assert.ok(
        skipped.some((entry) => entry.check === 'writing' && entry.reason === reason),
        JSON.stringify(skipped),
      );
      // Open the database as `serve` does.
      const served = await openDatabase({ ...readConfig(environment), serves: true }, []);
      try {
        const text = "insert into crm_users (email, password_hash) values ('a@b.example', '')";
        await served.run({ name: '', text, values: [] });
        const report = await doctor(environment);
        const [line = '', ...more] = linesOf(report.wrong);
        assert.match(
          line,
          /\/auth-secret: the instance’s secret is missing\. .* Set AUTH_SECRETS to the previous secret/,
        );
        assert.deepEqual(more, []);
        assert.ok(
          report.skipped.every(({ reason: why }) => why === 'the instance does not have a secret yet'),
        );
      } finally {
        await served.close();
      }
      if (process.getuid?.() !== 0) return;
      chownSync(join(data, 'pgdata/PG_VERSION'), 65_534, 65_534);
      const foreign = await doctor(environment);
      const owner = `${data} belongs to another user. Run the command as that user.`;
      assert.ok(
        foreign.skipped.some((entry) => entry.check === 'writing' && entry.reason === owner),
        JSON.stringify(foreign.skipped),
      );
    } finally {
      await remove();
    }
  });
});

describe('checks without a database', () => {
  const find = async (name: string, environment: Environment, public_url = '') => {
    const config = readConfig(environment);
    const check = addressChecks.find((candidate) => candidate.name === name);
    const findings = (await check?.run({ config, settings: { public_url } })) ?? [];
    return findings.map(({ location, message, advice }) => `${location}: ${message}. ${advice}`);
  };
  const encryption = 'database connection encryption';

  for (const [address, says] of [
    ['localhost/crm', undefined],
    ['postgres/crm', undefined],
    ['10.1.2.3/crm', undefined],
    ['[fd00::1]/crm', undefined],
    ['[::ffff:10.1.2.3]/crm', undefined],
    ['169.254.1.2/crm', undefined],
    ['100.64.1.2/crm', undefined],
    ['db.internal/crm', undefined],
    ['db.internal.example.org/crm', /can be unencrypted/],
    ['[2001:db8::1]/crm', /can be unencrypted/],
    [
      'db.example.org/crm?sslmode=disable',
      /is unencrypted and leaves the private network\. Add sslmode=verify-full/,
    ],
    ['db.example.org/crm', /can be unencrypted/],
    ['198.51.100.7/crm', /can be unencrypted/],
    ['db.example.org/crm?sslmode=require', /is encrypted, but the server certificate is not verified/],
    ['db.example.org/crm?sslmode=verify-full&sslrootcert=system', undefined],
  ] as const) {
    test(`TLS: ${address}`, async () => {
      const [line, ...more] = await find(encryption, { DATABASE_URL: `postgres://user:secret@${address}` });
      if (says === undefined) assert.equal(line, undefined);
      else assert.match(String(line), says);
      assert.deepEqual(more, []);
    });
  }

  test('an unencrypted replica', async () => {
    const [line, ...more] = await find(encryption, {
      DATABASE_URL: 'postgres://localhost/crm',
      DATABASE_REPLICA_URLS: 'postgres://127.0.0.1/crm,postgres://db.example.org/crm?sslmode=disable',
    });
    assert.match(
      String(line),
      /^DATABASE_REPLICA_URLS: the connection to db\.example\.org:5432 is unencrypted/,
    );
    assert.deepEqual(more, []);
  });

  test('every host of a URL with several', async () => {
    const url = 'postgres://user:secret@localhost,db.example.org,other.example.org/crm?sslmode=disable';
    const lines = await find(encryption, { DATABASE_URL: url });
    assert.deepEqual(
      lines.map((line) => /the connection to (\S+)/.exec(line)?.[1]),
      ['db.example.org:5432', 'other.example.org:5432'],
    );
  });

  test('no public URL', async () => {
    assert.match(String(await find('public URL', {})), /^public_url: it is not set, so invitations/);
  });

  test('the data folder', async () => {
    const folder = temporaryFolder();
    const path = join(folder.path, 'data');
    const found = async () => {
      const config = readConfig({ DATA_DIR: path });
      return (await dataFolder.run({ config })).map(({ location, message }) => `${location}: ${message}`);
    };
    assert.deepEqual(await found(), [], 'the first start creates it');
    writeFileSync(path, '', { mode: 0o600 });
    assert.deepEqual(await found(), [`${path}: the data folder cannot be used: it is not a folder`]);
    folder.remove();
    mkdirSync(join(path, 'pgdata'), { recursive: true, mode: 0o700 });
    assert.deepEqual(await found(), []);
    chmodSync(join(path, 'pgdata'), 0o701);
    assert.deepEqual(await found(), [
      `${join(path, 'pgdata')}: other users on this machine can access it (mode 0701)`,
    ]);
    chmodSync(join(path, 'pgdata'), 0o700);
    if (process.getuid?.() === 0) {
      chownSync(path, 65_534, 65_534);
      assert.deepEqual(await found(), [`${path}: it belongs to user 65534, and this command runs as root`]);
    }
    folder.remove();
  });

  test('mail', async () => {
    const [check = assert.fail()] = mailModule.checks ?? [];
    const none: MailSettings = {
      ...{ from: ' ', url: '', host: ' ', port: 25, user: '', password: '' },
      allow_plaintext: false,
    };
    const found = async (settings: Partial<MailSettings>) =>
      (await check.run({ settings: { mail: { ...none, ...settings } } })).map(({ message, advice, isNote }) =>
        [isNote === true ? 'note: ' : '', message, '. ', advice].join(''),
      );
    const from = 'crm@acme.example';
    assert.deepEqual(await found({ from, url: mail.url }), []);
    for (const [settings, line] of [
      [{}, /^note: no mail server is configured, .*\. Set MAIL_FROM and SMTP_URL/],
      [{ from }, /^mail cannot be sent because the mail server is not configured\. Set SMTP_URL\.$/],
      [{ url: mail.url }, /^mail cannot be sent because the sender is not configured\. Set MAIL_FROM\.$/],
      [{ host: 'localhost' }, /^mail cannot be sent because the sender is not configured\. Set MAIL_FROM\.$/],
      [{ from, url: 'mail.example' }, /^the mail server rejected .* \(SMTP_URL is not a valid URL\)\./],
      [
        { from, url: mail.url.replace('crm:', 'crm:wrong-') },
        // Without the server's message, which can repeat the request.
        /^the mail server rejected the connection or the login \(EAUTH \d{3}\)\./,
      ],
    ] as const) {
      const [first, ...more] = await found(settings);
      assert.match(String(first), line);
      assert.deepEqual(more, []);
    }
  });

  test('an untrusted proxy', async () => {
    assert.match(String(await find('public URL', {}, 'https://crm.example')), /^TRUSTED_PROXIES: the proxy/);
    assert.deepEqual(await find('public URL', { TRUSTED_PROXIES: '1' }, 'https://crm.example'), []);
    assert.deepEqual(await find('public URL', {}, 'http://127.0.0.1:3000'), []);
  });

  const read = 'any user on this machine can read its secrets, for example mail.url';
  const change = 'any user on this machine can change it and thereby decide which clients can write records';
  for (const [mode, isSecret, message] of [
    [0o646, false, change],
    [0o602, true, change],
    [0o604, true, read],
    [0o640, true],
    [0o664, false],
  ] as const)
    test(`config.yaml ${isSecret ? 'with' : 'without'} secrets, mode ${mode.toString(8)}`, async () => {
      const file = settingsFile(
        isSecret ? 'mail: { url: "smtps://crm:secret@mail.example" }' : 'modules: []',
      );
      chmodSync(file.path, mode);
      const config = readConfig(file.environment);
      const check = checksOf({ modules }).find(({ name }) => name === 'permissions of config.yaml');
      const found = await check?.run({ config, settingsFile: await readSettingsFile(config) } as never);
      assert.deepEqual(
        found?.map((finding) => finding.message),
        message === undefined ? [] : [message],
      );
    });

  test('workers with the embedded database', async () => {
    assert.match(
      String(await find('workers', { WORKERS: '2' })),
      /^WORKERS: only one process can use the embedded database/,
    );
  });

  test('workers need three connections each', async () => {
    const workers = (pool: string) =>
      find('workers', { WORKERS: '2', DATABASE_URL: 'postgres://localhost/crm', DATABASE_POOL: pool });
    assert.match(String(await workers('5')), /^DATABASE_POOL: 5 connections are too few for 2 workers/);
    assert.deepEqual(await workers('6'), []);
  });

  for (const [host, isReported] of [
    ['127.0.0.1', false],
    ['localhost', false],
    ['::1', false],
    ['10.0.0.1', false],
    ['fd00::1', false],
    ['198.51.100.7', true],
    ['::', true],
    // The IP address of this name is unknown.
    ['metrics', true],
  ] as const)
    test(`an admin port on ${host} is ${isReported ? '' : 'not '}reported`, async () => {
      const findings = await find('admin port', { ADMIN_PORT: '9', ADMIN_HOST: host });
      assert.equal(findings.length, Number(isReported));
    });

  test('a disk is nearly full below 5 % of its size, but at least 256 MiB and at most 5 GiB', () => {
    const [mebibyte, gibibyte] = [1024 ** 2, 1024 ** 3];
    for (const [total, least] of [
      [gibibyte, 256 * mebibyte],
      [20 * gibibyte, gibibyte],
      [1000 * gibibyte, 5 * gibibyte],
    ] as const) {
      assert.deepEqual(diskFindings('/data', { free: least, total }), []);
      assert.deepEqual(
        diskFindings('/data', { free: least - mebibyte, total }).map(({ message }) => message),
        [`the disk is nearly full: ${least / mebibyte - 1} MiB of ${total / mebibyte} MiB are free`],
      );
    }
  });

  test('versions', () => {
    assert.match(String(nodeFindings('22.11.0')[0]?.message), /needs Node 24/);
    assert.match(String(versionFindings(140_011)[0]?.message), /needs PostgreSQL 15/);
    assert.deepEqual([...nodeFindings('24.0.0'), ...nodeFindings('26.1.0'), ...versionFindings(150_000)], []);
  });
});
