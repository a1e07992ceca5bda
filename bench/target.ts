import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

/** A target in its own process. */
export interface RunningTarget {
  readonly url: string;
  readonly process: ChildProcess;
}

/**
 * Starts a script from the `targets` folder and waits until it is listening.
 * @param flags additional Node.js flags
 */
export async function startTarget(
  script: string,
  environment: Readonly<Record<string, string>>,
  flags: readonly string[] = [],
): Promise<RunningTarget> {
  const child = fork(join(import.meta.dirname, 'targets', `${script}.ts`), {
    env: { ...process.env, LOG_LEVEL: 'error', ...environment },
    execArgv: [...process.execArgv, ...flags],
  });
  const failure = once(child, 'exit').then(() => {
    throw new Error(`${script} did not start`);
  });
  const [message] = await Promise.race([once(child, 'message'), failure]);
  return { url: (message as { readonly url: string }).url, process: child };
}

/** Returns the Node.js flags for writing a CPU profile. */
export const profileFlags = (folder: string, name: string): string[] => [
  '--cpu-prof',
  `--cpu-prof-dir=${folder}`,
  `--cpu-prof-name=${name}.cpuprofile`,
];
