import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type CurrentMember, isAdministrator, memberOf, signedIn } from './access.ts';
import { recordSections } from './frame.ts';
import { show } from './render.ts';
import type { HomePage } from './views.ts';

/**
 * Returns a module's lines for an organization's home page. They report issues that need attention, or
 * confirm that everything is fine.
 */
type HomeCheck = (admin: CurrentMember) => Promise<HomePage['lines']>;

/** Returns a module's charts for the home page of the organization in the URL. */
type HomeCharts = (request: FastifyRequest) => Promise<NonNullable<HomePage['charts']>>;

declare module 'fastify' {
  interface FastifyInstance {
    homeChecks: HomeCheck[];
    homeCharts: HomeCharts[];
  }
}

/** Adds charts to the organization's home page. They must show only what the member can see. */
export function addHomeCharts(app: FastifyInstance, charts: HomeCharts): void {
  app.homeCharts.push(charts);
}

/** Adds a check whose lines are shown to administrators on the organization's home page. */
export function addHomeCheck(app: FastifyInstance, check: HomeCheck): void {
  app.homeChecks.push(check);
}

/** Display order of the lines, worst state first. */
const order = ['bad', 'warn', 'good'] as const;

/** Registers the organization's home page: status lines for administrators, and links to records for all members. */
export function homePage(app: FastifyInstance): void {
  app.get('/o/:org', { preHandler: signedIn(app) }, async (request, reply) => {
    const member = memberOf(app, request);
    const { membership } = member;
    const lines = isAdministrator(membership)
      ? (await Promise.all(app.homeChecks.map((check) => check(member)))).flat()
      : [];
    const charts = (await Promise.all(app.homeCharts.map((chartsOf) => chartsOf(request)))).flat();
    const groups = recordSections(app, membership).map(({ title, entries }) => ({
      title,
      links: entries.map((entry) => ({
        label: entry.title,
        hue: entry.hue,
        ...(entry.icon && { icon: entry.icon }),
        href: `/setup/o/${membership.slug}/${entry.name}`,
      })),
    }));
    const isHealthy = lines.every(({ state }) => state === 'good');
    return show(
      request,
      reply,
      {
        kind: 'home',
        title: membership.name,
        ...(isAdministrator(membership) && isHealthy && { intro: 'Nothing needs your attention.' }),
        ...(groups.length === 0 &&
          !isAdministrator(membership) && {
            intro:
              'Your profile does not allow you to list any records. Ask an administrator of this organization for access.',
          }),
        lines: lines.toSorted((a, b) => order.indexOf(a.state) - order.indexOf(b.state)),
        charts,
        groups,
      },
      { org: membership, section: '' },
    );
  });
}
