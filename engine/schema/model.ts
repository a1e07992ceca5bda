import type { EntitySchema } from '@mikro-orm/core';
import type { Resource } from '../compile/index.ts';

/** The tables of an instance: those of its resources and those of its modules. */
export interface Model {
  readonly resources: readonly Resource[];
  readonly tables: readonly EntitySchema[];
}

/** Every table of the instance. */
export const entitiesOf = ({ resources, tables }: Model): readonly EntitySchema[] => [
  ...tables,
  ...resources.map((resource) => resource.entity),
];
