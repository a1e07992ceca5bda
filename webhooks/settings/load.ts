import { type Environment, settingsFileVariable, type VariableValues } from '../../engine/config/index.ts';
import { fileReason, UserError } from '../../engine/errors.ts';
import type { JsonSchema } from '../../engine/fields/index.ts';
import type { SectionRules } from '../../engine/modules/index.ts';
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

/** A module that can have a section in config.yaml. */
interface SectionOwner {
  readonly name: string;
  readonly settings?: SectionRules;
  /** The module's channels, by name. Channels that can send messages are senders in `messaging`. */
  readonly channels?: Readonly<Record<string, { readonly send?: unknown }>>;
}

/** Names of the engine's own settings, which modules cannot use. */
export const settingNames: readonly string[] = Object.keys(schema.properties);

/** Returns the schemas of the modules' sections, keyed by the modules' names. */
export const sectionSchemas = (modules: readonly SectionOwner[]): Readonly<Record<string, JsonSchema>> =>
  Object.fromEntries(
    modules.flatMap(({ name, settings }) =>
      settings === undefined ? [] : [[name, typeof settings === 'function' ? {} : settings]],
    ),
  );

/** Returns the names of the modules' sections that config.yaml must contain. */
const requiredSections = (modules: readonly SectionOwner[]): string[] =>
  Object.entries(sectionSchemas(modules)).flatMap(([name, { required }]) =>
    Array.isArray(required) && required.length > 0 ? [name] : [],
  );

const { sender } = schema.$defs;

/** The engine's own senders. */
export const ownSenders: readonly string[] = sender.properties.sender.enum;

/** Returns the schema of an organization's sender, which can be a channel of a module. */
export const senderSchema = (modules: readonly SectionOwner[]): typeof sender => {
  const channels = modules.flatMap(({ channels = {} }) =>
    Object.entries(channels).flatMap(([name, { send }]) => (send === undefined ? [] : [name])),
  );
  return { ...sender, properties: { ...sender.properties, sender: { enum: [...ownSenders, ...channels] } } };
};

/** Returns the check for the engine's settings and the modules' sections and channels. */
const shapeWith = (modules: readonly SectionOwner[]): typeof hasShape =>
  modules.every(
    ({ settings, channels = {} }) =>
      settings === undefined && Object.values(channels).every(({ send }) => send === undefined),
  )
    ? hasShape
    : shape({
        ...schema,
        $defs: { ...schema.$defs, sender: senderSchema(modules) },
        properties: { ...schema.properties, ...sectionSchemas(modules) },
        required: requiredSections(modules),
      });

/** Checks whether a schema for a section is valid. @throws Error with the reason if it is not */
export function assertSectionSchema(section: JsonSchema): void {
  shape(section);
}

/** Environment variables for config.yaml. */
export const settingsVariables = {
  /** Path of the settings file. The file can change while the instance is running. */
  settingsFile: settingsFileVariable,
};

/** Path of config.yaml, the environment for its `${NAME}` references, and the rules for the sections of modules. */
export type SettingsConfig = VariableValues<typeof settingsVariables> & {
  readonly environment: Environment;
  /** The instance's modules, of which some have sections in the file. */
  readonly modules?: readonly SectionOwner[];
};

/**
 * Reads the instance's settings from config.yaml.
 * @throws YamlError listing all issues; UserError if the file cannot be read
 */
export const readSettings = async (config: SettingsConfig): Promise<Settings> =>
  (await readSettingsFile(config)).settings;

/** Reads the settings in the same way as {@link readSettings}, but also returns the parsed file. */
export async function readSettingsFile(config: SettingsConfig): Promise<SettingsFile> {
  const source = await readYaml(config.settingsFile).catch((cause: NodeJS.ErrnoException) => {
    throw new UserError(`cannot read ${config.settingsFile}: ${fileReason(cause)}`);
  });
  return parseSettingsFile(source, config.environment, config.modules);
}

/** An entry of `modules` in config.yaml. */
export interface ModuleEntry {
  /** The file or package. */
  readonly specifier: string;
  /** Returns an issue at the entry. */
  readonly issue: (message: string) => YamlIssue;
}

