import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type DatabaseConfig,
  type SchemaPart,
  type TableShape,
  type TableShapes,
  tableSections,
  tableShape,
} from '../database/index.ts';
import { quote } from '../sql/index.ts';
import type { Api, ApiField, ApiResource } from './api.ts';
import { migrationSequences, patchFile, type Sequence } from './sequences.ts';

/** Renamed tables and columns. */
export interface Renames {
  /** New table names by old name. */
  readonly tables?: Readonly<Record<string, string>>;
  /** New column names by the table's new name and the column's old name. */
  readonly columns?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Changed entries by name; null for a removed entry. */
type Changes<T> = Readonly<Record<string, T | null>>;

/**
 * The model changes of one migration, stored in a JSON file next to it. With a file per migration, two branches do not
 * conflict.
 */
export interface ModelPatch {
  readonly renamed?: Renames;
  readonly tables: Changes<Readonly<Partial<Record<keyof TableShape, Changes<SchemaPart>>>>>;
  /** API changes by resource. */
  readonly api?: Changes<ApiPatch>;
}

/** The API changes of one resource. */
interface ApiPatch {
  readonly fields: Changes<ApiField>;
  readonly filters: Changes<readonly string[]>;
  /** The other properties, which are replaced as a whole. */
  readonly rest: Omit<ApiResource, 'fields' | 'filters'>;
}

/** File with the model before the first migration that has a patch. */
const baseFile = 'snapshot.json';
const noSections = Object.fromEntries(tableSections.map((section) => [section, {}])) as unknown as TableShape;

/** The model after some or all migrations. */
export interface StoredModel {
  readonly tables: TableShapes;
  readonly api: Api;
}

/**
 * Returns the model after the last migration by applying all patches in order. Does not need a database.
 * @param isIncluded selects the migrations; all by default
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
  readonly tables: readonly (SchemaPart & { name: string })[];
  readonly api?: Changes<ApiPatch>;
}

/** Applies the migrations of a sequence to a model. */
function withSequence(
  before: StoredModel,
  { folder, patches }: Sequence,
  isIncluded: (migration: string) => boolean,
): StoredModel {
  const base = join(folder, baseFile);
  const { tables: baseTables, api = {} }: Base = existsSync(base)
    ? (JSON.parse(readFileSync(base, 'utf8')) as Base)
    : { tables: [] };
  const tables = Object.fromEntries(baseTables.map((table) => [table.name, tableShape(table)]));
  return patches
    .filter(isIncluded)
    .map((name) => JSON.parse(readFileSync(join(folder, patchFile(name)), 'utf8')) as ModelPatch)
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

/** Returns tables with a patch applied. */
export function applyPatch(before: TableShapes, { renamed = {}, tables: changes }: ModelPatch): TableShapes {
  const tables = withRenames(before, renamed);
  return merge(tables, changes, (table = noSections, change) => {
    const parts = tableSections.map((section) => [
      section,
      merge(table[section], change[section] ?? {}, takeAfter),
    ]);
    return Object.fromEntries(parts) as TableShape;
  });
}

const takeAfter = <T>(_before: T | undefined, after: T): T => after;

/** Returns a record with changes applied. A null change removes the entry. */
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
  return changesBetween(before, after, (table, newShape) => {
    const parts = tableSections.map((section) => {
      const changes = changesBetween(table?.[section] ?? {}, newShape[section], (_, newPart) => newPart);
      return [section, changes] as const;
    });
    return Object.fromEntries(parts.filter(([, changes]) => Object.keys(changes).length > 0));
  });
}

function changesBetween<T, C>(
  before: Readonly<Record<string, T>>,
  after: Readonly<Record<string, T>>,
  change: (before: T | undefined, after: T) => C,
): Changes<C> {
  const changes: Record<string, C | null> = {};
  for (const name of Object.keys(before)) if (!Object.hasOwn(after, name)) changes[name] = null;
  for (const [name, value] of Object.entries(after)) {
    if (JSON.stringify(sortKeys(before[name])) !== JSON.stringify(sortKeys(value))) {
      changes[name] = change(before[name], value);
    }
  }
  return changes;
}

/** Returns a copy of a JSON value with sorted object keys. */
function sortKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).map(([key, item]) => [key, sortKeys(item)] as const);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Returns tables with renames applied. As in PostgreSQL, the texts of triggers do not change. */
export function withRenames(before: TableShapes, { tables = {}, columns = {} }: Renames): TableShapes {
  let renamed: TableShapes = before;
  for (const [from, to] of Object.entries(tables)) {
    const renameEntry = ([name, shape]: [string, TableShape]) =>
      [name === from ? to : name, withNewTable(shape, from, to)] as const;
    renamed = Object.fromEntries(Object.entries(renamed).map(renameEntry));
  }
  for (const [table, names] of Object.entries(columns)) {
    const shape = renamed[table];
    if (shape !== undefined) renamed = { ...renamed, [table]: withNewColumns(shape, names) };
  }
  return renamed;
}

/** Returns a copy of a JSON value with every string replaced. */
const mapTexts = <T>(value: T, change: (text: string) => string): T =>
  JSON.parse(JSON.stringify(value), (_, item) => (typeof item === 'string' ? change(item) : item)) as T;

function withNewTable(shape: TableShape, from: string, to: string): TableShape {
  const rename = (text: string) =>
    text === `public.${from}` ? `public.${to}` : text.replaceAll(` on ${quote(from)} `, ` on ${quote(to)} `);
  const { indexes, foreignKeys } = shape;
  return { ...shape, indexes: mapTexts(indexes, rename), foreignKeys: mapTexts(foreignKeys, rename) };
}

function withNewColumns(shape: TableShape, names: Readonly<Record<string, string>>): TableShape {
  const nameOf = (name: string) => (Object.hasOwn(names, name) ? (names[name] as string) : name);
  const inSql = /"(\w+)"/g;
  const rename = (text: string) => nameOf(text).replace(inSql, (_, name: string) => quote(nameOf(name)));
  const columns = Object.entries(shape.columns).map(([name, column]) => [
    nameOf(name),
    { ...column, name: nameOf(name) },
  ]);
  const { indexes, foreignKeys } = shape;
  return {
    ...shape,
    columns: Object.fromEntries(columns),
    indexes: mapTexts(indexes, rename),
    foreignKeys: mapTexts(foreignKeys, rename),
  };
}
