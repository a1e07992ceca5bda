import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** Lengths in base-62 characters: 10 identify the key, 43 encode a 256-bit secret, and 6 encode a CRC-32. */
const lengths = { publicId: 10, secret: 43, checksum: 6 } as const;
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** A new API key and its stored parts. */
interface NewKey {
  /** `<prefix><public ID>_<secret><checksum>`. Shown only once and never stored. */
  readonly plaintext: string;
  readonly publicId: string;
  /** SHA-256 in hex. The secret is random, so a slow hash would not add security. */
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
 * Returns the public ID in a key, or undefined if the format or the checksum is wrong. Detects typos without querying
 * the database.
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
 * Returns a function that compares keys with a stored hash in constant time. It caches the last matching key,
 * because rehashing it for every request would take longer than the rest of the authentication.
 */
export function createKeyMatcher(storedHash: Buffer): (key: string) => boolean {
  let lastMatch: Buffer | undefined;
  return (key) => {
    const bytes = Buffer.from(key);
    if (lastMatch !== undefined && lastMatch.length === bytes.length && timingSafeEqual(bytes, lastMatch))
      return true;
    if (!timingSafeEqual(digest(key), storedHash)) return false;
    lastMatch = bytes;
    return true;
  };
}

const digest = (text: string): Buffer => hash('sha256', text, 'buffer');

/** Returns a key's CRC-32 in base 62. Uses numbers instead of bigints because it runs for every request. */
function checksum(body: string): string {
  let text = '';
  for (let rest = crc32(body), digit = 0; digit < lengths.checksum; digit++, rest = Math.floor(rest / 62)) {
    text = alphabet.charAt(rest % 62) + text;
  }
  return text;
}

function base62(value: bigint, length: number): string {
  let text = '';
  for (let rest = value, digit = 0; digit < length; digit++, rest /= 62n) {
    text = alphabet.charAt(Number(rest % 62n)) + text;
  }
  return text;
}
