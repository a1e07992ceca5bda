import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { errors, HttpError, UserError } from '../../../engine/errors.ts';
import { transaction } from '../../../engine/tables/index.ts';
import { claimForm, languageOf, messageIn, safeNext, type TextIn } from '../../admin-ui/shell/index.ts';
import { findMemberships, type IdentityServices } from '../identity/index.ts';
import { addLoginLinks } from '../login/index.ts';
import { tickets } from '../secrets/index.ts';
import { findOrLinkUser, type ProviderClaims } from './linking.ts';
import { isAvailable, type ProviderSettings, providers } from './providers.ts';
import { openIdTexts } from './texts/index.ts';

/** Services required for logging in through a provider. */
export interface OpenIdServices extends IdentityServices {
  readonly login: () => ReturnType<IdentityServices['login']> & {
    readonly providers: Readonly<Record<string, ProviderSettings>>;
  };
}

/** A login in progress at a provider. */
interface PendingLogin {
  readonly provider: string;
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly redirect: string;
  readonly next: string;
}

const base = '/setup/login/with';
const { later } = openIdTexts;

const cookie = 'crm_provider_login';
/** Time limit for completing a login at a provider, in minutes. */
const lifetimeMinutes = 10;

/** Thrown if a login fails. The message is shown to the user. */
class LoginFailure extends Error {
  override readonly name = 'LoginFailure';
  readonly status: number;
  readonly translation: TextIn;
  constructor(status: number, translation: TextIn, cause?: unknown) {
    super(translation('en'), { cause });
    this.status = status;
    this.translation = translation;
  }
}

const unreachableFailure = ({ name }: ProviderSettings, cause: unknown): LoginFailure =>
  new LoginFailure(502, later('unreachable', { provider: name }), cause);

