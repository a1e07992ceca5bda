import { createHmac, randomBytes } from 'node:crypto';
import { type RawBuilder, type Selectable, sql } from 'kysely';
import { type Actor, recordChanges } from '../../engine/effects/index.ts';
import {
  countRows,
  findRow,
  type RowSource,
  type TableRows,
  type Tables,
} from '../../engine/tables/index.ts';
import { generatePublicId, type Sealing } from '../../plugins/access/secrets/index.ts';
import { type TextIn, TranslatedError } from '../../plugins/admin-ui/shell/index.ts';
import type { UnverifiedPosition } from '../../plugins/change-log/index.ts';
import { endPauses, latestAttempt, replayRange } from '../queue/index.ts';
import { collectedAt } from './batches.ts';
import { deliveryQueue, testObject } from './deliveries.ts';
import type { BatchOptions, EventFormat, FilterMode, SubscriptionInput } from './input.ts';
import { subscriptionsTexts } from './texts/index.ts';
import type { SelectedTransitions } from './transitions.ts';

const { later } = subscriptionsTexts;

const prefix = 'whsec_';

/** Generates a signing secret in the Standard Webhooks format. */
const makeSigningSecret = (): string => prefix + randomBytes(32).toString('base64');

/**
 * Returns the headers defined by Standard Webhooks (standardwebhooks.com), with a signature of the body for each secret.
 * @param at Unix time in milliseconds
 */
