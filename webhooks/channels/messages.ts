import { indexable } from '../endpoint/index.ts';
import { type ChannelContext, RetryableError } from './channel.ts';

/** A message sent to the organization. */
export interface IncomingMessage {
  /** The provider's id of the message. */
  readonly id: string;
  readonly from: string;
  readonly text: string;
}

/** Stores a message, once for each provider's id. */
export const storeMessage = (
  { integration, transaction }: ChannelContext,
  { id, from, text }: IncomingMessage,
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

/** How long a status may refer to an unknown message: a provider may report one before its sender has stored the id. */
const gracePeriodMs = 60_000;

/**
 * Updates the status of an outgoing message: sent, delivered, read, failed.
 * @throws TryAgain if the message is not known yet; after {@link gracePeriodMs} it is ignored as another sender's
 */
export const followMessage = (
  { integration, transaction, ageMs }: ChannelContext,
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
      if (ageMs < gracePeriodMs) throw new RetryableError('the message is not known yet');
      return;
    }
    // Statuses may arrive in any order: a late "sent" does not replace "read".
    const later = status === 'sent' ? message.status === 'sent' : message.status !== 'read';
    if (!later) return;
    await tables
      .updateTable('crm_messages')
      .set({ status })
      .where('organization_id', '=', integration.organization)
      .where('id', '=', message.id)
      .execute();
  });
