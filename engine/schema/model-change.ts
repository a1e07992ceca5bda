import type { DatabaseConfig, TableShape, TableShapes } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { UserError } from '../errors.ts';
import {
  currencySuffix,
  type FieldTypeName,
  fieldColumns,
  firstColumn,
  isStoredRollup,
  linksOf,
  referenceName,
} from '../fields/index.ts';
import {
  combinedColumns,
  isLinkTable,
  linkTable,
  lockTriggers,
  rollupTrigger,
  storedRollups,
} from '../records/index.ts';
import { quote, trashedColumn } from '../sql/index.ts';
import { suggestion } from '../yaml/index.ts';
import { type Api, type ApiChange, type ApiField, apiChanges, apiOf } from './api.ts';
import type { Change } from './changes/change.ts';
import { applyChanges } from './changes/index.ts';
import { groupRetypes } from './changes/retype-columns.ts';
import { type ConversionCheck, conversionChecks } from './conversion-checks.ts';
import { difference } from './difference.ts';
import { assertMergeable } from './merged.ts';
import { type Model, shapesOf } from './model.ts';
import { pendingRenames } from './renames.ts';
import {
  apiPatch,
  isSame,
  type ModelPatch,
  patchBetween,
  type Renames,
  storedModel,
  withRenames,
} from './stored-model.ts';
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
 * @throws UserError if a migration repeats or contradicts an earlier one, if a `renamed_from` or drop names an unknown item,
 * or if a reference would point to unrelated records
 */
export async function changeOf(
  config: DatabaseConfig,
  model: Model,
  { drop = [], using = new Map() }: Intent = {},
): Promise<ModelChange> {
  await assertMergeable(config);
  const [stored, after] = [storedModel(config), await shapesOf(config, model)];
  const { tables: before, api } = stored;
  const definitions = definitionsOf(model);
  const { renamed, tables: renamedTables, changes: renames } = pendingRenames(before, after, model);
  assertReferencesKept(renamedTables, definitions);
  const undecided = undecidedDrops({ tables: renamedTables, api, renamed }, after, model, drop);
  assertFieldsExist(using, definitions);
  // Converted values must not meet previous rules.
  const drops = [...outdatedConstraints(renamedTables, after), ...outdatedTriggers(renamedTables, after)];
  const {
    guards,
    changes: conversions,
    checks,
    tables,
  } = conversionChecks(
    { tables: applyChanges(renamedTables, drops), renamed, api },
    after,
    definitions,
    using,
  );
  const newApi = apiOf(definitions);
  const ofTrash = trashChecks(renamedTables, after, renamed);
  const patch: ModelPatch = {
    ...(Object.keys(renamed).length > 0 && { renamed }),
    tables: patchBetween(withRenames(before, renamed), after),
    api: apiPatch(api, newApi),
  };
  const isUnchanged = Object.keys(patch.tables).length === 0 && Object.keys(patch.api ?? {}).length === 0;
  return {
    changes: groupRetypes([
      ...emptyTrashGuards(ofTrash),
      ...guards,
      ...renames,
      ...drops,
      ...conversions,
      ...difference(tables, after),
      ...recalculations(renamedTables, after, definitions),
    ]),
    renamed,
    checks: [...ofTrash, ...checks],
    undecided,
    api: apiChanges(api, newApi, definitions).map((change) => withStoredValues(change, renamedTables)),
    patch: isUnchanged ? undefined : patch,
  };
}

/** Returns a change whose text says that its field has stored values, if it adds a field that was retired. */
function withStoredValues(change: ApiChange, stored: TableShapes): ApiChange {
  const [table = '', field = ''] = change.name.split('.');
  return change.kind === 'added' && Object.hasOwn(stored[table]?.columns ?? {}, field)
    ? { ...change, text: 'is visible again, with its stored values' }
    : change;
}

/** Returns the names of tables that lose their trash. */
const withoutTrash = (before: TableShapes, after: TableShapes): readonly string[] =>
  Object.entries(before).flatMap(([table, { columns }]) => {
    const target = after[table];
    const loses =
      target !== undefined &&
      Object.hasOwn(columns, trashedColumn) &&
      !Object.hasOwn(target.columns, trashedColumn);
    return loses ? [table] : [];
  });

const notEmptyTrash = {
  says: 'is still in use',
  where: `${quote(trashedColumn)} is not null`,
};

/** Returns the changes that fail if a trash that is removed contains records. They run before tables are renamed. */
const emptyTrashGuards = (checks: readonly ConversionCheck[]): readonly Change[] =>
  checks.map(({ name, table }): Change => ({ kind: 'check', table, name, ...notEmptyTrash }));

