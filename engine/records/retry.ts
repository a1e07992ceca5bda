import { setTimeout as pause } from 'node:timers/promises';
import { type ErrorCode, HttpError } from '../errors.ts';

/**
 * Codes of errors after which a statement, which did not run or was rolled back, can succeed a little later.
 */
const transientCodes: readonly ErrorCode[] = ['overloaded', 'too_slow'];
const maxTries = 5;
const firstPauseMs = 250;

/**
 * Runs one step of long work and retries it with backoff if the database is busy, so that the previous steps
 * are not lost.
 */
export async function retryWhenBusy<T>(work: () => Promise<T>, tries = 1): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (!(cause instanceof HttpError && transientCodes.includes(cause.code)) || tries === maxTries)
      throw cause;
  }
  await pause(firstPauseMs * 2 ** (tries - 1));
  return retryWhenBusy(work, tries + 1);
}
