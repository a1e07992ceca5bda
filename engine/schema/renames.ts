import type { TableShape, TableShapes } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { UserError } from '../errors.ts';
import { fieldColumns } from '../fields/index.ts';
import { literal, quote } from '../sql/index.ts';
import { resourceColumns, resourcePaths } from '../tables/index.ts';
import type { Model } from './model.ts';
import { type Renames, withRenames } from './stored.ts';

/** Declared new names that the tables do not have yet. */
export interface Renaming {
  readonly renamed: Renames;
  readonly statements: readonly string[];
  /** The tables with their new names. */
  readonly tables: TableShapes;
}

/**
 * The statements for names that definitions declare with `renamed_from` and that the tables do not have yet.
 * @param after the tables of the model, for the names of what belongs to renamed ones
 * @throws UserError with the place of each `renamed_from` that names nothing
 */
export function renaming(before: TableShapes, after: TableShapes, model: Model): Renaming {
  const definitions = model.resources.map(({ definition }) => definition);
  const tables: Record<string, string> = {};
  const problems: string[] = [];
  for (const { name, file, renamedFrom: from } of definitions) {
    if (from === undefined || Object.hasOwn(before, name)) continue;
    if (Object.hasOwn(before, from)) tables[from] = name;
    else problems.push(`${file}  renamed_from: there has been no resource "${from}"`);
  }
  const named = withRenames(before, { tables });
  const columns: Record<string, Readonly<Record<string, string>>> = {};
  for (const definition of definitions) {
    const stored = named[definition.name];
    if (stored === undefined) continue;
    const found = renamedColumns(definition, stored, problems);
    if (Object.keys(found).length > 0) columns[definition.name] = found;
  }
  if (problems.length > 0) throw new UserError(problems.join('\n'));
  const renamed = {
    ...(Object.keys(tables).length > 0 && { tables }),
    ...(Object.keys(columns).length > 0 && { columns }),
  };
  const moved = withRenames(before, renamed);
  const statements = [
    ...Object.entries(tables).flatMap(([from, to]) => tableStatements(from, to, moved[to], model)),
    ...Object.entries(columns).flatMap(([table, names]) =>
      Object.entries(names).map(
        ([from, to]) => `alter table ${quote(table)} rename column ${quote(from)} to ${quote(to)};`,
      ),
    ),
  ];
  const touched = new Set([...Object.values(tables), ...Object.keys(columns)]);
  const belongings = withNamesOf(moved, after, touched);
  return { renamed, tables: belongings.tables, statements: [...statements, ...belongings.statements] };
}

/** The columns of a resource that get another name. */
function renamedColumns(
  { fields, retired, file }: ResourceDefinition,
  { columns }: TableShape,
  problems: string[],
): Record<string, string> {
  const found: Record<string, string> = {};
  const isStored = (name: string) => Object.hasOwn(columns, name);
  for (const field of [...fields, ...retired]) {
    const { name, renamedFrom: from } = field;
    const [first] = fieldColumns(field);
    if (from === undefined || first === undefined || field.aliasOf !== undefined || isStored(name)) continue;
    if (!isStored(from)) {
      problems.push(`${field.location}  renamed_from: there has been no field "${from}" in ${file}`);
      continue;
    }
    for (const { suffix } of fieldColumns(field)) {
      if (isStored(`${from}${suffix}`)) found[`${from}${suffix}`] = `${name}${suffix}`;
    }
  }
  return found;
}

/** A table, what PostgreSQL has named after it, and what is stored about its records under its name. */
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
  const named = tables.flatMap((table) => {
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
  return [`alter table ${quote(from)} rename to ${quote(to)};`, ...triggers, ...named];
}

/** Renames indexes and constraints that are the same but for their names. */
function withNamesOf(
  before: TableShapes,
  after: TableShapes,
  touched: ReadonlySet<string>,
): { readonly tables: TableShapes; readonly statements: readonly string[] } {
  const statements: string[] = [];
  const tables: Record<string, TableShape> = { ...before };
  for (const table of touched) {
    const [old, wanted] = [before[table], after[table]];
    if (old === undefined || wanted === undefined) continue;
    const shape: Record<string, unknown> = { ...old };
    for (const section of ['indexes', 'foreignKeys'] as const) {
      const parts = { ...old[section] };
      for (const [name, part] of Object.entries(old[section])) {
        if (Object.hasOwn(wanted[section], name)) continue;
        const same = Object.entries(wanted[section]).find(
          ([other, each]) => !Object.hasOwn(parts, other) && nameless(each, other) === nameless(part, name),
        );
        if (same === undefined) continue;
        const [to, renamed] = same;
        delete parts[name];
        parts[to] = renamed;
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

const nameless = (part: object, name: string): string =>
  JSON.stringify(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))).replaceAll(name, '');
