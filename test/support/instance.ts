import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { type Config, loadConfig, readConfig } from '../../app/config.ts';
import { entitiesFor } from '../../app/instance.ts';
import { modules } from '../../app/modules.ts';
import { buildService, compileResources } from '../../app/serve/build.ts';
import type { Resource } from '../../engine/compile/compile.ts';
import type { Database } from '../../engine/database/database.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { commandLine } from '../../engine/effects/actor.ts';
import type { ModuleCode } from '../../engine/records/index.ts';
import { transaction } from '../../engine/tables/handle.ts';
import type { Source } from '../../engine/yaml/load.ts';
import type { KeyAccess } from '../../plugins/access/api-keys/key-access.ts';
import { createKey } from '../../plugins/access/api-keys/keys.ts';
import { createUser } from '../../plugins/access/identity/users.ts';
import type { Grant } from '../../plugins/access/profiles/grants.ts';
import { createProfile, profileId } from '../../plugins/access/profiles/profiles.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { createOrganization } from '../../plugins/tenants/organizations/organizations.ts';
import { assertDescribed, describe as describeResponses } from './described.ts';
import { exchange, type Received } from './http-client.ts';
import { makeDatabase, startPostgres } from './postgres.ts';
import { patienceMs, patient } from './promised.ts';
import './secrets.ts';
import { sourcesWith } from './sources.ts';
import { createTables } from './tables.ts';
import { type Content, copyFolder } from './templates.ts';

export type Driver = 'embedded' | 'postgresql';

/** Drivers tested in this run: both, or the one named by TEST_DRIVERS. */
export const drivers = (['embedded', 'postgresql'] as const satisfies Driver[]).filter(
  (driver) => (process.env.TEST_DRIVERS ?? driver) === driver,
);

/** A response as a client sees it. */
export interface Answer extends Received {
  /** The body, parsed as JSON. Throws if the body is not JSON. */
  readonly json: Record<string, unknown>;
}

