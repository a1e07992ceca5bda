// Test support: the command line and the service as real processes, each with its own environment.
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
import { inherited, runCommand, runQuery } from './command-process.ts';
import { type Answer, type Call, type Driver, postgresServer, send, temporaryFolder } from './instance.ts';
import { makeDatabase, type Server, startPostgres } from './postgres.ts';
import { patienceMs, patient } from './promised.ts';
import { search } from './secrets.ts';
import { type Content, copyFolder } from './templates.ts';

export { connected } from './postgres.ts';

export type Environment = Readonly<Record<string, string>>;

/** The project folder. */
export const project = fileURLToPath(new URL('../..', import.meta.url));
/**
 * Node's arguments for running the command line: the bundle of a run (bundle.ts), or the source. Optimizing PGlite's
 * WebAssembly would take a third of the CPU time of a process that soon ends.
 */
export const commandLine: readonly string[] = [
  '--liftoff-only',
  process.env.TEST_COMMAND_LINE ?? join(project, 'app/main.ts'),
];

/** A process's exit status and output. */
export interface Outcome {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Standard output, parsed as JSON. Throws if the output is not JSON. */
  readonly json: Record<string, unknown>;
}

/** A process that might still be running. */
export interface Process {
  readonly pid: number;
  readonly ended: Promise<Outcome>;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Sends a signal. Does nothing if the process has ended. */
  readonly signal: (name: NodeJS.Signals) => void;
  /**
   * Kills the process and all processes that it started with SIGKILL, even if it has already ended, and waits
   * for them to end.
   */
  readonly kill: () => Promise<Outcome>;
}

/** A service that accepts requests. */
export interface Service extends Process {
  readonly url: string;
  /** Output of `serve --json`. */
  readonly printed: Readonly<Record<string, unknown>>;
  readonly call: (request: string, call?: Call) => Promise<Answer>;
}

export interface Options {
  /** Contents of standard input, which is then closed. */
  readonly input?: string;
  /** Working directory. Default: the project folder. */
  readonly cwd?: string;
  /** Node's arguments. Default: the command line. */
  readonly program?: readonly string[];
}

const running = new Set<Process>();
after(() => Promise.all([...running].map((process) => process.kill())));

/** Variable that marks a process and all processes that it starts. */
const mark = 'CRM_TEST_PROCESS';

/** Starts the command line. Its configuration consists only of the given environment. */
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
      // A stopped or blocked worker outlives its parent, ignores SIGTERM and keeps both processes' pipes
      // open.
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

/** Returns the IDs of a process's children, or an empty list if the system does not provide them. */
export function childrenOf(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return children.trim().split(/\s+/).filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/**
 * Returns the IDs of the running processes with a mark, or an empty list if the system does not provide them.
 */
function marked(id: string): number[] {
  if (!existsSync('/proc/self/environ')) return [];
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      try {
        return pid > 0 && readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`${mark}=${id}`);
      } catch {
        // The process has ended or belongs to another user.
        return false;
      }
    });
}

function killIfAlive(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has already ended.
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

/** Environment of commands and queries, unless the test sets another limit. A busy machine connects slowly. */
const { DATABASE_CONNECT_TIMEOUT_MS } = patient;

/** Options that run a command in a separate process, to check that it exits on its own. */
export const apart: Options = { program: commandLine };

/**
 * Runs a command and waits for it to end. It runs in the file's process for commands, because startup
 * accounts for most of a command's time. With the `program` option, it runs in a separate process.
 */
export async function crm(
  args: readonly string[],
  environment: Environment,
  options: Options = {},
): Promise<Outcome> {
  const patiently = { DATABASE_CONNECT_TIMEOUT_MS, ...environment };
  if (options.program === undefined) {
    const { cwd = project, input = '' } = options;
    const ended = await runCommand({ args, environment: patiently, cwd, input });
    search(ended.stderr);
    return withJson({ signal: null, ...ended });
  }
  const command = start(args, patiently, options);
  const late = setTimeout(() => command.signal('SIGKILL'), patienceMs);
  const ended = await command.ended;
  clearTimeout(late);
  assert.notEqual(ended.signal, 'SIGKILL', `crm ${args.join(' ')} did not end: ${ended.stderr}`);
  return ended;
}

/** Runs a command with --json that must succeed and print exactly one JSON object. */
export async function crmJson(
  args: readonly string[],
  environment: Environment,
  options?: Options,
): Promise<Record<string, unknown>> {
  return jsonOf(await crm([...args, '--json'], environment, options), `crm ${args.join(' ')}`);
}

/** Checks that a command with --json succeeded and returns the JSON object that it printed. */
export function jsonOf(outcome: Outcome, command = 'the command'): Record<string, unknown> {
  assert.deepEqual([outcome.code, outcome.stderr], [0, ''], `${command}: ${outcome.stderr}`);
  assert.match(outcome.stdout, /^\{.*\}\n$/);
  return outcome.json;
}

/** A command's arguments and environment. */
export type Command = readonly [args: readonly string[], environment: Environment];

/** Runs each case's command and declares a test that checks its outcome. */
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

/** Checks that a command failed with one message, as JSON or text, and an empty standard output. */
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
    assert.match(stderr, /^crm: [^\n]+\n$/, 'prints one line');
    assert.match(stderr, message);
  }
}

