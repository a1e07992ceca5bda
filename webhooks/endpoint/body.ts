import { hash } from 'node:crypto';
import { errors } from '../../engine/errors.ts';
import { isStorable } from '../../engine/fields/index.ts';
import type { Body } from '../../engine/records/index.ts';

/** Returns an object's own property for an untrusted name, never an inherited one. */
export const ownProperty = <T>(
  record: Readonly<Record<string, T>> | undefined,
  name: string,
): T | undefined => (record !== undefined && Object.hasOwn(record, name) ? record[name] : undefined);

/** Maximum number of characters in an ID. At this length, an ID in any script fits into an index. */
const maxLength = 200;

/**
 * Converts a provider's ID to a form that can be indexed. Removes characters that PostgreSQL rejects.
 * Replaces a long ID with its digest so that distinct IDs remain distinct.
 */
export function indexable(name: string): string {
  const text = name.toWellFormed().replaceAll('\0', '');
  return text.length <= maxLength ? text : hash('sha256', text, 'hex');
}

/**
 * Returns the string values for these keys. Null and missing values are omitted, and other keys are ignored.
 * @throws HttpError 400 listing every value that is not a string or contains U+0000 or a lone surrogate
 */
export function stringFields(body: Body, names: readonly string[]): Record<string, string> {
  const entries = names.flatMap((name) => {
    const value = ownProperty(body, name);
    return value === undefined || value === null ? [] : [{ name, value }];
  });
  const invalid = entries.filter(({ value }) => typeof value !== 'string' || !isStorable(value));
  if (invalid.length > 0) {
    throw errors.invalidFields(
      invalid.map(({ name }) => ({ field: name, message: `${name} must be a string` })),
    );
  }
  return Object.fromEntries(entries.map(({ name, value }) => [name, String(value)]));
}
