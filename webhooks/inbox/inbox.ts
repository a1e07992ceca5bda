import { type Selectable, sql } from 'kysely';
import { type Actor, recordChanges } from '../../engine/effects/index.ts';
import { UserError } from '../../engine/errors.ts';
import type { TableRows, Tables } from '../../engine/tables/index.ts';
import type { ChannelEvent, Integration } from '../channels/index.ts';
import { indexable } from '../endpoint/index.ts';

/** The states of an item: it waits, is done, or was given up. */
export const states = ['waiting', 'done', 'dead'];

/** A delivery's event. */
export interface InboxItem {
  readonly id: string;
  readonly integration: string;
  readonly eventId: string;
  readonly status: string;
  readonly attempts: number;
  readonly error: string;
  readonly receivedAt: Date;
}

/** Stores events, each once for its id. Respond to the provider only after this has succeeded. */
export async function store(
  tables: Tables,
  { organization, id }: Integration,
  events: readonly ChannelEvent[],
): Promise<number> {
  let stored = 0;
  // A statement's parameters are limited, and Lead Ads sends up to a thousand events in one delivery.
  for (let start = 0; start < events.length; start += 500) {
    const rows = await tables
      .insertInto('crm_inbox')
      .values(
        events.slice(start, start + 500).map((event) => ({
          organization_id: organization,
          integration_id: id,
          event_id: indexable(event.id),
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

/** The columns of a list, without payloads, which may be megabytes. */
const columns = ['id', 'integration_id', 'event_id', 'status', 'attempts', 'error', 'received_at'] as const;

const itemOf = (row: Pick<Selectable<TableRows['crm_inbox']>, (typeof columns)[number]>): InboxItem => ({
  id: row.id,
  integration: row.integration_id,
  eventId: row.event_id,
  status: row.status,
  attempts: row.attempts,
  error: row.error,
  receivedAt: row.received_at,
});

/** The items of an organization, newest first, without payloads. */
export async function listInbox(
  tables: Tables,
  organization: string,
  { status, before, limit }: { status?: string | undefined; before?: string | undefined; limit: number },
): Promise<InboxItem[]> {
  let query = tables.selectFrom('crm_inbox').select(columns).where('organization_id', '=', organization);
  // A literal, because a partial index on some states is not used with a parameter.
  if (status !== undefined) query = query.where('status', '=', sql.lit(status));
  if (before !== undefined) query = query.where('id', '<', before);
  return (await query.orderBy('id', 'desc').limit(limit).execute()).map(itemOf);
}

/** One item with its payload, or its first characters. @throws UserError when there is none */
export async function showInbox(
  tables: Tables,
  organization: string,
  id: string,
  characters?: number,
): Promise<InboxItem & { readonly payload: string }> {
  const payload =
    characters === undefined ? sql<string>`payload` : sql<string>`left(payload, ${characters}::int)`;
  const row = await tables
    .selectFrom('crm_inbox')
    .select([...columns, payload.as('payload')])
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .executeTakeFirst();
  if (row === undefined) throw noItem(id);
  return { ...itemOf(row), payload: row.payload };
}

const noItem = (id: string) => new UserError(`there is no inbox item ${id} in this organization`);

/** Queues an item to be processed again, in any state. @throws UserError when there is none */
export async function replay(tables: Tables, actor: Actor, organization: string, id: string): Promise<void> {
  const row = await tables
    .updateTable('crm_inbox')
    .set({ status: 'waiting', attempts: 0, next_at: sql<Date>`now()`, error: '', done_at: null })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw noItem(id);
  await recordChanges(tables, actor, { organization, action: 'replay', object: 'inbox item', objectId: id });
}
