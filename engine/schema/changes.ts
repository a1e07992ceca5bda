import { type DatabaseConfig, openModel, type TableShape, type TableShapes } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { UserError } from '../errors.ts';
import { columnsOf, type FieldType, fieldTypes } from '../fields/index.ts';
import { suggestion } from '../yaml/index.ts';
import { entitiesOf, type Model } from './model.ts';
import { renaming } from './renames.ts';
import { type ModelPatch, patchBetween, storedTables, withRenames } from './stored.ts';

/** What the definitions change since the last migration. */
export interface ModelChange {
  readonly statements: readonly string[];
  /** For the file next to the migration. */
  readonly patch: ModelPatch;
}

/** What is meant by changes that could lose values. */
export interface Intent {
  /** Tables, and columns as `leads.fax`, whose values are dropped. */
  readonly drop?: readonly string[];
}

/**
 * The statements that bring the tables of the last migration to those of the definitions. Needs no database.
 * @throws UserError for what is removed and neither retired nor dropped, a `renamed_from` that names nothing, and a
 *   reference that would point to other records
 */
export async function changeOf(
  config: DatabaseConfig,
  model: Model,
  { drop = [] }: Intent = {},
): Promise<ModelChange> {
  const generator = await openModel(config, entitiesOf(model));
  const [before, after] = [storedTables(config), generator.shapes()];
  const { renamed, tables, statements } = renaming(before, after, model);
  assertReferencesKept(tables, definitionsOf(model));
  assertNothingLost(tables, after, model, drop);
  assertTypesKept(tables, after);
  return {
    statements: [...statements, ...generator.statementsFrom(tables)],
    patch: {
      ...(Object.keys(renamed).length > 0 && { renamed }),
      tables: patchBetween(withRenames(before, renamed), after),
    },
  };
}

/**
 * Checks that every reference still points to the same resource, and that no field with other values has become one.
 * @throws UserError with the place of each
 */
export function assertReferencesStay(config: DatabaseConfig, model: Model): void {
  const stored = storedTables(config);
  assertReferencesKept(renaming(stored, {}, model).tables, definitionsOf(model));
}

const definitionsOf = ({ resources }: Model) => resources.map(({ definition }) => definition);
const withoutSchema = (table: string): string => table.slice(table.lastIndexOf('.') + 1);

function assertReferencesKept(stored: TableShapes, definitions: readonly ResourceDefinition[]): void {
  const problems = definitions.flatMap(({ name, fields, retired }) => {
    const table = stored[name];
    if (table === undefined) return [];
    return [...fields, ...retired]
      .filter((field) => field.to !== undefined && Object.hasOwn(table.columns, field.name))
      .flatMap((field) => {
        const key = Object.values(table.foreignKeys).find(({ columnNames }) =>
          (columnNames as readonly string[]).includes(field.name),
        );
        const target = withoutSchema(String(key?.referencedTableName ?? ''));
        if (target === field.to) return [];
        const stores = target === '' ? 'stores values that refer to nothing' : `refers to ${target}`;
        const are = target === '' ? 'values' : `ids of ${target}`;
        return [
          `${field.place}  "${field.name}" ${stores} so far and cannot refer to ${field.to}: the stored ${are} would point at ${field.to} that have nothing to do with them. Give the new reference a field of its own`,
        ];
      });
  });
  if (problems.length > 0) throw new UserError(problems.join('\n'));
}

/** @throws UserError naming every column whose values would have to be converted */
function assertTypesKept(before: TableShapes, after: TableShapes): void {
  const changed = Object.entries(before).flatMap(([table, { columns }]) =>
    Object.entries(columns).flatMap(([name, { type }]) => {
      const now = after[table]?.columns[name]?.type;
      return now === undefined || now === type ? [] : [`${table}.${name} is stored as ${type}, not ${now}`];
    }),
  );
  if (changed.length === 0) return;
  throw new UserError(`${changed.join('\n')}\nGive the other type a field of its own. Nothing was written`);
}

