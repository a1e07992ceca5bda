import { type Selectable, sql } from 'kysely';
import { type Actor, recordChanges } from '../../engine/effects/index.ts';
import { UserError } from '../../engine/errors.ts';
import type { TableRows, Tables } from '../../engine/tables/index.ts';
import { makePublicId, type Sealing } from '../../plugins/access/secrets/index.ts';
import type { UnverifiedPosition } from '../../plugins/change-log/index.ts';
import { replayRange } from '../queue/index.ts';
import { deliveryQueue } from './deliveries.ts';
import type { SubscriptionInput } from './input.ts';
import { makeSigningSecret } from './signature.ts';

/** How long the secret before signs too, in hours. */
export const overlapHours = 24;
/** Subscriptions of one organization. */
const most = 100;

/** A subscription as people see it. */
export interface Subscription {
  readonly id: string;
  readonly url: string;
  readonly resources: readonly string[];
  readonly actions: readonly string[];
  /** Parameters of a list. */
  readonly filter: string;
  readonly profile: string;
  readonly state: 'on' | 'off' | 'gone' | 'failed';
  /** Since when no event arrives; null: the last one did. */
  readonly failingSince: Date | null;
  readonly createdAt: Date;
}

const object = 'event subscription';

/** Subscriptions of an organization, oldest first. */
export async function listSubscriptions(
  tables: Tables,
  organization: string,
  id?: string,
): Promise<Subscription[]> {
  const { rows } = await sql<Omit<Subscription, 'actions'> & { readonly actions: string }>`
    select s.id, s.url, s.actions, s.filter, s.state, s.failing_since as "failingSince", s.created_at as "createdAt", p.name as profile,
      array(select r.resource from crm_event_resources r
        where r.organization_id = s.organization_id and r.subscription_id = s.id order by r.resource) as resources
    from crm_event_subscriptions s
    join crm_profiles p on p.organization_id = s.organization_id and p.id = s.profile_id
    where s.organization_id = ${organization}::bigint and ${id === undefined ? sql`true` : sql`s.id = ${id}::bigint`}
    order by s.id`.execute(tables);
  return rows.map((row) => ({ ...row, actions: row.actions.split(',') }));
}

/** What a new subscription needs. */
export interface NewSubscription extends SubscriptionInput {
  readonly organization: string;
  readonly profile: string;
  /** Where the ledger is: what comes after is sent. */
  readonly place: Omit<UnverifiedPosition, 'at'>;
}

/**
 * Makes a subscription.
 * @returns its id and the secret that signs its events, which is not shown again
 * @throws UserError if there are too many
 */
