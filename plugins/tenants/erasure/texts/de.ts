import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages that erase a person. */
export default {
  erasePerson: 'Person löschen',
} as const satisfies TranslationOf<typeof en>;
