import { EntitySchema } from '@mikro-orm/core';
import { createIndexSql, type IndexShape, type TriggerShape } from '../sql/index.ts';
import type { TableRows } from './tables.ts';

type Properties = Record<string, Record<string, unknown>>;

export const textColumn = { type: 'text', columnType: 'text', collation: 'C' };
export const bigintColumn = { type: 'bigint', columnType: 'bigint' };
export const integerColumn = { type: 'integer', columnType: 'integer' };
export const booleanColumn = { type: 'boolean', columnType: 'boolean' };
export const timestampColumn = { type: 'timestamptz', columnType: 'timestamptz' };
export const now = { ...timestampColumn, defaultRaw: 'now()' };
export const identity = {
  ...bigintColumn,
  primary: true,
  autoincrement: true,
  generated: 'by default as identity',
};

/** Returns a column with its foreign key. */
export function link(column: string, to: string, options: Record<string, unknown> = {}): Properties {
  return {
    [column]: { ...bigintColumn, persist: false, nullable: options.nullable === true },
    [`${column}_link`]: {
      kind: 'm:1',
      entity: () => to,
      fieldNames: [column],
      deleteRule: 'no action',
      updateRule: 'no action',
      index: false,
      ...options,
    },
  };
}

/** Returns the column `<name>_id` with its foreign key to a row in the same organization. */
export function tenantLink(
  table: string,
  name: string,
  to: string,
  options: Record<string, unknown>,
): Properties {
  return {
    [`${name}_id`]: { ...bigintColumn, persist: false, nullable: options.nullable === true },
    [name]: {
      kind: 'm:1',
      entity: () => to,
      joinColumns: ['organization_id', `${name}_id`],
      referencedColumnNames: ['organization_id', 'id'],
      deleteRule: 'no action',
      updateRule: 'no action',
      index: false,
      foreignKeyName: `${table}_${name}_foreign`,
      ...options,
    },
  };
}

/**
 * Returns the `organization_id` column, the first primary key column of every table whose rows belong to an
 * organization.
 */
export const tenant = () => link('organization_id', 'crm_organizations', { primary: true });

/**
 * Placement of a table in a database distributed by organization (`crm citus`) if its rows are not stored
 * with the organization's other rows. `everywhere` replicates small tables that are read before the
 * organization is known. `coordinator` is for tables with statements across all organizations.
 */
type Placement = 'everywhere' | 'coordinator';

const placements = new WeakMap<EntitySchema, Placement>();

/** Returns a table's declared {@link Placement}, if any. */
export const placementOf = (entity: EntitySchema): Placement | undefined => placements.get(entity);

type NamedIndex = IndexShape & { readonly name: string };

const indexesByTable = new WeakMap<EntitySchema, readonly NamedIndex[]>();

/** Declares a table's indexes as data, because the MikroORM entity contains only their statements. */
export const declareIndexes = (entity: EntitySchema, indexes: readonly NamedIndex[]): void => {
  indexesByTable.set(entity, indexes);
};

type NamedTrigger = TriggerShape & { readonly name: string };

const triggersByTable = new WeakMap<EntitySchema, readonly NamedTrigger[]>();

/** Declares a table's triggers as data, if the MikroORM entity contains only their statements. */
export const declareTriggers = (entity: EntitySchema, triggers: readonly NamedTrigger[]): void => {
  triggersByTable.set(entity, triggers);
};

/** Returns a table's declared triggers, keyed by name. */
export const declaredTriggers = (entity: EntitySchema): Readonly<Record<string, TriggerShape>> =>
  Object.fromEntries((triggersByTable.get(entity) ?? []).map(({ name, ...trigger }) => [name, trigger]));

/** Returns a table's declared indexes, keyed by name. */
export const declaredIndexes = (entity: EntitySchema): Readonly<Record<string, IndexShape>> =>
  Object.fromEntries((indexesByTable.get(entity) ?? []).map(({ name, ...index }) => [name, index]));

const [resourceColumnsByTable, groupColumnsByTable, resourcePathsByTable] = [
  new WeakMap<EntitySchema, readonly string[]>(),
  new WeakMap<EntitySchema, readonly string[]>(),
  new WeakMap<EntitySchema, readonly string[]>(),
];