/**
 * Returns the entries of `modules` in config.yaml. Returns none if the file is invalid, because reading the settings reports
 * that, and needs the modules.
 */
export async function readModuleEntries({ settingsFile }: SettingsConfig): Promise<readonly ModuleEntry[]> {
  const source = await readYaml(settingsFile).catch(() => undefined);
  const parsed = source === undefined ? undefined : parseYaml(source, []);
  const { modules } = objectOf(parsed?.data);
  if (parsed === undefined || !Array.isArray(modules)) return [];
  return (modules as unknown[]).flatMap((specifier, index) =>
    typeof specifier === 'string' && specifier !== '' && modules.indexOf(specifier) === index
      ? { specifier, issue: (message: string) => parsed.issueAt({ path: ['modules', index] }, message) }
      : [],
  );
}

/** Parses settings from a string, in the same way as {@link readSettings}. */
export const parseSettings = (source: Source, environment: Environment): Settings =>
  parseSettingsFile(source, environment).settings;

/** A valid settings file. */
export interface SettingsFile {
  readonly settings: Settings;
  /** The settings with defaults, but with unresolved environment references. */
  readonly unresolved: Settings;
  readonly parsed: Parsed;
}

function parseSettingsFile(
  source: Source,
  environment: Environment,
  modules: readonly SectionOwner[] = [],
): SettingsFile {
  const issues: YamlIssue[] = [];
  const parsed = parseYaml(source, issues);
  if (parsed === undefined) throw new YamlError(issues);
  // An empty file is valid, because every key has a default.
  const file = { ...parsed, data: parsed.data ?? {} };
  checkReferences(file, file.data, issues);
  // An invalid reference also violates the schema's pattern but must be reported only once.
  const reportedLocations = new Set(issues.map(({ line, column }) => `${line}:${column}`));
  const shapeIssues: YamlIssue[] = [];
  const hasValidShape = shapeWith(modules)(file, shapeIssues);
  issues.push(...shapeIssues.filter(({ line, column }) => !reportedLocations.has(`${line}:${column}`)));
  checkPayments(file, issues);
  checkSecrets(file, environment, issues);
  checkSenders(file, issues);
  checkResolved(file, environment, issues);
  if (!hasValidShape || issues.length > 0) throw new YamlError(sortIssues(issues));
  const raw: RawSettings = file.data;
  const sections = sectionsOf(file.data, modules);
  const { partners = {}, messaging = defaults.messaging, graph = {} } = raw;
  const unresolved: Settings = {
    ...sections,
    modules: raw.modules ?? defaults.modules,
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
    mcp: raw.mcp ?? defaults.mcp,
    mail: { ...defaults.mail, ...raw.mail },
    login: { ...defaults.login, ...raw.login },
    inbox: { ...defaults.inbox, ...raw.inbox },
    events: { ...defaults.events, ...raw.events },
    retention: { ...defaults.retention, ...raw.retention },
    backups: { ...defaults.backups, ...raw.backups },
  };
  const settings = resolveReferences(unresolved, environment) as Settings;
  const parsedSections = parseSections(file, settings, modules);
  return { settings: freeze({ ...settings, ...parsedSections }) as Settings, unresolved, parsed };
}

/** Returns the modules' sections in a settings file. */
const sectionsOf = (data: unknown, modules: readonly SectionOwner[]): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.keys(sectionSchemas(modules)).map((name) => [name, objectOf(data)[name] ?? {}]));

/**
 * Returns the sections that modules parse with a function.
 * @throws YamlError with each section that a function rejects
 */
function parseSections(
  parsed: Parsed,
  settings: Settings,
  modules: readonly SectionOwner[],
): Readonly<Record<string, unknown>> {
  const issues: YamlIssue[] = [];
  const entries = modules.flatMap(({ name, settings: rules }) => {
    if (typeof rules !== 'function') return [];
    try {
      return [[name, rules(sectionOf(settings, name))] as const];
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      issues.push(parsed.issueAt({ path: [name], key: true }, `${name}: ${message}`));
      return [];
    }
  });
  if (issues.length > 0) throw new YamlError(sortIssues(issues));
  return Object.fromEntries(entries);
}

