import { effectiveVariables, misspelledNames, nearMisses } from '../../engine/config/index.ts';
import { UserError } from '../../engine/errors.ts';
import { type CommandLine, type CommandResult, formatTable, jsonResult } from '../../engine/modules/index.ts';
import { hasPath, lineOf, type Parsed } from '../../engine/yaml/index.ts';
import {
  defaults,
  disabledEndpoints,
  type Leaf,
  leaves,
  readSettingsFile,
  type SettingsFile,
  variableReferences,
} from '../../webhooks/settings/index.ts';
import { type Config, readConfig, variables } from '../config.ts';
import type { Instance } from '../services.ts';

/** `config`. */
export function configCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('config')
    .description('show the effective configuration and the source of each setting; hides secrets')
    .option('--show', 'accepted for compatibility; has no effect')
    .addOption(jsonResult())
    .action(({ json }) => run(json, configInForce(readConfig())));
}

/** One setting as a row. */
interface Row {
  readonly name: string;
  readonly value: string;
  readonly from: string;
}

/** `config`: environment and settings in force, without secrets. */
export async function configInForce(config: Config): Promise<CommandResult> {
  const file = await readSettingsFile(config);
  const environment = effectiveVariables(variables, config.environment).map(
    ({ name, value, isGiven }): Row => ({ name, value, from: isGiven ? 'environment' : 'default' }),
  );
  const settings = leaves(file.written).map((leaf) => settingRow(leaf, file.parsed, config));
  const notes = configWarnings(config, file);
  const rows = [...environment, ...settings].map(({ name, value, from }) => [name, value, from]);
  return {
    json: { environment, settings, notes },
    text: [formatTable(['name', 'value', 'from'], rows), ...notes].join('\n'),
  };
}

/** What is probably not meant, though it is right: a line each. */
export const configWarnings = (config: Config, file: SettingsFile): string[] => [
  ...misspellingWarnings(config, file),
  ...disabledEndpoints(file, config.environment).map(lineOf),
];

/** Names of standards that are near misses of ours and mean something to other programs. */
const ofStandards = ['OTEL_BLRP_SCHEDULE_DELAY'];

/**
 * Checks the environment for what would silently be ignored.
 * @throws UserError with a line for each near miss of a variable, and for settings that the embedded database cannot honour
 */
export async function assertEnvironment(config: Config): Promise<void> {
  const { environment, databaseAddress, passwordFile } = config;
  const known = [
    ...Object.values(variables).map(({ name }) => name),
    ...leaves(defaults).flatMap(({ value }) => (typeof value === 'string' ? variableReferences(value) : [])),
  ];
  const problems: string[] = [];
  const near = nearMisses(environment, known, ofStandards);
  if (near.length > 0) {
    const { written } = await readSettingsFile(config);
    const referenced = leaves(written).flatMap(({ value }) =>
      typeof value === 'string' ? variableReferences(value) : [],
    );
    problems.push(...near.filter(({ name }) => !referenced.includes(name)).map(({ message }) => message));
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

/** Names of variables that are probably misspelt: a line each. */
export const misspellingWarnings = ({ environment }: Config, { written }: SettingsFile): string[] =>
  misspelledNames(environment, [
    ...Object.values(variables).map(({ name }) => name),
    ...leaves(written).flatMap(({ value }) => (typeof value === 'string' ? variableReferences(value) : [])),
  ]);

const secretKeys = ['secrets', 'password', 'access_token', 'client_secret'];
const isSecret = (path: Leaf['path']): boolean => path.some((step) => secretKeys.includes(String(step)));

/** The secrets that a file holds itself, instead of a reference to the environment, with their places. */
export const secretsInFile = ({ written, parsed }: SettingsFile): { name: string; place: string }[] =>
  leaves(written)
    .filter(({ path, value }) => {
      const text = String(value).trim();
      const isHeld = isSecret(path) || hasPassword.test(text);
      return isHeld && text !== '' && variableReferences(text).length === 0 && hasPath(parsed.data, path);
    })
    .map(({ path }) => {
      const { file, line, column } = parsed.problem({ path }, '');
      return { name: path.join('.'), place: `${file}:${line}:${column}` };
    });

function settingRow({ path, value }: Leaf, parsed: Parsed, { environment }: Config): Row {
  const names = typeof value === 'string' ? variableReferences(value) : [];
  const text = String(value).replace(/\$\{(\w+)\}/g, (_, name: string) => environment[name] ?? '');
  const { file, line } = parsed.problem({ path }, '');
  const place = hasPath(parsed.data, path) ? `${file}:${line}` : 'default';
  return {
    name: path.join('.'),
    value: text.trim() === '' ? 'not set' : isSecret(path) ? 'set, hidden' : withoutPassword(text),
    from: names.length === 0 ? place : `${names.join(', ')}, by ${place}`,
  };
}

/** What an address authenticates with. */
const hasPassword = /:\/\/[^/@\s]*@/;

/** An address without it. */
const withoutPassword = (text: string): string => text.replace(hasPassword, '://…@');
