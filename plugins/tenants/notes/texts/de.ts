import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of errors of notes. */
export default {
  length: 'Eine Notiz muss 1 bis {max} Zeichen lang sein.',
} as const satisfies TranslationOf<typeof en>;
