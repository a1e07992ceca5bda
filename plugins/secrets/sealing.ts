import { CompactEncrypt, compactDecrypt } from 'jose';
import { LRUCache } from 'lru-cache';
import { UserError } from '../../engine/errors.ts';
import type { InstanceSecrets } from './instance-secrets.ts';

/** Encrypts secrets that must be used later, such as a provider's (JWE, direct AES-256-GCM). */
export interface Sealing {
  readonly seal: (plain: string) => Promise<string>;
  /** @throws UserError where no secret of the instance opens it */
  readonly open: (sealed: string) => Promise<string>;
  /** The same sealed with the first secret; undefined where it is so already. @throws as `open` */
  readonly renew: (sealed: string) => Promise<string | undefined>;
}

/** Seals with the first of AUTH_SECRETS and opens with each, so that one can be replaced. */
export function sealing(secrets: InstanceSecrets): Sealing {
  const keys = secrets.keys('integrations');
  const seal: Sealing['seal'] = (plain) =>
    new CompactEncrypt(Buffer.from(plain, 'utf8'))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .encrypt(keys[0] ?? Buffer.alloc(0));
  const unseal = async (sealed: string): Promise<{ plain: string; current: boolean }> => {
    const options = { keyManagementAlgorithms: ['dir'], contentEncryptionAlgorithms: ['A256GCM'] };
    for (const [index, key] of keys.entries()) {
      const opened = await compactDecrypt(sealed, key, options).catch(() => undefined);
      if (opened === undefined) continue;
      return { plain: Buffer.from(opened.plaintext).toString('utf8'), current: index === 0 };
    }
    throw new UserError('a stored secret cannot be opened: AUTH_SECRETS has changed; enter the secret again');
  };
  return {
    seal,
    open: async (sealed) => (sealed === '' ? '' : (await unseal(sealed)).plain),
    renew: async (sealed) => {
      if (sealed === '') return undefined;
      const { plain, current } = await unseal(sealed);
      return current ? undefined : seal(plain);
    },
  };
}

/** How long an opened secret is kept. */
const openMs = 60_000;

/**
 * The same, but what was opened within the last minute is not opened again. A changed secret is sealed differently, so
 * none is out of date.
 */
export function openingOnce(sealing: Sealing): Sealing {
  const opened = new LRUCache<string, Promise<string>>({ max: 1000, ttl: openMs });
  return {
    ...sealing,
    open: (sealed) => {
      const known = opened.get(sealed) ?? sealing.open(sealed);
      opened.set(sealed, known);
      known.catch(() => opened.delete(sealed));
      return known;
    },
  };
}
