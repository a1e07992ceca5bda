import type { AddColumns } from './change.ts';
import { alterTable, columnSql } from './columns-sql.ts';
import { catalogOnly } from './effects.ts';
import { type Kind, withTable } from './kind.ts';
import { columnRule, mapOf, text } from './rules.ts';

export const addColumns: Kind<AddColumns> = {
  rules: { table: text, columns: mapOf(columnRule) },
  apply: (tables, { table, columns: added }) =>
    withTable(tables, table, ({ columns }) => ({ columns: { ...columns, ...added } })),
  sql: ({ table, columns }) => [
    alterTable(table, ...Object.entries(columns).map(([name, column]) => `add ${columnSql(name, column)}`)),
  ],
  risk: () => catalogOnly,
  describe: () => 'adds the column without rewriting rows; existing rows get the default',
};
