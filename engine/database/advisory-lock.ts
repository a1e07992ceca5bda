import { setTimeout as delay } from 'node:timers/promises';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { Orm } from './database.ts';

/** Interval between attempts to acquire the lock, in milliseconds. */
const pollMs = 100;

/**
 * Runs work in a transaction on one node at a time. Other nodes wait indefinitely. The transaction holds the
 * lock, so the lock is released no matter how the transaction ends, and locking also works through a pooler.
 * Nodes do not wait inside a transaction, because the wait would be subject to `lock_timeout` and would
 * occupy a connection that the working node might need.
 * @param lock any number, identical on every node
 */
export async function withAdvisoryLock<T>(orm: Orm, lock: bigint, work: Work<T>): Promise<T> {
  for (;;) {
    const outcome = await withAdvisoryLockIfFree(orm, lock, work);
    if (outcome !== undefined) return outcome.result;
    await delay(pollMs);
  }
}

type Work<T> = (em: SqlEntityManager) => Promise<T>;

/** Like {@link withAdvisoryLock}, but does not wait. @returns undefined if another node holds the lock */
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
