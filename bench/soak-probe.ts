// Preloaded into the service. Reports its memory and event loop delay to the soak test.
import { monitorEventLoopDelay } from 'node:perf_hooks';

/** The report that the service sends once a second. */
export interface Report {
  /** Resident memory, in bytes. */
  readonly rss: number;
  readonly heap: number;
  /** Maximum event loop delay since the previous report, in milliseconds. */
  readonly delay: number;
}

const intervalMs = 1000;
const resolutionMs = 10;
const histogram = monitorEventLoopDelay({ resolution: resolutionMs });
histogram.enable();
setInterval(() => {
  const { rss, heapUsed: heap } = process.memoryUsage();
  const report: Report = { rss, heap, delay: Math.max(0, histogram.max / 1e6 - resolutionMs) };
  histogram.reset();
  process.send?.(report);
}, intervalMs).unref();
process.channel?.unref();
