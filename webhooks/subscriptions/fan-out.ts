import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Resource, ResourceView } from '../../engine/compile/index.ts';
import { type Database, failureDetails } from '../../engine/database/index.ts';
import {
  compileGrants,
  loggedFieldNames,
  noGrants,
  selectChangedNames,
  visibleChanges,
} from '../../engine/records/index.ts';
import { arrayText, cell, literal, prepare, rowDecoder } from '../../engine/sql/index.ts';
import { type Tables, tablesOf, transaction } from '../../engine/tables/index.ts';
import { ensureEpoch, nowSql } from '../../plugins/change-log/index.ts';
import { collectedAt } from './batches.ts';

/** Polling intervals with and without enabled subscriptions, in milliseconds. */
const [pollMs, idlePollMs] = [50, 1000];
/** Maximum number of changes to read per subscription, and of subscriptions per transaction. */
const [pageLength, batchSize] = [500, 20];
/** Maximum number of waiting deliveries per subscription. Additional changes remain in the change log. */
const maxWaiting = 5000;
/** How long a subscription is skipped if its queue is full or another node has locked it, in milliseconds. */
const skipMs = 500;

/**
 * Lists enabled subscriptions, and for each whether its epoch is current and whether there are changes after
 * its position.
 */
const pendingChanges = prepare<undefined>(
  'events_look',
  'read',
  () => `with _now as materialized (${nowSql})
    select s."organization_id"::text, s."id"::text, n."same"::text,
      (s."epoch" <> n."epoch" or exists (select from "crm_ledger" l where l."organization_id" = s."organization_id"
        and (l."transaction", l."id") > (s."transaction", s."ledger_id") and l."transaction" < n."horizon" and l."version" is not null))::text
    from "crm_event_subscriptions" s cross join _now n where s."state" = 'on'`,
);

const decodePending = rowDecoder({
  organization: cell.text,
  id: cell.text,
  isSameDatabase: cell.flag,
  hasChanges: cell.flag,
});

/** An enabled subscription, as returned by {@link pendingChanges}. */
type PendingSubscription = ReturnType<typeof decodePending>;

/** SQL condition that is true if more deliveries can be queued for subscription `s`. */
const hasRoom = `not exists (select from crm_event_deliveries d
  where d.organization_id = s.organization_id and d.subscription_id = s.id and d.status = 'waiting'
  offset ${maxWaiting} limit 1)`;

/**
 * Starts the fan-out, which reads the change log and creates deliveries. Only one node at a time processes a
 * subscription.
 * @param onQueued called when deliveries have been created
 * @returns a function that triggers an immediate fan-out
 */
export function startFanOut(
  app: FastifyInstance,
  database: Database,
  resources: readonly Resource[],
  onQueued: () => void,
): { readonly now: () => void } {
  const viewsOf = subscriptionViews(database, resources);
  let isStopping = false;
  /** Time until which polling is skipped. */
  let idleUntil = 0;
  /** Skipped subscriptions, with the time until which each one is skipped. */
  const skippedUntil = new Map<string, number>();
  const poll = async (): Promise<void> => {
    if (performance.now() < idleUntil) return;
    const subscriptions = (await database.run(pendingChanges.bind(undefined))).map((row) =>
      decodePending(row),
    );
    if (subscriptions.length === 0) idleUntil = performance.now() + idlePollMs;
    if (subscriptions.some(({ isSameDatabase }) => !isSameDatabase)) return ensureEpoch(database, true);
    const now = performance.now();
    for (const [id, until] of skippedUntil) if (until < now) skippedUntil.delete(id);
    let pending = subscriptions.filter(({ id, hasChanges }) => hasChanges && !skippedUntil.has(id));
    while (pending.length > 0 && !isStopping) {
      const batch = pending.slice(0, batchSize);
      pending = pending.slice(batchSize);
      for (const [view, group] of await viewsOf(batch)) {
        const { count, read, unfinished } = await transaction(database, (tables) =>
          fanOut(tables, group, view),
        );
        if (count > 0) onQueued();
        for (const { id } of group) if (!read.has(id)) skippedUntil.set(id, now + skipMs);
        pending.push(...group.filter(({ id }) => unfinished.includes(id)));
      }
    }
  };
  app.addHook('preClose', async () => {
    isStopping = true;
  });
  let isFailing = false;
  const { runNow: now } = app.background.every(app, 'subscription events', pollMs, async () => {
    try {
      await poll();
      isFailing = false;
    } catch (cause) {
      // Logs the failure only once while the database is unavailable.
      if (!isFailing)
        app.log.warn(failureDetails(cause), 'failed to read changes for event subscriptions; will retry');
      isFailing = true;
      idleUntil = performance.now() + idlePollMs;
    }
  });
  return {
    now: () => {
      idleUntil = 0;
      now();
    },
  };
}

