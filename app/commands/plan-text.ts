import { formatTable } from '../../engine/modules/index.ts';
import {
  type ApiChange,
  countMs,
  type DatabaseState,
  type MigrationPlan,
  type PlannedCheck,
  type PlannedStatement,
} from '../../engine/schema/index.ts';
import type { KeyUsage } from '../../plugins/api/usage/index.ts';

/** A plan, and which API keys named what callers lose. */
export interface PlanWithKeys extends MigrationPlan {
  readonly keys: readonly KeyUsage[];
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
const keyLine = ({ organization, key, resource, field, lastUsed }: KeyUsage): string =>
  `${organization}: ${key} named ${field === undefined ? resource : `${resource}.${field}`}, last on ${lastUsed}`;
const nothing = 'The migrations carry the definitions: there is nothing to do.';

/** A plan for people at a terminal. @param without why no rows are counted, if they are not */
export function planText(
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
      : ['\nCallers of the API:', indented(formatTable(['change', 'of', '', ''], api.map(apiLine)))]),
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
  const { pending, problems, waiting, drift } = state;
  return [
    ...(pending.length === 0 ? [] : [`\nThe database lacks ${pending.join(', ')}.`]),
    ...problems,
    ...waiting,
    ...(drift.length === 0 ? [] : ['\nThe database is not as its migrations made it:']),
    ...drift.map((line) => `  ${line}`),
  ];
}

/** A plan to paste into a pull request. */
export function planMarkdown({
  statements,
  checks,
  api,
  partners,
  undecided,
  database,
  keys,
}: PlanWithKeys): string {
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
