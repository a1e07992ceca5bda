import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const project = join(import.meta.dirname, '..');
const { scripts } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as {
  scripts: { start: string };
};
/** What `npm start` gives Node. */
export const flags = scripts.start.match(/--[\w-]+=\S+/g) ?? [];

/** A service in a process of its own, as `npm start` starts it. */
export interface Service {
  readonly process: ChildProcess;
  readonly pid: number;
  /** What `serve --json` printed. */
  readonly printed: Readonly<Record<string, string>>;
  readonly url: string;
  readonly stop: () => Promise<void>;
}

/**
 * Starts the service and waits until it listens.
 * @param further what Node is given besides
 * @param program the program to run; default: the clone's
 */
export async function startBenchService(
  environment: Readonly<Record<string, string>>,
  further: readonly string[] = [],
  program = 'app/main.ts',
): Promise<Service> {
  const child = spawn(process.execPath, [...flags, ...further, program, 'serve', '--json'], {
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
  const gone = once(child, 'exit').then(() => {
    throw new Error('the service did not start');
  });
  let text = '';
  const listening = (async () => {
    for await (const chunk of child.stdout ?? []) {
      text += String(chunk);
      if (text.includes('\n')) return;
    }
  })();
  await Promise.race([listening, gone]);
  gone.catch(() => {});
  const printed = JSON.parse(text) as Record<string, string>;
  const stop = async () => {
    const ended = once(child, 'exit');
    child.kill('SIGINT');
    await ended;
  };
  return { process: child, pid: child.pid ?? 0, printed, url: printed.url ?? '', stop };
}

/** Resident memory of a process, in MB of 1,048,576 bytes. */
export function residentMb(pid: number): number {
  const [, kilobytes = '0'] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1024;
}
