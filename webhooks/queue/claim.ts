import { type CompiledQuery, sql } from 'kysely';
import { arrayText } from '../../engine/sql/index.ts';
import type { Tables } from '../../engine/tables/index.ts';
import type { Queue } from './queue.ts';

/** An item that this node may process until its lease ends. `Row` has what its queue claims besides. */
export interface ClaimedItem<Row> {
  readonly id: string;
  readonly organization: string;
  readonly owner: string;
  readonly eventId: string;
  /** Including this one. */
  readonly attempts: number;
  /** Milliseconds since it came, by the database's clock. */
  readonly ageMs: number;
  readonly row: Row;
}

/** A row that {@link claimStatement} returns, besides what the queue claims. */
interface ClaimedRow {
  readonly organization_id: string;
  readonly id: string;
  readonly owner_id: string;
  readonly event_id: string;
  readonly attempts: number;
  readonly age_ms: number;
}

/** The items that a node wants to claim. */
export interface ClaimRequest {
  readonly limit: number;
  /** Organizations, and owners, that get no items this time. */
  readonly without: readonly string[];
  readonly withoutOwners: readonly string[];
  /** The organization that was served last; those with a greater id come first. */
  readonly after: string;
}

/**
 * The statement that claims due items, organizations in turn: one of each organization, then a second one of each, …,
 * and owners within an organization likewise.
 *
 * It reads an index entry for each organization that has waiting items and then at most `limit` items of each of
 * at most `limit` organizations. Items that are done or belong to disabled integrations cost
 * nothing: `crm_inbox_due` is (organization_id, integration_id, next_at) of waiting items.
 */
