import { EntitySchema } from '@mikro-orm/core';
import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, fieldColumns, isStoredRollup, linksOf, refersToMany } from '../fields/index.ts';
import {
  constraints,
  customValuesTriggerBody,
  indexes,
  parentLockTriggers,
  recordLockTrigger,
  rollupTriggers,
} from '../records/index.ts';
import {
  createIndexSql,
  createTriggerSql,
  defaultSql,
  identifier,
  quote,
  trashedColumn,
  versionColumn,
} from '../sql/index.ts';
import { declareIndexes, declareTriggers } from '../tables/index.ts';
import { linkTriggers } from './links.ts';

/**
 * Returns a resource's MikroORM entity: a property for each column, the primary key (organization_id, id), and a
 * foreign key for each reference. Foreign keys include organization_id, so a record cannot refer to another
 * organization's record.
 * @param definitions all definitions, whose stored rollups and writable children can contain the resource's records
 */
export function buildEntity(
  definition: ResourceDefinition,
  definitions: readonly ResourceDefinition[],
): EntitySchema {
  // Must come first, because MikroORM orders the primary key's columns by property order.
  const properties: Record<string, unknown> = { ...organization(definition.name) };
  for (const field of definition.fields) Object.assign(properties, property(field, definition.name));
  // Retired fields are no longer written, so new records must not require values for them.
  for (const field of definition.retired) {
    Object.assign(properties, property({ ...field, required: false }, definition.name));
  }
  Object.assign(properties, version, definition.trash === undefined ? {} : trashedAt);
  const resourceIndexes = indexes(definition);
  const triggers = [
    ...rollupTriggers(definition, definitions),
    ...parentLockTriggers(definition, definitions),
  ];
  const lockTrigger = recordLockTrigger(definition);
  const entity = new EntitySchema({
    name: definition.name,
    tableName: definition.name,
    properties,
    triggers: [
      versionTrigger(definition),
      ...linkTriggers(definition),
      ...customTriggers(definition),
      ...(lockTrigger === undefined ? [] : [{ ...lockTrigger, forEach: 'row' }]),
      ...triggers.map(({ name, timing, events, ...trigger }) => ({
        ...{ name, timing, events },
        // MikroORM does not declare the tables with the statement's rows.
        expression: createTriggerSql(definition.name, name, { timing, events, ...trigger }).join('\n'),
      })),
    ],
    checks: constraints(definition).map(({ name, condition }) => ({ name, expression: condition })),
    indexes: resourceIndexes.map(({ name, ...index }) => ({
      name,
      expression: createIndexSql(definition.name, name, index),
    })),
  } as unknown as ConstructorParameters<typeof EntitySchema>[0]);
  declareIndexes(entity, resourceIndexes);
  declareTriggers(entity, triggers);
  return entity;
}

/** Column that counts writes to a record. */
const version = {
  // The capital letter prevents collisions with field names.
  recordVersion: { type: 'bigint', columnType: 'bigint', fieldName: versionColumn, defaultRaw: '1' },
};

/** Column with the time at which a record was moved to the trash. */
const trashedAt = {
  recordTrashedAt: {
    type: 'timestamptz',
    columnType: 'timestamptz',
    fieldName: trashedColumn,
    nullable: true,
  },
};

/**
 * Returns the trigger that increments the version on every update, including manual updates. It also sets the time of
 * the last change when a reference becomes null or is removed from a list, which happens when the referenced record is
 * deleted. An update of stored rollups does not change the record.
 */
function versionTrigger({ fields }: ResourceDefinition): object {
  const column = quote(versionColumn);
  const nullConditions = fields.flatMap(linksOf).map((field) => {
    const name = quote(field.name);
    return refersToMany(field)
      ? `cardinality(new.${name}) < cardinality(old.${name})`
      : `old.${name} is not null and new.${name} is null`;
  });
  const timestampUpdates = fields
    .filter(({ set }) => set === 'updated')
    .map(({ name }) => `new.${quote(name)} = now();`);
  const rollups = fields.filter(isStoredRollup).map(({ name }) => quote(name));
  const rollupsOf = (row: string) => `(${rollups.map((name) => `${row}.${name}`).join(', ')})`;
  const body = [
    ...(rollups.length === 0
      ? []
      : [`if ${rollupsOf('new')} is distinct from ${rollupsOf('old')} then return new; end if;`]),
    `new.${column} = old.${column} + 1;`,
    ...(nullConditions.length > 0 && timestampUpdates.length > 0
      ? [`if ${nullConditions.join(' or ')} then ${timestampUpdates.join(' ')} end if;`]
      : []),
    'return new;',
  ];
  return { name: versionColumn, timing: 'before', events: ['update'], forEach: 'row', body: body.join(' ') };
}

/** Returns the trigger that copies the values of custom fields to the table that filters read. */
const customTriggers = (definition: ResourceDefinition): readonly object[] =>
  definition.fields
    .filter(({ type }) => type.custom === true)
    .map((field) => ({
      // The capital letter prevents collisions with the names of operators' triggers.
      name: 'customValues',
      timing: 'after',
      events: ['insert', 'update', 'delete'],
      forEach: 'row',
      body: customValuesTriggerBody(definition, field.name),
    }));

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
  if (field.alternatives !== undefined)
    return Object.assign({}, ...field.alternatives.map((alternative) => property(alternative, resource)));
  if (field.set === 'organization') return {};
  if (field.set === 'id') {
    const identity = { type: 'bigint', columnType: 'bigint', primary: true, autoincrement: true };
    return { id: { ...identity, generated: 'by default as identity' } };
  }
  const columns = fieldColumns(field).map((column, index) => [
    column.name,
    {
      type: column.type,
      columnType: column.type,
      fieldName: column.name,
      nullable:
        field.rollup === undefined
          ? field.default === null && !field.required && field.set === undefined
          : field.nullable,
      ...(field.set === 'creator' || field.set === 'editor' ? { nullable: true } : {}),
      ...(column.collation === undefined ? {} : { collation: column.collation }),
      ...(field.default === null ? {} : { defaultRaw: defaultSql(field, index) }),
      ...(field.rollup?.function === 'count' || field.rollup?.function === 'sum' ? { defaultRaw: '0' } : {}),
      ...(field.to === undefined || refersToMany(field) ? {} : { persist: false }),
    },
  ]);
  if (field.to === undefined || refersToMany(field)) return Object.fromEntries(columns);
  return {
    ...Object.fromEntries(columns),
    [`${field.name}Link`]: {
      kind: 'm:1',
      entity: () => field.to,
      joinColumns: ['organization_id', field.name],
      referencedColumnNames: ['organization_id', 'id'],
      ownColumns: [field.name],
      nullable: !field.required,
      index: false,
      // The DELETE statement clears references and deletes referring records itself, so that the change log is complete.
      deleteRule: 'no action',
      updateRule: 'no action',
      foreignKeyName: identifier(`${resource}_${field.name}_foreign`),
    },
  };
}
