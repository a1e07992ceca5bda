import { defineTexts } from '../../shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the pages of records. */
export const recordsTexts = defineTexts('records', en, { de });

/** The function that finds the texts of a page in its language. */
export type RecordsText = ReturnType<typeof recordsTexts>;
