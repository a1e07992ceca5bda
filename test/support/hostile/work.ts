// Test support: measures how much work a request causes on this thread, independently of the machine and of other
// processes: CPU time relative to a calibration loop in the same process, and allocated bytes.
import { GCProfiler, getHeapStatistics } from 'node:v8';

/** Interval at which the event loop is observed, in milliseconds. */
const everyMs = 2;

/** Work done by the thread. */
export interface Work {
  /** Longest time without returning to the event loop, in milliseconds of CPU time. */
  readonly stallMs: number;
  /** CPU time, in milliseconds. */
  readonly cpuMs: number;
  /** Bytes allocated by V8, including buffers and memory that was collected in the meantime. */
  readonly allocated: number;
}

/** Starts to count the bytes that V8 allocates. @returns a function that stops and returns their number */
export function countAllocated(): () => number {
  const profiler = new GCProfiler();
  const usedBefore = usedBytes();
  profiler.start();
  return () => {
    const collections = profiler.stop().statistics;
    let allocated = 0;
    let used = usedBefore;
    for (const { beforeGC, afterGC } of collections) {
      allocated += Math.max(0, sizeOf(beforeGC.heapStatistics) - used);
      used = sizeOf(afterGC.heapStatistics);
    }
    return allocated + Math.max(0, usedBytes() - used);
  };
}

/** Runs a function on this thread's event loop and measures its work. */
export async function workOf(run: () => Promise<unknown>): Promise<Work> {
  const allocatedBytes = countAllocated();
  const start = process.threadCpuUsage();
  let last = start;
  let longest = 0;
  const look = () => {
    const now = process.threadCpuUsage();
    longest = Math.max(longest, microseconds(now) - microseconds(last));
    last = now;
  };
  const timer = setInterval(look, everyMs);
  try {
    await run();
  } finally {
    clearInterval(timer);
    look();
  }
  const allocated = allocatedBytes();
  return { stallMs: longest / 1000, cpuMs: (microseconds(last) - microseconds(start)) / 1000, allocated };
}

const microseconds = ({ user, system }: NodeJS.CpuUsage): number => user + system;
const sizeOf = ({ usedHeapSize, externalMemory }: { usedHeapSize: number; externalMemory: number }): number =>
  usedHeapSize + externalMemory;
const usedBytes = (): number => {
  const { used_heap_size: usedHeapSize, external_memory: externalMemory } = getHeapStatistics();
  return sizeOf({ usedHeapSize, externalMemory });
};

/** Rows of the calibration loop. As for a large body, they do not fit into a core's own cache, which contention makes slow. */
const rowCount = 20_000;
const rows = JSON.stringify(
  Array.from({ length: rowCount }, (_, id) => ({ id, name: `name ${id}`, tags: ['a', 'b'], amount: 12.5 })),
);

/** Performs work that is typical of a request: parsing, copying and visiting each byte. Takes about 20 ms. */
function loop(): number {
  let commas = 0;
  for (const byte of Buffer.from(JSON.stringify(JSON.parse(rows)))) if (byte === 44) commas++;
  return commas;
}

/** Number of loop runs measured together, because kernels account CPU time in steps of up to ten milliseconds. */
const runs = 4;
/** Number of rows in a unit of work. */
const unitRows = 2000;

/**
 * Measures the calibration loop. Contention for caches and cores slows it down as much as any other work.
 * @returns the CPU time of one unit, in milliseconds: about 2 on an idle machine
 */
export function calibrate(): number {
  const start = process.threadCpuUsage();
  for (let run = 0; run < runs; run++) loop();
  return microseconds(process.threadCpuUsage(start)) / 1000 / ((runs * rowCount) / unitRows);
}

// The first runs are not compiled yet.
calibrate();
