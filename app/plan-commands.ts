import { existsSync } from 'node:fs';
import { Option } from '@commander-js/extra-typings';
import type { Database } from '../engine/database/index.ts';
import { UserError } from '../engine/errors.ts';
import { asJson, type CommandLine, type Result, table } from '../engine/modules/index.ts';
import {
  type ApiChange,
  countMs,
  type DatabaseState,
  type Intent,
  type Plan,
  type PlannedCheck,
  type PlannedStatement,
  planOf,
  withDatabase,
} from '../engine/schema/index.ts';
import { tablesOf } from '../engine/tables/index.ts';
import { type NameUse, usesOf } from '../plugins/name-uses/index.ts';
import { loadResources } from './build.ts';
import { type Config, readConfig } from './config.ts';
import { modelOf } from './instance.ts';
import { modules } from './modules.ts';
import type { Instance } from './services.ts';

/** What `--allow-drop`, `--using` and `--default` give. */
export interface IntentOptions {
  readonly allowDrop?: string[] | undefined;
  readonly using?: string[] | undefined;
  readonly default?: string[] | undefined;
}

const collect = (value: string, others: string[] | undefined): string[] => [...(others ?? []), value];

/** The options that say what is meant by changes that could lose values. */
export const intentOptions = {
  allowDrop: () => new Option('--allow-drop <names...>', 'drop the values of these, such as leads.fax'),
  using: () =>
    new Option(
      '--using <field=sql>',
      'SQL of a text for values of a field that do not fit; several',
    ).argParser(collect),
  default: () =>
    new Option('--default <field=value>', 'the value instead of those that do not fit; several').argParser(
      collect,
    ),
};

/** The intent that options say. @throws UserError for one without a field */
export function intentOf({ allowDrop = [], using = [], default: defaults = [] }: IntentOptions): Intent {
  const pairs = (given: readonly string[], option: string, sqlOf: (text: string) => string) =>
    given.map((text): [string, string] => {
      const at = text.indexOf('=');
      if (at < 1) throw new UserError(`${option} needs a field and a value, such as leads.score=0`);
      return [text.slice(0, at), sqlOf(text.slice(at + 1))];
    });
  const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;
  return {
    drop: allowDrop,
    using: new Map([...pairs(using, '--using', (sql) => sql), ...pairs(defaults, '--default', quoted)]),
  };
}

interface PlanOptions extends IntentOptions {
  readonly check?: true | undefined;
  readonly markdown?: true | undefined;
  readonly offline?: true | undefined;
}

/** `plan`. */
export function planCommands({ program, run }: CommandLine<Instance>): void {
  program
    .command('plan')
    .description('tell what the edits of the definitions will do; writes nothing')
    .addOption(intentOptions.allowDrop())
    .addOption(intentOptions.using())
    .addOption(intentOptions.default())
    .option('--check', 'exit with 1 when no migration carries the edits, or the database has drifted')
    .option('--markdown', 'as Markdown, for a pull request')
    .option('--offline', 'ask no database')
    .addOption(asJson())
    .action(({ json, ...options }) => run(json, plan(options)));
}

async function plan(options: PlanOptions): Promise<Result> {
  const config = readConfig();
  const { made, without } = await planned(config, options);
  const isClean = made.statements.length === 0 && (made.database?.drift.length ?? 0) === 0;
  if (options.check && !isClean) process.exitCode = 1;
  return {
    json: { ...made, notCounted: without ?? null, clean: isClean },
    text: options.markdown ? markdown(made) : text(made, without),
  };
}

/** A plan, and which API keys named what callers lose. */
interface PlanWithKeys extends Plan {
  readonly keys: readonly NameUse[];
}

/** The plan, and why no rows are counted if they are not. */
async function planned(
  config: Config,
  options: PlanOptions,
): Promise<{ readonly made: PlanWithKeys; readonly without: string | undefined }> {
  const model = modelOf(await loadResources(config));
  const needs = modules.flatMap((module) => module.needs ?? []);
  const intent = intentOf(options);
  const offline = async (without: string) => ({
    made: { ...(await planOf(config, model, needs, intent, undefined)), keys: [] },
    without,
  });
  if (options.offline) return offline('--offline');
  if (config.databaseAddress === undefined && !existsSync(config.dataFolder)) {
    return offline('there is no database yet');
  }
  let isOpen = false;
  try {
    const counted = async (database: Database) => {
      isOpen = true;
      const found = await planOf(config, model, needs, intent, database);
      const lost = found.api.flatMap(({ loses }) => loses ?? []);
      const keys = await usesOf(tablesOf(database), lost);
      return { made: { ...found, keys }, without: undefined };
    };
    return await withDatabase(config, model, counted, countMs);
  } catch (cause) {
    if (isOpen || !(cause instanceof UserError)) throw cause;
    return offline(cause.message);
  }
}

const rowsOf = ({ rows, touches }: PlannedStatement): string => {
  if (touches === 'nothing') return '';
  return rows === undefined ? '?' : `${rows.isEstimate ? '~' : ''}${rows.count}`;
};
const rewriteOf = ({ touches }: PlannedStatement): string => (touches === 'nothing' ? '' : touches);
const riskOf = ({ risks }: PlannedStatement): string => risks.join(', ');

