import { hash } from 'node:crypto';
import type { JWTHeaderParameters } from 'jose';
import { SignJWT } from 'jose/jwt/sign';
import { jwtVerify } from 'jose/jwt/verify';
import type { InstanceSecrets } from '../secrets/index.ts';

/** The only algorithm used to sign tokens and accepted when verifying them. */
const algorithm = 'HS256';
const issuer = 'crm';
const audience = 'crm-api';
const type = 'at+jwt';
/** Maximum length of an issued token, in characters. */
const maxLength = 1024;
/** Tolerated clock difference between nodes, in seconds. */
export const clockTolerance = 5;

/**
 * A token's claims. They contain neither grants nor organizations, so that revoking a grant or membership
 * takes effect immediately.
 */
interface Claims {
  readonly user: string;
  /** The login ID. The token is void once the login's session has ended. */
  readonly jti: string;
  readonly version: number;
}

/** Signs and verifies users' tokens (JWT of the type defined in RFC 9068). */
interface Tokens {
  readonly sign: (claims: Claims, expires: Date) => Promise<string>;
  /** Returns undefined if the token is not valid or was not issued by this instance. */
  readonly verify: (token: string) => Promise<Claims | undefined>;
}

/**
 * Creates tokens with the instance's secrets. The first secret signs tokens and all of them verify tokens, so that
 * secrets can be rotated without an outage.
 */
export function tokens(secrets: InstanceSecrets): Tokens {
  const keys = new Map(secrets.all.map((secret) => [keyId(secret), Buffer.from(secret, 'utf8')]));
  const [kid = '', key = Buffer.alloc(0)] = [...keys][0] ?? [];
  const options = {
    algorithms: [algorithm],
    issuer,
    audience,
    typ: type,
    clockTolerance,
    requiredClaims: ['sub', 'iat', 'exp', 'jti', 'ver'],
  };
  const keyFor = ({ kid: requestedKid }: JWTHeaderParameters) => {
    const match = requestedKid === undefined ? undefined : keys.get(requestedKid);
    if (match === undefined) throw new Error('unknown key');
    return match;
  };
  return {
    sign: ({ user, jti, version }, expires) =>
      new SignJWT({ ver: version })
        .setProtectedHeader({ alg: algorithm, typ: type, kid })
        .setIssuer(issuer)
        .setAudience(audience)
        .setSubject(user)
        .setJti(jti)
        .setIssuedAt()
        .setExpirationTime(expires)
        .sign(key),
    verify: async (token) => {
      if (token.length > maxLength) return undefined;
      try {
        const { payload } = await jwtVerify<{ ver: unknown }>(token, keyFor, options);
        const { sub, jti, ver, iat = 0 } = payload;
        const isInFuture = iat > Date.now() / 1000 + clockTolerance;
        if (sub === undefined || jti === undefined || typeof ver !== 'number' || isInFuture) return undefined;
        if (!isLoginId(jti)) return undefined;
        return { user: sub, jti, version: ver };
      } catch {
        return undefined;
      }
    },
  };
}

/** Reports whether a string has the format of a login ID. Other strings are rejected without a query. */
const isLoginId = (text: string): boolean => /^[\w-]{1,64}$/.test(text);

/** Returns an ID that identifies a secret without revealing it. */
const keyId = (secret: string): string => hash('sha256', `key id of ${secret}`, 'hex').slice(0, 16);
