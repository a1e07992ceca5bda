import { mkdtempSync, rmSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Environment } from '../engine/config/index.ts';
import { commandLine } from '../engine/effects/index.ts';
import { transaction } from '../engine/tables/index.ts';
import { withSections } from '../engine/yaml/index.ts';
import { createKey } from '../plugins/access/api-keys/index.ts';
import { createUser } from '../plugins/access/identity/index.ts';
import { profileId } from '../plugins/access/profiles/index.ts';
import { createOrganization } from '../plugins/tenants/organizations/index.ts';
import { readModuleEntries } from '../webhooks/settings/index.ts';
import { loadConfig, readConfig } from './config.ts';
import { openInstance } from './instance.ts';
import { fileOfModule } from './load-modules.ts';
import { type RecordAccess, recordAccess } from './module-records.ts';
import type { Instance } from './services.ts';

/** A request to a {@link TestInstance}. */
export interface TestRequest {
  /** The body, sent as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A response from a {@link TestInstance}. */
export interface TestResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Returns the body, parsed as JSON. */
  readonly json: () => unknown;
}

/** A service with an embedded database in a temporary folder. */
export interface TestInstance extends Pick<Instance, 'config' | 'database' | 'resources'> {
  /** Access to records. */
  readonly records: RecordAccess;
  /** Origin without a trailing slash. */
  readonly url: string;
  /** ID of the organization that exists at the start. */
  readonly organization: string;
  /** ID of the organization's administrator. */
  readonly user: string;
  /** An API key with the administrator's grants. */
  readonly key: string;
  /** Sends a request with the administrator's key, for example `call('GET /api/v1/leads')`. */
  readonly call: (request: string, options?: TestRequest) => Promise<TestResponse>;
  /** Stops the service and deletes its database. */
  readonly close: () => Promise<void>;
}

/**
 * Starts a service for tests with the resources, modules, settings and migrations of the instance in the working directory.
 * @param environment environment variables. The variables of the process are not used
 * @param sections values that replace sections of config.yaml, for example a module's settings
 * @throws UserError if the instance cannot be opened, for example because a migration has not been created
 */
export async function createTestInstance(
  environment: Environment = {},
  sections: Readonly<Record<string, unknown>> = {},
): Promise<TestInstance> {
  const folder = mkdtempSync(join(tmpdir(), 'crm-test-'));
  let instance: Instance | undefined;
  const closeDatabase = async () => {
    await instance?.database.close();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const variables = { LOG_LEVEL: 'error', ...environment, DATA_DIR: join(folder, 'data') };
    const settings =
      Object.keys(sections).length === 0 ? {} : await copySettings(variables, sections, folder);
    const config = await loadConfig({ ...variables, ...settings });
    instance = await openInstance(config);
    const { database, resources } = instance;
    const app = await instance.service();
    const url = await app.listen({ host: '127.0.0.1', port: 0 });
    const actor = commandLine(config);
    const administrator = await transaction(database, async (tables) => {
      const organization = await createOrganization(tables, actor, 'test', 'Test');
      const profile = await profileId(tables, organization, 'administrator');
      const user = await createUser(tables, actor, {
        email: 'administrator@test.example',
        organization,
        profile,
        password: () => 'a long enough password',
      });
      const { plaintext } = await createKey(tables, actor, config.keyPrefix, {
        organization,
        profile,
        name: 'test',
        user,
        onBehalfOf: null,
        expiresAt: null,
      });
      return { organization, user, key: plaintext };
    });
    return {
      config,
      database,
      resources,
      url,
      records: recordAccess(instance, 'test'),
      ...administrator,
      call: (request, options) => send(url, administrator.key, request, options),
      close: async () => {
        await app.close();
        await closeDatabase();
      },
    };
  } catch (cause) {
    await closeDatabase();
    throw cause;
  }
}

/** Copies config.yaml to a folder, with other values of some sections. @returns the variable that selects the copy */
async function copySettings(
  environment: Environment,
  sections: Readonly<Record<string, unknown>>,
  folder: string,
): Promise<Environment> {
  const { settingsFile } = readConfig(environment);
  const entries = await readModuleEntries(readConfig(environment));
  const modules = entries.map(({ specifier }) => fileOfModule(settingsFile, specifier) ?? specifier);
  const file = join(folder, 'config.yaml');
  const text = await readFile(settingsFile, 'utf8');
  await writeFile(file, withSections(text, { ...(modules.length > 0 && { modules }), ...sections }));
  return { CRM_CONFIG: file };
}

/** Sends a request. @param request method and path, for example `GET /api/v1/leads` */
async function send(
  url: string,
  key: string,
  request: string,
  { body, headers }: TestRequest = {},
): Promise<TestResponse> {
  const [method = 'GET', path = '/'] = request.split(/ (.*)/s);
  const response = await fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: () => JSON.parse(text) as unknown,
  };
}
