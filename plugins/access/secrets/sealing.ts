import { compactDecrypt } from 'jose/jwe/compact/decrypt';
import { CompactEncrypt } from 'jose/jwe/compact/encrypt';
import { LRUCache } from 'lru-cache';
import { UserError } from '../../../engine/errors.ts';
import type { InstanceSecrets } from './instance-secrets.ts';

/**
 * Encrypts secrets that are needed in plaintext later, for example a provider's access token (JWE, direct
 * AES-256-GCM).
 */
export interface Sealing {
  readonly seal: (plaintext: string) => Promise<string>;
  /** Decrypts a sealed secret. @throws UserError if none of the instance's secrets can decrypt it */
  readonly open: (sealed: string) => Promise<string>;
  /**
   * Seals a secret again with the first key. Returns undefined if it is already sealed with that key.
   * @throws UserError in the same case as `open`
   */
  readonly renew: (sealed: string) => Promise<string | undefined>;
}

/** Seals with the first of AUTH_SECRETS and opens with any of them, so that secrets can be rotated. */
export function sealing(secrets: InstanceSecrets): Sealing {
  const keys = secrets.keys('integrations');
  const seal: Sealing['seal'] = (plaintext) =>
    new CompactEncrypt(Buffer.from(plaintext, 'utf8'))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .encrypt(keys[0] ?? Buffer.alloc(0));
  const unseal = async (sealed: string): Promise<{ plaintext: string; current: boolean }> => {
    const options = { keyManagementAlgorithms: ['dir'], contentEncryptionAlgorithms: ['A256GCM'] };
    for (const [index, key] of keys.entries()) {
      const result = await compactDecrypt(sealed, key, options).catch(() => undefined);
      if (result === undefined) continue;
      return { plaintext: Buffer.from(result.plaintext).toString('utf8'), current: index === 0 };
    }
    throw new UserError(
      'a stored secret cannot be decrypted because AUTH_SECRETS has changed. Enter the secret again.',
    );
  };
  return {
    seal,
    open: async (sealed) => (sealed === '' ? '' : (await unseal(sealed)).plaintext),
    renew: async (sealed) => {
      if (sealed === '') return undefined;
      const { plaintext, current } = await unseal(sealed);
      return current ? undefined : seal(plaintext);
    },
  };
}

/** How long an opened secret is cached, in milliseconds. */
const openMs = 60_000;

/**
 * Returns a sealing with a cache of the secrets opened within the last minute. A changed secret has a different
 * ciphertext, so cache entries never become stale.
 */
export function cachedOpener(sealing: Sealing): Sealing {
  const cache = new LRUCache<string, Promise<string>>({ max: 1000, ttl: openMs });
  return {
    ...sealing,
    open: (sealed) => {
      const plaintext = cache.get(sealed) ?? sealing.open(sealed);
      cache.set(sealed, plaintext);
      plaintext.catch(() => cache.delete(sealed));
      return plaintext;
    },
  };
}
