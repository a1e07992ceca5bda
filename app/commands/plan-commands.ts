import { existsSync } from 'node:fs';
import { Option } from '@commander-js/extra-typings';
import type { Database } from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import { type CommandLine, type CommandResult, formatTable, jsonResult } from '../../engine/modules/index.ts';
import {
  type ApiChange,
  countMs,
  type DatabaseState,
  type Intent,
  type MigrationPlan,
  type Model,
  type PlannedCheck,
  type PlannedDrop,
  type PlannedStatement,
  planChanges,
  withDatabase,
} from '../../engine/schema/index.ts';
import { literal } from '../../engine/sql/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { findUsage, type KeyUsage } from '../../plugins/api/usage/index.ts';
import { type Config, readConfig } from '../config.ts';
import { modelOf } from '../instance.ts';
import { modules } from '../modules.ts';
import { loadResources } from '../serve/build.ts';
import type { Instance } from '../services.ts';

/** A plan, and the API keys that have used names that it removes. */
interface PlanWithKeys extends MigrationPlan {
  readonly keys: readonly KeyUsage[];
}

const rowsOf = ({ rows, touches }: PlannedStatement): string => {
  if (touches === 'nothing') return '';
  return rows === undefined ? '?' : `${rows.isEstimate ? '~' : ''}${rows.count}`;
};
const rewriteOf = ({ touches }: PlannedStatement): string => (touches === 'nothing' ? '' : touches);
const riskOf = ({ risks, drops }: PlannedStatement): string => [...drops.map(dropText), ...risks].join(', ');
const dropText = ({ name, count }: PlannedDrop): string => {
  const records = `${count?.toLocaleString('en-US') ?? 'an unknown number of'} record${count === 1 ? '' : 's'}`;
  if (!name.includes('.')) return `drops ${name}: ${records}`;
  return `drops ${name}: ${records} ${count === 1 ? 'has' : 'have'} a value`;
};
const effectOf = (statement: PlannedStatement): string => {
  if (statement.touches !== 'nothing') return `${rewriteOf(statement)} ${rowsOf(statement)} rows`;
  return statement.drops.length > 0 ? statement.drops.map(dropText).join(', ') : 'no rows';
};

const countOf = ({ count, tookTooLong }: PlannedCheck): string => {
  if (tookTooLong) return `more records than can be counted in ${countMs / 1000} s`;
  return count === 1 ? '1 record' : `${count ?? 'an unknown number of'} records`;
};
const outcome = ({ refuses, count }: PlannedCheck): string => {
  if (count === 0) return '';
  return refuses ? '. The migration will fail until they are fixed.' : '';
};
const checkLine = (check: PlannedCheck): string =>
  `${check.name} ${check.says} in ${countOf(check)}${outcome(check)}`;
const apiLine = ({ kind, name, text: says, breaks }: ApiChange): readonly string[] => [
  kind,
  name,
  says,
  breaks ? 'breaks clients' : '',
];
const keyLine = ({ organization, key, resource, field, lastUsed }: KeyUsage): string =>
  `${organization}: ${key} used ${field === undefined ? resource : `${resource}.${field}`}, last on ${lastUsed}`;
/** Returns the output for a plan without statements. */
const withoutStatements = (api: readonly ApiChange[]): string =>
  api.length === 0
    ? 'The definitions have not changed since the last migration.'
    : 'The change affects only the API. The tables do not change.';

/**
 * Formats a plan for a terminal.
 * @param notCounted the reason rows were not counted, or undefined if they were
 */
