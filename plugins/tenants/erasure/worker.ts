import type { FastifyInstance } from 'fastify';
import { type Database, failureDetails, isStatementTimeout } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import type { PeriodicTask } from '../../../engine/modules/index.ts';
import type { CustomFields } from '../../../engine/records/index.ts';
import { tablesOf, transaction } from '../../../engine/tables/index.ts';
import { type Language, messageIn } from '../../admin-ui/shell/index.ts';
import type { PersonErasure, SearchResult } from './erase-person.ts';
import {
  type ClaimedErasure,
  changeState,
  claimErasure,
  describeTraces,
  postponeErasure,
  releaseClaim,
  removeExpired,
  renewClaim,
  type sealedErasures,
} from './erasure-requests.ts';
import { erasureTexts } from './texts/index.ts';

const { later } = erasureTexts;

/** Interval at which a process looks for erasures that another process left unfinished, in milliseconds. */
const intervalMs = 10_000;
/** Interval at which a claim is renewed, in milliseconds. */
const renewMs = 1000;
/** Maximum number of erasures that a process works on at the same time, each for a different organization. */
const maxConcurrent = 2;

/** Thrown when a search is canceled or the process is shutting down. */
class Stopped extends Error {}

/** Services required for the worker. */
interface ErasureServices {
  readonly database: Database;
  readonly erasure: PersonErasure;
  readonly sealed: ReturnType<typeof sealedErasures>;
  /** Returns the custom fields of an organization. */
  readonly customFieldsOf: (organization: string) => Promise<CustomFields | undefined>;
}

/**
 * Runs searches and erasures in the background. Each organization's statements run one at a time in the
 * export lane. If a process stops or crashes, another process resumes its work.
 * @returns the background task, which can also be triggered immediately
 */
export function runErasures(app: FastifyInstance, services: ErasureServices): PeriodicTask {
  const { database } = services;
  let isStopping = false;
  /** Workers that still have erasures. A run does not wait for them, so that the next one can start the others again. */
  const workers = new Set<Promise<void>>();
  app.addHook('preClose', async () => {
    isStopping = true;
    await Promise.all(workers);
  });
  const isPaused = () => isStopping || app.isReadOnly?.() === true;
  const work = async () => {
    while (!isPaused()) {
      const claim = await claimErasure(tablesOf(database));
      if (claim === undefined) return;
      await perform(services, claim, isPaused).catch(async (cause: Error) => {
        const end = cause instanceof Stopped ? releaseClaim : postponeErasure;
        await end(tablesOf(database), claim).catch(() => {});
        if (cause instanceof Stopped) return;
        app.log.warn(failureDetails(cause), 'erasure failed; it will be retried');
      });
    }
  };
  const startWorker = () => {
    const worker = work()
      .catch(() => {})
      .finally(() => workers.delete(worker));
    workers.add(worker);
  };
  return app.background.every(app, 'erasures', intervalMs, async () => {
    while (workers.size < maxConcurrent) startWorker();
    await removeExpired(tablesOf(database)).catch(() => {});
  });
}

/** Runs a search and, if it has been confirmed, the erasure. @throws Stopped or a database error */
async function perform(
  { database, erasure, sealed, customFieldsOf }: ErasureServices,
  claim: ClaimedErasure,
  isPaused: () => boolean,
): Promise<void> {
  const { organization, id, state } = claim;
  const tables = tablesOf(database);
  const fail = async (error: string): Promise<void> => {
    await changeState(tables, organization, id, state, { state: 'failed', error });
  };
  let renewedAt = performance.now();
  const progress = async (searched: number) => {
    if (isPaused()) throw new Stopped();
    if (performance.now() - renewedAt < renewMs) return;
    renewedAt = performance.now();
    if (!(await renewClaim(tables, claim, searched))) throw new Stopped();
  };
  const run = async <T>(work: () => Promise<T>): Promise<T> =>
    database.schedule(work, { organization, lane: 'export' });
  let result: SearchResult;
  let language: Language = 'en';
  try {
    const { wish, actor, ...request } = await sealed.openRequest(claim.request);
    // The message of a failure is stored, so it has the language of the page that started the search.
    language = request.language ?? 'en';
    const input = { ...wish, organization, customFields: await customFieldsOf(organization) };
    result = await erasure.find(
      { run: async (query) => (await run(() => query.execute(tables))).rows, progress },
      input,
    );
    if (state === 'erasing') {
      await run(() =>
        transaction(database, async (tx) => {
          // The state is changed first so that only one process erases the data.
          const outcome = { state: 'erased', request: '', result: '' } as const;
          if (await changeState(tx, organization, id, state, outcome))
            await erasure.erase(tx, actor, input, result);
        }),
      );
      return;
    }
  } catch (cause) {
    // Searching a single row exceeds the statement timeout, so a retry would not help.
    if (isStatementTimeout(cause)) return await fail(later('valueTooLarge')(language));
    if (!(cause instanceof UserError)) throw cause;
    return await fail(messageIn(cause, language));
  }
  if (describeTraces(result).length === 0)
    await changeState(tables, organization, id, state, { state: 'nothing' });
  else
    await changeState(tables, organization, id, state, {
      state: 'found',
      result: await sealed.sealResult(result),
    });
}
