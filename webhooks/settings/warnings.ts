import type { Environment } from '../../engine/config/index.ts';
import { sortIssues, suggestionOrList, YamlError, type YamlIssue } from '../../engine/yaml/index.ts';
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

/** Returns the retired resource because of which a module is not served, or undefined if it is served. */
export type RetiredNeedOf = (module: string) => string | undefined;

/** Returns the partner endpoints in the settings, each with its module and its path. */
function endpointsIn({ unresolved }: Pick<SettingsFile, 'unresolved'>) {
  const { inbound_leads, booking_forms_whatsapp, payments = {} } = unresolved.partners;
  return [
    {
      name: 'inbound_leads',
      module: 'inbound-leads',
      path: ['inbound_leads'],
      secretsPath: ['inbound_leads'],
      ...inbound_leads,
    },
    {
      name: 'booking_forms_whatsapp',
      module: 'booking-forms',
      path: ['booking_forms_whatsapp'],
      secretsPath: ['booking_forms_whatsapp'],
      ...booking_forms_whatsapp,
    },
    ...Object.entries(payments).map(([customer, { verify }]) => ({
      name: `payments of ${customer}`,
      module: 'payments',
      path: ['payments', customer],
      secretsPath: ['payments', customer, 'verify'],
      secrets: verify.secrets,
    })),
  ];
}

/**
 * Checks that no endpoint is configured that the instance does not serve, because a resource that it writes is retired. An
 * endpoint without a secret counts as configured only if it has an entry of its own.
 * @throws YamlError with each entry
 */
export function assertServed(
  file: SettingsFile,
  environment: Environment,
  retiredNeedOf: RetiredNeedOf,
): void {
  const issues = endpointsIn(file).flatMap(({ name, module, path, secrets }) => {
    const resource = retiredNeedOf(module);
    const isConfigured = module === 'payments' || secrets.some((secret) => isNotBlank(secret, environment));
    if (resource === undefined || !isConfigured) return [];
    const message = `${name} cannot be configured, because it writes ${resource}, which is retired. Remove its ${module === 'payments' ? 'entry' : 'secret'}, or "retired: true" of ${resource}.`;
    return [file.parsed.issueAt({ path: ['partners', ...path], key: true }, message)];
  });
  if (issues.length > 0) throw new YamlError(sortIssues(issues));
}

/**
 * Returns warnings about endpoints disabled because their secret is missing or its variable is unset.
 * @param retiredNeedOf excludes endpoints that are not served
 */
export function disabledEndpoints(
  file: SettingsFile,
  environment: Environment,
  retiredNeedOf: RetiredNeedOf = () => undefined,
): DisabledEndpoint[] {
  const { parsed } = file;
  return endpointsIn(file)
    .filter(
      ({ module, secrets }) =>
        retiredNeedOf(module) === undefined && !secrets.some((secret) => isNotBlank(secret, environment)),
    )
    .map(({ name, secretsPath, secrets }) => {
      const unsetNames = secrets.flatMap(variableReferences);
      const reason =
        unsetNames.length === 0
          ? 'it has no secret'
          : `${unsetNames.join(' and ')} ${unsetNames.length === 1 ? 'is' : 'are'} not set`;
      const issue = parsed.issueAt(
        { path: ['partners', ...secretsPath, 'secrets'] },
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
