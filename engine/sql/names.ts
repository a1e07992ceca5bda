import { createHash } from 'node:crypto';

/** A quoted identifier. Names come from checked definitions only, so they hold no quote. */
export const quote = (name: string): string => `"${name}"`;

/** PostgreSQL truncates names to 63 bytes; two that differ only after that would collide. */
const maxIdentifier = 63;

/** A name that fits PostgreSQL's limit: one that is too long ends in a hash of the whole. */
export function identifier(name: string): string {
  if (name.length <= maxIdentifier) return name;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 8);
  return `${name.slice(0, maxIdentifier - 9)}_${hash}`;
}

/** A quoted text literal, for defaults in definitions. */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;
