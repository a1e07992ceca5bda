import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Database } from '../../../engine/database/index.ts';
import { isRowId } from '../../../engine/fields/index.ts';
import { compileGrants, grantsWithin, membersObject, wildcard } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { profileGrants } from '../../access/identity/index.ts';
import {
  type CurrentMember,
  isAdministrator,
  memberOf,
  redirectGetToForm,
  signedIn,
  type ViewData,
} from '../shell/index.ts';

/** A member and, if the member views the records as a profile, the data for the banner. */
interface Viewer {
  readonly member: CurrentMember;
  readonly banner?: ViewData;
}

const cookieName = 'crm_view_as';
const pathOf = (slug: string): string => `/setup/o/${slug}`;

/** Grants that limit a profile to viewing records. */
const viewing = compileGrants(
  [wildcard, membersObject].flatMap((object) => ['list', 'read'].map((action) => ({ object, action }))),
);

/** Returns the cookie with which an administrator views records as a profile, until the session ends. */
export const viewAsCookie = ({ person, membership: { slug } }: CurrentMember, profile: string) => ({
  name: cookieName,
  value: `${profile}.${person.session.id}`,
  path: pathOf(slug),
});

/**
 * Returns the current member. If an administrator views the records as a profile, the member's grants are replaced with
 * the profile's grants to list and read. A cookie is ignored if it belongs to another session, its profile does not
 * exist, or the member is not an administrator.
 * @throws HttpError 403 if the organization does not exist or the user does not belong to it, with the same message
 */
export async function currentViewer(database: Database, request: FastifyRequest): Promise<Viewer> {
  const member = memberOf(request.server, request);
  const { membership, person } = member;
  const [profile = '', session] = request.cookies[cookieName]?.split('.') ?? [];
  if (!isAdministrator(membership) || session !== person.session.id || !isRowId(profile)) return { member };
  const { organization, slug } = membership;
  const tables = tablesOf(database);
  const row = await tables
    .selectFrom('crm_profiles')
    .select('name')
    .where('organization_id', '=', organization)
    .where('id', '=', profile)
    .executeTakeFirst();
  if (row === undefined) return { member };
  const grants = grantsWithin(await profileGrants(tables, organization, profile), viewing);
  return {
    member: { ...member, membership: { ...membership, grants } },
    banner: { viewAs: { profile: row.name, stop: `${pathOf(slug)}/view-as/stop` } },
  };
}

/** Returns the {@link currentViewer}, and clears a cookie that is ignored. */
export async function viewerOf(
  database: Database,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Viewer> {
  const viewer = await currentViewer(database, request);
  if (request.cookies[cookieName] !== undefined && viewer.banner === undefined) {
    const path = pathOf(viewer.member.membership.slug);
    reply.clearCookie(cookieName, request.server.site.cookie(request, path));
  }
  return viewer;
}

/** Registers the button with which an administrator stops viewing records as a profile. */
export function stopViewing(app: FastifyInstance): void {
  const url = '/o/:org/view-as/stop';
  app.post(url, { preHandler: [signedIn(app), app.csrfProtection] }, async (request, reply) => {
    const home = pathOf(memberOf(app, request).membership.slug);
    reply.clearCookie(cookieName, app.site.cookie(request, home));
    return reply.redirect(home, 303);
  });
  redirectGetToForm(app, url, ({ org }) => pathOf(encodeURIComponent(String(org))));
}
