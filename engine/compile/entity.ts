import { EntitySchema } from '@mikro-orm/core';
import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, fieldColumns } from '../fields/index.ts';
import { indexes } from '../records/index.ts';
import { createIndexSql, identifier, literal, quote, versionColumn } from '../sql/index.ts';
import { declareIndexes } from '../tables/index.ts';

/**
 * Returns a resource's MikroORM entity: a property for each column, the primary key (organization_id, id), and a
 * foreign key for each reference. Foreign keys include organization_id, so a record cannot refer to another
 * organization's record.
 */
export function buildEntity(definition: ResourceDefinition): EntitySchema {
  // Must come first, because MikroORM orders the primary key's columns by property order.
  const properties: Record<string, unknown> = { ...organization(definition.name) };
  for (const field of definition.fields) Object.assign(properties, property(field, definition.name));
  // Retired fields are no longer written, so new records must not require values for them.
  for (const field of definition.retired) {
    Object.assign(properties, property({ ...field, required: false }, definition.name));
  }
  Object.assign(properties, version);
  const resourceIndexes = indexes(definition);
  const entity = new EntitySchema({
    name: definition.name,
    tableName: definition.name,
    properties,
    triggers: [versionTrigger(definition)],
    indexes: resourceIndexes.map(({ name, ...index }) => ({
      name,
      expression: createIndexSql(definition.name, name, index),
    })),
  } as unknown as ConstructorParameters<typeof EntitySchema>[0]);
  declareIndexes(entity, resourceIndexes);
  return entity;
}

/** Column that counts writes to a record. */
const version = {
  // The capital letter prevents collisions with field names.
  recordVersion: { type: 'bigint', columnType: 'bigint', fieldName: versionColumn, defaultRaw: '1' },
};

/**
 * Returns the trigger that increments the version on every update, including manual updates. It also sets the time of
 * the last change when a reference becomes null, which happens when the referenced record is deleted.
 */
function versionTrigger({ fields }: ResourceDefinition): object {
  const column = quote(versionColumn);
  const nullConditions = fields
    .filter(({ to }) => to !== undefined)
    .map(({ name }) => `old.${quote(name)} is not null and new.${quote(name)} is null`);
  const timestampUpdates = fields
    .filter(({ set }) => set === 'updated')
    .map(({ name }) => `new.${quote(name)} = now();`);
  const body = [
    `new.${column} = old.${column} + 1;`,
    ...(nullConditions.length > 0 && timestampUpdates.length > 0
      ? [`if ${nullConditions.join(' or ')} then ${timestampUpdates.join(' ')} end if;`]
      : []),
    'return new;',
  ];
  return { name: versionColumn, timing: 'before', events: ['update'], forEach: 'row', body: body.join(' ') };
}

/** Returns the organization's key column and its foreign key to `crm_organizations`. */
const organization = (resource: string) => ({
  organization_id: { type: 'bigint', columnType: 'bigint', persist: false },
  // The capital letter prevents collisions with field names.
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

/** Returns the entity properties for a field's columns and, if the field is a reference, for its foreign key. */
function property(field: Field, resource: string): Record<string, unknown> {
  if (field.set === 'organization') return {};
  if (field.set === 'id') {
    const identity = { type: 'bigint', columnType: 'bigint', primary: true, autoincrement: true };
    return { id: { ...identity, generated: 'by default as identity' } };
  }
  const columns = fieldColumns(field).map((column) => [
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
      // The DELETE statement sets references to null, so that the change log records the updates.
      deleteRule: 'no action',
      updateRule: 'no action',
      foreignKeyName: identifier(`${resource}_${field.name}_foreign`),
    },
  };
}

/** Returns a column's default as SQL. Existing rows receive the default when the field is added. */
const defaultSql = (value: string | number | boolean): string =>
  typeof value === 'string' ? literal(value) : String(value);
