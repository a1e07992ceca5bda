import { identifier, quote } from '../../sql/index.ts';
import type { Nullability } from './change.ts';
import { alterTable } from './columns-sql.ts';
import { catalogOnly, changeEffects } from './effects.ts';
import { type Kind, validateNote, withTable } from './kind.ts';
import { flag, text } from './rules.ts';

export const nullability: Kind<Nullability> = {
  rules: { table: text, column: text, nullable: flag },
  apply: (tables, { table, column: name, nullable }) =>
    withTable(tables, table, ({ columns }) => {
      const { nullable: _, ...column } = columns[name] ?? { type: '' };
      return { columns: { ...columns, [name]: { ...column, ...(nullable && { nullable }) } } };
    }),
  sql: ({ table, column, nullable }) => [
    alterTable(table, `alter column ${quote(column)} ${nullable ? 'drop' : 'set'} not null`),
  ],
  risk: ({ nullable }) =>
    nullable ? catalogOnly : changeEffects('ACCESS EXCLUSIVE', 'reads', 'blocking', 'data-dependent'),
  describe: ({ nullable }) =>
    nullable
      ? 'changes the column in the catalog without reading or writing rows'
      : 'checks every row for a missing value and blocks all reads and writes on the table',
  // With an equivalent validated constraint, SET NOT NULL does not scan the table under an exclusive lock.
  online: ({ table, column, nullable }) => {
    if (nullable) return undefined;
    const name = quote(identifier(`${table}_${column}_filled`));
    const add = `add constraint ${name} check (${quote(column)} is not null) not valid`;
    const step = (...actions: readonly string[]) => ({ table, sql: alterTable(table, ...actions) });
    return {
      obstacle: `select 'none' as name from ${quote(table)} where ${quote(column)} is null limit 1`,
      now: [alterTable(table, add)],
      later: [
        step(`drop constraint if exists ${name}`, add),
        step(`validate constraint ${name}`),
        step(`alter column ${quote(column)} set not null`),
        step(`drop constraint ${name}`),
      ],
      says: validateNote,
    };
  },
  // Older nodes can still write null. The values are filled again after these nodes have stopped.
  compatibility: (change, { changes }) =>
    change.nullable
      ? { now: [change], contract: [] }
      : {
          now: [],
          contract: [
            ...changes.filter(
              (other) =>
                other.kind === 'backfill' && other.table === change.table && other.column === change.column,
            ),
            change,
          ],
        },
};
