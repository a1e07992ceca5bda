import { hash } from 'node:crypto';
import type { Actor } from '../../../engine/effects/index.ts';
import { isRowId } from '../../../engine/fields/index.ts';
import type { TextSigner } from '../../../engine/records/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { createKey, type KeyAccess, type KeyToken, revokeKey } from '../api-keys/index.ts';
import { memberPrincipal } from '../identity/index.ts';
import { generateSecret, hashSecret, isSecret } from '../secrets/index.ts';
import type { AuthorizationRequest } from './authorization-request.ts';

/** Lifetime of an authorization code, in milliseconds. */
const codeMs = 60_000;

/** A member's consent to a client. */
interface Consent extends Pick<AuthorizationRequest, 'client' | 'redirectUri' | 'challenge'> {
  readonly organization: string;
  readonly profile: string;
  /** ID of the member. */
  readonly user: string;
  readonly access: KeyAccess;
  readonly expiresAt: Date;
}

/**
 * Stores a consent in a transaction, as a key on behalf of the member. Until the client exchanges the code for tokens, the key
 * expires with the code.
 * @returns the authorization code
 */
export async function connect(
  tables: Tables,
  actor: Actor,
  prefix: string,
  { client, redirectUri, challenge, organization, profile, user, access, expiresAt }: Consent,
): Promise<string> {
  const codeExpiresAt = new Date(Date.now() + codeMs);
  const { id } = await createKey(tables, actor, prefix, {
    ...{ organization, profile, user, access },
    name: client.name === '' ? client.host : `${client.name} (${client.host})`,
    onBehalfOf: user,
    expiresAt: codeExpiresAt,
    client: client.id,
  });
  const code = tokenFor({ organization, key: id });
  await tables
    .insertInto('crm_connected_apps')
    .values({
      organization_id: organization,
      key_id: id,
      redirect_uri: redirectUri,
      code_hash: hashSecret(code),
      code_challenge: challenge,
      code_expires_at: codeExpiresAt,
      redeemed_at: null,
      refresh_hash: null,
      expires_at: expiresAt,
    })
    .execute();
  return code;
}

/** A connected app, for which tokens are issued. */
export interface Connection extends KeyToken {
  readonly expiresAt: Date;
  /** The new refresh token. */
  readonly refreshToken: string;
}

/** Returns a secret that contains the ID of its connection, so that it is found by primary key. */
const tokenFor = ({ organization, key }: Pick<KeyToken, 'organization' | 'key'>): string =>
  `${organization}.${key}.${generateSecret()}`;

/** Returns the connection's IDs in a code or refresh token, or undefined if the format is wrong. */
function idsIn(token: string): Pick<KeyToken, 'organization' | 'key'> | undefined {
  const [, organization = '', key = ''] =
    /^(\d{1,19})\.(\d{1,19})\.[\w-]{43}(?:\.[\w-]{43})?$/.exec(token) ?? [];
  return isRowId(organization) && isRowId(key) ? { organization, key } : undefined;
}

/** Reads and locks a connection. Returns undefined if it does not exist or has been revoked. */
async function lockConnection(tables: Tables, ids: Pick<KeyToken, 'organization' | 'key'> | undefined) {
  if (ids === undefined) return undefined;
  const row = await tables
    .selectFrom('crm_connected_apps as c')
    .innerJoin('crm_api_keys as k', (join) =>
      join.onRef('k.organization_id', '=', 'c.organization_id').onRef('k.id', '=', 'c.key_id'),
    )
    .select(['c.redirect_uri', 'c.code_hash', 'c.code_challenge', 'c.code_expires_at', 'c.redeemed_at'])
    .select(['c.refresh_hash', 'c.expires_at', 'k.client_id', 'k.on_behalf_of_id', 'k.name'])
    .where('c.organization_id', '=', ids.organization)
    .where('c.key_id', '=', ids.key)
    .where('k.revoked_at', 'is', null)
    .forUpdate()
    .executeTakeFirst();
  return row && { organization: ids.organization, key: ids.key, ...row };
}

type LockedConnection = NonNullable<Awaited<ReturnType<typeof lockConnection>>>;

