/** What a statement does to those who use its table meanwhile, and what may stand in its way. */
export type Risk = 'destructive' | 'data-dependent' | 'blocking' | 'needs a restart';

/** What is known of a statement of a migration. */
export interface Analyzed {
  readonly sql: string;
  /** What to show of it in one line. */
  readonly title: string;
  /** The lock that it holds until the migration is done. */
  readonly lock: string;
  readonly table: string | undefined;
  /** Whether every row of the table is written again, or read. */
  readonly touches: 'rewrites' | 'reads' | 'writes' | 'nothing';
  readonly risks: readonly Risk[];
  /** What it means, in words. */
  readonly says: string;
}

type Kind = Omit<Analyzed, 'sql' | 'title' | 'table'>;

const exclusive = 'ACCESS EXCLUSIVE';
const brief = (says: string, risks: readonly Risk[] = []): Kind => ({
  lock: exclusive,
  touches: 'nothing',
  risks,
  says,
});
const old = 'nodes with the old definitions go on with what they know until they are restarted';
const last = 'it waits until no node with the old definitions runs';

/** What statements are, by their beginnings; the first that fits counts. */
const kinds: readonly (readonly [pattern: RegExp, kind: Kind])[] = [
  [/^alter table \S+ rename to/, brief(`renames the table; ${old}`, ['needs a restart'])],
  [
    /^alter table \S+ rename column/,
    brief(`renames the column, and every value stays; ${old}`, ['needs a restart']),
  ],
  [/^alter table \S+ rename constraint/, brief('renames a constraint')],
  [/^alter index/, { ...brief('renames an index'), lock: 'SHARE UPDATE EXCLUSIVE' }],
  [/^drop table/, brief(`drops the table with all its rows; ${last}`, ['destructive', 'needs a restart'])],
  [
    /^alter table .*\bdrop column/,
    brief(`drops the column with all its values; ${last}`, ['destructive', 'needs a restart']),
  ],
  [
    /^alter table .*\balter column \S+ type/,
    {
      lock: exclusive,
      touches: 'rewrites',
      risks: ['blocking', 'data-dependent', 'needs a restart'],
      says: `writes every row again with the new type; nobody reads or writes the table meanwhile, and ${old}`,
    },
  ],
  [
    /^alter table .*\bset not null/,
    {
      lock: exclusive,
      touches: 'reads',
      risks: ['blocking', 'data-dependent'],
      says: 'reads every row for one without a value; nobody reads or writes the table meanwhile',
    },
  ],
  [
    /^alter table .*\badd primary key/,
    {
      lock: exclusive,
      touches: 'reads',
      risks: ['blocking', 'data-dependent'],
      says: 'makes the primary key from every row',
    },
  ],
  [
    /^alter table .*\badd constraint .* foreign key/,
    {
      lock: 'SHARE ROW EXCLUSIVE',
      touches: 'reads',
      risks: ['blocking', 'data-dependent'],
      says: 'checks the reference of every row; nobody writes either table meanwhile',
    },
  ],
  [/^alter table .*\bdrop constraint/, brief('drops a constraint')],
  [
    /^alter table \S+ add /,
    brief('adds the column; no row is written, those that are there show the default'),
  ],
  [/^alter table \S+ alter column/, brief('changes what the catalog says of the column; no row is touched')],
  [
    /^create unique index/,
    {
      lock: 'SHARE',
      touches: 'reads',
      risks: ['blocking', 'data-dependent'],
      says: 'reads every row, and fails if two have the same; nobody writes the table meanwhile',
    },
  ],
  [
    /^create index/,
    {
      lock: 'SHARE',
      touches: 'reads',
      risks: ['blocking'],
      says: 'reads every row; nobody writes the table meanwhile',
    },
  ],
  [/^drop index/, brief('drops an index')],
  [/^create table/, { lock: 'none', touches: 'nothing', risks: [], says: 'makes a new table' }],
  [
    /^create (or replace )?function|^alter function|^drop function|^create extension/,
    { lock: 'none', touches: 'nothing', risks: [], says: 'concerns no rows' },
  ],
  [
    /^(create|drop) trigger/,
    { lock: 'SHARE ROW EXCLUSIVE', touches: 'nothing', risks: [], says: 'changes what runs with each write' },
  ],
  [
    /^update/,
    {
      lock: 'ROW EXCLUSIVE',
      touches: 'writes',
      risks: ['blocking'],
      says: 'writes the rows that its condition names; their writers wait',
    },
  ],
  [
    /^do /,
    {
      lock: 'ACCESS SHARE',
      touches: 'reads',
      risks: ['data-dependent'],
      says: 'ends the migration if records would not survive it',
    },
  ],
];

const unknown: Kind = {
  lock: 'unknown',
  touches: 'nothing',
  risks: ['blocking', 'data-dependent'],
  says: 'is not a statement that is known here: review it by hand',
};

const tableOf =
  /^(?:alter table|update|drop table(?: if exists)?|create (?:unique )?index \S+ on|create trigger \S+ BEFORE UPDATE on|drop trigger (?:if exists )?\S+ on) "(\w+)"|^do .*? from "(\w+)"/s;

/** What a statement of a migration does. */
export function analyzed(sql: string): Analyzed {
  const [, kind = unknown] = kinds.find(([pattern]) => pattern.test(sql)) ?? [];
  const [, table, guarded] = tableOf.exec(sql) ?? [];
  const [, refusal] = /message = '(.*?): '/.exec(sql) ?? [];
  const title =
    refusal === undefined ? sql.replace(/\s+/g, ' ') : `check that no ${refusal.replaceAll("''", "'")}`;
  return { sql, title, table: table ?? guarded, ...kind };
}

/** The same for a statement that PostgreSQL carries out after the rest of the migration, while others read and write. */
export const whileOthersWrite = (statement: Analyzed): Analyzed => ({
  ...statement,
  lock: 'SHARE UPDATE EXCLUSIVE',
  risks: statement.risks.filter((risk) => risk !== 'blocking'),
  says: 'reads every row after the rest of the migration, while others read and write the table',
});

/** The same for a statement that belongs to a change of types, which PostgreSQL carries out while others read and write. */
export const inASecondColumn = (statement: Analyzed): Analyzed =>
  statement.touches === 'rewrites'
    ? {
        ...statement,
        lock: 'ROW EXCLUSIVE',
        risks: statement.risks.filter((risk) => risk !== 'blocking'),
        says: `fills a second column after the rest of the migration, in batches, while others read and write the table; then the two change places; ${old}`,
      }
    : {
        ...statement,
        risks: statement.risks.filter((risk) => risk !== 'blocking'),
        says: `is a part of the change of types: ${statement.says}`,
      };
