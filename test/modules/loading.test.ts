// Modules in config.yaml: errors with their locations, and an instance with the module of docs/modules.md.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { configInForce } from '../../app/commands/config-command.ts';
import { buildProgram } from '../../app/commands/program.ts';
import { loadConfig, readConfig } from '../../app/config.ts';
import { fileOfModule, readModuleFiles } from '../../app/load-modules.ts';
import { moduleIssues } from '../../app/module-shape.ts';
import { servedModules } from '../../app/modules.ts';
import { createTestInstance } from '../../app/test-instance.ts';
import { readSettings } from '../../webhooks/settings/load.ts';
import { runCommand } from '../support/command-line.ts';
import { onBothDrivers, temporaryFolder } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { assertRefused, crm, project, until } from '../support/process.ts';

const folder = temporaryFolder();
after(folder.remove);

/** Writes files, and returns the environment of an instance with them. */
function write(name: string, files: Readonly<Record<string, string>>): { CRM_CONFIG: string } {
  const all = { 'package.json': '{ "type": "module" }', ...files };
  for (const [path, text] of Object.entries(all)) {
    const file = join(folder.path, name, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  return { CRM_CONFIG: join(folder.path, name, 'config.yaml') };
}

/** Returns the text of a module with this body. */
const moduleOf = (body: string): string =>
  `import { defineModule, defineModuleTable, identity, textVariable } from 'crm-engine';\nexport default defineModule({ ${body} } as never);\n`;

/** Files of an instance with one module. */
const withModule = (text: string, config = 'modules: [./acme.ts]\n') => ({
  'config.yaml': config,
  'acme.ts': text,
});

/** A channel that does nothing. */
const channel = `{ label: 'P', secretLabel: 'K', secretHelp: 'H.', accepts: /json/, bodyLimit: 1000, reply: { type: 'text/plain', body: '' }, verify: () => false, events: () => [], process: async () => {} }`;

const failing: Readonly<Record<string, readonly [files: Readonly<Record<string, string>>, message: RegExp]>> =
  {
    'a missing file': [
      { 'config.yaml': 'modules:\n  - ./acm.ts\n', 'acme.ts': '' },
      /config\.yaml:2:5 {2}"\.\/acm\.ts" does not exist\. Did you mean "acme\.ts"\?$/,
    ],
    'a file of another kind': [
      { 'config.yaml': 'modules: [./acme.py]\n' },
      /config\.yaml:1:11 {2}"\.\/acme\.py" must be a JavaScript or TypeScript file \(\.ts, \.mts, \.js, \.mjs\)$/,
    ],
    'a missing package': [
      { 'config.yaml': 'modules: [crm-acme]\n' },
      /config\.yaml:1:11 {2}the package "crm-acme" is not installed in \S+\. Install it, or write "\.\/crm-acme" for a file\.$/,
    ],
    'no default export': [
      withModule('export const a = 1;\n'),
      /acme\.ts: has no default export\. Write "export default defineModule\(\{ … \}\)"\.$/,
    ],
    'another default export': [
      withModule("export default { name: 'acme' };\n"),
      /acme\.ts: the default export was not created by defineModule\./,
    ],
    'a syntax error in TypeScript': [
      withModule('const a: number = 1;\nexport default {\n  x: = a,\n};\n'),
      /acme\.ts:3:6: Expression expected$/,
    ],
    'a syntax error in JavaScript': [
      {
        'config.yaml': 'modules: [./acme.js]\n',
        'acme.js': 'const a = 1;\nexport default {\n  x: = a,\n};\n',
      },
      /acme\.js:3:6: Unexpected token '='$/,
    ],
    'syntax that cannot be removed': [
      withModule('\n  enum Color { Red }\nexport default Color;\n'),
      /acme\.ts:2:3: TypeScript enum is not supported in strip-only mode\. Node\.js only removes types\./,
    ],
    'an exception': [
      withModule("const f = () => {\n  throw new Error('no license\\nmore');\n};\nf();\n"),
      /acme\.ts:2:9: failed to load: no license$/,
    ],
    'an exception that is not an error': [
      withModule("throw 'no license';\n"),
      /acme\.ts: failed to load: no license$/,
    ],
    'a missing import': [
      withModule("import './missing.ts';\n"),
      /acme\.ts: Cannot find module '\S+missing\.ts' imported from \S+acme\.ts$/,
    ],
    'an unknown key': [
      withModule(moduleOf("name: 'acme', registre: () => {}")),
      /acme\.ts: registre: unknown key\. Did you mean "register"\?$/,
    ],
    'values of the wrong type': [
      withModule(moduleOf("name: 'Acme', register: 1, tables: [{}], checks: [{ name: 'x', needs: [] }]")),
      /acme\.ts: name: must be lowercase words separated by "-", with at most 30 characters\n\S+acme\.ts: register: must be a function\n\S+acme\.ts: tables\[0\]: must be a table \(EntitySchema\)\n\S+acme\.ts: checks\[0\]\.run: is missing$/,
    ],
    'a schedule that is not valid': [
      withModule(
        moduleOf(
          "name: 'acme', actions: { leads: { night: { description: 'D.', job: true, ofCollection: true, schedule: '99 3 * * *', timeZone: 'Berlin', run: () => {} } } }",
        ),
      ),
      /acme\.ts: actions\.leads\.night\.schedule: must be a cron expression with five fields, for example "0 2 \* \* \*": Invalid value for minute: 99\n\S+acme\.ts: actions\.leads\.night\.timeZone: must be a time zone, for example "Europe\/Berlin"$/,
    ],
    'values out of range in actions, hooks, channels and responses': [
      withModule(
        moduleOf(`name: 'acme', settings: 5, isDivisible: false, responses: { headers: {}, errors: [] }, needs: [{}], hooks: { leads: { beforeWrite: {}, onWrite: () => {} } },
          actions: { leads: { a: { description: '', job: false, maxMinutes: 0, permission: 'write', input: [] }, b: { description: 'B.', maxMinutes: 1441, permission: 'own', run: () => {} }, c: { description: 'C.', maxMinutes: 1440, run: () => {} } } },
          channels: { pager: { ...${channel}, bodyLimit: 10485761, senders: 'fax', handshake: 1, signsUrl: false, accepts: /a/y, reply: { type: 'text/plain' }, simulation: {} } }`),
      ),
      new RegExp(
        [
          'settings: must be an object or a function',
          'isDivisible: must be true',
          'responses\\.errors: must be an object',
          'responses\\.isEnabled: is missing',
          'needs\\[0\\]\\.resource: is missing',
          'hooks\\.leads\\.beforeWrite: must be a function',
          'hooks\\.leads\\.onWrite: unknown key.*',
          'actions\\.leads\\.a\\.description: must be a text',
          'actions\\.leads\\.a\\.job: must be true',
          'actions\\.leads\\.a\\.maxMinutes: must be a whole number between 1 and 1440',
          'actions\\.leads\\.a\\.permission: must be read, create, update, delete or own',
          'actions\\.leads\\.a\\.input: must be an object',
          'actions\\.leads\\.a\\.run: is missing',
          'actions\\.leads\\.b\\.maxMinutes: must be a whole number between 1 and 1440',
          'channels\\.pager\\.accepts: must be a regular expression without the flags g and y',
          'channels\\.pager\\.bodyLimit: must be a number of bytes between 1 and 10485760',
          'channels\\.pager\\.reply\\.body: is missing',
          'channels\\.pager\\.senders: must be phone or email',
          'channels\\.pager\\.handshake: must be true or false',
          'channels\\.pager\\.signsUrl: must be true',
          ...['contentType', 'eventId', 'body', 'sign'].map(
            (key) => `channels\\.pager\\.simulation\\.${key}: is missing`,
          ),
        ]
          .map((issue) => `\\S+acme\\.ts: ${issue}`)
          .join('\n')
          .concat('$'),
      ),
    ],
    'no name': [withModule(moduleOf('register: () => {}')), /acme\.ts: name: is missing$/],
    'the name of a module of the engine': [
      withModule(moduleOf("name: 'teams'")),
      /acme\.ts: name: "teams" is the name of one of the engine's modules\. Choose another name\.$/,
    ],
    'the name of a setting': [
      withModule(moduleOf("name: 'mail'")),
      /acme\.ts: name: "mail" is the name of one of the engine's/,
    ],
    'a name twice': [
      {
        'config.yaml': 'modules: [./acme.ts, ./other.ts]\n',
        'acme.ts': moduleOf("name: 'acme'"),
        'other.ts': moduleOf("name: 'acme'"),
      },
      /other\.ts: name: "acme" is also the name of \S*acme\.ts$/,
    ],
    'a table with another name': [
      withModule(moduleOf("name: 'acme-visits', tables: [defineModuleTable('visits', { id: identity })]")),
      /acme\.ts: tables\[0\]: the name of the table "visits" must be crm_acme_visits or start with crm_acme_visits_$/,
    ],
    'a table whose name continues the name of the module': [
      withModule(moduleOf("name: 'acme', tables: [defineModuleTable('crm_acmes', { id: identity })]")),
      /acme\.ts: tables\[0\]: the name of the table "crm_acmes" must be crm_acme or start with crm_acme_$/,
    ],
    'a table of another module': [
      {
        'config.yaml': 'modules: [./acme.ts, ./other.ts]\n',
        'acme.ts': moduleOf("name: 'acme', tables: [defineModuleTable('crm_acme_visits', { id: identity })]"),
        'other.ts': moduleOf(
          "name: 'acme-visits', tables: [defineModuleTable('crm_acme_visits', { id: identity })]",
        ),
      },
      /^\S*other\.ts: tables\[0\]: the table "crm_acme_visits" already belongs to the module acme$/,
    ],
    'a table of the engine': [
      withModule(moduleOf("name: 'api', tables: [defineModuleTable('crm_api_keys', { id: identity })]")),
      /acme\.ts: tables\[0\]: the table "crm_api_keys" already belongs to the module api-keys$/,
    ],
    'a variable of the engine': [
      withModule(moduleOf("name: 'acme', variables: { port: textVariable('PORT', '') }")),
      /acme\.ts: variables\.port: PORT is one of the engine's variables\. Choose another name\.$/,
    ],
    'a channel of the engine': [
      withModule(moduleOf(`name: 'acme', channels: { telegram: ${channel} }`)),
      /acme\.ts: channels\.telegram: the channel already belongs to the module inbox\. Choose another name\.$/,
    ],
    'a channel of another module': [
      {
        'config.yaml': 'modules: [./acme.ts, ./other.ts]\n',
        'acme.ts': moduleOf(`name: 'acme', channels: { pager: ${channel} }`),
        'other.ts': moduleOf(`name: 'other', channels: { pager: ${channel} }`),
      },
      /other\.ts: channels\.pager: the channel already belongs to the module acme\. Choose another name\.$/,
    ],
    'reserved names of channels': [
      withModule(
        moduleOf(
          `name: 'acme', channels: { log: ${channel}, 'inbound-leads': ${channel}, 'a-payment': ${channel} }`,
        ),
      ),
      /channels\.log: the name is reserved\. Choose another name\.\n.*channels\.inbound-leads: the name is reserved.*\n.*channels\.a-payment: the name is reserved/,
    ],
    'a channel with the wrong shape': [
      withModule(
        moduleOf(
          "name: 'acme', channels: { Pager_1: { label: 'P', accepts: /a/g, bodyLimit: 0, verfy: () => true } }",
        ),
      ),
      /channels\.Pager_1\.accepts: must be a regular expression without the flags g and y\n.*bodyLimit: must be a number of bytes between 1 and 10485760\n.*verfy: unknown key\. Did you mean "verify"\?\n[\s\S]*channels\.Pager_1\.events: is missing[\s\S]*channels\.Pager_1: the name must be lowercase words/,
    ],
    'settings that are not a schema': [
      withModule(moduleOf("name: 'acme', settings: { type: 'objekt' }")),
      /acme\.ts: settings: is not a valid JSON Schema: /,
    ],
  };

describe('loading fails with one line and a location for', () => {
  for (const [name, [files, message]] of Object.entries(failing)) {
    test(name, async () => {
      await assert.rejects(loadConfig(write(name.replaceAll(' ', '-'), files)), {
        name: /^(?:User|Yaml)Error$/,
        message,
      });
    });
  }
});

test('every part of a module without its required keys is reported', () => {
  const parts = {
    ...{ name: 'acme', variables: { source: {} }, needs: [{}], checks: [{}], responses: {} },
    ...{ actions: { leads: { night: {} } }, channels: { pager: { reply: {}, simulation: {} } } },
  };
  const required = {
    'variables.source': ['name', 'read', 'expected'],
    'needs[0]': ['resource'],
    'checks[0]': ['name', 'needs', 'run'],
    responses: ['headers', 'errors', 'isEnabled'],
    'actions.leads.night': ['description', 'run'],
    'channels.pager.reply': ['type', 'body'],
    'channels.pager.simulation': ['contentType', 'eventId', 'body', 'sign'],
    'channels.pager': [
      ...['label', 'secretLabel', 'secretHelp', 'accepts', 'bodyLimit'],
      ...['verify', 'events', 'process'],
    ],
  };
  assert.deepEqual(
    moduleIssues(parts),
    Object.entries(required).flatMap(([path, keys]) => keys.map((key) => `${path}.${key}: is missing`)),
  );
});

test('names and limits of modules are valid up to their bounds', () => {
  const action = { description: 'D.', run: () => {} };
  const own = {
    ...{ label: 'P', secretLabel: 'K', secretHelp: 'H.', accepts: /json/, verify: () => false },
    ...{ events: () => [], process: () => {}, reply: { type: 'text/plain', body: '' } },
  };
  const longest = 'a'.repeat(30);
  const valid = {
    name: longest,
    actions: { leads: { a: { ...action, maxMinutes: 1 }, b: { ...action, maxMinutes: 1440 } } },
    channels: { [longest]: { ...own, bodyLimit: 1 }, 'a1-b2': { ...own, bodyLimit: 10_485_760 } },
    register: undefined,
  };
  assert.deepEqual(moduleIssues(valid), []);
  for (const name of [`${longest}a`, 'a--b', 'a-', '-a', '1a', 'a_b', '']) {
    const issues = moduleIssues({ name, channels: { [name]: { ...own, bodyLimit: 1 } } });
    assert.deepEqual(
      issues.map((issue) => issue.split(': ')[0]),
      ['name', `channels.${name}`],
      name,
    );
  }
});

test('the files of modules are relative to config.yaml, and include the files next to them', async () => {
  for (const [specifier, file] of [
    ['./b.ts', '/a/b.ts'],
    ['../b.ts', '/b.ts'],
    ['/c/b.ts', '/c/b.ts'],
    ['crm-acme', undefined],
    ['.hidden/b.ts', undefined],
  ] as const)
    assert.equal(fileOfModule('/a/config.yaml', specifier), file, specifier);
  const environment = write('beside', {
    'config.yaml': 'modules: [./modules/acme.ts, ./modules/more.ts, ./gone/none.ts]\n',
    'modules/acme.ts': 'the module',
    'modules/helper.mjs': 'the helper',
    'modules/acme.test.ts': 'the test',
    'modules/notes.md': 'the notes',
    'other.ts': 'another file',
  });
  const { folders, text } = await readModuleFiles(readConfig(environment));
  assert.deepEqual(folders, [join(folder.path, 'beside/modules')]);
  assert.deepEqual(
    ['the module', 'the helper', 'the test', 'the notes', 'another file'].map((part) => text.includes(part)),
    [true, true, false, false, false],
  );
});

const schema = `{ type: 'object', additionalProperties: false, required: ['url'], properties: { url: { type: 'string' }, limit: { type: 'integer', minimum: 1 } } }`;

describe('the settings of a module', () => {
  const read = async (config: string) =>
    readSettings(
      await loadConfig({
        ...write('settings', withModule(moduleOf(`name: 'acme', settings: ${schema}`), config)),
        ACME_URL: 'https://acme.example',
      }),
    );

  test('are checked, and can refer to variables', async () => {
    const settings = await read('modules: [./acme.ts]\nacme: { url: "${ACME_URL}", limit: 5 }\n');
    assert.deepEqual((settings as unknown as { acme: unknown }).acme, {
      url: 'https://acme.example',
      limit: 5,
    });
  });

  test('are rejected with their location', async () => {
    await assert.rejects(read('modules: [./acme.ts]\nacme:\n  ulr: x\n  limit: 0\n'), {
      message:
        /config\.yaml:3:3 {2}unknown key "ulr"\. Did you mean "url"\?\n.*:4:10 {2}limit must be at least 1$/,
    });
    await assert.rejects(read('modules: [./acme.ts]\nacmee: { url: x }\n'), {
      message: /unknown key "acmee"\. Did you mean "acme"\?/,
    });
    await assert.rejects(read('modules: [./acme.ts]\n'), {
      message: /config\.yaml:1:1 {2}the file needs "acme"$/,
    });
  });

  test('are shown by crm config, together with the variables', async () => {
    const config = await loadConfig({
      ...write(
        'shown',
        withModule(
          moduleOf(
            `name: 'acme', settings: ${schema}, variables: { source: textVariable('ACME_SOURCE', 'web') }`,
          ),
          'modules: [./acme.ts]\nacme: { url: here }\n',
        ),
      ),
      ACME_SUORCE: 'x',
    });
    const { text } = await configInForce(config);
    assert.match(text, /^acme\.url +here +\S+config\.yaml:2$/m);
    assert.match(text, /^ACME_SOURCE +web +default$/m);
    assert.match(text, /ACME_SUORCE is not a known variable\. Did you mean ACME_SOURCE\?/);
  });
});

test('instances with different modules can run in one process', async () => {
  const [one, two] = await Promise.all(
    ['one', 'two'].map((name) =>
      loadConfig(
        write(name, {
          'config.yaml': `modules: [./b.ts, ./a.js]\n`,
          'b.ts': moduleOf(`name: '${name}-b'`),
          'a.js': moduleOf(`name: '${name}-a'`).replace(' as never', ''),
        }),
      ),
    ),
  );
  const names = (config = readConfig({})) => servedModules(config, []).map(({ name }) => name);
  assert.deepEqual(names(one), [...names(), 'one-b', 'one-a']);
  assert.deepEqual(names(two), [...names(), 'two-b', 'two-a']);
});

test('packages are resolved from the instance, with a main export for require or only for import', async () => {
  const { CRM_CONFIG } = write('packages', {
    'package.json': '{ "type": "module", "dependencies": { "crm-engine": "*" } }',
    'config.yaml': 'modules: [acme-one, "@acme/two", acme-three]\n',
    'none.yaml': 'modules: [acme-none]\n',
    'node_modules/acme-none/package.json': '{ "name": "acme-none", "exports": { "./part": "./part.js" } }',
    'node_modules/acme-three/package.json':
      '{ "name": "acme-three", "type": "module", "exports": { "types": "./x.d.ts", "import": { "node": "./three.js" } } }',
    'node_modules/acme-three/three.js': moduleOf("name: 'three'").replace(' as never', ''),
    'node_modules/acme-one/package.json': '{ "name": "acme-one", "type": "module", "main": "index.js" }',
    'node_modules/acme-one/index.js': moduleOf("name: 'one'").replace(' as never', ''),
    'node_modules/@acme/two/package.json':
      '{ "name": "@acme/two", "type": "module", "exports": { ".": { "import": "./lib/two.js" } } }',
    'node_modules/@acme/two/lib/two.js': moduleOf("name: 'two'").replace(' as never', ''),
  });
  const previous = process.cwd();
  process.chdir(dirname(CRM_CONFIG));
  try {
    const { modules } = await loadConfig({ CRM_CONFIG });
    assert.deepEqual(
      modules.slice(-3).map(({ name }) => name),
      ['one', 'two', 'three'],
    );
    await assert.rejects(loadConfig({ CRM_CONFIG: CRM_CONFIG.replace('config.yaml', 'none.yaml') }), {
      message: /none\.yaml:1:11 {2}the package "acme-none" has no main export$/,
    });
  } finally {
    process.chdir(previous);
  }
});

/** Returns the files of the examples in docs/modules.md, keyed by path. */
const exampleFiles = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [
      ...readFileSync(join(project, 'docs/modules.md'), 'utf8').matchAll(
        /^```ts\n\/\/ (\S+)\n([\s\S]*?)^```$/gm,
      ),
    ].map(([, path = '', text = '']) => [path, text]),
  );

const example = write('example', {
  'config.yaml': 'modules: [./modules/visits.ts]\nvisits: { keep_days: 7 }\n',
  ...exampleFiles(),
});

test('a command of a module with the name of another command is reported', async () => {
  const text = moduleOf(
    "name: 'acme', commands: ({ program }: { program: { command: (name: string) => void } }) => program.command('serve')",
  );
  const { stdout, stderr } = await crm(['--help'], write('repeated-command', withModule(text)));
  assert.equal(stderr, 'crm: the command "serve" already exists. Rename the command of the module.\n');
  assert.match(stdout, /^ {2}serve /m);
});

test('a command of a module that cannot be loaded says why, and other unknown commands are unknown', async () => {
  const broken = write('broken-command', withModule('export const a = 1;\n'));
  for (const args of [
    ['visits', '--unknown', 'x'],
    ['visits', '--json'],
  ])
    assertRefused(await crm(args, broken), /acme\.ts: has no default export\./);
  const { code, stderr } = await crm(['visits'], write('no-command', withModule(moduleOf("name: 'acme'"))));
  assert.deepEqual([code, stderr.split('\n')[0]], [1, "error: unknown command 'visits'"]);
});

test('an unexpected error of a command is printed in one line', async () => {
  const text = moduleOf(
    "name: 'acme', commands: ({ program, run }) => program.command('fails').option('--json').action(({ json }) => run(json, Promise.reject(new Error('no license\\nmore'))))",
  );
  for (const options of [[], ['--json']])
    assertRefused(
      await crm(['fails', ...options], write('failing-command', withModule(text))),
      'unexpected error: no license',
    );
});

test('the help lists the commands of modules', async () => {
  const reviews = write('reviews', { 'config.yaml': 'modules: [./modules/reviews.ts]\n', ...exampleFiles() });
  const { code, stdout } = await crm(['--help'], reviews);
  assert.equal(code, 0);
  assert.match(stdout, /^ {2}reviews .* rate all leads without a rating as cold$/m);
  assert.match(stdout, /^ {2}serve /m);
});

onBothDrivers(
  'the module in docs/modules.md',
  (instance) => {
    const path = '/api/v1/visits';

    test('adds a route with the grants of its object, and a table', async () => {
      const organization = await instance().organization('visited');
      const { key } = organization;
      const send = (page: unknown, sender = key) =>
        instance().call(`POST ${path}`, { key: sender, body: { page } });
      assert.equal((await send('home')).status, 204);
      assert.equal((await send('home')).status, 204);
      assert.equal((await send('home', await organization.keyWith([]))).status, 403);
      assert.equal((await send(5)).json.code, 'invalid_input');
      assert.equal((await instance().call(`POST ${path}`, { body: { page: 'home' } })).status, 401);
    });

    test('reloads its settings, and logs that other modules need a restart', async () => {
      const { app } = instance();
      writeFileSync(example.CRM_CONFIG, 'modules: [./modules/visits.ts]\nvisits: { keep_days: 0 }\n');
      await until(() => app.settingsProblem() !== undefined, 'the settings are rejected');
      assert.match(
        String(app.settingsProblem()),
        /config\.yaml:2:1 {2}visits: keep_days must be a number of days$/,
      );
      writeFileSync(example.CRM_CONFIG, 'modules: [./modules/visits.ts]\n');
      await until(() => app.settingsProblem() === undefined, 'the settings are valid');
      await logged(async (lines) => {
        writeFileSync(example.CRM_CONFIG, 'modules: []\n');
        const message = 'the modules in config.yaml have changed. Restart the instance to load them.';
        await until(() => lines().some(({ msg }) => msg === message), 'log the change of modules');
      });
      writeFileSync(example.CRM_CONFIG, 'modules: [./modules/visits.ts]\n');
    });

    test('adds a command', async () => {
      const previous = process.env.CRM_CONFIG;
      process.env.CRM_CONFIG = example.CRM_CONFIG;
      try {
        const program = await buildProgram('visits');
        assert.ok(program.commands.some((command) => command.name() === 'visits'));
      } finally {
        if (previous === undefined) delete process.env.CRM_CONFIG;
        else process.env.CRM_CONFIG = previous;
      }
    });
  },
  { environment: { ...example, LOG_LEVEL: 'warn' } },
);

const scored = write('scored', {
  'config.yaml': 'modules: [./other.ts, ./scores.ts]\nscores: { points: 5 }\nother: { name: x }\n',
  'other.ts': moduleOf(
    "name: 'other', settings: { type: 'object', properties: { name: { type: 'string' } } }",
  ),
  'scores.ts': moduleOf(`
    name: 'scores',
    settings: { type: 'object', properties: { points: { type: 'integer' } } },
    variables: { label: textVariable('SCORES_LABEL', 'none') },
    hooks: {
      leads: {
        beforeWrite: ({ input, moduleSettings, variables }) =>
          input && { ...input, lead_score: moduleSettings().points, company: variables.label },
      },
    },
    metrics: ({ moduleSettings, variables, records }) => [{
      families: { crm_scores_points: { type: 'gauge', help: 'The points.' } },
      ofInstance: true,
      read: async (record) => record('crm_scores_points', moduleSettings().points, { label: variables.label, organizations: String((await records.organizations()).length > 0) }),
    }],
    pages: (screens, { moduleSettings, variables, records }) => {
      screens.get('/scores', async () => [moduleSettings().points, variables.label, (await records.organizations()).length > 0].join());
    },
    commands: ({ program, run, withInstance }) => program.command('points').action(() => run(undefined, withInstance(async ({ moduleSettings, variables, records }) => ({
      json: {}, text: [moduleSettings().points, variables.label, (await records.organizations()).length > 0].join(),
    })))),
    actions: {
      leads: { points: { description: 'Returns the points.', permission: 'read', run: ({ moduleSettings }) => ({ points: moduleSettings().points }) } },
    }`),
});

onBothDrivers(
  'hooks and actions receive the values of their module',
  (instance) => {
    test('in requests', async () => {
      const { key } = await instance().organization('acme');
      const { json, text } = await instance().call('POST /api/v1/leads', { key, body: { last_name: 'a' } });
      assert.deepEqual([json.lead_score, json.company], [5, 'VIP'], text);
      const action = await instance().call(`POST /api/v1/leads/${json.id}/actions/points`, { key });
      assert.deepEqual(action.json, { points: 5 });
    });

    test('in metrics and pages', async () => {
      await instance().organization('measured');
      const families = (await instance().app.collectMetrics?.(true)) ?? [];
      assert.deepEqual(families.find(({ name }) => name === 'crm_scores_points')?.values, [
        { value: 5, labels: { label: 'VIP', organizations: 'true' } },
      ]);
      assert.equal((await instance().call('GET /setup/scores')).text, '5,VIP,true');
    });

    test('in commands of modules', async () => {
      await instance().organization('counted');
      assert.equal((await runCommand(instance(), ['points'])).text, '5,VIP,true');
    });

    test('in commands, which read the settings themselves', async () => {
      const modules = (await loadConfig({ ...scored, SCORES_LABEL: 'VIP' })).modules;
      const { hooks } = modules.find(({ name }) => name === 'scores') ?? assert.fail('no module');
      const result = await hooks?.leads?.beforeWrite?.({ input: { last_name: 'b' } } as never);
      assert.deepEqual(result, { last_name: 'b', lead_score: 5, company: 'VIP' });
    });
  },
  { environment: { ...scored, SCORES_LABEL: 'VIP', ADMIN_PORT: '0' } },
);

test('a test instance has the sections of config.yaml that it receives', async () => {
  const environment = { ...scored, SCORES_LABEL: 'VIP' };
  await assert.rejects(createTestInstance(environment, { scores: { points: 'x' } }), ({ message }: Error) => {
    const [, file = ''] =
      /^(\S+config\.yaml):5:11 {2}points must be an integer, not "x"$/.exec(message) ?? assert.fail(message);
    assert.ok(!existsSync(dirname(file)), 'its folder is deleted');
    return true;
  });
  const instance = await createTestInstance(environment, { scores: { points: 7 } });
  try {
    const answer = await instance.call('POST /api/v1/leads', { body: { last_name: 'a' } });
    assert.equal(answer.status, 201, answer.text);
    const access = instance.records.asSystem(instance.organization, 'test');
    const [lead] = await access.find('leads', { where: { last_name: 'a' } });
    assert.deepEqual([lead?.lead_score, lead?.company], [7n, 'VIP']);
  } finally {
    await instance.close();
  }
  assert.ok(!existsSync(dirname(instance.config.dataFolder)), 'its folder is deleted');
});

test('pages of modules whose place in the setup is not valid stop the start', async () => {
  const messages = {
    "name: 'keys'": 'the setup already has the page "keys". Choose another name for the page of the module.',
    "name: 'mine', group: 'Dta'": 'page mine: group must be one of Access, Integrations, Data, Organization',
    "name: 'mine', icon: 'tarjet'": /^page mine: icon must be one of activity, .*, x$/,
  };
  for (const [index, [place, message]] of Object.entries(messages).entries()) {
    const page = `{ ${place}, title: 'Mine', load: async () => ({}), actions: {} }`;
    const text = moduleOf(
      `name: 'acme', pages: (screens: never, { database }: never) => section(screens, database, ${page} as never)`,
    ).replace('import { ', 'import { section, ');
    const started = createTestInstance(write(`page-${index}`, withModule(text)));
    await assert.rejects(started, { message });
  }
});
