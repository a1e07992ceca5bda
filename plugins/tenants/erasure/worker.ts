import type { FastifyInstance } from 'fastify';
import { type Database, isStatementTimeout } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import type { PeriodicTask } from '../../../engine/modules/index.ts';
import { tablesOf, transaction } from '../../../engine/tables/index.ts';
import type { Erasure, Found } from './erasure.ts';
import {
  type Claimed,
  change,
  claimErasure,
  releaseClaim,
  removeExpired,
  renewClaim,
  type sealedErasures,
} from './erasures.ts';
import { describeTraces } from './texts.ts';

/** How often a process looks for erasures that another one has left, in milliseconds. */
const everyMs = 10_000;
/** How often a claim is renewed, in milliseconds. */
const renewMs = 1000;
/** Erasures that one process works on at the same time, each of another organization. */
const atOnce = 2;

/** A search was canceled, or this process is about to stop. */
class Stopped extends Error {}

/** What the worker needs. */
export interface ErasureServices {
  readonly database: Database;
  readonly erasure: Erasure;
  readonly sealed: ReturnType<typeof sealedErasures>;
}

/**
 * Searches and erases in the background, in one process: statements run one at a time for each organization, in the lane of
 * exports, and whatever a process leaves when it stops or dies is started again by the next.
 * @returns has it look for requests now
 */
export function runErasures(app: FastifyInstance, services: ErasureServices): PeriodicTask {
  const { database } = services;
  let isStopping = false;
  app.addHook('preClose', async () => {
    isStopping = true;
  });
  const isPaused = () => isStopping || app.isReadOnly?.() === true;
  const work = async () => {
    while (!isPaused()) {
      const claimed = await claimErasure(tablesOf(database));
      if (claimed === undefined) return;
      await perform(services, claimed, isPaused).catch(async (cause: { code?: string; name: string }) => {
        await releaseClaim(tablesOf(database), claimed).catch(() => {});
        if (cause instanceof Stopped) return;
        app.log.warn({ code: cause.code, error: cause.name }, 'erasure failed; it will be retried');
        throw cause;
      });
    }
  };
  return app.background.every(app, 'erasures', everyMs, async () => {
    const workers = Array.from({ length: atOnce }, work);
    await Promise.allSettled([...workers, removeExpired(tablesOf(database))]);
  });
}

/** Searches, and erases if that is confirmed. @throws Stopped, or when the database fails */
async function perform(
  { database, erasure, sealed }: ErasureServices,
  claimed: Claimed,
  isPaused: () => boolean,
): Promise<void> {
  const { organization, id, state } = claimed;
  const tables = tablesOf(database);
  const fail = async (error: string): Promise<void> => {
    await change(tables, organization, id, state, { state: 'failed', error });
  };
  let renewed = performance.now();
  const progress = async (searched: number) => {
    if (isPaused()) throw new Stopped();
    if (performance.now() - renewed < renewMs) return;
    renewed = performance.now();
    if (!(await renewClaim(tables, claimed, searched))) throw new Stopped();
  };
  const run = async <T>(work: () => Promise<T>): Promise<T> =>
    database.admission.run('export', organization, work);
  let found: Found;
  try {
    const { wish, actor } = await sealed.openRequest(claimed.request);
    const input = { ...wish, organization };
    found = await erasure.find(
      { run: async (query) => (await run(() => query.execute(tables))).rows, progress },
      input,
    );
    if (state === 'erasing') {
      await run(() =>
        transaction(database, async (within) => {
          // First, so that it is erased once, whichever process does it.
          const outcome = { state: 'erased', request: '', result: '' } as const;
          if (await change(within, organization, id, state, outcome))
            await erasure.erase(within, actor, input, found);
        }),
      );
      return;
    }
  } catch (cause) {
    // One row alone takes longer than a statement may: trying again would not help.
    if (isStatementTimeout(cause)) return await fail('a stored value is too large to search');
    if (!(cause instanceof UserError)) throw cause;
    return await fail(cause.message);
  }
  if (describeTraces(found).length === 0) await change(tables, organization, id, state, { state: 'nothing' });
  else
    await change(tables, organization, id, state, { state: 'found', result: await sealed.sealResult(found) });
}
