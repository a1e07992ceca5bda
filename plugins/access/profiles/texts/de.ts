import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for profiles. */
export default {
  profiles: 'Profile',
} as const satisfies TranslationOf<typeof en>;
