import type { FastifyInstance } from 'fastify';
import type { Membership } from '../../access/identity/index.ts';
import { isAdministrator } from './access.ts';
import type { Link } from './views.ts';

/** A navigation entry. Its path is relative to the organization's path. */
interface NavigationEntry {
  readonly name: string;
  readonly title: string;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The pages for an organization's setup, in navigation order. */
    setupSections: NavigationEntry[];
    /** Functions that return the resources that a member can list, in navigation order. Modules can add functions. */
    recordsOf: ((membership: Membership) => readonly NavigationEntry[])[];
  }
}

/** Adds a source of navigation entries for resources that a member can list. */
export function addRecords(
  app: FastifyInstance,
  entries: (membership: Membership) => readonly NavigationEntry[],
): void {
  app.recordsOf.push(entries);
}

/** Returns the resources that a member can list. */
export const recordEntries = (app: FastifyInstance, membership: Membership): NavigationEntry[] =>
  app.recordsOf.flatMap((entries) => entries(membership));

/**
 * Maximum number of organizations in the switcher. The remaining organizations are listed on the organizations page.
 */
const maxListed = 10;

/** Returns an organization's navigation. @param current the name of the current page's entry */
export function navigationOf(
  app: FastifyInstance,
  memberships: readonly Membership[],
  org: Membership | undefined,
  current: string | undefined,
) {
  const entries = (navigation: readonly NavigationEntry[]) =>
    navigation.map(({ name, title }) => ({
      href: `/setup/o/${org?.slug}/${name}`,
      label: title,
      current: name === current,
    }));
  const others = memberships.filter(({ slug }) => slug !== org?.slug);
  const isSetup = app.setupSections.some(({ name }) => name === current);
  const switcherLinks: Link[] = others.map((other) => ({
    label: other.name,
    href: `/setup/o/${other.slug}${isSetup && isAdministrator(other) ? `/${current}` : ''}`,
  }));
  return {
    records: org && entries(recordEntries(app, org)),
    setup: org && isAdministrator(org) ? entries(app.setupSections) : undefined,
    isHome: current === '',
    others: switcherLinks.length <= maxListed ? switcherLinks : [],
  };
}
