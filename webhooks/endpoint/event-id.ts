import { hash } from 'node:crypto';

/** Characters of a name that an index certainly holds, in whatever script. */
const longest = 200;

/**
 * What a provider calls a thing, as an index can hold it: without what PostgreSQL refuses, and the digest of one that
 * is longer than any provider's. Names that differ stay different.
 */
export function indexable(name: string): string {
  const text = name.toWellFormed().replaceAll('\0', '');
  return text.length <= longest ? text : hash('sha256', text, 'hex');
}
