import type { EntitySchema } from '@mikro-orm/core';
import type { Resource } from '../compile/index.ts';
import { type DatabaseConfig, shapesOfEntities, type TableShapes } from '../database/index.ts';
import { declaredIndexes, declaredTriggers } from '../tables/index.ts';

/** The resources of an instance, and the tables of its modules. */
export interface Model {
  readonly resources: readonly Resource[];
  readonly tables: readonly EntitySchema[];
}

/** Returns all tables of the instance. */
export const entitiesOf = ({ resources, tables }: Model): readonly EntitySchema[] => [
  ...tables,
  ...resources.flatMap(({ entity, linkEntities }) => [entity, ...linkEntities]),
];

/** Returns all tables of the instance as data, without a database. */
export async function shapesOf(config: DatabaseConfig, model: Model): Promise<TableShapes> {
  const entities = entitiesOf(model);
  const entitiesByTable = new Map(entities.map((entity) => [entity.meta.tableName, entity]));
  const shapes = Object.entries(await shapesOfEntities(config, entities));
  return Object.fromEntries(
    shapes.map(([name, shape]) => {
      const entity = entitiesByTable.get(name);
      if (entity === undefined) return [name, shape];
      return [
        name,
        {
          ...shape,
          indexes: { ...shape.indexes, ...declaredIndexes(entity) },
          triggers: { ...shape.triggers, ...declaredTriggers(entity) },
        },
      ];
    }),
  );
}
