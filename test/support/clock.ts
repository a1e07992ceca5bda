// Time that a test may measure: what this thread computes, however busy the machine is with other things.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';

/**
 * Does some work that does not wait and checks how much computing it took.
 * @param limitMs of CPU time of this thread
 */
export function takes<T>(limitMs: number, work: () => T): T {
  const start = process.threadCpuUsage();
  const result = work();
  const { user, system } = process.threadCpuUsage(start);
  const ms = (user + system) / 1000;
  assert.ok(ms < limitMs, `${Math.round(ms)} ms of CPU time, and not less than ${limitMs}`);
  return result;
}

/** CPU time in milliseconds that this process spends on some work, all its threads included. */
export async function cpuOf(work: () => unknown): Promise<number> {
  const start = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

/** Work that takes about 10 ms of CPU time on a usual machine: how long it takes here says how fast this process is. */
function calibrate(): void {
  let digest = '';
  for (let round = 0; round < 6000; round++) digest = createHash('sha256').update(digest).digest('hex');
}

/**
 * Does some work and checks that it costs this process at most so many times the CPU time of a calibration loop, which
 * runs before and after it. What other processes do, and how fast the machine is, does not count.
 */
export async function takesAtMost(loops: number, work: () => Promise<unknown>): Promise<void> {
  const before = await cpuOf(calibrate);
  const spent = await cpuOf(work);
  const loop = Math.max(before, await cpuOf(calibrate));
  assert.ok(spent <= loops * loop, `${(spent / loop).toFixed(1)} calibration loops, and not ${loops}`);
}
