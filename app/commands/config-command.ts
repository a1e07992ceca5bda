import {
  effectiveVariables,
  maskCredentials,
  misspelledNames,
  nearMisses,
} from '../../engine/config/index.ts';
import { UserError } from '../../engine/errors.ts';
import { type CommandLine, type CommandResult, formatTable, jsonResult } from '../../engine/modules/index.ts';
import { hasPath, lineOf, type Parsed } from '../../engine/yaml/index.ts';
import {
  defaults,
  disabledEndpoints,
  type Leaf,
  leaves,
  type RetiredNeedOf,
  readSettingsFile,
  type SettingsFile,
  variableReferences,
} from '../../webhooks/settings/index.ts';
import { type Config, loadConfig, variablesOf } from '../config.ts';
import type { Instance } from '../services.ts';

/** Adds the `config` command. */
export function configCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('config')
    .description('show the effective configuration and the source of each setting; hides secrets')
    .option('--show', 'accepted for compatibility; has no effect')
    .addOption(jsonResult())
    .action(({ json }) => run(json, loadConfig().then(configInForce)));
}

/** A row of the output table. */
interface Row {
  readonly name: string;
  readonly value: string;
  readonly from: string;
}

/** Returns the effective environment variables and settings, without secrets. */
export async function configInForce(config: Config): Promise<CommandResult> {
  const file = await readSettingsFile(config);
  const environment = effectiveVariables(variablesOf(config), config.environment).map(
    ({ name, value, isSet }): Row => ({ name, value, from: isSet ? 'environment' : 'default' }),
  );
  const settings = leaves(file.unresolved).map((leaf) => settingRow(leaf, file.parsed, config));
  const notes = configWarnings(config, file);
  const rows = [...environment, ...settings].map(({ name, value, from }) => [name, value, from]);
  return {
    json: { environment, settings, notes },
    text: [formatTable(['name', 'value', 'from'], rows), ...notes].join('\n'),
  };
}

/**
 * Returns warnings about valid configuration that is probably a mistake, one per line.
 * @param retiredNeedOf returns the retired resource because of which a module is not served
 */
export const configWarnings = (
  config: Config,
  file: SettingsFile,
  retiredNeedOf?: RetiredNeedOf,
): string[] => [
  ...misspellingWarnings(config, file),
  ...disabledEndpoints(file, config.environment, retiredNeedOf).map(lineOf),
];

/** Standard variable names that resemble this service's variables but are not misspellings of them. */
const standardNames = ['OTEL_BLRP_SCHEDULE_DELAY'];

/**
 * Checks the environment for variables that would be silently ignored.
 * @throws UserError with one line for each variable that is misspelled or not supported by the embedded
 * database
 */
export async function assertEnvironment(config: Config): Promise<void> {
  const { environment, databaseAddress, passwordFile } = config;
  const knownNames = [
    ...Object.values(variablesOf(config)).map(({ name }) => name),
    ...leaves(defaults).flatMap(({ value }) => (typeof value === 'string' ? variableReferences(value) : [])),
  ];
  const problems: string[] = [];
  const misspellings = nearMisses(environment, knownNames, standardNames);
  if (misspellings.length > 0) {
    const { unresolved: settings } = await readSettingsFile(config);
    const referenced = leaves(settings).flatMap(({ value }) =>
      typeof value === 'string' ? variableReferences(value) : [],
    );
    problems.push(
      ...misspellings.filter(({ name }) => !referenced.includes(name)).map(({ message }) => message),
    );
  }
  if (databaseAddress === undefined && (environment.DATABASE_POOL ?? '').trim() !== '') {
    problems.push(
      'DATABASE_POOL needs DATABASE_URL: the embedded database has a single connection. Set DATABASE_URL, or unset DATABASE_POOL.',
    );
  }
  if (databaseAddress === undefined && passwordFile !== undefined) {
    problems.push(
      'DATABASE_PASSWORD_FILE needs DATABASE_URL: the embedded database has no password. Set DATABASE_URL, or unset DATABASE_PASSWORD_FILE.',
    );
  }
  if (problems.length > 0) throw new UserError(problems.join('\n'));
}

/** Returns a warning for each variable that is probably misspelled. */
export const misspellingWarnings = (config: Config, { unresolved: settings }: SettingsFile): string[] =>
  misspelledNames(config.environment, [
    ...Object.values(variablesOf(config)).map(({ name }) => name),
    ...leaves(settings).flatMap(({ value }) => (typeof value === 'string' ? variableReferences(value) : [])),
  ]);

const secretKeys = ['secrets', 'password', 'access_token', 'client_secret'];
const isSecretPath = (path: Leaf['path']): boolean => path.some((step) => secretKeys.includes(String(step)));

/**
 * Returns the locations of secrets that a file contains in plain text instead of referring to an environment variable.
 */
export const secretsInFile = ({
  unresolved: settings,
  parsed,
}: SettingsFile): { name: string; location: string }[] =>
  leaves(settings)
    .filter(({ path, value }) => {
      const text = String(value).trim();
      const isSecretValue = isSecretPath(path) || maskCredentials(text) !== text;
      return (
        isSecretValue && text !== '' && variableReferences(text).length === 0 && hasPath(parsed.data, path)
      );
    })
    .map(({ path }) => {
      const { file, line, column } = parsed.issueAt({ path }, '');
      return { name: path.join('.'), location: `${file}:${line}:${column}` };
    });

function settingRow({ path, value }: Leaf, parsed: Parsed, { environment }: Config): Row {
  const names = typeof value === 'string' ? variableReferences(value) : [];
  const text = String(value).replace(/\$\{(\w+)\}/g, (_, name: string) => environment[name] ?? '');
  const { file, line } = parsed.issueAt({ path }, '');
  const location = hasPath(parsed.data, path) ? `${file}:${line}` : 'default';
  return {
    name: path.join('.'),
    value: text.trim() === '' ? 'not set' : isSecretPath(path) ? 'set, hidden' : maskCredentials(text),
    from: names.length === 0 ? location : `${names.join(', ')}, by ${location}`,
  };
}
