import type { ForeignKeyShape } from '../../database/index.ts';
import { quote } from '../../sql/index.ts';
import type { AddForeignKey, DropForeignKey, RenameForeignKey } from './change.ts';
import { alterTable, nameList } from './columns-sql.ts';
import { catalogOnly, changeEffects } from './effects.ts';
import { type Kind, validateNote, without, withTable } from './kind.ts';
import { foreignKeyRule, text } from './rules.ts';

/** Returns the ALTER TABLE clause that adds a foreign key. */
export const foreignKeySql = (
  name: string,
  { columns, to, toColumns, onDelete = 'no action' }: ForeignKeyShape,
): string =>
  `add constraint ${quote(name)} foreign key (${nameList(columns)}) references ${quote(to)} (${nameList(toColumns)}) on update no action on delete ${onDelete}`;

export const addForeignKey: Kind<AddForeignKey> = {
  rules: { table: text, name: text, key: foreignKeyRule },
  apply: (tables, { table, name, key }) =>
    withTable(tables, table, ({ foreignKeys }) => ({ foreignKeys: { ...foreignKeys, [name]: key } })),
  sql: ({ table, name, key }) => [alterTable(table, foreignKeySql(name, key))],
  risk: () => changeEffects('SHARE ROW EXCLUSIVE', 'reads', 'blocking', 'data-dependent'),
  describe: () => 'checks the reference in every row and blocks writes to both tables',
  online: ({ table, name, key }) => ({
    now: [alterTable(table, `${foreignKeySql(name, key)} not valid`)],
    later: [{ table, sql: alterTable(table, `validate constraint ${quote(name)}`) }],
    says: validateNote,
  }),
};

export const dropForeignKey: Kind<DropForeignKey> = {
  rules: { table: text, name: text },
  apply: (tables, { table, name }) =>
    withTable(tables, table, ({ foreignKeys }) => ({ foreignKeys: without(foreignKeys, name) })),
  sql: ({ table, name }) => [alterTable(table, `drop constraint ${quote(name)}`)],
  risk: () => catalogOnly,
  describe: () => 'drops a constraint',
};

export const renameForeignKey: Kind<RenameForeignKey> = {
  rules: { table: text, name: text, to: text },
  apply: (tables, { table, name, to }) =>
    withTable(tables, table, ({ foreignKeys }) => {
      const key = foreignKeys[name];
      return { foreignKeys: { ...without(foreignKeys, name), ...(key !== undefined && { [to]: key }) } };
    }),
  sql: ({ table, name, to }) => [alterTable(table, `rename constraint ${quote(name)} to ${quote(to)}`)],
  risk: () => catalogOnly,
  describe: () => 'renames a constraint',
};
