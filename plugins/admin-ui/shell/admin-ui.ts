import csrf from '@fastify/csrf-protection';
import formbody from '@fastify/formbody';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { errors, HttpError } from '../../../engine/errors.ts';
import { httpErrorOf, sendError } from '../../../engine/http/index.ts';
import type { Membership } from '../../access/identity/index.ts';
import type { InstanceSecrets } from '../../access/secrets/index.ts';
import { serveAssets, turboStyleHash } from './assets.ts';
import { messageIn } from './errors/error-message.ts';
import { statusMessage, statusTitle } from './errors/status.ts';
import { type Form, field } from './form.ts';
import { homePage } from './home.ts';
import { languageOf } from './locale.ts';
import { render } from './render.ts';
import { shortcutsPage } from './shortcuts-page.ts';
import { registerPages } from './templates.ts';
import { viewsIn } from './views.ts';

const failureView = viewsIn(import.meta.dirname)('failure');

/** Identifies the user before an error page is rendered, so that the page keeps its navigation. */
async function identifyPerson(app: FastifyInstance, request: FastifyRequest): Promise<void> {
  try {
    request.person ??= await app.identify(request);
    request.formOwner = request.person.session.id;
  } catch {
    // Without a session, or if the database is unavailable, the page has no navigation.
  }
}

/** Returns the organization in the URL if the user is a member of it, so that error pages keep its navigation. */
const membershipOf = ({ person, url }: FastifyRequest): Membership | undefined =>
  person?.session.memberships.get(/^\/setup\/o\/([^/?]+)/.exec(url)?.[1] ?? '');

/** Sends an error page with the error's status. Works even if the database is unavailable. */
async function sendFailure(error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  // While the process drains, requests are rejected before the page headers are set.
  if (!reply.hasHeader('content-security-policy')) return sendError(error, request, reply);
  const failure = httpErrorOf(error, request);
  const { status, code, extra } = failure;
  // Unlike the framework's messages, the project's own messages are written for users, including messages
  // about database failures.
  const isForUsers = error instanceof HttpError || (status >= 500 && code !== 'internal');
  await identifyPerson(request.server, request);
  const language = languageOf(request);
  const message =
    isForUsers && status !== 404 ? messageIn(failure, language) : statusMessage(status, language);
  reply.code(status).headers(extra.headers ?? {});
  return render(request, reply, failureView, {
    language,
    title: statusTitle(status, language),
    message,
    requestId: status >= 500 ? request.id : undefined,
    hasForms: false,
    org: membershipOf(request),
  });
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
      await registerPages(app, {
        layout: viewsIn(import.meta.dirname)('layout'),
        styleHashes: [turboStyleHash],
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
      app.decorate('setupSections', []);
      app.decorate('doneTexts', new Map());
      app.decorate('homeChecks', []);
      app.decorate('homeParts', []);
      app.decorate('homeSteps', []);
      app.decorate('recordsOf', []);
      app.decorate('timelineSources', []);
      app.decorateRequest('formOwner', 'nobody');
      app.decorateRequest('person', null);
      app.setErrorHandler((error, request, reply) => sendFailure(error, request, reply));
      app.setNotFoundHandler((request, reply) => sendFailure(errors.notFound(), request, reply));
      app.addHook('preValidation', async (request) => {
        if (request.method === 'POST' && !app.site.isSameOrigin(request)) throw errors.crossSite();
      });
      serveAssets(app);
      homePage(app);
      shortcutsPage(app);
      for (const addPages of pages) addPages(app);
    },
    { prefix: '/setup' },
  );
}
