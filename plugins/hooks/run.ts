import { sql } from 'kysely';
import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import { parseOwnJson } from '../../engine/fields/index.ts';
import {
  type Body,
  type CommittedChange,
  commandCaller,
  fieldsByName,
  type InstanceHooks,
  measuredCall,
  organizationRecords,
  type ResourceHooks,
  toHookValues,
} from '../../engine/records/index.ts';
import { arrayText } from '../../engine/sql/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { ensureEpoch, type FeedPage, feedReader, nowSql } from '../change-log/index.ts';

/** Time limit of a hook, in seconds, and how long a process keeps other processes from calling the hooks of a module. */
const [hookSeconds, leaseSeconds] = [30, 90];
/** Number of attempts per change, after which it is skipped. */
const maxAttempts = 12;
/** Maximum size of records to read at a time, in bytes. */
const maxBytes = 1024 * 1024;
/** Maximum number of characters of a stored error. */
const maxError = 500;

/** Returns the pause after failed attempts, in seconds: 1 s, 2 s, 4 s and so on, up to 15 minutes. */
const pauseAfter = (attempts: number): number => Math.min(2 ** (attempts - 1), 900);

/** The hooks of a module, by resource. */
interface CommitHooks {
  readonly module: string;
  readonly byResource: ReadonlyMap<string, NonNullable<ResourceHooks['afterCommit']>>;
}

/** Returns the hooks of each module that has any. */
export function commitHooks(hooks: InstanceHooks): readonly CommitHooks[] {
  const entries = [...hooks.byResource].flatMap(([resource, all]) =>
    all.flatMap(({ module, hooks: { afterCommit } }) =>
      afterCommit === undefined ? [] : [{ resource, module, afterCommit }],
    ),
  );
  return [...Map.groupBy(entries, ({ module }) => module)].map(([module, own]) => ({
    module,
    byResource: new Map(own.map(({ resource, afterCommit }) => [resource, afterCommit])),
  }));
}

/** A place from which a module's hooks are called. */
interface Place {
  readonly organization: string;
  readonly module: string;
  readonly transaction: string;
  readonly id: string;
  /** Time before which changes are skipped, in milliseconds since 1970. */
  readonly since: number;
  readonly attempts: number;
}

/** What the hooks after commits need. */
interface CommitServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly hooks: InstanceHooks;
  readonly log: (details: object, message: string) => void;
}

/** Calls the hooks of modules for changes. */
interface CommitRunner {
  /** Prepares calls. Must be called before requests are served. */
  readonly start: () => Promise<void>;
  /** Calls the hooks for all changes that are due. */
  readonly run: (isStopping: () => boolean) => Promise<void>;
}

