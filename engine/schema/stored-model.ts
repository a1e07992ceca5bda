import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  type DatabaseConfig,
  type StoredIndex,
  shapeSections,
  type TableShape,
  type TableShapes,
  tableShape,
} from '../database/index.ts';
import { createIndexSql, type IndexShape, quote } from '../sql/index.ts';
import type { Api, ApiField, ApiResource } from './api.ts';
import { migrationSequences, patchFile, readJson, type Sequence } from './sequences.ts';

/** Renamed tables and columns. */
export interface Renames {
  /** New table names, keyed by old name. */
  readonly tables?: Readonly<Record<string, string>>;
  /** New column names, keyed by the table's new name and the column's old name. */
  readonly columns?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Changed entries, keyed by name. Removed entries are null. */
type Changes<T> = Readonly<Record<string, T | null>>;

/**
 * A migration's changes to the model, stored in a JSON file next to the migration. Because each migration has
 * its own file, branches do not conflict.
 */
export interface ModelPatch {
  readonly renamed?: Renames;
  readonly tables: Changes<TablePatch>;
  /** API changes, keyed by resource. */
  readonly api?: Changes<ApiPatch>;
}

/** The changes to a table, keyed by section. Earlier versions stored parts in MikroORM's representation. */
type TablePatch = { readonly [Section in keyof TableShape]?: Changes<Readonly<Record<string, unknown>>> };

/** Changes to the API of one resource. */
interface ApiPatch {
  readonly fields: Changes<ApiField>;
  readonly filters: Changes<readonly string[]>;
  /** The other properties, which are replaced as a whole. */
  readonly rest: Omit<ApiResource, 'fields' | 'filters'>;
}

/** File that contains the model before the first migration with a patch. */
const baseFile = 'snapshot.json';
const noSections: TableShape = { columns: {}, indexes: {}, foreignKeys: {}, checks: {}, triggers: {} };

/** The model after some or all migrations. */
export interface StoredModel {
  readonly tables: TableShapes;
  readonly api: Api;
}

/**
 * Returns the model after the last migration by applying all patches in order. Does not need a database.
 * @param isIncluded returns whether to include a migration. By default, all are included
 */
export function storedModel(
  config: DatabaseConfig,
  isIncluded = (_migration: string): boolean => true,
): StoredModel {
  return migrationSequences(config).reduce<StoredModel>(
    (before, sequence) => withSequence(before, sequence, isIncluded),
    {
      tables: {},
      api: {},
    },
  );
}

/** Contents of {@link baseFile}. */
interface Base {
  readonly tables: readonly (Readonly<Record<string, unknown>> & { readonly name: string })[];
  readonly api?: Changes<ApiPatch>;
}

/** Applies the migrations in a sequence to a model. */
function withSequence(
  before: StoredModel,
  { folder, patches }: Sequence,
  isIncluded: (migration: string) => boolean,
): StoredModel {
  const base = join(folder, baseFile);
  const { tables: baseTables, api = {} }: Base = existsSync(base) ? (readJson(base) as Base) : { tables: [] };
  const tables = Object.fromEntries(baseTables.map((table) => [table.name, tableShape(table)]));
  return patches
    .filter(isIncluded)
    .map((name) => readJson(join(folder, patchFile(name))) as ModelPatch)
    .reduce<StoredModel>(
      (model, patch) => ({
        tables: applyPatch(model.tables, patch),
        api: merge(model.api, patch.api ?? {}, withApiPatch),
      }),
      { tables: { ...before.tables, ...tables }, api: merge(before.api, api, withApiPatch) },
    );
}

/** Returns the difference between two versions of the API. */
export const apiPatch = (before: Api, after: Api): Changes<ApiPatch> =>
  changesBetween(before, after, (previous, { fields, filters, ...rest }) => ({
    fields: changesBetween(previous?.fields ?? {}, fields, takeAfter),
    filters: changesBetween(previous?.filters ?? {}, filters, takeAfter),
    rest,
  }));

const withApiPatch = (before: ApiResource | undefined, { fields, filters, rest }: ApiPatch): ApiResource => ({
  fields: merge(before?.fields ?? {}, fields, takeAfter),
  filters: merge(before?.filters ?? {}, filters, takeAfter),
  ...rest,
});

/** Returns a copy of the tables with a patch applied. */
export function applyPatch(before: TableShapes, { renamed = {}, tables: changes }: ModelPatch): TableShapes {
  const tables = withRenames(before, renamed);
  return merge(
    tables,
    changes,
    (table = noSections, { columns = {}, indexes = {}, foreignKeys = {}, checks = {}, triggers = {} }) => ({
      columns: merge(table.columns, columns, (_, part) => shapeSections.columns(part)),
      indexes: merge(table.indexes, indexes, (_, part) => shapeSections.indexes(part)),
      foreignKeys: merge(table.foreignKeys, foreignKeys, (_, part) => shapeSections.foreignKeys(part)),
      checks: merge(table.checks, checks, (_, part) => shapeSections.checks(part)),
      triggers: merge(table.triggers, triggers, (_, part) => shapeSections.triggers(part)),
    }),
  );
}

const takeAfter = <T>(_before: T | undefined, after: T): T => after;

/** Returns a copy of an object with changes applied. A null change removes the entry. */
function merge<T, C>(
  before: Readonly<Record<string, T>>,
  changes: Changes<C>,
  change: (before: T | undefined, change: C) => T,
): Readonly<Record<string, T>> {
  const after = new Map(Object.entries(before));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) after.delete(name);
    else after.set(name, change(after.get(name), value));
  }
  return Object.fromEntries(after);
}

