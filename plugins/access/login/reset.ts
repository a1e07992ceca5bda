import { join } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import pLimit from 'p-limit';
import { failureDetails } from '../../../engine/database/index.ts';
import { HttpError, UserError } from '../../../engine/errors.ts';
import { transaction } from '../../../engine/tables/index.ts';
import {
  type Form,
  field,
  type Language,
  languageOf,
  languages,
  messageIn,
  plainText,
  render,
  TranslatedError,
  type ViewData,
  viewsIn,
} from '../../admin-ui/shell/index.ts';
import { linkWithCode, mailTemplate } from '../../operations/mail/index.ts';
import { createMailedResets, minPasswordLength, parseEmail, redeemReset } from '../identity/index.ts';
import { attempts, networkOf } from '../rate-limiting/index.ts';
import { addLoginLinks, type LoginServices, tooManyAttempts } from './login.ts';
import { loginTexts } from './texts/index.ts';

const view = viewsIn(import.meta.dirname);

/** View data: `links`, each with `organization` (name or null), `link` and `code`. */
const resetMail = mailTemplate(join(import.meta.dirname, 'reset-mail.hbs'), plainText);

/** Maximum number of emails waiting to be sent. Additional requests get the same response but no email. */
const maxPending = 100;

/** Registers the pages for forgotten passwords: the form that requests an email, and the page that its link opens. */
export function resetPages(app: FastifyInstance, { config, database, mailer }: LoginServices): void {
  const perNetwork = attempts('resets', { failures: 10, waiting: 10 });
  const limit = pLimit(2);
  const pendingMails = new Set<Promise<void>>();
  app.addHook('onClose', () => Promise.all(pendingMails));

  /**
   * Looks up an email address and mails its reset links. Runs after the response, so that the response time does not
   * reveal whether the user exists.
   */
  const sendLinks = async (email: string, origin: string, pageLanguage: Language): Promise<void> => {
    try {
      const resets = await transaction(database, (tables) => createMailedResets(tables, email));
      if (resets.length === 0) return;
      const links = resets.map(({ publicId, code, organization }) => ({
        organization,
        code,
        link: linkWithCode(`${origin}/setup/reset/${publicId}`, code),
      }));
      const chosen = resets.map(({ language }) => language);
      const language = languages.find((candidate) => chosen.includes(candidate)) ?? pageLanguage;
      await mailer.send(resetMail(email, language, { links }));
    } catch (cause) {
      app.log.warn(failureDetails(cause), 'failed to create a password reset link');
    }
  };

  addLoginLinks(app, (language) =>
    mailer.sendsLinks() ? [{ path: '/setup/forgot', label: loginTexts(language)('forgotTitle') }] : [],
  );

  const showForgot = (request: FastifyRequest, reply: FastifyReply, more: ViewData = {}) =>
    render(request, reply, view('forgot'), {
      language: languageOf(request),
      title: loginTexts(languageOf(request))('forgotTitle'),
      on: mailer.sendsLinks(),
      ...more,
    });

  app.get('/forgot', async (request, reply) => showForgot(request, reply));

  app.post('/forgot', { preHandler: app.csrfProtection }, async (request, reply) => {
    try {
      // Every request counts, including requests for unknown email addresses.
      await perNetwork.run(networkOf(request), async () => undefined);
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      reply.code(error.status).headers(error.extra.headers ?? {});
      return showForgot(request, reply, {
        problem: tooManyAttempts(languageOf(request)),
      });
    }
    const email = parseEmail(field((request.body ?? {}) as Form, 'email'));
    if (email !== undefined && mailer.sendsLinks() && limit.pendingCount < maxPending) {
      const origin = app.site.origin(request);
      const language = languageOf(request);
      const work = limit(() => sendLinks(email, origin, language)).finally(() => pendingMails.delete(work));
      pendingMails.add(work);
    }
    return reply.redirect('/setup/login?done=reset-mailed', 303);
  });

  const showReset = (request: FastifyRequest, reply: FastifyReply, more: ViewData = {}) =>
    render(request, reply, view('reset'), {
      language: languageOf(request),
      title: loginTexts(languageOf(request))('resetTitle'),
      minPassword: minPasswordLength,
      id: (request.params as { id: string }).id,
      ...more,
    });

  app.get('/reset/:id', async (request, reply) => showReset(request, reply));

  app.post('/reset/:id', { preHandler: app.csrfProtection }, async (request, reply) => {
    const form = (request.body ?? {}) as Form;
    const { id: publicId } = request.params as { id: string };
    const code = field(form, 'code');
    try {
      const password = field(form, 'new');
      if (password !== field(form, 'again')) throw new TranslatedError(loginTexts.later('passwordsDiffer'));
      await transaction(database, (tables) =>
        redeemReset(tables, { requestId: request.id, audited: config.audit }, { publicId, code, password }),
      );
      return await reply.redirect('/setup/login?done=password-reset', 303);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      const problem = messageIn(error, languageOf(request));
      return showReset(request, reply, { problem, code: code.slice(0, 100) });
    }
  });
}
