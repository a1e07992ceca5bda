// Runs every command in the tutorial with sh, in the order of the page, and compares every output with the
// printed one. The engine's commands run in the test's command process. The service, git and curl are real.
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { inherited } from '../support/command-process.ts';
import { drivers, temporaryFolder } from '../support/instance.ts';
import { crm, project, unmigrated, until } from '../support/process.ts';
import { patienceMs } from '../support/promised.ts';
import { copyFolder } from '../support/templates.ts';

interface Step {
  readonly commands: string;
  shown: string;
}

/** The page's steps in order: commands, keys, and output in the first terminal. */
const steps: Step[] = [];
const page = readFileSync(join(project, 'docs/tutorial.md'), 'utf8');
for (const [, kind, block = '', key] of page.matchAll(/^```(\w+)\n([\s\S]*?)^```|^Press (`y`|Ctrl-C)/gm)) {
  if (key !== undefined) steps.push({ commands: key === 'Ctrl-C' ? 'stop' : 'press y', shown: '' });
  else if (kind === 'sh') steps.push({ commands: block.trim(), shown: '' });
  else if (kind === 'console') steps.push({ commands: 'told', shown: block });
  else (steps.at(-1) ?? assert.fail()).shown = block;
}

const end = '\x1e';
const withoutSpaces = (given: string) => given.replace(/\s/g, '');
/** Converts printed output to a pattern that ignores white space and in which … matches anything. */
const pattern = (shown: string) =>
  new RegExp(
    `^${withoutSpaces(shown)
      .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
      .replaceAll('…', '.*?')}$`,
    's',
  );

/** Sends a command's name, folder and arguments to this process and receives its exit code and output. */
const shim = `#!/bin/sh
out=$(printf '%s\\0' "\${0##*/}" "$PWD" "$@" | curl -s --data-binary @- "$SHIM"; printf .)
out=\${out%.}
printf %s "\${out#?}"
exit "\${out%"\${out#?}"}"
`;

