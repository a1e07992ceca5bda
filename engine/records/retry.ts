import { setTimeout as pause } from 'node:timers/promises';
import { type ErrorCode, HttpError } from '../errors.ts';

/** Failures after which a statement has not run, or is undone, and may succeed a little later. */
const passing: readonly ErrorCode[] = ['overloaded', 'too_slow'];
const maxTries = 5;
const firstPauseMs = 250;

/** Runs the next part of work that is under way, again if the database is busy: what is done would be lost for that. */
export async function retryWhenBusy<T>(work: () => Promise<T>, tries = 1): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (!(cause instanceof HttpError && passing.includes(cause.code)) || tries === maxTries) throw cause;
  }
  await pause(firstPauseMs * 2 ** (tries - 1));
  return retryWhenBusy(work, tries + 1);
}
