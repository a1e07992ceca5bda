// Test support: times that the service promises. Tests run beside other work, so they only check the events that a promise
// is about; `npm run faults`, on a machine without other work, also checks the time.

/** Whether promised times are checked. */
export const isMeasured = process.argv.includes('--whole');

/** How long a test waits for an event on a busy machine, in milliseconds. */
const patienceMs = 60_000;

/** Returns the time limit for an event that is promised within a time, in milliseconds. */
export const promised = (ms: number): number => (isMeasured ? ms : Math.max(ms, patienceMs));

/** Waits for work that is promised to end within a time. @throws if it takes longer than {@link promised} allows */
export async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const limitMs = promised(ms);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${limitMs} ms`)), limitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
