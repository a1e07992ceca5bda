import { type DatabaseConfig, openModel, type TableShape, type TableShapes } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { UserError } from '../errors.ts';
import { fieldColumns } from '../fields/index.ts';
import { suggestion } from '../yaml/index.ts';
import { type ApiChange, apiChanges, apiOf } from './api.ts';
import { type ConversionCheck, conversionChecks } from './conversion-checks.ts';
import { assertAddedOnce } from './merged.ts';
import { entitiesOf, type Model } from './model.ts';
import { renaming } from './renames.ts';
import { apiPatch, type ModelPatch, patchBetween, storedModel, withRenames } from './stored.ts';
import { linkOf, storedType } from './stored-types.ts';

/** The changes of the definitions since the last migration. */
export interface ModelChange {
  readonly statements: readonly string[];
  /** Checks for values that are not preserved. */
  readonly checks: readonly ConversionCheck[];
  /** Changes that callers can see. */
  readonly api: readonly ApiChange[];
  /** Unconfirmed drops, each with its alternatives. No migration can be written while there are any. */
  readonly undecided: readonly string[];
  /** The patch stored next to the migration, or undefined if nothing changes. */
  readonly patch: ModelPatch | undefined;
}

/** Confirmations and replacements for changes that could lose values. */
export interface Intent {
  /** Tables, and columns such as `leads.fax`, to drop. */
  readonly drop?: readonly string[];
  /** SQL of a text that replaces values that do not fit, by field, for example `leads.score`. */
  readonly using?: ReadonlyMap<string, string>;
}

/**
 * Returns the statements that migrate the tables of the last migration to the definitions. Does not need a database.
 * @throws UserError for a column that two migrations add, a `renamed_from` or a drop that names nothing, and a reference that would point to other records
 */
export async function changeOf(
  config: DatabaseConfig,
  model: Model,
  { drop = [], using = new Map() }: Intent = {},
): Promise<ModelChange> {
  assertAddedOnce(config);
  const generator = await openModel(config, entitiesOf(model));
  const [stored, after] = [storedModel(config), generator.shapes()];
  const { tables: before, api } = stored;
  const definitions = definitionsOf(model);
  const { renamed, tables: named, statements } = renaming(before, after, model);
  assertReferencesKept(named, definitions);
  const undecided = lossesOf(named, after, model, drop);
  assertKnown(using, definitions);
  const {
    statements: converting,
    checks,
    tables,
  } = conversionChecks({ tables: named, renamed, api }, after, definitions, using);
  const now = apiOf(definitions);
  const patch: ModelPatch = {
    ...(Object.keys(renamed).length > 0 && { renamed }),
    tables: patchBetween(withRenames(before, renamed), after),
    api: apiPatch(api, now),
  };
  const isSame = Object.keys(patch.tables).length === 0 && Object.keys(patch.api ?? {}).length === 0;
  return {
    statements: [...statements, ...converting, ...generator.statementsFrom(tables)],
    checks,
    undecided,
    api: apiChanges(api, now, definitions),
    patch: isSame ? undefined : patch,
  };
}

/** @throws UserError for an unknown field */
function assertKnown(using: ReadonlyMap<string, string>, definitions: readonly ResourceDefinition[]): void {
  const known = definitions.flatMap(({ name, fields }) => fields.map((field) => `${name}.${field.name}`));
  for (const name of using.keys()) {
    if (!known.includes(name)) throw new UserError(`unknown field "${name}"${suggestion(name, known)}`);
  }
}

/**
 * Checks that every reference still points to the same resource.
 * @throws UserError with the location of each changed reference
 */
export function assertReferencesStay(config: DatabaseConfig, model: Model): void {
  const { tables } = storedModel(config);
  assertReferencesKept(renaming(tables, {}, model).tables, definitionsOf(model));
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
        // Values of other types are converted if the record exists.
        if (target === field.to || target === undefined) return [];
        return [
          `${field.location}  "${field.name}" refers to ${target} and cannot refer to ${field.to}, because the stored IDs of ${target} would point to unrelated ${field.to}. Declare a new field for the new reference.`,
        ];
      });
  });
  if (problems.length > 0) throw new UserError(problems.join('\n'));
}

/** A stored table or column that the definitions no longer have. */
interface Removed {
  /** The name for `--allow-drop`. */
  readonly name: string;
  readonly text: string;
}

/** Whether a column is the offset of a timestamp. */
const isSecond = (column: string, all: readonly string[]): boolean =>
  column.endsWith('_offset') && all.includes(column.slice(0, -'_offset'.length));

/** Returns the unconfirmed drops. @throws UserError if `drop` names anything that was not removed */
function lossesOf(before: TableShapes, after: TableShapes, model: Model, drop: readonly string[]): string[] {
  const definitions = new Map(definitionsOf(model).map((each) => [each.name, each]));
  const added = Object.keys(after).filter((name) => !Object.hasOwn(before, name) && definitions.has(name));
  const removed = Object.entries(before).flatMap(([name, shape]): Removed[] => {
    const now = after[name];
    if (now !== undefined) return removedColumns(name, shape, now, definitions.get(name));
    const [candidate] = added;
    const rename =
      candidate === undefined
        ? `restore the file with ${name}`
        : `renamed_from: ${name}    in the file of ${candidate}`;
    return [
      {
        name,
        text: `the resource "${name}" was removed with all its records. Choose one:
  ${rename}: keep its records
  --allow-drop ${name}    with this command: drop its records`,
      },
    ];
  });
  const known = removed.map(({ name }) => name);
  for (const name of drop) {
    if (known.includes(name)) continue;
    throw new UserError(
      `--allow-drop ${name}: no removed field or resource has this name${suggestion(name, known)}`,
    );
  }
  return removed.filter(({ name }) => !drop.includes(name)).map(({ text }) => text);
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
    fieldColumns(field).some(({ name }) => Object.hasOwn(after.columns, name) && !all.includes(name)),
  );
  return gone.map((column) => {
    const name = `${table}.${column}`;
    const file = definition?.file ?? '';
    const type = typeOf(before, column);
    const names = (added ?? []).map((field) => `"${field.name}"`).join(' or ');
    const rename =
      names === '' ? '' : `\n  renamed_from: ${column}    in ${file} at ${names}: rename the field`;
    return {
      name,
      text: `${file === '' ? '' : `${file}  `}"${column}" was removed with the values of ${name}. Choose one:
  ${column}: { ${type}, retired: true }    in ${file}: remove it from the API and keep its values
  --allow-drop ${name}    with this command: drop its values${rename}`,
    };
  });
}

/** Returns the YAML of a column's stored type. */
function typeOf(shape: TableShape, column: string): string {
  const link = linkOf(shape, column);
  if (link !== undefined) return `type: reference, to: ${link.to}, nullable: true`;
  const isNullable = shape.columns[column]?.nullable === true;
  return `type: ${storedType(shape, column)}${isNullable ? ', nullable: true' : ''}`;
}