export function planText(
  { statements, checks, api, partners, undecided, dependents, database, keys }: PlanWithKeys,
  notCounted: string | undefined,
): string {
  const sections: (string | undefined)[] = [
    statements.length === 0 ? withoutStatements(api) : 'The database:',
    ...statements.map((statement, index) => {
      const facts = [`lock ${statement.lock}`, effectOf(statement), ...statement.risks];
      return `  ${index + 1}. ${shorten(statement.title)}\n     ${facts.join(' · ')}\n     ${statement.says}`;
    }),
    ...(checks.length === 0 ? [] : ['\nStored values incompatible with the new definitions:']),
    ...checks.map((check) =>
      [
        `  ${checkLine(check)}`,
        ...check.examples.map(
          ({ organization, id, value }) =>
            `    record ${id} of organization ${organization}${value === null ? '' : `: ${JSON.stringify(value)}`}`,
        ),
      ].join('\n'),
    ),
    ...(api.length === 0
      ? []
      : ['\nAPI clients:', indent(formatTable(['change', 'of', '', ''], api.map(apiLine)))]),
    ...(keys.length === 0 ? [] : ['\nAPI keys that used removed names in the last 30 days:']),
    ...keys.map((usage) => `  ${keyLine(usage)}`),
    ...(partners.length === 0
      ? []
      : ['\nIntegrations still need removed fields or resources, so the migration cannot be written:']),
    ...partners.map(({ file, name }) => `  ${file} needs ${name}`),
    ...dependentLines(dependents),
    ...undecidedLines(undecided),
    ...stateLines(database),
    ...(notCounted !== undefined && statements.length > 0 ? [`\nRows are not counted: ${notCounted}.`] : []),
  ];
  return sections.join('\n');
}

const maxStatement = 160;
const shorten = (line: string): string =>
  line.length > maxStatement ? `${line.slice(0, maxStatement)}…` : line;
const indent = (lines: string): string => lines.replace(/^/gm, '  ');

const dependentLines = (dependents: readonly string[]): readonly string[] =>
  dependents.length === 0
    ? []
    : [
        '\nThese objects were not created by a migration and use a column whose type changes. The migration will fail until they are dropped:',
        ...dependents.map((line) => `  ${line}`),
      ];

const undecidedLines = (undecided: readonly string[]): readonly string[] =>
  undecided.length === 0
    ? []
    : [
        '\nDecide what happens to these fields and resources before creating the migration (this plan drops them):',
        ...undecided,
      ];

function stateLines(state: DatabaseState | undefined): string[] {
  if (state === undefined) return [];
  const { pending, unfinished, problems, waiting, drift } = state;
  return [
    ...(pending.length === 0 ? [] : [`\nPending migrations: ${pending.join(', ')}.`]),
    ...unfinished,
    ...problems,
    ...waiting,
    ...(drift.length === 0 ? [] : ['\nThe database differs from its migrations:']),
    ...drift.map((line) => `  ${line}`),
  ];
}

/** Formats a plan as Markdown for a pull request. */
function planMarkdown({
  statements,
  checks,
  api,
  partners,
  undecided,
  dependents,
  database,
  keys,
}: PlanWithKeys): string {
  const cell = (text: string) => text.replaceAll('|', '\\|');
  const rows = (titles: readonly string[], lines: readonly (readonly string[])[]) =>
    [titles, titles.map(() => '---'), ...lines].map((line) => `| ${line.map(cell).join(' | ')} |`);
  const list = (lines: readonly string[]) => lines.map((line) => `- ${line}`);
  return [
    '### Plan',
    '',
    ...(statements.length === 0
      ? [withoutStatements(api)]
      : rows(
          ['statement', 'lock', 'rows', '', 'risk'],
          statements.map((statement) => [
            `\`${shorten(statement.title)}\``,
            statement.lock,
            rowsOf(statement),
            rewriteOf(statement),
            riskOf(statement),
          ]),
        )),
    ...(checks.length === 0
      ? []
      : ['', '**Stored values incompatible with the new definitions**', '', ...list(checks.map(checkLine))]),
    ...(api.length === 0
      ? []
      : ['', '**API clients**', '', ...rows(['change', 'of', 'what', ''], api.map(apiLine))]),
    ...(partners.length === 0
      ? []
      : ['', '**Needed by**', '', ...list(partners.map(({ file, name }) => `\`${file}\` needs ${name}`))]),
    ...(keys.length === 0
      ? []
      : ['', '**API keys that used removed names in the last 30 days**', '', ...list(keys.map(keyLine))]),
    ...dependentLines(dependents),
    ...undecidedLines(undecided),
    ...stateLines(database),
  ].join('\n');
}

/** Parsed values of `--allow-drop`, `--using` and `--default`. */
export interface IntentOptions {
  readonly allowDrop?: string[] | undefined;
  readonly using?: string[] | undefined;
  readonly default?: string[] | undefined;
}

const collect = (value: string, previous: string[] | undefined): string[] => [...(previous ?? []), value];

