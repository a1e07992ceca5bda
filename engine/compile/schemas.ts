import type { ResourceDefinition, Unique } from '../definition/index.ts';
import type { Field, JsonSchema } from '../fields/index.ts';
import { type FormatName, maxItems } from '../records/index.ts';

/** Returns a reference to a component of the OpenAPI document. */
export const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
/** Converts a name from snake case to Pascal case, for schemas and operation IDs. */
export const pascal = (name: string) =>
  name.replace(/(?:^|_)([a-z0-9])/g, (_, letter) => letter.toUpperCase());

/** Returns the name of the schema for multiple records in this format. */
export const linesSchema = (recordName: string, format: FormatName): string =>
  `${recordName}${pascal(format)}`;

/** Returns the schema of a batch body. @param uniques sets of unique fields that can identify a record */
export function batchSchema(record: JsonSchema, uniques: readonly Unique[] = []): JsonSchema {
  return {
    type: 'object',
    required: ['records'],
    properties: {
      records: { type: 'array', minItems: 1, maxItems, items: record },
      ...(uniques.length > 0 && {
        match: {
          description:
            'Existing records with the same values in these fields are updated instead of created.',
          enum: uniques.map((unique) => unique.map(({ name }) => name)),
          type: 'array',
          items: { type: 'string' },
        },
      }),
      on_error: onError,
    },
  };
}

const onError = {
  type: 'string',
  enum: ['stop', 'continue'],
  default: 'stop',
  description: '`stop` writes all records, or none if any is invalid. `continue` writes the valid records.',
};

/** Batch schemas shared by all resources. */
export const batchSchemas: Readonly<Record<string, JsonSchema>> = {
  BatchIds: {
    type: 'object',
    required: ['ids'],
    properties: {
      ids: { type: 'array', minItems: 1, maxItems, items: { type: 'integer', format: 'int64' } },
      on_error: onError,
    },
  },
  BatchResults: {
    type: 'object',
    required: ['results'],
    properties: {
      results: {
        type: 'array',
        description: 'One result per record, in request order.',
        minItems: 1,
        maxItems,
        items: { oneOf: [ref('schemas', 'BatchSuccess'), ref('schemas', 'BatchFailure')] },
      },
    },
  },
  BatchSuccess: {
    type: 'object',
    required: ['status', 'id'],
    properties: {
      status: {
        type: 'integer',
        enum: [200, 201],
        description: '201 if the record was created, 200 if it was updated or deleted.',
      },
      id: { type: 'integer', format: 'int64' },
    },
  },
  BatchFailure: {
    type: 'object',
    description: 'With `on_error: continue`, the reason why a record was not written.',
    required: ['status', 'error', 'code'],
    properties: {
      status: { type: 'integer', enum: [400, 404, 409] },
      error: ref('schemas', 'ErrorMessage'),
      code: ref('schemas', 'ErrorCode'),
      fields: ref('schemas', 'FieldErrors'),
      more: ref('schemas', 'OmittedFields'),
      existing_id: ref('schemas', 'ExistingId'),
      constraint: ref('schemas', 'RejectedConstraint'),
    },
  },
};

/** Returns the fields that a body can set, including aliases for former names. */
const writableOf = (fields: readonly Field[]) =>
  fields.filter(({ readOnly, aliasOf }) => !(aliasOf ?? { readOnly }).readOnly);

/** Returns the schema of a body that creates or replaces a record. */
export function inputSchema(fields: readonly Field[], aRecord: string): JsonSchema {
  const writable = writableOf(fields);
  const required = writable.filter((field) => field.required).map((field) => field.name);
  return {
    type: 'object',
    description: `The writable fields of ${aRecord}. Unknown keys are ignored. Null is treated as absent. An absent field is set to its default: \`""\`, 0 or null unless its description says otherwise.`,
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(writable.map((field) => [field.name, fieldInputSchema(field)])),
  };
}

/** Returns the schema of a body that updates a record. */
export function patchSchema(fields: readonly Field[], aRecord: string): JsonSchema {
  const writable = writableOf(fields);
  return {
    type: 'object',
    description: `The fields to change in ${aRecord}. Unknown keys are ignored. Null resets a field to its default.`,
    properties: Object.fromEntries(writable.map((field) => [field.name, boundedSchema(field)])),
  };
}

