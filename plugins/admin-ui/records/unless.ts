import { HttpError } from '../../../engine/errors.ts';

/** Returns a function that runs work, and returns undefined if the work fails with one of these statuses. */
const unless =
  (...statuses: readonly number[]) =>
  async <T>(work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      if (error instanceof HttpError && statuses.includes(error.status)) return undefined;
      throw error;
    }
  };

/** Runs work. @returns undefined if a record does not exist, or the member cannot see it */
export const unlessMissing = unless(404);

/** Runs a write. @returns undefined if another user has changed the record in the meantime */
export const unlessConflict = unless(412);

/** Runs a delete. @returns undefined if the record does not exist, has been changed in the meantime or cannot be deleted */
export const unlessKept = unless(404, 409, 412);