const countOf = ({ count, tookTooLong }: PlannedCheck): string => {
  if (tookTooLong) return `more records than can be counted in ${countMs / 1000} s`;
  return `${count ?? 'an unknown number of'} records`;
};
const outcome = ({ refuses, count }: PlannedCheck): string => {
  if (count === 0) return '';
  return refuses ? ': the migration will refuse them' : '';
};
const checkLine = (check: PlannedCheck): string =>
  `${check.name} ${check.says}: ${countOf(check)}${outcome(check)}`;
const apiLine = ({ kind, name, text: says, breaks }: ApiChange): readonly string[] => [
  kind,
  name,
  says,
  breaks ? 'breaks clients' : '',
];
const keyLine = ({ organization, key, resource, field, lastUsed }: NameUse): string =>
  `${organization}: ${key} named ${field === undefined ? resource : `${resource}.${field}`}, last on ${lastUsed}`;
const nothing = 'The migrations carry the definitions: there is nothing to do.';

/** A plan for people at a terminal. */
function text(
  { statements, checks, api, partners, undecided, database, keys }: PlanWithKeys,
  without: string | undefined,
): string {
  const sections: (string | undefined)[] = [
    statements.length === 0 ? nothing : 'The database:',
    ...statements.map((statement, index) => {
      const facts = [
        `lock ${statement.lock}`,
        statement.touches === 'nothing' ? 'no rows' : `${rewriteOf(statement)} ${rowsOf(statement)} rows`,
        ...statement.risks,
      ];
      return `  ${index + 1}. ${shortened(statement.title)}\n     ${facts.join(' · ')}\n     ${statement.says}`;
    }),
    ...(checks.length === 0 ? [] : ['\nStored values that do not fit:']),
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
      : ['\nCallers of the API:', indented(table(['change', 'of', '', ''], api.map(apiLine)))]),
    ...(keys.length === 0 ? [] : ['\nAPI keys that named what goes away in the last 30 days:']),
    ...keys.map((use) => `  ${keyLine(use)}`),
    ...(partners.length === 0
      ? []
      : ['\nParts of the service need what goes away, so no migration can be written:']),
    ...partners.map(({ file, name }) => `  ${file} needs ${name}`),
    ...undecidedLines(undecided),
    ...stateLines(database),
    ...(without !== undefined && statements.length > 0 ? [`\nRows are not counted: ${without}.`] : []),
  ];
  return sections.join('\n');
}

const maxStatement = 160;
/** The beginning of a statement. */
const shortened = (line: string): string =>
  line.length > maxStatement ? `${line.slice(0, maxStatement)}…` : line;
const indented = (lines: string): string => lines.replace(/^/gm, '  ');

const undecidedLines = (undecided: readonly string[]): readonly string[] =>
  undecided.length === 0
    ? []
    : [
        '\nNo migration is written until it is said what becomes of these; here they are dropped:',
        ...undecided,
      ];

function stateLines(state: DatabaseState | undefined): string[] {
  if (state === undefined) return [];
  const { pending, problems, drift } = state;
  return [
    ...(pending.length === 0 ? [] : [`\nThe database lacks ${pending.join(', ')}.`]),
    ...problems,
    ...(drift.length === 0 ? [] : ['\nThe database is not as its migrations made it:']),
    ...drift.map((line) => `  ${line}`),
  ];
}

/** A plan to paste into a pull request. */
function markdown({ statements, checks, api, partners, undecided, database, keys }: PlanWithKeys): string {
  const cell = (given: string) => given.replaceAll('|', '\\|');
  const rows = (titles: readonly string[], lines: readonly (readonly string[])[]) =>
    [titles, titles.map(() => '---'), ...lines].map((line) => `| ${line.map(cell).join(' | ')} |`);
  const list = (lines: readonly string[]) => lines.map((line) => `- ${line}`);
  return [
    '### Plan',
    '',
    ...(statements.length === 0
      ? [nothing]
      : rows(
          ['statement', 'lock', 'rows', '', 'risk'],
          statements.map((each) => [
            `\`${shortened(each.title)}\``,
            each.lock,
            rowsOf(each),
            rewriteOf(each),
            riskOf(each),
          ]),
        )),
    ...(checks.length === 0
      ? []
      : ['', '**Stored values that do not fit**', '', ...list(checks.map(checkLine))]),
    ...(api.length === 0
      ? []
      : ['', '**Callers of the API**', '', ...rows(['change', 'of', 'what', ''], api.map(apiLine))]),
    ...(partners.length === 0
      ? []
      : ['', '**Needed by**', '', ...list(partners.map(({ file, name }) => `\`${file}\` needs ${name}`))]),
    ...(keys.length === 0
      ? []
      : ['', '**API keys that named what goes away in the last 30 days**', '', ...list(keys.map(keyLine))]),
    ...undecidedLines(undecided),
    ...stateLines(database),
  ].join('\n');
}