/** Registers the pages for logging in through a provider. */
export function openIdPages(
  app: FastifyInstance,
  { config, database, secrets, login }: OpenIdServices,
): void {
  const pendingLogins = tickets<PendingLogin>(secrets, 'login with a provider', lifetimeMinutes);
  const { clientOf } = providers();
  const cookieOptions = (request: FastifyRequest) => app.site.cookie(request, base);

  const availableProviders = () =>
    Object.entries(login().providers).filter(([, settings]) => isAvailable(settings));
  addLoginLinks(app, (language) =>
    availableProviders().map(([id, { name }]) => ({
      path: `${base}/${id}`,
      label: openIdTexts(language)('logInWith', { provider: name }),
      isLoginMethod: true,
    })),
  );
  const providerOf = (request: FastifyRequest): { id: string; settings: ProviderSettings } => {
    const { provider } = request.params as { provider: string };
    const [, settings] = availableProviders().find(([id]) => id === provider) ?? [];
    if (settings === undefined) throw errors.notFound();
    return { id: provider, settings };
  };

  /** Shows the login page with an error message. Users can still log in with a password there. */
  const showFailure = (request: FastifyRequest, reply: FastifyReply, provider: string, error: unknown) => {
    if (!(error instanceof LoginFailure)) throw error;
    const { cause } = error;
    // Contains a configuration error or an error code, never text from the provider.
    const reason = cause instanceof UserError ? cause.message : codeOf(cause);
    request.log.warn({ address: request.ip, provider, reason }, 'login with a provider failed');
    reply.code(error.status);
    return app.showLogin(request, reply, { problem: error.translation(languageOf(request)) });
  };

  app.get('/login/with/:provider', async (request, reply) => {
    const { id, settings } = providerOf(request);
    const next = safeNext((request.query as { next?: unknown }).next);
    try {
      const client = await clientOf(settings).catch((cause: unknown) => {
        throw unreachableFailure(settings, cause);
      });
      const openid = await import('openid-client');
      const verifier = openid.randomPKCECodeVerifier();
      const [state, nonce] = [openid.randomState(), openid.randomNonce()];
      const redirect = `${app.site.origin(request)}${base}/${id}/callback`;
      const authorizationUrl = openid.buildAuthorizationUrl(client, {
        redirect_uri: redirect,
        scope: 'openid email',
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        state,
        nonce,
      });
      const ticket = await pendingLogins.issue({ provider: id, state, nonce, verifier, redirect, next });
      reply.setCookie(cookie, ticket, { ...cookieOptions(request), maxAge: lifetimeMinutes * 60 });
      return await reply.redirect(authorizationUrl.href, 303);
    } catch (error) {
      return showFailure(request, reply, id, error);
    }
  });

  app.get('/login/with/:provider/callback', async (request, reply) => {
    const { id, settings } = providerOf(request);
    const ticket = request.cookies[cookie];
    reply.clearCookie(cookie, cookieOptions(request));
    try {
      const pendingLogin = await pendingLogins.open(ticket);
      if (pendingLogin?.provider !== id) throw new LoginFailure(400, staleText);
      const claims = await fetchClaims(settings, pendingLogin, request);
      const candidate = await transaction(database, async (tables) => {
        await claimForm(tables, pendingLogin.state).catch((cause: unknown) => {
          throw cause instanceof UserError ? new LoginFailure(400, staleText) : cause;
        });
        const visitor = { requestId: request.id, audited: config.audit };
        const user = await findOrLinkUser(tables, visitor, settings, claims).catch((cause: unknown) => {
          throw cause instanceof UserError
            ? new LoginFailure(403, (language) => messageIn(cause, language), cause.cause)
            : cause;
        });
        return { user, memberships: await findMemberships(tables, user.id) };
      });
      const proof = { method: settings.name, secondFactor: settings.verifies_second_factor === true };
      return await app
        .continueLogin(request, reply, candidate, { proof, next: pendingLogin.next })
        .catch((cause) => {
          throw cause instanceof HttpError && cause.status === 401 ? new LoginFailure(401, staleText) : cause;
        });
    } catch (error) {
      return showFailure(request, reply, id, error);
    }
  });

  /** Exchanges a provider's response for its claims about the user. */
  async function fetchClaims(
    settings: ProviderSettings,
    { state, nonce, verifier, redirect }: PendingLogin,
    request: FastifyRequest,
  ): Promise<ProviderClaims> {
    const openid = await import('openid-client');
    const callbackUrl = new URL(redirect);
    callbackUrl.search = request.url.split(/\?(.*)/s)[1] ?? '';
    try {
      const client = await clientOf(settings);
      const tokens = await openid.authorizationCodeGrant(client, callbackUrl, {
        pkceCodeVerifier: verifier,
        expectedState: state,
        expectedNonce: nonce,
        idTokenExpected: true,
      });
      const claims = tokens.claims();
      if (claims === undefined) throw new Error('no ID token');
      const { email, email_verified } =
        claims.email === undefined
          ? await openid.fetchUserInfo(client, tokens.access_token, claims.sub)
          : claims;
      return {
        issuer: claims.iss,
        subject: claims.sub,
        email: typeof email === 'string' ? email : undefined,
        isVerified: email_verified === true,
        isReadOnly: app.isReadOnly?.() === true,
      };
    } catch (cause) {
      if (cause instanceof openid.AuthorizationResponseError) {
        throw new LoginFailure(401, later('rejected', { provider: settings.name }), cause);
      }
      if (codeOf(cause) === 'OAUTH_TIMEOUT' || cause instanceof TypeError) {
        throw unreachableFailure(settings, cause);
      }
      throw new LoginFailure(401, later('invalidResponse', { provider: settings.name }), cause);
    }
  }
}

const staleText = later('stale');

/** Returns an error's code for the log, which never contains text written by the provider. */
function codeOf(cause: unknown): string | undefined {
  const { code, error } = (cause ?? {}) as { code?: unknown; error?: unknown };
  const text = typeof error === 'string' ? error : code;
  return typeof text === 'string' && /^\w{1,60}$/.test(text) ? text : undefined;
}
