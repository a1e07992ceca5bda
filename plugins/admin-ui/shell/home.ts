import type { FastifyInstance } from 'fastify';
import { type CurrentMember, isAdministrator, memberOf, signedIn } from './access.ts';
import { recordEntries } from './frame.ts';
import { show } from './render.ts';
import type { HomePage } from './views.ts';

/** What one concern has to say on the home page of an organization: what needs a person, or that all is well. */
export type HomeCheck = (admin: CurrentMember) => Promise<HomePage['lines']>;

declare module 'fastify' {
  interface FastifyInstance {
    homeChecks: HomeCheck[];
  }
}

/** Adds lines to the home page of organizations, for their administrators. */
export function addHomeCheck(app: FastifyInstance, check: HomeCheck): void {
  app.homeChecks.push(check);
}

/** The worst first. */
const order = ['bad', 'warn', 'good'] as const;

/** The home page of an organization: for administrators whether everything is well; for all where the records are. */
export function homePage(app: FastifyInstance): void {
  app.get('/o/:org', { preHandler: signedIn(app) }, async (request, reply) => {
    const member = memberOf(app, request);
    const { membership } = member;
    const found = isAdministrator(membership)
      ? (await Promise.all(app.homeChecks.map((check) => check(member)))).flat()
      : [];
    const links = recordEntries(app, membership).map(({ name, title }) => ({
      label: title,
      href: `/setup/o/${membership.slug}/${name}`,
    }));
    const isWell = found.every(({ state }) => state === 'good');
    return show(
      request,
      reply,
      {
        kind: 'home',
        title: membership.name,
        ...(isAdministrator(membership) && isWell && { intro: 'Everything is well.' }),
        ...(links.length === 0 &&
          !isAdministrator(membership) && {
            intro: 'Your profile grants no list of records. Ask an administrator of this organization.',
          }),
        lines: found.toSorted((a, b) => order.indexOf(a.state) - order.indexOf(b.state)),
        groups: links.length === 0 ? [] : [{ title: 'Records', links }],
      },
      { org: membership, section: '' },
    );
  });
}
