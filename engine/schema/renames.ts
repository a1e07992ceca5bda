import type { TableShape, TableShapes } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { UserError } from '../errors.ts';
import { fieldColumns } from '../fields/index.ts';
import { literal, quote } from '../sql/index.ts';
import { resourceColumns, resourcePaths } from '../tables/index.ts';
import type { Model } from './model.ts';
import { type Renames, withRenames } from './stored.ts';

/** Renames that are declared but not migrated yet. */
export interface PendingRenames {
  readonly renamed: Renames;
  readonly statements: readonly string[];
  /** The tables with their new names. */
  readonly tables: TableShapes;
}

/**
 * Returns the statements that apply names declared with `renamed_from` and not migrated yet.
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
  const statements = [
    ...Object.entries(tables).flatMap(([from, to]) => tableStatements(from, to, shapes[to], model)),
    ...Object.entries(columns).flatMap(([table, names]) =>
      Object.entries(names).map(
        ([from, to]) => `alter table ${quote(table)} rename column ${quote(from)} to ${quote(to)};`,
      ),
    ),
  ];
  const changedTables = new Set([...Object.values(tables), ...Object.keys(columns)]);
  const parts = renameParts(shapes, after, changedTables);
  return { renamed, tables: parts.tables, statements: [...statements, ...parts.statements] };
}

/**
 * Returns the new names of a resource's renamed columns, by old name. Adds to `problems` if an old name does not exist.
 */
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

/** Returns statements that rename a table and its trigger functions, and update rows that store the resource's name. */
function tableStatements(
  from: string,
  to: string,
  shape: TableShape | undefined,
  { tables }: Model,
): string[] {
  const triggers = Object.keys(shape?.triggers ?? {}).map(
    (trigger) =>
      `alter function ${quote(`${from}_${trigger}_fn`)}() rename to ${quote(`${to}_${trigger}_fn`)};`,
  );
  const updates = tables.flatMap((table) => {
    const update = (column: string, value: string, name: string) =>
      `update ${quote(table.meta.tableName)} set ${quote(column)} = ${value} where ${name} = ${literal(from)};`;
    return [
      ...resourceColumns(table).map((column) => update(column, literal(to), quote(column))),
      ...resourcePaths(table).map((path) =>
        update(
          path,
          `${literal(to)} || substr(${quote(path)}, ${from.length + 1})`,
          `split_part(${quote(path)}, '/', 1)`,
        ),
      ),
    ];
  });
  return [`alter table ${quote(from)} rename to ${quote(to)};`, ...triggers, ...updates];
}

/** Renames indexes and constraints whose definitions differ only in their names. */
function renameParts(
  before: TableShapes,
  after: TableShapes,
  changedTables: ReadonlySet<string>,
): { readonly tables: TableShapes; readonly statements: readonly string[] } {
  const statements: string[] = [];
  const tables: Record<string, TableShape> = { ...before };
  for (const table of changedTables) {
    const [current, target] = [before[table], after[table]];
    if (current === undefined || target === undefined) continue;
    const shape: Record<string, unknown> = { ...current };
    for (const section of ['indexes', 'foreignKeys'] as const) {
      const parts = { ...current[section] };
      for (const [name, part] of Object.entries(current[section])) {
        if (Object.hasOwn(target[section], name)) continue;
        const match = Object.entries(target[section]).find(
          ([newPartName, candidate]) =>
            !Object.hasOwn(parts, newPartName) &&
            withoutName(candidate, newPartName) === withoutName(part, name),
        );
        if (match === undefined) continue;
        const [to, newPart] = match;
        delete parts[name];
        parts[to] = newPart;
        const isConstraint = section === 'foreignKeys' || part.constraint === true;
        statements.push(
          isConstraint
            ? `alter table ${quote(table)} rename constraint ${quote(name)} to ${quote(to)};`
            : `alter index ${quote(name)} rename to ${quote(to)};`,
        );
      }
      shape[section] = parts;
    }
    tables[table] = shape as unknown as TableShape;
  }
  return { tables, statements };
}

const withoutName = (part: object, name: string): string =>
  JSON.stringify(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))).replaceAll(name, '');
