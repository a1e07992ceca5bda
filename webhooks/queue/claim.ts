import { type CompiledQuery, sql } from 'kysely';
import { arrayText } from '../../engine/sql/index.ts';
import type { Tables } from '../../engine/tables/index.ts';
import { attemptLine, type ItemAttempt, type ItemOutcome, withAttempt } from './attempts.ts';
import type { Queue } from './queue.ts';
import { reasonSentence } from './reasons.ts';

/** An item claimed by this node until its lease expires. `Row` is the type of the queue's additional columns. */
export interface ClaimedItem<Row> {
  readonly id: string;
  readonly organization: string;
  readonly owner: string;
  readonly eventId: string;
  /** Number of attempts, including this one. */
  readonly attempts: number;
  /** Milliseconds since the item was received, according to the database's clock. */
  readonly ageMs: number;
  readonly row: Row;
}

/** Columns returned by {@link claimStatement} for every queue. */
interface ClaimedRow {
  readonly organization_id: string;
  readonly id: string;
  readonly owner_id: string;
  readonly event_id: string;
  readonly attempts: number;
  readonly age_ms: number;
}

/** Criteria for the items to claim. */
interface ClaimRequest {
  readonly limit: number;
  /** Organizations and owners to skip. */
  readonly excludedOrganizations: readonly string[];
  readonly excludedOwners: readonly string[];
  /** The organization of the previous claim's last item. Organizations with higher IDs come first. */
  readonly after: string;
}

/**
 * Builds the statement that claims due items fairly: first one item per organization, then a second item per
 * organization, and so on. Owners within an organization take turns in the same way.
 *
 * Cost: one index entry per organization with waiting items, then at most `limit` items from each of at most
 * `limit` organizations. Finished items and disabled owners' items cost nothing, because the partial index
 * "…_due" on (organization_id, owner, next_at) contains only waiting items.
 */
export function claimStatement(
  tables: Tables,
  queue: Queue,
  { limit, excludedOrganizations, excludedOwners, after }: ClaimRequest,
): CompiledQuery {
  const [items, owners] = [sql.table(queue.table), sql.table(queue.owner.table)];
  const ownerOf = (alias: string) => sql.ref(`${alias}.${queue.owner.column}`);
  const ids = (list: readonly string[]) => sql`string_to_array(${list.join(',')}::text, ',')::bigint[]`;
  const isOpen = sql`${sql.raw(queue.owner.isOpen)} and g.id <> all (${ids(excludedOwners)})`;
  const isDue = sql`w.organization_id = g.organization_id and ${ownerOf('w')} = g.id
            and w.status = 'waiting' and w.next_at <= now() and ${sql.raw(queue.isReady ?? 'true')}`;
  // The ring starts after the previous organization and wraps around once ("lap"). PostgreSQL evaluates a recursive
  // query lazily, so "limit" stops the recursion. Limits are literals, because the planner would choose sequential
  // scans for a parameter.
  const maxRows = sql.lit(limit);
  return sql`
    with recursive ring (organization_id, lap) as (
      select ${after}::bigint, 0
      union all
      select next.organization_id, next.lap from ring cross join lateral (
        (select later.organization_id, ring.lap from (
            select w.organization_id from ${items} w
            where w.status = 'waiting' and w.organization_id > ring.organization_id
            order by w.organization_id limit 1) later
          where ring.lap = 0 or later.organization_id <= ${after}::bigint)
        union all
        (select w.organization_id, 1 from ${items} w
          where w.status = 'waiting' and ring.lap = 0 and w.organization_id <= ${after}::bigint
          order by w.organization_id limit 1)
        limit 1) next
    ), due as (
      select r.organization_id, r.lap from ring r cross join lateral (
        select 1 from ${owners} g cross join lateral (
          select 1 from ${items} w
          where ${isDue}
          order by w.next_at limit 1) first
        where g.organization_id = r.organization_id and ${isOpen}
        limit 1) any_due
      where r.organization_id <> all (${ids(excludedOrganizations)})
        -- The first row of the ring is only the starting point.
        and (r.organization_id, r.lap) <> (${after}::bigint, 0)
      limit ${maxRows}
    ), owned as (
      select w.organization_id, w.id, w.next_at, due.lap,
        row_number() over (partition by due.organization_id, g.id order by w.next_at, w.id) as turn
      from due
      join ${owners} g on g.organization_id = due.organization_id and ${isOpen}
      cross join lateral (
        select w.organization_id, w.id, w.next_at from ${items} w
        where ${isDue}
        order by w.next_at limit ${maxRows}) w
    ), turns as (
      -- Random instead of oldest first: otherwise the owner with the longest queue would always win.
      select organization_id, id, lap,
        row_number() over (partition by organization_id order by turn, random()) as turn
      from owned
    ), chosen as (
      select organization_id, id from turns order by turn, lap, organization_id limit ${maxRows}
    ), locked as (
      -- Another node may have chosen the same items; the first one to lock them gets them. A case expression, because the
      -- condition must be evaluated again on the locked row, but must not make the planner prefer the index "due".
      select i.organization_id, i.id from chosen join ${items} i using (organization_id, id)
      where case i.status when 'waiting' then i.next_at <= now() else false end
      for update of i skip locked
    )
    update ${items} i set attempts = attempts + 1, next_at = now() + ${queue.leaseSeconds}::int * interval '1 second'
    from locked, ${owners} g
    where i.organization_id = locked.organization_id and i.id = locked.id
      and g.organization_id = i.organization_id and g.id = ${ownerOf('i')}
    returning i.organization_id, i.id, g.id as owner_id, i.event_id, i.attempts,
      greatest(0, extract(epoch from now() - i.received_at) * 1000)::float8 as age_ms, ${sql.raw(queue.claims)}`.compile(
    tables,
  );
}

