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

/** New names, of resources and of columns. */
export interface Renames {
  /** From the old name of a table to the new one. */
  readonly tables?: Readonly<Record<string, string>>;
  /** By the new name of the table, from old names to new ones. */
  readonly columns?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Parts that a migration changes: null for those that are gone. */
type Changed<T> = Readonly<Record<string, T | null>>;

/**
 * What a migration changes of the model, in a file of its own next to it: two branches with a migration each have no file
 * in common.
 */
export interface ModelPatch {
  readonly renamed?: Renames;
  readonly tables: Changed<Readonly<Partial<Record<keyof TableShape, Changed<SchemaPart>>>>>;
  /** What callers know of each resource that changes. */
  readonly api?: Changed<ApiPatch>;
}

/** What callers notice of a resource. */
interface ApiPatch {
  readonly fields: Changed<ApiField>;
  readonly filters: Changed<readonly string[]>;
  /** All else, as a whole. */
  readonly rest: Omit<ApiResource, 'fields' | 'filters'>;
}

/** The file with what was there before migrations had files of their own. */
const baseFile = 'snapshot.json';
const noSections = Object.fromEntries(tableSections.map((section) => [section, {}])) as unknown as TableShape;

/** The model after the last migration. */
export interface StoredModel {
  readonly tables: TableShapes;
  readonly api: Api;
}

/** The model after the last migration, put together from what each of them changed. Needs no database. @param has whether a migration counts */
export function storedModel(
  config: DatabaseConfig,
  has = (_migration: string): boolean => true,
): StoredModel {
  return migrationSequences(config).reduce<StoredModel>(
    (before, sequence) => withSequence(before, sequence, has),
    {
      tables: {},
      api: {},
    },
  );
}

/** The model before there were patches. */
interface Base {
  readonly tables: readonly (SchemaPart & { name: string })[];
  readonly api?: Changed<ApiPatch>;
}

/** A model after the migrations of a sequence. */
function withSequence(
  before: StoredModel,
  { folder, patches }: Sequence,
  has: (migration: string) => boolean,
): StoredModel {
  const base = join(folder, baseFile);
  const { tables: first, api = {} }: Base = existsSync(base)
    ? (JSON.parse(readFileSync(base, 'utf8')) as Base)
    : { tables: [] };
  const tables = Object.fromEntries(first.map((table) => [table.name, tableShape(table)]));
  return patches
    .filter(has)
    .map((name) => JSON.parse(readFileSync(join(folder, patchFile(name)), 'utf8')) as ModelPatch)
    .reduce<StoredModel>(
      (model, patch) => ({
        tables: applyPatch(model.tables, patch),
        api: merge(model.api, patch.api ?? {}, withApiPatch),
      }),
      { tables: { ...before.tables, ...tables }, api: merge(before.api, api, withApiPatch) },
    );
}

/** What makes the knowledge of callers another one. */
export const apiPatch = (before: Api, after: Api): Changed<ApiPatch> =>
  changesBetween(before, after, (old, { fields, filters, ...rest }) => ({
    fields: changesBetween(old?.fields ?? {}, fields, replaced),
    filters: changesBetween(old?.filters ?? {}, filters, replaced),
    rest,
  }));

const withApiPatch = (before: ApiResource | undefined, { fields, filters, rest }: ApiPatch): ApiResource => ({
  fields: merge(before?.fields ?? {}, fields, replaced),
  filters: merge(before?.filters ?? {}, filters, replaced),
  ...rest,
});

/** Tables after a patch. */
export function applyPatch(before: TableShapes, { renamed = {}, tables: changes }: ModelPatch): TableShapes {
  const tables = withRenames(before, renamed);
  return merge(tables, changes, (table = noSections, change) => {
    const parts = tableSections.map((section) => [
      section,
      merge(table[section], change[section] ?? {}, replaced),
    ]);
    return Object.fromEntries(parts) as TableShape;
  });
}

const replaced = <T>(_before: T | undefined, after: T): T => after;

/** The entries of a record, with changes: null takes one out. */
function merge<T, C>(
  before: Readonly<Record<string, T>>,
  changes: Changed<C>,
  change: (before: T | undefined, change: C) => T,
): Readonly<Record<string, T>> {
  const after = new Map(Object.entries(before));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) after.delete(name);
    else after.set(name, change(after.get(name), value));
  }
  return Object.fromEntries(after);
}

/** What makes tables others. @param before with their new names already */
export function patchBetween(before: TableShapes, after: TableShapes): ModelPatch['tables'] {
  return changesBetween(before, after, (table, other) => {
    const parts = tableSections.map((section) => {
      const changed = changesBetween(table?.[section] ?? {}, other[section], (_, part) => part);
      return [section, changed] as const;
    });
    return Object.fromEntries(parts.filter(([, changed]) => Object.keys(changed).length > 0));
  });
}

function changesBetween<T, C>(
  before: Readonly<Record<string, T>>,
  after: Readonly<Record<string, T>>,
  change: (before: T | undefined, after: T) => C,
): Changed<C> {
  const changed: Record<string, C | null> = {};
  for (const name of Object.keys(before)) if (!Object.hasOwn(after, name)) changed[name] = null;
  for (const [name, value] of Object.entries(after)) {
    if (JSON.stringify(sorted(before[name])) !== JSON.stringify(sorted(value))) {
      changed[name] = change(before[name], value);
    }
  }
  return changed;
}

/** The same value with the keys of its objects in one order. */
function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).map(([key, each]) => [key, sorted(each)] as const);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Tables under their new names, as PostgreSQL has them after a rename: triggers keep their texts. */
export function withRenames(before: TableShapes, { tables = {}, columns = {} }: Renames): TableShapes {
  let renamed: TableShapes = before;
  for (const [from, to] of Object.entries(tables)) {
    const moved = ([name, shape]: [string, TableShape]) =>
      [name === from ? to : name, withNewTable(shape, from, to)] as const;
    renamed = Object.fromEntries(Object.entries(renamed).map(moved));
  }
  for (const [table, names] of Object.entries(columns)) {
    const shape = renamed[table];
    if (shape !== undefined) renamed = { ...renamed, [table]: withNewColumns(shape, names) };
  }
  return renamed;
}

/** @param change gets every text of a part */
const mapTexts = <T>(value: T, change: (text: string) => string): T =>
  JSON.parse(JSON.stringify(value), (_, each) => (typeof each === 'string' ? change(each) : each)) as T;

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
