import { identifier } from '../sql/index.ts';

/** The online form of a migration's statement, for a table in use. */
export interface OnlineForm {
  readonly table: string;
  /** Finds a row if the statement will fail: it runs as it is then, so that nothing of its migration is applied. */
  readonly obstacle?: string;
  /** In the transaction of the migration, in place of the statement. */
  readonly now?: string;
  /** Once that is done: takes as long as the table is large, and may be run again. */
  readonly later: readonly string[];
}

const index = /^create (unique )?index ("\w+") on "(\w+)" (?:using \w+ )?\((.*)\)(?: where (.*?))?;?$/;
const foreignKey = /^alter table "(\w+)" add constraint ("\w+") foreign key .*?;?$/;
const notNull = /^alter table "(\w+)" alter column "(\w+)" set not null;?$/;

/** How a statement runs without making others wait; undefined if it has no such way, or needs none. */
export function onlineForm(sql: string): OnlineForm | undefined {
  const [, unique, name = '', indexed, keys = '', where] = index.exec(sql) ?? [];
  if (indexed !== undefined) {
    const condition = where === undefined ? '' : ` where ${where}`;
    const twice = `select 'two' as name from "${indexed}"${condition} group by ${keys} having count(*) > 1 limit 1`;
    return {
      table: indexed,
      ...(unique !== undefined && { obstacle: twice }),
      // One that was interrupted is there, and not valid.
      later: [`drop index concurrently if exists ${name}`, sql.replace('index', 'index concurrently')],
    };
  }
  const [, referring, constraint] = foreignKey.exec(sql) ?? [];
  if (referring !== undefined) {
    return {
      table: referring,
      now: `${sql.replace(/;$/, '')} not valid;`,
      later: [`alter table "${referring}" validate constraint ${constraint}`],
    };
  }
  const [, table, column = ''] = notNull.exec(sql) ?? [];
  if (table === undefined) return undefined;
  // A checked constraint that says the same saves the reading of every row under a lock.
  const check = `"${identifier(`${table}_${column}_filled`)}"`;
  const condition = `check ("${column}" is not null)`;
  return {
    table,
    obstacle: `select 'none' as name from "${table}" where "${column}" is null limit 1`,
    now: `alter table "${table}" add constraint ${check} ${condition} not valid;`,
    later: [
      `alter table "${table}" drop constraint if exists ${check}, add constraint ${check} ${condition} not valid`,
      `alter table "${table}" validate constraint ${check}`,
      `alter table "${table}" alter column "${column}" set not null`,
      `alter table "${table}" drop constraint ${check}`,
    ],
  };
}
