import type { Tables } from '../../engine/tables/index.ts';
import type { Webhooks } from '../endpoint/index.ts';

/** A delivery as it was received. */
export interface Delivery {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly raw: Buffer;
  /** Path and query, as the provider called it. */
  readonly url: string;
}

/** One event of a delivery. */
export interface ChannelEvent {
  /** The provider's id: repeated deliveries of an event have the same id. */
  readonly id: string;
  readonly data: unknown;
}

/** An organization's integration with its decrypted secrets; keep it only as long as it is needed. */
export interface Integration {
  readonly organization: string;
  readonly id: string;
  readonly endpoint: string;
  readonly provider: string;
  readonly secret: string;
  readonly token: string;
}

/** The context in which an event is processed. */
export interface ChannelContext {
  readonly webhooks: Webhooks;
  readonly integration: Integration;
  readonly requestId: string;
  /** Milliseconds since the event arrived, by the database's clock. */
  readonly ageMs: number;
  /** Runs work in a transaction. */
  readonly transaction: <T>(work: (tables: Tables) => Promise<T>) => Promise<T>;
  /** Replaces the event's data, so that the next attempt continues where this one stopped. */
  readonly remember: (tables: Tables, data: unknown) => Promise<void>;
}

/** A channel: how its deliveries are authenticated, parsed and processed. */
export interface Channel {
  readonly label: string;
  /** The provider's name for the secret. */
  readonly secretLabel: string;
  /** Where the secret is found at the provider. */
  readonly secretHelp: string;
  /** The provider's name for a second secret, needed for calls to the provider; absent if there is none. */
  readonly tokenLabel?: string;
  readonly tokenHelp?: string;
  /** Whether the provider first sends a GET with the verify token to confirm. */
  readonly handshake: boolean;
  /** Content types that the provider sends. */
  readonly accepts: RegExp;
  /** Bytes of the largest delivery that the provider sends. */
  readonly bodyLimit: number;
  /** Whether the delivery was signed with the secret. `publicUrl` is the instance's own address; constant time. */
  readonly verify: (delivery: Delivery, secret: string, publicUrl: string) => boolean;
  /** The events of a delivery; empty if none is relevant. @throws HttpError 400 for an invalid body */
  readonly events: (delivery: Delivery) => readonly ChannelEvent[];
  /** The response that the provider expects. */
  readonly reply: { readonly type: string; readonly body: string };
  /** Processes an event. It may run twice for an event, so it must be idempotent. */
  readonly process: (event: ChannelEvent, work: ChannelContext) => Promise<void>;
}

/** The event could not be processed now and is retried later. Administrators see the text: no secrets. */
export class RetryableError extends Error {}

/** The event can never be processed and is not retried. Administrators see the text: no secrets. */
export class PermanentError extends Error {}