/** Returns the functions that call the hooks of modules. */
export function commitRunner(
  { database, resources, hooks, log }: CommitServices,
  modules: readonly CommitHooks[],
): CommitRunner {
  const readPage = feedReader(database);
  const tables = tablesOf(database);
  const names = arrayText(modules.map(({ module }) => module));
  const objects = arrayText(modules.map(({ byResource }) => arrayText([...byResource.keys()])));
  const keyOf = ({ organization, module }: Place) =>
    sql`organization_id = ${organization}::bigint and module = ${module}`;

  let startedAt = 'infinity';
  /** Notes the time before requests are served: hooks miss no change in organizations that are created later. */
  const start = async () => {
    const { rows } = await sql<{ now: string }>`select now()::text as now`.execute(tables);
    startedAt = rows[0]?.now ?? startedAt;
  };
  /** Adds places: modules that are new start with the next change, except in organizations created since this process started. */
  const addPlaces = async () => {
    await sql`with n as (${sql.raw(nowSql)})
      insert into crm_hook_places (organization_id, module, epoch, transaction, ledger_id, since)
      select o.id, m.module, n.epoch, case when k.known then '0'::xid8 else n.horizon end, 0, case when k.known then '-infinity' else now() end
      from crm_organizations o cross join unnest(${names}::text[]) m(module) cross join n
      cross join lateral (select o.created_at >= ${startedAt}::timestamptz or exists (select from crm_hook_places p where p.module = m.module) as known) k
      where n.same and not exists (select from crm_hook_places p where p.organization_id = o.id and p.module = m.module)
      on conflict do nothing`.execute(tables);
  };

  /**
   * Leases a place with changes. In a new epoch, positions start over: the changes of the hour before the last call are
   * read again.
   */
  const lease = async (): Promise<Place | undefined> => {
    const { rows } = await sql<{
      organization: string;
      module: string;
      transaction: string;
      id: string;
      since: string;
      attempts: number;
    }>`with n as materialized (${sql.raw(nowSql)}),
      due as (
        select p.organization_id, p.module, n.epoch, p.epoch = n.epoch as is_same from crm_hook_places p
        join unnest(${names}::text[], ${objects}::text[]) m(module, objects) on m.module = p.module cross join n
        where n.same and p.leased_until <= now() and p.next_at <= now()
          and (p.epoch <> n.epoch or exists (select from crm_ledger l where l.organization_id = p.organization_id
            and (l.transaction, l.id) > (p.transaction, p.ledger_id) and l.transaction < n.horizon
            and l.version is not null and l.object = any(m.objects::text[])))
        order by p.next_at limit 1 for update of p skip locked)
      update crm_hook_places p set leased_until = now() + ${sql.lit(leaseSeconds)} * interval '1 second', epoch = due.epoch,
        transaction = case when due.is_same then p.transaction else '0'::xid8 end,
        ledger_id = case when due.is_same then p.ledger_id else 0 end,
        since = case when due.is_same then p.since else greatest(p.since, least(now(), p.next_at) - interval '1 hour') end
      from due where p.organization_id = due.organization_id and p.module = due.module
      returning p.organization_id::text as organization, p.module, p.transaction::text as transaction, p.ledger_id::text as id,
        coalesce(floor(extract(epoch from nullif(p.since, '-infinity')) * 1000), 0)::text as since, p.attempts`.execute(
      tables,
    );
    const [row] = rows;
    return row && { ...row, since: Number(row.since) };
  };

  /** Stores the place after a change or a page, and extends the lease or, at the end, ends it. */
  const advance = (place: Place, { transaction, id }: Pick<Place, 'transaction' | 'id'>, isLast: boolean) =>
    sql`update crm_hook_places set transaction = ${transaction}::xid8, ledger_id = ${id}::bigint, attempts = 0, next_at = now(), error = '',
      leased_until = now() + ${isLast ? 0 : leaseSeconds}::int * interval '1 second' where ${keyOf(place)}`.execute(
      tables,
    );

  const postpone = (place: Place, attempts: number, error: string) =>
    sql`update crm_hook_places set attempts = ${attempts}::int, next_at = now() + ${pauseAfter(attempts)}::int * interval '1 second',
      error = ${error}, leased_until = now() where ${keyOf(place)}`.execute(tables);

  const call = async (place: Place, hook: NonNullable<ResourceHooks['afterCommit']>, change: FeedChange) => {
    const fields = fieldsByName(hooks.fullContext(change.resource).definition.fields);
    const { actor } = change;
    const caller = { ...commandCaller(place.organization), requestId: change.request_id ?? '' };
    const { asSystem } = organizationRecords({ database, resources, module: place.module, caller });
    const signal = AbortSignal.timeout(hookSeconds * 1000);
    const committed: CommittedChange = {
      position: change.position,
      resource: change.resource,
      action: change.action,
      id: BigInt(String(change.id)),
      record: change.after === null ? undefined : toHookValues(fields, change.after),
      previous: change.before === null ? undefined : toHookValues(fields, change.before),
      changed: change.changed,
      organization: BigInt(place.organization),
      actor: { kind: actor.kind, id: actor.id === null ? null : BigInt(String(actor.id)), name: actor.name },
      asSystem,
      signal,
    };
    const target = { module: place.module, place: `afterCommit of ${change.resource}`, signal };
    await measuredCall(hooks.observer, target, () => hook(committed));
  };

  /** Calls the hooks for a page of changes. */
  const runPlace = async (place: Place, isStopping: () => boolean): Promise<void> => {
    const own = modules.find(({ module }) => module === place.module);
    if (own === undefined) return;
    const view = {
      key: '',
      resources: resources.filter(({ name }) => own.byResource.has(name)).map(({ context }) => context),
    };
    const after = { transaction: place.transaction, id: place.id };
    const caller = commandCaller(place.organization);
    const page: FeedPage | undefined = await readPage({ caller, view, after, maxBytes });
    if (page === undefined) return;
    let { attempts } = place;
    for (const { change: json, position } of page.entries) {
      if (isStopping()) {
        await sql`update crm_hook_places set leased_until = now() where ${keyOf(place)}`.execute(tables);
        return;
      }
      const change = parseOwnJson(json) as FeedChange;
      const hook = own.byResource.get(change.resource);
      if (hook !== undefined && Date.parse(change.at) >= place.since) {
        try {
          await call(place, hook, change);
        } catch (cause) {
          attempts++;
          const details = {
            module: place.module,
            resource: change.resource,
            position: change.position,
            attempts,
            err: cause,
          };
          const isSkipped = attempts >= maxAttempts;
          log(
            details,
            isSkipped
              ? 'an afterCommit hook failed for the last time; the change is skipped'
              : 'an afterCommit hook failed',
          );
          if (!isSkipped) {
            await postpone(
              place,
              attempts,
              (cause instanceof Error ? cause.message : String(cause)).slice(0, maxError),
            );
            return;
          }
        }
        attempts = 0;
      }
      await advance(place, position, false);
    }
    await advance(place, page.end, true);
  };

  const run = async (isStopping: () => boolean) => {
    await ensureEpoch(database, true);
    await addPlaces();
    for (let place = await lease(); place !== undefined; place = await lease()) {
      await runPlace(place, isStopping);
      if (isStopping()) return;
    }
  };
  return { start, run };
}

/** A change in the feed. Numbers that JavaScript would round are `ExactNumber` objects. */
interface FeedChange {
  readonly position: string;
  readonly at: string;
  readonly actor: {
    readonly kind: CommittedChange['actor']['kind'];
    readonly id: unknown;
    readonly name: string | null;
  };
  readonly request_id: string | null;
  readonly resource: string;
  readonly id: unknown;
  readonly action: CommittedChange['action'];
  readonly changed: readonly string[];
  readonly before: Body | null;
  readonly after: Body | null;
}
