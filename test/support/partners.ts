// Settings files for tests, and providers' signatures, implemented independently of the service.
import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from 'kysely';
import { readConfig } from '../../app/config.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { sealing } from '../../plugins/access/secrets/sealing.ts';
import { channelsOf } from '../../webhooks/channels/channels.ts';
import { addIntegration } from '../../webhooks/inbox/integrations.ts';
import { type Answer, type Instance, type Organization, temporaryFolder } from './instance.ts';
import { command, fresh } from './people.ts';
import { until } from './process.ts';
import { patient } from './promised.ts';

/** A settings file in a temporary folder, which is removed after the tests. */
export interface SettingsFile {
  readonly path: string;
  /** Environment that sets CRM_CONFIG. */
  readonly environment: Readonly<Record<string, string>>;
  /** Overwrites the file with YAML text or a value. */
  readonly write: (settings: string | object) => void;
  /** Replaces the file with a new file, as editors do. */
  readonly replace: (settings: string | object) => void;
  /** Replaces the file, and waits until its settings are in force in an instance. */
  readonly apply: (instance: Pick<Instance, 'app'>, settings: string | object) => Promise<void>;
}

/** Converts settings to YAML. JSON is valid YAML. */
const yaml = (settings: string | object): string =>
  typeof settings === 'string' ? settings : JSON.stringify(settings, null, 2);

// Not a hook of node:test, because it would remove files created in a hook as soon as that hook finishes.
const folders: { remove: () => void }[] = [];
process.once('exit', () => {
  for (const folder of folders) folder.remove();
});

/**
 * Creates a settings file.
 * @param environment additional variables, for example secrets referenced in the file
 */
export function settingsFile(
  settings: string | object,
  environment: Readonly<Record<string, string>> = {},
): SettingsFile {
  const folder = temporaryFolder();
  folders.push(folder);
  const path = join(folder.path, 'config.yaml');
  const write = (next: string | object) => writeFileSync(path, yaml(next));
  const replace = (next: string | object) => {
    writeFileSync(`${path}.new`, yaml(next));
    renameSync(`${path}.new`, path);
  };
  write(settings);
  return {
    path,
    environment: { ...environment, CRM_CONFIG: path },
    write,
    replace,
    apply: async ({ app }, next) => {
      const previous = app.webhooks.settings.current;
      replace(next);
      await until(() => app.webhooks.settings.current !== previous, 'apply the settings');
    },
  };
}

type Bytes = string | Buffer;

/** Computes an HMAC-SHA256 in hex. */
export const hmacHex = (secret: string, raw: Bytes): string =>
  createHmac('sha256', secret).update(raw).digest('hex');
/** Computes an HMAC-SHA256 in Base64. */
export const hmacBase64 = (secret: string, raw: Bytes): string =>
  createHmac('sha256', secret).update(raw).digest('base64');
export const sha256 = (raw: Bytes): string => createHash('sha256').update(raw).digest('hex');
export const nowSeconds = (): number => Math.floor(Date.now() / 1000);

/** Computes a `Stripe-Signature` header with a v1 signature for each secret. */
export const stripeSignature = (secrets: readonly string[], raw: Bytes, time = nowSeconds()): string =>
  [`t=${time}`, ...secrets.map((secret) => `v1=${hmacHex(secret, `${time}.${raw}`)}`)].join(',');

/** Computes Meta's `X-Hub-Signature-256` header. */
export const metaSignature = (secret: string, raw: Bytes): string => `sha256=${hmacHex(secret, raw)}`;

/** Computes an `X-Twilio-Signature` header for a URL and an optional form. */
export const twilioSignature = (secret: string, url: string, form: Readonly<Record<string, string>> = {}) =>
  createHmac('sha1', secret)
    .update(
      url +
        Object.keys(form)
          .sort()
          .map((key) => key + form[key])
          .join(''),
    )
    .digest('base64');

/** A new integration with its secrets. */
export interface Added<Owner extends { readonly id: string } = Organization> {
  readonly id: string;
  readonly path: string;
  readonly verifyToken: string;
  readonly secret: string;
  readonly token: string;
  readonly organization: Owner;
}

