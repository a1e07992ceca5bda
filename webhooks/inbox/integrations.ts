import { type Actor, recordChanges } from '../../engine/effects/index.ts';
import { displayName, type RowSource, type Tables } from '../../engine/tables/index.ts';
import {
  generatePublicId,
  generateSecret,
  hashSecret,
  type Sealing,
} from '../../plugins/access/secrets/index.ts';
import { TranslatedError } from '../../plugins/admin-ui/shell/index.ts';
import { type Channels, channelLabel, type Integration } from '../channels/index.ts';
import { ownProperty } from '../endpoint/index.ts';
import { inboxTexts } from './texts/index.ts';

/** An integration without its secrets. */
export interface IntegrationInfo {
  readonly id: string;
  readonly provider: string;
  readonly label: string;
  readonly name: string;
  readonly endpoint: string;
  readonly enabled: boolean;
}

/** Returns the path of an integration's callback URL. */
export const endpointPath = (provider: string, endpoint: string): string =>
  `/webhooks/channels/${provider}/${endpoint}`;

/** Returns an organization's integrations, oldest first. */
export const integrationRows = (channels: Channels): RowSource<IntegrationInfo> => ({
  from: 'crm_integrations i',
  owner: 'i.organization_id',
  columns: {
    id: 'i.id',
    provider: 'i.provider',
    label: channelLabel(channels, 'i.provider'),
    name: 'i.name',
    endpoint: 'i.endpoint',
    enabled: 'i.enabled',
  },
  search: ['i.name', channelLabel(channels, 'i.provider')],
  order: 'i.id',
});

const { later } = inboxTexts;

/** Message for an integration that does not exist. */
export const missingIntegration = later('missingIntegration');

/**
 * Adds an integration.
 * @returns the integration's ID, path and verify token; only a hash of the token is stored
 * @throws UserError if the provider is unknown or a required secret is missing
 */
export async function addIntegration(
  tables: Tables,
  actor: Actor,
  { sealing: { seal }, channels }: { readonly sealing: Sealing; readonly channels: Channels },
  input: {
    readonly organization: string;
    readonly provider: string;
    readonly name: string;
    readonly secret: string;
    readonly token: string;
  },
): Promise<{ readonly id: string; readonly path: string; readonly verifyToken: string }> {
  const channel = ownProperty(channels, input.provider);
  if (channel === undefined) throw new TranslatedError(later('missingProvider'));
  const name = displayName(input.name, 'the name');
  if (input.secret.trim() === '')
    throw new TranslatedError(later('isRequired', { label: channel.secretLabel }));
  if (channel.tokenLabel !== undefined && input.token.trim() === '') {
    throw new TranslatedError(later('isRequired', { label: channel.tokenLabel }));
  }
  const endpoint = generatePublicId() + generatePublicId();
  const verifyToken = generateSecret();
  const row = await tables
    .insertInto('crm_integrations')
    .values({
      organization_id: input.organization,
      provider: input.provider,
      name,
      endpoint,
      verify_token_hash: hashSecret(verifyToken),
      secret: await seal(input.secret.trim()),
      token: input.token.trim() === '' ? '' : await seal(input.token.trim()),
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  const id = row.id;
  await recordChanges(tables, actor, {
    organization: input.organization,
    action: 'create',
    object: 'integration',
    objectId: id,
  });
  return { id, path: endpointPath(input.provider, endpoint), verifyToken };
}

/** Updates an integration's columns. @throws UserError if the integration does not exist */
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
  if (row === undefined) throw new TranslatedError(missingIntegration);
}

/** Enables or disables an integration. @throws UserError if it does not exist */
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

/** Columns with encrypted secrets. */
export const sealedColumns = ['secret', 'token'];

/**
 * Changes an integration's secrets. If a secret is blank, it stays unchanged.
 * @throws UserError if the integration does not exist or both secrets are blank
 */
export async function changeSecrets(
  tables: Tables,
  actor: Actor,
  { seal }: Sealing,
  organization: string,
  id: string,
  { secret, token }: { readonly secret: string; readonly token: string },
): Promise<void> {
  const values = {
    ...(secret.trim() !== '' && { secret: await seal(secret.trim()) }),
    ...(token.trim() !== '' && { token: await seal(token.trim()) }),
  };
  if (Object.keys(values).length === 0) throw new TranslatedError(later('enterSecret'));
  await update(tables, organization, id, values);
  await recordChanges(tables, actor, {
    organization,
    action: 'change secrets',
    object: 'integration',
    objectId: id,
  });
}

/** Removes an integration and its deliveries. @throws UserError if it does not exist */
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
  if (row === undefined) throw new TranslatedError(missingIntegration);
  await recordChanges(tables, actor, { organization, action: 'delete', object: 'integration', objectId: id });
}

/** An enabled integration with its decrypted secrets and the hash of its verify token. */
export interface OpenIntegration extends Integration {
  readonly verifyTokenHash: string;
}

/**
 * Finds an enabled integration by its endpoint, its ID or, if the organization has several of one provider, as the oldest one, and
 * decrypts its secrets.
 */
export async function openIntegration(
  tables: Tables,
  { open }: Sealing,
  key:
    | { readonly endpoint: string }
    | { readonly organization: string; readonly id: string }
    | { readonly organization: string; readonly provider: string },
): Promise<OpenIntegration | undefined> {
  const base = tables.selectFrom('crm_integrations').selectAll().where('enabled', '=', true);
  const row = await ('endpoint' in key
    ? base.where('endpoint', '=', key.endpoint)
    : 'id' in key
      ? base.where('organization_id', '=', key.organization).where('id', '=', key.id)
      : base
          .where('organization_id', '=', key.organization)
          .where('provider', '=', key.provider)
          .orderBy('id')
          .limit(1)
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
