import type { DatabaseConfig, TableShape, TableShapes } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { UserError } from '../errors.ts';
import { fieldColumns, firstColumn } from '../fields/index.ts';
import { suggestion } from '../yaml/index.ts';
import { type ApiChange, apiChanges, apiOf } from './api.ts';
import type { Change } from './changes/change.ts';
import { groupRetypes } from './changes/retype-columns.ts';
import { type ConversionCheck, conversionChecks } from './conversion-checks.ts';
import { difference } from './difference.ts';
import { assertAddedOnce } from './merged.ts';
import { type Model, shapesOf } from './model.ts';
import { pendingRenames } from './renames.ts';
import { apiPatch, type ModelPatch, patchBetween, type Renames, storedModel, withRenames } from './stored.ts';
import { linkOf, storedType } from './stored-types.ts';

/** The changes to the definitions since the last migration. */
export interface ModelChange {
  readonly changes: readonly Change[];
  readonly renamed: Renames;
  /** Checks for values that would not be preserved. */
  readonly checks: readonly ConversionCheck[];
  /** Changes that are visible to callers. */
  readonly api: readonly ApiChange[];
  /** Unconfirmed drops, each with its alternatives. All must be resolved before a migration can be written. */
  readonly undecided: readonly string[];
  /** The patch stored next to the migration, or undefined if nothing changes. */
  readonly patch: ModelPatch | undefined;
}

/** Confirmations and replacements for changes that could lose values. */
export interface Intent {
  /** Tables and columns to drop, for example `leads` and `leads.fax`. */
  readonly drop?: readonly string[];
  /** SQL expressions of type text that replace invalid values, keyed by field, for example `leads.score`. */
  readonly using?: ReadonlyMap<string, string>;
}

/**
 * Returns the changes that migrate the tables from their state after the last migration to the definitions.
 * Does not need a database.
 * @throws UserError if two migrations add the same column, if a `renamed_from` or drop names an unknown item,
 * or if a reference would point to unrelated records
 */
export async function changeOf(
  config: DatabaseConfig,
  model: Model,
  { drop = [], using = new Map() }: Intent = {},
): Promise<ModelChange> {
  await assertAddedOnce(config);
  const [stored, after] = [storedModel(config), await shapesOf(config, model)];
  const { tables: before, api } = stored;
  const definitions = definitionsOf(model);
  const { renamed, tables: renamedTables, changes: renames } = pendingRenames(before, after, model);
  assertReferencesKept(renamedTables, definitions);
  const undecided = undecidedDrops(renamedTables, after, model, drop);
  assertFieldsExist(using, definitions);
  const {
    guards,
    changes: conversions,
    checks,
    tables,
  } = conversionChecks({ tables: renamedTables, renamed, api }, after, definitions, using);
  const newApi = apiOf(definitions);
  const patch: ModelPatch = {
    ...(Object.keys(renamed).length > 0 && { renamed }),
    tables: patchBetween(withRenames(before, renamed), after),
    api: apiPatch(api, newApi),
  };
  const isSame = Object.keys(patch.tables).length === 0 && Object.keys(patch.api ?? {}).length === 0;
  return {
    changes: groupRetypes([...guards, ...renames, ...conversions, ...difference(tables, after)]),
    renamed,
    checks,
    undecided,
    api: apiChanges(api, newApi, definitions),
    patch: isSame ? undefined : patch,
  };
}

/** Checks that all fields with replacement values exist. @throws UserError if one does not */
function assertFieldsExist(
  using: ReadonlyMap<string, string>,
  definitions: readonly ResourceDefinition[],
): void {
  const names = definitions.flatMap(({ name, fields }) => fields.map((field) => `${name}.${field.name}`));
  for (const name of using.keys()) {
    if (!names.includes(name)) throw new UserError(`unknown field "${name}"${suggestion(name, names)}`);
  }
}

/**
 * Checks that every reference still points to the same resource.
 * @throws UserError with the location of each reference whose target has changed
 */
export function assertReferencesStay(config: DatabaseConfig, model: Model): void {
  const { tables } = storedModel(config);
  assertReferencesKept(pendingRenames(tables, {}, model).tables, definitionsOf(model));
}

