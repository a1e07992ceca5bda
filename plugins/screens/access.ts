import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Actor } from '../../engine/effects/index.ts';
import { HttpError } from '../../engine/errors.ts';
import { administrator } from '../../engine/records/index.ts';
import type { Membership, Person } from '../identity/index.ts';

/** A request by a member of an organization. */
export interface Member {
  readonly person: Person;
  readonly membership: Membership;
  readonly actor: Actor;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The owner of a form's token: the session, or `nobody` before login. */
    formOwner: string;
    /** The person who is logged in; null before login. */
    person: Person | null;
  }
}

/** Where people set up a second factor. */
const setUpPage = '/setup/me/second-factor';

/**
 * Redirects people who are not logged in to the login page, and back afterwards; those who have to set up a second
 * factor first, to its page.
 * @param options `settingUp`: it is the page for that
 */
export const signedIn =
  (app: FastifyInstance, options: { readonly settingUp?: boolean } = {}) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    try {
      request.person = await app.identify(request, options);
      request.formOwner = request.person.session.id;
      return undefined;
    } catch (error) {
      if (!(error instanceof HttpError) || error.status !== 401) throw error;
      if (error.code === 'second_factor_missing') return reply.redirect(setUpPage, 303);
      const next = request.method === 'GET' ? `?next=${encodeURIComponent(request.url)}` : '';
      return reply.redirect(`/setup/login${next}`, 303);
    }
  };

/** The person after {@link signedIn}. */
export function personOf({ person }: FastifyRequest): Person {
  if (person === null) throw new Error('a page without signedIn');
  return person;
}

/** The organizations of a person, by name. */
export const membershipsOf = ({ session }: Person): Membership[] =>
  [...session.memberships.values()].sort((a, b) => a.name.localeCompare(b.name));

/** Whether a member administrates the organization. */
export const administrates = ({ profile }: Membership): boolean => profile === administrator;

/** One text for an organization that does not exist and one that the person does not belong to. */
function membershipIn(
  app: FastifyInstance,
  request: FastifyRequest,
  isEnough: (membership: Membership) => boolean,
  refusal: string,
): Member {
  const person = personOf(request);
  const { org } = request.params as { org: string };
  const membership = person.session.memberships.get(org);
  if (membership === undefined || !isEnough(membership)) throw new HttpError(403, 'forbidden', refusal);
  request.organization = membership.organization;
  return { person, membership, actor: app.actor(request, person.session.user) };
}

/** @throws HttpError 403, the same for an unknown organization and one that the person does not administer */
export const adminOf = (app: FastifyInstance, request: FastifyRequest): Member =>
  membershipIn(app, request, administrates, 'Only administrators of this organization come here.');

/** @throws HttpError 403, the same for an unknown organization and one that the person does not belong to */
export const memberOf = (app: FastifyInstance, request: FastifyRequest): Member =>
  membershipIn(app, request, () => true, 'Only members of this organization come here.');
