import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the pages for profiles. */
export const profilesTexts = defineTexts('profiles', en, { de });
