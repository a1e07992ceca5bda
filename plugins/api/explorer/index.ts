// The OpenAPI and AsyncAPI documents, llms.txt and the API explorer.
// May import engine, identity, admin-ui/shell.

import type { Module } from '../../../engine/modules/index.ts';
import { type DocumentationOptions, documentation } from './explorer.ts';

export { asyncApiDocument } from './async-api.ts';
export {
  type DocumentResource,
  type OpenApiDocument,
  type Parameter,
  resolve,
  resourcesIn,
  type Schema,
} from './document.ts';
export { type LimitedField, limitedFields, transitionSentences } from './transition-diagram.ts';

/** The OpenAPI document and the API explorer. */
export const explorerModule: Module<DocumentationOptions> = {
  name: 'explorer',
  register: async (app, services) => {
    await app.register(documentation, services);
  },
};
