import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Actor } from '../../../engine/effects/index.ts';
import { HttpError } from '../../../engine/errors.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import { type Membership, membershipBySlug, type Person } from '../../access/identity/index.ts';
import type { TextIn } from './catalogue.ts';
import { shellTexts } from './texts/index.ts';
import { ForbiddenError } from './translated-error.ts';

/** A request from a member of an organization. */
export interface CurrentMember {
  readonly person: Person;
  readonly membership: Membership;
  readonly actor: Actor;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Owner of the form tokens: the session's ID, or `nobody` before login. */
    formOwner: string;
    /** The logged-in user, or null before login. */
    person: Person | null;
  }
}

/** URL of the page for setting up a second factor. */
const setUpPage = '/setup/me/second-factor';

/**
 * Creates a preHandler that redirects users who are not logged in to the login page. After login, they are
 * redirected back. Users who must set up a second factor are redirected to the page for it.
 * @param options `settingUp` identifies the page for setting up the second factor
 */
export const signedIn =
  (app: FastifyInstance, options: { readonly settingUp?: boolean } = {}) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    try {
      request.person = await app.identify(request, options);
      request.formOwner = request.person.session.id;
      request.owner = ownerOf(request, request.person);
      request.assertAllowed = () => assertStillMember(app, request, options);
      const redirectUrl = currentUrl(request, request.person);
      return redirectUrl === undefined ? undefined : reply.redirect(redirectUrl, 307);
    } catch (error) {
      if (!(error instanceof HttpError) || error.status !== 401) throw error;
      if (error.code === 'second_factor_missing') return reply.redirect(setUpPage, 303);
      const next = request.method === 'GET' ? `?next=${encodeURIComponent(request.url)}` : '';
      return reply.redirect(`/setup/login${next}`, 303);
    }
  };

/** Returns the current URL of a page that was requested under a former slug of its organization, or undefined. */
function currentUrl({ method, url, params }: FastifyRequest, { session }: Person): string | undefined {
  const { org } = params as { readonly org?: string };
  if (org === undefined || method !== 'GET' || session.memberships.has(org)) return undefined;
  const membership = membershipBySlug(session.memberships, org);
  return membership && url.replace(/^(\/setup\/[^/]+\/)[^/?]+/, `$1${membership.slug}`);
}

/** Returns the owner used by admission control: the organization in the URL or, without one, the user. */
function ownerOf({ params }: FastifyRequest, { session }: Person): string {
  const { org = '' } = params as { org?: string };
  return membershipBySlug(session.memberships, org)?.organization ?? `user ${session.user.id}`;
}

/**
 * Rechecks the membership during a long-running operation.
 * @throws HttpError 401 if the session has ended, 403 if the user's profile in the organization has changed
 */
async function assertStillMember(
  app: FastifyInstance,
  request: FastifyRequest,
  options: { readonly settingUp?: boolean },
): Promise<void> {
  const { org = '' } = request.params as { org?: string };
  const previous = request.person && membershipBySlug(request.person.session.memberships, org);
  const { session } = await app.identify(request, options);
  const current = membershipBySlug(session.memberships, org);
  if (current?.organization !== previous?.organization || current?.profile !== previous?.profile)
    throw new ForbiddenError(shellTexts.later('notAMember'));
}

/** Returns the logged-in user. Requires {@link signedIn} as a preHandler. */
export function personOf({ person }: FastifyRequest): Person {
  if (person === null) throw new Error('a page without signedIn');
  return person;
}

/** Returns the user's organizations, sorted by name. */
export const membershipsOf = ({ session }: Person): Membership[] =>
  [...session.memberships.values()].sort((a, b) => a.name.localeCompare(b.name));

/** Returns whether a member administers the organization. */
export const isAdministrator = ({ profile }: Membership): boolean => profile === administratorProfile;

/**
 * Returns the current member.
 * @throws HttpError 403 if the organization does not exist or the user does not belong to it, with the same message
 */
function membershipIn(
  app: FastifyInstance,
  request: FastifyRequest,
  isPermitted: (membership: Membership) => boolean,
  message: TextIn,
): CurrentMember {
  const person = personOf(request);
  const { org } = request.params as { org: string };
  const membership = membershipBySlug(person.session.memberships, org);
  if (membership === undefined || !isPermitted(membership)) throw new ForbiddenError(message);
  return { person, membership, actor: app.actor(request, person.session.user) };
}

/**
 * Returns the current administrator.
 * @throws HttpError 403 if the organization does not exist or the user does not administer it, with the same message
 */
export const adminOf = (app: FastifyInstance, request: FastifyRequest): CurrentMember =>
  membershipIn(app, request, isAdministrator, shellTexts.later('administratorsOnly'));

/**
 * Returns the current member.
 * @throws HttpError 403 if the organization does not exist or the user does not belong to it, with the same message
 */
export const memberOf = (app: FastifyInstance, request: FastifyRequest): CurrentMember =>
  membershipIn(app, request, () => true, shellTexts.later('notAMember'));
