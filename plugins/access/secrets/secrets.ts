import { hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** Generates a random 256-bit secret for a cookie. */
export const generateSecret = (): string => randomBytes(32).toString('base64url');

/** Generates a random ID for URLs. It does not grant anything by itself. */
export const generatePublicId = (): string => randomBytes(9).toString('base64url');

/** Generates a random 80-bit code that is easy to copy: four groups of four characters. */
export function generateCode(): string {
  const alphabet = 'ABCDEFGHJKLMNPQRSTUVWXYZ23456789';
  const letters = [...randomBytes(16)].map((byte) => alphabet[byte % alphabet.length] ?? '');
  return [0, 4, 8, 12].map((start) => letters.slice(start, start + 4).join('')).join('-');
}

/** Returns the SHA-256 digest of a random secret in hex, for storage. */
export const hashSecret = (secret: string): string => hash('sha256', secret, 'hex');

/** Reports whether a secret matches a stored hash, in constant time. */
export const isSecret = (secret: string, storedHash: string): boolean =>
  timingSafeEqual(hash('sha256', secret, 'buffer'), Buffer.from(storedHash, 'hex'));