/** Returns the difference between tables. @param before the previous tables, with renames already applied */
export function patchBetween(before: TableShapes, after: TableShapes): ModelPatch['tables'] {
  return changesBetween(
    withKnownIndexes(before, after),
    after,
    (table = noSections, newShape): TablePatch => {
      const sections = Object.keys(shapeSections) as (keyof TableShape)[];
      const parts = sections.map((section) => {
        const changes = changesBetween<object, object>(table[section], newShape[section], takeAfter);
        return [section, changes] as const;
      });
      return Object.fromEntries(parts.filter(([, changes]) => Object.keys(changes).length > 0));
    },
  );
}

/** Replaces indexes stored as statements with equal indexes that the known tables store as data. */
export function withKnownIndexes(tables: TableShapes, known: TableShapes): TableShapes {
  const shapes = Object.entries(tables).map(([table, shape]) => {
    const indexes = Object.entries(shape.indexes).map(([name, index]) => {
      const candidate = known[table]?.indexes[name];
      return [name, isSameIndex(index, candidate, table, name) ? candidate : index] as const;
    });
    return [table, { ...shape, indexes: Object.fromEntries(indexes) }] as const;
  });
  return Object.fromEntries(shapes) as TableShapes;
}

/** Returns whether an index with the given names equals another index, regardless of the other's name. */
export function isSameIndex(
  index: IndexShape | StoredIndex,
  other: IndexShape | StoredIndex | undefined,
  table: string,
  name: string,
): boolean {
  if (other === undefined) return false;
  return 'expression' in index && 'keys' in other
    ? index.expression === createIndexSql(table, name, other)
    : isSame(index, other);
}

function changesBetween<T, C>(
  before: Readonly<Record<string, T>>,
  after: Readonly<Record<string, T>>,
  change: (before: T | undefined, after: T) => C,
): Changes<C> {
  const changes: Record<string, C | null> = {};
  for (const name of Object.keys(before)) if (!Object.hasOwn(after, name)) changes[name] = null;
  for (const [name, value] of Object.entries(after)) {
    if (!isSame(before[name], value)) {
      changes[name] = change(before[name], value);
    }
  }
  return changes;
}

/** Returns whether two JSON values are equal. */
export const isSame = (value: unknown, other: unknown): boolean =>
  JSON.stringify(sortKeys(value)) === JSON.stringify(sortKeys(other));

/** Returns a copy of a JSON value with sorted object keys. */
function sortKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).map(([key, item]) => [key, sortKeys(item)] as const);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Returns a copy of the tables with renames applied. As in PostgreSQL, trigger bodies do not change. */
export function withRenames(before: TableShapes, { tables = {}, columns = {} }: Renames): TableShapes {
  const renamed = Object.entries(tables).reduce(
    (shapes, [from, to]) => tablesWithNewName(shapes, from, to),
    before,
  );
  return Object.entries(columns).reduce(
    (shapes, [table, names]) => tablesWithNewColumns(shapes, table, names),
    renamed,
  );
}

/** Returns a copy of the tables with one table renamed. */
export function tablesWithNewName(tables: TableShapes, from: string, to: string): TableShapes {
  const onTable = (index: IndexShape | StoredIndex) =>
    'expression' in index
      ? { expression: index.expression.replaceAll(` on ${quote(from)} `, ` on ${quote(to)} `) }
      : index;
  const shapes = Object.entries(tables).map(([name, shape]): [string, TableShape] => [
    name === from ? to : name,
    {
      ...shape,
      indexes: mapValues(shape.indexes, onTable),
      foreignKeys: mapValues(shape.foreignKeys, (key) => (key.to === from ? { ...key, to } : key)),
    },
  ]);
  return Object.fromEntries(shapes);
}

/** Returns a copy of the tables with columns of one table renamed. @param names new names by old name */
export function tablesWithNewColumns(
  tables: TableShapes,
  table: string,
  names: Readonly<Record<string, string>>,
): TableShapes {
  const nameOf = (name: string) => (Object.hasOwn(names, name) ? (names[name] as string) : name);
  /** Replaces quoted names in an SQL expression. One column's new name can be another column's old name. */
  const inSql = (text: string) =>
    Object.entries(names)
      .reduce((result, [from, to]) => result.replaceAll(quote(from), `"\0${to}"`), text)
      .replaceAll('"\0', '"');
  const newIndex = (index: IndexShape | StoredIndex): IndexShape | StoredIndex =>
    'expression' in index
      ? { expression: inSql(index.expression) }
      : {
          ...index,
          keys: index.keys.map(inSql),
          ...(index.where !== undefined && { where: inSql(index.where) }),
        };
  const shapes = Object.entries(tables).map(([name, shape]): [string, TableShape] => {
    const isTable = name === table;
    return [
      name,
      {
        ...shape,
        ...(isTable && {
          columns: Object.fromEntries(
            Object.entries(shape.columns).map(([column, part]) => [nameOf(column), part]),
          ),
          indexes: mapValues(shape.indexes, newIndex),
          checks: mapValues(shape.checks, ({ condition }) => ({ condition: inSql(condition) })),
        }),
        foreignKeys: mapValues(shape.foreignKeys, (key) => ({
          ...key,
          columns: isTable ? key.columns.map(nameOf) : key.columns,
          toColumns: key.to === table ? key.toColumns.map(nameOf) : key.toColumns,
        })),
      },
    ];
  });
  return Object.fromEntries(shapes);
}

const mapValues = <T, R>(
  record: Readonly<Record<string, T>>,
  change: (value: T) => R,
): Readonly<Record<string, R>> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
