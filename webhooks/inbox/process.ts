import { sqlState } from '../../engine/database/index.ts';
import { HttpError, UserError } from '../../engine/errors.ts';
import { type Tables, transaction } from '../../engine/tables/index.ts';
import type { Sealing } from '../../plugins/access/secrets/index.ts';
import { channelOf, PermanentError, RetryableError } from '../channels/index.ts';
import type { Webhooks } from '../endpoint/index.ts';
import { backoff, type ClaimedItem, type ItemOutcome } from '../queue/index.ts';
import type { InboxClaim } from './inbox.ts';

/**
 * Returns the failure reason shown to administrators. For errors from other code, this is only the error's name,
 * because their messages can contain personal data.
 */
const reasonOf = (cause: unknown): string =>
  [RetryableError, PermanentError, UserError, HttpError].some((kind) => cause instanceof kind)
    ? (cause as Error).message
    : `failed: ${(cause as Error).name}`;

/**
 * Returns whether a retry would fail in the same way, because the event is malformed or the database cannot
 * store it. Such events become dead letters immediately.
 */
const isPermanent = (cause: unknown): boolean =>
  [PermanentError, TypeError, RangeError, SyntaxError].some((kind) => cause instanceof kind) ||
  // An exceeded quota is not permanent, because records can be deleted or the operator can raise the quota.
  (cause instanceof HttpError && cause.status < 500 && cause.code !== 'quota_exceeded') ||
  /^(?:22|54)/.test(sqlState(cause) ?? '');

/** Processes a channel event. */
export async function processEvent(
  webhooks: Webhooks,
  sealing: Sealing,
  item: ClaimedItem<InboxClaim>,
): Promise<ItemOutcome> {
  try {
    await passToChannel(webhooks, sealing, item);
    return { reason: '' };
  } catch (cause) {
    if (cause instanceof HttpError && cause.code === 'rejected_by_database')
      webhooks.database.reportRejection?.(`inbox-${item.id}`, cause.cause);
    const isDeadLetter = isPermanent(cause) || item.attempts >= webhooks.settings.current.inbox.attempts;
    return { reason: reasonOf(cause), ...(!isDeadLetter && { retryMs: backoff(item.attempts) }) };
  }
}

async function passToChannel(
  webhooks: Webhooks,
  { open }: Sealing,
  { id, organization, owner, eventId, ageMs, row }: ClaimedItem<InboxClaim>,
): Promise<void> {
  const { database } = webhooks;
  const channel = channelOf(row.provider);
  if (channel === undefined)
    throw new RetryableError(`this version does not support the channel "${row.provider}"`);
  const [secret, token] = await Promise.all([open(row.secret), open(row.token)]);
  const { provider, endpoint } = row;
  await channel.process(
    { id: eventId, data: JSON.parse(row.payload) },
    {
      webhooks,
      integration: { id: owner, provider, endpoint, organization, secret, token },
      requestId: `inbox-${id}`,
      ageMs,
      transaction: (work) => transaction(database, work),
      remember: (tables, data) => remember(tables, organization, id, data),
    },
  );
}

/** Replaces an event's data. */
const remember = async (tables: Tables, organization: string, id: string, data: unknown): Promise<void> => {
  await tables
    .updateTable('crm_inbox')
    .set({ payload: JSON.stringify(data) })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .execute();
};
