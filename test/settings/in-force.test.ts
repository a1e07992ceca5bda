// `crm config --show`: current settings with their sources, and warnings about probable errors.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { configInForce, secretsInFile } from '../../app/commands/config-command.ts';
import { readConfig } from '../../app/config.ts';
import { misspelledNames } from '../../engine/config/variables.ts';
import { lineOf } from '../../engine/yaml/load.ts';
import { readSettingsFile } from '../../webhooks/settings/load.ts';
import { disabledEndpoints, unknownOrganizations, unsetVariables } from '../../webhooks/settings/warnings.ts';
import { temporaryFolder } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { assertRefused, crmTable, project } from '../support/process.ts';

const folder = temporaryFolder();
after(folder.remove);
const file = join(folder.path, 'config.yaml');
const text = `partners:
  booking_forms_whatsapp: { organization: clinc }
  payments:
    acme:
      organization: clinic
      verify: { header: X-Key, secrets: ["\${ACME_KEY}", "\${ACME_OLD}"] }
      lead: { id: "{{id}}" }
messaging:
  demo: { sender: whatsapp_cloud, phone_number_id: "1", access_token: an-access-token-in-the-file }
  shop: { sender: log }
mail: { url: "\${SMTP_URL}", password: a-password-in-the-file }
login: { providers: { acme: { name: Acme, issuer: "https://login.example", client_id: crm, client_secret: a-client-secret-in-the-file, new_users: { domains: { acme.example: { organization: acne, profile: reader } } } } } }
quotas: { organizations: { klinic: { records: 5 } } }
`;
const environment = {
  CRM_CONFIG: file,
  INBOUND_SECRET: 'the-secret-of-inbound',
  DATABASE_URL: 'postgres://user:the-password-of-postgres@db.example/crm',
  DATABASE_REPLICA_URLS: 'postgres://user:the-password-of-postgres@replica.example/crm',
  AUTH_SECRETS: 'the-secret-that-signs-everything-0123456789',
  SMTP_URL: 'smtps://user:a b@the-password-of/smtp@mail.example',
  PORT: '8080',
  IMPORT_MAX_MB: '7',
  DATABSE_URL: 'postgres://user:the-password-of-another@db.example/crm',
  INBOUND_SECERT: 'x',
  ACME_KYE: 'x',
};

