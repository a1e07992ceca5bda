import { randomBytes } from 'node:crypto';
import { hash, needsRehash, verify } from 'argon2';
import pLimit from 'p-limit';
import { UserError } from '../errors.ts';

/** OWASP's minimum for argon2id: 19 MiB, two passes, one lane. */
const parameters = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;

// Each takes tens of milliseconds of a core: a hundred logins at once must not starve everything else.
const limited = pLimit(2);

/** A password nobody has to think of: 128 bits. */
export const makePassword = (): string => randomBytes(16).toString('base64url');

/**
 * Hashes a new password with argon2id.
 * @throws UserError unless it has 8 to 1,000 characters
 */
export function hashPassword(password: string): Promise<string> {
  const length = [...password].length;
  if (length < 8 || length > 1000) throw new UserError('a password has 8 to 1,000 characters');
  return limited(() => hash(password.normalize('NFC'), parameters));
}

/** A hash that no password has, so that an unknown user takes as long as a wrong password. */
const nobody = hash(randomBytes(32), parameters);

/**
 * Whether a password is right.
 * @param stored undefined where there is no such user; takes the same time
 * @returns the password's new hash where the stored one was made with weaker parameters
 */
export async function checkPassword(
  password: string,
  stored: string | undefined,
): Promise<{ readonly right: boolean; readonly rehashed?: string }> {
  const known = stored ?? (await nobody);
  const normal = password.normalize('NFC');
  const right = (await limited(() => verify(known, normal))) && stored !== undefined;
  // The library compares numbers only, not the kind of argon2.
  return right && (needsRehash(known, parameters) || !known.startsWith('$argon2id$'))
    ? { right, rehashed: await limited(() => hash(normal, parameters)) }
    : { right };
}
