import { createHmac, randomBytes } from 'node:crypto';

const prefix = 'whsec_';

/** Generates a signing secret in the format of Standard Webhooks. */
export const makeSigningSecret = (): string => prefix + randomBytes(32).toString('base64');

/**
 * Returns the headers of Standard Webhooks (standardwebhooks.com), with a signature for each secret.
 * @param at Unix time in milliseconds
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
