import { type RawBuilder, sql } from 'kysely';
import { type Actor, recordChanges } from '../../engine/effects/index.ts';
import { literal } from '../../engine/sql/index.ts';
import type { RowSource, Tables } from '../../engine/tables/index.ts';
import { TranslatedError } from '../../plugins/admin-ui/shell/index.ts';
import { latestAttempt } from './attempts.ts';
import type { Queue } from './queue.ts';

/** An item's states. A dead item will not be retried. */
export const states = ['waiting', 'done', 'dead'] as const;
export type ItemState = (typeof states)[number];

/** SQL condition that row `i` is an item, and not part of another item. */
const isItem = `i.status in (${states.map(literal).join(', ')})`;

/** A queue item, as shown to operators and administrators. */
export interface QueueItem {
  readonly id: string;
  /** ID of the integration or subscription. */
  readonly owner: string;
  /** Null if the owner was removed. */
  readonly ownerName: string | null;
  readonly title: string;
  readonly status: ItemState;
  readonly attempts: number;
  /** English sentence that explains the last failure, or an empty string. */
  readonly error: string;
  readonly receivedAt: Date;
}

/** A queue item, as shown on pages. */
export interface DisplayedItem extends Omit<QueueItem, 'title'> {
  /** The queue's `subject`, or the title if the queue has no subject. */
  readonly subject: string;
  /** The latest attempt as JSON, or an empty string. */
  readonly latest: string;
}

/** A queue item with its details, which can be several megabytes in some queues. */
export interface DetailedItem extends QueueItem {
  readonly detail: string;
}

/** Returns a queue's items, newest first. */
export const itemRows = ({ table, owner, title }: Queue): RowSource<QueueItem> => ({
  from: `${table} i
    left join ${owner.table} g on g.organization_id = i.organization_id and g.id = i.${owner.column}`,
  owner: 'i.organization_id',
  where: isItem,
  columns: {
    id: 'i.id',
    owner: `i.${owner.column}`,
    ownerName: owner.name,
    title,
    status: 'i.status',
    attempts: 'i.attempts',
    error: 'i.error',
    receivedAt: 'i.received_at',
  },
  order: 'i.id desc',
});

/** Returns a queue's items with their subjects and latest attempts. */
export function displayedItems(queue: Queue): RowSource<DisplayedItem> {
  const source = itemRows(queue);
  const { title, ...columns } = source.columns;
  return { ...source, columns: { ...columns, subject: queue.subject ?? title, latest: latestAttempt('i') } };
}

/** What is known about the attempts to process an item. */
interface ItemLog {
  readonly id: string;
  /** When the next attempt is due. Null if it is not known or not planned. */
  readonly nextAt: Date | null;
  /** The item's `attempt_log`. */
  readonly attempts: string;
}

/** Returns the attempts to process a queue's items. */
export function itemLogs(queue: Queue): RowSource<ItemLog> {
  const { from, owner, where, order } = itemRows(queue);
  return {
    ...{ from, owner, where: where ?? 'true', order },
    columns: {
      id: 'i.id',
      nextAt: `case when i.status = 'waiting' and isfinite(i.next_at) then ${queue.nextAt} end`,
      attempts: 'i.attempt_log',
    },
  };
}

/** Returns a queue's items with their details. @param characters maximum length of the details */
export function detailedItems(queue: Queue, characters?: number): RowSource<DetailedItem> {
  const source = itemRows(queue);
  const detail = characters === undefined ? queue.detail : `left(${queue.detail}, ${characters})`;
  return { ...source, columns: { ...source.columns, detail } };
}

/** Returns the IDs and names of the owners in a queue. */
export const ownerRows = ({ owner }: Queue): RowSource<{ readonly id: string; readonly name: string }> => ({
  from: `${owner.table} g`,
  owner: 'g.organization_id',
  columns: { id: 'g.id', name: owner.name },
  order: 'g.id',
});

/** Returns the condition for an owner's items. */
export const ownedBy = (queue: Queue, owner: string): RawBuilder<unknown> =>
  sql`${sql.ref(`i.${queue.owner.column}`)} = ${owner}::bigint`;

/**
 * Returns the SQL condition for a status. The status is a literal, because PostgreSQL cannot use a partial
 * index with a parameter.
 */
export const withStatus = (status: string): string => `i.status = ${literal(status)}`;