/** Returns the table's columns containing resource names, which are updated when a resource is renamed. */
export const resourceColumns = (entity: EntitySchema): readonly string[] =>
  resourceColumnsByTable.get(entity) ?? [];

/** Returns the table's columns containing names of field groups, for example `leads.finance`. */
export const groupColumns = (entity: EntitySchema): readonly string[] =>
  groupColumnsByTable.get(entity) ?? [];

/**
 * Returns the table's columns containing paths that start with a resource name, for example `leads/batch`.
 */
export const resourcePaths = (entity: EntitySchema): readonly string[] =>
  resourcePathsByTable.get(entity) ?? [];

/** The columns of a table that can contain personal data, and how to erase the data. */
type PersonalData = PersonalColumns &
  (
    | { /** The row is deleted. */ readonly erasure: 'delete'; readonly alsoSet?: undefined }
    | {
        /** The columns are cleared. */
        readonly erasure: 'clear';
        /** SQL expressions for additional columns to set, keyed by column. */
        readonly alsoSet?: Readonly<Record<string, string>>;
      }
  );

interface PersonalColumns {
  /** Name of the rows in messages. */
  readonly label: string;
  /** Text columns to search and clear. */
  readonly columns: readonly string[];
  /** Columns that identify the record to which a row belongs, if rows contain data of one record. */
  readonly record?: {
    readonly resource: string;
    readonly id: string;
    /** Column with the ID of the row of this table that also contains the data. */
    readonly container: string;
  };
}

/** A table's personal data, and its primary key columns after the organization, with their PostgreSQL types. */
type KeyedTable = PersonalData & {
  readonly key: readonly (readonly [column: string, type: string])[];
};

const personalDataByTable = new Map<keyof TableRows, KeyedTable>();

/** Tables declared with {@link PersonalData}. */
export const personalDataTables: ReadonlyMap<keyof TableRows, KeyedTable> = personalDataByTable;

/** Returns the primary key without the organization. */
const keyOf = (properties: Properties): KeyedTable['key'] =>
  Object.entries(properties)
    .filter(([name, { primary }]) => primary === true && !name.startsWith('organization_id'))
    .map(([name, { columnType }]) => [name, String(columnType)]);

/** Additional keys, indexes and properties of a table. */
interface Keys {
  readonly uniques?: readonly { readonly name: string; readonly properties: readonly string[] }[];
  readonly indexes?: readonly (
    | NamedIndex
    | { readonly name: string; readonly properties: readonly string[] }
  )[];
  readonly placement?: Placement;
  /** Columns that contain resource names. */
  readonly resourceColumns?: readonly string[];
  /** Columns that contain names of field groups, starting with a resource name and a period. */
  readonly groupColumns?: readonly string[];
  /** Columns that contain paths starting with a resource name. */
  readonly resourcePaths?: readonly string[];
  readonly personalData?: PersonalData;
}

/**
 * Declares a table that is not a resource. If its rows belong to an organization, the primary key starts with
 * `organization_id`.
 */
export function defineTable(
  name: keyof TableRows,
  properties: Properties,
  {
    placement,
    resourceColumns: resourceNameColumns,
    groupColumns: groupNameColumns,
    resourcePaths: paths,
    personalData,
    ...keys
  }: Keys = {},
): EntitySchema {
  const declared = (keys.indexes ?? []).filter((index) => 'keys' in index);
  const indexes = (keys.indexes ?? []).map((index) =>
    'keys' in index ? { name: index.name, expression: createIndexSql(name, index.name, index) } : index,
  );
  const options = { name, tableName: name, properties, ...keys, indexes };
  const entity = new EntitySchema(options as unknown as ConstructorParameters<typeof EntitySchema>[0]);
  declareIndexes(entity, declared);
  if (placement !== undefined) placements.set(entity, placement);
  if (resourceNameColumns !== undefined) resourceColumnsByTable.set(entity, resourceNameColumns);
  if (groupNameColumns !== undefined) groupColumnsByTable.set(entity, groupNameColumns);
  if (personalData !== undefined) personalDataByTable.set(name, { ...personalData, key: keyOf(properties) });
  if (paths !== undefined) resourcePathsByTable.set(entity, paths);
  return entity;
}