describe('the tutorial', { skip: !drivers.includes('embedded'), concurrency: 1 }, () => {
  const home = temporaryFolder();
  const at = (...names: string[]) => join(home.path, ...names);
  const git = (folder: string, ...args: string[]) =>
    execFileSync('git', ['-C', folder, ...args], { env: identity });
  const identity = {
    ...inherited(),
    HOME: home.path,
    ...Object.fromEntries(
      ['AUTHOR', 'COMMITTER'].flatMap((who) => [
        [`GIT_${who}_NAME`, 'Test'],
        [`GIT_${who}_EMAIL`, 'test@example.com'],
      ]),
    ),
  };
  let service: ChildProcess | undefined;
  let outputs: readonly string[] = [];
  let written = '';
  let isUpgraded = false;
  // Below the port range for outgoing connections, because the page contains the port before anything listens
  // on it.
  const port = randomInt(20_000, 32_000);

  const start = async (cwd: string, args: readonly string[]): Promise<string> => {
    const program = join(isUpgraded ? at('crm') : project, 'app/main.ts');
    const child = spawn(process.execPath, [program, ...args], {
      cwd,
      env: { ...inherited(), PORT: String(port), SAMPLES_DIR: at('none') },
    });
    service = child;
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      said += chunk;
    });
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      written += chunk;
    });
    await until(() => said.includes('Serving') || child.exitCode !== null, written);
    await pause(100);
    const key = /crm_\S+/.exec(said)?.[0];
    if (key !== undefined) writeFileSync(at('key'), key);
    return said;
  };
  const stop = async () => {
    service?.kill('SIGINT');
    if (service?.exitCode === null) await once(service, 'exit');
  };
  /** Returns the first terminal's output since the last call. */
  const told = async (): Promise<string> => {
    await until(
      () => /Press y|Serving the saved definitions.*\n|are served\.\n/.test(written),
      'the first terminal',
    );
    const said = written;
    written = '';
    return said;
  };
  const run = async ([name = '', cwd = '', ...args]: readonly string[]): Promise<
    readonly [number, string]
  > => {
    if (name === 'told') return [0, await told()];
    if (name === 'press') service?.stdin?.write(args[0] ?? '');
    if (name === 'stop') await stop();
    if (name === 'npm' && args[0] === 'ci') isUpgraded = true;
    if (name === 'npm' && args[1] === 'dev') return [0, await start(cwd, ['dev'])];
    if (name === 'npm' && args[0] === 'start') return [0, await start(cwd, ['serve'])];
    const command = name === 'npx' ? args.slice(1) : args.slice(args.indexOf('--') + 1);
    if (name !== 'npx' && !args.includes('crm')) return [0, ''];
    const program = isUpgraded ? { program: [at('crm/app/main.ts')] } : {};
    const { code, stdout, stderr } = await crm(command, {}, { cwd, ...program });
    return [code ?? 1, `${stdout}${stderr}`];
  };
  const shims = createServer(async (request, response) => {
    const [code, said] = await run((await text(request)).split('\0').slice(0, -1)).catch(
      (cause: unknown) => [1, String(cause)] as const,
    );
    response.end(`${code}${said}`);
  });

  before(async () => {
    // The clone, and the next version at its origin.
    const origin = at('origin');
    for (const name of [
      'app',
      'engine',
      'plugins',
      'webhooks',
      'migrations',
      'resources',
      'config.yaml',
      'package.json',
    ]) {
      cpSync(join(project, name), join(origin, name), { recursive: true });
    }
    symlinkSync(join(project, 'node_modules'), at('node_modules'));
    git(home.path, 'init', '-q', '-b', 'main', origin);
    const commit = (message: string) => {
      git(origin, 'add', '.');
      git(origin, 'commit', '-qm', message);
    };
    commit('This version');
    git(home.path, 'clone', '-q', origin, at('crm'));
    nextVersion(origin);
    commit('The next version');
    await copyFolder(unmigrated, at('data'));
    mkdirSync(at('bin'));
    for (const name of ['npm', 'npx', 'told', 'press', 'stop']) {
      writeFileSync(at('bin', name), shim);
      chmodSync(at('bin', name), 0o755);
    }
    shims.listen(0, '127.0.0.1');
    await once(shims, 'listening');
    const script = steps
      .map(({ commands }) => `${commands}\nprintf '\\036%s\\036' $?\n`)
      .join('')
      .replaceAll('127.0.0.1:3000', `127.0.0.1:${port}`)
      .replace('KEY=crm_…', `KEY=$(cat ${at('key')})`)
      // Copies an existing empty cluster.
      .replace('npm install\n', `cp -r ${at('data')} data\n`);
    const ran = promisify(execFile)('sh', ['-c', script], {
      cwd: at('crm'),
      env: {
        ...identity,
        PATH: `${at('bin')}:${process.env.PATH}`,
        SHIM: `http://127.0.0.1:${(shims.address() as AddressInfo).port}`,
      },
      timeout: 5 * patienceMs,
    });
    outputs = (await ran).stdout.split(end);
  });
  after(async () => {
    await stop();
    shims.close();
    home.remove();
  });

  test('every request of the client succeeds', () => {
    const statuses = readFileSync(at('requests.txt'), 'utf8').trim().split('\n');
    assert.deepEqual([...new Set(statuses)], ['201']);
  });

  for (const [index, { commands, shown }] of steps.entries()) {
    test(commands.split('\n').at(-1) ?? '', () => {
      const [output = '', status] = outputs.slice(2 * index);
      assert.equal(status, '0', output);
      assert.match(withoutSpaces(output), pattern(shown.replaceAll(':3000', `:${port}`)), output);
    });
  }
});

/** Creates the next version, with a new column in a platform table and a new field for leads. */
function nextVersion(folder: string): void {
  const edit = (name: string, from: string, to: string) => {
    const before = readFileSync(join(folder, name), 'utf8');
    assert.ok(before.includes(from), name);
    writeFileSync(join(folder, name), before.replace(from, to));
  };
  edit('resources/leads.yaml', 'fields:\n', 'fields:\n  region: { type: string, description: Region. }\n');
  edit(
    'plugins/api/usage/tables.ts',
    'last_used_at: now,',
    'last_used_at: now, note: { ...textColumn, nullable: true },',
  );
  const known = readFileSync(join(folder, 'migrations/Migration20261122201630_name_uses.json'), 'utf8');
  const note = {
    ...JSON.parse(known).tables.crm_name_uses.columns.resource,
    name: 'note',
    primary: false,
    nullable: true,
  };
  const name = 'Migration20271201000000_note';
  const patch = { tables: { crm_name_uses: { columns: { note } } } };
  writeFileSync(join(folder, `migrations/${name}.json`), JSON.stringify(patch));
  writeFileSync(
    join(folder, `migrations/${name}.ts`),
    `import { Migration } from '@mikro-orm/migrations';
export class ${name} extends Migration {
  override up(): void {
    this.addSql('alter table "crm_name_uses" add "note" text collate "C"');
  }
}
`,
  );
}
