import { UserError } from '../../../engine/errors.ts';
import type { Language, TextIn } from './catalogue.ts';

/** An error whose message is a text of a catalogue. Its message for the API, commands and the log is in English. */
export class TranslatedError extends UserError {
  readonly text: TextIn;

  constructor(text: TextIn, options?: ErrorOptions) {
    super(text('en'), options);
    this.text = text;
  }
}

/** Returns an error's message in a language, or in English if it is not translated. */
export const messageIn = (error: UserError, language: Language): string =>
  error instanceof TranslatedError ? error.text(language) : error.message;