/** A request's options. `body` is sent as JSON unless it is a string or bytes. */
export interface Call {
  readonly key?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A complete service with its own port and database. */
export interface Instance {
  readonly driver: Driver;
  readonly config: Config;
  readonly resources: readonly Resource[];
  readonly database: Database;
  readonly app: FastifyInstance;
  /** Origin without a trailing slash. */
  readonly url: string;
  /** Sends a request, for example `call('GET /api/v1/leads', { key })`. */
  readonly call: (request: string, call?: Call) => Promise<Answer>;
  /** Creates an organization with a user and an administrator key. */
  readonly organization: (slug: string) => Promise<Organization>;
  readonly close: () => Promise<void>;
}

export interface Organization {
  readonly id: string;
  readonly slug: string;
  /** An administrator key created by the user. */
  readonly key: string;
  /** The user's ID. */
  readonly user: string;
  /** Creates a key with a new profile that has exactly these grants. */
  readonly keyWith: (grants: readonly Grant[]) => Promise<string>;
  /** Creates a key with a built-in profile. */
  readonly makeKey: (options?: {
    profile?: string;
    user?: string | null;
    onBehalfOf?: string | null;
    expiresAt?: Date | null;
    access?: KeyAccess;
  }) => Promise<{ id: string; key: string }>;
}

/** Creates a temporary folder. */
export function temporaryFolder(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'crm-test-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/**
 * Starts a service. Its tables are created from the compiled model, because migrations have their own tests. Its
 * limits are {@link patient} unless the environment sets others or names a database.
 * @param options `modules` are used instead of the hooks and actions of the shipped modules; `ownServer` starts a separate
 * PostgreSQL server, because transactions in other databases delay the change feed
 */
export async function startInstance(
  driver: Driver,
  options: {
    sources?: readonly Source[];
    environment?: Record<string, string>;
    ownServer?: boolean;
    modules?: readonly ModuleCode[];
  } = {},
): Promise<Instance> {
  const folder = temporaryFolder();
  const environment = {
    PORT: '0',
    DATA_DIR: join(folder.path, 'data'),
    // All output is searched for secrets (secrets.ts).
    ...(options.environment?.LOG_LEVEL === undefined && {
      LOG_LEVEL: 'debug',
      LOG_REQUESTS: 'true',
      LOG_FORMAT: 'json',
    }),
    ...options.environment,
  };
  const sources = options.sources ?? (await sourcesWith());
  const chosen = await loadConfig(environment);
  const resources = compileResources(chosen, sources, options.modules);
  const tables: Content = {
    key: `tables of ${JSON.stringify([sources, chosen.modules.map(({ name }) => name)])}`,
    fill: async (place) => {
      const empty = await openDatabase(readConfig({ ...patient, ...place }), entitiesFor(resources, chosen));
      await createTables(empty);
      await empty.close();
    },
  };
  const server = driver === 'postgresql' && options.ownServer ? await startPostgres() : undefined;
  const made =
    driver === 'postgresql' ? await makeDatabase(server?.url ?? (await postgresServer()), tables) : undefined;
  if (driver === 'embedded') await copyFolder(tables, join(folder.path, 'data'));
  // DATABASE_CONNECT_TIMEOUT_MS, which also limits the wait for a slot, does not limit connecting to this database.
  const url = `${made?.url}?connect_timeout=${patienceMs / 1000}`;
  const limits = options.environment?.DATABASE_URL === undefined ? patient : {};
  const config = await loadConfig({ ...(made && { DATABASE_URL: url }), ...limits, ...environment });
  const database = await openDatabase(config, entitiesFor(resources, config));
  const app = await buildService({ config, resources, database, secrets: instanceSecrets(config) });
  const origin = await app.listen({ host: '127.0.0.1', port: 0 });
  const shipped =
    options.sources === undefined &&
    options.modules === undefined &&
    chosen.modules.length === modules.length;
  // A rate limit, hooks and actions add to the description.
  const code = options.modules?.map(({ name, hooks, actions }) => ({ name, hooks, actions }));
  const key = `${tables.key} ${chosen.rateLimit !== undefined} ${JSON.stringify(code)}`;
  describeResponses(origin, { key, shipped, config, resources });
  return {
    driver,
    config,
    resources,
    database,
    app,
    url: origin,
    call: (request, call) => send(origin, request, call),
    organization: (slug) => makeOrganization(database, config, slug),
    close: async () => {
      await app.close();
      await database.close();
      await made?.drop();
      await server?.stop();
      folder.remove();
    },
  };
}

/** Sends one request over real HTTP. */
export async function send(url: string, request: string, call: Call = {}): Promise<Answer> {
  const [method = 'GET', path = '/'] = request.split(/ (.*)/s);
  const { key, body } = call;
  const response = await exchange(new URL(url + path), {
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...call.headers,
    },
    body:
      body === undefined || typeof body === 'string' || body instanceof Uint8Array
        ? body
        : JSON.stringify(body),
  });
  await assertDescribed(url, method, path, response);
  return {
    ...response,
    get json() {
      return JSON.parse(response.text) as Record<string, unknown>;
    },
  };
}

async function makeOrganization(database: Database, config: Config, slug: string): Promise<Organization> {
  const actor = commandLine(config);
  const made = await transaction(database, async (tables) => {
    const id = await createOrganization(tables, actor, slug, slug);
    const profile = await profileId(tables, id, 'administrator');
    const user = await createUser(tables, actor, {
      email: `admin@${slug}.example`,
      organization: id,
      profile,
      password: () => 'a long enough password',
    });
    const { plaintext } = await createKey(tables, actor, config.keyPrefix, {
      organization: id,
      profile,
      name: 'admin',
      user,
      onBehalfOf: null,
      expiresAt: null,
    });
    return { id, user, key: plaintext };
  });
  const makeKey: Organization['makeKey'] = ({
    profile = 'administrator',
    user = null,
    onBehalfOf = null,
    expiresAt = null,
    access = 'write',
  } = {}) =>
    transaction(database, async (tables) => {
      const key = await createKey(tables, actor, config.keyPrefix, {
        organization: made.id,
        profile: await profileId(tables, made.id, profile),
        name: profile,
        user,
        onBehalfOf,
        access,
        expiresAt,
      });
      return { id: key.id, key: key.plaintext };
    });
  let profiles = 0;
  return {
    ...made,
    slug,
    makeKey,
    keyWith: async (grants) => {
      const profile = `profile ${++profiles}`;
      await transaction(database, (tables) => createProfile(tables, actor, made.id, profile, grants));
      return (await makeKey({ profile })).key;
    },
  };
}

let ownServer: Promise<{ url: string; stop: () => Promise<void> }> | undefined;

/**
 * Returns the URL of this run's PostgreSQL server. A test file that is run on its own starts its own server.
 */
export async function postgresServer(): Promise<string> {
  const shared = process.env.TEST_POSTGRES_URL;
  if (shared !== undefined) return shared;
  ownServer ??= startPostgres();
  return (await ownServer).url;
}

after(async () => {
  await (await ownServer)?.stop();
});

/** Runs a suite against a service on each driver. The instance is available only once the tests run. */
export function onBothDrivers(
  name: string,
  suite: (instance: () => Instance, driver: Driver) => void,
  options: Parameters<typeof startInstance>[1] = {},
): void {
  for (const driver of drivers) {
    describe(`${name} (${driver})`, () => {
      let instance: Instance;
      before(async () => {
        instance = await startInstance(driver, options);
      });
      after(() => instance.close());
      suite(() => instance, driver);
    });
  }
}
