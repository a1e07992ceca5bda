import type { ForeignKeyShape, StoredIndex, TableShape, TableShapes } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { UserError } from '../errors.ts';
import { type Field, fieldColumns, refersToMany } from '../fields/index.ts';
import { fieldGroups, groupObject, linkTable, sequenceFields, sequenceName } from '../records/index.ts';
import { type IndexShape, quote } from '../sql/index.ts';
import { groupColumns, resourceColumns, resourcePaths } from '../tables/index.ts';
import type { Change } from './changes/change.ts';
import { applyChanges } from './changes/index.ts';
import { isConstraint } from './changes/indexes.ts';
import type { Model } from './model.ts';
import { isSame, isSameIndex, type Renames, withRenames } from './stored-model.ts';
import { linkOf } from './stored-types.ts';

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
  const linkTables: Record<string, string> = {};
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
    Object.assign(linkTables, renamedLinkTables(definition, newNames, before));
  }
  if (problems.length > 0) throw new UserError(problems.join('\n'));
  const allTables = { ...tables, ...linkTables };
  const renamed = {
    ...(Object.keys(allTables).length > 0 && { tables: allTables }),
    ...(Object.keys(columns).length > 0 && { columns }),
  };
  const shapes = withRenames(before, renamed);
  const parts = [...Object.values(allTables), ...Object.keys(columns)].flatMap((table, index, all) =>
    all.indexOf(table) === index ? renamedParts(table, shapes[table], after[table]) : [],
  );
  const changes = [
    ...Object.entries(tables).flatMap(([from, to]) => tableChanges(from, to, shapes[to], model)),
    ...Object.entries(linkTables).map(
      ([table, to]): Change => ({ kind: 'renameTable', table, to, triggers: [] }),
    ),
    ...Object.entries(columns).flatMap(([table, names]) =>
      Object.entries(names).map(([column, to]): Change => ({ kind: 'renameColumn', table, column, to })),
    ),
    ...definitions.flatMap((definition) =>
      sequenceChanges(definition, tables, columns[definition.name] ?? {}),
    ),
    ...parts,
  ];
  return { renamed, tables: applyChanges(shapes, parts), changes };
}

/** Maps old names of renamed columns to new names. Adds each old name that does not exist to `problems`. */
function renamedColumns(
  { fields, retired, file }: ResourceDefinition,
  shape: TableShape,
  problems: string[],
): Record<string, string> {
  const newNames: Record<string, string> = {};
  const isStored = (name: string) => Object.hasOwn(shape.columns, name);
  const current = new Set([...fields, ...retired].flatMap(fieldColumns).map(({ name }) => name));
  for (const field of [...fields, ...retired]) {
    const { name, renamedFrom: from, alternatives } = field;
    const [first] = fieldColumns(field);
    if (alternatives !== undefined) {
      const renamed = renamedAlternatives(field, shape, current);
      Object.assign(newNames, renamed);
      const isKnown = Object.keys(renamed).length > 0 || alternatives.some((link) => isStored(link.name));
      if (from !== undefined && !isKnown)
        problems.push(`${field.location}  renamed_from: no field in ${file} has been named "${from}"`);
      continue;
    }
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

/**
 * Maps old names of the columns of a reference to one of several resources to new names. The names also change if a
 * resource gets another name, and if the field used to refer to a single resource.
 * @param current names of the columns of all fields
 */
function renamedAlternatives(
  { name, renamedFrom, alternatives = [] }: Field,
  shape: TableShape,
  current: ReadonlySet<string>,
): Record<string, string> {
  const names = [name, ...(renamedFrom === undefined ? [] : [renamedFrom])];
  const isAlternative = (column: string) =>
    names.some((former) => column.startsWith(`${former}_`)) &&
    Object.values(shape.checks).some(
      ({ condition }) => condition.startsWith('num_nonnulls(') && condition.includes(quote(column)),
    );
  return Object.fromEntries(
    alternatives.flatMap((link) => {
      if (Object.hasOwn(shape.columns, link.name)) return [];
      const former = Object.keys(shape.columns).find(
        (column) =>
          linkOf(shape, column)?.to === link.to &&
          !current.has(column) &&
          (names.includes(column) || isAlternative(column)),
      );
      return former === undefined ? [] : [[former, link.name]];
    }),
  );
}

/**
 * Maps old names of link tables to new names, which contain the names of the resource and the field.
 * @param columns maps old names of the resource's renamed columns to new names
 */
function renamedLinkTables(
  { name: resource, renamedFrom = resource, fields, retired }: ResourceDefinition,
  columns: Readonly<Record<string, string>>,
  before: TableShapes,
): Record<string, string> {
  const formerNames = new Map(Object.entries(columns).map(([from, to]) => [to, from]));
  const names = [...fields, ...retired]
    .filter((field) => refersToMany(field) && field.aliasOf === undefined)
    .map(
      ({ name }) =>
        [
          [renamedFrom, resource].map((table) => linkTable(table, formerNames.get(name) ?? name)),
          linkTable(resource, name),
        ] as const,
    );
  return Object.fromEntries(
    names.flatMap(([formerTables, to]) => {
      const from = formerTables.find((table) => table !== to && Object.hasOwn(before, table));
      return from === undefined || Object.hasOwn(before, to) ? [] : [[from, to]];
    }),
  );
}

/** Returns changes that rename a table and update rows that contain the resource's name. */
function tableChanges(
  from: string,
  to: string,
  shape: TableShape | undefined,
  { resources, tables }: Model,
): Change[] {
  const groups = fieldGroups(resources.find(({ name }) => name === to)?.definition ?? { fields: [] });
  const updates = tables.flatMap((entity): Change[] => {
    const table = entity.meta.tableName;
    return [
      ...resourceColumns(entity).map(
        (column) => ({ kind: 'renameValues', table, column, from, to }) as const,
      ),
      ...groupColumns(entity).flatMap((column) =>
        groups.map(
          (group) =>
            ({
              kind: 'renameValues',
              ...{ table, column, from: groupObject(from, group), to: groupObject(to, group) },
            }) as const,
        ),
      ),
      ...resourcePaths(entity).map(
        (column) => ({ kind: 'renameValues', table, column, from, to, paths: true }) as const,
      ),
    ];
  });
  const triggers = Object.keys(shape?.triggers ?? {});
  return [{ kind: 'renameTable', table: from, to, triggers }, ...updates];
}

/**
 * Returns changes that rename the sequences of a renamed resource or field.
 * @param tables maps old names of renamed resources to new names
 * @param columns maps old names of the resource's renamed columns to new names
 */
function sequenceChanges(
  definition: ResourceDefinition,
  tables: Readonly<Record<string, string>>,
  columns: Readonly<Record<string, string>>,
): Change[] {
  const formerName = (names: Readonly<Record<string, string>>, name: string) =>
    Object.entries(names).find(([, to]) => to === name)?.[0] ?? name;
  const resource = formerName(tables, definition.name);
  return sequenceFields(definition).flatMap(({ name }): Change[] => {
    const [from, to] = [
      sequenceName(resource, formerName(columns, name)),
      sequenceName(definition.name, name),
    ];
    return from === to ? [] : [{ kind: 'renameValues', table: 'crm_sequences', column: 'field', from, to }];
  });
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
