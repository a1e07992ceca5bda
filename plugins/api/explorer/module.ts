import type { Module } from '../../../engine/modules/index.ts';
import { type DocumentationOptions, documentation } from './explorer.ts';

/** The API's description, and an explorer of it. */
export const explorerModule: Module<DocumentationOptions> = {
  name: 'explorer',
  register: async (app, services) => {
    await app.register(documentation, services);
  },
};
