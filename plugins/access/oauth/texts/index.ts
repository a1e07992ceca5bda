import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the consent page and the lists of connected apps. */
export const oauthTexts = defineTexts('oauth', en, { de });
