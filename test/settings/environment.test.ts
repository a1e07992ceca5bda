// Environment variables: a misspelled or unusable variable is an error at startup instead of being ignored.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { assertEnvironment } from '../../app/commands/config-command.ts';
import { readConfig } from '../../app/config.ts';
import { parseSettings, readSettings } from '../../webhooks/settings/load.ts';
import { temporaryFolder } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { assertRefused, crm } from '../support/process.ts';

describe('blank variables', () => {
  for (const [name, expected] of [
    ['DATABASE_URL', 'a PostgreSQL URL, such as postgres://user:password@host:5432/name'],
    ['KEY_PREFIX', 'lower-case letters and digits, then "_", such as crm_'],
    ['DATA_DIR', 'a folder'],
  ] as const) {
    for (const blank of ['', '  ']) {
      test(`${name}=${JSON.stringify(blank)} is an error`, () =>
        assert.throws(() => readConfig({ [name]: blank }), {
          name: 'UserError',
          message: `${name} is blank. Set it to ${expected}, or unset it.`,
        }));
    }
  }

  test('other blank variables count as unset', async () => {
    const environment = {
      PUBLIC_URL: '',
      TRUSTED_PROXIES: ' ',
      AUTH_SECRETS: '',
      MAIL_FROM: '',
      SMTP_URL: ' ',
      DATABASE_POOL: ' ',
    };
    const config = readConfig(environment);
    assert.equal(config.trustedProxies, 0);
    assert.equal((await readSettings(config)).mail.from, '');
    await assertEnvironment(config);
  });
});

test('numbers are accepted from the lowest to the highest, in the unit of the variable', () => {
  const config = readConfig({
    PORT: '65535',
    TRUSTED_PROXIES: ' 10 ',
    IMPORT_MAX_MB: '1',
    DATABASE_POOL: '1',
  });
  assert.deepEqual(
    [config.port, config.trustedProxies, config.importBytes, config.pool],
    [65_535, 10, 1024 * 1024, 1],
  );
  assert.equal(readConfig({ PORT: '0', DATABASE_POOL: '1000' }).port, 0);
  assert.throws(
    () => readConfig({ PORT: '65536', TRUSTED_PROXIES: '11', DATABASE_POOL: '0', LOG_LEVEL: 'toString' }),
    {
      message: [
        'PORT must be an integer from 0 to 65535',
        'DATABASE_POOL must be an integer from 1 to 1000',
        'LOG_LEVEL must be one of fatal, error, warn, info, debug, trace, silent',
        'TRUSTED_PROXIES must be an integer from 0 to 10',
      ].join('\n'),
    },
  );
});

describe('misspelled variables', () => {
  const refused = (environment: Record<string, string>) => assertEnvironment(readConfig(environment));
  for (const [name, meant] of [
    ['DATABSE_URL', 'DATABASE_URL'],
    ['DATABASE_URLS', 'DATABASE_URL'],
    ['database_url', 'DATABASE_URL'],
    ['DATADIR', 'DATA_DIR'],
    ['KEYPREFIX', 'KEY_PREFIX'],
    ['LOG_LEVLE', 'LOG_LEVEL'],
    ['PUBLIC_URI', 'PUBLIC_URL'],
    ['INBOUND_SECERT', 'INBOUND_SECRET'],
  ] as const) {
    test(`${name} is an error`, () =>
      assert.rejects(refused({ [name]: 'x' }), {
        name: 'UserError',
        message: `${name} is not a known variable. Did you mean ${meant}? Correct or unset it.`,
      }));
  }

  test('all of them are reported together', () =>
    assert.rejects(refused({ DATABSE_URL: 'x', LOG_LEVLE: 'x' }), /DATABSE_URL .*\n.*LOG_LEVLE /));

  test('short names, names of other programs and names referenced in config.yaml are not reported', async () => {
    const file = settingsFile('mail: { from: "${MAIL_FORM}" }');
    await refused({
      ...file.environment,
      MAIL_FORM: 'crm@acme.example',
      HOSTS: 'x',
      POST: '1',
      WORKER: '1',
      OTEL_BLRP_SCHEDULE_DELAY: '1',
      PGDATABASE: 'x',
    });
  });

  test('names three edits away from a known name are not reported', () =>
    refused({
      DATABSEURLS: 'x',
      DATA_DIRECT: 'x',
      DATA_: 'x',
      KEY_PREFIXING: 'x',
      LOG_LE: 'x',
      public_: 'x',
    }));
});

