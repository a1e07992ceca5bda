import { hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** A random secret of 256 bits, for cookies. */
export const makeSecret = (): string => randomBytes(32).toString('base64url');

/** A random id for URLs: it grants nothing by itself. */
export const makePublicId = (): string => randomBytes(9).toString('base64url');

/** A random code of 80 bits that a person can copy: four groups of four. */
export function makeCode(): string {
  const alphabet = 'ABCDEFGHJKLMNPQRSTUVWXYZ23456789';
  const letters = [...randomBytes(16)].map((byte) => alphabet[byte % alphabet.length] ?? '');
  return [0, 4, 8, 12].map((start) => letters.slice(start, start + 4).join('')).join('-');
}

/** SHA-256 in hex: how random secrets are stored. */
export const hashSecret = (secret: string): string => hash('sha256', secret, 'hex');

/** Whether a secret matches a stored hash; constant time. */
export const isSecret = (secret: string, storedHash: string): boolean =>
  timingSafeEqual(hash('sha256', secret, 'buffer'), Buffer.from(storedHash, 'hex'));
