import { join } from 'node:path';
import {
  type Environment,
  instanceFolder,
  pathVariable,
  type VariableValues,
} from '../../engine/config/index.ts';
import { fileReason, UserError } from '../../engine/errors.ts';
import {
  type Parsed,
  parseYaml,
  readYaml,
  type Source,
  shape,
  sortIssues,
  YamlError,
  type YamlIssue,
} from '../../engine/yaml/index.ts';
import { evaluator, expressionProblem } from './expressions.ts';
import schema from './settings.schema.json' with { type: 'json' };
import { defaults, type Payment, type RawPayment, type RawSettings, type Settings } from './settings.ts';

const hasShape = shape<RawSettings>(schema);

/** The environment variables of config.yaml. */
export const settingsVariables = {
  /** File of settings that may change while the instance runs. */
  settingsFile: pathVariable('CRM_CONFIG', () => join(instanceFolder(), 'config.yaml'), 'a file'),
};

/** The path of config.yaml, and the environment for `${NAME}` in it. */
export type SettingsConfig = VariableValues<typeof settingsVariables> & { readonly environment: Environment };

/**
 * Reads the settings of the instance, config.yaml.
 * @throws YamlError with every mistake in it; UserError when it cannot be read
 */
export const readSettings = async (config: SettingsConfig): Promise<Settings> =>
  (await readSettingsFile(config)).settings;

/** As {@link readSettings}, with what else the file tells. */
export async function readSettingsFile(config: SettingsConfig): Promise<SettingsFile> {
  const source = await readYaml(config.settingsFile).catch((cause: NodeJS.ErrnoException) => {
    throw new UserError(`cannot read ${config.settingsFile}: ${fileReason(cause)}`);
  });
  return parseSettingsFile(source, config.environment);
}

/** As {@link readSettings}, from text. */
export const parseSettings = (source: Source, environment: Environment): Settings =>
  parseSettingsFile(source, environment).settings;

/** A file of settings that is right. */
export interface SettingsFile {
  readonly settings: Settings;
  /** The settings as they are written, with the defaults; references to the environment are not resolved. */
  readonly written: Settings;
  readonly parsed: Parsed;
}

function parseSettingsFile(source: Source, environment: Environment): SettingsFile {
  const problems: YamlIssue[] = [];
  const parsed = parseYaml(source, problems);
  if (parsed === undefined) throw new YamlError(problems);
  // Every key has a default.
  const given = { ...parsed, data: parsed.data ?? {} };
  checkReferences(given, given.data, problems);
  // A reference that is not one fits no pattern either.
  const wrong = new Set(problems.map(({ line, column }) => `${line}:${column}`));
  const misshapen: YamlIssue[] = [];
  const shaped = hasShape(given, misshapen);
  problems.push(...misshapen.filter(({ line, column }) => !wrong.has(`${line}:${column}`)));
  checkPayments(given, problems);
  checkSecrets(given, environment, problems);
  checkSenders(given, problems);
  checkResolved(given, environment, problems);
  if (!shaped || problems.length > 0) throw new YamlError(sortIssues(problems));
  const raw = given.data;
  const { partners = {}, messaging = defaults.messaging, graph = {} } = raw;
  const written: Settings = {
    partners: {
      inbound_leads: { ...defaults.partners.inbound_leads, ...partners.inbound_leads },
      booking_forms_whatsapp: {
        ...defaults.partners.booking_forms_whatsapp,
        ...partners.booking_forms_whatsapp,
      },
      payments: withEvaluators(partners.payments ?? {}),
    },
    messaging: messaging as Settings['messaging'],
    graph: { ...defaults.graph, ...graph },
    read_only: raw.read_only ?? defaults.read_only,
    new_organizations: raw.new_organizations ?? defaults.new_organizations,
    quotas: { ...defaults.quotas, ...raw.quotas },
    public_url: raw.public_url ?? defaults.public_url,
    mail: { ...defaults.mail, ...raw.mail },
    login: { ...defaults.login, ...raw.login },
    inbox: { ...defaults.inbox, ...raw.inbox },
    events: { ...defaults.events, ...raw.events },
    retention: { ...defaults.retention, ...raw.retention },
    backups: { ...defaults.backups, ...raw.backups },
  };
  return { settings: freeze(resolved(written, environment)) as Settings, written, parsed };
}

