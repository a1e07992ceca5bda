// Test support: time limits that the service promises. Tests share the machine with other work, so they only check
// that the promised events occur. `npm run faults`, on an otherwise idle machine, also checks the time.

import { after, before } from 'node:test';

/** Whether the promised time limits are checked. */
export const isMeasured = process.argv.includes('--whole');

/**
 * How long a test waits for an event before it reports a hang, in milliseconds. On a busy machine, work that usually
 * takes seconds can take minutes.
 */
export const patienceMs = 180_000;

/**
 * Time limits that no request reaches on a busy machine, for a service whose requests must all succeed. Slow statements
 * are not logged.
 */
export const patient = {
  DATABASE_CONNECT_TIMEOUT_MS: '60000',
  DATABASE_STATEMENT_TIMEOUT_MS: '60000',
  DATABASE_LIST_TIMEOUT_MS: '60000',
  DATABASE_LOCK_TIMEOUT_MS: '60000',
  LOG_SLOW_MS: '0',
} as const;

/**
 * Lengthens the service's time limits for outgoing requests and hooks until the end of the suite, in which none of them may
 * expire. The peer can be in the same process, and a process that was stopped runs its timers before it reads responses.
 */
export function patientSignals(): void {
  const { timeout } = AbortSignal;
  before(() => {
    AbortSignal.timeout = (ms) => timeout.call(AbortSignal, Math.max(ms, patienceMs));
  });
  after(() => {
    AbortSignal.timeout = timeout;
  });
}

/** Returns the time limit for an event that is promised within a number of milliseconds. */
export const promised = (ms: number): number => (isMeasured ? ms : Math.max(ms, patienceMs));

/**
 * Waits for work that is promised to finish within a time limit.
 * @throws if it takes longer than {@link promised} allows
 */
export async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const limitMs = promised(ms);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`timed out after ${limitMs} ms`)), limitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
