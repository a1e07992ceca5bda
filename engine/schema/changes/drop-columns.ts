import { firstColumn } from '../../fields/index.ts';
import { quote } from '../../sql/index.ts';
import type { DropColumns } from './change.ts';
import { alterTable } from './columns-sql.ts';
import { changeEffects } from './effects.ts';
import { contractNote, type Kind, without, withTable } from './kind.ts';
import { listOf, text } from './rules.ts';

export const dropColumns: Kind<DropColumns> = {
  rules: { table: text, columns: listOf(text) },
  apply: (tables, { table, columns: dropped }) =>
    withTable(tables, table, ({ columns }) => ({ columns: without(columns, ...dropped) })),
  sql: ({ table, columns }) => [
    alterTable(table, ...columns.map((column) => `drop column ${quote(column)}`)),
  ],
  risk: () => changeEffects('ACCESS EXCLUSIVE', 'nothing', 'destructive', 'needs a restart'),
  describe: () => `drops the column and all its values; ${contractNote}`,
  // Additional columns are dropped together with their field.
  drops: ({ table, columns }) =>
    columns.filter((column) => firstColumn(column, columns) === column).map((column) => ({ table, column })),
  // Updated nodes no longer write these columns, so they must be nullable.
  compatibility: (change) => ({
    now: change.columns.map((column) => ({
      kind: 'nullability',
      table: change.table,
      column,
      nullable: true,
    })),
    contract: [change],
  }),
};
