import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Number of clock ticks per second in /proc. */
const ticks = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** Returns the CPU time of processes and their exited children, in microseconds. */
export function cpuOf(pids: readonly number[]): number {
  let sum = 0;
  for (const pid of pids) {
    const stat = statOf(pid);
    // The process name, in parentheses, can contain spaces. utime is field 14 of the line.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    for (const value of fields.slice(11, 15)) sum += Number(value);
  }
  return (sum / ticks) * 1e6;
}

/**
 * Returns the status of a process, or an empty string if the process has just exited. In that case, its
 * parent's CPU time includes its CPU time.
 */
function statOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return '';
  }
}
