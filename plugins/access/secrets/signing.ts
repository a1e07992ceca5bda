import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { TextSigner } from '../../../engine/records/index.ts';
import type { InstanceSecrets } from './instance-secrets.ts';

/**
 * Creates a signer of texts for one purpose (HMAC-SHA256). The first of the instance's secrets signs, and all of them
 * verify.
 */
export function signing(secrets: InstanceSecrets, purpose: string): TextSigner {
  const keys = secrets.keys(purpose).map((key) => createSecretKey(key));
  const [current] = keys as [KeyObject];
  const signatureOf = (key: KeyObject, text: string) =>
    createHmac('sha256', key).update(text).digest('base64url');
  return {
    sign: (text) => signatureOf(current, text),
    // Signatures are compared as texts, because several texts decode to the same bytes.
    verify: (text, signature) =>
      keys.some((key) => {
        const expected = Buffer.from(signatureOf(key, text));
        const actual = Buffer.from(signature);
        return expected.length === actual.length && timingSafeEqual(expected, actual);
      }),
  };
}
