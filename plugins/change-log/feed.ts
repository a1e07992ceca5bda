import type { Database } from '../../engine/database/index.ts';
import { errors } from '../../engine/errors.ts';
import { type Caller, execute, hasPreviousVersionSql, selectChanges } from '../../engine/records/index.ts';
import { arrayText, prepare } from '../../engine/sql/index.ts';
import { ensureEpoch, sourceSql } from './epoch.ts';
import type { FeedPosition, UnverifiedPosition } from './position.ts';

/** Input for reading a page of the feed. */
interface FeedQuery {
  readonly caller: Caller;
  /** The fields returned for each requested resource. */
  readonly fields: ReadonlyMap<string, readonly string[]>;
  readonly after: FeedPosition;
  /** Total size of records after which the page ends, in bytes. */
  readonly maxBytes: number;
}

/** A change with its position. */
interface FeedEntry {
  /** The change as JSON. */
  readonly change: string;
  readonly position: UnverifiedPosition;
}

/** A page of the feed. */
export interface FeedPage {
  readonly entries: readonly FeedEntry[];
  /** The position after the last change read, including changes to other resources. */
  readonly end: UnverifiedPosition;
  /** Whether there are more changes to read. */
  readonly isFull: boolean;
  /** Time before which changes may have been deleted, in milliseconds since 1970. */
  readonly prunedBefore: number;
}

/** Maximum number of changes per page. */
const maxChanges = 500;

/**
 * Query for the feed's current state: its epoch, whether the epoch belongs to this database, and the first unreadable
 * transaction ID.
 */
export const nowSql = `select "epoch", "source" = ${sourceSql} as "same", "pruned_before", pg_snapshot_xmin(pg_current_snapshot()) as "horizon" from "crm_ledger_epochs" order by "id" desc limit 1`;

/** Returns an SQL expression that converts a time to milliseconds since 1970. */
const milliseconds = (time: string) => `floor(extract(epoch from ${time}) * 1000)::text`;

/**
 * Statement that returns the changes after a position in transaction order. Excludes transactions that started after
 * the oldest running transaction, because rows become visible out of order and a reader must not skip any rows.
 */
const page = prepare<FeedQuery>('ledger_page', 'deep', ($) => {
  const organization = $(({ caller }) => caller.principal.organization);
  const resources = `${$(({ fields }) => arrayText([...fields.keys()]))}::text[]`;
  const fieldLists = `${$(({ fields }) => arrayText([...fields.values()].map(arrayText)))}::text[]`;
  const after = `(${$(({ after }) => after.transaction)}::text::xid8, ${$(({ after }) => after.id)}::bigint)`;
  // Appending an empty string keeps the planner from using the index by resource, which has a different order.
  const conditions = `"organization_id" = ${organization}::bigint and ("transaction", "id") > ${after} and "transaction" < (select "horizon" from _now) and "object" || '' = any(${resources}) and "version" is not null`;
  const before = `(select octet_length(_p."record") from "crm_ledger" _p where ${hasPreviousVersionSql('_p', '_r')})`;
  const size = `coalesce(octet_length(_r."record"), 0) + coalesce(octet_length(_r."before"), ${before}, 0)`;
  const fields = `(select _v."fields"::text[] from unnest(${resources}, ${fieldLists}) _v("object", "fields") where _v."object" = l."object")`;
  return [
    `with _now as materialized (${nowSql}),`,
    `_sized as materialized (select _r.*, ${size} as "_size" from (select * from "crm_ledger" where ${conditions} order by "transaction", "id" limit ${maxChanges}) _r),`,
    `_rows as materialized (select *, sum("_size") over (order by "transaction", "id" rows unbounded preceding) - "_size" as "_before" from _sized)`,
    `select "epoch", "horizon"::text, ${milliseconds('now()')}, ${milliseconds('"pruned_before"')}, "same"::text, (select count(*) from _rows)::text from _now union all`,
    `select * from (${selectChanges(`select * from _rows where "_before" < ${$(({ maxBytes }) => String(maxBytes))}::bigint`, fields, 'l."transaction", l."id"', `, l."transaction"::text, l."id"::text, ${milliseconds('l."at"')}, null, null`)}) _c`,
  ].join(' ');
});

/**
 * Reads a page of the feed.
 * @returns undefined if the current epoch belongs to another database
 * @throws HttpError in the same cases as `execute`
 */
export async function readPage(database: Database, query: FeedQuery): Promise<FeedPage | undefined> {
  const { organization } = query.caller.principal;
  const plan = { ...query, organization };
  const [head = [], ...rows] = await execute(database, { statement: page.bind }, plan);
  const [epoch, horizon, now, prunedBefore, same, rowCount] = head.map(String);
  if (epoch === undefined || horizon === undefined || same !== 'true') return undefined;
  const entries = rows.map((row) => {
    const [change = '', transaction = '', id = '', at] = row.map(String);
    // The position is never older than the oldest accepted cursor, so that a client that starts with the oldest change
    // can continue.
    const position = {
      epoch,
      transaction,
      id,
      at: Math.max(Number(at), oldestRetained(Number(prunedBefore))),
    };
    return { change, position };
  });
  const isFull = entries.length === maxChanges || entries.length < Number(rowCount);
  const last = entries.at(-1)?.position;
  return {
    entries,
    isFull,
    end: isFull && last !== undefined ? last : { epoch, transaction: horizon, id: '0', at: Number(now) },
    prunedBefore: Number(prunedBefore),
  };
}

const endStatement = prepare<undefined>(
  'ledger_end',
  'read',
  () =>
    `select "epoch", "horizon"::text, ${milliseconds('"pruned_before"')}, "same"::text from (${nowSql}) n`,
);

/** Returns the feed's end and retention limit. @throws HttpError 503 if temporarily unavailable */
export async function feedEnd(database: Database): Promise<{
  readonly end: Omit<UnverifiedPosition, 'at'>;
  readonly prunedBefore: number;
}> {
  for (const isSecond of [false, true]) {
    const [[epoch, transaction, prunedBefore, same] = []] = await database.run(endStatement.bind(undefined));
    if (String(same) === 'true')
      return {
        end: { epoch: String(epoch), transaction: String(transaction), id: '0' },
        prunedBefore: Number(prunedBefore),
      };
    if (!isSecond) await ensureEpoch(database, true);
  }
  throw errors.overloaded();
}

/** Maximum age of a writing transaction, in milliseconds. */
const longestTransactionMs = 3_600_000;

/** Returns the time of the oldest position after which no change has been deleted. */
const oldestRetained = (prunedBefore: number): number => prunedBefore + longestTransactionMs + 1;

/** Checks that no change after a position has been deleted. @throws HttpError 410 if changes may be missing */
export function assertRetained(
  position: UnverifiedPosition,
  {
    end,
    prunedBefore,
  }: { readonly end: Omit<UnverifiedPosition, 'at' | 'id'>; readonly prunedBefore: number },
): void {
  const isRetained = position.at >= oldestRetained(prunedBefore);
  if (position.epoch !== end.epoch || !isRetained || BigInt(position.transaction) > BigInt(end.transaction))
    throw errors.cursorExpired();
}