/** Options for changes that could lose values. */
export const intentOptions = {
  allowDrop: () =>
    new Option(
      '--allow-drop <names...>',
      'allow dropping these fields or resources and their values, for example leads.fax',
    ),
  using: () =>
    new Option(
      '--using <field=sql>',
      'SQL text expression that converts values incompatible with the new definition; repeatable',
    ).argParser(collect),
  default: () =>
    new Option(
      '--default <field=value>',
      'replacement for values incompatible with the new definition; repeatable',
    ).argParser(collect),
};

/**
 * Converts command-line options to a migration intent.
 * @throws UserError if an option does not have the form field=value
 */
export function intentOf({ allowDrop = [], using = [], default: defaults = [] }: IntentOptions): Intent {
  const pairs = (values: readonly string[], option: string, sqlOf: (text: string) => string) =>
    values.map((text): [string, string] => {
      const separator = text.indexOf('=');
      if (separator < 1)
        throw new UserError(`${option} needs a field and a value, for example leads.score=0`);
      return [text.slice(0, separator), sqlOf(text.slice(separator + 1))];
    });
  return {
    drop: allowDrop,
    using: new Map([...pairs(using, '--using', (sql) => sql), ...pairs(defaults, '--default', literal)]),
  };
}

interface PlanOptions extends IntentOptions {
  readonly check?: true | undefined;
  readonly markdown?: true | undefined;
  readonly offline?: true | undefined;
}

/** Adds the `plan` command. */
export function planCommands({ program, run }: CommandLine<Instance>): void {
  program
    .command('plan')
    .description('show what changes to the definitions will do, without writing anything')
    .addOption(intentOptions.allowDrop())
    .addOption(intentOptions.using())
    .addOption(intentOptions.default())
    .option(
      '--check',
      'exit with status 1 if a change to the tables or a breaking API change has no migration, or the database has drifted',
    )
    .option('--markdown', 'print Markdown, for example for a pull request')
    .option('--offline', 'do not connect to the database')
    .addOption(jsonResult())
    .action(({ json, ...options }) => run(json, plan(options)));
}

async function plan(options: PlanOptions): Promise<CommandResult> {
  const config = readConfig();
  const { migrationPlan, notCounted } = await createPlan(config, options);
  const { statements, api, database } = migrationPlan;
  const isClean =
    statements.length === 0 && !api.some(({ breaks }) => breaks) && (database?.drift.length ?? 0) === 0;
  if (options.check && !isClean) process.exitCode = 1;
  return {
    json: { ...migrationPlan, notCounted: notCounted ?? null, clean: isClean },
    text: options.markdown ? planMarkdown(migrationPlan) : planText(migrationPlan, notCounted),
  };
}

const needsOfModules = modules.flatMap((module) => module.needs ?? []);

/**
 * Plans the migration to the current definitions, with row counts and the API keys that have used removed
 * names.
 */
export async function planOn(
  config: Config,
  model: Model,
  intent: Intent,
  database: Database,
): Promise<PlanWithKeys> {
  const migrationPlan = await planChanges(config, model, needsOfModules, intent, database);
  const lostNames = migrationPlan.api.flatMap(({ loses }) => loses ?? []);
  return { ...migrationPlan, keys: await findUsage(tablesOf(database), lostNames) };
}

/** Returns the plan and, if rows were not counted, the reason. */
async function createPlan(
  config: Config,
  options: PlanOptions,
): Promise<{ readonly migrationPlan: PlanWithKeys; readonly notCounted: string | undefined }> {
  const model = modelOf(await loadResources(config));
  const intent = intentOf(options);
  const offline = async (notCounted: string) => ({
    migrationPlan: { ...(await planChanges(config, model, needsOfModules, intent, undefined)), keys: [] },
    notCounted,
  });
  if (options.offline) return offline('--offline');
  if (config.databaseAddress === undefined && !existsSync(config.dataFolder)) {
    return offline('the database does not exist yet');
  }
  let isOpen = false;
  try {
    const planWithCounts = async (database: Database) => {
      isOpen = true;
      return { migrationPlan: await planOn(config, model, intent, database), notCounted: undefined };
    };
    return await withDatabase(config, model, planWithCounts, countMs);
  } catch (cause) {
    if (isOpen || !(cause instanceof UserError)) throw cause;
    return offline(cause.message);
  }
}
