import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { JWTPayload } from 'jose';
import { jwtDecrypt } from 'jose/jwt/decrypt';
import { EncryptJWT } from 'jose/jwt/encrypt';
import type { TextSigner } from '../../../engine/records/index.ts';
import type { InstanceSecrets } from './instance-secrets.ts';

/**
 * Creates a signer that signs strings for one purpose (HMAC-SHA256). The first of the instance's secrets
 * signs, and all of them verify.
 */
export function signing(secrets: InstanceSecrets, purpose: string): TextSigner {
  const keys = secrets.keys(purpose).map((key) => createSecretKey(key));
  const [current] = keys as [KeyObject];
  const signatureOf = (key: KeyObject, text: string) =>
    createHmac('sha256', key).update(text).digest('base64url');
  return {
    sign: (text) => signatureOf(current, text),
    // Signatures are compared as strings, because several strings decode to the same bytes.
    verify: (text, signature) =>
      keys.some((key) => {
        const expected = Buffer.from(signatureOf(key, text));
        const actual = Buffer.from(signature);
        return expected.length === actual.length && timingSafeEqual(expected, actual);
      }),
  };
}

/** State for one purpose that a browser keeps for a few minutes. It is encrypted, so it cannot be read or forged. */
interface Tickets<Content extends object> {
  readonly issue: (content: Content) => Promise<string>;
  /** Decrypts a ticket. @returns undefined if the ticket has expired or was not issued for this purpose */
  readonly open: (ticket: string | undefined) => Promise<Content | undefined>;
}

const cipher = { alg: 'dir', enc: 'A256GCM' } as const;
/** Maximum length of a ticket. Browsers limit cookies to 4,096 bytes. */
const maxLength = 4000;

/**
 * Creates tickets with the instance's secrets. The first secret encrypts and all of them decrypt, so that
 * secrets can be rotated without an outage.
 * @param purpose tickets issued for any other purpose are rejected
 */
export function tickets<Content extends object>(
  secrets: InstanceSecrets,
  purpose: string,
  minutes: number,
): Tickets<Content> {
  const keys = secrets.keys(`ticket: ${purpose}`);
  return {
    issue: (content) =>
      new EncryptJWT({ content } satisfies JWTPayload)
        .setProtectedHeader(cipher)
        .setExpirationTime(`${minutes} minutes`)
        .encrypt(keys[0] ?? Buffer.alloc(0)),
    open: async (ticket) => {
      if (ticket === undefined || ticket.length > maxLength) return undefined;
      const options = {
        keyManagementAlgorithms: [cipher.alg],
        contentEncryptionAlgorithms: [cipher.enc],
        requiredClaims: ['exp'],
      };
      for (const key of keys) {
        const result = await jwtDecrypt<{ content: Content }>(ticket, key, options).catch(() => undefined);
        if (result !== undefined) return result.payload.content;
      }
      return undefined;
    },
  };
}
