import type { FastifyRequest } from 'fastify';
import { SignJWT } from 'jose/jwt/sign';
import { jwtVerify } from 'jose/jwt/verify';
import { isRowId } from '../../../engine/fields/index.ts';
import { apiPrefix } from '../../../engine/http/index.ts';
import type { KeyToken } from '../api-keys/index.ts';
import { clockTolerance } from '../identity/index.ts';
import { generatePublicId, type InstanceSecrets } from '../secrets/index.ts';
import { mcpPath } from './services.ts';

/** The only algorithm used to sign access tokens and accepted when verifying them. */
const algorithm = 'HS256';
const type = 'at+jwt';
/** Lifetime of an access token, in seconds. */
export const accessTokenSeconds = 600;
/** Maximum length of an issued token, in characters. It contains the client's ID, which is a URL. */
const maxLength = 2048;

/** Signs and verifies access tokens (RFC 9068). */
export interface AccessTokens {
  readonly sign: (issuer: string, claims: KeyToken, seconds: number) => Promise<string>;
  /** Returns undefined if the token is not valid, or was not issued by and for this origin. */
  readonly verify: (issuer: string, token: string) => Promise<KeyToken | undefined>;
}

/**
 * Creates access tokens with keys that are derived from the instance's secrets for this purpose, so that no token of a login
 * is an access token and vice versa. The first key signs and all of them verify. The tokens contain no grants, so that revoking
 * a grant takes effect immediately.
 */
export function accessTokens(secrets: InstanceSecrets): AccessTokens {
  const keys = secrets.keys('OAuth access tokens');
  return {
    sign: (issuer, { organization, key, user, client }, seconds) =>
      new SignJWT({ client_id: client, organization, connection: key })
        .setProtectedHeader({ alg: algorithm, typ: type })
        .setIssuer(issuer)
        .setAudience(issuer)
        .setSubject(user)
        .setJti(generatePublicId())
        .setIssuedAt()
        .setExpirationTime(`${seconds} seconds`)
        .sign(keys[0] ?? Buffer.alloc(0)),
    verify: async (issuer, token) => {
      if (token.length > maxLength) return undefined;
      const options = {
        ...{ algorithms: [algorithm], issuer, audience: issuer, typ: type, clockTolerance },
        requiredClaims: ['sub', 'client_id', 'organization', 'connection', 'iat', 'exp', 'jti'],
      };
      for (const key of keys) {
        const result = await jwtVerify<Record<string, unknown>>(token, key, options).catch(() => undefined);
        if (result === undefined) continue;
        const { sub, client_id: client, organization, connection } = result.payload;
        return typeof client === 'string' && isId(organization) && isId(connection) && isId(sub)
          ? { organization, key: connection, user: sub, client }
          : undefined;
      }
      return undefined;
    },
  };
}

const isId = (value: unknown): value is string => typeof value === 'string' && isRowId(value);

/** Returns whether a route accepts access tokens: the MCP endpoint and the API for records. */
export function acceptsAccessTokens({ routeOptions: { url = '' } }: FastifyRequest): boolean {
  return url === mcpPath || url.startsWith(`${apiPrefix}/`);
}
