import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { UserError } from '../../../engine/errors.ts';
import { displayName, type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  addDoneTexts,
  claimForm,
  type Form,
  field,
  languageOf,
  messageIn,
  personOf,
  redirectDone,
  render,
  show,
  signedIn,
  TranslatedError,
  type ViewData,
  viewsIn,
} from '../../admin-ui/shell/index.ts';
import {
  changeSecondFactors,
  cookieName,
  type IdentityServices,
  recordEverywhere,
  secondFactorsOf,
} from '../identity/index.ts';
import { sealing, tickets } from '../secrets/index.ts';
import { generateRecoveryCodes, storeTotp } from './codes.ts';
import { storePasskey } from './passkeys.ts';
import { secondFactorTexts } from './texts/index.ts';

const view = viewsIn(import.meta.dirname);

const base = '/setup/me/second-factor';
const { later } = secondFactorTexts;

/** Returns the language of a page's texts, the function that finds them, and the link to the parent page. */
function pageTexts(request: FastifyRequest) {
  const language = languageOf(request);
  const t = secondFactorTexts(language);
  return { language, t, above: { label: t('secondFactor'), href: base } };
}

/**
 * Time after a login within which second factors can be changed, in minutes. Limited, so that access to
 * an unattended browser is not enough.
 */
const recentMinutes = 15;

/** The secret of an authenticator app that is being set up, with the user's ID. */
interface Offer {
  readonly user: string;
  readonly secret: string;
}

