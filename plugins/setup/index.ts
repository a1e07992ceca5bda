// Setup screens: an organization administrated in a browser; rendered here, working without JavaScript.
// May import every room of engine/ but cli and app, and the plugins beside it.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import csrf from '@fastify/csrf-protection';
import formbody from '@fastify/formbody';
import helmet from '@fastify/helmet';
import view from '@fastify/view';
import type { FastifyInstance } from 'fastify';
import handlebars from 'handlebars';
import type { Resource } from '../../engine/compile/index.ts';
import type { Config } from '../../engine/config.ts';
import type { Database } from '../../engine/database/index.ts';
import { errors } from '../../engine/errors.ts';
import { instanceSecret } from '../../engine/platform/index.ts';
import type { Mailer } from '../mail.ts';
import { activityPage } from './activity.ts';
import { entryPages } from './entry.ts';
import { withHelpers } from './helpers.ts';
import { keyPages } from './keys.ts';
import { myPages } from './me.ts';
import { memberPages } from './members.ts';
import { type Form, field, sendFailure } from './page.ts';
import { profilePages } from './profiles.ts';
import { resetPages } from './reset.ts';

/** What every page needs of the instance. */
export interface Setup {
  readonly config: Config;
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly mailer: Mailer;
}

/** Registers further pages of organizations; their views are beside the others. */
export type MorePages = (app: FastifyInstance) => void;

/** No form on these pages is larger, in bytes: the largest is a profile's, with every action on hundreds of objects. */
const formLimit = 64 * 1024;

/** Everything under /setup. */
export async function setupScreens(
  root: FastifyInstance,
  { more, ...setup }: Setup & { readonly more: MorePages },
): Promise<void> {
  const { config } = setup;
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
        // Not strict: a link from elsewhere would come without it, get another, and void the forms in open tabs.
        cookieOpts: { path: '/setup', httpOnly: true, sameSite: 'lax' },
        // A token belongs to one session: another's is refused.
        csrfOpts: { hmacKey: instanceSecret(config, 'forms'), userInfo: true },
        getUserInfo: (request) => request.formOwner,
        getToken: (request) => field((request.body ?? {}) as Form, '_csrf'),
      });
      await app.register(view, {
        engine: { handlebars: withHelpers(handlebars.create()) },
        root: join(import.meta.dirname, 'views'),
        viewExt: 'hbs',
        layout: 'layout',
        production: true,
        options: { compileOptions: { preventIndent: true } },
      });
      app.decorate('setupSections', []);
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
      assets(app);
      entryPages(app, setup);
      resetPages(app, setup);
      myPages(app, setup);
      keyPages(app, setup);
      memberPages(app, setup);
      profilePages(app, setup);
      more(app);
      activityPage(app, setup);
    },
    { prefix: '/setup' },
  );
}

/** Stylesheets and the one script, read at boot and served from here. */
function assets(app: FastifyInstance): void {
  const require = createRequire(import.meta.url);
  const files = [
    ['pico.css', require.resolve('@picocss/pico/css/pico.classless.min.css'), 'text/css'],
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
