// CPU time limits for tests, which do not depend on other processes on the machine.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { Database } from '../../engine/database/database.ts';
import { calibrate } from './hostile/work.ts';

/** Maximum number of attempts for work that costs too much. */
const tries = 10;

/**
 * Repeats work until its cost is within the limits or the attempts are used up, with growing delays. Garbage collection,
 * compilation and background work add cost at random, but an expensive algorithm costs too much in every attempt.
 * @param attempt does the work once, and returns the limits that it exceeded
 * @returns the limits that the last attempt exceeded
 */
export async function leastExcess(attempt: () => Promise<string[]>): Promise<string[]> {
  let excess = await attempt();
  for (let count = 1; excess.length > 0 && count < tries; count++) {
    await pause(count * 20);
    excess = await attempt();
  }
  return excess;
}

/**
 * Runs synchronous work and checks its CPU time. Repeats the work if it takes too long.
 * @param limitMs CPU time of this thread on a typical machine, in milliseconds
 */
export function takes<T>(limitMs: number, work: () => T): T {
  for (let count = 1; ; count++) {
    const [ms, result] = threadCpuOf(work);
    if (ms < limitMs) return result;
    // Everything takes longer on a slow or busy machine.
    const limit = limitMs * Math.max(1, calibrationMs() / typicalMs);
    if (ms < limit) return result;
    assert.ok(count < tries, `took ${Math.round(ms)} ms of CPU time; the limit is ${Math.round(limit)} ms`);
  }
}

function threadCpuOf<T>(work: () => T): [ms: number, result: T] {
  const start = process.threadCpuUsage();
  const result = work();
  const { user, system } = process.threadCpuUsage(start);
  return [(user + system) / 1000, result];
}

/** Returns the CPU time in milliseconds that this process, including all threads, spends on the work. */
async function cpuOf(work: () => unknown): Promise<number> {
  const start = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

/**
 * Returns the CPU time in milliseconds that this process and the database server spend on the work. The
 * server's share is known only on Linux and counts as zero elsewhere.
 */
export async function cpuWithServer(database: Database, work: () => Promise<unknown>): Promise<number> {
  const processes = async () => {
    const text = `select pid::text from pg_stat_activity where datname = current_database() and backend_type = 'client backend'`;
    const rows = await database.run({ name: '', text, values: [] });
    return new Map(rows.map(([pid]) => [String(pid), serverCpuMs(String(pid))]));
  };
  const before = database.kind === 'embedded' ? undefined : await processes();
  const own = await cpuOf(work);
  if (before === undefined) return own;
  let spent = own;
  for (const [pid, ms] of await processes()) spent += ms - (before.get(pid) ?? 0);
  return spent;
}

function serverCpuMs(pid: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  } catch {
    return 0;
  }
}

/** CPU time of a calibration loop on a typical machine, in milliseconds. */
const typicalMs = 10;
/** Number of `calibrate` runs in a calibration loop. */
const runs = 5;

/** Returns the CPU time that a calibration loop takes in this process, in milliseconds. */
const calibrationMs = (): number => runs * calibrate();

/**
 * Checks that work costs this process at most as much CPU time as the given number of calibration loops,
 * which run before and after it. Repeats the work if it costs more. The result does not depend on other processes or on
 * the machine's speed.
 */
export async function takesAtMost(loops: number, work: () => Promise<unknown>): Promise<void> {
  const excess = await leastExcess(async () => {
    const before = calibrationMs();
    const spent = await cpuOf(work);
    const loop = Math.max(before, calibrationMs());
    if (spent <= loops * loop) return [];
    return [`took ${(spent / loop).toFixed(1)} calibration loops; the limit is ${loops}`];
  });
  assert.deepEqual(excess, []);
}
