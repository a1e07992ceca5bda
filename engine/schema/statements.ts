import { firstColumn } from '../fields/index.ts';

/** Risk of a statement for concurrent requests, or a reason why it can fail. */
export type Risk = 'destructive' | 'data-dependent' | 'blocking' | 'needs a restart';

/** The analysis of a migration statement. */
export interface StatementAnalysis {
  readonly sql: string;
  /** One-line summary. */
  readonly title: string;
  /** Lock mode held until the migration's transaction ends. */
  readonly lock: string;
  readonly table: string | undefined;
  /** How the statement accesses the table's rows. */
  readonly touches: 'rewrites' | 'reads' | 'writes' | 'nothing';
  readonly risks: readonly Risk[];
  /** The statement's effect as a verb phrase. */
  readonly says: string;
}

type Kind = Omit<StatementAnalysis, 'sql' | 'title' | 'table'>;

const exclusive = 'ACCESS EXCLUSIVE';
const catalogChange = (says: string, risks: readonly Risk[] = []): Kind => ({
  lock: exclusive,
  touches: 'nothing',
  risks,
  says,
});
const restartNote = 'nodes with the old definitions use the old name until they restart';
const contractNote = 'runs after all nodes with the old definitions have stopped';

/** Kinds of statements by pattern. The first match applies. */
const kinds: readonly (readonly [pattern: RegExp, kind: Kind])[] = [
  [/^alter table \S+ rename to/, catalogChange(`renames the table; ${restartNote}`, ['needs a restart'])],
  [
    /^alter table \S+ rename column/,
    catalogChange(`renames the column and keeps every value; ${restartNote}`, ['needs a restart']),
  ],
  [/^alter table \S+ rename constraint/, catalogChange('renames a constraint')],
  [/^alter index/, { ...catalogChange('renames an index'), lock: 'SHARE UPDATE EXCLUSIVE' }],
  [
    /^drop table/,
    catalogChange(`drops the table with all its rows; ${contractNote}`, ['destructive', 'needs a restart']),
  ],
  [
    /^alter table .*\bdrop column/,
    catalogChange(`drops the column with all its values; ${contractNote}`, [
      'destructive',
      'needs a restart',
    ]),
  ],
  [
    /^alter table .*\balter column \S+ type/,
    {
      lock: exclusive,
      touches: 'rewrites',
      risks: ['blocking', 'data-dependent', 'needs a restart'],
      says: `rewrites every row with the new type and blocks all reads and writes of the table`,
    },
  ],
  [
    /^alter table .*\bset not null/,
    {
      lock: exclusive,
      touches: 'reads',
      risks: ['blocking', 'data-dependent'],
      says: 'checks every row for a missing value and blocks all reads and writes of the table',
    },
  ],
  [
    /^alter table .*\badd primary key/,
    {
      lock: exclusive,
      touches: 'reads',
      risks: ['blocking', 'data-dependent'],
      says: 'builds the primary key from every row',
    },
  ],
  [
    /^alter table .*\badd constraint .* foreign key/,
    {
      lock: 'SHARE ROW EXCLUSIVE',
      touches: 'reads',
      risks: ['blocking', 'data-dependent'],
      says: 'checks the reference of every row and blocks writes to both tables',
    },
  ],
  [/^alter table .*\bdrop constraint/, catalogChange('drops a constraint')],
  [
    /^alter table \S+ add /,
    catalogChange('adds the column without rewriting rows; existing rows get the default'),
  ],
  [
    /^alter table \S+ alter column/,
    catalogChange('changes the column in the catalog without reading or writing rows'),
  ],
  [
    /^create unique index/,
    {
      lock: 'SHARE',
      touches: 'reads',
      risks: ['blocking', 'data-dependent'],
      says: 'reads every row, fails on duplicate values, and blocks writes to the table',
    },
  ],
  [
    /^create index/,
    {
      lock: 'SHARE',
      touches: 'reads',
      risks: ['blocking'],
      says: 'reads every row and blocks writes to the table',
    },
  ],
  [/^drop index/, catalogChange('drops an index')],
  [/^create table/, { lock: 'none', touches: 'nothing', risks: [], says: 'creates a table' }],
  [
    /^create (or replace )?function|^alter function|^drop function|^create extension/,
    { lock: 'none', touches: 'nothing', risks: [], says: 'does not read or write rows' },
  ],
  [
    /^(create|drop) trigger/,
    {
      lock: 'SHARE ROW EXCLUSIVE',
      touches: 'nothing',
      risks: [],
      says: 'changes the triggers that run with each write',
    },
  ],
  [
    /^update/,
    {
      lock: 'ROW EXCLUSIVE',
      touches: 'writes',
      risks: ['blocking'],
      says: 'updates the rows that match its condition; concurrent writes to them wait',
    },
  ],
  [
    /^do /,
    {
      lock: 'ACCESS SHARE',
      touches: 'reads',
      risks: ['data-dependent'],
      says: 'fails the migration if records have values that do not fit',
    },
  ],
];

const unknownStatement: Kind = {
  lock: 'unknown',
  touches: 'nothing',
  risks: ['blocking', 'data-dependent'],
  says: 'is an unknown statement. Review it by hand.',
};

