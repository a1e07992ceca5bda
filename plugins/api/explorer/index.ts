// The OpenAPI document and the API explorer.
// May import engine, identity, admin-ui/shell.

import type { Module } from '../../../engine/modules/index.ts';
import { type DocumentationOptions, documentation } from './explorer.ts';

export { type LimitedField, limitedFields, transitionSentences } from './transition-diagram.ts';

/** The OpenAPI document and the API explorer. */
export const explorerModule: Module<DocumentationOptions> = {
  name: 'explorer',
  register: async (app, services) => {
    await app.register(documentation, services);
  },
};