/** Creates and verifies codes and refresh tokens. Each function runs in a transaction. */
export interface Connections {
  /**
   * Exchanges an authorization code. A code that is used again revokes the connection, because it was stolen.
   * @returns undefined if the code, the client, the redirect URI or the verifier is wrong, or while the user has no access
   */
  readonly redeem: (
    tables: Tables,
    request: TokenRequest & {
      readonly code: string;
      readonly verifier: string;
      readonly redirectUri: string | undefined;
    },
  ) => Promise<Connection | undefined>;
  /**
   * Exchanges a refresh token for a new one. A token that has been exchanged before revokes the connection, because it was
   * stolen.
   * @returns undefined if the token or the client is wrong, or while the user has no access
   */
  readonly refresh: (
    tables: Tables,
    request: TokenRequest & { readonly refreshToken: string },
  ) => Promise<Connection | undefined>;
  /**
   * Revokes the connection of a token that was issued to this client.
   * @param request `claims` are the token's claims if it is a valid access token
   */
  readonly revoke: (
    tables: Tables,
    request: TokenRequest & { readonly token: string; readonly claims: KeyToken | undefined },
  ) => Promise<void>;
}

/** A request from a client. */
interface TokenRequest {
  /** The client's ID in the request. */
  readonly client: string;
  readonly requestId: string;
  readonly audited: boolean;
}

/**
 * Creates the functions for codes and refresh tokens. Only the current refresh token is stored; its predecessors are recognized
 * by their signature.
 */
export function createConnections({ sign, verify }: TextSigner): Connections {
  const refreshTokenFor = (ids: Pick<KeyToken, 'organization' | 'key'>): string => {
    const text = tokenFor(ids);
    return `${text}.${sign(text)}`;
  };
  const wasIssued = (refreshToken: string): boolean => {
    const end = refreshToken.lastIndexOf('.');
    return verify(refreshToken.slice(0, end), refreshToken.slice(end + 1));
  };
  const isCurrent = (refreshToken: string, { refresh_hash }: LockedConnection): boolean =>
    refresh_hash !== null && isSecret(refreshToken, refresh_hash);
  const end = (tables: Tables, { organization, key, name }: LockedConnection, request: TokenRequest) => {
    const { requestId, audited } = request;
    return revokeKey(tables, { kind: 'key', id: key, name, requestId, audited }, organization, key);
  };
  const issueFor = async (tables: Tables, connection: LockedConnection): Promise<Connection | undefined> => {
    const { organization, key, on_behalf_of_id: user, client_id: client, expires_at: expiresAt } = connection;
    if (user === null || client === null || expiresAt <= new Date()) return undefined;
    // The member may have been disabled since the consent.
    const member = await memberPrincipal(tables, { kind: 'user', actor: user, organization });
    if (member === undefined) return undefined;
    const refreshToken = refreshTokenFor(connection);
    await tables
      .updateTable('crm_connected_apps')
      .set({
        refresh_hash: hashSecret(refreshToken),
        redeemed_at: connection.redeemed_at ?? new Date(),
      })
      .where('organization_id', '=', organization)
      .where('key_id', '=', key)
      .execute();
    return { organization, key, user, client, expiresAt, refreshToken };
  };
  return {
    redeem: async (tables, request) => {
      const connection = await lockConnection(tables, idsIn(request.code));
      if (connection === undefined || !isSecret(request.code, connection.code_hash)) return undefined;
      if (connection.redeemed_at !== null) {
        await end(tables, connection, request);
        return undefined;
      }
      const { client, redirectUri = connection.redirect_uri, verifier } = request;
      const isValid =
        connection.code_expires_at > new Date() &&
        connection.client_id === client &&
        connection.redirect_uri === redirectUri &&
        hash('sha256', verifier, 'base64url') === connection.code_challenge;
      if (!isValid) return undefined;
      const issued = await issueFor(tables, connection);
      if (issued === undefined) return undefined;
      const { organization, key, expiresAt: expires_at } = issued;
      await tables
        .updateTable('crm_api_keys')
        .set({ expires_at })
        .where('organization_id', '=', organization)
        .where('id', '=', key)
        .execute();
      return issued;
    },
    refresh: async (tables, request) => {
      const connection = await lockConnection(tables, idsIn(request.refreshToken));
      if (connection === undefined || connection.client_id !== request.client) return undefined;
      if (isCurrent(request.refreshToken, connection)) return issueFor(tables, connection);
      if (wasIssued(request.refreshToken)) await end(tables, connection, request);
      return undefined;
    },
    revoke: async (tables, request) => {
      const { token, claims } = request;
      const connection = await lockConnection(tables, claims ?? idsIn(token));
      if (connection === undefined || connection.client_id !== request.client) return;
      if (claims !== undefined || isCurrent(token, connection) || wasIssued(token))
        await end(tables, connection, request);
    },
  };
}