/**
 * Configures a claim's transaction. Forces index scans, because the planner would scan the whole table if its
 * statistics were outdated. Commits asynchronously, because a claim lost in a crash is simply repeated.
 */
export const byIndexes = (within: Tables) =>
  sql`select set_config(name, 'off', true)
      from unnest(array['enable_seqscan', 'enable_bitmapscan', 'enable_sort', 'synchronous_commit']) name`.execute(
    within,
  );

/**
 * Claims due items for this node. Other nodes can reclaim them when the lease expires.
 * @param tables a separate transaction
 * @returns the items in ring order; the last item's organization must be passed to the next claim
 */
export async function claim<Row>(
  within: Tables,
  queue: Queue,
  request: ClaimRequest,
): Promise<ClaimedItem<Row>[]> {
  await byIndexes(within);
  const { rows } = await within.executeQuery<ClaimedRow & Row>(claimStatement(within, queue, request));
  const items = rows.map((row) => ({
    id: row.id,
    organization: row.organization_id,
    owner: row.owner_id,
    eventId: row.event_id,
    attempts: row.attempts,
    ageMs: row.age_ms,
    row,
  }));
  // An UPDATE returns rows in no particular order.
  const after = BigInt(request.after);
  const ringPosition = (id: string) => ({ lap: BigInt(id) > after ? 0 : 1, id: BigInt(id) });
  return items.sort((left, right) => {
    const [a, b] = [ringPosition(left.organization), ringPosition(right.organization)];
    return a.lap - b.lap || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
  });
}

/** An item with its outcome, and the start (RFC 3339) and duration of the attempt in milliseconds. */
type SettledItem = readonly [
  item: ClaimedItem<unknown>,
  outcome: ItemOutcome,
  time: Pick<ItemAttempt, 'at' | 'ms'>,
];

/**
 * Records the outcomes of claimed items. Ignores items that were replayed, claimed by another node or erased, because
 * their `attempts` have changed.
 * @returns whether other items became ready
 */
async function settle(tables: Tables, queue: Queue, settled: readonly SettledItem[]): Promise<boolean> {
  let isFollowed = false;
  const groups = Map.groupBy(settled, ([, { values = {} }]) => Object.keys(values).sort().join());
  for (const group of groups.values()) {
    const extraColumns = Object.keys(group[0]?.[1].values ?? {});
    const column = (value: (of: SettledItem) => string | null) => sql`${arrayText(group.map(value))}`;
    const { rows } = await sql<{ followed: boolean }>`
      -- Asynchronous commit: if the outcome is lost in a database crash, the item is processed again.
      with fast as materialized (select set_config('synchronous_commit', 'off', true)),
      given as materialized (
        select g.* from fast cross join unnest(${column(([{ organization }]) => organization)}::bigint[], ${column(([{ id }]) => id)}::bigint[],
          ${column(([{ attempts }]) => String(attempts))}::int[], ${column(([, { failure }]) => (failure === undefined ? '' : reasonSentence(queue.reasons, failure)))}::text[],
          ${column(([, { retryMs }]) => (retryMs === undefined ? null : String(Math.round(retryMs))))}::bigint[],
          ${column(([, outcome, time]) => attemptLine(outcome, time))}::text[]
          ${sql.join(
            extraColumns.map((name) => sql`, ${column(([, { values }]) => values?.[name] ?? '')}::text[]`),
            sql``,
          )}) as g (organization, item, tries, reason, retry_ms, attempt ${sql.raw(extraColumns.map((name) => `, new_${name}`).join(''))}))
      update ${sql.table(queue.table)} i set error = g.reason, attempt_log = ${sql.raw(withAttempt('i', 'g.attempt'))},
        status = case when g.reason = '' then 'done' when g.retry_ms is null then 'dead' else i.status end,
        done_at = case when g.reason = '' or g.retry_ms is null then now() else i.done_at end,
        next_at = case when g.reason = '' then i.next_at else coalesce(now() + g.retry_ms * interval '1 millisecond', i.next_at) end
        ${sql.join(
          extraColumns.map((name) => sql`, ${sql.ref(name)} = ${sql.ref(`g.new_${name}`)}`),
          sql``,
        )}
      from given g
      where i.organization_id = g.organization and i.id = g.item and i.status = 'waiting' and i.attempts = g.tries
      returning i.status <> 'waiting' and ${sql.raw(queue.isFollowed ?? 'false')} as followed`.execute(
      tables,
    );
    isFollowed ||= rows.some(({ followed }) => followed);
  }
  return isFollowed;
}

/**
 * Creates a function that records an item's outcome. Items that finish while a statement is running share the next
 * statement.
 * @returns a function that resolves to whether other items became ready
 */
export function createSettler(
  tables: () => Tables,
  queue: Queue,
): (...settled: SettledItem) => Promise<boolean> {
  let pending: { readonly settled: SettledItem[]; readonly recorded: Promise<boolean> } | undefined;
  let previous: Promise<unknown> = Promise.resolve();
  return (...settled) => {
    if (pending === undefined) {
      const list: SettledItem[] = [];
      const recorded = previous.then(() => {
        pending = undefined;
        return settle(tables(), queue, list);
      });
      previous = recorded.catch(() => undefined);
      pending = { settled: list, recorded };
    }
    pending.settled.push(settled);
    return pending.recorded;
  };
}
