// Batches: collects the events of a subscription, which are then sent in one request.
import type { FastifyInstance } from 'fastify';
import { type RawBuilder, sql } from 'kysely';
import { type Database, failureDetails } from '../../engine/database/index.ts';
import { arrayText } from '../../engine/sql/index.ts';
import { type Tables, tablesOf, transaction } from '../../engine/tables/index.ts';
import { generatePublicId } from '../../plugins/access/secrets/index.ts';
import { attemptLine, type ClaimedItem, reasonSentence, withAttempt } from '../queue/index.ts';
import type { DeliveryClaim } from './deliveries.ts';
import { type DeliveryReason, deliveryReasons } from './reasons.ts';

/** SQL for the `next_at` of events that are collected for a batch, so that they are never due themselves. */
export const collectedAt = `'infinity'::timestamptz`;

/** Polling intervals with and without subscriptions with batches, in milliseconds. */
const [pollMs, idlePollMs] = [100, 1000];
/** Maximum number of waiting batches per subscription. Only complete batches are created while others wait. */
const maxOpenBatches = 4;

/** SQL condition for the collected events `d` of subscription `s`. */
const isCollected = `d.organization_id = s.organization_id and d.subscription_id = s.id
  and d.status = 'waiting' and d.next_at = ${collectedAt}`;

/**
 * SQL condition that a batch can be created for subscription `s`. Events that were queued before the subscription sent
 * batches, or are replayed, are sent first, unless they wait for a collected event themselves.
 */
const isDue = `s.batch_events > 0 and s.state = 'on' and s.paused_until <= now()
  and not exists (select from crm_event_deliveries w
    where w.organization_id = s.organization_id and w.subscription_id = s.id and w.status = 'waiting'
      and w.next_at < ${collectedAt} and w.object_id is not null
      and not exists (select from crm_event_deliveries e
        where e.organization_id = w.organization_id and e.subscription_id = w.subscription_id and e.object = w.object
          and e.object_id = w.object_id and e.status = 'waiting' and e.version < w.version))
  and case (select count(*) from (select from crm_event_deliveries d where ${isCollected} limit s.batch_events) _c)
    when s.batch_events then (select count(*) from crm_event_deliveries b
      where b.organization_id = s.organization_id and b.subscription_id = s.id and b.status = 'waiting'
        and b.action = 'batch') < ${maxOpenBatches}
    else exists (select from crm_event_deliveries d where ${isCollected}
        and d.received_at <= now() - s.batch_seconds * interval '1 second')
      and not exists (select from crm_event_deliveries b
        where b.organization_id = s.organization_id and b.subscription_id = s.id and b.status = 'waiting'
          and b.action = 'batch') end`;

/**
 * Returns SQL for the deliveries that match a condition on `d`, each with its place in the order of the change log. Changes
 * to the same record are in the order of its versions, which can differ from the order in which they were queued.
 */
