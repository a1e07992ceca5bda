import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { TextSigner } from '../../../engine/records/index.ts';
import type { InstanceSecrets } from './instance-secrets.ts';

/** Signs texts for one purpose (HMAC-SHA256). The first of the instance's secrets signs, all verify. */
export function signing(secrets: InstanceSecrets, purpose: string): TextSigner {
  const keys = secrets.keys(purpose).map((key) => createSecretKey(key));
  const [current] = keys as [KeyObject];
  const signed = (key: KeyObject, text: string) => createHmac('sha256', key).update(text).digest('base64url');
  return {
    sign: (text) => signed(current, text),
    // Compared as texts: several texts decode to the same bytes.
    verify: (text, signature) =>
      keys.some((key) => {
        const expected = Buffer.from(signed(key, text));
        const given = Buffer.from(signature);
        return expected.length === given.length && timingSafeEqual(expected, given);
      }),
  };
}
