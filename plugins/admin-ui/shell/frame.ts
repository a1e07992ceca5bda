import type { FastifyInstance } from 'fastify';
import type { Membership } from '../../access/identity/index.ts';
import { isAdministrator } from './access.ts';
import { type Language, type TextIn, textIn } from './catalogue.ts';
import { hueAt, type IconName } from './icon.ts';
import { shellTexts } from './texts/index.ts';
import type { Link } from './views.ts';

/** A navigation entry. Its path is relative to the organization's path. */
interface NavigationEntry {
  readonly name: string;
  readonly title: string;
  /** Label of the link that creates one of the section's records. Absent if the member is not allowed to create one. */
  readonly create?: string | undefined;
  /** Heading of the records in the navigation. Default: Records. */
  readonly section?: string | undefined;
  /** Default: the first letter of the title. */
  readonly icon?: IconName | undefined;
}

/** Headings of an organization's setup, in navigation order. */
export const setupGroups = ['Access', 'Integrations', 'Data', 'Organization'] as const;

const groupTitles: Readonly<Record<(typeof setupGroups)[number], TextIn>> = {
  Access: shellTexts.later('access'),
  Integrations: shellTexts.later('integrations'),
  Data: shellTexts.later('data'),
  Organization: shellTexts.later('organization'),
};

/** The position of a section in the navigation. */
export interface Placement {
  /** Heading in the navigation. Default: Organization. */
  readonly group?: (typeof setupGroups)[number] | undefined;
  readonly icon?: IconName | undefined;
  /** Whether the navigation lists the section with the current settings. Default: always. */
  readonly isListed?: (() => boolean) | undefined;
}

/** A section of an organization's setup. Its name is the path of its page, relative to the organization's path. */
interface SetupSection extends Placement {
  readonly name: string;
  readonly title: string | TextIn;
}

/** Returns the navigation entries for the resources that a member can list, with texts in a language. */
type RecordEntries = (membership: Membership, language: Language) => readonly NavigationEntry[];

declare module 'fastify' {
  interface FastifyInstance {
    /** The pages for an organization's setup, in navigation order within their group. */
    setupSections: SetupSection[];
    /** Functions that return the resources that a member can list, in navigation order. Modules can add functions. */
    recordsOf: RecordEntries[];
  }
}

/** Adds a source of navigation entries for resources that a member can list. */
export function addRecords(app: FastifyInstance, entries: RecordEntries): void {
  app.recordsOf.push(entries);
}

/** A heading with the resources below it. */
interface RecordSection {
  readonly title: string;
  readonly entries: readonly (NavigationEntry & { readonly hue: number })[];
}

/** Returns the resources that a member can list, by section. Resources without a section come last. */
export function recordSections(
  app: FastifyInstance,
  membership: Membership,
  language: Language,
): readonly RecordSection[] {
  const entries = app.recordsOf
    .flatMap((entriesOf) => entriesOf(membership, language))
    .map((entry, index) => ({ ...entry, hue: hueAt(index) }));
  const titles = new Set(entries.flatMap(({ section }) => section ?? []));
  return [...[...titles].toSorted(), undefined].flatMap((title) => {
    const own = entries.filter(({ section }) => section === title);
    return own.length === 0 ? [] : [{ title: title ?? shellTexts(language)('records'), entries: own }];
  });
}

/**
 * Maximum number of organizations for which the switcher lists all of them. Otherwise, it lists the organizations visited
 * last, and search finds the others.
 */
const maxListed = 10;

/** The position of a page in the navigation. */
interface CurrentPage {
  readonly memberships: readonly Membership[];
  /** The organizations visited last, most recent first. */
  readonly recent: readonly Membership[];
  readonly org: Membership | undefined;
  /** Name of the current page's entry. */
  readonly current: string | undefined;
  readonly language: Language;
}

/** Returns the sections of an organization's setup that the navigation lists with the current settings. */
export const listedSections = ({ setupSections }: FastifyInstance): FastifyInstance['setupSections'] =>
  setupSections.filter(({ isListed }) => isListed?.() !== false);

/** Returns an organization's navigation. */
export function navigationOf(
  app: FastifyInstance,
  { memberships, recent, org, current, language }: CurrentPage,
) {
  const linkTo = ({ name, title }: Pick<NavigationEntry, 'name' | 'title'>) => ({
    href: `/setup/o/${org?.slug}/${name}`,
    label: title,
    current: name === current,
  });
  const isRecent = ({ slug }: Membership) => recent.some((membership) => membership.slug === slug);
  const rest = memberships.filter((membership) => !isRecent(membership));
  const others = [...recent, ...(memberships.length <= maxListed ? rest : [])].filter(
    ({ slug }) => slug !== org?.slug,
  );
  const isSetup = app.setupSections.some(({ name }) => name === current);
  const switcherLinks: Link[] = others.map((other) => ({
    label: other.name,
    href: `/setup/o/${other.slug}${isSetup && isAdministrator(other) ? `/${current}` : ''}`,
  }));
  const records =
    org === undefined
      ? []
      : recordSections(app, org, language).map(({ title, entries }) => ({
          title,
          entries: entries.map((entry) => ({ ...entry, ...linkTo(entry) })),
        }));
  const setup = setupGroups.map((name) => ({
    title: groupTitles[name](language),
    entries: listedSections(app)
      .filter(({ group = 'Organization' }) => group === name)
      .map(({ title, icon = 'settings', ...entry }) => ({
        ...linkTo({ ...entry, title: textIn(title, language) }),
        icon,
      })),
  }));
  const isSetupListed = org !== undefined && isAdministrator(org);
  return {
    org,
    isHome: current === '',
    sections: [...records, ...(isSetupListed ? setup : [])].filter(({ entries }) => entries.length > 0),
    others: switcherLinks,
  };
}
