import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the line about backups on the home page. */
export default {
  noBackup: 'Es gibt kein Backup.',
  lastBackup: 'Letztes Backup: {time}.',
  failedBackup: 'Das um {time} gestartete Backup ist fehlgeschlagen.',
} as const satisfies TranslationOf<typeof en>;
