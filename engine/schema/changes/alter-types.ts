import { quote } from '../../sql/index.ts';
import type { AlterTypes } from './change.ts';
import { alterTable, typeSql } from './columns-sql.ts';
import { changeEffects } from './effects.ts';
import { type Kind, withTable } from './kind.ts';
import { listOf, optional, propertiesOf, text } from './rules.ts';

export const alterTypes: Kind<AlterTypes> = {
  rules: {
    table: text,
    columns: listOf(propertiesOf({ name: text, type: text, collation: optional(text), using: text })),
  },
  apply: (tables, { table, columns: retyped }) =>
    withTable(tables, table, ({ columns }) => {
      const changed = retyped.map(({ name, using: _, ...type }) => {
        const { collation: __, ...column } = columns[name] ?? { type: '' };
        return [name, { ...column, ...type }];
      });
      return { columns: { ...columns, ...Object.fromEntries(changed) } };
    }),
  sql: ({ table, columns }) => [
    alterTable(
      table,
      ...columns.map(
        (column) => `alter column ${quote(column.name)} type ${typeSql(column)} using (${column.using})`,
      ),
    ),
  ],
  risk: () => changeEffects('ACCESS EXCLUSIVE', 'rewrites', 'blocking', 'data-dependent', 'needs a restart'),
  describe: () => 'rewrites every row with the new type and blocks all reads and writes on the table',
};