/** Each reading of the file gets its own evaluators, so that a reload drops the expressions that it replaces. */
const withEvaluators = (payments: Readonly<Record<string, RawPayment>>): Readonly<Record<string, Payment>> =>
  Object.fromEntries(
    Object.entries(payments).map(([customer, entry]) => [customer, { ...entry, evaluate: evaluator() }]),
  );

/** A reference to a variable; one that is not closed has no second part. */
const reference = /\$\{([^}]*)(\}?)/g;

/** Replaces `${NAME}` by the environment's value, everywhere; blank secrets are removed. */
function resolved(value: unknown, environment: Environment, key = ''): unknown {
  if (typeof value === 'string')
    return value.replace(reference, (_, name: string) =>
      Object.hasOwn(environment, name) ? (environment[name] ?? '') : '',
    );
  if (Array.isArray(value)) {
    const items = value.map((item) => resolved(item, environment));
    return key === 'secrets' ? items.filter((item) => typeof item === 'string' && item.trim() !== '') : items;
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, resolved(each, environment, name)]),
  );
}

/** The variables that a text refers to. */
export const variableReferences = (text: string): string[] =>
  [...text.matchAll(reference)].map(([, name = '']) => name);

/** Whether a text is more than blank with the environment's values. */
export const isNotBlank = (text: string, environment: Environment): boolean =>
  String(resolved(text, environment)).trim() !== '';

function freeze(value: unknown): unknown {
  if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(freeze);
    Object.freeze(value);
  }
  return value;
}

/** `${…}` must name a variable. The variable may be unset: an unset secret switches its endpoint off. */
function checkReferences(
  parsed: Parsed,
  value: unknown,
  problems: YamlIssue[],
  path: readonly (string | number)[] = [],
): void {
  if (typeof value === 'string') {
    for (const [whole, name = '', end] of value.matchAll(reference)) {
      if (end === '') problems.push(parsed.problem({ path }, `"\${" is not closed: "}" is missing`));
      else if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
        problems.push(parsed.problem({ path }, `"${whole}" names no environment variable`));
      }
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, each] of Object.entries(value)) {
      const step = Array.isArray(value) ? Number(key) : key;
      checkReferences(parsed, each, problems, [...path, step]);
    }
  }
}

const { public_url, mail, graph } = schema.properties;

/** Values that may come from the environment, where the schema sees only the reference. */
const patterned = [
  { path: ['public_url'], fallback: defaults.public_url, rule: public_url },
  { path: ['mail', 'from'], fallback: defaults.mail.from, rule: mail.properties.from },
  { path: ['mail', 'url'], fallback: defaults.mail.url, rule: mail.properties.url },
  { path: ['graph', 'base_url'], fallback: defaults.graph.base_url, rule: graph.properties.base_url },
] as const;

/** Checks values with references to the environment as they are once these are resolved. Blank ones count as absent. */
function checkResolved(parsed: Parsed, environment: Environment, problems: YamlIssue[]): void {
  for (const { path, fallback, rule } of patterned) {
    const [first, ...rest] = path;
    const given = rest.reduce<unknown>((value, key) => part(value)[key], part(parsed.data)[first]);
    const written = given === undefined ? fallback : given;
    if (typeof written !== 'string' || !isNotBlank(written, environment)) continue;
    const value = String(resolved(written, environment)).trim();
    const isUrl = rule !== mail.properties.from;
    if (new RegExp(rule.pattern, 'u').test(value) && (!isUrl || URL.canParse(value))) continue;
    const names = variableReferences(written);
    // A literal that breaks the pattern is reported by the schema.
    if (names.length === 0 && !new RegExp(rule.pattern, 'u').test(written)) continue;
    const what = names.length === 0 ? path.join('.') : names.join(' and ');
    problems.push(parsed.problem({ path: [...path] }, `${what} must be ${rule['x-expected']}`));
  }
}

