import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the line about backups on the home page. */
export default {
  noBackup: 'No backup exists.',
  lastBackup: 'Last backup: {time}.',
  failedBackup: 'The backup started at {time} failed.',
} as const satisfies Catalogue;
