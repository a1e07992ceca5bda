import { readFileSync } from 'node:fs';
import { STATUS_CODES } from 'node:http';
import { join, relative } from 'node:path';
import csrf from '@fastify/csrf-protection';
import formbody from '@fastify/formbody';
import helmet from '@fastify/helmet';
import view from '@fastify/view';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import handlebars from 'handlebars';
import { projectFolder } from '../../../engine/config/index.ts';
import { errors, HttpError } from '../../../engine/errors.ts';
import { httpErrorOf, sendError } from '../../../engine/http/index.ts';
import type { Membership } from '../../access/identity/index.ts';
import type { InstanceSecrets } from '../../access/secrets/index.ts';
import { type Form, field } from './form.ts';
import { homePage } from './home.ts';
import { render } from './render.ts';
import { partials, viewsIn } from './views.ts';

const failureView = viewsIn(import.meta.dirname)('failure');

const failureTexts: Readonly<Record<number, string>> = {
  403: 'This form has expired or was sent from another site. Go back, reload the page and try again.',
  404: 'Page not found.',
  413: 'The form is too large.',
};

/** Returns the organization in the URL if the user is a member of it, so that error pages keep its navigation. */
const membershipOf = ({ person, params }: FastifyRequest): Membership | undefined =>
  person?.session.memberships.get(String((params as { org?: unknown }).org));

/** Sends an error page with the error's status. Works even if the database is unavailable. */
async function sendFailure(error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  // While the process drains, requests are rejected before the page headers are set.
  if (!reply.hasHeader('content-security-policy')) return sendError(error, request, reply);
  const { status, code, message, extra } = httpErrorOf(error, request);
  // Unlike the framework's messages, the project's own messages are written for users, including messages
  // about database failures.
  const isForUsers = error instanceof HttpError || (status >= 500 && code !== 'internal');
  const text = isForUsers && status !== 404 ? message : failureTexts[status];
  reply.code(status).headers(extra.headers ?? {});
  return render(request, reply, failureView, {
    title: STATUS_CODES[status] ?? 'Failure',
    message: text ?? 'Something went wrong. Try again later.',
    requestId: status >= 500 ? request.id : undefined,
    hasForms: false,
    org: membershipOf(request),
  });
}

type Engine = typeof handlebars;

/** Units of time in seconds, largest first. */
const units = [
  ['year', 31_557_600],
  ['month', 2_629_800],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const;

const words = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });

/** Returns a relative time in words, for example "2 hours ago" or "in 3 days". */
function relativeTime(at: Date, now = Date.now()): string {
  const seconds = (at.getTime() - now) / 1000;
  const unit = units.find(([, length]) => Math.abs(seconds) >= length);
  return unit === undefined ? 'just now' : words.format(Math.trunc(seconds / unit[1]), unit[0]);
}

/** Formats a time in UTC to the second. */
export const exactTime = (at: Date): string => `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`;

/** Registers the helpers used by the views. Handlebars escapes the helpers' results. */
function withHelpers(engine: Engine): Engine {
  engine.registerHelper('time', (value: Date | string | null | undefined) => {
    if (value == null) return 'never';
    const at = new Date(value);
    // PostgreSQL can store timestamps outside the range of JavaScript dates.
    if (Number.isNaN(at.getTime())) return String(value);
    return new engine.SafeString(
      `<time datetime="${at.toISOString()}" title="${exactTime(at)}">${relativeTime(at)}</time>`,
    );
  });
  engine.registerHelper('equal', (a: unknown, b: unknown) => a === b);
  return engine;
}

/** Services required for the admin UI. */
export interface AdminUiServices {
  readonly secrets: InstanceSecrets;
  /** Functions that add each module's pages, in navigation order. */
  readonly pages: readonly ((app: FastifyInstance) => void)[];
}

/**
 * Maximum form body size, in bytes. The largest form is for a profile that grants every action on hundreds of
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