/** SQL for the changes that a subscription's profile sees. */
interface SubscriptionView {
  /** Expression for the names of the fields logged in change log row `l`. */
  readonly fields: string;
  /** Whether any resource has a trash. */
  readonly hasTrash: boolean;
  /** Returns the statement for the visible rows of the change log; undefined if nothing is limited. */
  readonly visible?: (rows: string, extraColumns: readonly string[]) => string;
}

/**
 * Returns a function that groups subscriptions by what their profiles see. Unless a definition has scopes or field groups,
 * all profiles see the same.
 */
function subscriptionViews(
  database: Database,
  resources: readonly Resource[],
): (
  batch: readonly PendingSubscription[],
) => Promise<readonly (readonly [SubscriptionView, readonly PendingSubscription[]])[]> {
  const full: SubscriptionView = { fields: fieldsOf(resources), hasTrash: hasTrash(resources) };
  if (resources.every(({ viewFor }) => viewFor(noGrants).context.view === ''))
    return async (batch) => [[full, batch]];
  return async (batch) => {
    const { rows } = await sql<{ id: string; object: string; action: string }>`
      select s.id, g.object, g.action from crm_event_subscriptions s
      join crm_grants g on g.organization_id = s.organization_id and g.profile_id = s.profile_id
      where s.id = any(${arrayText(batch.map(({ id }) => id))}::bigint[])`.execute(tablesOf(database));
    const grantsById = Map.groupBy(rows, ({ id }) => id);
    const groups = new Map<string, [SubscriptionView, PendingSubscription[]]>();
    for (const subscription of batch) {
      const grants = compileGrants(grantsById.get(subscription.id) ?? []);
      const views = resources.map(({ viewFor }) => viewFor(grants));
      const key = views[0]?.context.view ?? '';
      const group = groups.get(key) ?? [key === '' ? full : limitedView(views), []];
      group[1].push(subscription);
      groups.set(key, group);
    }
    return [...groups.values()];
  };
}

const hasTrash = (resources: readonly Pick<ResourceView, 'definition'>[]): boolean =>
  resources.some(({ definition }) => definition.trash !== undefined);

const limitedView = (views: readonly ResourceView[]): SubscriptionView => ({
  fields: fieldsOf(views),
  hasTrash: hasTrash(views),
  visible: (rows, extraColumns) => {
    const view = { resources: views.map(({ context }) => context), action: 'read' } as const;
    // A subscription has no user.
    return visibleChanges(rows, view, () => 'null', extraColumns);
  },
});

/** Returns an SQL expression for the names of the fields logged in change log row `l`. */
const fieldsOf = (resources: readonly Pick<ResourceView, 'name' | 'definition'>[]): string =>
  `(case l."object" ${resources
    .map(
      ({ name, definition }) =>
        `when ${literal(name)} then ${literal(arrayText(loggedFieldNames(definition)))}::text[]`,
    )
    .join(' ')} else '{}'::text[] end)`;

/**
 * SQL condition that is true if a subscription includes changes with the action of row `l`. Subscriptions to creations
 * include restored records, and subscriptions to deletions include records moved to or deleted from the trash.
 */
const isSubscribed = (actions: string, hasTrash: boolean) => {
  const action = hasTrash
    ? `case l.action when 'restore' then 'create' when 'trash' then 'delete' when 'purge' then 'delete' else l.action end`
    : 'l.action';
  return `${action} = any(string_to_array(${actions}, ','))`;
};

/**
 * Creates deliveries for the next changes in a batch of subscriptions.
 * @returns the number of deliveries, the subscriptions that were read, and the subscriptions with more
 * changes to read
 */
