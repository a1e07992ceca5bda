import { UserError } from '../errors.ts';
import { isStorable } from '../fields/index.ts';

/**
 * Validates a name that a person gives to something, and trims it.
 * @param what is named, as in "the name must have …"
 * @throws UserError if it cannot be stored and displayed
 */
export function displayName(given: string, what: string): string {
  const trimmed = given.trim();
  if (trimmed === '' || trimmed.length > 200 || !isStorable(trimmed)) {
    throw new UserError(`${what} must have 1 to 200 characters`);
  }
  return trimmed;
}
