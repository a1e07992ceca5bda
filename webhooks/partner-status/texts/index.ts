import { defineTexts } from '../../../plugins/admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the page about partner endpoints. */
export const partnersTexts = defineTexts('partner-status', en, { de });
