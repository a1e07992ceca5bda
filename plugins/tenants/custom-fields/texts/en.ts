import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the pages for custom fields. */
export default {
  customFields: 'Custom fields',
} as const satisfies Catalogue;
