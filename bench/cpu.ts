import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Ticks in a second, as /proc counts them. */
const ticks = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** CPU time that processes have used, with that of their children that have ended, in microseconds. */
export function cpuOf(pids: readonly number[]): number {
  let sum = 0;
  for (const pid of pids) {
    const stat = statOf(pid);
    // The name, in brackets, may hold spaces; utime is field 14 of the whole line.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    for (const used of fields.slice(11, 15)) sum += Number(used);
  }
  return (sum / ticks) * 1e6;
}

/** Empty for a process that has just ended: its parent counts it then. */
function statOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return '';
  }
}
