import { setTimeout as delay } from 'node:timers/promises';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { Orm } from './database.ts';

/** How long to wait before the lock is tried again, in milliseconds. */
const pollMs = 100;

/**
 * Runs work in a transaction, on one node at a time; other nodes wait without a limit. The transaction holds the lock,
 * so every end of it releases the lock, and one connection serves for both, also through a pooler. No node waits
 * within a transaction: that would occupy a connection that the working node may need, and end after `lock_timeout`.
 * @param lock any number, the same on every node
 */
export async function withAdvisoryLock<T>(orm: Orm, lock: bigint, work: Work<T>): Promise<T> {
  for (;;) {
    const done = await withAdvisoryLockIfFree(orm, lock, work);
    if (done !== undefined) return done.result;
    await delay(pollMs);
  }
}

type Work<T> = (em: SqlEntityManager) => Promise<T>;

/** As {@link withAdvisoryLock}, but waits for nobody. @returns undefined if another node works */
export const withAdvisoryLockIfFree = <T>(
  orm: Orm,
  lock: bigint,
  work: Work<T>,
): Promise<{ readonly result: T } | undefined> =>
  orm.em.fork().transactional(async (em) => {
    const [row] = await em
      .getConnection()
      .execute<{ locked?: boolean }[]>(
        `select pg_try_advisory_xact_lock(${lock}) as locked`,
        [],
        'all',
        em.getTransactionContext(),
      );
    return row?.locked === true ? { result: await work(em) } : undefined;
  });
