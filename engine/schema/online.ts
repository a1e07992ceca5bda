// Statements that PostgreSQL can carry out while others read and write the table.

/** A statement of a migration as it runs on a table with rows. */
export interface Online {
  readonly table: string;
  /** In the transaction of the migration, in place of the statement. */
  readonly now: string | undefined;
  /** Once that is done: takes as long as the table is large, and may be run again. */
  readonly later: readonly string[];
}

const index = /^create index ("\w+") on "(\w+)" /;
const foreignKey = /^alter table "(\w+)" add constraint ("\w+") foreign key .*?;?$/;

/** How a statement runs without making others wait; undefined if it has no such way, or needs none. */
export function online(sql: string): Online | undefined {
  const [, name = '', indexed] = index.exec(sql) ?? [];
  if (indexed !== undefined) {
    const concurrently = sql.replace('create index', 'create index concurrently');
    // One that was interrupted is there, and not valid.
    return {
      table: indexed,
      now: undefined,
      later: [`drop index concurrently if exists ${name}`, concurrently],
    };
  }
  const [, referring, constraint] = foreignKey.exec(sql) ?? [];
  if (referring === undefined) return undefined;
  return {
    table: referring,
    now: `${sql.replace(/;$/, '')} not valid;`,
    later: [`alter table "${referring}" validate constraint ${constraint}`],
  };
}
