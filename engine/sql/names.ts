import { createHash } from 'node:crypto';

/** Quotes an identifier. Names come from checked definitions only, so they cannot contain quotes. */
export const quote = (name: string): string => `"${name}"`;

/** Maximum length of a name. PostgreSQL truncates longer names, which could then collide. */
const maxIdentifier = 63;

/** Shortens a name to PostgreSQL's limit. A shortened name ends with a hash of the original. */
export function identifier(name: string): string {
  if (name.length <= maxIdentifier) return name;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 8);
  return `${name.slice(0, maxIdentifier - 9)}_${hash}`;
}

/** Quotes a string literal, for example a default from a definition. */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;
