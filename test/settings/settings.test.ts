// config.yaml: parsing, error messages with locations, and reloading while the service is running.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, renameSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { Ajv2020 as Validator } from 'ajv/dist/2020.js';
import { readConfig } from '../../app/config.ts';
import { UserError } from '../../engine/errors.ts';
import { parseYaml, YamlError } from '../../engine/yaml/load.ts';
import { settingsEditorSchema } from '../../webhooks/settings/editor.ts';
import { liveSettings } from '../../webhooks/settings/live.ts';
import { parseSettings, readSettings } from '../../webhooks/settings/load.ts';
import { defaults, type Settings } from '../../webhooks/settings/settings.ts';
import { type SettingsFile, settingsFile } from '../support/partners.ts';
import {
  migratedStorage,
  project,
  type Service,
  type Storage,
  serve,
  start,
  until,
} from '../support/process.ts';
import { patient } from '../support/promised.ts';
import { customer, wrongSettings } from './wrong-settings.ts';

const parse = (text: string, environment: Record<string, string> = {}): Settings =>
  parseSettings({ file: 'config.yaml', text }, environment);
const set = {
  INBOUND_SECRET: 'the-secret-of-inbound',
  BOOKING_FORMS_WHATSAPP_TOKEN: 'the-token-of-booking',
  PUBLIC_URL: 'https://crm.example',
  MAIL_FROM: 'CRM <crm@people.example>',
  SMTP_URL: 'smtps://crm:secret@mail.example',
};

/** Returns the error messages for a file, or an empty array if it is valid. */
function errorsOf(text: string, environment: Record<string, string> = {}): string[] {
  try {
    parse(text, environment);
    return [];
  } catch (error) {
    assert.ok(error instanceof YamlError, String(error));
    return error.message.split('\n');
  }
}

