import { hash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { Database } from '../engine/database/index.ts';
import { type Platform, platform } from '../engine/platform/index.ts';
import { noted } from '../plugins/noted.ts';

/** Notes when secrets were last used. */
export interface SecretUse {
  readonly note: (endpoint: string, secret: string) => void;
}

/** Stands for a secret without telling it. */
export const fingerprint = (secret: string): string =>
  hash('sha256', `fingerprint of ${secret}`, 'hex').slice(0, 16);

/** Collects uses and writes them now and then. */
export function secretUse(app: FastifyInstance, database: Database): SecretUse {
  const uses = noted<{ endpoint: string; fingerprint: string; at: Date }>(app, async (batch) => {
    for (const { endpoint, fingerprint, at } of batch.values()) {
      await platform(database)
        .insertInto('crm_secret_uses')
        .values({ endpoint, fingerprint, last_used_at: at })
        .onConflict((conflict) =>
          conflict.columns(['endpoint', 'fingerprint']).doUpdateSet({ last_used_at: at }),
        )
        .execute();
    }
  });
  return {
    note: (endpoint, secret) => {
      const print = fingerprint(secret);
      uses.note(`${endpoint} ${print}`, { endpoint, fingerprint: print, at: new Date() });
    },
  };
}

/** When each secret of an endpoint was last used, by fingerprint. */
export async function secretUses(tables: Platform): Promise<ReadonlyMap<string, Date>> {
  const rows = await tables.selectFrom('crm_secret_uses').selectAll().execute();
  return new Map(rows.map((row) => [`${row.endpoint} ${row.fingerprint}`, new Date(row.last_used_at)]));
}
