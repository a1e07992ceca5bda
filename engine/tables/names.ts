import { UserError } from '../errors.ts';
import { isStorable } from '../fields/index.ts';

/** Why a name is invalid. `character` is a code point, for example "U+202E". */
type NameReason =
  | { readonly kind: 'length'; readonly max: number }
  | { readonly kind: 'characters'; readonly character: string };

/** An invalid name. */
export class NameError extends UserError {
  readonly reason: NameReason;

  constructor(message: string, reason: NameReason) {
    super(message);
    this.reason = reason;
  }
}

/** Line breaks, other control characters, and characters that change the text direction. */
const rejectedCharacters = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u;

/**
 * Validates and trims a name entered by a user. Names are displayed next to other text and in emails, so they
 * must be a single line and must not affect how surrounding text is displayed.
 * @param label the start of the error message, for example "the name"
 * @param maxLength maximum number of characters
 * @throws NameError if the name cannot be stored and displayed
 */
export function displayName(input: string, label: string, maxLength = 200): string {
  const name = input.trim();
  if (name === '' || name.length > maxLength || !isStorable(name)) {
    throw new NameError(`${label} must have 1 to ${maxLength} characters`, {
      kind: 'length',
      max: maxLength,
    });
  }
  const [character] = rejectedCharacters.exec(name) ?? [];
  if (character !== undefined) {
    throw new NameError(
      `${label} must not contain line breaks, control characters or characters that change the text direction (found ${codePoint(character)})`,
      { kind: 'characters', character: codePoint(character) },
    );
  }
  return name;
}

/** Replaces characters that {@link displayName} rejects with spaces, for text stored without validation. */
export const singleLine = (text: string): string =>
  text.replace(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]+/gu, ' ').trim();

/** Formats a character's code point, for example "U+202E". */
const codePoint = (character: string): string =>
  `U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