const tableOf =
  /^(?:alter table|update|drop table(?: if exists)?|create (?:unique )?index \S+ on|create trigger \S+ BEFORE UPDATE on|drop trigger (?:if exists )?\S+ on) "(\w+)"|^do .*? from "(\w+)"/s;

/** Analyzes a migration statement. */
export function analyzeStatement(sql: string): StatementAnalysis {
  const [, kind = unknownStatement] = kinds.find(([pattern]) => pattern.test(sql)) ?? [];
  const [, table, checkedTable] = tableOf.exec(sql) ?? [];
  const [, checkedCondition] = /message = '(.*?) in '/.exec(sql) ?? [];
  const title =
    checkedCondition === undefined
      ? sql.replace(/\s+/g, ' ')
      : `fail if ${checkedCondition.replaceAll("''", "'")} in any record`;
  return { sql, title, table: table ?? checkedTable, ...kind };
}

/**
 * Analyzes a statement that reads the rows after the migration's transaction without blocking reads and writes.
 * @param now the statement that replaces it in the transaction
 */
export const analyzeOnline = (statement: StatementAnalysis, now: string | undefined): StatementAnalysis => ({
  ...statement,
  lock: now === undefined ? 'SHARE UPDATE EXCLUSIVE' : statement.lock,
  risks: statement.risks.filter((risk) => risk !== 'blocking'),
  says: `${now === undefined ? '' : 'adds a constraint under this lock, and then '}reads every row after the rest of the migration, without blocking reads or writes of the table`,
});

/** Analyzes a statement that fills missing values after the migration's transaction. */
export const analyzeBackfill = (statement: StatementAnalysis): StatementAnalysis => ({
  ...statement,
  risks: statement.risks.filter((risk) => risk !== 'blocking'),
  says: 'fills missing values in batches after the rest of the migration; concurrent writes wait only for their batch',
});

/** Lock modes of tables, weakest first. */
const lockModes = [
  'none',
  'ACCESS SHARE',
  'ROW SHARE',
  'ROW EXCLUSIVE',
  'SHARE UPDATE EXCLUSIVE',
  'SHARE',
  'SHARE ROW EXCLUSIVE',
  'EXCLUSIVE',
  'ACCESS EXCLUSIVE',
];

/** Returns the stronger of two lock modes. */
export const strongerLock = (one: string, other: string): string =>
  lockModes.indexOf(one) >= lockModes.indexOf(other) ? one : other;

/** Analyzes a statement of a transaction that already has a lock on the table, which it keeps until it ends. */
export function analyzeUnderLock(statement: StatementAnalysis, held: string): StatementAnalysis {
  const lock = strongerLock(statement.lock, held);
  if (lock === statement.lock || statement.touches === 'nothing') return statement;
  return {
    ...statement,
    lock,
    risks: [...new Set<Risk>(['blocking', ...statement.risks])],
    says: `${statement.says}; earlier statements of the migration already have this lock`,
  };
}

/** Analyzes a statement of a type change, which runs without blocking reads and writes. */
export const analyzeTypeChange = (statement: StatementAnalysis): StatementAnalysis =>
  statement.touches === 'rewrites'
    ? {
        ...statement,
        lock: 'ROW EXCLUSIVE',
        risks: statement.risks.filter((risk) => risk !== 'blocking'),
        says: `backfills a second column in batches after the rest of the migration, without blocking reads or writes, then swaps the columns`,
      }
    : {
        ...statement,
        risks: statement.risks.filter((risk) => risk !== 'blocking'),
        says: `part of the type change: ${statement.says}`,
      };

const dropTablePattern = /^drop table (?:if exists )?"(\w+)"/;
const dropColumnPattern = /\bdrop column (?:if exists )?"(\w+)"/g;

/** A table or column that a statement drops. */
export interface DroppedValues {
  readonly table: string;
  /** Undefined if the whole table is dropped. */
  readonly column: string | undefined;
}

/** Returns the tables and columns that a statement drops. Excludes additional columns that are dropped with their field. */
export function droppedValues({ sql, table }: StatementAnalysis): readonly DroppedValues[] {
  if (table === undefined) return [];
  if (dropTablePattern.test(sql)) return [{ table, column: undefined }];
  if (!sql.startsWith('alter table ')) return [];
  const columns = [...sql.matchAll(dropColumnPattern)].map(([, column = '']) => column);
  return columns
    .filter((column) => firstColumn(column, columns) === column)
    .map((column) => ({ table, column }));
}

/** Returns the table that a statement creates. */
export const createdTable = (sql: string): string | undefined => /^create table "(\w+)"/.exec(sql)?.[1];

/** Analyzes a statement on a table that the same migration creates, which no other session can see yet. */
export const analyzeOnNewTable = (statement: StatementAnalysis): StatementAnalysis =>
  / foreign key /.test(statement.sql)
    ? {
        ...statement,
        touches: 'nothing',
        risks: [],
        says: 'adds a foreign key to the new table, and briefly blocks writes to the table it refers to',
      }
    : { ...statement, lock: 'none', touches: 'nothing', risks: [], says: 'completes the new table' };
