import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the line about backups on the home page. */
export const backupTexts = defineTexts('backup', en, { de });
