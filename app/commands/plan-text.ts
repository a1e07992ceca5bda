import { formatTable } from '../../engine/modules/index.ts';
import {
  type ApiChange,
  countMs,
  type DatabaseState,
  type MigrationPlan,
  type PlannedCheck,
  type PlannedDrop,
  type PlannedStatement,
} from '../../engine/schema/index.ts';
import type { KeyUsage } from '../../plugins/api/usage/index.ts';

/** A plan with the API keys that used removed names. */
export interface PlanWithKeys extends MigrationPlan {
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
/** Returns the text of a plan without statements. */
const withoutStatements = (api: readonly ApiChange[]): string =>
  api.length === 0
    ? 'The definitions have not changed since the last migration.'
    : 'The change affects only the API. The tables do not change.';

/** Formats a plan for a terminal. @param notCounted the reason rows are not counted, if they are not */
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
      : ['\nCallers of the API:', indent(formatTable(['change', 'of', '', ''], api.map(apiLine)))]),
    ...(keys.length === 0 ? [] : ['\nAPI keys that used removed names in the last 30 days:']),
    ...keys.map((usage) => `  ${keyLine(usage)}`),
    ...(partners.length === 0
      ? []
      : ['\nIntegrations need removed fields or resources, so a migration cannot be written:']),
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
        '\nNo migration created these objects, which use a column whose type changes. The migration will fail until they are dropped:',
        ...dependents.map((line) => `  ${line}`),
      ];

const undecidedLines = (undecided: readonly string[]): readonly string[] =>
  undecided.length === 0
    ? []
    : [
        '\nBefore a migration can be written, decide about these fields and resources (this plan drops them):',
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
export function planMarkdown({
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
      : ['', '**Stored values that do not fit**', '', ...list(checks.map(checkLine))]),
    ...(api.length === 0
      ? []
      : ['', '**Callers of the API**', '', ...rows(['change', 'of', 'what', ''], api.map(apiLine))]),
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