/** Starts the service on a free port and waits until it prints its URL. */
export async function serve(environment: Environment, options?: Options): Promise<Service> {
  return listening(start(['serve', '--json'], { PORT: '0', ...environment }, options));
}

/**
 * Waits until a service started with --json is listening.
 * @throws if the process ends instead
 */
export async function listening(process: Process): Promise<Service> {
  const ended = process.ended.then(({ code, signal, stderr }) => {
    throw new Error(`the service ended with ${code ?? signal}: ${stderr}`);
  });
  await Promise.race([until(() => process.stdout().includes('\n'), 'listen'), ended]);
  const printed = JSON.parse(process.stdout()) as Record<string, unknown>;
  const url = String(printed.url);
  return { ...process, printed, url, call: (request, call) => send(url, request, call) };
}

/**
 * Waits for a condition.
 * @throws if the condition is not met in time (the default limit is long enough for a busy machine)
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string,
  withinMs = patienceMs,
): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await condition())) {
    assert.ok(performance.now() < end, `${what}: timed out after ${withinMs} ms`);
    await pause(10);
  }
}

/** An unused database and the environment that configures it. */
export interface Storage {
  readonly driver: Driver;
  readonly environment: Environment;
  /** The embedded database's folder. On PostgreSQL, this folder must never be created. */
  readonly folder: string;
  readonly remove: () => Promise<void>;
}

/** Creates an empty database. The embedded database's folder does not exist yet. */
export const emptyStorage = (driver: Driver): Promise<Storage> => storageWith(driver);

/** A database without tables. */
export const unmigrated: Content = { key: 'nothing', fill: async () => {} };

/** Creates a database without tables. The embedded database's folder already exists. */
export const unmigratedStorage = (driver: Driver): Promise<Storage> => storageWith(driver, unmigrated);

/** A database after `crm migrate`. */
export const migrated: Content = {
  key: 'migrated',
  fill: async (environment) => {
    await crmJson(['migrate'], environment);
  },
};

/** Creates a database with all migrations and no organization, as after `crm migrate`. */
export const migratedStorage = (driver: Driver): Promise<Storage> => storageWith(driver, migrated);

/**
 * Like {@link migratedStorage}, but on a separate PostgreSQL server, because transactions in other databases delay
 * the change feed.
 */
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

/** Runs SQL on a database without migrating it or checking its version. The folder must not be in use. */
export async function onDatabase<T>(
  environment: Environment,
  work: (query: (text: string) => Promise<TextRows>) => Promise<T>,
): Promise<T> {
  const database = await openDatabase(readConfig({ DATABASE_CONNECT_TIMEOUT_MS, ...environment }), []);
  try {
    return await work((text) => database.run({ name: '', text, values: [] }));
  } finally {
    await database.close();
  }
}

/** Returns a query's rows. All columns must be text. */
export const rows = (environment: Environment, text: string): Promise<TextRows> =>
  onDatabase(environment, (query) => query(text));

/**
 * Returns a query's rows, read by the process for commands. An embedded database that recovers from a crash
 * leaves a timer behind, which would prevent this process from ending.
 */
export const rowsApart = (environment: Environment, text: string): Promise<TextRows> =>
  runQuery({ DATABASE_CONNECT_TIMEOUT_MS, ...environment }, text);

/** Returns every row of every table as JSON text, in an order that depends only on the rows. */
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