/** Returns the schema of a complete record, as returned by writes and by `?expand=`. */
export const recordSchema = ({ fields, description }: ResourceDefinition): JsonSchema => ({
  type: 'object',
  description: description || undefined,
  required: fields.map(({ name }) => name),
  properties: fieldSchemas(fields),
});

/** Returns the schema name of records returned by reads. */
export const projectionSchemaName = (recordName: string): string => `${recordName}Projection`;

/**
 * Returns the schema of a record returned by reads. In OpenAPI, a response cannot depend on a parameter, so every field
 * that `?fields=` can omit is optional. It is a separate schema, not a union with the complete record: a union would
 * accept the same responses, and many client generators do not support unions.
 */
export const projectionSchema = (
  definition: ResourceDefinition,
  definitions: readonly ResourceDefinition[],
  aRecord: string,
): JsonSchema => ({
  type: 'object',
  description: `${aRecord.replace(/^a/, 'A')} with the fields in \`?fields=\`, or with all fields if the request has no \`fields\`.`,
  required: ['id'],
  properties: { ...fieldSchemas(definition.fields), ...expandedSchema(definition, definitions) },
});

/** Returns the fields' response schemas, by field name. */
const fieldSchemas = (fields: readonly Field[]): Readonly<Record<string, JsonSchema>> =>
  Object.fromEntries(
    fields.map((field) => [
      field.name,
      { ...valueSchema(field, field.nullable), ...(field.readOnly && { readOnly: true }) },
    ]),
  );

/** Returns the schema of the property that `?expand=` adds, or an empty object if the resource has no references. */
function expandedSchema(
  { expansion }: ResourceDefinition,
  definitions: readonly ResourceDefinition[],
): Readonly<Record<string, JsonSchema>> {
  if (expansion.length === 0) return {};
  const properties = expansion.map(({ name, to }) => {
    const target = definitions.find((item) => item.name === to);
    return [name, { anyOf: [ref('schemas', pascal(target?.singular ?? '')), { type: 'null' }] }];
  });
  return {
    expanded: {
      type: 'object',
      readOnly: true,
      description: 'The records that the references in `?expand=` point to. Absent without `expand`.',
      properties: Object.fromEntries(properties),
    },
  };
}

/** Returns the schema of a field in a body. Null counts as absent unless the field is required. */
function fieldInputSchema(field: Field): JsonSchema {
  const schema = boundedSchema(field);
  if (field.required || field.default === null || field.default === field.type.empty) return schema;
  // Not "default": client generators would make the property required or always send it.
  const text = `Default: \`${field.default}\`.`;
  return { ...schema, description: 'description' in schema ? `${schema.description} ${text}` : text };
}

/** Returns the schema of a value in a body, with its length limit and pattern. */
const boundedSchema = (field: Field): JsonSchema => ({
  ...valueSchema(field, !field.required),
  ...(field.maxLength !== undefined && { maxLength: field.maxLength }),
  ...(field.pattern !== undefined && { pattern: field.pattern }),
});

/** Returns the schema of a value in a response. */
function valueSchema(field: Field, orNull: boolean): JsonSchema {
  const { json } = field.type;
  const description = [field.description, knownValues(field)].filter((text) => text !== '').join(' ');
  return {
    ...json,
    ...(orNull && { type: [json.type, 'null'] }),
    ...(description !== '' && { description }),
    ...(field.aliasOf && { deprecated: true }),
    // Not "enum": any string is accepted and may be returned, and generated clients must accept it.
    ...(field.values && { examples: field.values.list, 'x-extensible-enum': field.values.list }),
  };
}

/** Returns a sentence that lists the field's known values, or an empty string. */
function knownValues({ values }: Field): string {
  if (values === undefined) return '';
  const list = values.list.map((value) => `\`${value}\``).join(', ');
  return values.closed
    ? `One of ${list}. Any other string is also accepted, but filters and reports recognize only these values.`
    : `Suggested: ${list}.`;
}
