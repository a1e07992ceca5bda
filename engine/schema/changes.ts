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

/** What the definitions change since the last migration. */
export interface ModelChange {
  readonly statements: readonly string[];
  /** Values that do not stay as they are. */
  readonly checks: readonly ConversionCheck[];
  /** What callers notice. */
  readonly api: readonly ApiChange[];
  /** What would be dropped without being named, each with what to choose from: no migration may be written then. */
  readonly undecided: readonly string[];
  /** For the file next to the migration; undefined if nothing changes. */
  readonly patch: ModelPatch | undefined;
}

/** What is meant by changes that could lose values. */
export interface Intent {
  /** Tables, and columns as `leads.fax`, whose values are dropped. */
  readonly drop?: readonly string[];
  /** By fields as `leads.score`, SQL of a text for values that do not fit. */
  readonly using?: ReadonlyMap<string, string>;
}

/**
 * The statements that bring the tables of the last migration to those of the definitions. Needs no database.
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

/** @throws UserError for a field that there is not */
function assertKnown(using: ReadonlyMap<string, string>, definitions: readonly ResourceDefinition[]): void {
  const known = definitions.flatMap(({ name, fields }) => fields.map((field) => `${name}.${field.name}`));
  for (const name of using.keys()) {
    if (!known.includes(name)) throw new UserError(`there is no field ${name}${suggestion(name, known)}`);
  }
}

/**
 * Checks that every reference still points to the same resource.
 * @throws UserError with the place of each
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
        // Any other value becomes a reference where there is such a record.
        if (target === field.to || target === undefined) return [];
        return [
          `${field.place}  "${field.name}" refers to ${target} so far and cannot refer to ${field.to}: the stored ids of ${target} would point at ${field.to} that have nothing to do with them. Give the new reference a field of its own`,
        ];
      });
  });
  if (problems.length > 0) throw new UserError(problems.join('\n'));
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

/** What is removed and not named, with how to say what is meant. @throws UserError for a drop of what is not removed */
function lossesOf(before: TableShapes, after: TableShapes, model: Model, drop: readonly string[]): string[] {
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
      names === '' ? '' : `\n  renamed_from: ${column}    in ${file} at ${names}: if that is its new name`;
    return {
      name,
      text: `${file === '' ? '' : `${file}  `}"${column}" is gone, and with it the values of ${name}. Choose one:
  ${column}: { ${type}, retired: true }    in ${file}: the API has it no more, its values stay
  --allow-drop ${name}    with this command: its values are dropped${rename}`,
    };
  });
}

/** The YAML of the type that is stored in a column. */
function typeOf(shape: TableShape, column: string): string {
  const link = linkOf(shape, column);
  if (link !== undefined) return `type: reference, to: ${link.to}, nullable: true`;
  const isNullable = shape.columns[column]?.nullable === true;
  return `type: ${storedType(shape, column)}${isNullable ? ', nullable: true' : ''}`;
}
