import { errors } from '../../engine/errors.ts';
import { isStorable } from '../../engine/fields/index.ts';
import type { Body } from '../../engine/records/index.ts';
import { ownProperty } from './own-property.ts';

/**
 * Returns the string values of the given keys. Null and missing values are omitted, and other keys are ignored.
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
