import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the login with a provider. */
export const openIdTexts = defineTexts('openid-connect', en, { de });
