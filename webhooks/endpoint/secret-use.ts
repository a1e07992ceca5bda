import { hash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { Database } from '../../engine/database/index.ts';
import { type Tables, tablesOf } from '../../engine/tables/index.ts';
import { lastUsed } from '../../plugins/access/last-used/index.ts';

/** Tracks when secrets were last used. */
export interface SecretUse {
  readonly record: (endpoint: string, secret: string) => void;
}

/** Returns an identifier for a secret that does not reveal the secret. */
export const fingerprint = (secret: string): string =>
  hash('sha256', `fingerprint of ${secret}`, 'hex').slice(0, 16);

/** Collects secret uses and stores them periodically. */
export function secretUse(app: FastifyInstance, database: Database): SecretUse {
  const uses = lastUsed<{ endpoint: string; fingerprint: string; at: Date }>(app, async (batch) => {
    for (const { endpoint, fingerprint, at } of batch.values()) {
      await tablesOf(database)
        .insertInto('crm_secret_uses')
        .values({ endpoint, fingerprint, last_used_at: at })
        .onConflict((conflict) =>
          conflict.columns(['endpoint', 'fingerprint']).doUpdateSet({ last_used_at: at }),
        )
        .execute();
    }
  });
  return {
    record: (endpoint, secret) => {
      const print = fingerprint(secret);
      uses.record(`${endpoint} ${print}`, { endpoint, fingerprint: print, at: new Date() });
    },
  };
}

/** Returns when each secret was last used, keyed by endpoint and fingerprint, separated by a space. */
export async function secretUses(tables: Tables): Promise<ReadonlyMap<string, Date>> {
  const rows = await tables.selectFrom('crm_secret_uses').selectAll().execute();
  return new Map(rows.map((row) => [`${row.endpoint} ${row.fingerprint}`, row.last_used_at]));
}
