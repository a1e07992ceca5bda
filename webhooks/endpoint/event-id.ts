import { hash } from 'node:crypto';

/** Characters of an id that always fit into an index, in any script. */
const longest = 200;

/**
 * A provider's id in a form that fits into an index: without characters that PostgreSQL refuses, and as a digest if it
 * is very long. Different ids stay different.
 */
export function indexable(name: string): string {
  const text = name.toWellFormed().replaceAll('\0', '');
  return text.length <= longest ? text : hash('sha256', text, 'hex');
}
