import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { errors, UserError } from '../../../engine/errors.ts';
import { tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  type Form,
  type FormPage,
  field,
  type Input,
  joinTexts,
  type Language,
  languageOf,
  membershipsOf,
  messageIn,
  personOf,
  show,
  signedIn,
  TranslatedError,
} from '../../admin-ui/shell/index.ts';
import { accessInput, keyAccessOf } from '../api-keys/index.ts';
import { type Membership, membershipBySlug } from '../identity/index.ts';
import { coveredProfiles } from '../profiles/index.ts';
import { attempts } from '../rate-limiting/index.ts';
import {
  type AuthorizationRequest,
  authorizationResponse,
  normalQuery,
  readAuthorizationRequest,
} from './authorization-request.ts';
import { connect } from './connections.ts';
import { receiverOf } from './redirect-uris.ts';
import type { ClientRegistry } from './registration.ts';
import { type OAuthServices, requireIssuer } from './services.ts';
import { oauthTexts } from './texts/index.ts';

const path = '/setup/connect';
const dayMs = 86_400_000;
/** Lifetimes of a consent in days, as offered on the page. */
const lifetimes: readonly number[] = [1, 7, 30, 90];
const defaultLifetime = 30;

/** Registers the page on which a user allows a client to act for them. */
export function consentPage(
  app: FastifyInstance,
  services: OAuthServices,
  { findClient, recordUse }: ClientRegistry,
): void {
  const { config, database, resources } = services;
  const perUser = attempts('OAuth clients', { failures: 30, waiting: 10 });

  /** Reads the authorization request in a query string on behalf of the logged-in user. */
  const readRequest = (request: FastifyRequest, query: string) =>
    readAuthorizationRequest(query, requireIssuer(request), async (id) => {
      let failure: unknown;
      const client = await perUser.run(personOf(request).session.user.id, () =>
        findClient(id).catch((cause: unknown) => {
          failure = cause;
          return undefined;
        }),
      );
      if (client === undefined) throw failure;
      return client;
    });

  const showPage = async (
    request: FastifyRequest,
    reply: FastifyReply,
    { client, redirectUri }: AuthorizationRequest,
    {
      query,
      form = {},
      problem,
    }: { readonly query: string; readonly form?: Form; readonly problem?: string },
  ) => {
    const language = languageOf(request);
    const t = oauthTexts(language);
    const memberships = membershipsOf(personOf(request));
    const selected =
      memberships.length === 1
        ? memberships[0]
        : memberships.find(({ slug }) => slug === field(form, 'organization'));
    allowRedirect(reply, redirectUri);
    const profiles = selected && (await permissionChoices(selected, form, language));
    const page: FormPage = {
      title: t('connect', { host: client.host }),
      ...(problem !== undefined && { problem }),
      intro: joinTexts([
        t('asks', { host: client.host }),
        ...(client.name === '' ? [] : [t('callsItself', { name: client.name })]),
        t('returnTo', { host: receiverOf(redirectUri) }),
      ]),
      action: path,
      hidden: [
        { name: 'request', value: query },
        ...(selected ? [{ name: 'organization', value: selected.slug }] : []),
      ],
      inputs:
        selected === undefined
          ? [organizationChoice(memberships, t)]
          : [
              {
                kind: 'fixed',
                name: 'organization_name',
                label: t('organization'),
                value: selected.name,
              },
              ...(profiles ?? []),
              lifetimeChoice(field(form, 'expires'), t),
            ],
      submit: selected === undefined ? t('continue') : t('allow'),
      step: selected === undefined ? 'organization' : 'allow',
      also: [{ label: t('deny'), value: 'deny' }],
      cancel: '',
    };
    return show(request, reply, { kind: 'form', ...page }, { language });
  };

  /** Returns the inputs for the client's permissions. Unless the user chooses otherwise, a person must approve its writes. */
  const permissionChoices = async (
    membership: Membership,
    form: Form,
    language: Language,
  ): Promise<Input[]> => {
    const t = oauthTexts(language);
    const profiles = await grantableProfiles(membership);
    const own = profiles.find(({ name }) => name === membership.profile);
    return [
      {
        kind: 'choice',
        name: 'profile',
        label: t('profile'),
        help: t('profileHelp'),
        options: profiles.map(({ id, name }) => ({
          value: id,
          label: id === own?.id ? t('yours', { profile: name }) : name,
          selected: id === (field(form, 'profile') || own?.id),
        })),
      },
      accessInput(keyAccessOf(field(form, 'access')) ?? 'propose', language),
    ];
  };

  const grantableProfiles = (membership: Membership) =>
    coveredProfiles(tablesOf(database), {
      organization: membership.organization,
      membership,
      services: { resources },
    });

  /** Stores the user's consent. @returns the authorization code */
  const allow = async (request: FastifyRequest, authorization: AuthorizationRequest, form: Form) => {
    const { session } = personOf(request);
    const membership = membershipBySlug(session.memberships, field(form, 'organization'));
    if (membership === undefined) throw new TranslatedError(oauthTexts.later('chooseOrganization'));
    const days = Number(field(form, 'expires'));
    if (!lifetimes.includes(days)) throw new TranslatedError(oauthTexts.later('chooseExpiry'));
    const access = keyAccessOf(field(form, 'access'));
    if (access === undefined) throw new TranslatedError(oauthTexts.later('chooseAccess'));
    const profiles = await grantableProfiles(membership);
    const profile = profiles.find(({ id }) => id === field(form, 'profile'));
    if (profile === undefined) throw new TranslatedError(oauthTexts.later('chooseProfile'));
    return transaction(database, async (tables) => {
      await recordUse(tables, authorization.client);
      return connect(tables, app.actor(request, session.user), config.keyPrefix, {
        ...authorization,
        organization: membership.organization,
        profile: profile.id,
        user: session.user.id,
        access,
        expiresAt: new Date(Date.now() + days * dayMs),
      });
    });
  };

  app.get('/connect', { preHandler: signedIn(app) }, async (request, reply) => {
    const query = normalQuery(request.url.split(/\?(.*)/s)[1] ?? '');
    const authorization = await readRequest(request, query);
    return 'redirect' in authorization
      ? reply.redirect(authorization.redirect, 303)
      : showPage(request, reply, authorization, { query });
  });

  const preHandler = [signedIn(app), app.csrfProtection];
  app.post('/connect', { preHandler }, async (request, reply) => {
    const form = (request.body ?? {}) as Form;
    const query = field(form, 'request');
    const authorization = await readRequest(request, query);
    if ('redirect' in authorization) throw errors.invalidParameter('request', 'is not valid');
    const issuer = requireIssuer(request);
    allowRedirect(reply, authorization.redirectUri);
    const step = field(form, 'step');
    if (step === 'deny')
      return reply.redirect(authorizationResponse(issuer, authorization, { error: 'access_denied' }), 303);
    if (step !== 'allow') return showPage(request, reply, authorization, { query, form });
    try {
      const code = await allow(request, authorization, form);
      return await reply.redirect(authorizationResponse(issuer, authorization, { code }), 303);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return showPage(request, reply, authorization, {
        query,
        form,
        problem: messageIn(error, languageOf(request)),
      });
    }
  });
}

