import {
  type ColumnShape,
  extensionStatements,
  type StoredIndex,
  type TableShape,
  type TableShapes,
} from '../database/index.ts';
import { type IndexShape, quote } from '../sql/index.ts';
import type { Change } from './changes/change.ts';
import { isConstraint } from './changes/indexes.ts';
import { isSame, withKnownIndexes } from './stored-model.ts';

/** Returns the changes between tables, which are compared by name. A part with a new name is a new part. */
export function difference(previous: TableShapes, after: TableShapes): readonly Change[] {
  const before = withKnownIndexes(previous, after);
  const names = Object.keys(after);
  const created = names.filter((name) => !Object.hasOwn(before, name));
  const dropped = Object.entries(before).filter(([name]) => !Object.hasOwn(after, name));
  const altered = names.flatMap((table) => {
    const [current, target] = [before[table], after[table]];
    return current === undefined || target === undefined ? [] : [{ table, current, target }];
  });
  const changes: readonly Change[] = [
    ...created.flatMap((table) => createdTable(table, after[table] as TableShape)),
    // Dropping a table also drops the foreign keys that refer to it.
    ...altered.flatMap(({ table, current, target }) =>
      lost(current.foreignKeys, target.foreignKeys).map(
        (name): Change => ({ kind: 'dropForeignKey', table, name }),
      ),
    ),
    ...dropped.map(
      ([table, { triggers }]): Change => ({ kind: 'dropTable', table, triggers: Object.keys(triggers) }),
    ),
    ...altered.flatMap(({ table, current, target }) => alteredTable(table, current, target)),
    ...created.flatMap((table) => completedTable(table, after[table] as TableShape)),
  ];
  const needsExtensions = changes.some(
    (change) => change.kind === 'createIndex' && change.index.method === 'gin',
  );
  return needsExtensions ? [...extensionStatements.map(createExtension), ...changes] : changes;
}

const createExtension = (sql: string): Change => ({
  kind: 'raw',
  sql,
  effects: { lock: 'none', touches: 'nothing', risks: [], says: 'does not read or write rows' },
});

type Parts = Readonly<Record<string, object>>;

/** Returns the names of dropped and changed parts. */
const lost = (before: Parts, after: Parts): readonly string[] =>
  Object.entries(before)
    .filter(([name, part]) => !isSame(part, after[name]))
    .map(([name]) => name);

/** Returns the new and changed parts, keyed by name. */
const gained = <T extends object>(before: Parts, after: Readonly<Record<string, T>>) =>
  Object.entries(after).filter(([name, part]) => !isSame(part, before[name]));

function createdTable(table: string, { columns, indexes, checks }: TableShape): Change[] {
  const definitions = Object.entries(indexes) as [string, IndexShape][];
  return [
    ...definitions
      .filter(([, { kind }]) => kind === 'primary key')
      .map(
        ([name, { keys }]): Change => ({
          kind: 'createTable',
          table,
          columns,
          primaryKey: { name, columns: keys.map((key) => key.slice(1, -1)) },
        }),
      ),
    ...definitions
      .filter(([, { kind }]) => kind !== 'primary key')
      .map(([name, index]): Change => ({ kind: 'createIndex', table, name, index })),
    ...Object.entries(checks).map(([name, check]): Change => ({ kind: 'addConstraint', table, name, check })),
  ];
}

/** Describes a column whose values are converted by a cast. */
const castTo = (name: string, { type, collation }: ColumnShape) => ({
  name,
  type,
  ...(collation !== undefined && { collation }),
  using: `${quote(name)}::${type}`,
});

/** Returns the changes to a new table that depend on other tables. */
const completedTable = (table: string, { foreignKeys, triggers }: TableShape): Change[] => [
  ...Object.entries(foreignKeys).map(([name, key]): Change => ({ kind: 'addForeignKey', table, name, key })),
  ...Object.entries(triggers).map(
    ([name, trigger]): Change => ({ kind: 'createTrigger', table, name, trigger }),
  ),
];

/** Returns whether an index is unique for some of the rows, and by the same values, as the unique index that it replaces. */
const isNarrower = (index: IndexShape, previous: IndexShape | StoredIndex | undefined): boolean =>
  previous !== undefined &&
  'keys' in previous &&
  index.kind === 'unique' &&
  previous.kind === 'unique' &&
  isSame(index.keys, previous.keys) &&
  (previous.where === undefined || index.where?.startsWith(`${previous.where} and `) === true);

/** Returns whether a unique index contains only rows with a value in one of these new columns, which has no value in the existing rows. */
const isEmptyAtFirst = (
  { kind, where = '' }: IndexShape,
  added: readonly (readonly [name: string, column: ColumnShape])[],
): boolean =>
  kind === 'unique' &&
  where
    .split(' and ')
    .some((condition) =>
      added.some(
        ([name, column]) =>
          (column.default === undefined && condition === `${quote(name)} is not null`) ||
          ((column.default === undefined || column.default === "''") && condition === `${quote(name)} <> ''`),
      ),
    );

function alteredTable(table: string, current: TableShape, target: TableShape): Change[] {
  const droppedColumns = Object.keys(current.columns).filter((name) => !Object.hasOwn(target.columns, name));
  const addedColumns = Object.entries(target.columns).filter(
    ([name]) => !Object.hasOwn(current.columns, name),
  );
  return [
    ...lost(current.indexes, target.indexes).map((name): Change => {
      const index = current.indexes[name];
      return {
        kind: 'dropIndex',
        table,
        name,
        ...(index !== undefined && isConstraint(index) && { constraint: true }),
      };
    }),
    ...lost(current.checks, target.checks).map((name): Change => ({ kind: 'dropConstraint', table, name })),
    ...lost(current.triggers, target.triggers).map((name): Change => ({ kind: 'dropTrigger', table, name })),
    ...(droppedColumns.length === 0
      ? []
      : [{ kind: 'dropColumns', table, columns: droppedColumns } as const]),
    ...(addedColumns.length === 0
      ? []
      : [{ kind: 'addColumns', table, columns: Object.fromEntries(addedColumns) } as const]),
    ...Object.entries(target.columns).flatMap(([column, part]): Change[] => {
      const previous = current.columns[column];
      if (previous === undefined) return [];
      const { type, collation } = part;
      return [
        ...(previous.type === type && previous.collation === collation
          ? []
          : [{ kind: 'alterTypes', table, columns: [castTo(column, part)] } as const]),
        ...(previous.default === part.default
          ? []
          : [{ kind: 'default', table, column, value: part.default ?? null } as const]),
        ...(previous.nullable === part.nullable
          ? []
          : [{ kind: 'nullability', table, column, nullable: part.nullable === true } as const]),
      ];
    }),
    ...gained(current.foreignKeys, target.foreignKeys).map(
      ([name, key]): Change => ({ kind: 'addForeignKey', table, name, key }),
    ),
    ...gained(current.indexes, target.indexes).map(
      ([name, index]): Change => ({
        kind: 'createIndex',
        table,
        name,
        index: index as IndexShape,
        ...((isNarrower(index as IndexShape, current.indexes[name]) ||
          isEmptyAtFirst(index as IndexShape, addedColumns)) && { distinct: true }),
      }),
    ),
    ...gained(current.checks, target.checks).map(
      ([name, check]): Change => ({ kind: 'addConstraint', table, name, check }),
    ),
    ...gained(current.triggers, target.triggers).map(
      ([name, trigger]): Change => ({ kind: 'createTrigger', table, name, trigger }),
    ),
  ];
}
