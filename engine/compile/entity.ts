import { EntitySchema } from '@mikro-orm/core';
import type { ResourceDefinition } from '../definition/index.ts';
import { columnsOf, type Field } from '../fields/index.ts';
import { indexes } from '../records/index.ts';
import { identifier, literal, quote } from '../sql/index.ts';

/**
 * The MikroORM entity of a resource: one property for each column, the key (organization_id, id), and for each
 * reference a foreign key that includes organization_id, so that a link to another organization cannot be stored.
 */
export function entity(definition: ResourceDefinition): EntitySchema {
  // The key begins with the organization, and its columns come in the order of their properties.
  const properties: Record<string, unknown> = { ...organization(definition.name) };
  for (const field of definition.fields) Object.assign(properties, property(field, definition.name));
  return new EntitySchema({
    name: definition.name,
    tableName: definition.name,
    properties,
    indexes: indexes(definition).map(({ name, method, keys }) => ({
      name,
      expression: `create index ${quote(name)} on ${quote(definition.name)} ${method === undefined ? '' : `using ${method} `}(${keys.join(', ')})`,
    })),
  } as unknown as ConstructorParameters<typeof EntitySchema>[0]);
}

/** The organization of a tenant row, as a foreign key to the platform's organizations. */
const organization = (resource: string) => ({
  organization_id: { type: 'bigint', columnType: 'bigint', persist: false },
  // A capital letter: no field can have this name.
  organizationLink: {
    kind: 'm:1',
    entity: () => 'crm_organizations',
    primary: true,
    fieldNames: ['organization_id'],
    referenceColumnName: 'id',
    deleteRule: 'no action',
    updateRule: 'no action',
    foreignKeyName: identifier(`${resource}_organization_id_foreign`),
  },
});

function property(field: Field, resource: string): Record<string, unknown> {
  if (field.set === 'organization') return {};
  if (field.set === 'id') {
    const identity = { type: 'bigint', columnType: 'bigint', primary: true, autoincrement: true };
    return { id: { ...identity, generated: 'by default as identity' } };
  }
  const columns = columnsOf(field).map((column) => [
    column.name,
    {
      type: column.type,
      columnType: column.type,
      fieldName: column.name,
      nullable: field.default === null && !field.required && field.set === undefined,
      ...(field.set === 'creator' || field.set === 'editor' ? { nullable: true } : {}),
      ...(column.collation === undefined ? {} : { collation: column.collation }),
      ...(field.default === null ? {} : { defaultRaw: defaultSql(field.default) }),
      ...(field.to === undefined ? {} : { persist: false }),
    },
  ]);
  if (field.to === undefined) return Object.fromEntries(columns);
  return {
    ...Object.fromEntries(columns),
    [`${field.name}Link`]: {
      kind: 'm:1',
      entity: () => field.to,
      joinColumns: ['organization_id', field.name],
      referencedColumnNames: ['organization_id', 'id'],
      ownColumns: [field.name],
      nullable: true,
      index: false,
      // Only the link becomes null; SET NULL without a column list would null organization_id too.
      deleteRule: `set null (${quote(field.name)})`,
      updateRule: 'no action',
      foreignKeyName: identifier(`${resource}_${field.name}_foreign`),
    },
  };
}

/** Existing rows get a new field's default, as a body without it would. */
const defaultSql = (value: string | number | boolean): string =>
  typeof value === 'string' ? literal(value) : String(value);