for (const [what, environment, commands, message] of [
  [
    'a misspelled variable',
    { DATABSE_URL: 'postgres://crm@db/crm' },
    ['serve', 'check', 'migrate'],
    /^crm: DATABSE_URL is not a known variable\. /,
  ],
  [
    'a blank DATABASE_URL',
    { DATABASE_URL: '' },
    ['serve', 'check', 'migrate'],
    /^crm: DATABASE_URL is blank\. /,
  ],
  [
    'an invalid PUBLIC_URL',
    { PUBLIC_URL: 'crm.example' },
    ['serve', 'check'],
    /^crm: .*PUBLIC_URL must be an origin such as /,
  ],
] as const)
  for (const command of commands)
    test(`crm ${command} rejects ${what}, and creates no database`, async (t) => {
      const { path, remove } = temporaryFolder();
      t.after(remove);
      const DATA_DIR = join(path, 'data');
      assertRefused(await crm([command], { DATA_DIR, ...environment }), message);
      assert.ok(!existsSync(DATA_DIR));
    });

for (const [name, min, max] of [
  ['PORT', 0, 65_535],
  ['ADMIN_PORT', 0, 65_535],
  ['STOP_DELAY_MS', 0, 600_000],
  ['WORKERS', 1, 128],
  ['WORKER_TIMEOUT_MS', 1000, 600_000],
  ['DATABASE_POOL', 1, 1000],
  ['DATABASE_REPLICA_LAG_MS', 300, 600_000],
  ['DATABASE_CONNECT_TIMEOUT_MS', 1, 600_000],
  ['DATABASE_STATEMENT_TIMEOUT_MS', 1, 600_000],
  ['DATABASE_LIST_TIMEOUT_MS', 1, 600_000],
  ['DATABASE_LOCK_TIMEOUT_MS', 1, 600_000],
  ['RESPONSE_BUFFER_MB', 1, 65_536],
  ['MAX_CONNECTIONS', 1, 1_000_000],
  ['LOG_SLOW_MS', 0, 600_000],
  ['IMPORT_MAX_MB', 1, 1_048_576],
  ['TRUSTED_PROXIES', 0, 10],
  ['SESSION_IDLE_MINUTES', 1, 525_600],
  ['SESSION_HOURS', 1, 8760],
] as const)
  test(`${name} is an integer from ${min} to ${max}`, () => {
    for (const value of [min, max]) assert.doesNotThrow(() => readConfig({ [name]: String(value) }));
    for (const value of [min - 1, max + 1, `${min}.5`, `${max}x`])
      assert.throws(() => readConfig({ [name]: String(value) }), {
        message: new RegExp(`^${name} must be an integer from ${min} to ${max}\\b`),
      });
  });

test('sizes are in MiB, and WORKERS=auto is one worker per core', () => {
  const { responseBytes, importBytes, workers } = readConfig({
    ...{ RESPONSE_BUFFER_MB: '3', IMPORT_MAX_MB: '5', WORKERS: 'auto' },
  });
  assert.deepEqual([responseBytes, importBytes], [3 * 1024 * 1024, 5 * 1024 * 1024]);
  assert.equal(workers, Math.min(availableParallelism(), 128));
});

test('DATABASE_POOL with the embedded database', () =>
  assert.rejects(assertEnvironment(readConfig({ DATABASE_POOL: '20' })), {
    name: 'UserError',
    message:
      'DATABASE_POOL needs DATABASE_URL: the embedded database has a single connection. Set DATABASE_URL, or unset DATABASE_POOL.',
  }));

