// Runs CLI commands and queries one after another in one process. Each command has its own arguments, environment,
// working directory and standard input. The parent sends them as messages and receives the outcomes as messages.
import { Readable } from 'node:stream';
import { readConfig } from '../../app/config.ts';
import type { TextRows } from '../../engine/database/database.ts';
import { openDatabase } from '../../engine/database/open.ts';

/** A command to run. */
export interface Command {
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** The complete standard input. */
  readonly input: string;
}

/** A query on a database that no other process has opened. */
export interface Query {
  readonly environment: Command['environment'];
  readonly query: string;
}

/** A command's outcome and output. */
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
    // Each specifier loads a new module, so the command line starts from scratch. Its imports are already
    // loaded.
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
  // Unexpected failures end this process, but failing commands do not.
  last = last.then(async () => process.send?.(await ('query' in work ? rows(work) : outcome(work))));
});
process.on('disconnect', () => exit(0));
