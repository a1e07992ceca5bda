/** Logs failures that repeat: each at once, then once a minute with how often it happened. */
export interface FailureLog {
  /** Two reports of one key are the same failure; the line shows the details of the latest. */
  readonly report: (key: string, details: object, text: string) => void;
  /** Logs what has been counted and stops. */
  readonly close: () => void;
}

interface Counted {
  count: number;
  details: object;
  text: string;
}

/** Failures told apart within a minute; what is beyond is one. */
const mostKeys = 100;

/** Makes such a log. @param everyMs how long a repeated failure is only counted, in milliseconds */
export function failureLog(log: (details: object, text: string) => void, everyMs = 60_000): FailureLog {
  const counted = new Map<string, Counted>();
  const flush = () => {
    for (const [key, { count, details, text }] of [...counted]) {
      // A minute without it ends the counting.
      if (count === 0) counted.delete(key);
      else {
        log({ ...details, count }, text);
        counted.set(key, { count: 0, details, text });
      }
    }
  };
  const timer = setInterval(flush, everyMs).unref();
  return {
    report: (key, details, text) => {
      const own = counted.has(key) || counted.size < mostKeys ? key : '';
      const known = counted.get(own);
      if (known === undefined) log({ ...details, count: 1 }, text);
      counted.set(own, { count: known === undefined ? 0 : known.count + 1, details, text });
    },
    close: () => {
      clearInterval(timer);
      flush();
    },
  };
}
