import { createHmac, randomBytes } from 'node:crypto';

const prefix = 'whsec_';

/** A new secret in the form of Standard Webhooks. */
export const makeSigningSecret = (): string => prefix + randomBytes(32).toString('base64');

/**
 * The headers of Standard Webhooks (standardwebhooks.com): a signature for each secret, so that receivers can change over.
 * @param at milliseconds since 1970
 */
export function signatureHeaders(
  id: string,
  body: string,
  secrets: readonly string[],
  at: number = Date.now(),
): Readonly<Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string>> {
  const timestamp = String(Math.floor(at / 1000));
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(prefix.length), 'base64');
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
  });
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') };
}
