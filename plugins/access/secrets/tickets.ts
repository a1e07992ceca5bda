import type { JWTPayload } from 'jose';
import { jwtDecrypt } from 'jose/jwt/decrypt';
import { EncryptJWT } from 'jose/jwt/encrypt';
import type { InstanceSecrets } from './instance-secrets.ts';

/** State of one purpose that a browser keeps for some minutes, encrypted: it can neither be read nor forged. */
export interface Tickets<Content extends object> {
  readonly issue: (content: Content) => Promise<string>;
  /** @returns undefined for every text that is not a ticket of this purpose, or is too old */
  readonly open: (ticket: string | undefined) => Promise<Content | undefined>;
}

const cipher = { alg: 'dir', enc: 'A256GCM' } as const;
/** Upper limit on the length of our tickets: browsers keep cookies of 4,096 bytes. */
const longest = 4000;

/**
 * Tickets with the instance's secrets: the first encrypts, all open, so that secrets rotate without an outage.
 * @param purpose tickets of another one are not opened
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
      if (ticket === undefined || ticket.length > longest) return undefined;
      const options = {
        keyManagementAlgorithms: [cipher.alg],
        contentEncryptionAlgorithms: [cipher.enc],
        requiredClaims: ['exp'],
      };
      for (const key of keys) {
        const opened = await jwtDecrypt<{ content: Content }>(ticket, key, options).catch(() => undefined);
        if (opened !== undefined) return opened.payload.content;
      }
      return undefined;
    },
  };
}
