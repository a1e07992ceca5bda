import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { errors, HttpError, UserError } from '../../../engine/errors.ts';
import { transaction } from '../../../engine/tables/index.ts';
import { claimForm, safeNext } from '../../admin-ui/shell/index.ts';
import { findMemberships, type IdentityServices } from '../identity/index.ts';
import { addLoginLinks } from '../login/index.ts';
import { tickets } from '../secrets/index.ts';
import { findOrLinkUser, type ProviderClaims } from './linking.ts';
import { isAvailable, type ProviderSettings, providers } from './providers.ts';

/** The services that logins at providers need. */
export interface OpenIdServices extends IdentityServices {
  readonly login: () => ReturnType<IdentityServices['login']> & {
    readonly providers: Readonly<Record<string, ProviderSettings>>;
  };
}

/** A login that is under way at a provider. */
interface Departure {
  readonly provider: string;
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly redirect: string;
  readonly next: string;
}

const base = '/setup/login/with';
const cookie = 'crm_provider_login';
/** Minutes that a login at a provider may take. */
const lifetime = 10;

/** Somebody cannot log in; the message is for the person. */
class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;
  constructor(status: number, message: string, cause?: unknown) {
    super(message, { cause });
    this.status = status;
  }
}

const unreachable = ({ name }: ProviderSettings, cause: unknown): Refusal =>
  new Refusal(502, `${name} cannot be reached. Try again, or log in with your password.`, cause);

/** The pages through which people log in at providers. */
export function openIdPages(
  app: FastifyInstance,
  { config, database, secrets, login }: OpenIdServices,
): void {
  const departures = tickets<Departure>(secrets, 'login at a provider', lifetime);
  const { clientOf } = providers();
  const cookieOptions = (request: FastifyRequest) => app.site.cookie(request, base);

  const active = () => Object.entries(login().providers).filter(([, settings]) => isAvailable(settings));
  addLoginLinks(app, () =>
    active().map(([id, { name }]) => ({
      path: `${base}/${id}`,
      label: `Log in with ${name}`,
      isWayIn: true,
    })),
  );
  const providerOf = (request: FastifyRequest): { id: string; settings: ProviderSettings } => {
    const { provider } = request.params as { provider: string };
    const [, settings] = active().find(([id]) => id === provider) ?? [];
    if (settings === undefined) throw errors.notFound();
    return { id: provider, settings };
  };

  /** Shows the login page with what went wrong: passwords still work there. */
  const refuse = (request: FastifyRequest, reply: FastifyReply, provider: string, error: unknown) => {
    if (!(error instanceof Refusal)) throw error;
    const { cause } = error;
    // What is wrong in the settings, or a code: no text of the provider.
    const reason = cause instanceof UserError ? cause.message : codeOf(cause);
    request.log.warn({ address: request.ip, provider, reason }, 'a login at a provider failed');
    reply.code(error.status);
    return app.showLogin(request, reply, { problem: error.message });
  };

  app.get('/login/with/:provider', async (request, reply) => {
    const { id, settings } = providerOf(request);
    const next = safeNext((request.query as { next?: unknown }).next);
    try {
      const client = await clientOf(settings).catch((cause: unknown) => {
        throw unreachable(settings, cause);
      });
      const openid = await import('openid-client');
      const verifier = openid.randomPKCECodeVerifier();
      const [state, nonce] = [openid.randomState(), openid.randomNonce()];
      const redirect = `${app.site.origin(request)}${base}/${id}/callback`;
      const address = openid.buildAuthorizationUrl(client, {
        redirect_uri: redirect,
        scope: 'openid email',
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        state,
        nonce,
      });
      const ticket = await departures.issue({ provider: id, state, nonce, verifier, redirect, next });
      reply.setCookie(cookie, ticket, { ...cookieOptions(request), maxAge: lifetime * 60 });
      return await reply.redirect(address.href, 303);
    } catch (error) {
      return refuse(request, reply, id, error);
    }
  });

  app.get('/login/with/:provider/callback', async (request, reply) => {
    const { id, settings } = providerOf(request);
    const ticket = request.cookies[cookie];
    reply.clearCookie(cookie, cookieOptions(request));
    try {
      const departure = await departures.open(ticket);
      if (departure?.provider !== id) throw new Refusal(400, stale);
      const claimed = await claimedAt(settings, departure, request);
      const proven = await transaction(database, async (tables) => {
        await claimForm(tables, departure.state).catch((cause: unknown) => {
          throw cause instanceof UserError ? new Refusal(400, stale) : cause;
        });
        const visitor = { requestId: request.id, audited: config.audit };
        const user = await findOrLinkUser(tables, visitor, settings, claimed).catch((cause: unknown) => {
          throw cause instanceof UserError ? new Refusal(403, cause.message, cause.cause) : cause;
        });
        return { user, memberships: await findMemberships(tables, user.id) };
      });
      const proof = { method: settings.name, secondFactor: settings.verifies_second_factor === true };
      return await app
        .continueLogin(request, reply, proven, { proof, next: departure.next })
        .catch((cause) => {
          throw cause instanceof HttpError && cause.status === 401 ? new Refusal(401, stale) : cause;
        });
    } catch (error) {
      return refuse(request, reply, id, error);
    }
  });

  /** Exchanges what the provider sent for who it says the person is. */
  async function claimedAt(
    settings: ProviderSettings,
    { state, nonce, verifier, redirect }: Departure,
    request: FastifyRequest,
  ): Promise<ProviderClaims> {
    const openid = await import('openid-client');
    const address = new URL(redirect);
    address.search = request.url.split(/\?(.*)/s)[1] ?? '';
    try {
      const client = await clientOf(settings);
      const tokens = await openid.authorizationCodeGrant(client, address, {
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
        throw new Refusal(
          401,
          `${settings.name} did not log you in. Try again, or log in with your password.`,
          cause,
        );
      }
      if (codeOf(cause) === 'OAUTH_TIMEOUT' || cause instanceof TypeError) {
        throw unreachable(settings, cause);
      }
      throw new Refusal(
        401,
        `What ${settings.name} sent is not valid. Try again, or log in with your password.`,
        cause,
      );
    }
  }
}

const stale =
  'This login was begun in another browser, was finished already, or took longer than ten minutes. Try again.';

/** A code of an error for the log; what a provider wrote itself is not logged. */
function codeOf(cause: unknown): string | undefined {
  const { code, error } = (cause ?? {}) as { code?: unknown; error?: unknown };
  const text = typeof error === 'string' ? error : code;
  return typeof text === 'string' && /^\w{1,60}$/.test(text) ? text : undefined;
}
