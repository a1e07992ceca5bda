// Behavior shared by all commands: help, one JSON object with --json, completion, and the launcher in bin/.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import type { Command, CommandUnknownOpts } from '@commander-js/extra-typings';
import {
  helpFooter,
  isAnsweredByReference,
  referenceProgram,
  referenceText,
} from '../../app/commands/cli-reference.ts';
import { examples } from '../../app/commands/examples.ts';
import { buildProgram } from '../../app/commands/program.ts';
import { drivers, temporaryFolder } from '../support/instance.ts';
import { ownFiles } from '../support/own-files.ts';
import {
  apart,
  assertRefused,
  commandLine,
  crm,
  crmJson,
  crmTable,
  emptyStorage,
  migratedStorage,
  project,
  type Storage,
  start,
  until,
} from '../support/process.ts';
import { patient } from '../support/promised.ts';

/** Every command, with the strings that its help must contain. */
const commands: Readonly<Record<string, readonly string[]>> = {
  '': [
    'serve',
    'migrate',
    'check',
    'schema',
    'config',
    'openapi',
    'asyncapi',
    'docs',
    'client',
    'types',
    'citus',
    'org',
    'user',
    'profile',
    'key',
    '--version',
  ],
  serve: ['--json'],
  migrate: ['--create <name>', '--status', '--allow-drop <names...>', '--using <field=sql>', '--json'],
  plan: ['--check', '--markdown', '--offline', '--allow-drop <names...>', '--json'],
  check: ['--plans', '--json'],
  schema: ['--json'],
  config: ['--show', '--json'],
  openapi: ['--version <version>', '--json'],
  asyncapi: ['--json'],
  docs: ['--json'],
  client: ['--output <folder>', '--url <url>', '--json'],
  types: ['--output <file>', '--json'],
  connector: ['airbyte', 'n8n'],
  'connector airbyte': ['--json'],
  'connector n8n': ['--name <name>', '--output <folder>', '--json'],
  mcp: ['CRM_API_KEY', '--url <origin>', '--json'],
  citus: ['--json'],
  org: ['list', 'create', 'rename', 'phone-region', 'export', 'delete'],
  'org rename': ['<slug>', '--name <name>', '--slug <slug>', '--json'],
  'org export': ['<slug> [file]', '--force', '--json'],
  'org delete': ['<slug>', '--yes <slug>', '--json'],
  'org create': ['<slug>', '--name <name>', '--json'],
  user: ['create'],
  'user create': ['<email>', '--org <slug>', '--profile <name>', '--password-stdin', '--json'],
  profile: ['list', 'show', 'test', 'create', 'grant', 'revoke', 'delete'],
  'profile grant': ['<name> <grants...>', '--org <slug>', '--json'],
  'profile revoke': ['<name> <grants...>', '--org <slug>', '--json'],
  'profile create': ['<name>', '--org <slug>', '--grant <grants...>', '*:list,read', '--json'],
  team: ['list', 'create', 'rename', 'delete', 'add', 'remove'],
  'team rename': ['<name> <new-name>', '--org <slug>', '--json'],
  'team add': ['<name> <users...>', '--org <slug>', '--json'],
  key: ['create', 'list', 'revoke', 'rotate'],
  'key rotate': ['<id>', '--org <slug>', '--overlap <hours>', '--json'],
  'key create': [
    ...['--org <slug>', '--profile <name>', '--name <name>', '--on-behalf-of <user>'],
    ...['--expires <time>', '--json'],
  ],
  'key list': ['--org <slug>', '--json'],
  'key revoke': ['<id>', '--org <slug>', '--json'],
  partners: ['501', '--json'],
  inbox: ['list', 'show', 'replay'],
  'inbox list': ['--org <slug>', '--status <state>', '--limit <n>', '--json'],
  'inbox show': ['<id>', '--org <slug>', '--json'],
  'inbox replay': ['<id>', '--org <slug>', '--json'],
  subscription: ['list', 'create', 'on', 'off', 'rotate', 'test', 'delete', 'replay'],
  'subscription list': ['--org <slug>', '--json'],
  'subscription create': [
    '<url>',
    '--org <slug>',
    '--resources <names...>',
    '--profile <name>',
    '--actions',
    '--filter',
    '--json',
  ],
  'subscription on': ['<id>', '--org <slug>', '--json'],
  'subscription off': ['<id>', '--org <slug>', '--json'],
  'subscription rotate': ['<id>', '--org <slug>', '--json'],
  'subscription test': ['<id>', '--org <slug>', '--json'],
  'subscription delete': ['<id>', '--org <slug>', '--json'],
  'subscription replay': ['<id>', '--org <slug>', '--from <delivery>', '--to <delivery>', '--json'],
  delivery: ['list', 'show', 'replay'],
  'delivery list': ['--org <slug>', '--status <state>', '--limit <n>', '--json'],
  'delivery show': ['<id>', '--org <slug>', '--json'],
  'delivery replay': ['<id>', '--org <slug>', '--json'],
  simulate: ['<provider>', 'whatsapp', '--url <origin>', '--secret-stdin', '--burst <n>', '--json'],
};

