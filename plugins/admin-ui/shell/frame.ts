import type { FastifyInstance } from 'fastify';
import type { Membership } from '../../access/identity/index.ts';
import { isAdministrator } from './access.ts';
import type { Link } from './views.ts';

/** An entry of the navigation; its address follows that of the organization. */
export interface NavigationEntry {
  readonly name: string;
  readonly title: string;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The setup pages of an organization, in the order of the navigation. */
    setupSections: NavigationEntry[];
    /** What members may list of an organization's records, in the order of the navigation; modules add theirs. */
    recordsOf: ((membership: Membership) => readonly NavigationEntry[])[];
  }
}

/** Adds what members may list to the navigation. */
export function addRecords(
  app: FastifyInstance,
  entries: (membership: Membership) => readonly NavigationEntry[],
): void {
  app.recordsOf.push(entries);
}

/** What a member may list of the organization's records. */
export const recordEntries = (app: FastifyInstance, membership: Membership): NavigationEntry[] =>
  app.recordsOf.flatMap((entries) => entries(membership));

/** Organizations that the switcher lists; more are searched on a page of their own. */
const maxListed = 10;

/** The navigation of an organization. @param current the name of the entry that the page belongs to */
export function navigationOf(
  app: FastifyInstance,
  memberships: readonly Membership[],
  org: Membership | undefined,
  current: string | undefined,
) {
  const entries = (all: readonly NavigationEntry[]) =>
    all.map(({ name, title }) => ({
      href: `/setup/o/${org?.slug}/${name}`,
      label: title,
      current: name === current,
    }));
  const others = memberships.filter(({ slug }) => slug !== org?.slug);
  const isSetup = app.setupSections.some(({ name }) => name === current);
  const switches: Link[] = others.map((other) => ({
    label: other.name,
    href: `/setup/o/${other.slug}${isSetup && isAdministrator(other) ? `/${current}` : ''}`,
  }));
  return {
    records: org && entries(recordEntries(app, org)),
    setup: org && isAdministrator(org) ? entries(app.setupSections) : undefined,
    isHome: current === '',
    others: switches.length <= maxListed ? switches : [],
  };
}
