/** Logs repeated failures: the first immediately, then once a minute with a count. */
export interface FailureLog {
  /** Reports with the same key are the same failure; the log line shows the details of the latest. */
  readonly report: (key: string, details: object, text: string) => void;
  /** Logs the counts and stops. */
  readonly close: () => void;
}

interface Counted {
  count: number;
  details: object;
  text: string;
}

/** Failures counted separately within a minute; further ones are counted together. */
const maxKeys = 100;

/** Creates a log of failures. @param intervalMs how long a repeated failure is only counted, in milliseconds */
export function failureLog(log: (details: object, text: string) => void, intervalMs = 60_000): FailureLog {
  const counted = new Map<string, Counted>();
  const flush = () => {
    for (const [key, { count, details, text }] of [...counted]) {
      // A failure that did not repeat for an interval is forgotten.
      if (count === 0) counted.delete(key);
      else {
        log({ ...details, count }, text);
        counted.set(key, { count: 0, details, text });
      }
    }
  };
  const timer = setInterval(flush, intervalMs).unref();
  return {
    report: (key, details, text) => {
      const countedKey = counted.has(key) || counted.size < maxKeys ? key : '';
      const known = counted.get(countedKey);
      if (known === undefined) log({ ...details, count: 1 }, text);
      counted.set(countedKey, { count: known === undefined ? 0 : known.count + 1, details, text });
    },
    close: () => {
      clearInterval(timer);
      flush();
    },
  };
}
