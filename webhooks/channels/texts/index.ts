import { defineTexts } from '../../../plugins/admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts about the secrets of channels. */
export const channelsTexts = defineTexts('channels', en, { de });
