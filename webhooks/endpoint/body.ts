import { errors } from '../../engine/errors.ts';
import { isStorable } from '../../engine/fields/index.ts';
import type { Body } from '../../engine/records/index.ts';
import { ownProperty } from './own-property.ts';

/**
 * The named keys of a body as strings; null and absent ones are left out, others ignored.
 * @throws HttpError 400 with every key that is no string, or holds U+0000 or a lone surrogate
 */
export function stringFields(body: Body, names: readonly string[]): Record<string, string> {
  const given = names.flatMap((name) => {
    const value = ownProperty(body, name);
    return value === undefined || value === null ? [] : [{ name, value }];
  });
  const wrong = given.filter(({ value }) => typeof value !== 'string' || !isStorable(value));
  if (wrong.length > 0) {
    throw errors.invalidFields(
      wrong.map(({ name }) => ({ field: name, message: `${name} must be a string` })),
    );
  }
  return Object.fromEntries(given.map(({ name, value }) => [name, String(value)]));
}
