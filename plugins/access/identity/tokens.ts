import { hash } from 'node:crypto';
import type { JWTHeaderParameters } from 'jose';
import { SignJWT } from 'jose/jwt/sign';
import { jwtVerify } from 'jose/jwt/verify';
import type { InstanceSecrets } from '../secrets/index.ts';

/** The only algorithm used and accepted. */
const algorithm = 'HS256';
const issuer = 'crm';
const audience = 'crm-api';
const type = 'at+jwt';
/** Upper limit on the length of our tokens. */
const maxLength = 1024;
/** Tolerated clock difference between nodes, in seconds. */
const tolerance = 5;

/** The claims of a token: no role and no organization, so that revoking one takes effect immediately. */
export interface Claims {
  readonly user: string;
  /** The id of the login; the token ends with it. */
  readonly jti: string;
  readonly version: number;
}

/** Signs and verifies the tokens of people (JWT, RFC 9068's type). */
export interface Tokens {
  readonly sign: (claims: Claims, expires: Date) => Promise<string>;
  /** undefined for every token that is not ours and valid. */
  readonly verify: (token: string) => Promise<Claims | undefined>;
}

/** Tokens with the instance's secrets: the first signs, all verify, so that secrets rotate without an outage. */
export function tokens(secrets: InstanceSecrets): Tokens {
  const keys = new Map(secrets.all.map((secret) => [keyId(secret), Buffer.from(secret, 'utf8')]));
  const [kid = '', key = Buffer.alloc(0)] = [...keys][0] ?? [];
  const options = {
    algorithms: [algorithm],
    issuer,
    audience,
    typ: type,
    clockTolerance: tolerance,
    requiredClaims: ['sub', 'iat', 'exp', 'jti', 'ver'],
  };
  const find = ({ kid: wanted }: JWTHeaderParameters) => {
    const found = wanted === undefined ? undefined : keys.get(wanted);
    if (found === undefined) throw new Error('unknown key');
    return found;
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
        const { payload } = await jwtVerify<{ ver: unknown }>(token, find, options);
        const { sub, jti, ver, iat = 0 } = payload;
        const ahead = iat > Date.now() / 1000 + tolerance;
        if (sub === undefined || jti === undefined || typeof ver !== 'number' || ahead) return undefined;
        if (!isLoginId(jti)) return undefined;
        return { user: sub, jti, version: ver };
      } catch {
        return undefined;
      }
    },
  };
}

/** Whether a text has the format of a login's id; others are refused without a query. */
const isLoginId = (text: string): boolean => /^[\w-]{1,64}$/.test(text);

/** An id of a secret that does not reveal it. */
const keyId = (secret: string): string => hash('sha256', `key id of ${secret}`, 'hex').slice(0, 16);
