// Partners: settings files of a test's own, and signatures as the providers make them, independent of the service's.

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
import { addIntegration } from '../../webhooks/inbox/integrations.ts';
import { type Answer, type Instance, type Organization, temporaryFolder } from './instance.ts';
import { command, fresh } from './people.ts';

/** A settings file in a folder of its own, removed when the tests are done. */
export interface SettingsFile {
  readonly path: string;
  /** The environment that names it. */
  readonly environment: Readonly<Record<string, string>>;
  /** Writes it again: a YAML text, or a value. */
  readonly write: (settings: string | object) => void;
  /** Puts another file in its place, as editors do. */
  readonly replace: (settings: string | object) => void;
}

/** JSON is YAML, so a value may be written as it is. */
const yaml = (settings: string | object): string =>
  typeof settings === 'string' ? settings : JSON.stringify(settings, null, 2);

// Hooks of node:test would remove a file that a hook made as soon as that hook is done.
const folders: { remove: () => void }[] = [];
process.once('exit', () => {
  for (const folder of folders) folder.remove();
});

/** Makes a settings file. @param environment further variables, such as the secrets that it refers to */
export function settingsFile(
  settings: string | object,
  environment: Readonly<Record<string, string>> = {},
): SettingsFile {
  const folder = temporaryFolder();
  folders.push(folder);
  const path = join(folder.path, 'config.yaml');
  const write = (next: string | object) => writeFileSync(path, yaml(next));
  write(settings);
  return {
    path,
    environment: { ...environment, CRM_CONFIG: path },
    write,
    replace: (next) => {
      writeFileSync(`${path}.new`, yaml(next));
      renameSync(`${path}.new`, path);
    },
  };
}

type Bytes = string | Buffer;

/** Hex HMAC-SHA256. */
export const hmacHex = (secret: string, raw: Bytes): string =>
  createHmac('sha256', secret).update(raw).digest('hex');
/** Base64 HMAC-SHA256. */
export const hmacBase64 = (secret: string, raw: Bytes): string =>
  createHmac('sha256', secret).update(raw).digest('base64');
export const sha256 = (raw: Bytes): string => createHash('sha256').update(raw).digest('hex');
export const nowSeconds = (): number => Math.floor(Date.now() / 1000);

/** Stripe-Signature, with a v1 for each secret. */
export const stripeSignature = (secrets: readonly string[], raw: Bytes, time = nowSeconds()): string =>
  [`t=${time}`, ...secrets.map((secret) => `v1=${hmacHex(secret, `${time}.${raw}`)}`)].join(',');

/** X-Hub-Signature-256, as Meta's channels send it. */
export const metaSignature = (secret: string, raw: Bytes): string => `sha256=${hmacHex(secret, raw)}`;

/** X-Twilio-Signature of a form, or of an address alone. */
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

/** An integration that was added. */
export interface Added<Owner extends { readonly id: string } = Organization> {
  readonly id: string;
  readonly path: string;
  readonly verifyToken: string;
  readonly secret: string;
  readonly token: string;
  readonly organization: Owner;
}

/** Adds an integration with secrets that no other has. */
export async function integrate<Owner extends { readonly id: string } = Organization>(
  { config, database }: Pick<Instance, 'config' | 'database'>,
  organization: Owner,
  provider: string,
): Promise<Added<Owner>> {
  const secret = fresh(`${provider}-secret`);
  const token = fresh(`${provider}-token`);
  const given = { organization: organization.id, provider, name: provider, secret, token };
  const actor = command({ config });
  const added = await addIntegration(tablesOf(database), actor, sealing(instanceSecrets(config)), given);
  return { ...added, secret, token, organization };
}

/**
 * Does something on a database that no process has open. Once in a process for an embedded one: opened again, it
 * recovers, and leaves a timer behind.
 */
export async function onStored<T>(
  environment: Readonly<Record<string, string>>,
  work: (instance: Pick<Instance, 'config' | 'database'>) => Promise<T>,
): Promise<T> {
  const config = readConfig(environment);
  const database = await openDatabase(config, []);
  try {
    return await work({ config, database });
  } finally {
    await database.close();
  }
}

/** Puts an event into an integration's inbox, as it is some time after its delivery. Returns the item's id. */
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
      // A waiting one is not due while a test lasts.
      next_at: new Date(Date.now() + 3_600_000),
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return String(row.id);
}

/** Keeps a payment whose lead was not found. */
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

/** Sends a delivery of one of Meta's channels, signed. */
export function deliver(
  { call }: Pick<Instance, 'call'>,
  { path, secret }: Pick<Added, 'path' | 'secret'>,
  payload: unknown,
): Promise<Answer> {
  const body = typeof payload === 'string' ? payload : JSON.stringify(payload);
  return call(`POST ${path}`, { body, headers: { 'x-hub-signature-256': metaSignature(secret, body) } });
}

/** How many items of an integration's inbox have each status. */
export async function inboxOf({ database }: Instance, { id }: Pick<Added, 'id'>) {
  return tablesOf(database)
    .selectFrom('crm_inbox')
    .selectAll()
    .where('integration_id', '=', id)
    .orderBy('id')
    .execute();
}

/** An integer in an answer, as its text says it: ids are 64 bits wide. */
export function integerIn({ text }: Answer, key: string): string {
  const found = new RegExp(`"${key}":(\\d+)`).exec(text)?.[1];
  return found ?? assert.fail(`no integer ${key} in ${text}`);
}

/** A record as the API gives it. */
export async function record(
  { call }: Pick<Instance, 'call'>,
  { key }: Pick<Organization, 'key'>,
  path: string,
): Promise<Record<string, unknown>> {
  const answer = await call(`GET /api/v1/${path}`, { key });
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
}

/** Every row of a table, as text. */
export async function dumped({ database }: Pick<Instance, 'database'>, table: string): Promise<string> {
  const { rows } = await sql<{
    line: string;
  }>`select t::text as line from ${sql.table(table)} t order by 1`.execute(tablesOf(database));
  return rows.map(({ line }) => line).join('\n');
}
