import type { StatementRunner } from '../../engine/database/index.ts';
import type { FieldRequirements } from '../../engine/definition/index.ts';
import type { Tables } from '../../engine/tables/index.ts';
import type { TextIn } from '../../plugins/admin-ui/shell/index.ts';
import { indexable, type Webhooks } from '../endpoint/index.ts';

/** An HTTP request from a provider. */
export interface ProviderRequest {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly raw: Buffer;
  /** The request's path and query string. */
  readonly url: string;
}

/** One event in a delivery. */
export interface ChannelEvent {
  /** The provider's event ID. Repeated deliveries of an event have the same ID. */
  readonly id: string;
  readonly data: unknown;
}

/** An organization's integration with its decrypted secrets. Do not keep it longer than necessary. */
export interface Integration {
  readonly organization: string;
  readonly id: string;
  readonly endpoint: string;
  readonly provider: string;
  readonly secret: string;
  readonly token: string;
}

/** The services of the instance, as passed to the channels of the engine. */
export interface ChannelServices {
  readonly webhooks: Webhooks;
}

/** An event's integration and metadata, and access to the database. */
export interface ChannelContext {
  readonly integration: Integration;
  readonly requestId: string;
  /** Milliseconds since the event was received, according to the database's clock. */
  readonly ageMs: number;
  /** Runs a function in a transaction. */
  readonly transaction: <T>(work: (tables: Tables) => Promise<T>) => Promise<T>;
  /** Replaces the event's data in a transaction so that the next attempt can continue where this attempt stopped. */
  readonly remember: (run: StatementRunner, data: unknown) => Promise<void>;
  /** Aborted when processing has exceeded its time limit. */
  readonly signal: AbortSignal;
}

/** A text message to send. */
export interface OutgoingText {
  /** The recipient, as the caller sent it. */
  readonly to: string;
  readonly text: string;
}

/** The integration through which a message is sent. */
export type SendContext = Pick<ChannelContext, 'integration' | 'signal'>;

/** An event that `crm simulate` delivers. */
export interface SimulatedEvent {
  /** Decimal digits, unique per run. */
  readonly id: string;
  readonly text: string;
}

/** Format and signature of a provider's simulated deliveries, based on the provider's documentation. */
export interface Simulation {
  readonly contentType: string;
  /** Returns the event's ID in the form that the service stores. */
  readonly eventId: (event: SimulatedEvent) => string;
  readonly body: (event: SimulatedEvent) => string;
  /** Returns the headers that authenticate the delivery. @param url the URL configured at the provider */
  readonly sign: (body: Buffer, secret: string, url: string) => Readonly<Record<string, string>>;
}

/**
 * A provider's channel: how deliveries are authenticated, parsed and processed, and how messages are sent.
 * @typeParam Services additional values that are passed to `process` and `send`
 */
export interface Channel<Services = ChannelServices> {
  readonly label: string;
  /** The provider's term for the secret. */
  readonly secretLabel: string;
  /** Explains where to find the secret in the provider's console. */
  readonly secretHelp: string | TextIn;
  /** The provider's term for the access token used to call its API. Absent if the API is never called. */
  readonly tokenLabel?: string;
  readonly tokenHelp?: string | TextIn;
  /**
   * Whether the senders of its messages are phone numbers or email addresses, by which the timelines of records show the
   * messages. Absent if they are other IDs.
   */
  readonly senders?: 'phone' | 'email';
  /** Whether the provider confirms the URL with a GET request that contains the verify token. */
  readonly handshake?: boolean;
  /** Content types used by the provider. */
  readonly accepts: RegExp;
  /** Maximum size of a delivery, in bytes. */
  readonly bodyLimit: number;
  /** Whether the provider signs the public URL, so that deliveries can be verified only if `public_url` is set. */
  readonly signsUrl?: true;
  /**
   * Returns whether the delivery was signed with the secret, comparing in constant time.
   * @param publicUrl the instance's public origin
   */
  readonly verify: (
    delivery: ProviderRequest,
    secret: string,
    publicUrl: string,
  ) => boolean | Promise<boolean>;
  /** Returns the relevant events in a delivery. @throws HttpError 400 if the body is invalid */
  readonly events: (delivery: ProviderRequest) => readonly ChannelEvent[];
  /** The response that the provider expects. */
  readonly reply: { readonly type: string; readonly body: string };
  /** Processes an event. Can run more than once for the same event, so it must be idempotent. */
  readonly process: (event: ChannelEvent, context: ChannelContext & Services) => Promise<void>;
  /**
   * Sends a text message through the organization's integration, and returns the provider's message ID. Absent if the channel
   * cannot be a sender in `messaging`. A thrown {@link PermanentError} or {@link RetryableError} explains why sending failed.
   */
  readonly send?: (message: OutgoingText, context: SendContext & Services) => Promise<string>;
  /** Absent if `crm simulate` cannot simulate the provider. */
  readonly simulation?: Simulation;
  /** Resource fields that the channel accesses by name. It is not available if the resource is retired. */
  readonly needs?: FieldRequirements;
}

/**
 * Thrown if an event cannot be processed yet and will be retried. The message is shown to administrators and
 * must not contain secrets.
 */
export class RetryableError extends Error {}

/**
 * Thrown if an event can never be processed and will not be retried. The message is shown to administrators
 * and must not contain secrets.
 */
export class PermanentError extends Error {}

/** A message received by the organization. */
export interface IncomingMessage {
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
 * How long a status update for an unknown message is retried, in milliseconds. A provider can report a status
 * before the sender has stored the message's ID.
 */
const gracePeriodMs = 60_000;

/**
 * Updates an outgoing message's status: sent, delivered, read or failed.
 * @throws RetryableError if the message does not exist yet. After {@link gracePeriodMs}, the status is
 * ignored, because another application must have sent the message.
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
