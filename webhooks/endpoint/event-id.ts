import { hash } from 'node:crypto';

/** Maximum number of characters in an ID. An ID of this length fits into an index in any script. */
const maxLength = 200;

/**
 * Converts a provider's ID to a form that can be indexed. Removes characters that PostgreSQL rejects, and replaces a
 * long ID with its digest, so that distinct IDs remain distinct.
 */
export function indexable(name: string): string {
  const text = name.toWellFormed().replaceAll('\0', '');
  return text.length <= maxLength ? text : hash('sha256', text, 'hex');
}
