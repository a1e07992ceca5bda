import type { EntitySchema } from '@mikro-orm/core';
import type { Resource } from '../compile/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { UserError } from '../errors.ts';
import { columnsOf } from '../fields/index.ts';

/** The part of migrations/snapshot.json that is checked: the tables after the last migration. */
export interface Snapshot {
  readonly tables: readonly {
    readonly name: string;
    readonly columns: Readonly<Record<string, unknown>>;
    readonly foreignKeys?: Readonly<
      Record<string, { readonly columnNames: readonly string[]; readonly referencedTableName: string }>
    >;
  }[];
}

/** The tables of modules begin with this prefix; their changes are reviewed by hand. */
const isPlatform = (table: string): boolean => table.startsWith('crm_');
const withoutSchema = (table: string): string => table.slice(table.lastIndexOf('.') + 1);

/**
 * Checks that every reference of the last migration still points to the same resource, and that no field with other
 * values has become a reference.
 * @throws UserError with the place of each
 */
export function assertReferencesKept(snapshot: Snapshot, definitions: readonly ResourceDefinition[]): void {
  const problems = definitions.flatMap(({ name, fields }) => {
    const table = snapshot.tables.find((each) => each.name === name);
    return fields
      .filter((field) => field.to !== undefined && table !== undefined && field.name in table.columns)
      .flatMap((field) => {
        const { referencedTableName = '' } =
          Object.values(table?.foreignKeys ?? {}).find((key) => key.columnNames.includes(field.name)) ?? {};
        const target = withoutSchema(referencedTableName);
        if (target === field.to) return [];
        const stored = target === '' ? 'stores values that refer to nothing' : `refers to ${target}`;
        const are = target === '' ? 'values' : `ids of ${target}`;
        return [
          `${field.place}  "${field.name}" ${stored} so far and cannot refer to ${field.to}: the stored ${are} would point at ${field.to} that have nothing to do with them. Give the new reference a field of its own`,
        ];
      });
  });
  if (problems.length > 0) throw new UserError(problems.join('\n'));
}

/** Removed fields or resources, and the new ones in the same place. */
interface Replaced {
  readonly removed: readonly string[];
  readonly added: readonly string[];
}

/** Removals next to additions, each as a message: removed values never become values of what is added. */
function replacements(snapshot: Snapshot, given: readonly Resource[]): Replaced[] {
  const definitions = given.map(({ definition }) => definition);
  const tables = new Map(
    snapshot.tables.filter(({ name }) => !isPlatform(name)).map((table) => [table.name, table]),
  );
  const resources: Replaced = {
    removed: [...tables.keys()]
      .filter((name) => !definitions.some((each) => each.name === name))
      .map((name) => `the resource "${name}" is gone: all its records would be dropped`),
    added: definitions
      .filter(({ name }) => !tables.has(name))
      .map(({ name, file }) => `${file}  the resource "${name}" is new: it would begin empty`),
  };
  const fields = given.flatMap((resource) => {
    const table = tables.get(resource.name);
    return table === undefined ? [] : [replacedFields(resource, Object.keys(table.columns))];
  });
  return [resources, ...fields].filter(({ removed, added }) => removed.length > 0 && added.length > 0);
}

function replacedFields(
  { definition: { file, fields }, entity }: Resource,
  before: readonly string[],
): Replaced {
  const columns = fields.map((field) => ({ field, names: columnsOf(field).map(({ name }) => name) }));
  const after = columnNames(entity);
  return {
    removed: before
      .filter((column) => !after.has(column) && !isSecond(column, before))
      .map((column) => `${file}  "${column}" is gone: its values would be dropped`),
    added: columns
      .filter(({ names }) => names.length > 0 && !names.some((name) => before.includes(name)))
      .map(({ field }) => `${field.place}  "${field.name}" is new: it would begin empty`),
  };
}

/** How a property of an entity names its columns; without that, a column has the property's name. */
interface Named {
  readonly fieldName?: string;
  readonly fieldNames?: readonly string[];
}

/** The columns of a table: those of fields, and others. */
const columnNames = ({ meta }: EntitySchema): ReadonlySet<string> =>
  new Set(
    Object.entries(meta.properties as Record<string, Named>).flatMap(
      ([name, { fieldName = name, fieldNames = [] }]) => [fieldName, ...fieldNames],
    ),
  );

/** Whether a column only completes another one: the offset of a timestamp. */
const isSecond = (column: string, all: readonly string[]): boolean =>
  column.endsWith('_offset') && all.includes(column.slice(0, -'_offset'.length));

/**
 * Checks that nothing is removed where something is added: that could be meant as a rename.
 * @throws UserError with both and the ways to declare the intent
 */
export function assertNothingReplaced(snapshot: Snapshot, resources: readonly Resource[]): void {
  const lines = replacements(snapshot, resources).flatMap(({ removed, added }) => [...removed, ...added]);
  if (lines.length === 0) return;
  throw new UserError(
    `this change would lose stored data, for a migration does not move values from what is gone to what is new:
${lines.map((line) => `  ${line}`).join('\n')}
Nothing was written. If the values are to be moved, put back what is gone, create and apply a migration for what is new, copy the values, and then remove the old with --allow-data-loss. If they are not needed, add --allow-data-loss: the old is dropped and the new begins empty`,
  );
}
