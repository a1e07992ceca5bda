import { quote } from '../../sql/index.ts';
import type { Default } from './change.ts';
import { alterTable } from './columns-sql.ts';
import { catalogOnly } from './effects.ts';
import { type Kind, withTable } from './kind.ts';
import { text } from './rules.ts';

export const defaultKind: Kind<Default> = {
  rules: {
    table: text,
    column: text,
    value: (value, path) => (value === null ? undefined : text(value, path)),
  },
  apply: (tables, { table, column: name, value }) =>
    withTable(tables, table, ({ columns }) => {
      const { default: _, ...column } = columns[name] ?? { type: '' };
      return { columns: { ...columns, [name]: { ...column, ...(value !== null && { default: value }) } } };
    }),
  sql: ({ table, column, value }) => [
    alterTable(
      table,
      `alter column ${quote(column)} ${value === null ? 'drop default' : `set default ${value}`}`,
    ),
  ],
  risk: () => catalogOnly,
  describe: () => 'changes the column in the catalog without reading or writing rows',
  // Older nodes can insert rows without a value.
  compatibility: (change) =>
    change.value === null ? { now: [], contract: [change] } : { now: [change], contract: [] },
};