/** Returns the checks for records in a trash that is removed. */
const trashChecks = (
  before: TableShapes,
  after: TableShapes,
  { tables = {} }: Renames,
): readonly ConversionCheck[] =>
  withoutTrash(before, after).map((table) => ({
    name: `${table}.trash`,
    ...notEmptyTrash,
    table: Object.entries(tables).find(([, to]) => to === table)?.[0] ?? table,
    exampleColumn: undefined,
    refuses: true,
  }));

/** Returns the changes that drop constraints whose conditions or columns change. */
function outdatedConstraints(before: TableShapes, after: TableShapes): readonly Change[] {
  return Object.entries(before).flatMap(([table, { checks, columns }]) => {
    const target = after[table];
    if (target === undefined) return [];
    const retyped = Object.entries(columns)
      .filter(([name, { type }]) => target.columns[name]?.type !== type)
      .map(([name]) => quote(name));
    return Object.entries(checks)
      .filter(
        ([name, check]) =>
          !isSame(check, target.checks[name]) || retyped.some((column) => check.condition.includes(column)),
      )
      .map(([name]): Change => ({ kind: 'dropConstraint', table, name }));
  });
}

/**
 * Returns the changes that drop triggers of rollups and locks that change. Until the new ones exist, the migration might update rows
 * whose columns have new names.
 */
const outdatedTriggers = (before: TableShapes, after: TableShapes): readonly Change[] =>
  Object.entries(before).flatMap(([table, { triggers }]) =>
    Object.entries(triggers)
      .filter(
        ([name, trigger]) =>
          (trigger.forEach === 'statement' || lockTriggers.includes(name)) &&
          after[table] !== undefined &&
          !isSame(trigger, after[table].triggers[name]),
      )
      .map(([name]): Change => ({ kind: 'dropTrigger', table, name })),
  );

