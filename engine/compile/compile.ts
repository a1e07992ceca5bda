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
  type Projection,
  projection,
} from '../records/index.ts';
import { buildEntity } from './entity.ts';
import { type AddedResponses, type Fragment, openApiFragment } from './openapi.ts';

/** A compiled resource with everything needed to handle its requests, computed once at startup. */
export interface Resource {
  readonly name: string;
  readonly definition: ResourceDefinition;
  readonly entity: EntitySchema;
  /** Context from which the operations were compiled. */
  readonly context: OperationContext;
  readonly operations: CompiledOperations;
  readonly uploads: CompiledUploads;
  /** OpenAPI description of the resource. */
  readonly openApi: Fragment;
}

/**
 * Compiles checked definitions. Every referenced resource must be among the definitions.
 * @param prefix base path of the API, for the OpenAPI description
 * @param effects effects that run with every write
 * @param added responses that modules add to every operation, for the OpenAPI description
 */
export function compileResource(
  definitions: readonly ResourceDefinition[],
  prefix: string,
  effects: readonly Effect[],
  added: readonly AddedResponses[] = [],
): readonly Resource[] {
  const projections = new Map(
    definitions.map((definition) => [definition.name, projection(definition, definitions)]),
  );
  return Object.freeze(
    definitions.map((definition) => {
      const context: OperationContext = {
        definition,
        body: bodyRules(definition.fields),
        projection: projections.get(definition.name) as Projection,
        projections,
        items: itemTable(definition.fields.filter(({ readOnly }) => !readOnly)),
        effects,
        // Includes retired fields, because their foreign keys still exist.
        referrers: definitions.flatMap(({ name, fields, retired }) =>
          [...fields, ...retired]
            .filter(({ to }) => to === definition.name)
            .map((field) => ({ resource: name, field: field.name })),
        ),
      };
      const operations = compileOperations(context);
      return Object.freeze({
        name: definition.name,
        definition,
        entity: buildEntity(definition),
        context,
        operations,
        uploads: compileUploads(context, operations),
        openApi: openApiFragment(definition, { definitions, prefix, added }),
      });
    }),
  );
}
