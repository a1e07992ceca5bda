import type { FastifyInstance } from 'fastify';
import type { Database } from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { listProfiles } from '../profiles/index.ts';
import { field, idField, section, viewsIn } from '../screens/index.ts';
import type { KeyConfig } from './authentication.ts';
import { createKey, listKeys, revokeKey, rotateKey } from './keys.ts';

const dayMs = 86_400_000;
/** The lifetime of a key by the form's value, in milliseconds; null: no expiry. */
const lifetimes: ReadonlyMap<string, number | null> = new Map([
  ['never', null],
  ['30', 30 * dayMs],
  ['90', 90 * dayMs],
  ['365', 365 * dayMs],
]);
/** How long a rotated key stays valid, by the form's value, in milliseconds. */
const overlaps: ReadonlyMap<string, number> = new Map([
  ['1h', dayMs / 24],
  ['1d', dayMs],
  ['7d', 7 * dayMs],
]);

/** The page to create, rotate and revoke API keys; the plaintext is shown once. */
export function keyPages(
  app: FastifyInstance,
  { config, database }: { readonly config: KeyConfig; readonly database: Database },
): void {
  section(app, database, {
    name: 'keys',
    title: 'API keys',
    view: viewsIn(import.meta.dirname)('keys'),
    done: {
      'key-revoked': 'The key is revoked. Every node refuses it within a second.',
    },
    load: async ({ membership: { organization } }) => {
      const [keys, profiles] = await Promise.all([
        listKeys(tablesOf(database), organization),
        listProfiles(tablesOf(database), organization),
      ]);
      const now = new Date().toISOString();
      const expired = (at: string | null) => at !== null && at <= now;
      return {
        profiles,
        keys: keys
          .map((key) => ({
            ...key,
            live: key.revoked_at === null && !expired(key.expires_at),
            last_used_at: app.keyLastUsed(key.id) ?? key.last_used_at,
          }))
          .reverse(),
      };
    },
    once: ['create', 'rotate'],
    actions: {
      create: async ({ membership: { organization }, person, actor, transact }, form) => {
        const lifetime = lifetimes.get(field(form, 'expires'));
        if (lifetime === undefined) throw new UserError('choose when the key expires');
        const name = field(form, 'name');
        const profile = idField(form, 'profile');
        const key = await transact(async (tables) => {
          const known = await listProfiles(tables, organization);
          if (!known.some((each) => each.id === profile)) throw new UserError('there is no such profile');
          return createKey(tables, actor, config.keyPrefix, {
            organization,
            profile,
            name,
            user: person.session.user.id,
            expiresAt: lifetime === null ? null : new Date(Date.now() + lifetime),
          });
        });
        return { shown: { newKey: key.plaintext } };
      },
      rotate: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const overlapMs = overlaps.get(field(form, 'overlap'));
        if (overlapMs === undefined) throw new UserError('choose how long the old key works on');
        const key = await transact((tables) => {
          return rotateKey(tables, actor, config.keyPrefix, { organization, id, overlapMs });
        });
        return { shown: { newKey: key.plaintext } };
      },
      revoke: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => revokeKey(tables, actor, organization, id));
        return { done: 'key-revoked' };
      },
    },
  });
}