/** Registers the pages for setting up and removing second factors. */
export function secondFactorPages(app: FastifyInstance, { database, secrets }: IdentityServices): void {
  const sealer = sealing(secrets);
  const offers = tickets<Offer>(secrets, 'authenticator app', 60);
  addDoneTexts(app, {
    'log-in-again': later('logInAgain', { minutes: String(recentMinutes) }),
    'app-set-up': later('appAdded'),
    'app-removed': later('appRemoved'),
    'passkey-added': later('passkeyAdded'),
    'passkey-removed': later('passkeyRemoved'),
  });

  const isRecent = (request: FastifyRequest) =>
    Date.now() - personOf(request).session.startedAt < recentMinutes * 60_000;
  const requireRecentLogin = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    if (isRecent(request)) return undefined;
    return reply.redirect(
      `/setup/login?done=log-in-again&next=${encodeURIComponent(request.url.split('?')[0] ?? base)}`,
      303,
    );
  };
  const requireUser = signedIn(app, { settingUp: true });
  const pageHandlers = [requireUser, requireRecentLogin];
  const formHandlers = [requireUser, requireRecentLogin, app.csrfProtection];

  /** Changes the user's second factors and records the change. @returns the result of `work` */
  const change = async <T>(
    request: FastifyRequest,
    action: string,
    work: (tables: Tables, user: string) => Promise<T>,
  ): Promise<T> => {
    const { session } = personOf(request);
    const result = await transaction(database, (tables) =>
      changeSecondFactors(tables, session, async () => {
        const organizations = [...session.memberships.values()].map(({ organization }) => organization);
        await recordEverywhere(tables, app.actor(request, session.user), organizations, action, session.id);
        return work(tables, session.user.id);
      }),
    );
    app.forgetSession({ token: request.cookies[cookieName(app.site, request)], jti: session.jti });
    return result;
  };

  /**
   * Adds a second factor confirmed by a form. Each form can be used only once.
   * @returns recovery codes to show, or undefined if the user already has some
   */
  const addFactor = (
    request: FastifyRequest,
    action: string,
    ticket: string,
    store: (tables: Tables) => Promise<void>,
  ): Promise<string[] | undefined> =>
    change(request, action, async (tables, user) => {
      await claimForm(tables, ticket);
      await store(tables);
      const { recoveryCodes } = await secondFactorsOf(tables, user);
      return recoveryCodes > 0 ? undefined : generateRecoveryCodes(tables, user);
    });
  const passkeysOf = (user: string) =>
    tablesOf(database)
      .selectFrom('crm_passkeys')
      .select(['id', 'name', 'last_used_at'])
      .where('user_id', '=', user)
      .orderBy('id')
      .execute();

  app.get('/me/second-factor', { preHandler: requireUser }, async (request, reply) => {
    const { session } = personOf(request);
    const { language, t } = pageTexts(request);
    const { totp, passkeys, recoveryCodes } = await secondFactorsOf(tablesOf(database), session.user.id);
    const hasAny = totp || passkeys > 0;
    const storedPasskeys = await passkeysOf(session.user.id);
    const isMissing = !hasAny && app.needsSecondFactor(session.memberships.values());
    return show(
      request,
      reply,
      {
        kind: 'record',
        title: t('secondFactor'),
        ...(!isMissing && { above: { label: t('you'), href: '/setup/me' } }),
        intro: isMissing ? t('required') : t('intro'),
        values: [
          { label: t('app'), text: totp ? t('setUp') : t('notSetUp') },
          ...storedPasskeys.map(({ name, last_used_at }) => ({
            label: t('passkey'),
            text: t('passkeyLastUsed', { name }),
            time: last_used_at,
          })),
          ...(hasAny ? [{ label: t('codesLeft'), text: String(recoveryCodes) }] : []),
        ],
        links: [
          {
            label: totp ? t('replaceApp') : t('setUpApp'),
            href: `${base}/app`,
          },
          { label: t('addPasskey'), href: `${base}/passkey` },
          ...storedPasskeys.map(({ id, name }) => ({
            label: t('remove', { name }),
            href: `${base}/remove-passkey?id=${id}`,
          })),
          ...(hasAny ? [{ label: t('newCodes'), href: `${base}/recovery-codes` }] : []),
        ],
        ...(totp && { danger: { label: t('removeApp'), href: `${base}/remove-app` } }),
      },
      { language, isMe: true },
    );
  });

  const showApp = async (
    request: FastifyRequest,
    reply: FastifyReply,
    offer: Offer,
    ticket: string,
    more: ViewData = {},
  ) => {
    const { qrCode } = await import('./totp.ts');
    const { email } = personOf(request).session.user;
    const { language, t, above } = pageTexts(request);
    return render(request, reply, view('app'), {
      language,
      title: t('setUpApp'),
      above,
      isMe: true,
      ticket,
      image: qrCode(offer.secret, email),
      key: offer.secret.replaceAll(/(.{4})(?=.)/g, '$1 '),
      ...more,
    });
  };
  const newOffer = async (request: FastifyRequest, reply: FastifyReply, more: ViewData = {}) => {
    const { generateTotpSecret } = await import('./totp.ts');
    const offer = { user: personOf(request).session.user.id, secret: generateTotpSecret() };
    return showApp(request, reply, offer, await offers.issue(offer), more);
  };
  const showCodes = (
    request: FastifyRequest,
    reply: FastifyReply,
    codes: readonly string[],
    more: ViewData,
  ) =>
    render(request, reply, view('codes'), {
      language: languageOf(request),
      title: pageTexts(request).t('recoveryCodes'),
      isMe: true,
      lines: codes.join('\n'),
      next: more.isFirst ? '/setup' : base,
      ...more,
    });

  app.get('/me/second-factor/app', { preHandler: pageHandlers }, async (request, reply) =>
    newOffer(request, reply),
  );

  app.post('/me/second-factor/app', { preHandler: formHandlers }, async (request, reply) => {
    const form = (request.body ?? {}) as Form;
    const ticket = field(form, 'ticket');
    const { user } = personOf(request).session;
    const { t } = pageTexts(request);
    const offer = await offers.open(ticket);
    if (offer?.user !== user.id) {
      reply.code(400);
      return newOffer(request, reply, { problem: t('appExpired') });
    }
    const { stepOf } = await import('./totp.ts');
    const step = stepOf(offer.secret, field(form, 'code').replaceAll(/\s/g, ''));
    if (step === undefined) {
      reply.code(400);
      return showApp(request, reply, offer, ticket, { problem: t('wrongCode') });
    }
    try {
      const totp = { sealed: await sealer.seal(offer.secret), step };
      const codes = await addFactor(request, 'set up authenticator app', ticket, (tables) =>
        storeTotp(tables, user.id, totp),
      );
      if (codes === undefined) return await redirectDone(request, reply, base, 'app-set-up');
      return await showCodes(request, reply, codes, { isFirst: true });
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return newOffer(request, reply, { problem: messageIn(error, languageOf(request)) });
    }
  });

  const showPasskey = async (request: FastifyRequest, reply: FastifyReply, more: ViewData = {}) => {
    const { language, t, above } = pageTexts(request);
    return render(request, reply, view('passkey'), {
      language,
      title: t('addPasskey'),
      above,
      isMe: true,
      offer: await app.passkeys.offerNew(request, personOf(request).session.user),
      ...more,
    });
  };

  app.get('/me/second-factor/passkey', { preHandler: pageHandlers }, async (request, reply) =>
    showPasskey(request, reply),
  );

  app.post('/me/second-factor/passkey', { preHandler: formHandlers }, async (request, reply) => {
    const form = (request.body ?? {}) as Form;
    const { user } = personOf(request).session;
    const name = field(form, 'name').trim().slice(0, 60);
    try {
      const passkey = await app.passkeys.verifyNew(request, user, form);
      if (passkey === undefined) throw new TranslatedError(secondFactorTexts.later('invalidPasskey'));
      const label = displayName(name, 'the name');
      const codes = await addFactor(request, 'add passkey', field(form, 'ticket'), (tables) =>
        storePasskey(tables, user.id, passkey, label),
      );
      if (codes === undefined) return await redirectDone(request, reply, base, 'passkey-added', { name });
      return await showCodes(request, reply, codes, { isFirst: true });
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return showPasskey(request, reply, { name, problem: messageIn(error, languageOf(request)) });
    }
  });

  app.get('/me/second-factor/remove-passkey', { preHandler: pageHandlers }, async (request, reply) => {
    const { id } = request.query as { id?: unknown };
    const passkeys = await passkeysOf(personOf(request).session.user.id);
    const passkey = passkeys.find((row) => row.id === id);
    if (passkey === undefined) return reply.redirect(base, 303);
    const { language, t, above } = pageTexts(request);
    return show(
      request,
      reply,
      {
        kind: 'confirm',
        title: t('removeQuestion', { name: passkey.name }),
        above,
        consequence: t('removePasskeyConsequence'),
        action: `${base}/remove-passkey`,
        hidden: [{ name: 'id', value: passkey.id }],
        submit: t('removePasskey'),
        cancel: base,
      },
      { language, isMe: true },
    );
  });

  app.post('/me/second-factor/remove-passkey', { preHandler: formHandlers }, async (request, reply) => {
    const id = field((request.body ?? {}) as Form, 'id');
    const passkeys = await passkeysOf(personOf(request).session.user.id);
    const passkey = passkeys.find((row) => row.id === id);
    if (passkey === undefined) return reply.redirect(base, 303);
    await change(request, 'remove passkey', (tables, user) =>
      tables.deleteFrom('crm_passkeys').where('user_id', '=', user).where('id', '=', id).execute(),
    );
    return redirectDone(request, reply, base, 'passkey-removed', { name: passkey.name });
  });

  app.get('/me/second-factor/recovery-codes', { preHandler: pageHandlers }, async (request, reply) => {
    const { language, t, above } = pageTexts(request);
    return show(
      request,
      reply,
      {
        kind: 'confirm',
        title: t('newCodesQuestion'),
        above,
        consequence: t('newCodesConsequence'),
        action: `${base}/recovery-codes`,
        hidden: [],
        submit: t('createCodes'),
        isSafe: true,
        cancel: base,
      },
      { language, isMe: true },
    );
  });

  app.post('/me/second-factor/recovery-codes', { preHandler: formHandlers }, async (request, reply) =>
    showCodes(request, reply, await change(request, 'create recovery codes', generateRecoveryCodes), {}),
  );

  app.get('/me/second-factor/remove-app', { preHandler: pageHandlers }, async (request, reply) => {
    const { language, t, above } = pageTexts(request);
    return show(
      request,
      reply,
      {
        kind: 'confirm',
        title: t('removeAppQuestion'),
        above,
        consequence: t('removeAppConsequence'),
        action: `${base}/remove-app`,
        hidden: [],
        submit: t('removeApp'),
        cancel: base,
      },
      { language, isMe: true },
    );
  });

  app.post('/me/second-factor/remove-app', { preHandler: formHandlers }, async (request, reply) => {
    await change(request, 'remove authenticator app', (tables, user) =>
      tables.deleteFrom('crm_totps').where('user_id', '=', user).execute(),
    );
    return redirectDone(request, reply, base, 'app-removed');
  });
}
