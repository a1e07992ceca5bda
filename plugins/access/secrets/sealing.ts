import type { FastifyInstance } from 'fastify';
import { compactDecrypt } from 'jose/jwe/compact/decrypt';
import { CompactEncrypt } from 'jose/jwe/compact/encrypt';
import { sql } from 'kysely';
import { LRUCache } from 'lru-cache';
import { type Database, failureDetails } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { type TableRows, type Tables, tablesOf } from '../../../engine/tables/index.ts';
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
   * Reseals a secret with the first key. Returns undefined if it is already sealed with that key.
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

const tenantKey = ['organization_id', 'id'];

/**
 * Reseals all secrets stored in a table with the first of AUTH_SECRETS, so that the others can be removed.
 * @param columns the columns that contain secrets
 * @param key the primary key columns, the last of which identifies a row in the log
 * @returns the IDs of the rows whose secrets cannot be opened with any of AUTH_SECRETS
 */
export async function renewSecrets(
  tables: Tables,
  { renew }: Sealing,
  table: keyof TableRows,
  columns: readonly string[],
  key: readonly string[] = tenantKey,
): Promise<string[]> {
  const keys = key.map((column) => sql.ref(column));
  const refs = columns.map((column) => sql.ref(column));
  const { rows } = await sql<Readonly<Record<string, string>>>`
    select ${sql.join([...keys, ...refs])} from ${sql.table(table)}`.execute(tables);
  const lostIds: string[] = [];
  for (const row of rows) {
    try {
      const oldValues = columns.map((column) => row[column] ?? '');
      const newValues = await Promise.all(oldValues.map(renew));
      if (newValues.every((value) => value === undefined)) continue;
      const assignments = refs.map((ref, index) => sql`${ref} = ${newValues[index] ?? oldValues[index]}`);
      const keyConditions = key.map((column, index) => sql`${keys[index]} = ${row[column]}::bigint`);
      // A concurrent request may have changed the secret.
      const valueConditions = refs.map((ref, index) => sql`${ref} = ${oldValues[index]}`);
      await sql`update ${sql.table(table)} set ${sql.join(assignments)}
        where ${sql.join([...keyConditions, ...valueConditions], sql` and `)}`.execute(tables);
    } catch (cause) {
      if (!(cause instanceof UserError)) throw cause;
      lostIds.push(String(row[key.at(-1) ?? '']));
    }
  }
  return lostIds;
}

/** Reseals a table's secrets when the service starts, and logs the IDs of rows that cannot be opened. */
export function renewSealed(
  app: FastifyInstance,
  database: Database,
  sealing: Sealing,
  table: keyof TableRows,
  columns: readonly string[],
  key?: readonly string[],
): void {
  app.addHook('onReady', async () => {
    try {
      const lostIds = await renewSecrets(tablesOf(database), sealing, table, columns, key);
      if (lostIds.length > 0)
        app.log.error(
          { [table.replace(/^crm_/, '')]: lostIds },
          'some stored secrets cannot be decrypted with AUTH_SECRETS; enter them again',
        );
    } catch (cause) {
      app.log.warn(failureDetails(cause), 'failed to read stored secrets');
    }
  });
}
