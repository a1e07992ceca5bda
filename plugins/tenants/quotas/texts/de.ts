import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the lines about quotas on the home page. */
export default {
  records: 'Datensätze',
  storage: 'Speicher in MB',
  usage: '{label}: {used} von {quota}.',
  exceeded: '{label}: {used} von {quota}. Sie können keine weiteren anlegen.',
} as const satisfies TranslationOf<typeof en>;
