import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import csrf from '@fastify/csrf-protection';
import formbody from '@fastify/formbody';
import helmet from '@fastify/helmet';
import view from '@fastify/view';
import type { FastifyInstance } from 'fastify';
import handlebars from 'handlebars';
import { projectFolder } from '../../../engine/config/index.ts';
import { errors } from '../../../engine/errors.ts';
import type { InstanceSecrets } from '../../access/secrets/index.ts';
import { sendFailure } from './failure.ts';
import { type Form, field } from './form.ts';
import { withHelpers } from './helpers.ts';
import { homePage } from './home.ts';
import { partials, viewsIn } from './views.ts';

/** The services that the admin UI needs. */
export interface AdminUiServices {
  readonly secrets: InstanceSecrets;
  /** Functions that add the pages of each module, in navigation order. */
  readonly pages: readonly ((app: FastifyInstance) => void)[];
}

/**
 * Maximum size of a form body, in bytes. The largest form is that of a profile with every action on hundreds of
 * objects.
 */
const formLimit = 64 * 1024;

/** Registers everything under /setup. */
export async function adminUi(root: FastifyInstance, { secrets, pages }: AdminUiServices): Promise<void> {
  // A browser that opens the root URL is redirected to the admin UI. Other clients receive the API's 404 response.
  root.get('/', async (request, reply) => {
    reply.header('vary', 'accept');
    return request.headers.accept?.includes('text/html') === true
      ? reply.redirect('/setup', 303)
      : reply.callNotFound();
  });
  root.decorate('adminObjects', []);
  await root.register(
    async (app) => {
      await app.register(helmet, {
        contentSecurityPolicy: {
          useDefaults: false,
          directives: {
            defaultSrc: ["'none'"],
            scriptSrc: ["'self'"],
            styleSrc: ["'self'"],
            imgSrc: ["'self'", 'data:'],
            formAction: ["'self'"],
            frameAncestors: ["'none'"],
            baseUri: ["'none'"],
          },
        },
        xFrameOptions: { action: 'deny' },
        referrerPolicy: { policy: 'no-referrer' },
        strictTransportSecurity: false,
      });
      app.addHook('onRoute', (route) => {
        route.bodyLimit ??= formLimit;
      });
      await app.register(formbody);
      await app.register(csrf, {
        cookieKey: 'crm_csrf',
        // With SameSite=Strict, a request from another site's link would lack the cookie, and the new cookie would
        // invalidate open forms.
        cookieOpts: { path: '/setup', httpOnly: true, sameSite: 'lax' },
        // A token is bound to one session and rejected in any other session.
        csrfOpts: { hmacKey: secrets.keys('forms')[0]?.toString('base64url') ?? '', userInfo: true },
        getUserInfo: (request) => request.formOwner,
        getToken: (request) => field((request.body ?? {}) as Form, '_csrf'),
      });
      await app.register(view, {
        engine: { handlebars: withPartials(withHelpers(handlebars.create())) },
        root: projectFolder,
        viewExt: 'hbs',
        layout: relative(projectFolder, viewsIn(import.meta.dirname)('layout')),
        production: true,
        options: { compileOptions: { preventIndent: true } },
      });
      app.decorate('setupSections', []);
      app.decorate('doneTexts', new Map());
      app.decorate('homeChecks', []);
      app.decorate('recordsOf', []);
      app.decorateRequest('formOwner', 'nobody');
      app.decorateRequest('person', null);
      app.setErrorHandler((error, request, reply) => sendFailure(error, request, reply));
      app.setNotFoundHandler((request, reply) => sendFailure(errors.notFound(), request, reply));
      app.addHook('onSend', async (_request, reply) => {
        if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store');
      });
      app.addHook('preValidation', async (request) => {
        if (request.method === 'POST' && !app.site.isSameOrigin(request)) throw errors.crossSite();
      });
      serveAssets(app);
      homePage(app);
      for (const addPages of pages) addPages(app);
    },
    { prefix: '/setup' },
  );
}

/** Registers the partial templates. */
function withPartials(engine: typeof handlebars): typeof handlebars {
  for (const [name, text] of partials) engine.registerPartial(name, text);
  return engine;
}

/** Serves the stylesheet and the script, which are read at startup. */
function serveAssets(app: FastifyInstance): void {
  const files = [
    ['setup.css', join(import.meta.dirname, 'assets/setup.css'), 'text/css'],
    ['setup.js', join(import.meta.dirname, 'assets/setup.js'), 'text/javascript'],
  ] as const;
  for (const [name, path, type] of files) {
    const content = readFileSync(path, 'utf8');
    app.get(`/assets/${name}`, async (_request, reply) => {
      reply.header('content-type', `${type}; charset=utf-8`).header('cache-control', 'public, max-age=3600');
      return content;
    });
  }
}
