import { type Database, runOutsideRequests } from '../../engine/database/index.ts';
import { errors } from '../../engine/errors.ts';
import { arrayText, prepare } from '../../engine/sql/index.ts';
import type { FeedPosition } from './position.ts';

/** Readers who wait for changes; they hold no connection of the database. */
export interface Waiters {
  /**
   * Takes a place among those who may wait, until it is left.
   * @throws HttpError 503 where too many wait already, of the organization or in total
   */
  readonly enter: (organization: string) => () => void;
  /** Waits until there are changes after a place of an organization, at most so long. */
  readonly wait: (
    organization: string,
    after: FeedPosition,
    ms: number,
    signal: AbortSignal,
  ) => Promise<void>;
}

/** Readers who may wait at the same time, in one process. */
const [maxOfOrganization, maxTotal] = [50, 1000];
/** How often one statement asks for all of them, and after a failure, in milliseconds. */
const [everyMs, afterFailureMs] = [100, 1000];

interface Reader extends FeedPosition {
  readonly organization: string;
  readonly wake: () => void;
}

const which = prepare<readonly Reader[]>('ledger_new', 'read', ($) => {
  const texts = (value: (reader: Reader) => string) =>
    `${$((readers) => arrayText(readers.map(value)))}::text[]`;
  const given = [
    texts(({ organization }) => organization),
    texts(({ transaction }) => transaction),
    texts(({ id }) => id),
  ];
  return `select w."number"::text from unnest(${given.join(', ')}) with ordinality w("organization", "transaction", "id", "number") where exists (select from "crm_ledger" l where l."organization_id" = w."organization"::bigint and (l."transaction", l."id") > (w."transaction"::xid8, w."id"::bigint) and l."transaction" < pg_snapshot_xmin(pg_current_snapshot()) and l."version" is not null)`;
});

/** The readers of one process. */
export function createWaiters(database: Database): Waiters {
  const readers = new Set<Reader>();
  const places = new Map<string, number>();
  let all = 0;
  let isAsking = false;
  const ask = async (): Promise<void> => {
    const asked = [...readers];
    let next = everyMs;
    try {
      for (const [number] of await database.run(which.bind(asked))) asked[Number(number) - 1]?.wake();
    } catch {
      // They read, and are told why that fails, when their time is up.
      next = afterFailureMs;
    }
    isAsking = readers.size > 0;
    if (isAsking) setTimeout(ask, next).unref();
  };
  return {
    enter: (organization) => {
      const taken = places.get(organization) ?? 0;
      if (taken >= maxOfOrganization || all >= maxTotal) throw errors.overloaded();
      places.set(organization, taken + 1);
      all++;
      let isIn = true;
      return () => {
        if (!isIn) return;
        isIn = false;
        all--;
        const left = (places.get(organization) ?? 1) - 1;
        if (left === 0) places.delete(organization);
        else places.set(organization, left);
      };
    },
    wait: (organization, { transaction, id }, ms, signal) =>
      new Promise((resolve) => {
        const wake = () => {
          readers.delete(reader);
          clearTimeout(late);
          signal.removeEventListener('abort', wake);
          resolve();
        };
        const reader: Reader = { organization, transaction, id, wake };
        const late = setTimeout(wake, ms);
        if (signal.aborted) return wake();
        signal.addEventListener('abort', wake);
        readers.add(reader);
        if (isAsking) return;
        isAsking = true;
        // One statement is for all readers, whoever was the first.
        runOutsideRequests(() => setTimeout(ask, everyMs).unref());
      }),
  };
}
