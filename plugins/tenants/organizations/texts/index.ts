import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the pages for organizations. */
export const organizationsTexts = defineTexts('organizations', en, { de });
