import { type RawBuilder, sql } from 'kysely';
import { type Actor, recordChanges } from '../../engine/effects/index.ts';
import { UserError } from '../../engine/errors.ts';
import type { Tables } from '../../engine/tables/index.ts';
import type { Queue } from './queue.ts';

/** States of an item. A dead item will not be retried. */
export const states = ['waiting', 'done', 'dead'];

/** A queue item, as shown to operators and administrators. */
export interface QueueItem {
  readonly id: string;
  /** ID of the integration or subscription. */
  readonly owner: string;
  readonly title: string;
  readonly status: string;
  readonly attempts: number;
  readonly error: string;
  readonly receivedAt: Date;
  /** Present only if `isDetailed` is set. */
  readonly detail?: string;
}

/** Filter for a list of items. */
export interface ItemFilter {
  readonly owner?: string | undefined;
  readonly status?: string | undefined;
  /** Selects only items with an ID lower than this one. */
  readonly before?: string | undefined;
  readonly limit: number;
  /** Whether to include the details, which can be several megabytes in some queues. */
  readonly isDetailed?: boolean;
}

/** Returns the columns to select for a list of items. */
const columns = ({ owner, title }: Queue) =>
  sql`i.id, ${sql.ref(`i.${owner.column}`)} as owner, ${sql.raw(title)} as title, i.status, i.attempts, i.error, i.received_at as "receivedAt"`;

const ownedBy = (queue: Queue, owner: string) =>
  sql`${sql.ref(`i.${queue.owner.column}`)} = ${owner}::bigint`;

/** Lists an organization's items, newest first. */
export async function listItems(
  tables: Tables,
  queue: Queue,
  organization: string,
  { owner, status, before, limit, isDetailed }: ItemFilter,
): Promise<QueueItem[]> {
  const conditions = [
    sql`i.organization_id = ${organization}::bigint`,
    ...(owner === undefined ? [] : [ownedBy(queue, owner)]),
    // The status is a literal, because PostgreSQL cannot use a partial index with a parameter.
    ...(status === undefined ? [] : [sql`i.status = ${sql.lit(status)}`]),
    ...(before === undefined ? [] : [sql`i.id < ${before}::bigint`]),
  ];
  const detail = isDetailed === true ? sql`, ${sql.raw(queue.detail)} as detail` : sql``;
  const { rows } = await sql<QueueItem>`select ${columns(queue)}${detail} from ${sql.table(queue.table)} i
    where ${sql.join(conditions, sql` and `)} order by i.id desc limit ${limit}::int`.execute(tables);
  return rows;
}

/**
 * Reads an item with its details.
 * @param characters maximum length of the details
 * @throws UserError if the item does not exist
 */
export async function showItem(
  tables: Tables,
  queue: Queue,
  organization: string,
  id: string,
  characters?: number,
): Promise<QueueItem & { readonly detail: string }> {
  const detail = sql.raw(queue.detail);
  const detailSql = characters === undefined ? detail : sql`left(${detail}, ${characters}::int)`;
  const { rows } = await sql<QueueItem & { readonly detail: string }>`
    select ${columns(queue)}, ${detailSql} as detail from ${sql.table(queue.table)} i
    where i.organization_id = ${organization}::bigint and i.id = ${id}::bigint`.execute(tables);
  const [item] = rows;
  if (item === undefined) throw noItem(queue, id);
  return item;
}

const noItem = ({ item }: Queue, id: string) =>
  new UserError(`${item} ${id} does not exist in this organization`);

/** Queues an item again, regardless of its state. @throws UserError if it does not exist */
export async function replayItem(
  tables: Tables,
  queue: Queue,
  actor: Actor,
  organization: string,
  id: string,
): Promise<void> {
  const count = await replayRange(tables, queue, organization, { from: id, to: id });
  if (count === 0) throw noItem(queue, id);
  await recordChanges(tables, actor, { organization, action: 'replay', object: queue.item, objectId: id });
}

/** Queues the items between two IDs (inclusive) again, regardless of their state. Returns their count. */
export async function replayRange(
  tables: Tables,
  queue: Queue,
  organization: string,
  { owner, from, to }: { readonly owner?: string; readonly from: string; readonly to: string },
): Promise<number> {
  return requeue(tables, queue, organization, owner, sql`i.id between ${from}::bigint and ${to}::bigint`);
}

/** Queues all dead items again. Returns their count. */
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

/** Queues matching items of one owner or of all owners again. Returns their count. */
async function requeue(
  tables: Tables,
  queue: Queue,
  organization: string,
  owner: string | undefined,
  condition: RawBuilder<unknown>,
): Promise<number> {
  const conditions = [
    sql`i.organization_id = ${organization}::bigint`,
    condition,
    ...(owner === undefined ? [] : [ownedBy(queue, owner)]),
  ];
  const { numAffectedRows = 0n } = await sql`
    update ${sql.table(queue.table)} i
    set status = 'waiting', attempts = 0, next_at = now(), error = '', done_at = null
    where ${sql.join(conditions, sql` and `)}`.execute(tables);
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
