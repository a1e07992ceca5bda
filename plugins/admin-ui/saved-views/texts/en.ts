import type { Catalogue } from '../../shell/index.ts';

/** English texts of errors of saved views. */
export default {
  tooMany: 'you already have {max} views of this list. Delete a view first.',
  tooManyFilters: 'this view has too many filters to be saved. Remove some of them.',
  nameTaken: 'a view named "{name}" already exists',
} as const satisfies Catalogue;
