import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Database, TextRows } from '../../engine/database/index.ts';
import { errors } from '../../engine/errors.ts';
import {
  type Caller,
  type ChangeView,
  execute,
  hasPreviousVersionSql,
  limitsChanges,
  loggedFieldNames,
  selectChanges,
  visibleChanges,
} from '../../engine/records/index.ts';
import { arrayText, type Prepared, prepare } from '../../engine/sql/index.ts';
import { ensureEpoch, sourceSql } from './epoch.ts';
import type { FeedPosition, UnverifiedPosition } from './position.ts';
import type { FeedView } from './request.ts';

/** Input for reading a page of the feed. */
interface FeedQuery {
  readonly caller: Caller;
  readonly view: FeedView;
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
export const maxChanges = 500;

/**
 * Query for the feed's current state: its epoch, whether the epoch belongs to this database, and the first unreadable
 * transaction ID.
 */
export const nowSql = `select "epoch", "source" = ${sourceSql} as "same", "pruned_before", pg_snapshot_xmin(pg_current_snapshot()) as "horizon" from "crm_ledger_epochs" order by "id" desc limit 1`;

/** Returns an SQL expression that converts a time to milliseconds since 1970. */
const milliseconds = (time: string) => `floor(extract(epoch from ${time}) * 1000)::text`;

/** The input for a page's statement. */
interface PagePlan extends FeedQuery {
  readonly organization: string;
}

const organizationOf = ({ organization }: PagePlan) => organization;

/**
 * Prepares the statement that returns the changes after a position in transaction order. Excludes transactions that
 * started after the oldest running transaction, because rows become visible out of order and a reader must not skip any
 * rows.
 * @param view the changes that the caller sees; undefined if nothing is limited. Then a last row without a change contains
 * the position of the last change read, which the caller might not see, and the number of changes read
 */
const preparePage = (name: string, view: ChangeView | undefined): Prepared<PagePlan> =>
  prepare<PagePlan>(name, 'deep', ($) => {
    const organization = $(organizationOf);
    const resources = `${$(({ view }) => arrayText(view.resources.map(({ definition }) => definition.name)))}::text[]`;
    const fieldLists = `${$(({ view }) => arrayText(view.resources.map(({ definition }) => arrayText(loggedFieldNames(definition)))))}::text[]`;
    const after = `(${$(({ after }) => after.transaction)}::text::xid8, ${$(({ after }) => after.id)}::bigint)`;
    // Appending an empty string keeps the planner from using the index by resource, which has a different order.
    const conditions = `"organization_id" = ${organization}::bigint and ("transaction", "id") > ${after} and "transaction" < (select "horizon" from _now) and "object" || '' = any(${resources}) and "version" is not null`;
    const before = `(select octet_length(_p."record") from "crm_ledger" _p where ${hasPreviousVersionSql('_p', '_r')})`;
    const size = `coalesce(octet_length(_r."record"), 0) + coalesce(octet_length(_r."before"), ${before}, 0)`;
    const fields = `(select _v."fields"::text[] from unnest(${resources}, ${fieldLists}) _v("object", "fields") where _v."object" = l."object")`;
    const readRows = `select * from _rows where "_before" < ${$(({ maxBytes }) => String(maxBytes))}::bigint`;
    const order = 'l."transaction", l."id"';
    const extraColumns = `, l."transaction"::text, l."id"::text, ${milliseconds('l."at"')}, null, null`;
    const changes = (rows: string) =>
      `select * from (${selectChanges({ rows, fields, order, extraColumns }, $)}) _c`;
    return [
      `with _now as materialized (${nowSql}),`,
      `_sized as materialized (select _r.*, ${size} as "_size" from (select * from "crm_ledger" where ${conditions} order by "transaction", "id" limit ${maxChanges}) _r),`,
      `_rows as materialized (select *, sum("_size") over (order by "transaction", "id" rows unbounded preceding) - "_size" as "_before" from _sized)`,
      ...(view === undefined ? [] : [`, _read as materialized (${readRows})`]),
      `select "epoch", "horizon"::text, ${milliseconds('now()')}, ${milliseconds('"pruned_before"')}, "same"::text, (select count(*) from _rows)::text from _now union all`,
      ...(view === undefined
        ? [changes(readRows)]
        : [
            changes(visibleChanges('select * from _read', view, $)),
            `union all (select null, "transaction"::text, "id"::text, ${milliseconds('"at"')}, null, (select count(*) from _read)::text from _read order by _read."transaction" desc, _read."id" desc limit 1)`,
          ]),
    ].join(' ');
  });

const unlimitedPage = preparePage('ledger_page', undefined);

/** Maximum number of prepared statements for limited views. The least recently used statement is evicted. */
const maxPages = 200;

/** Returns a function that returns the statement for the part of the feed that a caller sees. */
function pageStatements(): (view: FeedView) => Prepared<PagePlan> {
  const limitedPages = new LRUCache<string, Prepared<PagePlan>>({ max: maxPages });
  return ({ key, resources }) => {
    const view: ChangeView = { resources, action: 'list' };
    if (!limitsChanges(view)) return unlimitedPage;
    const names = resources.map(({ definition }) => definition.name);
    const name = `ledger_page_${hash('sha256', [key, ...names].join(), 'hex').slice(0, 16)}`;
    let page = limitedPages.get(name);
    if (page === undefined) {
      page = preparePage(name, view);
      limitedPages.set(name, page);
    }
    return page;
  };
}

/** Reads a page of the feed; see {@link feedReader}. */
type ReadPage = (query: FeedQuery) => Promise<FeedPage | undefined>;

/**
 * Returns a function that reads a page of the feed. It returns undefined if the current epoch belongs to another database.
 * It throws in the same cases as `execute`.
 */
export function feedReader(database: Database): ReadPage {
  const pageOf = pageStatements();
  return async (query) => {
    const { organization } = query.caller.principal;
    const rows = await execute(database, { statement: pageOf(query.view).bind }, { ...query, organization });
    return decodePage(rows);
  };
}

function decodePage([head = [], ...rows]: TextRows): FeedPage | undefined {
  const [epoch, horizon, now, prunedBefore, same, rowCount] = head.map(String);
  if (epoch === undefined || horizon === undefined || same !== 'true') return undefined;
  const entryOf = (row: (typeof rows)[number]) => {
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
  };
  const lastRow = rows.at(-1);
  const isLimited = lastRow?.[0] === null;
  const entries = (isLimited ? rows.slice(0, -1) : rows).map(entryOf);
  const readCount = isLimited ? Number(String(lastRow[5])) : entries.length;
  const isFull = readCount === maxChanges || readCount < Number(rowCount);
  const last = lastRow && entryOf(lastRow).position;
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
