import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of login, invitations, password resets and the user's own page. */
export const loginTexts = defineTexts('login', en, { de });
