import { defineTexts } from '../../catalogue.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of errors. */
export const errorsTexts = defineTexts('errors', en, { de });

/** Returns the texts of errors in a language. */
export type ErrorsText = ReturnType<typeof errorsTexts>;
