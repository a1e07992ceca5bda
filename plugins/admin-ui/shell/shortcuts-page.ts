import type { FastifyInstance } from 'fastify';
import { signedIn } from './access.ts';
import { languageOf } from './locale.ts';
import { render } from './render.ts';
import { shellTexts } from './texts/index.ts';
import { viewsIn } from './views.ts';

const view = viewsIn(import.meta.dirname)('shortcuts');

/** Registers the page with the keyboard shortcuts. */
export function shortcutsPage(app: FastifyInstance): void {
  app.get('/shortcuts', { preHandler: signedIn(app) }, (request, reply) =>
    render(request, reply, view, {
      language: languageOf(request),
      title: shellTexts(languageOf(request))('shortcuts'),
      isShortcuts: true,
    }),
  );
}
