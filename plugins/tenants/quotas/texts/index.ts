import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the lines about quotas on the home page. */
export const quotasTexts = defineTexts('quotas', en, { de });
