import type { Environment } from '../../engine/config/index.ts';
import { suggestionOrList, type YamlIssue } from '../../engine/yaml/index.ts';
import { isNotBlank, type SettingsFile, variableReferences } from './load.ts';
import { defaults, type Settings } from './settings.ts';

/** A scalar value in the settings, with its path. */
export interface Leaf {
  readonly path: readonly (string | number)[];
  readonly value: string | number | boolean;
}

/** Returns all scalar values in the settings, or in a section of the settings. */
export function leaves(value: unknown, path: Leaf['path'] = []): Leaf[] {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return [{ path, value }];
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, child]) =>
    leaves(child, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}

/** A warning about an endpoint without a secret. */
interface DisabledEndpoint extends YamlIssue {
  /** Whether the endpoint exists in every instance. */
  readonly isShipped: boolean;
}

/** Returns warnings about endpoints disabled because their secret is missing or its variable is unset. */
export function disabledEndpoints(
  { unresolved, parsed }: SettingsFile,
  environment: Environment,
): DisabledEndpoint[] {
  const { inbound_leads, booking_forms_whatsapp, payments = {} } = unresolved.partners;
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
      const unsetNames = secrets.flatMap(variableReferences);
      const reason =
        unsetNames.length === 0
          ? 'it has no secret'
          : `${unsetNames.join(' and ')} ${unsetNames.length === 1 ? 'is' : 'are'} not set`;
      const issue = parsed.issueAt(
        { path: ['partners', ...path, 'secrets'] },
        `${name} is off (501): ${reason}`,
      );
      return { ...issue, isShipped: Object.hasOwn(defaults.partners, name) };
    });
}

/**
 * Returns warnings about values that refer to unset variables. Endpoint secrets are excluded, because a
 * secrets list can refer to a variable that is no longer used. See {@link disabledEndpoints}.
 */
export function unsetVariables({ parsed }: SettingsFile, environment: Environment): YamlIssue[] {
  const defaultValues = new Set(leaves(defaults).map(({ value }) => value));
  return leaves(parsed.data).flatMap(({ path, value }) => {
    if (typeof value !== 'string' || defaultValues.has(value) || path.includes('secrets')) return [];
    const unsetNames = variableReferences(value).filter((name) => (environment[name] ?? '').trim() === '');
    if (unsetNames.length === 0) return [];
    const [names, verb] = [unsetNames.join(' and '), unsetNames.length === 1 ? 'is' : 'are'];
    return [parsed.issueAt({ path }, `${names} ${verb} not set, so ${path.join('.')} is incomplete`)];
  });
}

/** Returns the slugs in the settings, each with its location. */
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

/** Returns the slugs in the settings, each with the path of the first setting that contains it. */
export const configuredSlugs = (settings: Settings): ReadonlyMap<string, string> =>
  new Map(
    namedSlugs(settings)
      .reverse()
      .map(({ slug, path }) => [slug, path.join('.')]),
  );

/** Returns issues for references to unknown organizations. @param slugs all slugs, current and former */
export function unknownOrganizations(
  { settings, parsed }: SettingsFile,
  slugs: readonly string[],
): YamlIssue[] {
  // The default organization is ignored, because instances without demo data can keep the defaults.
  const { organization } = defaults.partners.booking_forms_whatsapp;
  return namedSlugs(settings)
    .filter(({ slug }) => slug !== organization && !slugs.includes(slug))
    .map(({ slug, ...target }) =>
      parsed.issueAt(target, `organization "${slug}" does not exist${suggestionOrList(slug, slugs)}`),
    );
}
