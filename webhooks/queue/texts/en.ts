import type { Catalogue } from '../../../plugins/admin-ui/shell/index.ts';

/** English texts of the pages for deliveries. */
export default {
  waiting: 'Waiting',
  delivered: 'Delivered',
  failed: 'Failed',
  last: '{title}: the last {number}',
  lastDays: '{title}: the last 7 days',
  status: 'Status',
  number: 'Number',
  failedCount: '{title}: {count} failed.',
  showFailures: 'Show failures',
  showFailuresOf: 'Show failures: {title}',
} as const satisfies Catalogue;
