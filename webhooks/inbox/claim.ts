import { type CompiledQuery, sql } from 'kysely';
import type { Tables } from '../../engine/tables/index.ts';

/** An item that this node may process until its lease ends. */
export interface Claimed {
  readonly id: string;
  readonly organization: string;
  readonly eventId: string;
  readonly payload: string;
  /** Including this one. */
  readonly attempts: number;
  /** Milliseconds since the event arrived, by the database's clock. */
  readonly ageMs: number;
  /** The stored integration: its secrets are still sealed. */
  readonly integration: {
    readonly id: string;
    readonly provider: string;
    readonly endpoint: string;
    readonly secret: string;
    readonly token: string;
  };
}

/** A row that {@link claimStatement} returns. */
interface ClaimedRow {
  readonly organization_id: string;
  readonly id: string;
  readonly event_id: string;
  readonly payload: string;
  readonly attempts: number;
  readonly age_ms: number;
  readonly integration_id: string;
  readonly provider: string;
  readonly endpoint: string;
  readonly secret: string;
  readonly token: string;
}

/** The items that a node wants to claim. */
export interface Wanted {
  readonly limit: number;
  /** Organizations that get no items this time. */
  readonly without: readonly string[];
  /** The organization that was served last; those with a greater id come first. */
  readonly after: string;
}

/** How long a claim holds; after that another node may claim the item. */
const leaseSeconds = 60;

/**
 * The statement that claims due items, organizations in turn: one of each organization, then a second one of each, …
 *
 * It reads an index entry for each organization that has waiting items and then at most `limit` items of each of
 * at most `limit` organizations. Items that are done or belong to disabled integrations cost
 * nothing: `crm_inbox_due` is (organization_id, integration_id, next_at) of waiting items.
 */
export function claimStatement(tables: Tables, { limit, without, after }: Wanted): CompiledQuery {
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
            select w.organization_id from crm_inbox w
            where w.status = 'waiting' and w.organization_id > ring.organization_id
            order by w.organization_id limit 1) later
          where ring.lap = 0 or later.organization_id <= ${after}::bigint)
        union all
        (select w.organization_id, 1 from crm_inbox w
          where w.status = 'waiting' and ring.lap = 0 and w.organization_id <= ${after}::bigint
          order by w.organization_id limit 1)
        limit 1) next
    ), due as (
      select r.organization_id, r.lap from ring r cross join lateral (
        select 1 from crm_integrations g cross join lateral (
          select 1 from crm_inbox w
          where w.organization_id = g.organization_id and w.integration_id = g.id
            and w.status = 'waiting' and w.next_at <= now()
          order by w.next_at limit 1) first
        where g.organization_id = r.organization_id and g.enabled
        limit 1) any_due
      where r.organization_id <> all (string_to_array(${without.join(',')}::text, ',')::bigint[])
        -- The first row of the ring is only the starting point.
        and (r.organization_id, r.lap) <> (${after}::bigint, 0)
      limit ${maxRows}
    ), turns as (
      select w.organization_id, w.id, due.lap,
        row_number() over (partition by due.organization_id order by w.next_at, w.id) as turn
      from due
      join crm_integrations g on g.organization_id = due.organization_id and g.enabled
      cross join lateral (
        select w.organization_id, w.id, w.next_at from crm_inbox w
        where w.organization_id = g.organization_id and w.integration_id = g.id
          and w.status = 'waiting' and w.next_at <= now()
        order by w.next_at limit ${maxRows}) w
    ), chosen as (
      select organization_id, id from turns order by turn, lap, organization_id limit ${maxRows}
    ), locked as (
      -- Another node may have chosen the same items: the first one to lock them gets them. A case expression, because the
      -- condition must be tested again on the locked row but must not make the planner prefer crm_inbox_due to the key.
      select i.organization_id, i.id from chosen join crm_inbox i using (organization_id, id)
      where case i.status when 'waiting' then i.next_at <= now() else false end
      for update of i skip locked
    )
    update crm_inbox i set attempts = attempts + 1, next_at = now() + ${leaseSeconds}::int * interval '1 second'
    from locked, crm_integrations g
    where i.organization_id = locked.organization_id and i.id = locked.id
      and g.organization_id = i.organization_id and g.id = i.integration_id
    returning i.organization_id, i.id, i.event_id, i.payload, i.attempts,
      greatest(0, extract(epoch from now() - i.received_at) * 1000)::float8 as age_ms,
      g.id as integration_id, g.provider, g.endpoint, g.secret, g.token`.compile(tables);
}

/**
 * Forces the claim's plan: with statistics of a moment when one organization had every item, or
 * when none waited, the planner would read the whole table.
 */
export const byIndexes = (within: Tables) =>
  sql`select set_config(name, 'off', true)
      from unnest(array['enable_seqscan', 'enable_bitmapscan', 'enable_sort']) name`.execute(within);

/**
 * Claims due items for this node alone; other nodes may claim them again when the lease ends.
 * @param within a separate transaction
 * @returns them in the order of the ring: the next claim continues after the last one's organization
 */
export async function claim(within: Tables, wanted: Wanted): Promise<Claimed[]> {
  await byIndexes(within);
  const { rows } = await within.executeQuery<ClaimedRow>(claimStatement(within, wanted));
  const items = rows.map((row) => ({
    id: row.id,
    organization: row.organization_id,
    eventId: row.event_id,
    payload: row.payload,
    attempts: row.attempts,
    ageMs: row.age_ms,
    integration: {
      id: row.integration_id,
      provider: row.provider,
      endpoint: row.endpoint,
      secret: row.secret,
      token: row.token,
    },
  }));
  // An UPDATE returns rows in any order.
  const after = BigInt(wanted.after);
  const place = (id: string) => ({ lap: BigInt(id) > after ? 0 : 1, id: BigInt(id) });
  return items.sort((left, right) => {
    const [a, b] = [place(left.organization), place(right.organization)];
    return a.lap - b.lap || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
  });
}

const row = (tables: Tables, { organization, id }: Claimed) =>
  tables.updateTable('crm_inbox').where('organization_id', '=', organization).where('id', '=', id);

/** Matches the item only while this claim holds: a replay, or another node after the lease, changes `attempts`. */
const claimed = (tables: Tables, item: Claimed) =>
  row(tables, item).where('status', '=', 'waiting').where('attempts', '=', item.attempts);

/** Replaces the data of an item. */
export const remember = async (tables: Tables, item: Claimed, data: unknown): Promise<void> => {
  await row(tables, item)
    .set({ payload: JSON.stringify(data) })
    .execute();
};

/** Marks an item as processed. */
export const finish = async (tables: Tables, item: Claimed): Promise<void> => {
  await claimed(tables, item).set({ status: 'done', done_at: sql<Date>`now()`, error: '' }).execute();
};

/** Records a failure of an item: it is retried after `delayMs`, or given up if that is undefined. */
export const fail = async (
  tables: Tables,
  item: Claimed,
  error: string,
  delayMs: number | undefined,
): Promise<void> => {
  const outcome =
    delayMs === undefined
      ? { status: 'dead', done_at: sql<Date>`now()` }
      : { next_at: sql<Date>`now() + ${Math.round(delayMs)}::int * interval '1 millisecond'` };
  await claimed(tables, item)
    .set({ ...outcome, error: error.slice(0, 500) })
    .execute();
};
