import { setTimeout as delay } from 'node:timers/promises';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { Orm } from './database.ts';

/** How long to wait before the lock is tried again, in milliseconds. */
const pollMs = 100;

/**
 * Does work in a transaction, on one node at a time; others wait as long as it takes. The transaction holds the lock,
 * so its end, in whatever way, releases it, and one connection serves for both, also through a pooler. Nobody waits
 * within a transaction: that would hold a connection, which the one who works may need, and end after `lock_timeout`.
 * @param lock any number, the same on every node
 */
export async function exclusively<T>(
  orm: Orm,
  lock: bigint,
  work: (em: SqlEntityManager) => Promise<T>,
): Promise<T> {
  for (;;) {
    const done = await orm.em.fork().transactional(async (em) => {
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
    if (done !== undefined) return done.result;
    await delay(pollMs);
  }
}