/** Allows the page's form to be redirected to the client, which the Content-Security-Policy otherwise prevents in browsers. */
function allowRedirect(reply: FastifyReply, redirectUri: string): void {
  const { protocol, origin, hostname } = new URL(redirectUri);
  // The policy's syntax has no IPv6 addresses, and private-use schemes have no host.
  const target = hostname.startsWith('[') || hostname === '' ? protocol : origin;
  const policy = String(reply.getHeader('content-security-policy'));
  if (!policy.includes(target))
    reply.header(
      'content-security-policy',
      policy.replace("form-action 'self'", `form-action 'self' ${target}`),
    );
}

const organizationChoice = (memberships: readonly Membership[], t: ReturnType<typeof oauthTexts>): Input => ({
  kind: 'choice',
  name: 'organization',
  label: t('organization'),
  required: true,
  options: memberships.map(({ slug, name }) => ({ value: slug, label: `${name} (${slug})` })),
});

const lifetimeChoice = (selected: string, t: ReturnType<typeof oauthTexts>): Input => ({
  kind: 'choice',
  name: 'expires',
  label: t('expires'),
  options: lifetimes.map((days) => ({
    value: String(days),
    label: days === 1 ? t('inADay') : t('inDays', { days: String(days) }),
    selected: String(days) === (selected || String(defaultLifetime)),
  })),
});
