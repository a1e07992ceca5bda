import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const project = join(import.meta.dirname, '..');
const { scripts } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as {
  scripts: { start: string };
};
/** Node.js flags of `npm start`. */
export const flags = scripts.start.match(/--[\w-]+=\S+/g) ?? [];

/** A service in its own process, started as `npm start` does. */
export interface Service {
  readonly process: ChildProcess;
  readonly pid: number;
  /** Output of `serve --json`. */
  readonly printed: Readonly<Record<string, string>>;
  readonly url: string;
  readonly stop: () => Promise<void>;
}

/**
 * Starts the service and waits until it is listening.
 * @param extraFlags additional Node.js flags
 * @param program entry point of the service
 */
export async function startBenchService(
  environment: Readonly<Record<string, string>>,
  extraFlags: readonly string[] = [],
  program = 'app/main.ts',
): Promise<Service> {
  const child = spawn(process.execPath, [...flags, ...extraFlags, program, 'serve', '--json'], {
    cwd: project,
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: join(project, 'node_modules/.cache/node'),
      PORT: '0',
      LOG_LEVEL: 'error',
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const failure = once(child, 'exit').then(() => {
    throw new Error('the service did not start');
  });
  let text = '';
  const listening = (async () => {
    for await (const chunk of child.stdout ?? []) {
      text += String(chunk);
      if (text.includes('\n')) return;
    }
  })();
  await Promise.race([listening, failure]);
  failure.catch(() => {});
  const printed = JSON.parse(text) as Record<string, string>;
  const stop = async () => {
    const exit = once(child, 'exit');
    child.kill('SIGINT');
    await exit;
  };
  return { process: child, pid: child.pid ?? 0, printed, url: printed.url ?? '', stop };
}

/** Returns the resident memory of a process, in MB of 1,048,576 bytes. */
export function residentMb(pid: number): number {
  const [, kilobytes = '0'] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1024;
}
