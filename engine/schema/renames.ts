import type { ForeignKeyShape, StoredIndex, TableShape, TableShapes } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { UserError } from '../errors.ts';
import { fieldColumns } from '../fields/index.ts';
import type { IndexShape } from '../sql/index.ts';
import { resourceColumns, resourcePaths } from '../tables/index.ts';
import type { Change } from './changes/change.ts';
import { applyChanges } from './changes/index.ts';
import { isConstraint } from './changes/indexes.ts';
import type { Model } from './model.ts';
import { isSame, isSameIndex, type Renames, withRenames } from './stored.ts';

/** Declared renames that have not been migrated yet. */
export interface PendingRenames {
  readonly renamed: Renames;
  readonly changes: readonly Change[];
  /** The tables with their new names. */
  readonly tables: TableShapes;
}

/**
 * Returns the changes for renames that are declared with `renamed_from` but have not been migrated yet.
 * @param after the tables of the model, with the new names of indexes and constraints
 * @throws UserError with the location of each `renamed_from` that does not name a stored resource or field
 */
export function pendingRenames(before: TableShapes, after: TableShapes, model: Model): PendingRenames {
  const definitions = model.resources.map(({ definition }) => definition);
  const tables: Record<string, string> = {};
  const problems: string[] = [];
  for (const { name, file, renamedFrom: from } of definitions) {
    if (from === undefined || Object.hasOwn(before, name)) continue;
    if (Object.hasOwn(before, from)) tables[from] = name;
    else problems.push(`${file}  renamed_from: no resource has been named "${from}"`);
  }
  const renamedTables = withRenames(before, { tables });
  const columns: Record<string, Readonly<Record<string, string>>> = {};
  for (const definition of definitions) {
    const shape = renamedTables[definition.name];
    if (shape === undefined) continue;
    const newNames = renamedColumns(definition, shape, problems);
    if (Object.keys(newNames).length > 0) columns[definition.name] = newNames;
  }
  if (problems.length > 0) throw new UserError(problems.join('\n'));
  const renamed = {
    ...(Object.keys(tables).length > 0 && { tables }),
    ...(Object.keys(columns).length > 0 && { columns }),
  };
  const shapes = withRenames(before, renamed);
  const parts = [...Object.values(tables), ...Object.keys(columns)].flatMap((table, index, all) =>
    all.indexOf(table) === index ? renamedParts(table, shapes[table], after[table]) : [],
  );
  const changes = [
    ...Object.entries(tables).flatMap(([from, to]) => tableChanges(from, to, shapes[to], model)),
    ...Object.entries(columns).flatMap(([table, names]) =>
      Object.entries(names).map(([column, to]): Change => ({ kind: 'renameColumn', table, column, to })),
    ),
    ...parts,
  ];
  return { renamed, tables: applyChanges(shapes, parts), changes };
}

/** Maps old names of renamed columns to new names. Adds each old name that does not exist to `problems`. */
function renamedColumns(
  { fields, retired, file }: ResourceDefinition,
  { columns }: TableShape,
  problems: string[],
): Record<string, string> {
  const newNames: Record<string, string> = {};
  const isStored = (name: string) => Object.hasOwn(columns, name);
  for (const field of [...fields, ...retired]) {
    const { name, renamedFrom: from } = field;
    const [first] = fieldColumns(field);
    if (from === undefined || first === undefined || field.aliasOf !== undefined || isStored(name)) continue;
    if (!isStored(from)) {
      problems.push(`${field.location}  renamed_from: no field in ${file} has been named "${from}"`);
      continue;
    }
    for (const { suffix } of fieldColumns(field)) {
      if (isStored(`${from}${suffix}`)) newNames[`${from}${suffix}`] = `${name}${suffix}`;
    }
  }
  return newNames;
}

/** Returns changes that rename a table and update rows that contain the resource's name. */
function tableChanges(from: string, to: string, shape: TableShape | undefined, { tables }: Model): Change[] {
  const updates = tables.flatMap((entity): Change[] => {
    const table = entity.meta.tableName;
    return [
      ...resourceColumns(entity).map(
        (column) => ({ kind: 'renameValues', table, column, from, to }) as const,
      ),
      ...resourcePaths(entity).map(
        (column) => ({ kind: 'renameValues', table, column, from, to, paths: true }) as const,
      ),
    ];
  });
  const triggers = Object.keys(shape?.triggers ?? {});
  return [{ kind: 'renameTable', table: from, to, triggers }, ...updates];
}

/** Returns changes that rename the indexes and foreign keys whose definitions differ only in name. */
function renamedParts(
  table: string,
  current: TableShape | undefined,
  target: TableShape | undefined,
): Change[] {
  if (current === undefined || target === undefined) return [];
  const indexes = renamedNames<IndexShape | StoredIndex>(
    current.indexes,
    target.indexes,
    (name, index, other) => isSameIndex(index, other, table, name),
  ).map(({ name, to, part }): Change => {
    const constraint = isConstraint(part) && { constraint: true as const };
    return { kind: 'renameIndex', table, name, to, ...constraint };
  });
  const foreignKeys = renamedNames<ForeignKeyShape>(
    current.foreignKeys,
    target.foreignKeys,
    (_, key, other) => isSame(key, other),
  ).map(({ name, to }): Change => ({ kind: 'renameForeignKey', table, name, to }));
  return [...indexes, ...foreignKeys];
}

/** Returns the old and new names of parts that are otherwise equal. */
function renamedNames<T>(
  before: Readonly<Record<string, T>>,
  after: Readonly<Record<string, T>>,
  isEqual: (name: string, part: T, other: T) => boolean,
): readonly { readonly name: string; readonly to: string; readonly part: T }[] {
  const usedNames = new Set(Object.keys(before));
  return Object.entries(before).flatMap(([name, part]) => {
    if (Object.hasOwn(after, name)) return [];
    const [to] =
      Object.entries(after).find(
        ([candidate, other]) => !usedNames.has(candidate) && isEqual(name, part, other),
      ) ?? [];
    if (to === undefined) return [];
    usedNames.add(to);
    return [{ name, to, part }];
  });
}
