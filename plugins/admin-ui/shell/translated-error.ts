import { HttpError, UserError } from '../../../engine/errors.ts';
import type { TextIn } from './catalogue.ts';

/** An error whose message is a text of a catalogue. Its message for the API, commands and the log is in English. */
export class TranslatedError extends UserError {
  readonly translation: TextIn;

  constructor(translation: TextIn, options?: ErrorOptions) {
    super(translation('en'), options);
    this.translation = translation;
  }
}

/** A page or an action that the user is not allowed to open, with a text of a catalogue. */
export class ForbiddenError extends HttpError {
  readonly translation: TextIn;

  constructor(translation: TextIn) {
    super(403, 'forbidden', translation('en'));
    this.translation = translation;
  }
}