const definitionsOf = ({ resources }: Model) => resources.map(({ definition }) => definition);

function assertReferencesKept(stored: TableShapes, definitions: readonly ResourceDefinition[]): void {
  const problems = definitions.flatMap(({ name, fields, retired }) => {
    const table = stored[name];
    if (table === undefined) return [];
    return [...fields, ...retired]
      .filter((field) => field.to !== undefined && Object.hasOwn(table.columns, field.name))
      .flatMap((field) => {
        const target = linkOf(table, field.name)?.to;
        // A value that was not a reference is converted if it is the ID of a record.
        if (target === field.to || target === undefined) return [];
        return [
          `${field.location}  "${field.name}" refers to ${target} and cannot refer to ${field.to}, because the stored IDs of ${target} would point to unrelated ${field.to}. Declare a new field for the new reference.`,
        ];
      });
  });
  if (problems.length > 0) throw new UserError(problems.join('\n'));
}

/** A stored table or column that is missing from the definitions. */
interface RemovedItem {
  /** The name to pass to `--allow-drop`. */
  readonly name: string;
  readonly text: string;
}

/** Returns the unconfirmed drops. @throws UserError if `drop` contains a name that was not removed */
function undecidedDrops(
  before: TableShapes,
  after: TableShapes,
  model: Model,
  drop: readonly string[],
): string[] {
  const definitions = new Map(definitionsOf(model).map((definition) => [definition.name, definition]));
  const addedTables = Object.keys(after).filter(
    (name) => !Object.hasOwn(before, name) && definitions.has(name),
  );
  const removed = Object.entries(before).flatMap(([name, shape]): RemovedItem[] => {
    const current = after[name];
    if (current !== undefined) return removedColumns(name, shape, current, definitions.get(name));
    const [candidate] = addedTables;
    const rename =
      candidate === undefined
        ? `restore the file with ${name}`
        : `renamed_from: ${name}    in the file of ${candidate}`;
    return [
      {
        name,
        text: `the resource "${name}" was removed, so its records would be dropped. Choose one:
  ${rename}: keep its records
  --allow-drop ${name}    with this command: drop its records`,
      },
    ];
  });
  const names = removed.map(({ name }) => name);
  for (const name of drop) {
    if (names.includes(name)) continue;
    throw new UserError(
      `--allow-drop ${name}: no removed field or resource has this name${suggestion(name, names)}`,
    );
  }
  return removed.filter(({ name }) => !drop.includes(name)).map(({ text }) => text);
}

function removedColumns(
  table: string,
  before: TableShape,
  after: TableShape,
  definition: ResourceDefinition | undefined,
): RemovedItem[] {
  const columns = Object.keys(before.columns);
  const removed = columns.filter(
    (column) => !Object.hasOwn(after.columns, column) && firstColumn(column, columns) === column,
  );
  const addedFields = definition?.fields.filter((field) =>
    fieldColumns(field).some(({ name }) => Object.hasOwn(after.columns, name) && !columns.includes(name)),
  );
  return removed.map((column) => {
    const name = `${table}.${column}`;
    const file = definition?.file ?? '';
    const type = typeOf(before, column);
    const candidates = (addedFields ?? []).map((field) => `"${field.name}"`).join(' or ');
    const rename =
      candidates === '' ? '' : `\n  renamed_from: ${column}    in ${file} at ${candidates}: rename the field`;
    return {
      name,
      text: `${file === '' ? '' : `${file}  `}"${column}" was removed, so the values of ${name} would be dropped. Choose one:
  ${column}: { ${type}, retired: true }    in ${file}: remove it from the API and keep its values
  --allow-drop ${name}    with this command: drop its values${rename}`,
    };
  });
}

/** Returns the YAML for a column's stored type. */
function typeOf(shape: TableShape, column: string): string {
  const link = linkOf(shape, column);
  if (link !== undefined) return `type: reference, to: ${link.to}, nullable: true`;
  const isNullable = shape.columns[column]?.nullable === true;
  return `type: ${storedType(shape, column)}${isNullable ? ', nullable: true' : ''}`;
}
