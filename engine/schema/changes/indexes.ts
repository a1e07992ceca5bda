import type { StoredIndex } from '../../database/index.ts';
import { createIndexSql, type IndexShape, quote } from '../../sql/index.ts';
import type { CreateIndex, DropIndex, RenameIndex } from './change.ts';
import { alterTable } from './columns-sql.ts';
import { catalogOnly, changeEffects } from './effects.ts';
import { type Kind, without, withTable } from './kind.ts';
import { indexRule, set, text } from './rules.ts';

/** Returns whether an index belongs to a constraint. */
export const isConstraint = (index: IndexShape | StoredIndex): boolean =>
  'kind' in index && (index.kind === 'primary key' || index.kind === 'unique constraint');

export const createIndex: Kind<CreateIndex> = {
  rules: { table: text, name: text, index: indexRule, distinct: set },
  apply: (tables, { table, name, index }) =>
    withTable(tables, table, ({ indexes }) => ({ indexes: { ...indexes, [name]: index } })),
  sql: ({ table, name, index }) => {
    if (!isConstraint(index)) return [`${createIndexSql(table, name, index)};`];
    const rule = index.kind === 'primary key' ? index.kind : 'unique';
    return [alterTable(table, `add constraint ${quote(name)} ${rule} (${index.keys.join(', ')})`)];
  },
  risk: ({ index }) =>
    index.kind === undefined
      ? changeEffects('SHARE', 'reads', 'blocking')
      : changeEffects(
          isConstraint(index) ? 'ACCESS EXCLUSIVE' : 'SHARE',
          'reads',
          'blocking',
          'data-dependent',
        ),
  describe: ({ index: { kind } }) =>
    kind === undefined
      ? 'reads every row and blocks writes to the table'
      : 'reads every row, fails on duplicate values, and blocks writes to the table',
  online: ({ table, name, index, distinct }) => {
    const { keys, kind, where } = index;
    if (isConstraint(index)) return undefined;
    const condition = where === undefined ? '' : ` where ${where}`;
    return {
      ...(kind === 'unique' &&
        !distinct && {
          obstacle: `select 'two' as name from ${quote(table)}${condition} group by ${keys.join(', ')} having count(*) > 1 limit 1`,
        }),
      now: [],
      later: [{ table, build: buildSql(table, name, index) }],
      lock: 'SHARE UPDATE EXCLUSIVE',
      says: 'reads every row after the rest of the migration, without blocking reads or writes on the table',
    };
  },
};

/** Returns statements that build an index concurrently. An interrupted build leaves an invalid index. */
export const buildSql = (table: string, name: string, index: IndexShape): readonly string[] => [
  `drop index concurrently if exists ${quote(name)}`,
  createIndexSql(table, name, index, 'concurrently'),
];

export const dropIndex: Kind<DropIndex> = {
  rules: { table: text, name: text, constraint: set },
  apply: (tables, { table, name }) =>
    withTable(tables, table, ({ indexes }) => ({ indexes: without(indexes, name) })),
  sql: ({ table, name, constraint }) => [
    constraint ? alterTable(table, `drop constraint ${quote(name)}`) : `drop index ${quote(name)};`,
  ],
  risk: () => catalogOnly,
  describe: ({ constraint }) => (constraint ? 'drops a constraint' : 'drops an index'),
};

export const renameIndex: Kind<RenameIndex> = {
  rules: { table: text, name: text, to: text, constraint: set },
  apply: (tables, { table, name, to }) =>
    withTable(tables, table, ({ indexes }) => {
      const index = indexes[name];
      if (index === undefined) return {};
      const renamed =
        'expression' in index ? { expression: index.expression.replaceAll(quote(name), quote(to)) } : index;
      return { indexes: { ...without(indexes, name), [to]: renamed } };
    }),
  sql: ({ table, name, to, constraint }) => [
    constraint
      ? alterTable(table, `rename constraint ${quote(name)} to ${quote(to)}`)
      : `alter index ${quote(name)} rename to ${quote(to)};`,
  ],
  risk: ({ constraint }) => (constraint ? catalogOnly : changeEffects('SHARE UPDATE EXCLUSIVE')),
  describe: ({ constraint }) => (constraint ? 'renames a constraint' : 'renames an index'),
};
