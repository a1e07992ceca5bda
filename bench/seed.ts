import { readConfig } from '../app/config.ts';
import { entitiesFor } from '../app/instance.ts';
import { loadResources } from '../app/serve/build.ts';
import type { Database } from '../engine/database/database.ts';
import { openDatabase } from '../engine/database/open.ts';
import { commandLine } from '../engine/effects/actor.ts';
import { transaction } from '../engine/tables/handle.ts';
import { createKey } from '../plugins/access/api-keys/keys.ts';
import type { Grant } from '../plugins/access/profiles/grants.ts';
import { createProfile, profileId } from '../plugins/access/profiles/profiles.ts';
import { createOrganization } from '../plugins/tenants/organizations/organizations.ts';
import { createTables } from '../test/support/tables.ts';

export const seededOrganizations = 50;
export const rows = 200_000;
/** Number of leads inserted per statement. It is limited because statements have a timeout. */
const leadsPerStatement = 200_000;

/** Returns the organization of a lead. Every other lead belongs to the first organization. */
export const seededOrganization = (lead: number): number =>
  lead % 2 === 1 ? 1 : 2 + ((lead / 2) % (seededOrganizations - 1));

/** Status that a quarter of the leads have. */
export const filter = 'Working - Contacted';

/** Creates organizations. @returns an administrator's API key for each */
export const createOrganizations = async (
  database: Database,
  keyPrefix: string,
  count: number,
): Promise<string[]> => (await createCallers(database, keyPrefix, count, [])).flat();

/**
 * Creates organizations.
 * @param grants the grants of the callers of each organization. Without them, an administrator is the only one
 * @returns the callers' API keys for each organization, in the order of `grants`
 */
async function createCallers(
  database: Database,
  keyPrefix: string,
  count: number,
  grants: readonly (readonly Grant[])[],
): Promise<string[][]> {
  const callers = grants.length === 0 ? [undefined] : grants;
  const keys: string[][] = callers.map(() => []);
  const actor = commandLine({ audit: false });
  for (let index = 1; index <= count; index++) {
    await transaction(database, async (tables) => {
      const organization = await createOrganization(tables, actor, `org-${index}`, `Organization ${index}`);
      for (const [caller, granted] of callers.entries()) {
        const profile =
          granted === undefined
            ? await profileId(tables, organization, 'administrator')
            : await createProfile(tables, actor, organization, `Caller ${caller}`, granted);
        const options = {
          organization,
          profile,
          name: 'bench',
          user: null,
          onBehalfOf: null,
          expiresAt: null,
        };
        keys[caller]?.push((await createKey(tables, actor, keyPrefix, options)).plaintext);
      }
    });
  }
  return keys;
}

/** What {@link seed} creates. */
interface Seeded {
  /** Number of leads. */
  readonly count?: number;
  /** Environment variables of the service. */
  readonly environment?: Readonly<Record<string, string>>;
  /** The grants of the callers of each organization. Without them, an administrator is the only one. */
  readonly grants?: readonly (readonly Grant[])[];
}

/**
 * Fills an empty database with 50 organizations and their leads (see {@link seededOrganization}).
 * @returns the callers' API keys for each organization, in the order of `grants`
 */
export async function seed(
  databaseUrl: string,
  { count = rows, environment = {}, grants = [] }: Seeded = {},
): Promise<string[][]> {
  const config = readConfig({
    ...environment,
    DATABASE_URL: databaseUrl,
    DATABASE_STATEMENT_TIMEOUT_MS: '120000',
  });
  const resources = await loadResources(config);
  const database = await openDatabase(config, entitiesFor(resources));
  await createTables(database);
  const keys = await createCallers(database, config.keyPrefix, seededOrganizations, grants);
  const em = database.orm.em.fork();
  for (let firstId = 1; firstId <= count; firstId += leadsPerStatement)
    await em.execute(`insert into leads (organization_id, id, owner_id, created_by_id, last_modified_by_id, created_at,
      updated_at, first_name, last_name, company, email, phone, status, rating, source, lead_score, timezone, description)
    select case when n % 2 = 1 then 1 else 2 + (n / 2) % ${seededOrganizations - 1} end, n, 1, 1, 1, now() - n * interval '1 minute', now(), 'First ' || n, 'Last ' || n,
      'Company ' || n, 'person' || n || '@example.com', '+1555' || n,
      (array['Open - Not Contacted', '${filter}', 'Closed - Converted', 'Closed - Not Converted'])[1 + (n / ${2 * seededOrganizations}) % 4],
      (array['Hot', 'Warm', 'Cold'])[1 + n % 3], 'Website', n % 100, 'Europe/Berlin',
      'A description of lead ' || n || ', about as long as people write them.'
    from generate_series(${firstId}, ${Math.min(count, firstId + leadsPerStatement - 1)}) n`);
  await em.execute(`select setval(pg_get_serial_sequence('leads', 'id'), ${count})`);
  await em.execute('vacuum analyze leads');
  await database.close();
  return keys;
}
