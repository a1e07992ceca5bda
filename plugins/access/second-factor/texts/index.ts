import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the pages for second factors. */
export const secondFactorTexts = defineTexts('second-factor', en, { de });
