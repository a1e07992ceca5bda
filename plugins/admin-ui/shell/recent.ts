import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Membership, membershipBySlug, type Person } from '../../access/identity/index.ts';

/** Cookie with the slugs of the organizations visited last, most recent first. The explorer also reads it. */
const cookieName = 'crm_recent_organizations';

/** Number of remembered organizations. */
const maxRemembered = 5;

/** How long organizations are remembered, in seconds. */
const lifetime = 365 * 86_400;

/** Returns the slugs in the cookie, which is encoded because its value is arbitrary text. */
const slugsIn = ({ cookies }: FastifyRequest): readonly string[] =>
  Buffer.from(cookies[cookieName] ?? '', 'base64url')
    .toString()
    .split('.')
    .slice(0, maxRemembered);

/** Returns the organizations that the browser's user visited last and still belongs to, most recent first. */
export const recentMemberships = (request: FastifyRequest, { session }: Person): readonly Membership[] => [
  ...new Set(slugsIn(request).flatMap((slug) => membershipBySlug(session.memberships, slug) ?? [])),
];

/** Remembers that the user visits an organization. */
export function rememberOrganization(
  request: FastifyRequest,
  reply: FastifyReply,
  { slug }: Membership,
): void {
  const slugs = slugsIn(request);
  if (slugs[0] === slug) return;
  const recent = [slug, ...slugs.filter((other) => other !== slug && /^[\w-]+$/.test(other))];
  const value = Buffer.from(recent.slice(0, maxRemembered).join('.')).toString('base64url');
  reply.setCookie(cookieName, value, {
    ...request.server.site.cookie(request, '/'),
    maxAge: lifetime,
  });
}
