// Verifies subscription events according to Standard Webhooks, and parses them.
import { changeKinds } from './changes.ts';
import type { ResourceInfo, ResourceTypes } from './client.ts';
import { CrmError } from './errors.ts';
import { parse, requireExactNumbers } from './json.ts';

/** Thrown if an event is invalid or was not sent by the instance. Respond with status 400. */
export class InvalidEventError extends CrmError {}

/** An event about a record of a resource. */
interface EventOfResource<Name extends string, R extends ResourceTypes> {
  readonly type:
    | `${Name}.${'created' | 'updated' | 'deleted'}`
    | (R extends { readonly trash: true } ? `${Name}.${'trashed' | 'restored' | 'purged'}` : never);
  readonly timestamp: string;
  readonly data: {
    readonly position: string;
    readonly action: 'create' | 'update' | 'delete' | 'trash' | 'restore' | 'purge';
    readonly resource: Name;
    readonly id: bigint;
    /**
     * Number of changes to the record so far. Ignore an event if you have already processed one with a higher version.
     */
    readonly version: bigint;
    /** Names of the changed fields. */
    readonly changed: readonly (keyof R['record'] & string)[];
    /**
     * Earlier values of the changed fields, all of them if the record was deleted. Null if the record did not exist or its
     * earlier state is unknown, and absent if the change log no longer contains the change.
     */
    readonly previous?: Partial<R['record']> | null;
    /**
     * The record after the change, without joined and sensitive fields and without values calculated from other records.
     * Null if it was deleted, and absent if the change log no longer contains the change.
     */
    readonly after?: Partial<R['record']> | null;
    /** The record at the time when the event was sent, or null if it was deleted. */
    readonly record: R['record'] | null;
  };
}

/** An event about a record of one of the resources, or a test event. */
export type EventOf<T extends Readonly<Record<keyof T, ResourceTypes>>> =
  | { readonly [Name in keyof T & string]: EventOfResource<Name, T[Name]> }[keyof T & string]
  | { readonly type: 'test'; readonly timestamp: string; readonly data: object };

/** An event in the JSON format of CloudEvents 1.0. */
interface CloudEvent<Event extends { readonly type: string; readonly data: object }> {
  readonly specversion: '1.0';
  readonly type: Event['type'];
  readonly time: string;
  readonly data: Event['data'];
}

/** An event in any of the formats of subscriptions. */
type ReceivedEvent<T extends Readonly<Record<keyof T, ResourceTypes>>> = EventOf<T> | CloudEvent<EventOf<T>>;

/** Request headers, either as a Headers object or as Node's headers object. */
export type EventHeaders =
  | { readonly get: (name: string) => string | null }
  | { readonly [name: string]: string | readonly string[] | undefined };

/** Verifies and parses an event. */
export type EventReader<T extends Readonly<Record<keyof T, ResourceTypes>>> = (
  body: string,
  headers: EventHeaders,
  secrets: string | readonly string[],
) => Promise<EventOf<T>>;

/** Verifies a request of a subscription, and parses its events. */
export type EventsReader<T extends Readonly<Record<keyof T, ResourceTypes>>> = (
  body: string,
  headers: EventHeaders,
  secrets: string | readonly string[],
) => Promise<readonly EventOf<T>[]>;

/** Maximum difference between the instance's clock and the receiver's clock, in seconds. */
const toleranceSeconds = 300;

/**
 * Verifies and parses an event in any of the formats of subscriptions.
 * @param body the unmodified request body
 * @param secrets the subscription's secret, or both secrets during a rotation
 * @throws InvalidEventError if the signature or timestamp is not valid, or the request contains several events
 * @throws TypeError if the runtime would round numbers
 */
export async function readEventOf<T extends Readonly<Record<keyof T, ResourceTypes>>>(
  resources: Readonly<Record<string, ResourceInfo>>,
  body: string,
  headers: EventHeaders,
  secrets: string | readonly string[],
): Promise<EventOf<T>> {
  const [event, ...others] = await readEventsOf<T>(resources, body, headers, secrets);
  if (event === undefined || others.length > 0)
    throw new InvalidEventError('the request is a batch: read it with readEvents');
  return event;
}

/**
 * Verifies a request, and parses its events: a batch in any of the formats of subscriptions, or a single event.
 * @param body the unmodified request body
 * @param secrets the subscription's secret, or both secrets during a rotation
 * @throws InvalidEventError if the signature or timestamp is not valid
 * @throws TypeError if the runtime would round numbers
 */
export async function readEventsOf<T extends Readonly<Record<keyof T, ResourceTypes>>>(
  resources: Readonly<Record<string, ResourceInfo>>,
  body: string,
  headers: EventHeaders,
  secrets: string | readonly string[],
): Promise<readonly EventOf<T>[]> {
  requireExactNumbers();
  const header = (name: string) => {
    const value =
      typeof headers.get === 'function' ? headers.get(name) : (headers as Record<string, unknown>)[name];
    return typeof value === 'string' ? value : '';
  };
  const [id, timestamp] = [header('webhook-id'), header('webhook-timestamp')];
  const age = Math.abs(Date.now() / 1000 - Number(timestamp));
  if (id === '' || !/^\d+$/.test(timestamp) || age > toleranceSeconds)
    throw new InvalidEventError('the event is too old or has no ID');
  const signedContent = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
  const signatures = header('webhook-signature')
    .split(' ')
    .flatMap((signature) => (signature.startsWith('v1,') ? [bytesOf(signature.slice(3))] : []));
  const isValid = await hasValidSignature([secrets].flat(), signatures, signedContent);
  if (!isValid) throw new InvalidEventError('the event signature is invalid');
  const content = parse(body, { data: changeKinds(resources) }) as ReceivedEvent<T> | ReceivedEvent<T>[];
  return [content].flat().map((event: ReceivedEvent<T>) => {
    if (!('specversion' in event)) return event;
    const { type, time, data } = event;
    return { type, timestamp: time, data } as EventOf<T>;
  });
}

/**
 * Returns whether any of the signatures was created with any of the secrets. Compares them in constant time.
 */
async function hasValidSignature(
  secrets: readonly string[],
  signatures: readonly Uint8Array<ArrayBuffer>[],
  signedContent: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  for (const secret of secrets) {
    const raw = bytesOf(secret.replace(/^whsec_/, ''));
    if (raw.length === 0) throw new TypeError('the subscription secret is required');
    const key = await crypto.subtle.importKey('raw', raw, algorithm, false, ['verify']);
    for (const signature of signatures)
      if (await crypto.subtle.verify('HMAC', key, signature, signedContent)) return true;
  }
  return false;
}

/** Decodes base64, or returns an empty array if the string is not valid base64. */
function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
