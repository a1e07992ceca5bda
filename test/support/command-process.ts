// A test file's process for CLI commands. It is started by the first command.
import { type ChildProcess, fork } from 'node:child_process';
import { after } from 'node:test';
import type { TextRows } from '../../engine/database/database.ts';
import type { Command, Ended, Query } from './commands.ts';
import { patienceMs } from './promised.ts';

/** Returns the environment variables that a process needs, without any that configure the service. */
export const inherited = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    ['PATH', 'HOME', 'TMPDIR', 'NODE_COMPILE_CACHE'].flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );

interface Waiting {
  readonly resolve: (outcome: unknown) => void;
  readonly reject: (cause: Error) => void;
}

let child: ChildProcess | undefined;
const waiting: Waiting[] = [];
after(() => child?.disconnect());

/**
 * Runs a command after the previous ones have finished.
 * @throws if it hangs or terminates the process
 */
export const runCommand = async (command: Command): Promise<Ended> => (await outcomeOf(command)) as Ended;

/**
 * Runs a query on the database configured by the environment.
 * @throws if it fails
 */
export const runQuery = async (environment: Query['environment'], query: string): Promise<TextRows> =>
  (await outcomeOf({ environment, query })) as TextRows;

function outcomeOf(work: Command | Query): Promise<unknown> {
  child ??= startProcess();
  child.send(work);
  return new Promise((resolve, reject) => {
    waiting.push({ resolve, reject });
    if (waiting.length === 1) expectOutcome();
  });
}

let late: NodeJS.Timeout | undefined;
function expectOutcome(): void {
  clearTimeout(late);
  if (waiting.length > 0) late = setTimeout(() => child?.kill('SIGKILL'), patienceMs);
}

function startProcess(): ChildProcess {
  const started = fork(new URL('commands.ts', import.meta.url), {
    env: inherited(),
    execArgv: ['--liftoff-only'],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const output: string[] = [];
  for (const stream of [started.stdout, started.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => output.push(chunk));
  }
  started.on('message', (outcome) => {
    waiting.shift()?.resolve(outcome);
    expectOutcome();
  });
  started.once('close', (code, signal) => {
    clearTimeout(late);
    child = undefined;
    const cause = new Error(`the process for commands ended with ${code ?? signal}: ${output.join('')}`);
    for (const { reject } of waiting.splice(0)) reject(cause);
  });
  return started;
}
