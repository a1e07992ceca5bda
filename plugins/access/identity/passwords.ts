import { randomBytes } from 'node:crypto';
import { hash, needsRehash, verify } from 'argon2';
import pLimit from 'p-limit';
import { IdentityError } from './identity-error.ts';

/**
 * Common passwords in lower case. Loaded when the first password is checked, because most processes never need them.
 */
let passwordSet: Promise<ReadonlySet<string>> | undefined;
const commonPasswords = () => {
  passwordSet ??= import('@zxcvbn-ts/language-common').then(
    ({ dictionary }) => new Set(dictionary['passwords-common']),
  );
  return passwordSet;
};

/** Returns the letters and digits of a string in lower case: `Ada.Lovelace!` becomes `adalovelace`. */
const lettersAndDigits = (text: string): string =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]/gu, '');
/**
 * Returns the letters and digits of a string, without leading and trailing digits. Adding a number to a word
 * does not make a password stronger.
 */
const withoutOuterDigits = (text: string): string => lettersAndDigits(text).replace(/^\p{N}+|\p{N}+$/gu, '');

/**
 * Rejects passwords that attackers try first: common passwords and parts of the user's email address.
 * @throws UserError with the reason
 */
async function rejectGuessable(password: string, email: string): Promise<void> {
  const [local = '', domain = ''] = email.split('@');
  const names = [email, local, domain, domain.split('.')[0] ?? '']
    .map(lettersAndDigits)
    .filter((name) => name !== '');
  if (
    names.some(
      (name) =>
        lettersAndDigits(password) === name ||
        withoutOuterDigits(password) === (withoutOuterDigits(name) || name),
    )
  ) {
    throw new IdentityError('the password must not be the user’s email address or name', {
      kind: 'passwordLikeUser',
    });
  }
  const common = await commonPasswords();
  const forms = [password.toLowerCase(), lettersAndDigits(password)];
  if (forms.some((form) => common.has(form))) {
    throw new IdentityError('this password is too common. Choose another.', { kind: 'passwordTooCommon' });
  }
}

/** OWASP's minimum for argon2id: 19 MiB of memory, two passes, one lane. */
const parameters = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;
/** Matches a hash with these parameters and captures its salt. */
const saltPattern = /^\$argon2id\$v=19\$m=19456,p=1,t=2\$([\w+/]+)\$/;

// Each hash occupies a core for tens of milliseconds. A hundred concurrent logins must not starve other work.
const limit = pLimit(2);

/** Generates a random 128-bit password. */
export const generatePassword = (): string => randomBytes(16).toString('base64url');

/** Minimum number of characters in a new password. */
export const minPasswordLength = 8;
const maxLength = 256;

/**
 * Normalizes a password for hashing (NFC).
 * @returns undefined if it is too long, because normalizing it would take time quadratic in its length
 */
function normalPassword(password: string): string | undefined {
  // A character has at most two UTF-16 units when composed, and four when decomposed.
  if (password.length > 4 * maxLength) return undefined;
  const normal = password.normalize('NFC');
  return [...normal].length > maxLength ? undefined : normal;
}

/**
 * Validates a new password for the user with this email address.
 * @throws IdentityError unless its length is within the limits and it is not easy to guess
 */
export async function checkNewPassword(password: string, email: string): Promise<void> {
  const normal = normalPassword(password);
  if (normal === undefined || [...normal].length < minPasswordLength) {
    throw new IdentityError(`the password must have ${minPasswordLength} to ${maxLength} characters`, {
      ...{ kind: 'passwordLength', min: minPasswordLength, max: maxLength },
    });
  }
  await rejectGuessable(normal, email);
}

/**
 * Hashes a password with argon2id.
 * @param sameSalt hashes of other users with the same email address, whose salt is reused so that a login
 * computes only one hash for all users
 */
export function hashPassword(password: string, sameSalt: readonly string[] = []): Promise<string> {
  const [salt] = sameSalt.flatMap((storedHash) => saltPattern.exec(storedHash)?.[1] ?? []);
  return limit(() => hashWith(normalPassword(password) ?? '', salt));
}

const hashWith = (normal: string, salt: string | undefined): Promise<string> =>
  hash(normal, salt === undefined ? parameters : { ...parameters, salt: Buffer.from(salt, 'base64') });

/**
 * A hash that no password matches. Comparing with it makes a login attempt for an unknown user take as long
 * as one with a wrong password.
 */
const dummyHash = hash(randomBytes(32), parameters);

/**
 * Compares a password with stored hashes. Comparing with several hashes that share a salt takes as long as
 * comparing with one. A password that is too long does not match any hash.
 * @param hashes the users' hashes; if empty, the comparison takes as long as with one hash
 * @returns for each hash, whether the password matches
 */
export async function checkPassword(password: string, hashes: readonly string[]): Promise<boolean[]> {
  const normalized = normalPassword(password);
  const input = normalized ?? '';
  if (hashes.length === 0) await limit(async () => verify(await dummyHash, input));
  const bySalt = new Map<string, Promise<string>>();
  const matches = await Promise.all(
    hashes.map((storedHash) => {
      const salt = hashes.length > 1 ? saltPattern.exec(storedHash)?.[1] : undefined;
      if (salt === undefined) return limit(() => verify(storedHash, input));
      const rehash = bySalt.get(salt) ?? limit(() => hashWith(input, salt));
      bySalt.set(salt, rehash);
      // Both are hashes of passwords, so a timing difference reveals nothing useful.
      return rehash.then((result) => result === storedHash);
    }),
  );
  return matches.map((isMatch) => isMatch && normalized !== undefined);
}

/** Reports whether a hash was created with parameters weaker than the current ones. */
export const isOutdated = (storedHash: string): boolean =>
  // The library compares only the numeric parameters, not the argon2 variant.
  needsRehash(storedHash, parameters) || !storedHash.startsWith('$argon2id$');