/** Returns a module's section in the settings. */
export const sectionOf = (settings: Settings, module: string): unknown => objectOf(settings)[module];

/** Adds an evaluator to each payment entry. A reload creates new evaluators with empty caches. */
const withEvaluators = (payments: Readonly<Record<string, RawPayment>>): Readonly<Record<string, Payment>> =>
  Object.fromEntries(
    Object.entries(payments).map(([customer, entry]) => [customer, { ...entry, evaluate: evaluator() }]),
  );

/** Matches a variable reference. The second group is empty if the closing brace is missing. */
const reference = /\$\{([^}]*)(\}?)/g;

/** Replaces `${NAME}` in all strings with the variable's value, and removes blank secrets. */
function resolveReferences(value: unknown, environment: Environment, key = ''): unknown {
  if (typeof value === 'string')
    return value.replace(reference, (_, name: string) =>
      Object.hasOwn(environment, name) ? (environment[name] ?? '') : '',
    );
  if (Array.isArray(value)) {
    const items = value.map((item) => resolveReferences(item, environment));
    return key === 'secrets' ? items.filter((item) => typeof item === 'string' && item.trim() !== '') : items;
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, child]) => [name, resolveReferences(child, environment, name)]),
  );
}

/** Returns the names of the variables referenced in a string. */
export const variableReferences = (text: string): string[] =>
  [...text.matchAll(reference)].map(([, name = '']) => name);

/** Returns whether a string still contains non-blank characters after its references are resolved. */
export const isNotBlank = (text: string, environment: Environment): boolean =>
  String(resolveReferences(text, environment)).trim() !== '';

function freeze(value: unknown): unknown {
  if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(freeze);
    Object.freeze(value);
  }
  return value;
}

/** Checks that `${…}` contains a variable name. The variable can be unset to disable an endpoint. */
function checkReferences(
  parsed: Parsed,
  value: unknown,
  issues: YamlIssue[],
  path: readonly (string | number)[] = [],
): void {
  if (typeof value === 'string') {
    for (const [whole, name = '', end] of value.matchAll(reference)) {
      if (end === '') issues.push(parsed.issueAt({ path }, `"\${" has no closing "}"`));
      else if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
        issues.push(
          parsed.issueAt({ path }, `"${whole}" is not a valid reference to an environment variable`),
        );
      }
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, child] of Object.entries(value)) {
      const step = Array.isArray(value) ? Number(key) : key;
      checkReferences(parsed, child, issues, [...path, step]);
    }
  }
}

const { public_url, mail, graph } = schema.properties;

/** Patterns for values that can come from the environment. The schema checks only the references. */
const patternedValues = [
  { path: ['public_url'], fallback: defaults.public_url, rule: public_url },
  { path: ['mail', 'from'], fallback: defaults.mail.from, rule: mail.properties.from },
  { path: ['mail', 'url'], fallback: defaults.mail.url, rule: mail.properties.url },
  { path: ['graph', 'base_url'], fallback: defaults.graph.base_url, rule: graph.properties.base_url },
] as const;

/** Checks values against their patterns after resolving references. Blank values count as absent. */
function checkResolved(parsed: Parsed, environment: Environment, issues: YamlIssue[]): void {
  for (const { path, fallback, rule } of patternedValues) {
    const [first, ...keys] = path;
    const literal = keys.reduce<unknown>((value, key) => objectOf(value)[key], objectOf(parsed.data)[first]);
    const text = literal === undefined ? fallback : literal;
    if (typeof text !== 'string' || !isNotBlank(text, environment)) continue;
    const value = String(resolveReferences(text, environment)).trim();
    const isUrl = rule !== mail.properties.from;
    if (new RegExp(rule.pattern, 'u').test(value) && (!isUrl || URL.canParse(value))) continue;
    const names = variableReferences(text);
    // The schema already reports literals that do not match the pattern.
    if (names.length === 0 && !new RegExp(rule.pattern, 'u').test(text)) continue;
    const subject = names.length === 0 ? path.join('.') : names.join(' and ');
    issues.push(parsed.issueAt({ path: [...path] }, `${subject} must be ${rule['x-expected']}`));
  }
}

