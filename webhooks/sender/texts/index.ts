import { defineTexts } from '../../../plugins/admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts about outgoing messages. */
export const senderTexts = defineTexts('sender', en, { de });
