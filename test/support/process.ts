// Test support: the command line and the service as real processes, each with an environment of its own.
import assert from 'node:assert/strict';
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { readConfig } from '../../app/config.ts';
import type { TextRows } from '../../engine/database/database.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { inherited, limitMs, runCommand, runQuery } from './command-process.ts';
import { type Answer, type Call, type Driver, postgresServer, send, temporaryFolder } from './instance.ts';
import { makeDatabase, type Server, startPostgres } from './postgres.ts';
import { search } from './secrets.ts';
import { type Content, copyFolder } from './templates.ts';

export { connected } from './postgres.ts';

export type Environment = Readonly<Record<string, string>>;

/** The project's folder. */
export const project = fileURLToPath(new URL('../..', import.meta.url));
/** What Node is given to run the command line, as the npm scripts do. */
const commandLine = [join(project, 'app/main.ts')];

/** How a process ended and what it wrote. */
export interface Outcome {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Standard output as JSON; throws where it is anything else. */
  readonly json: Record<string, unknown>;
}

/** A process that may still run. */
export interface Process {
  readonly pid: number;
  readonly ended: Promise<Outcome>;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Sends a signal; does nothing once it has ended. */
  readonly signal: (name: NodeJS.Signals) => void;
  /** Kills it with SIGKILL, together with the processes that it has started, also if it has ended, and waits for its end. */
  readonly kill: () => Promise<Outcome>;
}

/** A service that listens. */
export interface Service extends Process {
  readonly url: string;
  /** What `serve --json` printed. */
  readonly printed: Readonly<Record<string, unknown>>;
  readonly call: (request: string, call?: Call) => Promise<Answer>;
}

export interface Options {
  /** What comes on standard input; it is closed after that. */
  readonly input?: string;
  /** Working folder; default: the project's. */
  readonly cwd?: string;
  /** What Node runs; default: the command line. */
  readonly program?: readonly string[];
}

const running = new Set<Process>();
after(() => Promise.all([...running].map((process) => process.kill())));

/** Variable that marks a process and all processes that it starts. */
const mark = 'CRM_TEST_PROCESS';

/** Starts the command line. It sees the given environment and nothing else that configures it. */
export function start(args: readonly string[], environment: Environment, options: Options = {}): Process {
  const id = randomUUID();
  const child = spawn(process.execPath, [...(options.program ?? commandLine), ...args], {
    cwd: options.cwd ?? project,
    env: { ...inherited(), ...environment, [mark]: id },
  });
  child.stdin.on('error', () => {});
  child.stdin.end(options.input ?? '');
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (chunk: string) => {
      output[name] += chunk;
    });
  }
  const ended = outcome(child, output);
  const started: Process = {
    pid: child.pid ?? 0,
    ended,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    signal: (name) => child.kill(name),
    kill: async () => {
      child.kill('SIGKILL');
      // A stopped or blocked worker outlives its parent, ignores SIGTERM and keeps the pipes of both open.
      for (let found = marked(id); found.length > 0; found = marked(id)) {
        for (const pid of found) killIfAlive(pid);
        await pause(10);
      }
      return ended;
    },
  };
  running.add(started);
  ended.then(
    () => running.delete(started),
    () => running.delete(started),
  );
  return started;
}

/** Returns the IDs of the processes that a process has started; none where the system does not tell. */
export function childrenOf(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return children.trim().split(/\s+/).filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** Returns the IDs of the living processes with a mark; none where the system does not tell. */
function marked(id: string): number[] {
  if (!existsSync('/proc/self/environ')) return [];
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      try {
        return pid > 0 && readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`${mark}=${id}`);
      } catch {
        // It has ended, or belongs to another user.
        return false;
      }
    });
}

function killIfAlive(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}

function outcome(
  child: ChildProcessWithoutNullStreams,
  output: { stdout: string; stderr: string },
): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      search(output.stderr);
      resolve(withJson({ code, signal, ...output }));
    });
  });
}

const withJson = (outcome: Omit<Outcome, 'json'>): Outcome => ({
  ...outcome,
  get json() {
    return JSON.parse(outcome.stdout) as Record<string, unknown>;
  },
});

/** A command in a process of its own: that it ends by itself is a part of the test. */
export const apart: Options = { program: commandLine };

/**
 * Runs a command to its end: in the process that this one has for commands, for most of a command's time is its start;
 * with a program or a lock to hold, in one of its own.
 */
export async function crm(
  args: readonly string[],
  environment: Environment,
  options: Options = {},
): Promise<Outcome> {
  if (options.program === undefined) {
    const { cwd = project, input = '' } = options;
    const ended = await runCommand({ args, environment, cwd, input });
    search(ended.stderr);
    return withJson({ signal: null, ...ended });
  }
  const command = start(args, environment, options);
  const late = setTimeout(() => command.signal('SIGKILL'), limitMs);
  const ended = await command.ended;
  clearTimeout(late);
  assert.notEqual(ended.signal, 'SIGKILL', `crm ${args.join(' ')} did not end: ${ended.stderr}`);
  return ended;
}

/** Runs a command with --json that must succeed: one JSON object on standard output and not a word more. */
export async function crmJson(
  args: readonly string[],
  environment: Environment,
  options?: Options,
): Promise<Record<string, unknown>> {
  return jsonOf(await crm([...args, '--json'], environment, options), `crm ${args.join(' ')}`);
}

/** The one JSON object of a command that must have succeeded with --json. */
export function jsonOf(outcome: Outcome, command = 'the command'): Record<string, unknown> {
  assert.deepEqual([outcome.code, outcome.stderr], [0, ''], `${command}: ${outcome.stderr}`);
  assert.match(outcome.stdout, /^\{.*\}\n$/);
  return outcome.json;
}

