import { EntitySchema } from '@mikro-orm/core';
import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, fieldColumns } from '../fields/index.ts';
import { indexes } from '../records/index.ts';
import { identifier, literal, quote, versionColumn } from '../sql/index.ts';

/**
 * The MikroORM entity of a resource: one property for each column, the key (organization_id, id), and for each
 * reference a foreign key that includes organization_id, so that a link to another organization cannot be stored.
 */
export function buildEntity(definition: ResourceDefinition): EntitySchema {
  // The key begins with the organization, and its columns come in the order of their properties.
  const properties: Record<string, unknown> = { ...organization(definition.name) };
  for (const field of definition.fields) Object.assign(properties, property(field, definition.name));
  // Retired fields are no longer written, so new records must not require a value.
  for (const field of definition.retired) {
    Object.assign(properties, property({ ...field, required: false }, definition.name));
  }
  Object.assign(properties, version);
  return new EntitySchema({
    name: definition.name,
    tableName: definition.name,
    properties,
    triggers: [versionTrigger(definition)],
    indexes: indexes(definition).map(({ name, method, keys, uniqueWhere }) => ({
      name,
      expression: `create ${uniqueWhere === undefined ? '' : 'unique '}index ${quote(name)} on ${quote(definition.name)} ${method === undefined ? '' : `using ${method} `}(${keys.join(', ')})${uniqueWhere === undefined ? '' : ` where ${uniqueWhere}`}`,
    })),
  } as unknown as ConstructorParameters<typeof EntitySchema>[0]);
}

/** How often a record was written. */
const version = {
  // A capital letter: no field can have this name.
  recordVersion: { type: 'bigint', columnType: 'bigint', fieldName: versionColumn, defaultRaw: '1' },
};

/**
 * Increments the version with every write, including manual ones. A reference that becomes null because a record is deleted is a
 * change like any other, so it sets the time of the last change too.
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
      // DELETE makes references null itself: the ledger has every change, and the database makes none by itself.
      deleteRule: 'no action',
      updateRule: 'no action',
      foreignKeyName: identifier(`${resource}_${field.name}_foreign`),
    },
  };
}

/** Existing rows get a new field's default, as a body without it would. */
const defaultSql = (value: string | number | boolean): string =>
  typeof value === 'string' ? literal(value) : String(value);
