import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import type { Scheme } from '../settings/index.ts';

/** Constant time for all lengths: digests are compared. */
const same = (a: string, b: string): boolean =>
  timingSafeEqual(hash('sha256', a, 'buffer'), hash('sha256', b, 'buffer'));

/** Whether a text is one of the secrets. Every secret is compared, so that the time does not reveal which. */
export const matchesAnySecret = (given: string, secrets: readonly string[]): boolean =>
  secrets.map((secret) => same(given, secret)).includes(true);

/** The signed data and the header with the signature. */
export interface Signed {
  readonly header: string;
  /** The body's raw bytes. */
  readonly raw: Buffer;
  /** Seconds since 1970. */
  readonly now: number;
}

const hmac = (secret: string, encoding: 'hex' | 'base64', ...parts: (string | Buffer)[]): string => {
  const mac = createHmac('sha256', secret);
  for (const part of parts) mac.update(part);
  return mac.digest(encoding);
};

/** The value of the header by scheme: the simulator sends it, the endpoint compares it. */
export const signatures: Readonly<Record<Scheme, (secret: string, raw: Buffer, now: number) => string>> = {
  key: (secret) => secret,
  'hmac-sha256-hex': (secret, raw) => hmac(secret, 'hex', raw),
  'hmac-sha256-base64': (secret, raw) => hmac(secret, 'base64', raw),
  stripe: (secret, raw, now) => `t=${now},v1=${stripeMac(secret, String(now), raw)}`,
};

const stripeMac = (secret: string, time: string, raw: Buffer): string => hmac(secret, 'hex', `${time}.`, raw);

/** Stripe: the tolerated age of a signature, which includes differences between clocks, in seconds. */
const toleranceSeconds = 300;

/** Whether the header was made with a secret, by scheme. */
const schemes: Readonly<Record<Scheme, (secret: string, signed: Signed) => boolean>> = {
  key: (secret, { header, raw, now }) => same(header, signatures.key(secret, raw, now)),
  'hmac-sha256-hex': (secret, { header, raw, now }) =>
    same(header.toLowerCase(), signatures['hmac-sha256-hex'](secret, raw, now)),
  'hmac-sha256-base64': (secret, { header, raw, now }) =>
    same(header, signatures['hmac-sha256-base64'](secret, raw, now)),
  stripe: (secret, { header, raw, now }) => {
    const parts = header.split(',').map((part) => part.trim().split('=', 2));
    const time = parts.find(([name]) => name === 't')?.[1] ?? '';
    if (!/^\d{1,12}$/.test(time) || Math.abs(now - Number(time)) > toleranceSeconds) return false;
    const expected = stripeMac(secret, time, raw);
    const signatures = parts.filter(([name]) => name === 'v1').map(([, value = '']) => value);
    return signatures.map((signature) => same(signature, expected)).includes(true);
  },
};

/** The secret that made the header, or undefined. Every secret is tried, so that the time does not reveal which. */
export function signedWith(scheme: Scheme, secrets: readonly string[], signed: Signed): string | undefined {
  const made = secrets.map((secret) => schemes[scheme](secret, signed));
  return secrets[made.indexOf(true)];
}
