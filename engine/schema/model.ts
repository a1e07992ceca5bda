import type { EntitySchema } from '@mikro-orm/core';
import type { Resource } from '../compile/index.ts';

/** The resources of an instance, and the tables of its modules. */
export interface Model {
  readonly resources: readonly Resource[];
  readonly tables: readonly EntitySchema[];
}

/** Returns all tables of the instance. */
export const entitiesOf = ({ resources, tables }: Model): readonly EntitySchema[] => [
  ...tables,
  ...resources.map((resource) => resource.entity),
];
