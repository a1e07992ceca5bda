import { UserError } from '../errors.ts';
import { isStorable } from '../fields/index.ts';

/** Line breaks and other control characters, and characters that change the direction of text. */
const invisible = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u;

/**
 * Validates a name that a user gives to something, and trims it. Names are displayed next to other text and sent in emails,
 * so they are a single line without characters that change how the text around them is displayed.
 * @param label names the value, as in "the name must have …"
 * @throws UserError if it cannot be stored and displayed
 */
export function displayName(input: string, label: string): string {
  const name = input.trim();
  if (name === '' || name.length > 200 || !isStorable(name)) {
    throw new UserError(`${label} must have 1 to 200 characters`);
  }
  const [character] = invisible.exec(name) ?? [];
  if (character !== undefined) {
    throw new UserError(
      `${label} must not contain line breaks, control characters or characters that change the text direction (found ${codePoint(character)})`,
    );
  }
  return name;
}

/** Replaces each run of characters that {@link displayName} rejects by a space, for text stored before it did. */
export const singleLine = (text: string): string =>
  text.replace(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]+/gu, ' ').trim();

/** As in "U+202E". */
const codePoint = (character: string): string =>
  `U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
