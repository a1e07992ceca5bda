import { indexable } from '../endpoint/index.ts';
import { type ChannelContext, RetryableError } from './channel.ts';

/** A message received by the organization. */
interface IncomingMessage {
  /** The provider's message ID. */
  readonly id: string;
  readonly from: string;
  readonly text: string;
}

/** Stores a message unless one with the same provider ID already exists. */
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

/**
 * Time during which a status update for an unknown message is retried, in milliseconds. A provider can report a status
 * before the sender has stored the message's ID.
 */
const gracePeriodMs = 60_000;

/**
 * Updates the status of an outgoing message: sent, delivered, read or failed.
 * @throws RetryableError if the message does not exist yet. After {@link gracePeriodMs}, the status is ignored,
 * because another application must have sent the message.
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
      if (ageMs < gracePeriodMs)
        throw new RetryableError('the status refers to a message that has not been stored yet');
      return;
    }
    // Statuses can arrive in any order, so a late "sent" must not replace "read".
    const isLater = status === 'sent' ? message.status === 'sent' : message.status !== 'read';
    if (!isLater) return;
    await tables
      .updateTable('crm_messages')
      .set({ status })
      .where('organization_id', '=', integration.organization)
      .where('id', '=', message.id)
      .execute();
  });