export async function createSubscription(
  tables: Tables,
  actor: Actor,
  { seal }: Sealing,
  { organization, profile, place, url, resources, actions, filter }: NewSubscription,
): Promise<{ readonly id: string; readonly secret: string }> {
  const { count } = await tables
    .selectFrom('crm_event_subscriptions')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('organization_id', '=', organization)
    .executeTakeFirstOrThrow();
  if (Number(count) >= most) throw new UserError(`an organization may have ${most} event subscriptions`);
  const secret = makeSigningSecret();
  const { id } = await tables
    .insertInto('crm_event_subscriptions')
    .values({
      organization_id: organization,
      profile_id: profile,
      url,
      actions: actions.join(','),
      filter,
      secret: await seal(secret),
      failing_since: null,
      epoch: place.epoch,
      transaction: place.transaction,
      ledger_id: place.id,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  await setResources(tables, organization, id, resources);
  await recordChanges(tables, actor, { organization, action: 'create', object, objectId: id });
  return { id, secret };
}

async function setResources(
  tables: Tables,
  organization: string,
  id: string,
  resources: readonly string[],
): Promise<void> {
  await tables
    .deleteFrom('crm_event_resources')
    .where('organization_id', '=', organization)
    .where('subscription_id', '=', id)
    .execute();
  await tables
    .insertInto('crm_event_resources')
    .values(resources.map((resource) => ({ organization_id: organization, subscription_id: id, resource })))
    .execute();
}

/** What may change of a subscription. */
export interface SubscriptionChange extends Partial<SubscriptionInput> {
  readonly state?: 'on' | 'off';
  /** Id of the profile of whoever changes it, who may read less: nobody gets what they may not read. */
  readonly profile?: string;
}

/** Changes a subscription. Switched on again, it goes on where it was. @throws UserError when there is none */
export async function changeSubscription(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
  { url, resources, actions, filter, state, profile }: SubscriptionChange,
): Promise<void> {
  await update(tables, organization, id, {
    ...(url !== undefined && { url }),
    ...(actions !== undefined && { actions: actions.join(',') }),
    ...(filter !== undefined && { filter }),
    ...(profile !== undefined && { profile_id: profile }),
    ...(state !== undefined && { state }),
    ...(state === 'on' && { failures: 0, failing_since: null, paused_until: sql<Date>`now()` }),
  });
  if (resources !== undefined) await setResources(tables, organization, id, resources);
  await recordChanges(tables, actor, { organization, action: 'update', object, objectId: id });
}

type Row = Selectable<TableRows['crm_event_subscriptions']>;
type Changed = { readonly [Column in keyof Row]?: Row[Column] | ReturnType<typeof sql<Row[Column]>> };

/** Writes columns of a subscription. @throws UserError when there is none */
async function update(tables: Tables, organization: string, id: string, values: Changed): Promise<void> {
  const row = await tables
    .updateTable('crm_event_subscriptions')
    .set({ id, ...values } as never)
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new UserError(`there is no ${object} ${id} in this organization`);
}

/** Gives a subscription a new secret; the one before signs as well for a day. @returns it, not shown again */
export async function rotateSecret(
  tables: Tables,
  actor: Actor,
  { seal }: Sealing,
  organization: string,
  id: string,
): Promise<string> {
  const secret = makeSigningSecret();
  await update(tables, organization, id, {
    secret: await seal(secret),
    previous_secret: sql<string>`secret`,
    previous_until: sql<Date>`now() + ${overlapHours}::int * interval '1 hour'`,
  });
  await recordChanges(tables, actor, { organization, action: 'rotate', object, objectId: id });
  return secret;
}

/** Removes a subscription with its deliveries. @throws UserError when there is none */
export async function removeSubscription(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
): Promise<void> {
  const row = await tables
    .deleteFrom('crm_event_subscriptions')
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new UserError(`there is no ${object} ${id} in this organization`);
  await recordChanges(tables, actor, { organization, action: 'delete', object, objectId: id });
}

/** Queues an event without a record. @returns the id of its delivery @throws UserError unless the subscription is on */
export async function sendTest(tables: Tables, organization: string, id: string): Promise<string> {
  await assertOn(tables, organization, id);
  const row = await tables
    .insertInto('crm_event_deliveries')
    .values({
      organization_id: organization,
      subscription_id: id,
      event_id: `test-${makePublicId()}`,
      position: null,
      object: '',
      object_id: null,
      version: null,
      action: 'test',
      done_at: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return row.id;
}

/** What is to be delivered again: everything after a place of the ledger, or deliveries between two ids. */
export type ReplayRange =
  | { readonly place: Omit<UnverifiedPosition, 'at'> }
  | { readonly from: string; readonly to: string };

/** Delivers again. @returns how many deliveries are queued; what comes after a place follows in the background */
export async function replaySubscription(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
  given: ReplayRange,
): Promise<number> {
  await assertOn(tables, organization, id);
  await recordChanges(tables, actor, { organization, action: 'replay', object, objectId: id });
  if (!('place' in given)) return replayRange(tables, deliveryQueue, organization, { owner: id, ...given });
  const { epoch, transaction, id: ledger_id } = given.place;
  await update(tables, organization, id, {
    epoch,
    transaction,
    ledger_id,
    since: sql<Date>`'-infinity'`,
    generation: sql<number>`generation + 1`,
  });
  return 0;
}

async function assertOn(tables: Tables, organization: string, id: string): Promise<void> {
  const [found] = await listSubscriptions(tables, organization, id);
  if (found === undefined) throw new UserError(`there is no ${object} ${id} in this organization`);
  if (found.state !== 'on') throw new UserError('the event subscription is off: switch it on first');
}
