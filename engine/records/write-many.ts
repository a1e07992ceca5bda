import type { Database } from '../database/index.ts';
import { HttpError } from '../errors.ts';
import type { Body } from './body.ts';
import { execute } from './execute.ts';
import type { Caller } from './operation.ts';
import type { CompiledOperations } from './operations.ts';

/** What became of a record. */
export type Written = 'created' | 'updated' | HttpError;

/** Whether each record is written that can be, or none unless all can be. */
export type Wish = 'each' | 'all';

/** How the records of an import are written. */
export interface ImportWrites {
  readonly caller: Caller;
  readonly strict: boolean;
  /** The unique fields by which records are found and changed; undefined: all are new. */
  readonly match: readonly string[] | undefined;
  /** Whether everything is validated and nothing is written. */
  readonly isTrial: boolean;
}

/** Writes records of an import. @returns what became of each of them */
export const writeMany =
  (database: Database, { create }: CompiledOperations, { caller, strict, isTrial }: ImportWrites) =>
  async (bodies: readonly Body[], _wish: Wish): Promise<readonly Written[]> => {
    const results: Written[] = [];
    for (const body of bodies) {
      try {
        const plan = create.plan({
          caller,
          strict,
          query: {},
          headers: {},
          body: () => body,
          bytes: () => Buffer.alloc(0),
        });
        if (!isTrial) await execute(database, create, plan);
        results.push('created');
      } catch (cause) {
        if (!(cause instanceof HttpError)) throw cause;
        results.push(cause);
      }
    }
    return results;
  };
