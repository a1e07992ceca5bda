import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for custom fields. */
export default {
  customFields: 'Eigene Felder',
} as const satisfies TranslationOf<typeof en>;
