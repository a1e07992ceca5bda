// Records the CPU time that a test process and the processes that it started have used. test/run.ts loads it before a test
// file and prints the files that use the most, because durations depend on what else the machine does.
import { appendFileSync, readFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

/** The CPU time of a test process. */
export interface CpuTime {
  /** The entry file. */
  readonly file: string;
  /** Seconds used by the process, and by the processes that it started and that have ended. */
  readonly seconds: number;
}

const path = process.env.TEST_CPU_TIMES;

/** Returns the recorded CPU times. Systems without /proc do not record any. */
export function cpuTimes(recorded: string): CpuTime[] {
  try {
    return readFileSync(recorded, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as CpuTime);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** Clock ticks per second in /proc, which is the same on all Linux systems. */
const ticksPerSecond = 100;

// Programs started by a test inherit the variable, but not this module.
if (isMainThread && path !== undefined)
  process.on('exit', () => {
    try {
      // proc(5): utime, stime, cutime and cstime follow the name, which can contain spaces.
      const ticks =
        readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)?.split(' ').slice(11, 15) ?? [];
      const seconds = ticks.reduce((sum, text) => sum + Number(text), 0) / ticksPerSecond;
      appendFileSync(path, `${JSON.stringify({ file: process.argv[1], seconds })}\n`);
    } catch {
      // Only Linux has /proc.
    }
  });