const orderedEvents = (condition: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  ranked as materialized (
    select d.id, d.object, d.object_id, row_number() over (order by d.id) as place,
      row_number() over (partition by d.object, d.object_id order by d.id) as queued,
      row_number() over (partition by d.object, d.object_id order by d.version) as sequence
    from crm_event_deliveries d where ${condition}),
  ordered as (
    select e.id, p.place from ranked e
    join ranked p on p.object = e.object and p.object_id = e.object_id and p.queued = e.sequence)`;

/**
 * Starts to create batches. Only one node at a time creates a subscription's batches.
 * @param onCreated called when batches have been created
 */
export function startBatching(app: FastifyInstance, database: Database, onCreated: () => void): void {
  let isStopping = false;
  /** Time until which polling is skipped. */
  let idleUntil = 0;
  const poll = async (): Promise<void> => {
    let hasCreated: boolean;
    do {
      const { rows } = await sql<{ organization_id: string; id: string; is_due: boolean }>`
        select s.organization_id, s.id, ${sql.raw(isDue)} as is_due from crm_event_subscriptions s
        where s.batch_events > 0 and s.state = 'on'`.execute(tablesOf(database));
      if (rows.length === 0) idleUntil = performance.now() + idlePollMs;
      hasCreated = false;
      for (const { organization_id, id } of rows.filter(({ is_due }) => is_due))
        if (await transaction(database, (tables) => createBatch(tables, organization_id, id)))
          hasCreated = true;
      if (hasCreated) onCreated();
    } while (hasCreated && !isStopping);
  };
  app.addHook('preClose', async () => {
    isStopping = true;
  });
  let isFailing = false;
  app.background.every(app, 'event batches', pollMs, async () => {
    if (performance.now() < idleUntil) return;
    try {
      await poll();
      isFailing = false;
    } catch (cause) {
      // Logs the failure only once while the database is unavailable.
      if (!isFailing) app.log.warn(failureDetails(cause), 'failed to create batches of events; will retry');
      isFailing = true;
      idleUntil = performance.now() + idlePollMs;
    }
  });
}

/** Creates a subscription's next batch. Returns false if another node or an earlier call has created it. */
async function createBatch(tables: Tables, organization: string, id: string): Promise<boolean> {
  const subscription = sql`s.organization_id = ${organization}::bigint and s.id = ${id}::bigint`;
  // Locks in a separate statement, so that the next one sees everything that was committed before.
  const locked = await sql`select from crm_event_subscriptions s
    where ${subscription} for update skip locked`.execute(tables);
  if (locked.rows.length === 0) return false;
  const { rows } = await sql`
    with ${orderedEvents(sql`(d.organization_id, d.subscription_id) in (select s.organization_id, s.id from crm_event_subscriptions s
      where ${subscription} and ${sql.raw(isDue)})
      and d.status = 'waiting' and d.next_at = ${sql.raw(collectedAt)}`)},
    chosen as (
      select o.id from ordered o order by o.place
      limit (select s.batch_events from crm_event_subscriptions s where ${subscription})),
    batch as (
      insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, action)
      select ${organization}::bigint, ${id}::bigint, ${`batch-${generatePublicId()}`}, '', 'batch'
      where exists (select from chosen) returning id)
    update crm_event_deliveries d set status = 'batched', batch_id = b.id from chosen c, batch b
    where d.organization_id = ${organization}::bigint and d.id = c.id
    returning d.id`.execute(tables);
  return rows.length > 0;
}

/** Columns of a delivery that differ between the events of a batch. */
type MemberRow = Pick<
  DeliveryClaim,
  'position' | 'object' | 'object_id' | 'version' | 'action' | 'changed' | 'at'
>;

/** Returns the events of a claimed batch in the order of the change log. */
export async function batchMembers(
  tables: Tables,
  batch: ClaimedItem<DeliveryClaim>,
): Promise<readonly ClaimedItem<DeliveryClaim>[]> {
  const isMember = sql`d.organization_id = ${batch.organization}::bigint and d.batch_id = ${batch.id}::bigint`;
  const { rows } = await sql<MemberRow & { id: string; event_id: string }>`
    with ${orderedEvents(isMember)}
    select d.id, d.event_id, d.position, d.object, d.object_id, d.version, d.action, d.changed,
      replace((d.at at time zone 'UTC')::text, ' ', 'T') || 'Z' as at
    from ordered o join crm_event_deliveries d on d.organization_id = ${batch.organization}::bigint and d.id = o.id
    order by o.place`.execute(tables);
  return rows.map(({ id, event_id: eventId, ...row }) => ({
    ...batch,
    id,
    eventId,
    row: { ...batch.row, ...row },
  }));
}

/** An event that leaves its batch: it waits for another batch, was skipped, or must not be sent. */
export interface RemovedMember {
  readonly id: string;
  readonly status: 'waiting' | 'done' | 'dead';
  /** Why it was skipped or must not be sent. Absent if it waits for another batch. */
  readonly reason?: DeliveryReason;
}

/** Returns the line for the `attempt_log` of an event that leaves its batch, or an empty string if it waits for another one. */
function removalLine({ status, reason }: RemovedMember): string {
  if (reason === undefined) return '';
  const outcome = status === 'dead' ? { failure: reason } : { skipped: reason };
  return attemptLine(outcome, { at: new Date().toISOString(), ms: 0 });
}

/**
 * Removes events from a claimed batch, and fixes the remaining ones.
 * @returns false if another node has claimed the batch
 */
export const fixMembers = (
  database: Database,
  { organization, owner, id, attempts }: ClaimedItem<unknown>,
  removed: readonly RemovedMember[],
): Promise<boolean> =>
  transaction(database, async (within) => {
    // A change of the subscription's option must not overlook events that leave the batch.
    await sql`select from crm_event_subscriptions
      where organization_id = ${organization}::bigint and id = ${owner}::bigint for share`.execute(within);
    const { rows } = await sql`update crm_event_deliveries set sealed_at = coalesce(sealed_at, now())
      where organization_id = ${organization}::bigint and id = ${id}::bigint and status = 'waiting'
        and attempts = ${attempts}::int returning id`.execute(within);
    if (rows.length === 0) return false;
    if (removed.length > 0)
      await sql`update crm_event_deliveries d set batch_id = null, status = r.status,
          next_at = case when s.batch_events > 0 then ${sql.raw(collectedAt)} else now() end,
          done_at = case r.status when 'waiting' then null else now() end,
          error = case r.status when 'dead' then r.reason else '' end,
          attempt_log = case r.attempt when '' then d.attempt_log else ${sql.raw(withAttempt('d', 'r.attempt'))} end,
          request = case r.status when 'done' then 'Not sent: ' || r.reason || '.' else '' end
        from crm_event_subscriptions s, unnest(${arrayText(removed.map((member) => member.id))}::bigint[],
          ${arrayText(removed.map(({ status }) => status))}::text[],
          ${arrayText(removed.map(({ reason }) => (reason ? reasonSentence(deliveryReasons, reason) : '')))}::text[],
          ${arrayText(removed.map(removalLine))}::text[]) r (id, status, reason, attempt)
        where d.organization_id = ${organization}::bigint and d.id = r.id and d.batch_id = ${id}::bigint
          and s.organization_id = d.organization_id and s.id = d.subscription_id`.execute(within);
    return true;
  });
