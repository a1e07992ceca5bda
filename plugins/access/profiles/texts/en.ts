import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the pages for profiles. */
export default {
  profiles: 'Profiles',
} as const satisfies Catalogue;
