// Channels: providers whose webhooks the service receives, one file for each; a name in the registry is all a new one needs.
// May import the rest of webhooks/ and what that may import.
import type { Tables } from '../../engine/tables/index.ts';
import type { Webhooks } from '../endpoint/index.ts';

/** A delivery as it came. */
export interface Delivery {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly raw: Buffer;
  /** Path and query, as the provider called it. */
  readonly url: string;
}

/** One event of a delivery. */
export interface ChannelEvent {
  /** What the provider calls it: the same event has the same id, however often it comes. */
  readonly id: string;
  readonly data: unknown;
}

/** An organization's integration, with its secrets in the clear; only while they are needed. */
export interface Integration {
  readonly organization: string;
  readonly id: string;
  readonly endpoint: string;
  readonly provider: string;
  readonly secret: string;
  readonly token: string;
}

/** What a step of processing may use. */
export interface Work {
  readonly webhooks: Webhooks;
  readonly integration: Integration;
  readonly requestId: string;
  /** Milliseconds since the event arrived, by the database's clock. */
  readonly ageMs: number;
  /** Runs work that is all done or not at all. */
  readonly transaction: <T>(work: (tables: Tables) => Promise<T>) => Promise<T>;
  /** Replaces the event's data, so that the next attempt knows how far this one came. */
  readonly remember: (tables: Tables, data: unknown) => Promise<void>;
}

/** A channel: how its deliveries are proved, taken apart and processed. */
export interface Channel {
  readonly label: string;
  /** What the secret is called at the provider. */
  readonly secretLabel: string;
  /** What a second secret, needed to ask the provider back, is called; absent where none is. */
  readonly tokenLabel?: string;
  /** Whether the provider first asks with a GET for the verify token to be confirmed. */
  readonly handshake: boolean;
  /** Content types that the provider sends. */
  readonly accepts: RegExp;
  /** Bytes of the largest delivery that the provider sends. */
  readonly bodyLimit: number;
  /** Whether the delivery was made with the secret. `publicUrl` is the instance's own address; constant time. */
  readonly verify: (delivery: Delivery, secret: string, publicUrl: string) => boolean;
  /** The events of a delivery; none for what is of no interest. @throws HttpError 400 for a body that is none */
  readonly events: (delivery: Delivery) => readonly ChannelEvent[];
  /** What the provider wants to hear. */
  readonly reply: { readonly type: string; readonly body: string };
  /** Does what an event asks for. It may run twice: whatever it does must come to the same. */
  readonly process: (event: ChannelEvent, work: Work) => Promise<void>;
}

/** The channel could not finish and wants to be tried again later. The text goes to an administrator; no secrets. */
export class TryAgain extends Error {}

/** The event can never be processed, however often it is tried. The text goes to an administrator; no secrets. */
export class GiveUp extends Error {}