/** Requeues an item, regardless of its state. @throws UserError if the item does not exist */
export async function replayItem(
  tables: Tables,
  queue: Queue,
  actor: Actor,
  organization: string,
  id: string,
): Promise<void> {
  const count = await replayRange(tables, queue, organization, { from: id, to: id });
  if (count === 0) throw new TranslatedError(queue.missing(id));
  await recordChanges(tables, actor, { organization, action: 'replay', object: queue.item, objectId: id });
}

/**
 * Requeues the items between two IDs (inclusive), regardless of their state. Returns the number of items.
 * @param range `where` contains additional conditions
 */
export async function replayRange(
  tables: Tables,
  queue: Queue,
  organization: string,
  {
    owner,
    from,
    to,
    where = [],
  }: {
    readonly owner?: string;
    readonly from: string;
    readonly to: string;
    readonly where?: readonly RawBuilder<unknown>[];
  },
): Promise<number> {
  const isBetween = sql`i.id between ${from}::bigint and ${to}::bigint`;
  return requeue(tables, queue, organization, owner, sql.join([isBetween, ...where], sql` and `));
}

/** Requeues all dead items. Returns the number of items. */
export async function replayAll(
  tables: Tables,
  queue: Queue,
  actor: Actor,
  organization: string,
  owner: string | undefined,
): Promise<number> {
  const count = await requeue(tables, queue, organization, owner, sql`i.status = 'dead'`);
  await recordChanges(tables, actor, {
    organization,
    action: 'replay all',
    object: queue.item,
    objectId: null,
  });
  return count;
}

/** Ends the pauses of owners `g` that meet a condition, if failures have caused these pauses. */
export async function endPauses(
  tables: Tables,
  { owner: { table, unpause } }: Queue,
  organization: string,
  condition: RawBuilder<unknown>,
): Promise<void> {
  if (unpause === undefined) return;
  await sql`
    update ${sql.table(table)} g set ${sql.raw(unpause.set)}
    where g.organization_id = ${organization}::bigint and ${sql.raw(unpause.where)} and ${condition}`.execute(
    tables,
  );
}

/** Requeues matching items that belong to one owner or to any owner. Returns the number of items. */
async function requeue(
  tables: Tables,
  queue: Queue,
  organization: string,
  owner: string | undefined,
  condition: RawBuilder<unknown>,
): Promise<number> {
  const conditions = [
    sql`i.organization_id = ${organization}::bigint`,
    sql.raw(isItem),
    condition,
    ...(owner === undefined ? [] : [ownedBy(queue, owner)]),
  ];
  const items = sql.join(conditions, sql` and `);
  // Someone who requeues an item has a reason not to wait for the end of the pause. Owners are locked before items, as by the
  // processing of items.
  const column = sql.ref(`i.${queue.owner.column}`);
  await endPauses(
    tables,
    queue,
    organization,
    sql`g.id in (select ${column} from ${sql.table(queue.table)} i where ${items})`,
  );
  const { numAffectedRows = 0n } = await sql`
    update ${sql.table(queue.table)} i
    set status = 'waiting', attempts = 0, next_at = now(), error = '', done_at = null
    where ${items}`.execute(tables);
  return Number(numAffectedRows);
}

/** Counts an organization's items in a state, up to 1,000. */
export async function countItems(
  tables: Tables,
  queue: Queue,
  organization: string,
  status: string,
): Promise<number> {
  const { rows } = await sql<{ count: string }>`
    select count(*)::text as count from (select from ${sql.table(queue.table)} i
      where i.organization_id = ${organization}::bigint and i.status = ${sql.lit(status)} limit 1000) _c`.execute(
    tables,
  );
  return Number(rows[0]?.count);
}

/** Maximum number of items that {@link countRecent} counts. */
export const maxRecent = 1000;
/** Number of days for which {@link countRecent} counts. */
export const recentDays = 7;

/** Counts an organization's newest items by status: at most {@link maxRecent}, received in the last {@link recentDays} days. */
export async function countRecent(
  tables: Tables,
  queue: Queue,
  organization: string,
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql<{ status: string; count: string }>`
    select status, count(*)::text as count from (select i.status, i.received_at from ${sql.table(queue.table)} i
      where i.organization_id = ${organization}::bigint and ${sql.raw(isItem)} order by i.id desc limit ${sql.lit(maxRecent)}) _r
    where received_at >= now() - ${sql.lit(recentDays)}::int * interval '1 day' group by status`.execute(
    tables,
  );
  return new Map(rows.map(({ status, count }) => [status, Number(count)]));
}