describe('crm config --show', () => {
  let rows: ReadonlyMap<string, readonly [value: string, from: string]>;
  let result: Awaited<ReturnType<typeof configInForce>>;
  before(async () => {
    writeFileSync(file, text);
    result = await configInForce(readConfig(environment));
    const { environment: variables, settings } = result.json as Record<
      'environment' | 'settings',
      readonly { name: string; value: string; from: string }[]
    >;
    rows = new Map([...variables, ...settings].map(({ name, value, from }) => [name, [value, from]]));
  });

  for (const [name, value, from] of [
    ['PORT', '8080', 'environment'],
    ['IMPORT_MAX_MB', '7', 'environment'],
    ['RESPONSE_BUFFER_MB', '64', 'default'],
    ['SESSION_HOURS', '12', 'default'],
    ['DATABASE_URL', 'db.example:5432/crm', 'environment'],
    ['DATABASE_REPLICA_URLS', 'replica.example:5432/crm', 'environment'],
    ['AUTH_SECRETS', '1, hidden', 'environment'],
    ['ADMIN_PORT', 'not set', 'default'],
    ['partners.inbound_leads.secrets.0', 'set, hidden', 'INBOUND_SECRET, by default'],
    ['partners.booking_forms_whatsapp.organization', 'clinc', /config\.yaml:2$/],
    ['partners.payments.acme.verify.secrets.0', 'not set', /^ACME_KEY, by .*config\.yaml:6$/],
    ['messaging.demo.access_token', 'set, hidden', /config\.yaml:9$/],
    ['mail.url', 'smtps://…@mail.example', /^SMTP_URL, by .*config\.yaml:11$/],
    ['mail.password', 'set, hidden', /config\.yaml:11$/],
    ['mail.port', '587', 'default'],
    ['login.providers.acme.client_id', 'crm', /config\.yaml:12$/],
    ['login.providers.acme.client_secret', 'set, hidden', /config\.yaml:12$/],
  ] as const) {
    test(`${name}: ${value}`, () => {
      const [printed, source = ''] = rows.get(name) ?? [];
      assert.equal(printed, value);
      assert.match(source, typeof from === 'string' ? new RegExp(`^${from}$`) : from);
    });
  }

  test('secrets are never printed, neither as text nor as JSON', () => {
    const all = `${result.text}${JSON.stringify(result.json)}`;
    assert.doesNotMatch(all, /the-(secret|password)-|in-the-file/);
    assert.match(all, /clinc/);
  });

  test('misspelled variables and disabled endpoints are reported with their location, one per line', () => {
    const notes = (result.json.notes as readonly string[]).map((note) =>
      note.replace(/^\S*config/, 'config'),
    );
    assert.deepEqual(notes, [
      'DATABSE_URL is not a known variable. Did you mean DATABASE_URL?',
      'INBOUND_SECERT is not a known variable. Did you mean INBOUND_SECRET?',
      'ACME_KYE is not a known variable. Did you mean ACME_KEY?',
      'config.yaml:2:27  booking_forms_whatsapp is off (501): BOOKING_FORMS_WHATSAPP_TOKEN is not set',
      'config.yaml:6:41  payments of acme is off (501): ACME_KEY and ACME_OLD are not set',
    ]);
  });

  test('unknown organizations are reported with a suggestion', async () => {
    const lines = unknownOrganizations(await readSettingsFile(readConfig(environment)), ['clinic', 'demo']);
    assert.deepEqual(
      lines.map((line) => lineOf(line).replace(/^\S*config/, 'config')),
      [
        'config.yaml:2:43  organization "clinc" does not exist. Did you mean "clinic"?',
        'config.yaml:12:190  organization "acne" does not exist. Available: clinic, demo',
        'config.yaml:10:3  organization "shop" does not exist. Available: clinic, demo',
        'config.yaml:13:28  organization "klinic" does not exist. Did you mean "clinic"?',
      ],
    );
    assert.deepEqual(unknownOrganizations(await readSettingsFile(readConfig({})), ['clinic']), []);
  });
});

test('endpoints without a secret and incomplete values are reported, except for values of the shipped file', async () => {
  const shipped = await readSettingsFile(readConfig({}));
  assert.deepEqual(unsetVariables(shipped, {}), []);
  const own = settingsFile({
    partners: {
      inbound_leads: { secrets: ['', '${ACME_OLD}'] },
      booking_forms_whatsapp: { secrets: [] },
      payments: {
        acme: {
          organization: 'demo',
          verify: { header: 'X-Key', secrets: ['${ACME_KEY}'] },
          lead: { id: '{{id}}' },
        },
      },
    },
    public_url: '${PUBLIC_URL}',
    messaging: {
      demo: {
        ...{ sender: 'whatsapp_cloud', phone_number_id: '${NUMBER}' },
        access_token: '${PREFIX}${TOKEN}${SUFFIX}',
      },
    },
  });
  const variables = { NUMBER: ' ', SUFFIX: 'set', ACME_OLD: 'a secret that is set' };
  const read = await readSettingsFile(readConfig({ ...own.environment, ...variables }));
  assert.deepEqual(
    unsetVariables(read, variables).map(({ message }) => message),
    [
      'NUMBER is not set, so messaging.demo.phone_number_id is incomplete',
      'PREFIX and TOKEN are not set, so messaging.demo.access_token is incomplete',
    ],
  );
  assert.deepEqual(
    disabledEndpoints(read, variables).map(({ message, isShipped }) => [message, isShipped]),
    [
      ['booking_forms_whatsapp is off (501): it has no secret', true],
      ['payments of acme is off (501): ACME_KEY is not set', false],
    ],
  );
});

