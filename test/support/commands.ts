// Runs commands of the command line in one process, one after another, each with arguments, an environment, a working
// folder and a standard input of its own; queries too. Messages of the parent hold them, messages to it the outcomes.
import { Readable } from 'node:stream';
import { readConfig } from '../../app/config.ts';
import type { TextRows } from '../../engine/database/database.ts';
import { openDatabase } from '../../engine/database/open.ts';

/** What to run. */
export interface Command {
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** The whole of standard input. */
  readonly input: string;
}

/** A query for a database that no other process has open. */
export interface Query {
  readonly environment: Command['environment'];
  readonly query: string;
}

/** How it ended and what it wrote. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const commandLine = new URL('../../app/main.ts', import.meta.url);
const inherited = { ...process.env };
const exited = Symbol('exited');
const exit = process.exit;
const write = { stdout: process.stdout.write, stderr: process.stderr.write };
let started = 0;

async function outcome({ args, environment, cwd, input }: Command): Promise<Ended> {
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    process[name].write = (chunk: unknown) => {
      output[name] += String(chunk);
      return true;
    };
  }
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, inherited, environment);
  process.chdir(cwd);
  process.argv.splice(2, Infinity, ...args);
  Object.defineProperty(process, 'stdin', { configurable: true, value: Readable.from([Buffer.from(input)]) });
  process.exit = (code) => {
    process.exitCode = code ?? process.exitCode;
    throw exited;
  };
  process.exitCode = 0;
  try {
    // Each address is a module of its own, so the command line starts over; what it imports is there already.
    await import(`${commandLine}?${started++}`);
  } catch (cause) {
    if (cause !== exited) throw cause;
  } finally {
    process.exit = exit;
    Object.assign(process.stdout, { write: write.stdout });
    Object.assign(process.stderr, { write: write.stderr });
  }
  return { code: Number(process.exitCode), ...output };
}

async function rows({ environment, query }: Query): Promise<TextRows> {
  const database = await openDatabase(readConfig(environment), []);
  try {
    return await database.run({ name: '', text: query, values: [] });
  } finally {
    await database.close();
  }
}

let last: Promise<unknown> = Promise.resolve();
process.on('message', (work: Command | Query) => {
  // A failure that is not the command's own ends this process.
  last = last.then(async () => process.send?.(await ('query' in work ? rows(work) : outcome(work))));
});
process.on('disconnect', () => exit(0));