/** Minimum length of a secret. Shorter secrets could be guessed. */
export const shortestSecret = 16;

/** Checks the length of all endpoint secrets after resolving references. Blank secrets are ignored. */
function checkSecrets(parsed: Parsed, environment: Environment, issues: YamlIssue[]): void {
  const partners = objectOf(objectOf(parsed.data).partners);
  const lists = [
    ...(['inbound_leads', 'booking_forms_whatsapp'] as const).map((name) => ({
      path: ['partners', name, 'secrets'],
      secrets: objectOf(partners[name]).secrets ?? defaults.partners[name].secrets,
    })),
    ...Object.entries(objectOf(partners.payments)).map(([customer, payment]) => ({
      path: ['partners', 'payments', customer, 'verify', 'secrets'],
      secrets: objectOf(objectOf(payment).verify).secrets,
    })),
  ];
  for (const { path, secrets } of lists) {
    if (!Array.isArray(secrets)) continue;
    for (const [index, text] of (secrets as unknown[]).entries()) {
      const secret = String(resolveReferences(text, environment)).trim();
      if (typeof text !== 'string' || secret === '' || secret.length >= shortestSecret) continue;
      // The message can contain a reference, but must never contain a secret.
      const name = /^\$\{\w+\}$/.test(text) ? text : `item ${index + 1} of secrets`;
      const message = `${name} must have at least ${shortestSecret} characters`;
      issues.push(parsed.issueAt({ path: [...path, index] }, message));
    }
  }
}

/** Returns a value as an object, or an empty object if it has another type, which the schema reports. */
const objectOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};

/** Checks the expressions and required values of all payment entries. */
function checkPayments(parsed: Parsed, issues: YamlIssue[]): void {
  for (const [customer, entry] of Object.entries(
    objectOf(objectOf(objectOf(parsed.data).partners).payments),
  )) {
    const base = ['partners', 'payments', customer];
    const payment = objectOf(entry);
    for (const { path, text } of expressions(payment)) {
      const issue = expressionProblem(text);
      if (issue !== undefined) issues.push(parsed.issueAt({ path: [...base, ...path] }, issue));
    }
    if (Object.keys(objectOf(payment.lead)).length === 0) {
      const message = 'at least one of lead.id, lead.email and lead.phone is required to find the lead';
      issues.push(parsed.issueAt({ path: base, key: true }, message));
    }
    if (payment.organization === '') {
      issues.push(parsed.issueAt({ path: [...base, 'organization'] }, 'organization must not be empty'));
    }
  }
}

/** Returns a payment entry's expressions with their paths. */
function expressions(payment: ReturnType<typeof objectOf>): { path: string[]; text: string }[] {
  const texts = [
    { path: ['event_id'], text: payment.event_id },
    ...Object.entries(objectOf(payment.lead)).map(([key, text]) => ({ path: ['lead', key], text })),
    ...Object.entries(objectOf(payment.opportunity)).map(([key, text]) => ({
      path: ['opportunity', key],
      text,
    })),
    ...Object.keys(objectOf(payment.when)).map((text) => ({ path: ['when', text], text })),
  ];
  return texts.flatMap(({ path, text }) => (typeof text === 'string' ? [{ path, text }] : []));
}

function checkSenders(parsed: Parsed, issues: YamlIssue[]): void {
  for (const [slug, entry] of Object.entries(objectOf(objectOf(parsed.data).messaging))) {
    const sender = objectOf(entry);
    if (typeof sender.sender === 'string' && !ownSenders.includes(sender.sender)) {
      for (const key of Object.keys(sender).filter((name) => name !== 'sender')) {
        issues.push(
          parsed.issueAt(
            { path: ['messaging', slug, key], key: true },
            `"${key}" is not a setting of the sender ${sender.sender}. The channel uses the organization's integration`,
          ),
        );
      }
    }
    if (sender.sender !== 'whatsapp_cloud') continue;
    for (const key of ['phone_number_id', 'access_token']) {
      if (sender[key] === undefined) {
        issues.push(
          parsed.issueAt(
            { path: ['messaging', slug], key: true },
            `"${key}" is required for the sender whatsapp_cloud`,
          ),
        );
      }
    }
  }
}
