// Compile: a checked definition -> a frozen Resource (entity, SQL, body and query rules, description).
// May import errors, fields, definition.
import type { EntitySchema } from '@mikro-orm/core';
import type { Field, ResourceDefinition } from '../definition/index.ts';
import { type BodyRules, bodyRules } from './body.ts';
import { entity } from './entity.ts';
import { type Fragment, openApiFragment } from './openapi.ts';
import { type Statements, statements } from './statements.ts';

/** All that requests need to know of one resource, computed once. */
export interface Resource {
  readonly name: string;
  readonly definition: ResourceDefinition;
  readonly entity: EntitySchema;
  readonly body: BodyRules;
  readonly statements: Statements;
  /** Whether statements that write also note it in the organization's activity. */
  readonly noted: boolean;
  /** Fields that `?sort=` accepts; empty where the order is not selectable. */
  readonly sortable: ReadonlyMap<string, Field>;
  /** Writable references, in the order of their parameters in a write, with each one's position there. */
  readonly references: readonly { readonly field: string; readonly position: number }[];
  /** Its part of the OpenAPI document. */
  readonly openApi: Fragment;
}

/**
 * Compiles checked definitions. They must be complete: references are followed.
 * @param prefix path of the API, for the description
 * @param noted whether writes are noted in the organization's activity
 */
export function compile(
  definitions: readonly ResourceDefinition[],
  prefix: string,
  noted: boolean,
): readonly Resource[] {
  return Object.freeze(
    definitions.map((definition) =>
      Object.freeze({
        name: definition.name,
        definition,
        entity: entity(definition),
        body: bodyRules(definition.fields),
        noted,
        statements: statements(definition, definitions, noted),
        sortable: new Map(
          definition.fields
            .filter((field) => definition.sort.selectable && field.type.order !== undefined)
            .map((field) => [field.name, field]),
        ),
        references: referencePositions(definition.fields),
        openApi: openApiFragment(definition, prefix),
      }),
    ),
  );
}

function referencePositions(fields: readonly Field[]): Resource['references'] {
  let position = 0;
  const found: { field: string; position: number }[] = [];
  for (const field of fields.filter((one) => !one.readOnly)) {
    if (field.type.refers) found.push({ field: field.name, position });
    position += field.type.columns?.(field).length ?? 0;
  }
  return found;
}

export { type Action, actionNames, actions, allows, everything, type Grants, grantMasks } from './access.ts';
export type { Body } from './body.ts';
export type { Fragment } from './openapi.ts';
export type { Prepared, Statement } from './sql.ts';
export { deepPage, pageSize } from './statements.ts';
