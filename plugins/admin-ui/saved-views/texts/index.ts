import { defineTexts } from '../../shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of errors of saved views. */
export const savedViewsTexts = defineTexts('saved-views', en, { de });
