import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the lines about quotas on the home page. */
export default {
  records: 'Records',
  storage: 'Storage in MB',
  usage: '{label}: {used} of {quota}.',
  exceeded: '{label}: {used} of {quota}. You cannot create more.',
} as const satisfies Catalogue;
