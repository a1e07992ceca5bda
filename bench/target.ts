import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

/** A target in a process of its own. */
export interface RunningTarget {
  readonly url: string;
  readonly process: ChildProcess;
}

/** Starts a script of the folder `targets` and waits until it listens. @param flags further ones of Node */
export async function startTarget(
  script: string,
  environment: Readonly<Record<string, string>>,
  flags: readonly string[] = [],
): Promise<RunningTarget> {
  const child = fork(join(import.meta.dirname, 'targets', `${script}.ts`), {
    env: { ...process.env, LOG_LEVEL: 'error', ...environment },
    execArgv: [...process.execArgv, ...flags],
  });
  const gone = once(child, 'exit').then(() => {
    throw new Error(`${script} did not start`);
  });
  const [message] = await Promise.race([once(child, 'message'), gone]);
  return { url: (message as { readonly url: string }).url, process: child };
}

/** The flags of Node that write a CPU profile. */
export const profiling = (folder: string, name: string): string[] => [
  '--cpu-prof',
  `--cpu-prof-dir=${folder}`,
  `--cpu-prof-name=${name}.cpuprofile`,
];
