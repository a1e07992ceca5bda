import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** Lengths in base-62 characters: 10 name a key, 43 hold 256 bits, 6 hold a CRC-32. */
const lengths = { publicId: 10, secret: 43, checksum: 6 } as const;
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** An API key and its stored parts. */
export interface NewKey {
  /** `<prefix><public id>_<secret><checksum>`; shown once, never stored. */
  readonly plaintext: string;
  readonly publicId: string;
  /** SHA-256, hex. The secret is random, so a slow hash would add no security. */
  readonly hash: string;
  readonly lastFour: string;
}

/** Generates a random API key. */
export function generateKey(prefix: string): NewKey {
  const publicId = base62(BigInt(`0x${randomBytes(8).toString('hex')}`), lengths.publicId);
  const secret = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), lengths.secret);
  const body = `${prefix}${publicId}_${secret}`;
  const plaintext = body + checksum(body);
  return { plaintext, publicId, hash: digest(plaintext).toString('hex'), lastFour: plaintext.slice(-4) };
}

/**
 * Reads the public id of a key, without the database.
 * @returns undefined if the format or the checksum is wrong (a typo)
 */
export function publicIdOf(prefix: string, key: string): string | undefined {
  const { publicId, secret, checksum: check } = lengths;
  if (key.length !== prefix.length + publicId + 1 + secret + check || !key.startsWith(prefix))
    return undefined;
  const body = key.slice(0, -check);
  if (key.slice(-check) !== checksum(body)) return undefined;
  const id = key.slice(prefix.length, prefix.length + publicId);
  return body[prefix.length + publicId] === '_' && /^[0-9A-Za-z]+$/.test(id) ? id : undefined;
}

/**
 * Tells whether a key matches a stored hash, in constant time. It remembers the key that did, because hashing it again
 * for every request would cost more than the rest of its authentication.
 */
export function createKeyMatcher(storedHash: Buffer): (key: string) => boolean {
  let known: Buffer | undefined;
  return (key) => {
    const given = Buffer.from(key);
    if (known !== undefined && known.length === given.length && timingSafeEqual(given, known)) return true;
    if (!timingSafeEqual(digest(key), storedHash)) return false;
    known = given;
    return true;
  };
}

const digest = (text: string): Buffer => hash('sha256', text, 'buffer');

/** In plain numbers, because it is computed for every request. */
function checksum(body: string): string {
  let text = '';
  for (let rest = crc32(body), place = 0; place < lengths.checksum; place++, rest = Math.floor(rest / 62)) {
    text = alphabet.charAt(rest % 62) + text;
  }
  return text;
}

function base62(value: bigint, length: number): string {
  let text = '';
  for (let rest = value, place = 0; place < length; place++, rest /= 62n) {
    text = alphabet.charAt(Number(rest % 62n)) + text;
  }
  return text;
}
