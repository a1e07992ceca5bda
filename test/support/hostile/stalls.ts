// Test support: how long an event loop stands still, in time of this thread's processor: what other processes and
// threads of a loaded machine take is not counted.

/** Milliseconds of a look at the loop. */
const everyMs = 2;

/**
 * Runs work on this thread's event loop.
 * @returns the longest time, in milliseconds, that the thread worked without coming back to its loop
 */
export async function longestStall(work: () => Promise<unknown>): Promise<number> {
  let last = process.threadCpuUsage();
  let longest = 0;
  const look = () => {
    const now = process.threadCpuUsage();
    longest = Math.max(longest, now.user + now.system - last.user - last.system);
    last = now;
  };
  const timer = setInterval(look, everyMs);
  try {
    await work();
  } finally {
    clearInterval(timer);
    look();
  }
  return longest / 1000;
}
