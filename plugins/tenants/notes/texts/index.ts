import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of errors of notes. */
export const notesTexts = defineTexts('notes', en, { de });
