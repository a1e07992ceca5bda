import type { Environment } from '../../engine/config/index.ts';
import { suggestionOrList, type YamlIssue } from '../../engine/yaml/index.ts';
import { leaves } from './leaves.ts';
import { isNotBlank, type SettingsFile, variableReferences } from './load.ts';
import { defaults, type Settings } from './settings.ts';

/** An endpoint that is off. */
export interface EndpointOff extends YamlIssue {
  /** Whether it is one of those that every instance has. */
  readonly isShipped: boolean;
}

/** What is right in a file, but perhaps not meant: endpoints that are off because their variables are not set. */
export function disabledEndpoints(
  { written, parsed }: SettingsFile,
  environment: Environment,
): EndpointOff[] {
  const { inbound_leads, booking_forms_whatsapp, payments = {} } = written.partners;
  const endpoints = [
    { name: 'inbound_leads', path: ['inbound_leads'], ...inbound_leads },
    { name: 'booking_forms_whatsapp', path: ['booking_forms_whatsapp'], ...booking_forms_whatsapp },
    ...Object.entries(payments).map(([customer, { verify }]) => ({
      name: `payments of ${customer}`,
      path: ['payments', customer, 'verify'],
      secrets: verify.secrets,
    })),
  ];
  return endpoints
    .filter(({ secrets }) => !secrets.some((secret) => isNotBlank(secret, environment)))
    .map(({ name, path, secrets }) => {
      const unset = secrets.flatMap(variableReferences);
      const why =
        unset.length === 0
          ? 'it has no secret'
          : `${unset.join(' and ')} ${unset.length === 1 ? 'is' : 'are'} not set`;
      const problem = parsed.problem(
        { path: ['partners', ...path, 'secrets'] },
        `${name} is off (501): ${why}`,
      );
      return { ...problem, isShipped: Object.hasOwn(defaults.partners, name) };
    });
}

/**
 * Values of a file that are blank because a variable is not set. Secrets of endpoints are told of by {@link disabledEndpoints}: a
 * list may name one that is not in use any more.
 */
export function unsetVariables({ parsed }: SettingsFile, environment: Environment): YamlIssue[] {
  const shipped = new Set(leaves(defaults).map(({ value }) => value));
  return leaves(parsed.data).flatMap(({ path, value }) => {
    if (typeof value !== 'string' || shipped.has(value) || path.includes('secrets')) return [];
    const unset = variableReferences(value).filter((name) => (environment[name] ?? '').trim() === '');
    if (unset.length === 0) return [];
    const [names, are] = [unset.join(' and '), unset.length === 1 ? 'is' : 'are'];
    return [parsed.problem({ path }, `${names} ${are} not set, so ${path.join('.')} is incomplete`)];
  });
}

/** The slugs that settings name, each with its location. */
function namedSlugs({ partners, login, messaging, quotas }: Settings) {
  const { booking_forms_whatsapp: form, payments } = partners;
  return [
    { slug: form.organization, path: ['partners', 'booking_forms_whatsapp', 'organization'] },
    ...Object.entries(payments).map(([customer, { organization }]) => ({
      slug: organization,
      path: ['partners', 'payments', customer, 'organization'],
    })),
    ...Object.entries(login.providers).flatMap(([name, { new_users }]) =>
      Object.entries(new_users?.domains ?? {}).map(([domain, { organization }]) => ({
        slug: organization,
        path: ['login', 'providers', name, 'new_users', 'domains', domain, 'organization'],
      })),
    ),
    ...Object.keys(messaging).map((slug) => ({ slug, path: ['messaging', slug], key: true })),
    ...Object.keys(quotas.organizations).map((slug) => ({
      slug,
      path: ['quotas', 'organizations', slug],
      key: true,
    })),
  ];
}

/** The slugs that settings name, each with the path of the first setting that names it. */
export const configuredSlugs = (settings: Settings): ReadonlyMap<string, string> =>
  new Map(
    namedSlugs(settings)
      .reverse()
      .map(({ slug, path }) => [slug, path.join('.')]),
  );

/** Organizations that a file names and that do not exist. @param known all slugs, current and former */
export function unknownOrganizations(
  { settings, parsed }: SettingsFile,
  known: readonly string[],
): YamlIssue[] {
  // The defaults do not count: an instance without the demo organization may keep them.
  const { organization } = defaults.partners.booking_forms_whatsapp;
  return namedSlugs(settings)
    .filter(({ slug }) => slug !== organization && !known.includes(slug))
    .map(({ slug, ...target }) =>
      parsed.problem(target, `there is no organization "${slug}"${suggestionOrList(slug, known)}`),
    );
}