test('every secret in plain text is located', async () => {
  const secret = 'a-secret-in-plain-text';
  const plain = settingsFile({
    partners: {
      inbound_leads: { secrets: [secret] },
      booking_forms_whatsapp: { secrets: ['${FORMS_TOKEN}', secret], organization: 'demo' },
      payments: {
        acme: {
          organization: 'demo',
          verify: { header: 'X-Key', secrets: [secret] },
          lead: { id: '{{id}}' },
        },
      },
    },
    messaging: {
      demo: { sender: 'whatsapp_cloud', phone_number_id: '1', access_token: secret },
      shop: { sender: 'whatsapp_cloud', phone_number_id: '1', access_token: '${WHATSAPP_TOKEN}' },
    },
    mail: { url: `smtps://user:${secret}@mail.example`, password: secret },
    login: {
      providers: {
        acme: {
          name: 'Acme',
          issuer: 'https://login.example',
          client_id: 'crm',
          client_secret: secret,
        },
      },
    },
  });
  const found = secretsInFile(await readSettingsFile(readConfig(plain.environment)));
  assert.deepEqual(found.map(({ name }) => name).sort(), [
    'login.providers.acme.client_secret',
    'mail.password',
    'mail.url',
    'messaging.demo.access_token',
    'partners.booking_forms_whatsapp.secrets.1',
    'partners.inbound_leads.secrets.0',
    'partners.payments.acme.verify.secrets.0',
  ]);
  const lines = readFileSync(plain.path, 'utf8').split('\n');
  for (const { name, location } of found) {
    const [line, column] = location.split(':').slice(-2).map(Number);
    assert.match(lines[Number(line) - 1]?.slice(Number(column) - 1) ?? '', /^"[^"]*a-secret-in/, name);
  }
  // A setting added for a secret must be added above.
  const keys = readFileSync(join(project, 'webhooks/settings/settings.schema.json'), 'utf8').matchAll(
    /"(\w*(?:secret|token|password)\w*)":/g,
  );
  for (const [, key = ''] of keys)
    assert.ok(
      found.some(({ name }) => name.split('.').includes(key)),
      key,
    );
});

describe('missing and unusable paths are reported in one line with their location', () => {
  const places = temporaryFolder();
  after(places.remove);
  const at = (name: string) => join(places.path, name);
  mkdirSync(at('folder.yaml/things.yaml'), { recursive: true });
  writeFileSync(at('file'), 'kept');
  const cases: readonly (readonly [args: string, variable: string, path: string, says: string])[] = [
    ['check', 'CRM_CONFIG', 'folder.yaml', 'cannot read …: it is a folder'],
    ['check', 'CRM_CONFIG', 'nothing.yaml', 'cannot read …: it does not exist'],
    ['check', 'CRM_CONFIG', 'file/config.yaml', 'cannot read …: a component of its path is not a folder'],
    ['check', 'RESOURCES_DIR', 'nothing', 'cannot read the folder …: it does not exist'],
    ['check', 'RESOURCES_DIR', 'file', 'cannot read the folder …: it is a file, not a folder'],
    ['check', 'RESOURCES_DIR', 'folder.yaml', 'cannot read …/things.yaml: it is a folder'],
    ['check', 'MIGRATIONS_DIR', 'file', 'cannot read the folder …: it is a file, not a folder'],
    ['serve', 'DATA_DIR', 'file', 'the data folder … cannot be used: it is not a folder'],
    ['client --output', '', 'file', '… cannot be read: it is a file, not a folder'],
    ['export leads --org demo', '', 'file', '… already exists. Pass --force to replace it.'],
  ];
  crmTable(
    cases.map((row) => [`${row[0]} ${row[1]} ${row[2]}`, row] as const),
    ([args, variable, path]) => [
      [...args.split(' '), ...(variable === '' ? [at(path)] : [])],
      variable === '' ? {} : { [variable]: at(path) },
    ],
    (outcome, [, , path, says]) => {
      assertRefused(outcome, says.replace('…', at(path)));
      assert.equal(readFileSync(at('file'), 'utf8'), 'kept');
    },
  );
});

test('unrelated environment variables are ignored', () => {
  const names = [
    'PATH',
    'HOME',
    'HOSTS',
    'POST',
    'DATABASE_HOST',
    'PGHOST',
    'NODE_ENV',
    'LOG_FILE',
    'WORKER_POOL',
  ];
  const known = ['HOST', 'PORT', 'DATABASE_POOL', 'DATABASE_URL', 'LOG_LEVEL', 'WORKERS', 'NODE_ENV'];
  const environment = Object.fromEntries(names.map((name) => [name, '']));
  assert.deepEqual(misspelledNames(environment, known), []);
});