/** Adds an integration with unique secrets. */
export async function integrate<Owner extends { readonly id: string } = Organization>(
  { config, database }: Pick<Instance, 'config' | 'database'>,
  organization: Owner,
  provider: string,
): Promise<Added<Owner>> {
  const secret = fresh(`${provider}-secret`);
  const token = fresh(`${provider}-token`);
  const input = { organization: organization.id, provider, name: provider, secret, token };
  const actor = command({ config });
  const added = await addIntegration(
    tablesOf(database),
    actor,
    { sealing: sealing(instanceSecrets(config)), channels: channelsOf(config) },
    input,
  );
  return { ...added, secret, token, organization };
}

/**
 * Runs a function on a database that no other process uses. Call it only once per process for an embedded database,
 * because opening it again triggers recovery and leaves a timer behind.
 */
export async function onStored<T>(
  environment: Readonly<Record<string, string>>,
  work: (instance: Pick<Instance, 'config' | 'database'>) => Promise<T>,
): Promise<T> {
  const config = readConfig({ ...patient, ...environment });
  const database = await openDatabase(config, []);
  try {
    return await work({ config, database });
  } finally {
    await database.close();
  }
}

/** Inserts an event, by default a processed event, into an integration's inbox. Returns the item's ID. */
export async function delivered(
  { database }: Pick<Instance, 'database'>,
  organization: string,
  integration: string,
  { event = fresh('event'), payload = '{}', status = 'done', error = '' } = {},
): Promise<string> {
  const row = await tablesOf(database)
    .insertInto('crm_inbox')
    .values({
      organization_id: organization,
      integration_id: integration,
      event_id: event,
      payload,
      status,
      error,
      attempts: 1,
      done_at: status === 'waiting' ? null : new Date(),
      // Waiting items do not become due during the test.
      next_at: new Date(Date.now() + 3_600_000),
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return String(row.id);
}

/** Stores a payment that did not match a lead. */
export async function unmatchedPayment(
  { database }: Pick<Instance, 'database'>,
  organization: string,
  { event = fresh('event'), customer = 'acme', payload = '{}' } = {},
): Promise<void> {
  await tablesOf(database)
    .insertInto('crm_payment_events')
    .values({ organization_id: organization, customer, event_id: event, answer: null, payload })
    .execute();
}

/** Sends a signed delivery for one of Meta's channels. */
export function deliver(
  { call }: Pick<Instance, 'call'>,
  { path, secret }: Pick<Added, 'path' | 'secret'>,
  payload: unknown,
): Promise<Answer> {
  const body = typeof payload === 'string' ? payload : JSON.stringify(payload);
  return call(`POST ${path}`, { body, headers: { 'x-hub-signature-256': metaSignature(secret, body) } });
}

/** Returns the items in an integration's inbox. */
export async function inboxOf({ database }: Instance, { id }: Pick<Added, 'id'>) {
  return tablesOf(database)
    .selectFrom('crm_inbox')
    .selectAll()
    .where('integration_id', '=', id)
    .orderBy('id')
    .execute();
}

/** Returns an integer in a response as text, because IDs are 64-bit integers. */
export function integerIn({ text }: Answer, key: string): string {
  const digits = new RegExp(`"${key}":(\\d+)`).exec(text)?.[1];
  return digits ?? assert.fail(`no integer ${key} in ${text}`);
}

/** Reads a record with the API. */
export async function record(
  { call }: Pick<Instance, 'call'>,
  { key }: Pick<Organization, 'key'>,
  path: string,
): Promise<Record<string, unknown>> {
  const answer = await call(`GET /api/v1/${path}`, { key });
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
}

/** Returns all rows of a table as text. */
export async function dumped({ database }: Pick<Instance, 'database'>, table: string): Promise<string> {
  const { rows } = await sql<{
    line: string;
  }>`select t::text as line from ${sql.table(table)} t order by 1`.execute(tablesOf(database));
  return rows.map(({ line }) => line).join('\n');
}