async function fanOut(
  tables: Tables,
  batch: readonly PendingSubscription[],
  { fields, hasTrash, visible }: SubscriptionView,
): Promise<{
  readonly count: number;
  readonly read: ReadonlySet<string>;
  readonly unfinished: readonly string[];
}> {
  // Locks in a separate statement, so that the next statement sees everything that another node committed
  // before it released the lock. Commits asynchronously, because changes after positions lost in a database
  // crash are simply reread.
  const { rows: lockedRows } = await sql<{ id: string }>`
    with fast as materialized (select set_config('synchronous_commit', 'off', true))
    select s.id from fast cross join crm_event_subscriptions s
    join unnest(${arrayText(batch.map(({ organization }) => organization))}::bigint[],
      ${arrayText(batch.map(({ id }) => id))}::bigint[]) k(organization, id)
      on s.organization_id = k.organization and s.id = k.id
    where s.state = 'on' and ${sql.raw(hasRoom)} for update of s skip locked`.execute(tables);
  const read = new Set(lockedRows.map(({ id }) => id));
  if (lockedRows.length === 0) return { count: 0, read, unfinished: [] };
  const subscribedRows =
    visible === undefined
      ? 'select * from wanted'
      : `select * from (${visible('select * from wanted', ['subscription_id', 'generation', 'is_batched', 'actions'])}) l where ${isSubscribed('l.actions', hasTrash)}`;
  const { rows } = await sql<{ id: string; is_full: boolean; made: string }>`
    with recursive _now as materialized (${sql.raw(nowSql)}),
    subs as materialized (
      -- In a new epoch, transaction IDs start over: read the last hour again; duplicates are recognized by ID.
      select s.organization_id, s.id, s.generation, s.batch_events > 0 as is_batched, s.actions, n.epoch, n.horizon,
        case when s.epoch = n.epoch then s.transaction else '0'::xid8 end as transaction,
        case when s.epoch = n.epoch then s.ledger_id else 0 end as ledger_id,
        case when s.epoch = n.epoch then s.since else greatest(s.since, s.read_at - interval '1 hour', case s.generation when 0 then s.created_at end) end as since,
        array(select r.resource from crm_event_resources r
          where r.organization_id = s.organization_id and r.subscription_id = s.id) as resources
      from crm_event_subscriptions s cross join _now n
      where s.id = any(${arrayText(lockedRows.map(({ id }) => id))}::bigint[]) and n.same),
    page as materialized (
      select s.id as subscription_id, l.organization_id, l.transaction, l.id, l.at, l.object, l.object_id, l.version,
        row_number() over (partition by s.id order by l.transaction, l.id) as place
      from subs s cross join lateral (
        select l.organization_id, l.transaction, l.id, l.at, l.object, l.object_id, l.version from crm_ledger l
        where l.organization_id = s.organization_id and (l.transaction, l.id) > (s.transaction, s.ledger_id)
          and l.transaction < s.horizon and l.version is not null
        order by l.transaction, l.id limit ${sql.lit(pageLength)}) l),
    ends as materialized (
      select s.id, coalesce(p.place = ${sql.lit(pageLength)}, false) as is_full,
        case when p.place = ${sql.lit(pageLength)} then p.transaction else s.horizon end as transaction,
        case when p.place = ${sql.lit(pageLength)} then p.id else 0 end as ledger_id,
        case when p.place = ${sql.lit(pageLength)} then p.at else now() end as read_at
      from subs s left join page p on p.subscription_id = s.id
        and p.place = (select max(q.place) from page q where q.subscription_id = s.id)),
    -- A transaction with a lower ID may have written a record after one with a higher ID. Then the earlier change is
    -- beyond the page, and must still come first.
    changes as (
      select p.subscription_id, p.organization_id, p.transaction, p.id, p.at, p.object, p.object_id, p.version
      from page p join subs s on s.id = p.subscription_id
      where p.object = any(s.resources) and p.at >= s.since
      union all
      select c.subscription_id, e.organization_id, e.transaction, e.id, e.at, e.object, e.object_id, e.version
      from changes c join ends z on z.id = c.subscription_id
      join crm_ledger e on e.organization_id = c.organization_id and e.object = c.object
        and e.object_id = c.object_id and e.version = c.version - 1
        and (e.transaction, e.id) > (z.transaction, z.ledger_id)),
    wanted as (
      select l.*, c.subscription_id, s.generation, s.is_batched${sql.raw(visible === undefined ? '' : ', s.actions')} from changes c
      join crm_ledger l on l.organization_id = c.organization_id and l.transaction = c.transaction and l.id = c.id
      join subs s on s.id = c.subscription_id${sql.raw(visible === undefined ? `\n      where ${isSubscribed('s.actions', hasTrash)}` : '')}),
    made as (
      insert into crm_event_deliveries (organization_id, subscription_id, generation, next_at, event_id, position,
        object, object_id, version, action, at, changed)
      ${sql.raw(
        selectChangedNames(
          subscribedRows,
          fields,
          `l.organization_id, l.subscription_id, l.generation, case when l.is_batched then ${collectedAt} else now() end, l.id::text, l.transaction::text || '-' || l.id::text, l.object, l.object_id, l.version, l.action, l.at`,
        ),
      )} order by l.transaction, l.id, l.subscription_id
      on conflict (organization_id, subscription_id, event_id) do update
        set status = 'waiting', attempts = 0, next_at = excluded.next_at, error = '', done_at = null, batch_id = null,
          generation = excluded.generation
        where crm_event_deliveries.generation < excluded.generation
          -- A waiting batch is going to be sent with exactly its events.
          and not exists (select from crm_event_deliveries b where b.organization_id = crm_event_deliveries.organization_id
            and b.id = crm_event_deliveries.batch_id and b.status = 'waiting')
      returning subscription_id)
    update crm_event_subscriptions s set epoch = n.epoch, transaction = z.transaction, ledger_id = z.ledger_id,
      since = n.since, read_at = z.read_at
    from ends z join subs n on n.id = z.id
    where s.organization_id = n.organization_id and s.id = n.id
    returning s.id, z.is_full, (select count(*) from made)::text as made`.execute(tables);
  return {
    count: Number(rows[0]?.made ?? 0),
    read,
    unfinished: rows.filter(({ is_full }) => is_full).map(({ id }) => id),
  };
}
