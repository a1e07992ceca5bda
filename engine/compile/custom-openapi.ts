import type { ResourceDefinition } from '../definition/index.ts';
import { customName, type Field, type JsonSchema } from '../fields/index.ts';
import { describeCustomFilters } from '../query/index.ts';
import type { CustomFields } from '../records/index.ts';
import {
  boundedSchema,
  fieldInputSchema,
  nestedLists,
  pascal,
  projectionSchemaName,
  storedValueSchema,
} from './schemas.ts';

type Schemas = Readonly<Record<string, JsonSchema>>;

/**
 * Returns a schema of a record or body with the properties of the custom fields.
 * @param required the keys of values that a body must contain
 */
function withProperties(
  schema: JsonSchema,
  properties: Schemas,
  required: readonly string[] = [],
): JsonSchema {
  const own = schema.properties as Schemas | undefined;
  const custom = own?.[customName];
  if (custom === undefined) return schema;
  const isRequired = required.length > 0;
  const values = { ...custom, ...(isRequired && { required }), properties };
  const names = (schema.required ?? []) as readonly string[];
  return {
    ...schema,
    ...(isRequired && { required: [...names, customName] }),
    properties: { ...own, [customName]: values },
  };
}

/** Returns the schemas of custom fields by key. @param schemaOf returns the schema of a value */
const schemasOf = (fields: readonly Field[], schemaOf: (field: Field) => JsonSchema): Schemas =>
  Object.fromEntries(
    fields.flatMap((field) => (field.custom === undefined ? [] : [[field.custom.key, schemaOf(field)]])),
  );

/**
 * Returns the OpenAPI document of one organization, which also describes its custom fields: their values in records and
 * bodies, and their filters.
 * @param prefix base path of the API
 * @param customFields the custom fields that the caller sees
 */
export function documentWithCustomFields(
  document: JsonSchema,
  definitions: readonly ResourceDefinition[],
  prefix: string,
  customFields: CustomFields,
): JsonSchema {
  const { components, paths } = document as {
    readonly components: JsonSchema & { readonly schemas: Schemas };
    readonly paths: Readonly<Record<string, Readonly<Record<string, JsonSchema>>>>;
  };
  const schemas: Record<string, JsonSchema> = { ...components.schemas };
  const describedPaths: Record<string, JsonSchema> = { ...paths };
  for (const definition of definitions) {
    const fields = customFields.get(definition.name) ?? [];
    if (fields.length === 0) continue;
    const recordName = pascal(definition.singular);
    const stored = schemasOf(fields, storedValueSchema);
    const writable = fields.filter(({ readOnly }) => !readOnly);
    const created = schemasOf(writable, fieldInputSchema);
    const patched = schemasOf(writable, boundedSchema);
    const required = writable.flatMap(({ required, custom }) => (required && custom ? [custom.key] : []));
    const nested = definitions.flatMap((parent) =>
      nestedLists(parent, definitions)
        .filter(({ child }) => child.name === definition.name)
        .map(({ schema }) => schema),
    );
    for (const [name, properties, keys] of [
      [recordName, stored, []],
      [projectionSchemaName(recordName), stored, []],
      [`${recordName}Patch`, patched, []],
      ...[`${recordName}Input`, ...nested].map((schema) => [schema, created, required] as const),
    ] as const) {
      const schema = schemas[name];
      if (schema !== undefined) schemas[name] = withProperties(schema, properties, keys);
    }
    const path = `${prefix}/${definition.name}`;
    const { get, ...others } = paths[path] ?? {};
    if (get === undefined) continue;
    const parameters = [...(get.parameters as readonly JsonSchema[]), ...describeCustomFilters(fields)];
    describedPaths[path] = { get: { ...get, parameters }, ...others };
  }
  return { ...document, paths: describedPaths, components: { ...components, schemas } };
}
