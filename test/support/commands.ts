// Runs several commands of the command line in one process, one after another, each with arguments and an environment
// of its own. Standard input holds them as JSON, standard output the outcomes.
import { text } from 'node:stream/consumers';

interface Command {
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

const commandLine = new URL('../../app/main.ts', import.meta.url);
const inherited = { ...process.env };
const write = process.stdout.write.bind(process.stdout);
const exited = Symbol('exited');

process.exit = (code) => {
  process.exitCode = code ?? process.exitCode;
  throw exited;
};

async function outcome({ args, environment }: Command, index: number) {
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    process[name].write = (chunk: unknown) => {
      output[name] += String(chunk);
      return true;
    };
  }
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, inherited, environment);
  process.argv.splice(2, Infinity, ...args);
  process.exitCode = 0;
  try {
    // Each address is a module of its own, so the command line starts over; what it imports is there already.
    await import(`${commandLine}?${index}`);
  } catch (cause) {
    if (cause !== exited) throw cause;
  }
  return { code: process.exitCode, signal: null, ...output };
}

const outcomes = [];
for (const [index, command] of (JSON.parse(await text(process.stdin)) as Command[]).entries()) {
  outcomes.push(await outcome(command, index));
}
process.exitCode = 0;
write(JSON.stringify(outcomes));
