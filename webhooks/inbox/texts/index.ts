import { defineTexts } from '../../../plugins/admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the pages for integrations. */
export const inboxTexts = defineTexts('inbox', en, { de });