export function claimStatement(
  tables: Tables,
  queue: Queue,
  { limit, without, withoutOwners, after }: ClaimRequest,
): CompiledQuery {
  const [items, owners] = [sql.table(queue.table), sql.table(queue.owner.table)];
  const ownerOf = (alias: string) => sql.ref(`${alias}.${queue.owner.column}`);
  const ids = (list: readonly string[]) => sql`string_to_array(${list.join(',')}::text, ',')::bigint[]`;
  const isOpen = sql`${sql.raw(queue.owner.isOpen)} and g.id <> all (${ids(withoutOwners)})`;
  const isDue = sql`w.organization_id = g.organization_id and ${ownerOf('w')} = g.id
            and w.status = 'waiting' and w.next_at <= now() and ${sql.raw(queue.isReady ?? 'true')}`;
  // The ring starts after the organization that was served last, and wraps once ("lap"). PostgreSQL evaluates a
  // recursive query only as far as its reader asks for rows, so "limit" ends the walk. Limits are in the text: the
  // plan of a statement that could claim any number of rows would read whole tables.
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
      where r.organization_id <> all (${ids(without)})
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
      -- Whose item is the older one says nothing: a full queue would always come first.
      select organization_id, id, lap,
        row_number() over (partition by organization_id order by turn, random()) as turn
      from owned
    ), chosen as (
      select organization_id, id from turns order by turn, lap, organization_id limit ${maxRows}
    ), locked as (
      -- Another node may have chosen the same items: the first one to lock them gets them. A case expression, because the
      -- condition must be tested again on the locked row but must not make the planner prefer the index "due" to the key.
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
 * Forces the claim's plan: with statistics of a moment when one organization had every item, or
 * when none waited, the planner would read the whole table. Its commit waits for no disk: a claim that a failing database
 * forgets is made again.
 */
export const byIndexes = (within: Tables) =>
  sql`select set_config(name, 'off', true)
      from unnest(array['enable_seqscan', 'enable_bitmapscan', 'enable_sort', 'synchronous_commit']) name`.execute(
    within,
  );

/**
 * Claims due items for this node alone; other nodes may claim them again when the lease ends.
 * @param within a separate transaction
 * @returns them in the order of the ring: the next claim continues after the last one's organization
 */
export async function claim<Row>(
  within: Tables,
  queue: Queue,
  wanted: ClaimRequest,
): Promise<ClaimedItem<Row>[]> {
  await byIndexes(within);
  const { rows } = await within.executeQuery<ClaimedRow & Row>(claimStatement(within, queue, wanted));
  const items = rows.map((row) => ({
    id: row.id,
    organization: row.organization_id,
    owner: row.owner_id,
    eventId: row.event_id,
    attempts: row.attempts,
    ageMs: row.age_ms,
    row,
  }));
  // An UPDATE returns rows in any order.
  const after = BigInt(wanted.after);
  const place = (id: string) => ({ lap: BigInt(id) > after ? 0 : 1, id: BigInt(id) });
  return items.sort((left, right) => {
    const [a, b] = [place(left.organization), place(right.organization)];
    return a.lap - b.lap || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
  });
}

/** What became of an item. */
export interface ItemOutcome {
  /** Why it failed; empty: it is done. */
  readonly reason: string;
  /** After which time a failed one is tried again, in milliseconds; absent: it is given up. */
  readonly retryMs?: number;
  /** Further columns to write. */
  readonly values?: Readonly<Record<string, string>>;
}

/** An item, and what became of it. */
export type SettledItem = readonly [item: ClaimedItem<unknown>, outcome: ItemOutcome];

/**
 * Records what became of items, each while its claim holds: a replay, or another node after the lease, changes `attempts`.
 * @returns whether others that waited for them may be claimed now
 */
async function settle(tables: Tables, queue: Queue, settled: readonly SettledItem[]): Promise<boolean> {
  let isFollowed = false;
  const kinds = Map.groupBy(settled, ([, { values = {} }]) => Object.keys(values).sort().join());
  for (const [names, some] of kinds) {
    const further = names.split(',').filter((name) => name !== '');
    const column = (value: (of: SettledItem) => string | null) => sql`${arrayText(some.map(value))}`;
    const { rows } = await sql<{ followed: boolean }>`
      -- A database that fails may forget it: the item is processed again, as it is when the process fails.
      with fast as materialized (select set_config('synchronous_commit', 'off', true)),
      given as materialized (
        select g.* from fast cross join unnest(${column(([{ organization }]) => organization)}::bigint[], ${column(([{ id }]) => id)}::bigint[],
          ${column(([{ attempts }]) => String(attempts))}::int[], ${column(([, { reason }]) => reason.slice(0, 500))}::text[],
          ${column(([, { retryMs }]) => (retryMs === undefined ? null : String(Math.round(retryMs))))}::bigint[]
          ${sql.join(
            further.map((name) => sql`, ${column(([, { values }]) => values?.[name] ?? '')}::text[]`),
            sql``,
          )}) as g (organization, item, tries, reason, retry_ms ${sql.raw(further.map((name) => `, new_${name}`).join(''))}))
      update ${sql.table(queue.table)} i set error = g.reason,
        status = case when g.reason = '' then 'done' when g.retry_ms is null then 'dead' else i.status end,
        done_at = case when g.reason = '' or g.retry_ms is null then now() else i.done_at end,
        next_at = case when g.reason = '' then i.next_at else coalesce(now() + g.retry_ms * interval '1 millisecond', i.next_at) end
        ${sql.join(
          further.map((name) => sql`, ${sql.ref(name)} = ${sql.ref(`g.new_${name}`)}`),
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
 * Settles items of one node together: those that end while a statement runs share the next one.
 * @returns what records an item; resolves to whether others that waited for one of them may be claimed now
 */
export function createSettler(
  tables: () => Tables,
  queue: Queue,
): (...settled: SettledItem) => Promise<boolean> {
  let open: { readonly settled: SettledItem[]; readonly recorded: Promise<boolean> } | undefined;
  let before: Promise<unknown> = Promise.resolve();
  return (...settled) => {
    if (open === undefined) {
      const list: SettledItem[] = [];
      const recorded = before.then(() => {
        open = undefined;
        return settle(tables(), queue, list);
      });
      before = recorded.catch(() => undefined);
      open = { settled: list, recorded };
    }
    open.settled.push(settled);
    return open.recorded;
  };
}
