import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the pages that erase a person. */
export default {
  erasePerson: 'Erase a person',
} as const satisfies Catalogue;
