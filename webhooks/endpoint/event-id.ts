import { hash } from 'node:crypto';

/** Maximum number of characters of an ID that fits into an index in any script. */
const maxLength = 200;

/**
 * Makes a provider's ID indexable: removes characters that PostgreSQL rejects, and replaces a very long ID with its
 * digest, so that different IDs stay different.
 */
export function indexable(name: string): string {
  const text = name.toWellFormed().replaceAll('\0', '');
  return text.length <= maxLength ? text : hash('sha256', text, 'hex');
}
