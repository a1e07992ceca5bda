/** Logs failures: the first one immediately, and repeated ones once a minute with their count. */
interface FailureLog {
  /**
   * Reports a failure. Failures with the same key count as repetitions, and the log entry contains the details of the
   * latest one.
   */
  readonly report: (key: string, details: object, text: string) => void;
  /** Logs the remaining counts and stops. */
  readonly close: () => void;
}

interface FailureCount {
  count: number;
  details: object;
  text: string;
}

/** Maximum number of failures counted separately within a minute. Additional failures are counted together. */
const maxKeys = 100;

/** Creates a failure log. @param intervalMs interval between log entries for a repeated failure, in milliseconds */
export function failureLog(log: (details: object, text: string) => void, intervalMs = 60_000): FailureLog {
  const counts = new Map<string, FailureCount>();
  const flush = () => {
    for (const [key, { count, details, text }] of [...counts]) {
      // A failure that was not repeated within the interval is forgotten.
      if (count === 0) counts.delete(key);
      else {
        log({ ...details, count }, text);
        counts.set(key, { count: 0, details, text });
      }
    }
  };
  const timer = setInterval(flush, intervalMs).unref();
  return {
    report: (key, details, text) => {
      const countKey = counts.has(key) || counts.size < maxKeys ? key : '';
      const entry = counts.get(countKey);
      if (entry === undefined) log({ ...details, count: 1 }, text);
      counts.set(countKey, { count: entry === undefined ? 0 : entry.count + 1, details, text });
    },
    close: () => {
      clearInterval(timer);
      flush();
    },
  };
}