describe('DATABASE_PASSWORD_FILE', () => {
  const temporary = temporaryFolder();
  after(temporary.remove);
  const file = (name: string) => join(temporary.path, name);
  before(() => {
    mkdirSync(file('folder'));
    writeFileSync(file('empty'), '\n');
    writeFileSync(file('password'), 'secret\n');
  });
  for (const [name, problem] of [
    ['missing', 'cannot be read: it does not exist'],
    ['folder', 'cannot be read: it is a folder'],
    ['password/x', 'cannot be read: a component of its path is not a folder'],
    ['empty', 'is empty'],
  ] as const) {
    test(`${name}: one line at startup`, async () => {
      const environment = {
        DATABASE_URL: 'postgres://crm@127.0.0.1:1/crm',
        DATABASE_PASSWORD_FILE: file(name),
      };
      assertRefused(await crm(['serve'], environment), `DATABASE_PASSWORD_FILE: ${file(name)} ${problem}`);
    });
  }

  test('with the embedded database', () =>
    assert.rejects(assertEnvironment(readConfig({ DATABASE_PASSWORD_FILE: file('password') })), {
      name: 'UserError',
      message:
        'DATABASE_PASSWORD_FILE needs DATABASE_URL: the embedded database has no password. Set DATABASE_URL, or unset DATABASE_PASSWORD_FILE.',
    }));
});

describe('values of config.yaml that come from the environment are checked', () => {
  const errorsOf = (text: string, environment: Record<string, string>) => {
    try {
      parseSettings({ file: 'config.yaml', text }, environment);
      return [];
    } catch (error) {
      return (error as Error).message.split('\n');
    }
  };
  for (const value of [
    'crm.example',
    'https://crm.example/path',
    'https://user@crm.example',
    'https://crm.example:99999',
    'ftp://crm.example',
    'https://a b',
  ]) {
    test(`PUBLIC_URL=${value}`, () => {
      const message = 'PUBLIC_URL must be an origin such as https://crm.example';
      assert.deepEqual(errorsOf('public_url: "${PUBLIC_URL}"', { PUBLIC_URL: value }), [
        `config.yaml:1:13  ${message}`,
      ]);
      const [line = ''] = errorsOf('read_only: false', { PUBLIC_URL: value });
      assert.ok(line.endsWith(message), 'even if the file does not mention it');
    });
  }
  for (const value of [
    'https://crm.example',
    'https://crm.example/',
    'http://localhost:3000',
    'http://[::1]:3000',
    ' ',
  ])
    test(`PUBLIC_URL=${value} is valid`, () => assert.deepEqual(errorsOf('', { PUBLIC_URL: value }), []));

  for (const value of ['unknown', 'CRM', 'a@b@c', 'CRM <unknown>']) {
    test(`mail.from: ${value}`, () => {
      const expected = 'an email address with or without a name, such as CRM <crm@example.org>';
      assert.deepEqual(errorsOf('mail: { from: "${MAIL_FROM}" }', { MAIL_FROM: value }), [
        `config.yaml:1:15  MAIL_FROM must be ${expected}`,
      ]);
      assert.deepEqual(errorsOf(`mail: { from: "${value}" }`, {}), [
        `config.yaml:1:15  from must be ${expected}`,
      ]);
    });
  }
  for (const value of ['crm@example.org', 'CRM <crm@example.org>', '"Crm, Inc." <crm@localhost>', ''])
    test(`mail.from: ${value} is valid`, () => assert.deepEqual(errorsOf('', { MAIL_FROM: value }), []));

  const mailUrl = 'a URL such as smtp://user:password@mail.example.org:587';
  for (const [text, environment, line] of [
    ['mail: { url: "${SMTP_URL}" }', { SMTP_URL: 'mail.example' }, `1:14  SMTP_URL must be ${mailUrl}`],
    ['mail: { url: "${SMTP_URL}" }', { SMTP_URL: 'smtp://a b' }, `1:14  SMTP_URL must be ${mailUrl}`],
    [
      'graph: { base_url: "https://${GRAPH_HOST}" }',
      { GRAPH_HOST: 'graph.example/?a' },
      '1:20  GRAPH_HOST must be a URL such as https://graph.facebook.com',
    ],
  ] as const)
    test(JSON.stringify(environment), () =>
      assert.deepEqual(errorsOf(text, { ...environment }), [`config.yaml:${line}`]),
    );
});