const resources = ['accounts', 'cases', 'contacts', 'leads', 'opportunities'];
const launcher = { program: [join(project, 'bin/crm.js')] };

describe('--help', () => {
  // An unreachable database, because help must not need one.
  const nowhere = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing' };
  crmTable(
    Object.entries(commands).map(
      ([command, texts]) => [`crm ${command}`.trim(), { command, texts }] as const,
    ),
    ({ command }) => [[...command.split(' ').filter(Boolean), '--help'], nowhere],
    ({ code, stdout, stderr }, { command, texts }) => {
      assert.deepEqual([code, stderr], [0, '']);
      assert.ok(stdout.startsWith(`Usage: crm ${command}`.trim()), stdout);
      for (const text of texts) assert.ok(stdout.includes(text), `${text} in ${stdout}`);
    },
  );
});

describe('the commands', async () => {
  const leaves = (
    command: CommandUnknownOpts,
    words: readonly string[] = [],
  ): [string, CommandUnknownOpts][] => [
    // A command with arguments of its own can also have commands.
    ...(command.commands.length === 0 || command.registeredArguments.length > 0
      ? ([[words.join(' '), command]] satisfies [string, CommandUnknownOpts][])
      : []),
    ...command.commands.flatMap((child) => leaves(child, [...words, child.name()])),
  ];
  const program = await buildProgram();
  const all = new Map(leaves(program));

  test('app/commands/cli-reference.json is up to date: npm run cli-reference', () => {
    const stored = readFileSync(join(project, 'app/commands/cli-reference.json'), 'utf8');
    assert.ok(referenceText(program) === stored);
  });

  test('only help, the version and completion are printed without the code of the commands', () => {
    for (const words of [
      '',
      'help',
      'help org',
      '-V',
      '--version',
      'completion bash',
      'org -h',
      'org list --help',
    ])
      assert.ok(isAnsweredByReference(words.split(' ').filter(Boolean)), words);
    for (const words of ['serve', 'org list', 'openapi --version 3.2', 'export leads -- --help'])
      assert.ok(!isAnsweredByReference(words.split(' ')), words);
  });

  test('help from the CLI reference equals the help printed by the commands', () => {
    const helpOf = (line: CommandUnknownOpts) =>
      leaves(line).map(([, leaf]) => `${leaf.helpInformation()}${helpFooter(leaf)}`);
    assert.deepEqual(helpOf(referenceProgram('1')), helpOf(program));
  });

  test('building a program for one command returns the same command as the full program', async () => {
    for (const command of program.commands) {
      const { commands: loaded } = await buildProgram(command.name());
      const same = loaded.find((candidate) => candidate.name() === command.name());
      assert.ok(same !== undefined, command.name());
      assert.equal(referenceText(same as Command), referenceText(command as Command), command.name());
    }
    const served = await buildProgram('serve');
    assert.deepEqual(
      served.commands.map((command) => command.name()),
      ['serve', 'completion'],
    );
  });

  test('each command has examples, which use only its options, all mandatory ones, and existing states', () => {
    assert.deepEqual(
      Object.keys(examples).filter((path) => !all.has(path)),
      [],
    );
    for (const [path, command] of all) {
      const [, shown = ''] = stripVTControlCharacters(helpFooter(command)).split('Examples:\n');
      const options = command.options.map(({ long }) => long);
      assert.notEqual(shown, '', `${path} has examples, in app/commands/examples.ts or in its own file`);
      for (const line of shown.trimEnd().split('\n')) {
        assert.ok(line.startsWith(`  crm ${path}`), line);
        for (const [option] of line.replace(/ # .*/, '').matchAll(/--[a-z-]+/g)) {
          assert.ok(options.includes(option), `${option} in ${line}`);
        }
        for (const { long, mandatory } of command.options) {
          if (mandatory) assert.ok(line.includes(` ${long} `), `${long} in ${line}`);
        }
        const [, state] = /--status (\S+)/.exec(line) ?? [];
        const status = command.options.find(({ long }) => long === '--status');
        const states = (status?.description ?? '').replace(/\(.*?\)/g, '').match(/\w+/g);
        if (state !== undefined) assert.ok(states?.includes(state), line);
      }
    }
  });

  test('help is quick, because it loads few modules', async () => {
    const counting = `import { registerHooks } from 'node:module';
      let count = 0;
      registerHooks({ load(url, context, next) { if (!url.startsWith('node:')) count++; return next(url, context); } });
      process.on('exit', () => console.error(count));`;
    const program = ['--import', `data:text/javascript,${counting}`, join(project, 'app/main.ts')];
    const { stdout, stderr } = await crm(['org', 'delete', '--help'], {}, { program });
    assert.match(stdout, /^Usage: crm org delete .*\n {2}crm org delete acme --yes acme/s);
    assert.ok(Number(stderr) > 5 && Number(stderr) < 40, `${stderr} modules`);
  });

  test('output is colored only on terminals or with FORCE_COLOR', async () => {
    const outputs = await Promise.all(
      [{}, { FORCE_COLOR: '1' }].map(async (environment) => {
        const help = await crm(['org', '--help'], environment, apart);
        const refused = await crm(['import', 'x', '-', '--org', 'x'], environment, apart);
        return `${help.stdout.split('crm')[0]}${refused.stderr}`;
      }),
    );
    const message = 'cannot detect the format. Pass --format csv or ndjson.\n';
    const [bold, red, plain, black] = [1, 31, 22, 39].map((code) => `\u001b[${code}m`);
    assert.deepEqual(outputs, [
      `Usage: crm: ${message}`,
      `${bold}Usage:${plain} ${red}crm:${black} ${message}`,
    ]);
  });

  for (const [name, args, error] of [
    ['a missing argument', ['org', 'create'], "missing required argument 'slug'"],
    [
      'an unknown option',
      ['org', 'create', 'x', '--nmae', 'y'],
      "unknown option '--nmae'\n(Did you mean --name?)",
    ],
    [
      'an invalid value',
      ['import', 'leads', '-', '--org', 'x'],
      'cannot detect the format. Pass --format csv or ndjson.',
    ],
  ] as const) {
    test(`--json: ${name} prints one JSON object to standard error`, async () => {
      const { code, stdout, stderr } = await crm([...args, '--json'], {});
      assert.deepEqual([code, stdout, JSON.parse(stderr)], [1, '', { error }]);
    });
  }

  test('bash completes commands, options and their values', async () => {
    const script = (await crm(['completion', 'bash'], {})).stdout;
    const complete = (line: string): readonly string[] => {
      const words = line.split(' ');
      const completion = `${script}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _crm; printf '%s\\n' "\${COMPREPLY[@]}"`;
      return execFileSync('bash', ['-c', completion], { encoding: 'utf8' }).trim().split('\n');
    };
    assert.deepEqual(complete('crm or'), ['org']);
    assert.deepEqual(complete('crm org '), [
      'list',
      'create',
      'rename',
      'phone-region',
      'export',
      'delete',
      '--help',
    ]);
    assert.deepEqual(complete('crm org delete acme --'), ['--yes', '--json', '--help']);
    assert.deepEqual(complete('crm export x --format '), ['csv', 'ndjson']);
    assert.deepEqual(complete('crm completion '), ['bash', 'zsh', 'fish', '--help']);
    // If the script has no completions, the shell completes file names.
    assert.deepEqual(complete('crm export x --org '), ['']);
  });

  for (const shell of ['zsh', 'fish']) {
    const has = spawnSync(shell, ['--version']).status === 0;
    test(`${shell} accepts its completion script`, {
      skip: !has && `${shell} is not installed`,
    }, async () => {
      const { stdout } = await crm(['completion', shell], {});
      const folder = temporaryFolder();
      const file = join(folder.path, 'completion');
      writeFileSync(file, stdout);
      execFileSync(shell, ['-n', file]);
      const completion = `source ${file}; complete -C 'crm org de'; complete -C 'crm export x --format '`;
      if (shell === 'fish') {
        const output = execFileSync(shell, ['--no-config', '-c', completion], { encoding: 'utf8' });
        assert.match(output, /^delete\t[^\n]+\ncsv\b[^\n]*\nndjson\b/);
      }
      folder.remove();
    });
  }
});

test('a reader that closes the output early does not fail the command', () => {
  const command = [process.execPath, ...commandLine].map((word) => `'${word}'`).join(' ');
  const script = `set -o pipefail; ${command} openapi | head -c 1`;
  const { status, stdout, stderr } = spawnSync('bash', ['-c', script], { cwd: project, encoding: 'utf8' });
  assert.deepEqual([status, stdout, stderr], [0, '{', '']);
});

describe('commands for definitions and migrations', () => {
  let storage: Storage;
  before(async () => {
    storage = await emptyStorage('postgresql');
  });
  after(() => storage.remove());
  const nowhere = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing' };

  test('check, doctor and migrate --create report what a module needs, and doctor a missing migration', async () => {
    const own = ownFiles();
    const report = async (...args: string[]) => {
      const { code, stdout, stderr } = await crm(args, { ...nowhere, ...own.environment });
      assert.equal(code, 1, args.join(' '));
      return stdout + stderr;
    };
    try {
      own.edit('leads', '  email: {', '  nickname: { type: string }\n  email: {');
      assert.match(await report('doctor'), /have changes without a migration/);
      own.edit(
        'leads',
        'lookup: exact, description: "Meta\'s ID of the lead',
        'description: "Meta\'s ID of the lead',
      );
      for (const args of [['check'], ['doctor'], ['migrate', '--create', 'nickname']])
        assert.match(await report(...args), /first remove the integration that needs it/, args.join(' '));
    } finally {
      own.remove();
    }
  });

  test('check needs no database', async () => {
    const off = (name: string, variable: string) => `${name} is off (501): ${variable} is not set`;
    const { notes, ...rest } = await crmJson(['check'], nowhere);
    assert.deepEqual(rest, { ok: true, resources, payments: [] });
    assert.deepEqual(
      (notes as string[]).map((note) => note.replace(/^\S*config\.yaml:\S+ {2}/, '')),
      [off('inbound_leads', 'INBOUND_SECRET'), off('booking_forms_whatsapp', 'BOOKING_FORMS_WHATSAPP_TOKEN')],
    );
    const { code, stdout } = await crm(['check'], nowhere, apart);
    assert.equal(code, 0);
    assert.match(
      stdout,
      /^5 resources are valid and fully migrated: accounts, cases, contacts, leads, opportunities\n.*config\.yaml is valid\.\n(Note: .* is off \(501\): \w+ is not set\n){2}$/,
    );
  });

  test('docs prints the resources as Markdown without a database', async () => {
    const { markdown } = await crmJson(['docs'], nowhere);
    const { stdout } = await crm(['docs'], nowhere);
    assert.equal(stdout, `${markdown}\n`);
    for (const resource of resources) assert.ok(stdout.includes(`/api/v1/${resource}\``), resource);
  });

  test('migrate reports a nonexistent database', async () => {
    const url = new URL(String(storage.environment.DATABASE_URL));
    url.pathname = '/nope';
    assertRefused(
      await crm(['migrate'], { DATABASE_URL: String(url) }),
      /^crm: the database at \S+\/nope does not exist: create it, or correct DATABASE_URL \(.*\)\n$/,
    );
  });

  test('openapi --version 3.2 and asyncapi print descriptions without a database', async () => {
    assert.equal((await crmJson(['openapi', '--version', '3.2'], nowhere)).openapi, '3.2.0');
    assert.equal((await crmJson(['asyncapi'], nowhere)).asyncapi, '3.0.0');
    assert.match(
      (await crm(['openapi', '--version', '4'], nowhere)).stderr,
      /Allowed choices are 3\.1, 3\.2/,
    );
  });

  test('openapi prints the API description without a database', async () => {
    const printed = await crmJson(['openapi'], nowhere);
    const readable = await crm(['openapi'], nowhere);
    assert.deepEqual(readable.json, printed);
    assert.ok(readable.stdout.split('\n').length > 100, 'indented for readability');
    assert.match(String(printed.openapi), /^3\.1/);
    for (const resource of resources) {
      assert.ok(Object.hasOwn(printed.paths as object, `/api/v1/${resource}/{id}`), resource);
    }
  });

  test('migrate prints the applied migrations, and does nothing when run again', async () => {
    const first = await crmJson(['migrate'], storage.environment);
    assert.match(String(first.applied), /^Migration\d{14}_initial/);
    assert.deepEqual(await crmJson(['migrate'], storage.environment), { applied: [], lost_grants: [] });
    const { code, stdout } = await crm(['migrate'], storage.environment);
    assert.deepEqual([code, stdout], [0, 'All migrations are applied.\n']);
  });

  test('migrate --create writes nothing if the definitions have not changed', async () => {
    assert.deepEqual(await crmJson(['migrate', '--create', 'nothing'], nowhere), {
      file: null,
      statements: [],
    });
    assertRefused(
      await crm(['migrate', '--create', 'nothing', '--default', 'leads.company=x'], nowhere),
      /^crm: the definitions have not changed since the last migration, so there is nothing to convert\. /,
    );
  });
});

for (const driver of drivers) {
  test(`commands exit on their own, even if they fail (${driver})`, async () => {
    const { environment, remove } = await migratedStorage(driver);
    const profile = ['--org', 'acme', '--profile', 'administrator'];
    for (const args of [
      ['org', 'create', 'acme'],
      ['user', 'create', 'a@acme.example', ...profile, '--password-stdin'],
    ]) {
      await crmJson(args, environment, { ...apart, input: 'a long enough password\n' });
    }
    const refused = await crm(['org', 'create', 'acme'], environment, apart);
    assertRefused(refused, /^crm: /);
    await remove();
  });
}

describe('bin/crm.js', () => {
  let storage: Storage;
  before(async () => {
    storage = await emptyStorage('postgresql');
  });
  after(() => storage.remove());

  test('runs commands from any folder and forwards output and exit code', async () => {
    const options = { ...launcher, cwd: '/' };
    assert.deepEqual((await crmJson(['check'], storage.environment, options)).resources, resources);
    const refused = await crm(['migrate', '--create', '../up'], storage.environment, options);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /^crm: "\.\.\/up" is not a valid migration name/);
  });

  test('forwards standard input', async () => {
    const { environment } = storage;
    await crmJson(['migrate'], environment, launcher);
    await crmJson(['org', 'create', 'acme'], environment, launcher);
    const user = ['user', 'create', 'a@acme.example', '--org', 'acme', '--profile', 'read-only'];
    const made = await crmJson([...user, '--password-stdin'], environment, {
      ...launcher,
      input: 'a long enough password\n',
    });
    assert.equal(made.created, true);
  });

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    test(`${signal} stops the launched service with exit code 0`, async () => {
      const environment = { ...patient, ...storage.environment, MIGRATE_ON_START: 'true', PORT: '0' };
      const service = start(['serve', '--json'], environment, launcher);
      await until(() => service.stdout().includes('\n'), 'listen');
      const { url } = JSON.parse(service.stdout()) as { url: string };
      assert.equal((await fetch(`${url}/docs/openapi.json`)).status, 200);
      service.signal(signal);
      const { code, stderr } = await service.ended;
      assert.deepEqual([code, stderr], [0, '']);
      await assert.rejects(fetch(`${url}/docs/openapi.json`), 'nothing is listening');
    });
  }
});
