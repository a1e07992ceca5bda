import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of errors of notes. */
export default {
  length: 'a note must have 1 to {max} characters',
} as const satisfies Catalogue;
