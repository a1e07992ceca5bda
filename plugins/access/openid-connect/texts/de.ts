import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the login with a provider. */
export default {
  logInWith: 'Mit {provider} anmelden',
} as const satisfies TranslationOf<typeof en>;
