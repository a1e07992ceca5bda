import { defineTexts } from '../catalogue.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the frame around every page, and of the templates that several modules use. */
export const shellTexts = defineTexts('shell', en, { de });
