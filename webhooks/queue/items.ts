import { type RawBuilder, sql } from 'kysely';
import { type Actor, recordChanges } from '../../engine/effects/index.ts';
import { UserError } from '../../engine/errors.ts';
import type { Tables } from '../../engine/tables/index.ts';
import type { Queue } from './queue.ts';

/** The states of an item: it waits, is done, or was given up. */
export const states = ['waiting', 'done', 'dead'];

/** An item as people see it. */
export interface QueueItem {
  readonly id: string;
  /** Id of what it belongs to. */
  readonly owner: string;
  readonly title: string;
  readonly status: string;
  readonly attempts: number;
  readonly error: string;
  readonly receivedAt: Date;
  /** Where it was asked for. */
  readonly detail?: string;
}

/** Which items of a list. */
export interface ItemFilter {
  readonly owner?: string | undefined;
  readonly status?: string | undefined;
  /** Only items that came before the one with this id. */
  readonly before?: string | undefined;
  readonly limit: number;
  /** With their details, which are megabytes in some queues. */
  readonly isDetailed?: boolean;
}

/** The columns of a list. */
const columns = ({ owner, title }: Queue) =>
  sql`i.id, ${sql.ref(`i.${owner.column}`)} as owner, ${sql.raw(title)} as title, i.status, i.attempts, i.error, i.received_at as "receivedAt"`;

const ownedBy = (queue: Queue, owner: string) =>
  sql`${sql.ref(`i.${queue.owner.column}`)} = ${owner}::bigint`;

/** Items of an organization, newest first. */
export async function listItems(
  tables: Tables,
  queue: Queue,
  organization: string,
  { owner, status, before, limit, isDetailed }: ItemFilter,
): Promise<QueueItem[]> {
  const conditions = [
    sql`i.organization_id = ${organization}::bigint`,
    ...(owner === undefined ? [] : [ownedBy(queue, owner)]),
    // A literal, because a partial index on some states is not used with a parameter.
    ...(status === undefined ? [] : [sql`i.status = ${sql.lit(status)}`]),
    ...(before === undefined ? [] : [sql`i.id < ${before}::bigint`]),
  ];
  const detail = isDetailed === true ? sql`, ${sql.raw(queue.detail)} as detail` : sql``;
  const { rows } = await sql<QueueItem>`select ${columns(queue)}${detail} from ${sql.table(queue.table)} i
    where ${sql.join(conditions, sql` and `)} order by i.id desc limit ${limit}::int`.execute(tables);
  return rows;
}

/** One item with its details, or their first characters. @throws UserError when there is none */
export async function showItem(
  tables: Tables,
  queue: Queue,
  organization: string,
  id: string,
  characters?: number,
): Promise<QueueItem & { readonly detail: string }> {
  const detail = sql.raw(queue.detail);
  const shown = characters === undefined ? detail : sql`left(${detail}, ${characters}::int)`;
  const { rows } = await sql<QueueItem & { readonly detail: string }>`
    select ${columns(queue)}, ${shown} as detail from ${sql.table(queue.table)} i
    where i.organization_id = ${organization}::bigint and i.id = ${id}::bigint`.execute(tables);
  const [item] = rows;
  if (item === undefined) throw noItem(queue, id);
  return item;
}

const noItem = ({ item }: Queue, id: string) =>
  new UserError(`there is no ${item} ${id} in this organization`);

/** Queues an item to be processed again, in any state. @throws UserError when there is none */
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

/** Queues items between two ids, both included, to be processed again, in any state. @returns how many */
export async function replayRange(
  tables: Tables,
  queue: Queue,
  organization: string,
  { owner, from, to }: { readonly owner?: string; readonly from: string; readonly to: string },
): Promise<number> {
  return requeue(tables, queue, organization, owner, sql`i.id between ${from}::bigint and ${to}::bigint`);
}

/** Queues all items that were given up to be processed again. @returns how many */
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

/** Queues items of an owner, or of all, to be processed again. @returns how many */
async function requeue(
  tables: Tables,
  queue: Queue,
  organization: string,
  owner: string | undefined,
  which: RawBuilder<unknown>,
): Promise<number> {
  const conditions = [
    sql`i.organization_id = ${organization}::bigint`,
    which,
    ...(owner === undefined ? [] : [ownedBy(queue, owner)]),
  ];
  const { numAffectedRows = 0n } = await sql`
    update ${sql.table(queue.table)} i
    set status = 'waiting', attempts = 0, next_at = now(), error = '', done_at = null
    where ${sql.join(conditions, sql` and `)}`.execute(tables);
  return Number(numAffectedRows);
}

/** How many items of an organization are in a state, up to a thousand. */
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
