import { type Actor, recordChanges } from '../../engine/effects/index.ts';
import { UserError } from '../../engine/errors.ts';
import { displayName, type Tables } from '../../engine/tables/index.ts';
import { hashSecret, makePublicId, makeSecret, type Sealing } from '../../plugins/access/secrets/index.ts';
import { channelOf, type Integration } from '../channels/index.ts';

/** An integration as administrators see it. */
export interface IntegrationInfo {
  readonly id: string;
  readonly provider: string;
  readonly label: string;
  readonly name: string;
  readonly endpoint: string;
  readonly enabled: boolean;
}

/** Path that a provider calls. */
export const endpointPath = (provider: string, endpoint: string): string =>
  `/webhooks/channels/${provider}/${endpoint}`;

/** Every integration of an organization, oldest first. */
export async function listIntegrations(tables: Tables, organization: string): Promise<IntegrationInfo[]> {
  const rows = await tables
    .selectFrom('crm_integrations')
    .select(['id', 'provider', 'name', 'endpoint', 'enabled'])
    .where('organization_id', '=', organization)
    .orderBy('id')
    .execute();
  return rows.map((row) => ({
    ...row,
    id: row.id,
    label: channelOf(row.provider)?.label ?? row.provider,
  }));
}

/**
 * Adds an integration.
 * @returns its address and the verify token, of which only a hash is stored
 * @throws UserError when the provider is unknown or a needed secret is missing
 */
export async function addIntegration(
  tables: Tables,
  actor: Actor,
  { seal }: Sealing,
  given: {
    readonly organization: string;
    readonly provider: string;
    readonly name: string;
    readonly secret: string;
    readonly token: string;
  },
): Promise<{ readonly id: string; readonly path: string; readonly verifyToken: string }> {
  const channel = channelOf(given.provider);
  if (channel === undefined) throw new UserError('there is no such provider');
  const name = displayName(given.name, 'the name');
  if (given.secret.trim() === '') throw new UserError(`${channel.secretLabel} is needed`);
  if (channel.tokenLabel !== undefined && given.token.trim() === '') {
    throw new UserError(`${channel.tokenLabel} is needed`);
  }
  const endpoint = makePublicId() + makePublicId();
  const verifyToken = makeSecret();
  const row = await tables
    .insertInto('crm_integrations')
    .values({
      organization_id: given.organization,
      provider: given.provider,
      name,
      endpoint,
      verify_token_hash: hashSecret(verifyToken),
      secret: await seal(given.secret.trim()),
      token: given.token.trim() === '' ? '' : await seal(given.token.trim()),
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  const id = row.id;
  await recordChanges(tables, actor, {
    organization: given.organization,
    action: 'create',
    object: 'integration',
    objectId: id,
  });
  return { id, path: endpointPath(given.provider, endpoint), verifyToken };
}

/** Writes columns of an integration. @throws UserError when there is none */
async function update(
  tables: Tables,
  organization: string,
  id: string,
  values: { readonly enabled?: boolean; readonly secret?: string; readonly token?: string },
): Promise<void> {
  const row = await tables
    .updateTable('crm_integrations')
    .set(values)
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new UserError('there is no such integration');
}

/** Switches an integration on or off. @throws UserError when there is none */
export async function setIntegrationEnabled(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
  enabled: boolean,
): Promise<void> {
  await update(tables, organization, id, { enabled });
  const action = enabled ? 'switch on' : 'switch off';
  await recordChanges(tables, actor, { organization, action, object: 'integration', objectId: id });
}

/** The columns of integrations that hold secrets. */
export const sealedColumns = ['secret', 'token'];

/**
 * Changes the secrets of an integration; a blank one stays as it is.
 * @throws UserError when there is no such integration, or both are blank
 */
export async function changeSecrets(
  tables: Tables,
  actor: Actor,
  { seal }: Sealing,
  organization: string,
  id: string,
  { secret, token }: { readonly secret: string; readonly token: string },
): Promise<void> {
  const changed = {
    ...(secret.trim() !== '' && { secret: await seal(secret.trim()) }),
    ...(token.trim() !== '' && { token: await seal(token.trim()) }),
  };
  if (Object.keys(changed).length === 0) throw new UserError('give the new secret');
  await update(tables, organization, id, changed);
  await recordChanges(tables, actor, {
    organization,
    action: 'change secrets',
    object: 'integration',
    objectId: id,
  });
}

/** Removes an integration with its deliveries; its address responds 404. @throws UserError when there is none */
export async function removeIntegration(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
): Promise<void> {
  const row = await tables
    .deleteFrom('crm_integrations')
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new UserError('there is no such integration');
  await recordChanges(tables, actor, { organization, action: 'delete', object: 'integration', objectId: id });
}

/** An enabled integration with its decrypted secrets and the hash of its verify token. */
export interface OpenIntegration extends Integration {
  readonly verifyTokenHash: string;
}

/** Finds an enabled integration by its address or its id. */
export async function openIntegration(
  tables: Tables,
  { open }: Sealing,
  key: { readonly endpoint: string } | { readonly organization: string; readonly id: string },
): Promise<OpenIntegration | undefined> {
  const base = tables.selectFrom('crm_integrations').selectAll().where('enabled', '=', true);
  const row = await ('endpoint' in key
    ? base.where('endpoint', '=', key.endpoint)
    : base.where('organization_id', '=', key.organization).where('id', '=', key.id)
  ).executeTakeFirst();
  if (row === undefined) return undefined;
  return {
    organization: row.organization_id,
    id: row.id,
    endpoint: row.endpoint,
    provider: row.provider,
    secret: await open(row.secret),
    token: await open(row.token),
    verifyTokenHash: row.verify_token_hash,
  };
}