export function signatureHeaders(
  id: string,
  body: Buffer,
  secrets: readonly string[],
  at: number = Date.now(),
): Readonly<Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string>> {
  const timestamp = String(Math.floor(at / 1000));
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(prefix.length), 'base64');
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`;
  });
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') };
}

/** Number of hours after a rotation during which events are also signed with the previous secret. */
export const overlapHours = 24;
/** Maximum number of subscriptions per organization. */
const maxSubscriptions = 100;

/** A subscription without its secrets. */
export interface Subscription {
  readonly id: string;
  readonly url: string;
  readonly resources: readonly string[];
  readonly actions: readonly string[];
  /** List parameters. */
  readonly filter: string;
  readonly filterWhen: FilterMode;
  readonly transitions: SelectedTransitions;
  readonly format: EventFormat;
  readonly batch: BatchOptions | null;
  readonly profile: string;
  readonly state: 'on' | 'off' | 'gone' | 'failed';
  /** When the first failure since the last success occurred, or null if none has. */
  readonly failingSince: Date | null;
  readonly createdAt: Date;
}

const object = 'event subscription';

/** An organization's subscriptions, oldest first. */
export const subscriptionRows: RowSource<Subscription> = {
  from: `crm_event_subscriptions s
    join crm_profiles p on p.organization_id = s.organization_id and p.id = s.profile_id`,
  owner: 's.organization_id',
  columns: {
    id: 's.id',
    url: 's.url',
    actions: `string_to_array(s.actions, ',')`,
    filter: 's.filter',
    filterWhen: 's.filter_when',
    transitions: `coalesce(nullif(s.transitions, ''), '{}')::json`,
    format: 's.format',
    batch: `case when s.batch_events > 0
      then json_build_object('maxEvents', s.batch_events, 'maxWaitSeconds', s.batch_seconds) end`,
    state: 's.state',
    failingSince: 's.failing_since',
    createdAt: 's.created_at',
    profile: 'p.name',
    resources: `array(select r.resource from crm_event_resources r
      where r.organization_id = s.organization_id and r.subscription_id = s.id order by r.resource)`,
  },
  search: [
    's.url',
    'p.name',
    `(select string_agg(r.resource, ' ') from crm_event_resources r
      where r.organization_id = s.organization_id and r.subscription_id = s.id)`,
  ],
  order: 's.id',
};

/** A subscription, as shown on pages. */
export interface DisplayedSubscription extends Subscription {
  /** When events will be sent again; null if they are not paused. */
  readonly pausedUntil: Date | null;
  /** When an event was last delivered; null if no such delivery is stored. */
  readonly deliveredAt: Date | null;
  /** English sentence that explains the last failure, and the attempt as JSON. Null without a failure since the last success. */
  readonly error: string | null;
  readonly latest: string | null;
}

/** Selects from the newest delivery of subscription `s` that meets a condition. */
const fromNewest = (columns: string, condition: string): string =>
  `select ${columns} from crm_event_deliveries d
    where d.organization_id = s.organization_id and d.subscription_id = s.id and ${condition} order by d.id desc limit 1`;

/** An organization's subscriptions with their states, oldest first. */
export const displayedSubscriptions: RowSource<DisplayedSubscription> = {
  ...subscriptionRows,
  from: `${subscriptionRows.from}
    left join lateral (${fromNewest(`d.error, ${latestAttempt('d')} as latest`, `d.error <> ''`)}) f
      on s.failing_since is not null`,
  columns: {
    ...subscriptionRows.columns,
    pausedUntil: `case when s.paused_until > now() and isfinite(s.paused_until) then s.paused_until end`,
    deliveredAt: `case when s.failing_since is null then (${fromNewest('d.done_at', `d.status = 'done'`)}) end`,
    error: 'f.error',
    latest: 'f.latest',
  },
};

/** Returns the message for a subscription that does not exist. */
export const missingSubscription = (id: string): TextIn => later('missing', { id });

/** Input for a new subscription. */
interface NewSubscription extends SubscriptionInput {
  readonly organization: string;
  readonly profile: string;
  /** Position in the change log. Changes after it are sent. */
  readonly position: Omit<UnverifiedPosition, 'at'>;
}

/**
 * Creates a subscription.
 * @returns the subscription's ID and its signing secret, which cannot be retrieved later
 * @throws UserError if the organization has too many subscriptions
 */
export async function createSubscription(
  tables: Tables,
  actor: Actor,
  { seal }: Sealing,
  {
    organization,
    profile,
    position,
    url,
    resources,
    actions,
    filter,
    filterWhen,
    transitions,
    format,
    batch,
  }: NewSubscription,
): Promise<{ readonly id: string; readonly secret: string }> {
  if ((await countRows(tables, subscriptionRows, organization)) >= maxSubscriptions)
    throw new TranslatedError(later('tooMany', { max: String(maxSubscriptions) }));
  const secret = makeSigningSecret();
  const { id } = await tables
    .insertInto('crm_event_subscriptions')
    .values({
      organization_id: organization,
      profile_id: profile,
      url,
      actions: actions.join(','),
      filter,
      filter_when: filterWhen,
      transitions: transitionsText(transitions),
      format,
      ...batchColumns(batch),
      secret: await seal(secret),
      failing_since: null,
      epoch: position.epoch,
      transaction: position.transaction,
      ledger_id: position.id,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  await setResources(tables, organization, id, resources);
  await recordChanges(tables, actor, { organization, action: 'create', object, objectId: id });
  return { id, secret };
}

const batchColumns = (batch: BatchOptions | null) => ({
  batch_events: batch?.maxEvents ?? 0,
  batch_seconds: batch?.maxWaitSeconds ?? 0,
});

const transitionsText = (transitions: SelectedTransitions): string =>
  Object.keys(transitions).length === 0 ? '' : JSON.stringify(transitions);

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

/** Changes to a subscription. */
interface SubscriptionChange extends Partial<SubscriptionInput> {
  readonly state?: 'on' | 'off';
  /** ID of the new profile, set if the caller cannot read everything that the current profile allows. */
  readonly profile?: string;
}

/**
 * Changes a subscription. A re-enabled subscription continues where it stopped. @throws UserError if it does
 * not exist
 */
export async function changeSubscription(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
  {
    url,
    resources,
    actions,
    filter,
    filterWhen,
    transitions,
    format,
    batch,
    state,
    profile,
  }: SubscriptionChange,
): Promise<void> {
  await update(tables, organization, id, {
    ...(url !== undefined && { url }),
    ...(actions !== undefined && { actions: actions.join(',') }),
    ...(filter !== undefined && { filter }),
    ...(filterWhen !== undefined && { filter_when: filterWhen }),
    ...(transitions !== undefined && { transitions: transitionsText(transitions) }),
    ...(format !== undefined && { format }),
    ...(batch !== undefined && batchColumns(batch)),
    ...(profile !== undefined && { profile_id: profile }),
    ...(state !== undefined && { state }),
    ...(state === 'on' && { failures: 0, failing_since: null, paused_until: sql<Date>`now()` }),
  });
  if (resources !== undefined) await setResources(tables, organization, id, resources);
  if (batch !== undefined) await moveWaiting(tables, organization, id, batch !== null);
  await recordChanges(tables, actor, { organization, action: 'update', object, objectId: id });
}

/**
 * Collects the waiting events of a subscription for batches, except for events that may already have been sent, or makes
 * collected events due. Existing batches are still sent as batches.
 */
async function moveWaiting(
  tables: Tables,
  organization: string,
  id: string,
  isBatched: boolean,
): Promise<void> {
  const [from, to] = isBatched
    ? [sql`next_at < ${sql.raw(collectedAt)} and attempts = 0`, sql.raw(collectedAt)]
    : [sql`next_at = ${sql.raw(collectedAt)}`, sql`now()`];
  await sql`update crm_event_deliveries set next_at = ${to}
    where organization_id = ${organization}::bigint and subscription_id = ${id}::bigint
      and status = 'waiting' and object_id is not null and ${from}`.execute(tables);
}

type Row = Selectable<TableRows['crm_event_subscriptions']>;
type ColumnValues = { readonly [Column in keyof Row]?: Row[Column] | ReturnType<typeof sql<Row[Column]>> };

/** Updates a subscription's columns. @throws UserError if the subscription does not exist */
async function update(tables: Tables, organization: string, id: string, values: ColumnValues): Promise<void> {
  const row = await tables
    .updateTable('crm_event_subscriptions')
    .set({ id, ...values } as never)
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new TranslatedError(missingSubscription(id));
}

/**
 * Replaces the signing secret and returns the new one. Events are signed with both secrets for {@link overlapHours}
 * hours.
 */
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

/** Removes a subscription and its deliveries. @throws UserError if it does not exist */
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
  if (row === undefined) throw new TranslatedError(missingSubscription(id));
  await recordChanges(tables, actor, { organization, action: 'delete', object, objectId: id });
}

/** Queues a test event and returns its delivery ID. @throws UserError if the subscription is disabled */
export async function sendTest(tables: Tables, organization: string, id: string): Promise<string> {
  await assertOn(tables, organization, id);
  // A test shows immediately whether the receiver has recovered.
  await endPauses(tables, deliveryQueue, organization, sql`g.id = ${id}::bigint`);
  const row = await tables
    .insertInto('crm_event_deliveries')
    .values({
      organization_id: organization,
      subscription_id: id,
      event_id: `test-${generatePublicId()}`,
      position: null,
      object: testObject,
      object_id: null,
      version: null,
      action: 'test',
      done_at: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return row.id;
}

/** Range to replay: all changes after a position in the change log, or the deliveries between two IDs. */
export type ReplayRange =
  | { readonly position: Omit<UnverifiedPosition, 'at'> }
  | {
      readonly from: string;
      readonly to: string;
      /** SQL condition for the deliveries, if not all of them are sent again. */
      readonly where?: RawBuilder<unknown>;
    };

/**
 * Replays events. Returns the number of queued deliveries, not counting changes after a position, which are queued in
 * the background.
 */
export async function replaySubscription(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
  range: ReplayRange,
): Promise<number> {
  await assertOn(tables, organization, id);
  await recordChanges(tables, actor, { organization, action: 'replay', object, objectId: id });
  if (!('position' in range)) {
    const { from, to, where } = range;
    const conditions = where === undefined ? [] : [where];
    return replayRange(tables, deliveryQueue, organization, { owner: id, from, to, where: conditions });
  }
  const { epoch, transaction, id: ledger_id } = range.position;
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
  const subscription = await findRow(tables, subscriptionRows, organization, id);
  if (subscription === undefined) throw new TranslatedError(missingSubscription(id));
  if (subscription.state !== 'on') throw new TranslatedError(later('enableFirst'));
}
