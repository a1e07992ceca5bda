import { quote } from '../../sql/index.ts';
import { tablesWithNewColumns } from '../stored-model.ts';
import type { RenameColumn } from './change.ts';
import { alterTable } from './columns-sql.ts';
import { changeEffects } from './effects.ts';
import { type Kind, restartNote } from './kind.ts';
import { raw } from './raw.ts';
import { text } from './rules.ts';

export const renameColumn: Kind<RenameColumn> = {
  rules: { table: text, column: text, to: text },
  apply: (tables, { table, column, to }) => tablesWithNewColumns(tables, table, { [column]: to }),
  sql: ({ table, column, to }) => [alterTable(table, `rename column ${quote(column)} to ${quote(to)}`)],
  risk: () => changeEffects('ACCESS EXCLUSIVE', 'nothing', 'needs a restart'),
  describe: () => `renames the column and keeps every value; ${restartNote}`,
  compatibility: (change, { nodes, models }) => ({
    now: [...models.show(change.table, nodes).map(raw), change],
    contract: [],
  }),
};
