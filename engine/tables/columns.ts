import { EntitySchema } from '@mikro-orm/core';
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

/** A foreign key of one column, and the column. */
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

/** The foreign key `<name>_id` of a tenant row to a row of its own organization. */
export function tenantLink(
  table: string,
  name: string,
  to: string,
  options: Record<string, unknown>,
): Properties {
  return {
    [`${name}_id`]: { ...bigintColumn, persist: false },
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

/** The column and key part that every table of tenants begins with. */
export const tenant = () => link('organization_id', 'crm_organizations', { primary: true });

/**
 * Where a table of tenants is when the database is distributed by organization (`crm citus`), unless with the
 * organization's other rows: `everywhere`, for small tables that are read before the organization is known, or
 * `coordinator`, for tables whose statements concern all organizations.
 */
export type Placement = 'everywhere' | 'coordinator';

const placements = new WeakMap<EntitySchema, Placement>();

/** The {@link Placement} that a table was declared with, if any. */
export const placementOf = (entity: EntitySchema): Placement | undefined => placements.get(entity);

const [resourceColumnsByTable, resourcePathsByTable] = [
  new WeakMap<EntitySchema, readonly string[]>(),
  new WeakMap<EntitySchema, readonly string[]>(),
];

/** The columns of a table that hold names of resources, which change when a resource gets another name. */
export const resourceColumns = (entity: EntitySchema): readonly string[] =>
  resourceColumnsByTable.get(entity) ?? [];

/** The columns of a table that hold paths below names of resources, such as `leads/batch`, or the names alone. */
export const resourcePaths = (entity: EntitySchema): readonly string[] =>
  resourcePathsByTable.get(entity) ?? [];

/** Where a table of tenants may hold anything about a person. */
export interface PersonalData {
  /** What its rows are called. */
  readonly called: string;
  /** Columns of texts. */
  readonly columns: readonly string[];
  /** What becomes of a row in which a person is found who is to be forgotten: it goes, or it stays and these columns are emptied. */
  readonly rows: 'go' | 'stay';
}

/** A table of people with the columns of its primary key after the organization, each with its PostgreSQL type. */
interface KeyedTable extends PersonalData {
  readonly key: readonly (readonly [column: string, type: string])[];
}

const personalDataByTable = new Map<keyof TableRows, KeyedTable>();

/** The tables that were declared with {@link PersonalData}. */
export const personalDataTables: ReadonlyMap<keyof TableRows, KeyedTable> = personalDataByTable;

/** The primary key of a table of tenants, without the organization. */
const keyOf = (properties: Properties): KeyedTable['key'] =>
  Object.entries(properties)
    .filter(([name, { primary }]) => primary === true && !name.startsWith('organization_id'))
    .map(([name, { columnType }]) => [name, String(columnType)]);

/** Keys and indexes of a table in addition to its primary key. */
interface Keys {
  readonly uniques?: readonly { readonly name: string; readonly properties: readonly string[] }[];
  readonly indexes?: readonly {
    readonly name: string;
    readonly properties?: readonly string[];
    readonly expression?: string;
  }[];
  readonly placement?: Placement;
  /** Columns that hold names of resources. */
  readonly resourceColumns?: readonly string[];
  /** Columns that hold such names, or paths that begin with one. */
  readonly resourcePaths?: readonly string[];
  readonly people?: PersonalData;
}

/** A table of a module, not of a resource. Tenants' tables have `organization_id` first in their key. */
export function defineTable(
  name: keyof TableRows,
  properties: Properties,
  { placement, resourceColumns: resourceNameColumns, resourcePaths: paths, people, ...keys }: Keys = {},
): EntitySchema {
  const options = { name, tableName: name, properties, ...keys };
  const entity = new EntitySchema(options as unknown as ConstructorParameters<typeof EntitySchema>[0]);
  if (placement !== undefined) placements.set(entity, placement);
  if (resourceNameColumns !== undefined) resourceColumnsByTable.set(entity, resourceNameColumns);
  if (people !== undefined) personalDataByTable.set(name, { ...people, key: keyOf(properties) });
  if (paths !== undefined) resourcePathsByTable.set(entity, paths);
  return entity;
}
