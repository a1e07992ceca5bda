import { existsSync } from 'node:fs';
import { Option } from '@commander-js/extra-typings';
import type { Database } from '../../engine/database/index.ts';
import { pluralize, UserError } from '../../engine/errors.ts';
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
import { describeLostGrant, findLostGrants, type LostGrant } from '../../plugins/access/profiles/index.ts';
import { findUsage, type KeyUsage, usageDays } from '../../plugins/api/usage/index.ts';
import { type Config, loadConfig } from '../config.ts';
import { modelOf } from '../instance.ts';
import { neededFields } from '../modules.ts';
import { loadResources } from '../serve/build.ts';
import type { Instance } from '../services.ts';

/** A plan, with the API keys that have used names that it removes, and the grants that allow nothing afterwards. */
interface PlanWithUsage extends MigrationPlan {
  readonly keys: readonly KeyUsage[];
  readonly grants: readonly LostGrant[];
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
  if (statement.touches !== 'nothing')
    return `${rewriteOf(statement)} ${rowsOf(statement)} ${rowsOf(statement) === '1' ? 'row' : 'rows'}`;
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
/** Title of the list of grants that allow nothing with the definitions. */
export const lostGrantsTitle =
  'Profiles that lose access, because their grants name something that does not exist:';
/** Returns the output for a plan without statements. */
const withoutStatements = (api: readonly ApiChange[]): string =>
  api.length === 0
    ? 'The definitions have not changed since the last migration.'
    : 'The change affects only the API. The tables do not change.';

/** Returns a summary of a plan, for example "4 new tables, 3 removed resources", or undefined if nothing changes. */
function summaryOf({ tables, api }: Pick<MigrationPlan, 'tables' | 'api'>): string | undefined {
  const isResource = ({ name, kind }: ApiChange) =>
    (kind === 'added' || kind === 'removed') && !/[. ]/.test(name);
  const resources = (kind: ApiChange['kind']) =>
    api.filter((change) => change.kind === kind && isResource(change)).length;
  const others = api.filter((change) => !isResource(change));
  const breaking = others.filter(({ breaks }) => breaks).length;
  const parts = [
    [tables.created.length, 'new table'],
    [tables.changed.length, 'changed table'],
    [tables.dropped.length, 'dropped table'],
    [resources('added'), 'new resource'],
    [resources('removed'), 'removed resource'],
    [others.length, others.length < api.length ? 'other API change' : 'API change'],
  ].flatMap(([count, noun]) => (count === 0 ? [] : [pluralize(Number(count), String(noun))]));
  if (parts.length === 0) return undefined;
  return `${parts.join(', ')}${breaking === 0 ? '' : ` (${breaking} ${breaking === 1 ? 'breaks' : 'break'} clients)`}.`;
}

/** Returns the checks with affected records, apart from those whose values the migration replaces, and the replaced ones. */
function shownChecks(checks: readonly PlannedCheck[]) {
  // Checks that all stored values pass are only of interest to programs.
  const shown = checks.filter(({ count }) => count !== 0);
  return {
    incompatible: shown.filter(({ replaces }) => replaces !== true),
    replaced: shown.filter(({ replaces }) => replaces === true),
  };
}

const incompatibleTitle = 'Stored values incompatible with the new definitions';
const usageTitle = `API keys that used removed names in the last ${usageDays} days`;
const replacedTitle = 'Stored values that the migration replaces';

/**
 * Formats a plan for a terminal.
 * @param notCounted the reason rows were not counted, or undefined if they were
 */
export function planText(
  { statements, checks, api, partners, undecided, dependents, database, keys, grants, tables }: PlanWithUsage,
  notCounted: string | undefined,
): string {
  const { incompatible, replaced } = shownChecks(checks);
  const summary = summaryOf({ tables, api });
  const checkLines = (title: string, listed: readonly PlannedCheck[]) =>
    listed.length === 0 ? [] : [`\n${title}:`, ...listed.map(checkText)];
  const sections: (string | undefined)[] = [
    ...(summary === undefined ? [] : [`${summary}\n`]),
    statements.length === 0 ? withoutStatements(api) : 'The database:',
    ...statements.map((statement, index) => {
      const facts = [`lock ${statement.lock}`, effectOf(statement), ...statement.risks];
      return `  ${index + 1}. ${shorten(statement.title)}\n     ${facts.join(' · ')}\n     ${statement.says}`;
    }),
    ...checkLines(incompatibleTitle, incompatible),
    ...checkLines(replacedTitle, replaced),
    ...(api.length === 0
      ? []
      : ['\nAPI clients:', indent(formatTable(['change', 'of', '', ''], api.map(apiLine)))]),
    ...(keys.length === 0 ? [] : [`\n${usageTitle}:`]),
    ...keys.map((usage) => `  ${keyLine(usage)}`),
    ...(grants.length === 0 ? [] : [`\n${lostGrantsTitle}`]),
    ...grants.map((grant) => `  ${describeLostGrant(grant)}`),
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

/** Describes a check, with its examples on a line each. */
const checkText = (check: PlannedCheck): string =>
  [
    `  ${checkLine(check)}`,
    ...check.examples.map(
      ({ organization, id, value }) =>
        `    record ${id} of organization ${organization}${value === null ? '' : `: ${JSON.stringify(value)}`}`,
    ),
  ].join('\n');

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
  grants,
  tables,
}: PlanWithUsage): string {
  const { incompatible, replaced } = shownChecks(checks);
  const summary = summaryOf({ tables, api });
  const checkLines = (title: string, listed: readonly PlannedCheck[]) =>
    listed.length === 0 ? [] : ['', `**${title}**`, '', ...list(listed.map(checkLine))];
  const cell = (text: string) => text.replaceAll('|', '\\|');
  const rows = (titles: readonly string[], lines: readonly (readonly string[])[]) =>
    [titles, titles.map(() => '---'), ...lines].map((line) => `| ${line.map(cell).join(' | ')} |`);
  const list = (lines: readonly string[]) => lines.map((line) => `- ${line}`);
  return [
    '### Plan',
    '',
    ...(summary === undefined ? [] : [summary, '']),
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
    ...checkLines(incompatibleTitle, incompatible),
    ...checkLines(replacedTitle, replaced),
    ...(api.length === 0
      ? []
      : ['', '**API clients**', '', ...rows(['change', 'of', 'what', ''], api.map(apiLine))]),
    ...(partners.length === 0
      ? []
      : ['', '**Needed by**', '', ...list(partners.map(({ file, name }) => `\`${file}\` needs ${name}`))]),
    ...(keys.length === 0 ? [] : ['', `**${usageTitle}**`, '', ...list(keys.map(keyLine))]),
    ...(grants.length === 0
      ? []
      : ['', `**${lostGrantsTitle}**`, '', ...list(grants.map(describeLostGrant))]),
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
      'exit with status 1 if a change to the tables or a breaking API change has no migration, a profile loses access, or the database has drifted',
    )
    .option('--markdown', 'print Markdown, for example for a pull request')
    .option('--offline', 'do not connect to the database')
    .addOption(jsonResult())
    .action(({ json, ...options }) => run(json, plan(options)));
}

async function plan(options: PlanOptions): Promise<CommandResult> {
  const config = await loadConfig();
  const { migrationPlan, notCounted } = await createPlan(config, options);
  const { statements, api, database, grants } = migrationPlan;
  const isClean =
    statements.length === 0 &&
    !api.some(({ breaks }) => breaks) &&
    (database?.drift.length ?? 0) === 0 &&
    grants.length === 0;
  if (options.check && !isClean) process.exitCode = 1;
  return {
    json: { ...migrationPlan, notCounted: notCounted ?? null, clean: isClean },
    text: options.markdown ? planMarkdown(migrationPlan) : planText(migrationPlan, notCounted),
  };
}

/**
 * Plans the migration to the current definitions, with row counts, the API keys that have used removed names, and the
 * grants that allow nothing afterwards.
 */
export async function planOn(
  config: Config,
  model: Model,
  intent: Intent,
  database: Database,
): Promise<PlanWithUsage> {
  const migrationPlan = await planChanges(
    config,
    model,
    neededFields(config, model.resources),
    intent,
    database,
  );
  const lostNames = migrationPlan.api.flatMap(({ loses }) => loses ?? []);
  const tables = tablesOf(database);
  return {
    ...migrationPlan,
    keys: await findUsage(tables, lostNames),
    grants: await findLostGrants(tables, model.resources),
  };
}

/** Returns the plan and, if rows were not counted, the reason. */
async function createPlan(
  config: Config,
  options: PlanOptions,
): Promise<{ readonly migrationPlan: PlanWithUsage; readonly notCounted: string | undefined }> {
  const model = modelOf(await loadResources(config), config);
  const intent = intentOf(options);
  const offline = async (notCounted: string) => ({
    migrationPlan: {
      ...(await planChanges(config, model, neededFields(config, model.resources), intent, undefined)),
      keys: [],
      grants: [],
    },
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