/** Something stored that the definitions have no more. */
interface Removed {
  /** As `--allow-drop` names it. */
  readonly name: string;
  readonly text: string;
}

/** Whether a column only completes another one: the offset of a timestamp. */
const isSecond = (column: string, all: readonly string[]): boolean =>
  column.endsWith('_offset') && all.includes(column.slice(0, -'_offset'.length));

/** @throws UserError listing what is removed and how to say what is meant; also for a drop of what is not removed */
function assertNothingLost(
  before: TableShapes,
  after: TableShapes,
  model: Model,
  drop: readonly string[],
): void {
  const definitions = new Map(definitionsOf(model).map((each) => [each.name, each]));
  const added = Object.keys(after).filter((name) => !Object.hasOwn(before, name) && definitions.has(name));
  const removed = Object.entries(before).flatMap(([name, shape]): Removed[] => {
    const now = after[name];
    if (now !== undefined) return removedColumns(name, shape, now, definitions.get(name));
    const [candidate] = added;
    const rename =
      candidate === undefined
        ? `the file with ${name} put back`
        : `renamed_from: ${name}    in the file of ${candidate}`;
    return [
      {
        name,
        text: `the resource "${name}" is gone, and with it all its records. Choose one:
  ${rename}: its records stay
  --allow-drop ${name}    with this command: its records are dropped`,
      },
    ];
  });
  const known = removed.map(({ name }) => name);
  for (const name of drop) {
    if (known.includes(name)) continue;
    throw new UserError(`--allow-drop ${name}: nothing of this name is removed${suggestion(name, known)}`);
  }
  const refused = removed.filter(({ name }) => !drop.includes(name));
  if (refused.length === 0) return;
  throw new UserError(`${refused.map(({ text }) => text).join('\n')}\nNothing was written`);
}

function removedColumns(
  table: string,
  before: TableShape,
  after: TableShape,
  definition: ResourceDefinition | undefined,
): Removed[] {
  const all = Object.keys(before.columns);
  const gone = all.filter((column) => !Object.hasOwn(after.columns, column) && !isSecond(column, all));
  const added = definition?.fields.filter((field) =>
    columnsOf(field).some(({ name }) => Object.hasOwn(after.columns, name) && !all.includes(name)),
  );
  return gone.map((column) => {
    const name = `${table}.${column}`;
    const file = definition?.file ?? '';
    const type = typeOf(before, column, table);
    const names = (added ?? []).map((field) => `"${field.name}"`).join(' or ');
    const rename =
      names === '' ? '' : `\n  renamed_from: ${column}    in ${file} at ${names}: if that is its new name`;
    return {
      name,
      text: `${file === '' ? '' : `${file}  `}"${column}" is gone, and with it the values of ${name}. Choose one:
  ${column}: { ${type}, retired: true }    in ${file}: the API has it no more, its values stay
  --allow-drop ${name}    with this command: its values are dropped${rename}`,
    };
  });
}

/** The YAML of a type that is stored in a column. */
function typeOf({ columns, foreignKeys }: TableShape, column: string, table: string): string {
  const key = Object.values(foreignKeys).find(
    ({ columnNames, localTableName }) =>
      withoutSchema(String(localTableName)) === table && (columnNames as readonly string[]).at(-1) === column,
  );
  if (key !== undefined) {
    return `type: reference, to: ${withoutSchema(String(key.referencedTableName))}, nullable: true`;
  }
  const { type, nullable } = columns[column] ?? {};
  const [name = 'string'] =
    Object.entries<FieldType>(fieldTypes).find(([, each]) => {
      const stored = each.columns?.({ readOnly: true })[0]?.type;
      return stored !== undefined && String(type).startsWith(stored);
    }) ?? [];
  return `type: ${name}${nullable === true ? ', nullable: true' : ''}`;
}