describe('parsing', () => {
  test('the shipped file contains the defaults', async () => {
    const text = readFileSync(join(project, 'config.yaml'), 'utf8');
    for (const environment of [{}, set]) assert.deepEqual(parse(text, environment), parse('{}', environment));
    const named = Object.fromEntries(Object.keys(set).map((name) => [name, `\${${name}}`]));
    // The URLs are validated after resolution, so a variable name in place of a value is not allowed there.
    const [publicUrl, smtpUrl] = ['https://crm.example', 'smtp://mail.example:587'];
    const expected = JSON.stringify(defaults)
      .replaceAll('${PUBLIC_URL}', publicUrl)
      .replaceAll('${SMTP_URL}', smtpUrl);
    assert.deepEqual(
      JSON.parse(JSON.stringify(parse(text, { ...named, PUBLIC_URL: publicUrl, SMTP_URL: smtpUrl }))),
      JSON.parse(expected),
    );
    assert.deepEqual(await readSettings(readConfig({})), parse(text));
  });

  test('every section of the shipped file has a comment', () => {
    const lines = readFileSync(join(project, 'config.yaml'), 'utf8').split('\n');
    for (const [index, line] of lines.entries()) {
      if (!/^\w+:/.test(line)) continue;
      const around = `${lines[index - 1]}${lines[index + 1]}`;
      assert.match(around, /#/, `${index + 1}: ${line}`);
    }
  });

  const single: readonly [string, (settings: Settings) => unknown, unknown][] = [
    ['inbox: { attempts: 3 }', ({ inbox }) => inbox, { ...defaults.inbox, attempts: 3 }],
    ['inbox: { max_waiting: 9 }', ({ inbox }) => inbox, { ...defaults.inbox, max_waiting: 9 }],
    [
      'retention: { inbox_dead_days: 8 }',
      ({ retention }) => retention,
      { ...defaults.retention, inbox_dead_days: 8 },
    ],
    ['graph: { version: v1.0 }', ({ graph }) => graph, { ...defaults.graph, version: 'v1.0' }],
    [
      'partners: { booking_forms_whatsapp: { organization: clinic } }',
      ({ partners }) => partners.booking_forms_whatsapp,
      { secrets: ['the-token-of-booking'], organization: 'clinic' },
    ],
    [
      'partners: { inbound_leads: { secrets: [written-in-the-file, "${INBOUND_SECRET}"] } }',
      ({ partners }) => partners.inbound_leads.secrets,
      ['written-in-the-file', 'the-secret-of-inbound'],
    ],
    ['messaging: {}', ({ messaging }) => messaging, {}],
    ['public_url: "https://other.example/"', ({ public_url }) => public_url, 'https://other.example/'],
    ['', ({ inbox }) => inbox, defaults.inbox],
    ['# comments alone', ({ inbox }) => inbox, defaults.inbox],
  ];
  for (const [text, read, expected] of single) {
    test(`one key: ${text}`, () => {
      const settings = parse(text, set);
      assert.deepEqual(read(settings), expected);
      const { length } = Object.keys(settings);
      assert.equal(length, Object.keys(defaults).length);
    });
  }

  test('a section with one key has the defaults of its other keys', () => {
    const whole: Readonly<Record<string, unknown>> = { ...parse('{}', set) };
    const other = (value: unknown) =>
      typeof value === 'number' ? value + 1 : typeof value === 'boolean' ? !value : undefined;
    for (const [section, values] of Object.entries(defaults)) {
      if (typeof values !== 'object' || Array.isArray(values) || section === 'messaging') continue;
      for (const [key, value] of Object.entries(values)) {
        const settings = parse(JSON.stringify({ [section]: { [key]: value } }), set);
        assert.deepEqual({ ...settings }, whole, `${section}.${key}`);
        const changed = other(value);
        if (changed === undefined) continue;
        const expected = { ...whole, [section]: { ...Object(whole[section]), [key]: changed } };
        assert.deepEqual({ ...parse(JSON.stringify({ [section]: { [key]: changed } }), set) }, expected);
      }
    }
  });

  test('variables: unset and blank secrets are ignored, references are joined, prototype properties are ignored', () => {
    const secrets = ['${A}', '${UNSET}', '${BLANK}', '', ' ', 'x${A}${B}', '${toString}', '${__proto__}'];
    const text = JSON.stringify({ partners: { inbound_leads: { secrets } } });
    const settings = parse(text, { A: 'one and some more', B: '${A}', BLANK: ' \t' });
    assert.deepEqual(settings.partners.inbound_leads.secrets, [
      'one and some more',
      'xone and some more${A}',
    ]);
    assert.ok(Object.isFrozen(settings.partners.inbound_leads.secrets));
  });
});

describe('error messages have locations', () => {
  for (const [text, ...lines] of wrongSettings) {
    test(text.split('\n').at(-1) || 'nothing', () =>
      assert.deepEqual(
        errorsOf(text),
        lines.map((line) => `config.yaml:${line}`),
      ),
    );
  }

  const marks = new Validator({ strict: false, validateFormats: false }).compile(settingsEditorSchema({}));
  /** Errors that a JSON Schema cannot express. */
  const beyondSchemas =
    /not a valid reference|2:30 {2}"\$\{" has no closing|"\{\{" has no closing|has no opening|Use a path/;
  test('the editor schema rejects invalid files where a schema can, and accepts the shipped file', () => {
    for (const [text, ...lines] of wrongSettings) {
      const parsed = parseYaml({ file: '', text }, []);
      const isBeyond = beyondSchemas.test(lines.join());
      assert.equal(parsed === undefined || !marks(parsed.data), !isBeyond, lines.join());
    }
    const shipped = readFileSync(join(project, 'config.yaml'), 'utf8');
    assert.ok(marks(parseYaml({ file: '', text: shipped }, [])?.data), JSON.stringify(marks.errors));
  });

  test('the editor schema contains the defaults, and the sections and senders of modules', () => {
    const modules = [
      {
        name: 'texts',
        settings: { type: 'object', required: ['url'], properties: { url: { type: 'string' } } },
        channels: { sms: { send: () => {} }, mute: {} },
      },
      { name: 'parsed', settings: () => ({}) },
    ];
    const schema = settingsEditorSchema({ modules });
    const isValid = new Validator({ strict: false, validateFormats: false }).compile(schema);
    for (const [settings, expected] of [
      [{ texts: { url: 'x' }, parsed: 7, messaging: { acme: { sender: 'sms' } } }, true],
      [{ texts: {} }, false],
      [{ messaging: { acme: { sender: 'mute' } } }, false],
      [{ other: {} }, false],
    ] as const)
      assert.equal(isValid(settings), expected, JSON.stringify(settings));
    const { inbox, login, public_url } = Object(schema.properties);
    assert.deepEqual(
      [inbox.properties.attempts.default, login.properties.second_factor.default, public_url.default],
      [defaults.inbox.attempts, defaults.login.second_factor, defaults.public_url],
    );
  });

  test('all errors in a file are reported together', () => {
    const text = customer('event_id: "{{#if a}}"', 'lead: { mail: "{{b" }', 'when: 5');
    const places = errorsOf(
      `${text}\npublic_url: "\${}"\nmessaging: { demo: { sender: whatsapp_cloud } }\ninbox: 7`,
    ).map((line) => line.split('  ')[0]?.replace('config.yaml:', ''));
    assert.deepEqual(
      places.sort(),
      ['10:14', '10:14', '11:8', '6:17', '7:15', '7:21', '8:13', '9:13'].sort(),
    );
  });

  test('short secrets from the environment are reported, even if the file does not mention them', () => {
    const short = {
      ...{ INBOUND_SECRET: 'hunter2', BOOKING_FORMS_WHATSAPP_TOKEN: 'hunter2', KEY: 'hunter2' },
      ...{ LONG_ENOUGH: 'x'.repeat(16), PADDED: ` ${'x'.repeat(15)}\n` },
    };
    const file =
      'partners:\n  inbound_leads: { secrets: ["${INBOUND_SECRET}", "${KEY}${KEY}", "${LONG_ENOUGH}", "${PADDED}"] }';
    assert.deepEqual(errorsOf(file, short), [
      'config.yaml:2:3  ${BOOKING_FORMS_WHATSAPP_TOKEN} must have at least 16 characters',
      'config.yaml:2:30  ${INBOUND_SECRET} must have at least 16 characters',
      'config.yaml:2:51  item 2 of secrets must have at least 16 characters',
      'config.yaml:2:85  ${PADDED} must have at least 16 characters',
    ]);
  });

  for (const text of [
    '['.repeat(20_000),
    'a: {'.repeat(20_000),
    `a: ${'x'.repeat(1_000_000)}`,
    `partners: {payments: {__proto__: {}}}`,
  ]) {
    test(`hostile: ${text.slice(0, 40)}…`, () => assert.notDeepEqual(errorsOf(text), []));
  }

  test('a missing file', async () => {
    const config = readConfig({ CRM_CONFIG: join(project, 'no-such.yaml') });
    await assert.rejects(readSettings(config), /cannot read .*no-such\.yaml: it does not exist/);
  });
});

describe('a running service reloads its file', () => {
  const withSecret = (...secrets: string[]) => ({ partners: { inbound_leads: { secrets } } });
  let storage: Storage;
  let file: SettingsFile;
  let service: Service;
  before(async () => {
    storage = await migratedStorage('embedded');
    file = settingsFile(withSecret('zero-partner-secret'));
    service = await serve({
      ...patient,
      ...storage.environment,
      ...file.environment,
      LOG_LEVEL: 'info',
      FROM_ENV: 'env-partner-secret',
    });
  });
  after(async () => {
    await service.kill();
    await storage.remove();
  });
  /** Returns 400 for a valid secret, 401 for an invalid one, and 501 if no secret is configured. */
  const status = async (secret: string) =>
    (
      await service.call('POST /webhooks/inbound-leads', {
        body: {},
        headers: { 'x-inbound-secret': secret },
      })
    ).status;
  const becomes = (secret: string, expected: number) =>
    until(async () => (await status(secret)) === expected, `answer ${expected} to ${secret}`);
  const times = (text: string) => service.stderr().split(text).length - 1;
  beforeEach(async () => {
    file.write(withSecret('zero-partner-secret'));
    await becomes('zero-partner-secret', 400);
  });
  // Secrets must never be logged.
  afterEach(() => assert.doesNotMatch(service.stderr(), /[a-z]+-secret/));

  const methods: readonly [string, (settings: string | object) => void][] = [
    ['written in place', (settings) => file.write(settings)],
    ['replaced by another file', (settings) => file.replace(settings)],
  ];
  for (const [name, change] of methods) {
    test(`${name}: reloads a valid file, keeps the previous settings if it is invalid, and recovers`, async () => {
      change(withSecret('one-partner-secret', 'zero-partner-secret'));
      await becomes('one-partner-secret', 400);
      assert.equal(await status('zero-partner-secret'), 400, 'both for a while');
      change(withSecret('one-partner-secret'));
      await becomes('zero-partner-secret', 401);

      const rejections = times('rejected a change');
      change('partners:\n  inbound_leads: { secret: [broken-partner-secret] }');
      await until(() => times('rejected a change') > rejections, 'refuse the broken file');
      assert.match(
        service.stderr(),
        /config\.yaml:2:20 {2}unknown key \\"secret\\"\. Did you mean \\"secrets\\"\?/,
      );
      assert.equal(await status('one-partner-secret'), 400);
      assert.equal(await status('broken-partner-secret'), 401);

      change(withSecret('two-partner-secret'));
      await becomes('two-partner-secret', 400);
      assert.equal(await status('one-partner-secret'), 401);
    });
  }

  test('an endpoint is disabled and enabled again with a secret from the environment', async () => {
    file.write(withSecret('${NOT_SET}'));
    await becomes('zero-partner-secret', 501);
    file.write(withSecret('${FROM_ENV}'));
    await becomes('env-partner-secret', 400);
  });

  test('deleted: the previous settings stay, and a new file is loaded', async () => {
    const rejections = times('rejected a change');
    renameSync(file.path, `${file.path}.old`);
    await until(() => times('rejected a change') > rejections, 'log that it is missing');
    assert.match(service.stderr(), /cannot read .*config\.yaml: it does not exist/);
    assert.equal(await status('zero-partner-secret'), 400);
    file.replace(withSecret('three-partner-secret'));
    await becomes('three-partner-secret', 400);
  });

  test('after a hundred quick writes, the last one is loaded', async () => {
    for (let index = 0; index < 100; index++)
      file.write(index % 2 === 0 ? 'x: [' : withSecret(`s${index}-partner-secret`));
    await becomes('s99-partner-secret', 400);
  });

  test('SIGHUP reloads the file, even if it has not changed', async () => {
    const reloads = times('reloaded ');
    service.signal('SIGHUP');
    await until(() => times('reloaded ') > reloads, 'read it again');
    assert.equal(await status('zero-partner-secret'), 400);
  });
});

test('a version of the file that a check rejects does not take effect, and none does after closing', async () => {
  const file = settingsFile({ read_only: false });
  const listeners = process.listenerCount('SIGHUP');
  const loaded: boolean[] = [];
  const log = { info: () => {}, error: () => {} };
  const live = await liveSettings(
    readConfig(file.environment),
    log,
    async ({ settings }) => {
      loaded.push(settings.read_only);
    },
    ({ settings }) => {
      if (settings.read_only) throw new UserError('no maintenance now');
      if (settings.inbox.attempts === 7) throw new TypeError('a value of the file');
    },
  );
  // The folder is watched, too, so a version can be read twice.
  const reload = async (settings: object) => {
    file.write(settings);
    await live.reload();
    return [live.current.read_only, live.current.inbox.attempts, live.problem];
  };
  const { attempts } = defaults.inbox;
  assert.deepEqual(await reload({ read_only: true }), [false, attempts, 'no maintenance now']);
  assert.deepEqual(await reload({ inbox: { attempts: 7 } }), [false, attempts, 'failed: TypeError']);
  assert.deepEqual(await reload({ inbox: { attempts: 3 } }), [false, 3, undefined]);
  assert.ok(loaded.length > 1 && !loaded.includes(true), String(loaded));
  live.close();
  assert.deepEqual(await reload({ inbox: { attempts: 4 } }), [false, 3, undefined]);
  assert.equal(process.listenerCount('SIGHUP'), listeners);
});

const secretOf = (name: string) => `the-secret-that-is-${name}`;

test('a changed target of a symbolic link, as on Kubernetes, is detected', async () => {
  const storage = await migratedStorage('embedded');
  const file = settingsFile('');
  const folder = join(dirname(file.path), 'mounted');
  for (const name of ['a', 'b']) mkdirSync(join(folder, name), { recursive: true });
  const inside = (name: string) =>
    settingsFile({ partners: { inbound_leads: { secrets: [secretOf(name)] } } }).path;
  symlinkSync(inside('first'), join(folder, 'a/config.yaml'));
  symlinkSync(inside('second'), join(folder, 'b/config.yaml'));
  symlinkSync('a', join(folder, '..data'));
  symlinkSync('..data/config.yaml', join(folder, 'config.yaml'));
  const service = await serve({
    ...patient,
    ...storage.environment,
    CRM_CONFIG: join(folder, 'config.yaml'),
  });
  try {
    const opens = async (secret: string) => {
      const headers = { 'x-inbound-secret': secretOf(secret) };
      return (await service.call('POST /webhooks/inbound-leads', { body: {}, headers })).status === 400;
    };
    assert.ok(await opens('first'));
    symlinkSync('b', join(folder, '..data_new'));
    renameSync(join(folder, '..data_new'), join(folder, '..data'));
    await until(() => opens('second'), 'take the second');
  } finally {
    await service.kill();
    await storage.remove();
  }
});

test('a service with an invalid file fails to start with the reason', async () => {
  const storage = await migratedStorage('embedded');
  const file = settingsFile('inbox: { attempts: many }');
  const { code, stdout, stderr } = await start(['serve'], { ...storage.environment, ...file.environment })
    .ended;
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /config\.yaml:1:20 {2}attempts must be an integer, not "many"/);
  await storage.remove();
});
