// Loaded into the service before its own modules: reports its memory and the delay of its event loop to the soak.
import { monitorEventLoopDelay } from 'node:perf_hooks';

/** What the service reports of itself once a second. */
export interface Report {
  /** Bytes. */
  readonly rss: number;
  readonly heap: number;
  /** The longest delay of the event loop since the last report, in milliseconds. */
  readonly delay: number;
}

const everyMs = 1000;
const resolutionMs = 10;
const histogram = monitorEventLoopDelay({ resolution: resolutionMs });
histogram.enable();
setInterval(() => {
  const { rss, heapUsed: heap } = process.memoryUsage();
  const report: Report = { rss, heap, delay: Math.max(0, histogram.max / 1e6 - resolutionMs) };
  histogram.reset();
  process.send?.(report);
}, everyMs).unref();
process.channel?.unref();
