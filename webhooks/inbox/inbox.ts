import { sql } from 'kysely';
import { UserError } from '../../engine/errors.ts';
import { type Actor, note, type Platform } from '../../engine/platform/index.ts';
import type { ChannelEvent, Integration } from '../channels/channel.ts';

/** What can be with an item: it waits, is done, or was given up. */
export const states = ['waiting', 'done', 'dead'];

/** A delivery's event. */
export interface InboxItem {
  readonly id: string;
  readonly organization: string;
  readonly integration: string;
  readonly eventId: string;
  readonly payload: string;
  readonly status: string;
  readonly attempts: number;
  readonly error: string;
  readonly receivedAt: Date;
}

/** Stores events, each once for its id. When this is done, the provider may be told that they have arrived. */
export async function store(
  tables: Platform,
  { organization, id }: Integration,
  events: readonly ChannelEvent[],
): Promise<number> {
  let stored = 0;
  // Parameters of one statement are limited, and Lead Ads sends up to a thousand events at once.
  for (let start = 0; start < events.length; start += 500) {
    const rows = await tables
      .insertInto('crm_inbox')
      .values(
        events.slice(start, start + 500).map((event) => ({
          organization_id: organization,
          integration_id: id,
          event_id: event.id.slice(0, 500),
          payload: JSON.stringify(event.data),
          done_at: null,
        })),
      )
      .onConflict((conflict) =>
        conflict.columns(['organization_id', 'integration_id', 'event_id']).doNothing(),
      )
      .returning('id')
      .execute();
    stored += rows.length;
  }
  return stored;
}

/** How long a claimed item belongs to the node that claimed it; after that another may take it. */
const leaseSeconds = 60;

/** Claims items that are due, for this node alone; a node that dies loses them when their lease ends. */
export async function claim(tables: Platform, limit: number): Promise<InboxItem[]> {
  const { rows } = await sql<Record<string, string>>`
    update crm_inbox i set attempts = attempts + 1, next_at = now() + ${leaseSeconds}::int * interval '1 second'
    from (select organization_id, id from crm_inbox w where status = 'waiting' and next_at <= now()
            and exists (select from crm_integrations g where g.organization_id = w.organization_id
              and g.id = w.integration_id and g.enabled)
          order by next_at limit ${limit}::int for update skip locked) due
    where i.organization_id = due.organization_id and i.id = due.id
    returning i.organization_id::text, i.id::text, i.integration_id::text, i.event_id, i.payload, i.status,
      i.attempts::text, i.error, i.received_at::text`.execute(tables);
  return rows.map(itemOf);
}

const itemOf = (row: Readonly<Record<string, unknown>>): InboxItem => ({
  id: String(row.id),
  organization: String(row.organization_id),
  integration: String(row.integration_id),
  eventId: String(row.event_id),
  payload: String(row.payload),
  status: String(row.status),
  attempts: Number(row.attempts),
  error: String(row.error),
  receivedAt: new Date(String(row.received_at)),
});

const one = (tables: Platform, { organization, id }: Pick<InboxItem, 'organization' | 'id'>) =>
  tables.updateTable('crm_inbox').where('organization_id', '=', organization).where('id', '=', id);

/** The item as it was claimed: a replay, or another node after the lease, has made it another's. */
const claimed = (tables: Platform, item: InboxItem) =>
  one(tables, item).where('status', '=', 'waiting').where('attempts', '=', item.attempts);

/** Replaces what the item holds. */
export const remember = async (tables: Platform, item: InboxItem, data: unknown): Promise<void> => {
  await one(tables, item)
    .set({ payload: JSON.stringify(data) })
    .execute();
};

/** The item is processed. */
export const finish = async (tables: Platform, item: InboxItem): Promise<void> => {
  await claimed(tables, item).set({ status: 'done', done_at: new Date(), error: '' }).execute();
};

/** The item failed; tried again at `next`, or given up where that is undefined. */
export const fail = async (
  tables: Platform,
  item: InboxItem,
  error: string,
  next: Date | undefined,
): Promise<void> => {
  const outcome = next === undefined ? { status: 'dead', done_at: new Date() } : { next_at: next };
  await claimed(tables, item)
    .set({ ...outcome, error: error.slice(0, 500) })
    .execute();
};

/** What came in for an organization, newest first. */
export async function listInbox(
  tables: Platform,
  organization: string,
  { status, before, limit }: { status?: string | undefined; before?: string | undefined; limit: number },
): Promise<InboxItem[]> {
  let query = tables.selectFrom('crm_inbox').selectAll().where('organization_id', '=', organization);
  if (status !== undefined) query = query.where('status', '=', status);
  if (before !== undefined) query = query.where('id', '<', before);
  return (await query.orderBy('id', 'desc').limit(limit).execute()).map((row) => itemOf({ ...row }));
}

/** One item. @throws UserError when there is none */
export async function showInbox(tables: Platform, organization: string, id: string): Promise<InboxItem> {
  const row = await tables
    .selectFrom('crm_inbox')
    .selectAll()
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .executeTakeFirst();
  if (row === undefined) throw new UserError(`there is no inbox item ${id} in this organization`);
  return itemOf({ ...row });
}

/** Has an item processed once more, whatever became of it. @throws UserError when there is none */
export async function replay(tables: Platform, by: Actor, organization: string, id: string): Promise<void> {
  await showInbox(tables, organization, id);
  await one(tables, { organization, id })
    .set({ status: 'waiting', attempts: 0, next_at: new Date(), error: '', done_at: null })
    .execute();
  await note(tables, by, { organization, action: 'replay', object: 'inbox item', objectId: id });
}
