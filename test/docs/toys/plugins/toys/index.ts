// Toys: an example of a module. May import engine, admin-ui/shell.

import type { Database } from '../../engine/database/index.ts';
import { errors } from '../../engine/errors.ts';
import type { Module } from '../../engine/modules/index.ts';
import { toyPages } from './page.ts';

/** Adds a header to every response, and a path that always fails. */
export const toysModule: Module<{ readonly database: Database }> = {
  name: 'toys',
  responses: {
    headers: { 'X-Toys': { description: 'Number of toys.', schema: { type: 'integer' } } },
    errors: {},
    isEnabled: () => true,
  },
  register: (app) => {
    app.addHook('onSend', async (_request, reply) => {
      reply.header('x-toys', '1');
    });
    app.get('/docs/toys', async () => {
      throw errors.toyBroken('wheel');
    });
  },
  metrics: () => [
    {
      families: { crm_toys: { type: 'gauge', help: 'Number of toys.' } },
      ofInstance: true,
      read: (report) => {
        report('crm_toys', 1);
      },
    },
  ],
  pages: (screens, { database }) => toyPages(screens, database),
  commands: async (line) => (await import('./commands.ts')).toyCommands(line),
};
