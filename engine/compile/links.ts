import { EntitySchema } from '@mikro-orm/core';
import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, refersToMany } from '../fields/index.ts';
import { linkTable } from '../records/index.ts';
import { createIndexSql, identifier, quote } from '../sql/index.ts';
import { bigintColumn, declareIndexes } from '../tables/index.ts';

/** Returns a resource's references fields, including retired ones, whose values still exist. */
const referencesFields = ({
  fields,
  retired,
}: Pick<ResourceDefinition, 'fields' | 'retired'>): readonly Field[] =>
  [...fields, ...retired].filter((field) => refersToMany(field) && field.aliasOf === undefined);

/**
 * Returns the MikroORM entities of a resource's link tables: for each references field, a table with a row for each
 * reference. Its foreign keys include organization_id, so a record cannot refer to another organization's record.
 */
export const linkEntities = (definition: ResourceDefinition): readonly EntitySchema[] =>
  referencesFields(definition).map((field) => {
    const name = linkTable(definition.name, field.name);
    const index = {
      name: identifier(`${name}_target`),
      keys: ['organization_id', 'target_id', 'record_id'].map(quote),
    };
    const keyColumn = { ...bigintColumn, primary: true };
    const entity = new EntitySchema({
      name,
      tableName: name,
      properties: {
        organization_id: keyColumn,
        record_id: { ...keyColumn, persist: false },
        target_id: { ...keyColumn, persist: false },
        record: foreignKey(name, 'record', definition.name),
        target: foreignKey(name, 'target', field.to ?? ''),
      },
      indexes: [{ name: index.name, expression: createIndexSql(name, index.name, index) }],
    } as unknown as ConstructorParameters<typeof EntitySchema>[0]);
    declareIndexes(entity, [index]);
    return entity;
  });

/** Returns the property for a foreign key to a record. */
const foreignKey = (table: string, name: string, to: string): object => ({
  kind: 'm:1',
  entity: () => to,
  joinColumns: ['organization_id', `${name}_id`],
  referencedColumnNames: ['organization_id', 'id'],
  ownColumns: [`${name}_id`],
  index: false,
  // Triggers delete the rows of deleted records, so that the order of the deletes does not matter.
  deleteRule: 'no action',
  updateRule: 'no action',
  foreignKeyName: identifier(`${table}_${name}_foreign`),
});

/**
 * Returns the triggers that write a resource's link tables. References are removed before a record is written, and added
 * after it, because foreign keys are checked in between. A statement inside a trigger sees all committed rows, so
 * concurrent writes to a record do not leave outdated references.
 */
export function linkTriggers(definition: ResourceDefinition): readonly object[] {
  const fields = referencesFields(definition);
  if (fields.length === 0) return [];
  const isChanged = (verb: string, name: string) =>
    `tg_op = '${verb}' or new.${name} is distinct from old.${name}`;
  const removals = fields.map((field) => {
    const [table, name] = [quote(linkTable(definition.name, field.name)), quote(field.name)];
    return `if ${isChanged('DELETE', name)} then delete from ${table} where "organization_id" = old."organization_id" and "record_id" = old."id" and (tg_op = 'DELETE' or "target_id" <> all (new.${name})); end if;`;
  });
  const additions = fields.map((field) => {
    const [table, name] = [quote(linkTable(definition.name, field.name)), quote(field.name)];
    return `if cardinality(new.${name}) > 0 and (${isChanged('INSERT', name)}) then insert into ${table} ("organization_id", "record_id", "target_id") select new."organization_id", new."id", unnest(new.${name}) on conflict do nothing; end if;`;
  });
  // The capital letters prevent collisions with the names of operators' triggers.
  return [
    {
      name: 'linksRemoved',
      timing: 'before',
      events: ['update', 'delete'],
      forEach: 'row',
      body: `${removals.join(' ')} return coalesce(new, old);`,
    },
    {
      name: 'linksAdded',
      timing: 'after',
      events: ['insert', 'update'],
      forEach: 'row',
      body: `${additions.join(' ')} return null;`,
    },
  ];
}
