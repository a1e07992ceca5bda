import type { Work } from './channel.ts';

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
        provider_id: id,
        sender: from,
        body: text,
      })
      .onConflict((conflict) =>
        conflict.columns(['organization_id', 'integration_id', 'provider_id']).doNothing(),
      )
      .execute();
  });

/** Follows a message of ours: sent, delivered, read, failed. */
export const followMessage = (
  { integration, transaction }: Work,
  { id, status }: { readonly id: string; readonly status: string },
): Promise<void> =>
  transaction(async (tables) => {
    await tables
      .updateTable('crm_messages')
      .set({ status })
      .where('organization_id', '=', integration.organization)
      .where('provider_id', '=', id)
      // Statuses may come in any order; a message that was read is not unread by a late "sent".
      .where((expression) =>
        status === 'sent' ? expression('status', '=', 'sent') : expression('status', '!=', 'read'),
      )
      .execute();
  });
