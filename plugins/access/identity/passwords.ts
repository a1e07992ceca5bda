import { randomBytes } from 'node:crypto';
import { hash, needsRehash, verify } from 'argon2';
import pLimit from 'p-limit';
import { UserError } from '../../../engine/errors.ts';
import { rejectGuessable } from './common-passwords.ts';

/** OWASP's minimum for argon2id: 19 MiB, two passes, one lane. */
const parameters = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;
/** The prefix of a hash with these parameters, and the salt after it. */
const salted = /^\$argon2id\$v=19\$m=19456,p=1,t=2\$([\w+/]+)\$/;

// Each hash takes tens of milliseconds of a core: a hundred concurrent logins must not starve other work.
const limited = pLimit(2);

/** A random password of 128 bits. */
export const generatePassword = (): string => randomBytes(16).toString('base64url');

/** Limits on the characters of a password. */
const shortest = 8;
const longest = 256;

/**
 * Normalizes a password for hashing (NFC).
 * @returns undefined if it is longer than any password; normalizing such a text would take quadratic time in
 *   its length
 */
function normalPassword(password: string): string | undefined {
  // A character has at most two UTF-16 units composed, and four decomposed.
  if (password.length > 4 * longest) return undefined;
  const normal = password.normalize('NFC');
  return [...normal].length > longest ? undefined : normal;
}

/**
 * Validates a new password for the user of an address.
 * @throws UserError unless it has 8 to 256 characters and is not a common one
 */
export async function checkNewPassword(password: string, email: string): Promise<void> {
  const normal = normalPassword(password);
  if (normal === undefined || [...normal].length < shortest) {
    throw new UserError(`the password must have ${shortest} to ${longest} characters`);
  }
  await rejectGuessable(normal, email);
}

/**
 * Hashes a password with argon2id.
 * @param sameSalt hashes of other users of the same address: with the salt of one of them, a login takes the time
 *   of one hash however many users it is compared with
 */
export function hashPassword(password: string, sameSalt: readonly string[] = []): Promise<string> {
  const [salt] = sameSalt.flatMap((stored) => salted.exec(stored)?.[1] ?? []);
  return limited(() => hashWith(normalPassword(password) ?? '', salt));
}

const hashWith = (normal: string, salt: string | undefined): Promise<string> =>
  hash(normal, salt === undefined ? parameters : { ...parameters, salt: Buffer.from(salt, 'base64') });

/** A hash that no password matches, so that an unknown user takes as long as a wrong password. */
const dummyHash = hash(randomBytes(32), parameters);

/**
 * Compares a password with stored hashes; hashes with the same salt take the time of one. A password that is too long
 * is wrong.
 * @param stored the user's hashes; if empty, verification takes as long as for one hash
 * @returns for each hash whether the password is right
 */
export async function checkPassword(password: string, stored: readonly string[]): Promise<boolean[]> {
  const given = normalPassword(password);
  const normal = given ?? '';
  if (stored.length === 0) await limited(async () => verify(await dummyHash, normal));
  const bySalt = new Map<string, Promise<string>>();
  const equal = await Promise.all(
    stored.map((known) => {
      const salt = stored.length > 1 ? salted.exec(known)?.[1] : undefined;
      if (salt === undefined) return limited(() => verify(known, normal));
      const computed = bySalt.get(salt) ?? limited(() => hashWith(normal, salt));
      bySalt.set(salt, computed);
      // Both are hashes of passwords: the time of comparing them reveals nothing useful.
      return computed.then((made) => made === known);
    }),
  );
  return equal.map((same) => same && given !== undefined);
}

/** Whether a hash was made with weaker parameters than today's. */
export const isOutdated = (stored: string): boolean =>
  // The library compares numbers only, not the kind of argon2.
  needsRehash(stored, parameters) || !stored.startsWith('$argon2id$');
