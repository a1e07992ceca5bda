import type { FastifyInstance } from 'fastify';
import { signedIn } from './access.ts';
import { render } from './render.ts';
import { viewsIn } from './views.ts';

const view = viewsIn(import.meta.dirname)('shortcuts');

/** Registers the page with the keyboard shortcuts. */
export function shortcutsPage(app: FastifyInstance): void {
  app.get('/shortcuts', { preHandler: signedIn(app) }, (request, reply) =>
    render(request, reply, view, { title: 'Keyboard shortcuts', isShortcuts: true }),
  );
}
