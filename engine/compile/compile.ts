import type { EntitySchema } from '@mikro-orm/core';
import type { ResourceDefinition } from '../definition/index.ts';
import type { Effect } from '../effects/index.ts';
import {
  bodyRules,
  type CompiledOperations,
  type CompiledUploads,
  compileOperations,
  compileUploads,
  itemTable,
  type OperationContext,
  projection,
} from '../records/index.ts';
import { entity } from './entity.ts';
import { type Fragment, openApiFragment } from './openapi.ts';

/** Everything that requests need of one resource, computed once. */
export interface Resource {
  readonly name: string;
  readonly definition: ResourceDefinition;
  readonly entity: EntitySchema;
  /** What its operations were compiled from. */
  readonly context: OperationContext;
  readonly operations: CompiledOperations;
  readonly uploads: CompiledUploads;
  /** Its OpenAPI description. */
  readonly openApi: Fragment;
}

/**
 * Compiles checked definitions. They must be complete: references are followed.
 * @param prefix path of the API, for the description
 * @param effects the effects of every write
 */
export function compile(
  definitions: readonly ResourceDefinition[],
  prefix: string,
  effects: readonly Effect[],
): readonly Resource[] {
  return Object.freeze(
    definitions.map((definition) => {
      const context: OperationContext = {
        definition,
        body: bodyRules(definition.fields),
        items: itemTable(definition.fields.filter(({ readOnly }) => !readOnly)),
        projection: projection(definition, definitions),
        effects,
      };
      const operations = compileOperations(context);
      return Object.freeze({
        name: definition.name,
        definition,
        entity: entity(definition),
        context,
        operations,
        uploads: compileUploads(context, operations),
        openApi: openApiFragment(definition, prefix),
      });
    }),
  );
}
