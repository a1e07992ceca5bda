// Events as subscriptions send them: verified as Standard Webhooks has it, then typed.
import { changeKinds } from './changes.ts';
import type { ResourceInfo, ResourceTypes } from './client.ts';
import { CrmError } from './errors.ts';
import { parse, requireExactNumbers } from './json.ts';

/** An event that was not sent by the instance, or that is not what it sends: respond with 400. */
export class InvalidEventError extends CrmError {}

/** What happened to a record. */
interface EventOfResource<Name extends string, R extends ResourceTypes> {
  readonly type: `${Name}.created` | `${Name}.updated` | `${Name}.deleted`;
  readonly timestamp: string;
  readonly data: {
    readonly position: string;
    readonly action: 'create' | 'update' | 'delete';
    readonly resource: Name;
    readonly id: bigint;
    /** Counts the changes of the record: ignore one that is lower than what you have seen. */
    readonly version: bigint;
    /** The fields that this change changed. */
    readonly changed: readonly (keyof R['record'] & string)[];
    /** The record as it was when the event was sent; null if it was gone. */
    readonly record: R['record'] | null;
  };
}

/** An event of one of the resources, or a test. */
export type EventOf<T extends Readonly<Record<keyof T, ResourceTypes>>> =
  | { readonly [Name in keyof T & string]: EventOfResource<Name, T[Name]> }[keyof T & string]
  | { readonly type: 'test'; readonly timestamp: string; readonly data: object };

/** Headers of a request, of `fetch` or of Node. */
export type EventHeaders =
  | { readonly get: (name: string) => string | null }
  | { readonly [name: string]: string | readonly string[] | undefined };

/** Verifies an event and reads it. */
export type EventReader<T extends Readonly<Record<keyof T, ResourceTypes>>> = (
  body: string,
  headers: EventHeaders,
  secrets: string | readonly string[],
) => Promise<EventOf<T>>;

/** How far the clocks of the instance and the receiver may differ, in seconds. */
const toleranceSeconds = 300;

/**
 * Verifies an event and reads it.
 * @param body exactly as it came
 * @param secrets the subscription's secret, or several during a rotation
 * @throws InvalidEventError
 * @throws TypeError if the runtime would round numbers
 */
export async function readEventOf<T extends Readonly<Record<keyof T, ResourceTypes>>>(
  resources: Readonly<Record<string, ResourceInfo>>,
  body: string,
  headers: EventHeaders,
  secrets: string | readonly string[],
): Promise<EventOf<T>> {
  requireExactNumbers();
  const header = (name: string) => {
    const value =
      typeof headers.get === 'function' ? headers.get(name) : (headers as Record<string, unknown>)[name];
    return typeof value === 'string' ? value : '';
  };
  const [id, timestamp] = [header('webhook-id'), header('webhook-timestamp')];
  const age = Math.abs(Date.now() / 1000 - Number(timestamp));
  if (id === '' || !/^\d+$/.test(timestamp) || age > toleranceSeconds)
    throw new InvalidEventError('the event is too old, or has no id');
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
  const signatures = header('webhook-signature')
    .split(' ')
    .flatMap((each) => (each.startsWith('v1,') ? [bytesOf(each.slice(3))] : []));
  const isValid = await anyValid([secrets].flat(), signatures, signed);
  if (!isValid) throw new InvalidEventError('the signature of the event is wrong');
  return parse(body, { data: changeKinds(resources) }) as EventOf<T>;
}

/** Whether a signature is of one of the secrets. The comparison takes the same time for each. */
async function anyValid(
  secrets: readonly string[],
  signatures: readonly Uint8Array<ArrayBuffer>[],
  signed: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  for (const secret of secrets) {
    const raw = bytesOf(secret.replace(/^whsec_/, ''));
    if (raw.length === 0) throw new TypeError('the secret of the subscription is needed');
    const key = await crypto.subtle.importKey('raw', raw, algorithm, false, ['verify']);
    for (const signature of signatures)
      if (await crypto.subtle.verify('HMAC', key, signature, signed)) return true;
  }
  return false;
}

/** The bytes of base64; none of any other text. */
function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
