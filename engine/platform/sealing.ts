import { CompactEncrypt, compactDecrypt } from 'jose';
import type { Config } from '../config.ts';
import { UserError } from '../errors.ts';
import { derivedKeys } from './tokens.ts';

/** Encrypts secrets that must be used later, such as a provider's (JWE, direct AES-256-GCM). */
export interface Sealing {
  readonly seal: (plain: string) => Promise<string>;
  /** @throws UserError where no secret of the instance opens it */
  readonly open: (sealed: string) => Promise<string>;
}

/** Seals with the first of AUTH_SECRETS and opens with each, so that one can be replaced. */
export function sealing(config: Config): Sealing {
  const keys = derivedKeys(config, 'integrations');
  return {
    seal: (plain) =>
      new CompactEncrypt(Buffer.from(plain, 'utf8'))
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
        .encrypt(keys[0] ?? Buffer.alloc(0)),
    open: async (sealed) => {
      if (sealed === '') return '';
      const options = { keyManagementAlgorithms: ['dir'], contentEncryptionAlgorithms: ['A256GCM'] };
      for (const key of keys) {
        const opened = await compactDecrypt(sealed, key, options).catch(() => undefined);
        if (opened !== undefined) return Buffer.from(opened.plaintext).toString('utf8');
      }
      throw new UserError(
        'a stored secret cannot be opened: AUTH_SECRETS has changed; enter the secret again',
      );
    },
  };
}
