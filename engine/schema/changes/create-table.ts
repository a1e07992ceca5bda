import { quote } from '../../sql/index.ts';
import type { CreateTable } from './change.ts';
import { columnSql, nameList } from './columns-sql.ts';
import { changeEffects } from './effects.ts';
import type { Kind } from './kind.ts';
import { columnRule, listOf, mapOf, propertiesOf, text } from './rules.ts';

export const createTable: Kind<CreateTable> = {
  rules: {
    table: text,
    columns: mapOf(columnRule),
    primaryKey: propertiesOf({ name: text, columns: listOf(text) }),
  },
  apply: (tables, { table, columns, primaryKey }) => ({
    ...tables,
    [table]: {
      columns,
      indexes: { [primaryKey.name]: { keys: primaryKey.columns.map(quote), kind: 'primary key' } },
      foreignKeys: {},
      checks: {},
      triggers: {},
    },
  }),
  sql: ({ table, columns, primaryKey }) => {
    const parts = Object.entries(columns).map(([name, column]) => columnSql(name, column));
    const key = `constraint ${quote(primaryKey.name)} primary key (${nameList(primaryKey.columns)})`;
    return [`create table ${quote(table)} (${[...parts, key].join(', ')});`];
  },
  risk: () => changeEffects('none'),
  describe: () => 'creates a table',
};
