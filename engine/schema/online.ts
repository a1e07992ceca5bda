import { identifier } from '../sql/index.ts';

/** A form of a migration statement that does not block reads from and writes to the table. */
export interface OnlineForm {
  readonly table: string;
  /**
   * Query that returns a row if the statement would fail. The original statement then runs, so that the migration is
   * rolled back.
   */
  readonly obstacle?: string;
  /** Statement that replaces the original one in the migration's transaction. */
  readonly now?: string;
  /** Statements to run after the transaction. They scan the table and can be repeated. */
  readonly later: readonly string[];
}

const indexPattern = /^create (unique )?index ("\w+") on "(\w+)" (?:using \w+ )?\((.*)\)(?: where (.*?))?;?$/;
const foreignKeyPattern = /^alter table "(\w+)" add constraint ("\w+") foreign key .*?;?$/;
const notNullPattern = /^alter table "(\w+)" alter column "(\w+)" set not null;?$/;

/** Returns the online form of a statement, or undefined if it has none or does not need one. */
export function onlineForm(sql: string): OnlineForm | undefined {
  const [, unique, name = '', indexedTable, keys = '', where] = indexPattern.exec(sql) ?? [];
  if (indexedTable !== undefined) {
    const condition = where === undefined ? '' : ` where ${where}`;
    const duplicates = `select 'two' as name from "${indexedTable}"${condition} group by ${keys} having count(*) > 1 limit 1`;
    return {
      table: indexedTable,
      ...(unique !== undefined && { obstacle: duplicates }),
      // An interrupted build leaves an invalid index.
      later: [`drop index concurrently if exists ${name}`, sql.replace('index', 'index concurrently')],
    };
  }
  const [, referringTable, constraint] = foreignKeyPattern.exec(sql) ?? [];
  if (referringTable !== undefined) {
    return {
      table: referringTable,
      now: `${sql.replace(/;$/, '')} not valid;`,
      later: [`alter table "${referringTable}" validate constraint ${constraint}`],
    };
  }
  const [, table, column = ''] = notNullPattern.exec(sql) ?? [];
  if (table === undefined) return undefined;
  // With an equivalent validated constraint, SET NOT NULL does not have to scan the table under an exclusive lock.
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
