import { indexable } from '../endpoint/index.ts';
import { TryAgain, type Work } from './channel.ts';

/** A message that somebody sent to the organization. */
export interface Incoming {
  /** The provider's id of the message. */
  readonly id: string;
  readonly from: string;
  readonly text: string;
}

/** Keeps a message, once for each provider's id. */
export const keepMessage = (
  { integration, transaction }: Work,
  { id, from, text }: Incoming,
): Promise<void> =>
  transaction(async (tables) => {
    await tables
      .insertInto('crm_received_messages')
      .values({
        organization_id: integration.organization,
        integration_id: integration.id,
        provider_id: indexable(id),
        sender: from,
        body: text,
      })
      .onConflict((conflict) =>
        conflict.columns(['organization_id', 'integration_id', 'provider_id']).doNothing(),
      )
      .execute();
  });

/** A provider may tell of a message before the one who sends it has written down its id. */
const patienceMs = 60_000;

/**
 * Follows a message of ours: sent, delivered, read, failed.
 * @throws TryAgain where the message is not known yet; one of another sender is never known, and forgotten
 */
export const followMessage = (
  { integration, transaction, ageMs }: Work,
  { id, status }: { readonly id: string; readonly status: string },
): Promise<void> =>
  transaction(async (tables) => {
    const message = await tables
      .selectFrom('crm_messages')
      .select(['id', 'status'])
      .where('organization_id', '=', integration.organization)
      .where('provider_id', '=', id)
      .forUpdate()
      .executeTakeFirst();
    if (message === undefined) {
      if (ageMs < patienceMs) throw new TryAgain('the message is not known yet');
      return;
    }
    // Statuses may come in any order; a message that was read is not unread by a late "sent".
    const later = status === 'sent' ? message.status === 'sent' : message.status !== 'read';
    if (!later) return;
    await tables
      .updateTable('crm_messages')
      .set({ status })
      .where('organization_id', '=', integration.organization)
      .where('id', '=', message.id)
      .execute();
  });