/** Arguments of a command and its environment. */
export type Command = readonly [args: readonly string[], environment: Environment];

/** Runs the command of each case, and gives each test the outcome of its own. */
export function crmTable<Case>(
  cases: readonly (readonly [name: string, value: Case])[],
  command: (value: Case) => Command,
  check: (outcome: Outcome, value: Case) => void,
): void {
  let outcomes: readonly Outcome[];
  before(async () => {
    outcomes = await Promise.all(cases.map(([, value]) => crm(...command(value))));
  });
  for (const [index, [name, value]] of cases.entries()) {
    test(name, () => check(outcomes[index] ?? assert.fail(), value));
  }
}

/** Checks that a command was refused with one message, in JSON or not, and nothing on standard output. */
export function assertRefused(
  { code, signal, stdout, stderr: written }: Outcome,
  message: string | RegExp,
): void {
  assert.deepEqual({ code, signal, stdout }, { code: 1, signal: null, stdout: '' }, written);
  const stderr = written.startsWith('{')
    ? `crm: ${(JSON.parse(written) as { error: string }).error}\n`
    : written;
  if (typeof message === 'string') assert.equal(stderr, `crm: ${message}\n`);
  else {
    assert.match(stderr, /^crm: [^\n]+\n$/, 'one line');
    assert.match(stderr, message);
  }
}

/** Starts the service on a free port and waits until it says where it listens. */
export async function serve(environment: Environment, options?: Options): Promise<Service> {
  return listening(start(['serve', '--json'], { PORT: '0', ...environment }, options));
}

/** Waits until a service that was started with --json listens. @throws when it ends instead */
export async function listening(process: Process): Promise<Service> {
  const ended = process.ended.then(({ code, signal, stderr }) => {
    throw new Error(`the service ended with ${code ?? signal}: ${stderr}`);
  });
  await Promise.race([until(() => process.stdout().includes('\n'), 'listen', limitMs), ended]);
  const printed = JSON.parse(process.stdout()) as Record<string, unknown>;
  const url = String(printed.url);
  return { ...process, printed, url, call: (request, call) => send(url, request, call) };
}

/** Waits for a condition. @throws if it is not met in time; without a promised time, that is long even on a busy machine */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string,
  withinMs = 60_000,
): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await condition())) {
    assert.ok(performance.now() < end, `${what}: not within ${withinMs} ms`);
    await pause(10);
  }
}

/** A database that no process has used yet, and what names it. */
export interface Storage {
  readonly driver: Driver;
  readonly environment: Environment;
  /** Folder of the embedded database; on PostgreSQL one that must never come to be. */
  readonly folder: string;
  readonly remove: () => Promise<void>;
}

/** An empty database of a driver; the embedded one has no folder yet. */
export const emptyStorage = (driver: Driver): Promise<Storage> => storageWith(driver);

/** A database without a table; the embedded one has its folder already. */
export const unmigratedStorage = (driver: Driver): Promise<Storage> =>
  storageWith(driver, { key: 'nothing', fill: async () => {} });

/** What `crm migrate` leaves. */
export const migrated: Content = {
  key: 'migrated',
  fill: async (environment) => {
    await crmJson(['migrate'], environment);
  },
};

/** A database that has every migration and no organization, as `crm migrate` leaves it. */
export const migratedStorage = (driver: Driver): Promise<Storage> => storageWith(driver, migrated);

/** The same on a PostgreSQL server of its own, since transactions of other databases hold a change feed back. */
export async function storageOfItsOwn(driver: Driver): Promise<Storage & { readonly server?: Server }> {
  if (driver === 'embedded') return migratedStorage(driver);
  const server = await startPostgres();
  const storage = await storageWith(driver, migrated, server.url);
  return {
    ...storage,
    server,
    remove: async () => {
      await storage.remove();
      await server.stop();
    },
  };
}

async function storageWith(driver: Driver, content?: Content, server?: string): Promise<Storage> {
  const temporary = temporaryFolder();
  const folder = join(temporary.path, 'data');
  const made =
    driver === 'postgresql' ? await makeDatabase(server ?? (await postgresServer()), content) : undefined;
  if (driver === 'embedded' && content !== undefined) await copyFolder(content, folder);
  return {
    driver,
    folder,
    environment: { DATA_DIR: folder, ...(made && { DATABASE_URL: made.url }) },
    remove: async () => {
      await made?.drop();
      temporary.remove();
    },
  };
}

/** Runs SQL on a database, without a migration or a look at its version. The folder must not be in use. */
export async function onDatabase<T>(
  environment: Environment,
  work: (query: (text: string) => Promise<TextRows>) => Promise<T>,
): Promise<T> {
  const database = await openDatabase(readConfig(environment), []);
  try {
    return await work((text) => database.run({ name: '', text, values: [] }));
  } finally {
    await database.close();
  }
}

/** Rows of one query; its columns must be text. */
export const rows = (environment: Environment, text: string): Promise<TextRows> =>
  onDatabase(environment, (query) => query(text));

/**
 * Rows of one query, read by the process for commands: an embedded database that recovers from a crash leaves a timer
 * behind, and this process would never end.
 */
export const rowsApart = (environment: Environment, text: string): Promise<TextRows> =>
  runQuery(environment, text);

/** Every row of every table as a JSON text, in an order that depends on the rows alone. */
export const contents = (environment: Environment): Promise<Record<string, string[]>> =>
  onDatabase(environment, async (query) => {
    const tables = await query(
      `select table_name::text from information_schema.tables where table_schema = 'public' order by 1`,
    );
    const found: Record<string, string[]> = {};
    for (const [table] of tables) {
      found[String(table)] = (await query(`select to_json(t)::text from "${table}" t order by 1`)).map(
        String,
      );
    }
    return found;
  });
