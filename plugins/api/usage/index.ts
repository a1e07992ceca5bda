// Usage: records which API keys use which resources and fields, for maintainers who want to remove a resource or field.
// May import engine, last-used, api-keys.

import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Database } from '../../../engine/database/index.ts';
import { type Module, startRetention } from '../../../engine/modules/index.ts';
import { type Tables, tablesOf } from '../../../engine/tables/index.ts';
import { lastUsed } from '../../access/last-used/index.ts';
import { usageTables } from './tables.ts';
import { usageRetention } from './usage.ts';

export { findUsage, type KeyUsage, usageDays } from './usage.ts';

/** Records which API keys use which resources and fields. Each name is written to the database once a day. */
export const usageModule: Module<{ readonly database: Database }> = {
  name: 'usage',
  tables: usageTables,
  register: (app, { database }) => {
    const tables = tablesOf(database);
    app.decorate('namesSent', recorder(app, tables));
    startRetention(app, database, { label: 'old usage', steps: [usageRetention] });
  },
};

const dayMs = 86_400_000;

/** Returns a function that records each name once a day. */
function recorder(app: FastifyInstance, tables: Tables): FastifyInstance['namesSent'] {
  const uses = lastUsed<readonly [organization: string, key: string, resource: string, name: string]>(
    app,
    (entries) => store(tables, [...entries.values()]),
  );
  let day = 0;
  /** Names recorded today, keyed by API key and resource. */
  let recordedNames = new Map<string, Set<string>>();
  return ({ kind, actor, organization }, resource, names) => {
    if (kind !== 'key' || actor === null) return;
    const today = Math.floor(Date.now() / dayMs);
    if (today !== day) {
      day = today;
      recordedNames = new Map();
    }
    const prefix = `${actor} ${resource}`;
    let seen = recordedNames.get(prefix);
    if (seen === undefined) {
      seen = new Set();
      recordedNames.set(prefix, seen);
      uses.record(prefix, [organization, actor, resource, '']);
    }
    for (const name of names) {
      if (seen.has(name)) continue;
      seen.add(name);
      uses.record(`${prefix} ${name}`, [organization, actor, resource, name]);
    }
  };
}

/** An API key's use of a name. */
type Use = readonly [organization: string, key: string, resource: string, name: string];

/** Stores when each name was last used. Ignores keys that have been deleted since. */
async function store(tables: Tables, uses: readonly Use[]): Promise<void> {
  const column = (position: number) => uses.map((use) => use[position]);
  await sql`
    insert into crm_name_uses (organization_id, key_id, resource, name, last_used_at)
    select u.o, u.k, u.r, u.n, now() from unnest(${column(0)}::bigint[], ${column(1)}::bigint[], ${column(2)}::text[], ${column(3)}::text[]) u(o, k, r, n)
    join crm_api_keys k on k.organization_id = u.o and k.id = u.k
    on conflict (organization_id, key_id, resource, name) do update set last_used_at = now()`.execute(tables);
}
