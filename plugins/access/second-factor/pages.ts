import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { UserError } from '../../../engine/errors.ts';
import { displayName, type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  addDoneTexts,
  claimForm,
  type Form,
  field,
  personOf,
  redirectDone,
  render,
  show,
  signedIn,
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

const view = viewsIn(import.meta.dirname);

const base = '/setup/me/second-factor';
const above = { label: 'Second factor', href: base };

/**
 * Time after a login within which second factors can be changed, in milliseconds. Limited, so that access to
 * an unattended browser is not enough.
 */
const recentMs = 15 * 60_000;

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
    'log-in-again': 'Log in again. Second factors can only be changed within 15 minutes of logging in.',
    'app-set-up': 'Authenticator app set up. All other sessions have been logged out.',
    'app-removed': 'Authenticator app removed.',
    'passkey-added': '{} added. All other sessions have been logged out.',
    'passkey-removed': '{} removed.',
  });

  const isRecent = (request: FastifyRequest) => Date.now() - personOf(request).session.startedAt < recentMs;
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
    const { totp, passkeys, recoveryCodes } = await secondFactorsOf(tablesOf(database), session.user.id);
    const hasAny = totp || passkeys > 0;
    const storedPasskeys = await passkeysOf(session.user.id);
    const isMissing = !hasAny && app.needsSecondFactor(session.memberships.values());
    return show(
      request,
      reply,
      {
        kind: 'record',
        title: 'Second factor',
        ...(!isMissing && { above: { label: 'You', href: '/setup/me' } }),
        intro: isMissing
          ? 'This instance requires a second factor. Set one up to continue.'
          : 'With a second factor, no one can log in with your password alone.',
        values: [
          { label: 'Authenticator app', text: totp ? 'Set up' : 'Not set up' },
          ...storedPasskeys.map(({ name, last_used_at }) => ({
            label: 'Passkey',
            text: `${name}, last used`,
            time: last_used_at,
          })),
          ...(hasAny ? [{ label: 'Recovery codes left', text: String(recoveryCodes) }] : []),
        ],
        links: [
          {
            label: totp ? 'Replace authenticator app' : 'Set up authenticator app',
            href: `${base}/app`,
          },
          { label: 'Add passkey', href: `${base}/passkey` },
          ...storedPasskeys.map(({ id, name }) => ({
            label: `Remove ${name}`,
            href: `${base}/remove-passkey?id=${id}`,
          })),
          ...(hasAny ? [{ label: 'New recovery codes', href: `${base}/recovery-codes` }] : []),
        ],
        ...(totp && { danger: { label: 'Remove authenticator app', href: `${base}/remove-app` } }),
      },
      { isMe: true },
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
    return render(request, reply, view('app'), {
      title: 'Set up authenticator app',
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
      title: 'Recovery codes',
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
    const offer = await offers.open(ticket);
    if (offer?.user !== user.id) {
      reply.code(400);
      return newOffer(request, reply, { problem: 'The page has expired. Scan the new code.' });
    }
    const { stepOf } = await import('./totp.ts');
    const step = stepOf(offer.secret, field(form, 'code').replaceAll(/\s/g, ''));
    if (step === undefined) {
      reply.code(400);
      const problem =
        'The code is wrong. Enter the code currently shown in the app, and check that the device’s clock is correct.';
      return showApp(request, reply, offer, ticket, { problem });
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
      return newOffer(request, reply, { problem: error.message });
    }
  });

  const showPasskey = async (request: FastifyRequest, reply: FastifyReply, more: ViewData = {}) =>
    render(request, reply, view('passkey'), {
      title: 'Add passkey',
      above,
      isMe: true,
      offer: await app.passkeys.offerNew(request, personOf(request).session.user),
      ...more,
    });

  app.get('/me/second-factor/passkey', { preHandler: pageHandlers }, async (request, reply) =>
    showPasskey(request, reply),
  );

  app.post('/me/second-factor/passkey', { preHandler: formHandlers }, async (request, reply) => {
    const form = (request.body ?? {}) as Form;
    const { user } = personOf(request).session;
    const name = field(form, 'name').trim().slice(0, 60);
    try {
      const passkey = await app.passkeys.verifyNew(request, user, form);
      if (passkey === undefined)
        throw new UserError('the passkey is not valid, or the page has expired. Try again.');
      const label = displayName(name, 'the name');
      const codes = await addFactor(request, 'add passkey', field(form, 'ticket'), (tables) =>
        storePasskey(tables, user.id, passkey, label),
      );
      if (codes === undefined) return await redirectDone(request, reply, base, 'passkey-added', { name });
      return await showCodes(request, reply, codes, { isFirst: true });
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return showPasskey(request, reply, { name, problem: error.message });
    }
  });

  app.get('/me/second-factor/remove-passkey', { preHandler: pageHandlers }, async (request, reply) => {
    const { id } = request.query as { id?: unknown };
    const passkeys = await passkeysOf(personOf(request).session.user.id);
    const passkey = passkeys.find((row) => row.id === id);
    if (passkey === undefined) return reply.redirect(base, 303);
    return show(
      request,
      reply,
      {
        kind: 'confirm',
        title: `Remove ${passkey.name}?`,
        above,
        consequence:
          'You will no longer be able to log in with this passkey. All other sessions will be logged out.',
        action: `${base}/remove-passkey`,
        hidden: [{ name: 'id', value: passkey.id }],
        submit: 'Remove passkey',
        cancel: base,
      },
      { isMe: true },
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

  app.get('/me/second-factor/recovery-codes', { preHandler: pageHandlers }, async (request, reply) =>
    show(
      request,
      reply,
      {
        kind: 'confirm',
        title: 'New recovery codes?',
        above,
        consequence: 'Your current codes will stop working.',
        action: `${base}/recovery-codes`,
        hidden: [],
        submit: 'Create recovery codes',
        isSafe: true,
        cancel: base,
      },
      { isMe: true },
    ),
  );

  app.post('/me/second-factor/recovery-codes', { preHandler: formHandlers }, async (request, reply) =>
    showCodes(request, reply, await change(request, 'create recovery codes', generateRecoveryCodes), {}),
  );

  app.get('/me/second-factor/remove-app', { preHandler: pageHandlers }, async (request, reply) =>
    show(
      request,
      reply,
      {
        kind: 'confirm',
        title: 'Remove authenticator app?',
        above,
        consequence: 'Its codes will stop working. All other sessions will be logged out.',
        action: `${base}/remove-app`,
        hidden: [],
        submit: 'Remove authenticator app',
        cancel: base,
      },
      { isMe: true },
    ),
  );

  app.post('/me/second-factor/remove-app', { preHandler: formHandlers }, async (request, reply) => {
    await change(request, 'remove authenticator app', (tables, user) =>
      tables.deleteFrom('crm_totps').where('user_id', '=', user).execute(),
    );
    return redirectDone(request, reply, base, 'app-removed');
  });
}
