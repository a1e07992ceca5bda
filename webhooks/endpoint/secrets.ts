import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import type { Scheme } from '../settings/index.ts';

/** Compares two strings in constant time. Compares their digests, so that timing does not reveal their lengths. */
const isEqual = (a: string, b: string): boolean =>
  timingSafeEqual(hash('sha256', a, 'buffer'), hash('sha256', b, 'buffer'));

/**
 * Returns whether a string is one of the secrets. All secrets are compared, so that timing does not reveal
 * which secret matched.
 */
export const matchesAnySecret = (candidate: string, secrets: readonly string[]): boolean =>
  secrets.map((secret) => isEqual(candidate, secret)).includes(true);

/** A signed request body and the header that contains its signature. */
interface SignedRequest {
  readonly header: string;
  /** The body's raw bytes. */
  readonly raw: Buffer;
  /** Current Unix time, in seconds. */
  readonly now: number;
}

const hmac = (secret: string, encoding: 'hex' | 'base64', ...parts: (string | Buffer)[]): string => {
  const mac = createHmac('sha256', secret);
  for (const part of parts) mac.update(part);
  return mac.digest(encoding);
};

/** Computes the signature header for each scheme. The simulator sends it; the endpoint compares it. */
export const signatures: Readonly<Record<Scheme, (secret: string, raw: Buffer, now: number) => string>> = {
  key: (secret) => secret,
  'hmac-sha256-hex': (secret, raw) => hmac(secret, 'hex', raw),
  'hmac-sha256-base64': (secret, raw) => hmac(secret, 'base64', raw),
  stripe: (secret, raw, now) => `t=${now},v1=${stripeMac(secret, String(now), raw)}`,
};

const stripeMac = (secret: string, time: string, raw: Buffer): string => hmac(secret, 'hex', `${time}.`, raw);

/** Maximum age of a Stripe signature, including clock skew in either direction, in seconds. */
const toleranceSeconds = 300;

/** Verifies the signature header for each scheme. */
const schemes: Readonly<Record<Scheme, (secret: string, request: SignedRequest) => boolean>> = {
  key: (secret, { header, raw, now }) => isEqual(header, signatures.key(secret, raw, now)),
  'hmac-sha256-hex': (secret, { header, raw, now }) =>
    isEqual(header.toLowerCase(), signatures['hmac-sha256-hex'](secret, raw, now)),
  'hmac-sha256-base64': (secret, { header, raw, now }) =>
    isEqual(header, signatures['hmac-sha256-base64'](secret, raw, now)),
  stripe: (secret, { header, raw, now }) => {
    const parts = header.split(',').map((part) => part.trim().split('=', 2));
    const time = parts.find(([name]) => name === 't')?.[1] ?? '';
    if (!/^\d{1,12}$/.test(time) || Math.abs(now - Number(time)) > toleranceSeconds) return false;
    const expected = stripeMac(secret, time, raw);
    const signatures = parts.filter(([name]) => name === 'v1').map(([, value = '']) => value);
    return signatures.map((signature) => isEqual(signature, expected)).includes(true);
  },
};

/**
 * Returns the secret with which the request was signed, or undefined if none matches. Tries all secrets, so
 * that timing does not reveal which secret matched.
 */
export function signedWith(
  scheme: Scheme,
  secrets: readonly string[],
  request: SignedRequest,
): string | undefined {
  const matches = secrets.map((secret) => schemes[scheme](secret, request));
  return secrets[matches.indexOf(true)];
}