/** Shorter secrets can be guessed. */
export const shortestSecret = 16;

/** Checks the resolved value of every secret that opens an endpoint; blank ones are ignored. */
function checkSecrets(parsed: Parsed, environment: Environment, problems: YamlIssue[]): void {
  const partners = part(part(parsed.data).partners);
  const lists = [
    ...(['inbound_leads', 'booking_forms_whatsapp'] as const).map((name) => ({
      path: ['partners', name, 'secrets'],
      secrets: part(partners[name]).secrets ?? defaults.partners[name].secrets,
    })),
    ...Object.entries(part(partners.payments)).map(([customer, payment]) => ({
      path: ['partners', 'payments', customer, 'verify', 'secrets'],
      secrets: part(part(payment).verify).secrets,
    })),
  ];
  for (const { path, secrets } of lists) {
    if (!Array.isArray(secrets)) continue;
    for (const [place, written] of (secrets as unknown[]).entries()) {
      const secret = String(resolved(written, environment)).trim();
      if (typeof written !== 'string' || secret === '' || secret.length >= shortestSecret) continue;
      // A message may contain a reference, but not a secret.
      const name = /^\$\{\w+\}$/.test(written) ? written : `item ${place + 1} of secrets`;
      const message = `${name} must have at least ${shortestSecret} characters`;
      problems.push(parsed.problem({ path: [...path, place] }, message));
    }
  }
}

/** A part of the file as an object; empty for other values, which the schema reports. */
const part = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};

/** Checks every expression of every payment entry. */
function checkPayments(parsed: Parsed, problems: YamlIssue[]): void {
  for (const [customer, given] of Object.entries(part(part(part(parsed.data).partners).payments))) {
    const base = ['partners', 'payments', customer];
    const payment = part(given);
    for (const { path, text } of expressions(payment)) {
      const wrong = expressionProblem(text);
      if (wrong !== undefined) problems.push(parsed.problem({ path: [...base, ...path] }, wrong));
    }
    if (Object.keys(part(payment.lead)).length === 0) {
      const message = 'give at least one of lead.id, lead.email and lead.phone, or no lead can be found';
      problems.push(parsed.problem({ path: base, key: true }, message));
    }
    if (payment.organization === '') {
      problems.push(parsed.problem({ path: [...base, 'organization'] }, 'name an organization'));
    }
  }
}

/** The expressions of a payment entry with their paths. */
function expressions(payment: ReturnType<typeof part>): { path: string[]; text: string }[] {
  const texts = [
    { path: ['event_id'], text: payment.event_id },
    ...Object.entries(part(payment.lead)).map(([key, text]) => ({ path: ['lead', key], text })),
    ...Object.entries(part(payment.opportunity)).map(([key, text]) => ({ path: ['opportunity', key], text })),
    ...Object.keys(part(payment.when)).map((text) => ({ path: ['when', text], text })),
  ];
  return texts.flatMap(({ path, text }) => (typeof text === 'string' ? [{ path, text }] : []));
}

function checkSenders(parsed: Parsed, problems: YamlIssue[]): void {
  for (const [slug, given] of Object.entries(part(part(parsed.data).messaging))) {
    const sender = part(given);
    if (sender.sender !== 'whatsapp_cloud') continue;
    for (const key of ['phone_number_id', 'access_token']) {
      if (sender[key] === undefined) {
        problems.push(parsed.problem({ path: ['messaging', slug], key: true }, `${slug} lacks "${key}"`));
      }
    }
  }
}