/** Returns the changes that recalculate stored rollups that are new or combine other values. */
const recalculations = (
  before: TableShapes,
  after: TableShapes,
  definitions: readonly ResourceDefinition[],
): readonly Change[] =>
  definitions.flatMap((definition): Change[] => {
    const stored = before[definition.name];
    if (stored === undefined) return [];
    const { of, values } = storedRollups(definition, definitions, (field) => {
      const table = field.rollup?.of ?? '';
      const [previous, next] = [before[table], after[table]];
      const isConverted = combinedColumns(field).some(
        (name) => previous?.columns[name]?.type !== next?.columns[name]?.type,
      );
      return (
        isConverted ||
        !Object.hasOwn(stored.columns, field.name) ||
        !isSame(previous?.triggers[rollupTrigger], next?.triggers[rollupTrigger])
      );
    });
    return of.length === 0 ? [] : [{ kind: 'recalculate', table: definition.name, of, values }];
  });

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
      .flatMap(linksOf)
      .filter((field) => Object.hasOwn(table.columns, field.name))
      .flatMap((field) => {
        const links = stored[linkTable(name, field.name)];
        const link = links === undefined ? linkOf(table, field.name) : linkOf(links, 'target_id');
        const target = link?.to;
        // A value that was not a reference is converted if it is the ID of a record.
        if (target === field.to || target === undefined) return [];
        return [
          `${field.location}  "${referenceName(field)}" refers to ${target} and cannot refer to ${field.to}, because the stored IDs of ${target} would point to unrelated ${field.to}. Declare a new field for the new reference.`,
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

/** The model before a change, with renames applied to its tables. */
interface PreviousModel {
  readonly tables: TableShapes;
  readonly api: Api;
  readonly renamed: Renames;
}

/** Returns the previous version of a field in the API, or undefined if the API did not contain it. */
function previousField({ api, renamed }: PreviousModel, table: string, column: string): ApiField | undefined {
  const formerName = (names: Readonly<Record<string, string>> = {}, name: string) =>
    Object.entries(names).find(([, to]) => to === name)?.[0] ?? name;
  return api[formerName(renamed.tables, table)]?.fields[formerName(renamed.columns?.[table], column)];
}

/** Returns whether a table belongs to a module. The names of resources cannot contain this prefix. */
const isModuleTable = (table: string): boolean => table.startsWith('crm_');

/** Returns the unconfirmed drops. @throws UserError if `drop` contains a name that was not removed */
function undecidedDrops(
  previous: PreviousModel,
  after: TableShapes,
  model: Model,
  drop: readonly string[],
): string[] {
  const { tables: before } = previous;
  const definitions = new Map(definitionsOf(model).map((definition) => [definition.name, definition]));
  const addedTables = Object.keys(after).filter(
    (name) => !Object.hasOwn(before, name) && definitions.has(name),
  );
  const removed = Object.keys(before).flatMap((name): RemovedItem[] => {
    // A link table is dropped together with its field.
    if (isLinkTable(name)) return [];
    const current = after[name];
    if (current !== undefined) return removedColumns(name, previous, current, definitions.get(name));
    if (isModuleTable(name)) {
      const text = `the table "${name}" was removed, so its rows would be dropped. Choose one:
  restore the module with ${name} in config.yaml: keep its rows
  --allow-drop ${name}    with this command: drop its rows`;
      return [{ name, text }];
    }
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
      `--allow-drop ${name}: no removed field, resource or table has this name${suggestion(name, names)}`,
    );
  }
  return removed.filter(({ name }) => !drop.includes(name)).map(({ text }) => text);
}

function removedColumns(
  table: string,
  previous: PreviousModel,
  after: TableShape,
  definition: ResourceDefinition | undefined,
): RemovedItem[] {
  const { tables } = previous;
  const before = tables[table];
  if (before === undefined) return [];
  const columns = Object.keys(before.columns);
  const removed = columns.filter(
    (column) =>
      // Dropping a trash requires that it is empty, so no value can be lost.
      column !== trashedColumn &&
      !Object.hasOwn(after.columns, column) &&
      // The values of a rollup can be calculated again.
      previousField(previous, table, column)?.rollup === undefined &&
      firstColumn(column, columns) === column,
  );
  const addedFields = definition?.fields.filter((field) =>
    fieldColumns(field).some(({ name }) => Object.hasOwn(after.columns, name) && !columns.includes(name)),
  );
  const replaced = (definition?.fields ?? []).filter((field) => {
    const former = previousField(previous, table, field.name);
    return (
      isStoredRollup(field) &&
      columns.includes(field.name) &&
      former !== undefined &&
      former.rollup === undefined
    );
  });
  const items = replaced.map((field): RemovedItem => {
    const name = `${table}.${field.name}`;
    return {
      name,
      text: `${field.location}  "${field.name}" is now a stored rollup, so the values of ${name} would be replaced. Choose one:
  another name for the rollup: keep the values
  --allow-drop ${name}    with this command: replace its values`,
    };
  });
  const drops = removed.map((column) => {
    const name = `${table}.${column}`;
    if (isModuleTable(table)) {
      const text = `the column "${column}" was removed, so the values of ${name} would be dropped. Choose one:
  restore "${column}" in the module with ${table}: keep the values
  --allow-drop ${name}    with this command: drop its values`;
      return { name, text };
    }
    const file = definition?.file ?? '';
    const former = previousField(previous, table, column);
    const type = `${typeOf(before, column, tables[linkTable(table, column)], former)}${groupOf(former)}`;
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
  return [...drops, ...items];
}

/** Returns the YAML for the group of a field, so that other callers cannot see its values if it reappears. */
const groupOf = (field: ApiField | undefined): string =>
  field?.group === undefined ? '' : `, group: ${field.group}`;

/** Types that share a column type, so that the column does not identify the type. */
const textTypes: readonly string[] = ['text', 'string'] satisfies readonly FieldTypeName[];

/**
 * Returns the YAML for a column's stored type.
 * @param links the link table, if the column is a list of references
 * @param field the field before it was removed, if it is known
 */
function typeOf(
  shape: TableShape,
  column: string,
  links: TableShape | undefined,
  field: ApiField | undefined,
): string {
  if (links !== undefined) return `type: references, to: ${linkOf(links, 'target_id')?.to}`;
  const link = linkOf(shape, column);
  if (link !== undefined) return `type: reference, to: ${link.to}, nullable: true`;
  const isNullable = shape.columns[column]?.nullable === true;
  const elements: Readonly<Record<string, string>> = { 'integer[]': 'integer', 'numeric[]': 'number' };
  const of = elements[String(shape.columns[column]?.type)];
  if (of !== undefined) return `type: list, of: ${of}`;
  if (Object.hasOwn(shape.columns, `${column}${currencySuffix}`))
    return `type: money, currency: any${isNullable ? ', nullable: true' : ''}`;
  if (field?.currency !== undefined)
    return `type: money, currency: ${field.currency}${isNullable ? ', nullable: true' : ''}`;
  const type = field !== undefined && textTypes.includes(field.type) ? field.type : storedType(shape, column);
  return `type: ${type}${isNullable ? ', nullable: true' : ''}`;
}
