import type { ResourceDefinition, Unique } from '../definition/index.ts';
import type { Field, JsonSchema } from '../fields/index.ts';
import { type FormatName, maxItems } from '../records/index.ts';

/** The schemas of a resource in the OpenAPI document. */

export const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
/** A name as schemas and operation ids have it. */
export const pascal = (name: string) =>
  name.replace(/(?:^|_)([a-z0-9])/g, (_, letter) => letter.toUpperCase());

/** The name of the schema of many records in a format. */
export const linesSchema = (recordName: string, format: FormatName): string =>
  `${recordName}${pascal(format)}`;

/** The body of a batch. @param uniques where records can be matched by them */
export function batchSchema(record: JsonSchema, uniques: readonly Unique[] = []): JsonSchema {
  return {
    type: 'object',
    required: ['records'],
    properties: {
      records: { type: 'array', minItems: 1, maxItems, items: record },
      ...(uniques.length > 0 && {
        match: {
          description: 'Records with the same values of these fields are changed instead of created.',
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
  description:
    '`stop`: everything is written or, if anything is wrong, nothing. `continue`: what is right is written.',
};

/** The schemas of batches that all resources share. */
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
        description: 'One for each record of the request, in its order.',
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
      status: { type: 'integer', enum: [200, 201], description: '201: created; 200: changed or deleted.' },
      id: { type: 'integer', format: 'int64' },
    },
  },
  BatchFailure: {
    type: 'object',
    description: 'The reason why a record was not written, with `on_error: continue`.',
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

/** Fields that a body may have, also those that it may have under a former name. */
const writableOf = (fields: readonly Field[]) =>
  fields.filter(({ readOnly, aliasOf }) => !(aliasOf ?? { readOnly }).readOnly);

export function inputSchema(fields: readonly Field[], aRecord: string): JsonSchema {
  const writable = writableOf(fields);
  const required = writable.filter((field) => field.required).map((field) => field.name);
  return {
    type: 'object',
    description: `The writable fields of ${aRecord}. Other keys are ignored. Null counts as absent. An absent field gets its default: \`""\`, 0 or null unless its description says otherwise.`,
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(writable.map((field) => [field.name, fieldInputSchema(field)])),
  };
}

export function patchSchema(fields: readonly Field[], aRecord: string): JsonSchema {
  const writable = writableOf(fields);
  return {
    type: 'object',
    description: `The fields of ${aRecord} to change. Other keys are ignored. Null gives a field its default.`,
    properties: Object.fromEntries(writable.map((field) => [field.name, boundedSchema(field)])),
  };
}

/** The schema of a complete record, which writes respond with and `?expand=` adds. */
export const recordSchema = ({ fields, description }: ResourceDefinition): JsonSchema => ({
  type: 'object',
  description: description || undefined,
  required: fields.map(({ name }) => name),
  properties: fieldSchemas(fields),
});

/** The name of the schema of records as reads return them. */
export const projectionSchemaName = (recordName: string): string => `${recordName}Projection`;

/**
 * The schema of a record as reads return it. OpenAPI cannot make a response depend on a parameter, so every field that
 * `?fields=` can leave out is optional. A schema of its own, and not a union with the complete record: a union would
 * accept the same responses, and generators for many languages have no type for it.
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

/** The schemas of fields in a response, by name. */
const fieldSchemas = (fields: readonly Field[]): Readonly<Record<string, JsonSchema>> =>
  Object.fromEntries(
    fields.map((field) => [
      field.name,
      { ...valueSchema(field, field.nullable), ...(field.readOnly && { readOnly: true }) },
    ]),
  );

/** The property that `?expand=` adds to a record, or no property if the resource has no references. */
function expandedSchema(
  { expansion }: ResourceDefinition,
  definitions: readonly ResourceDefinition[],
): Readonly<Record<string, JsonSchema>> {
  if (expansion.length === 0) return {};
  const properties = expansion.map(({ name, to }) => {
    const target = definitions.find((each) => each.name === to);
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

/** A field in a body: null means "absent" unless the field is required. */
function fieldInputSchema(field: Field): JsonSchema {
  const schema = boundedSchema(field);
  if (field.required || field.default === null || field.default === field.type.empty) return schema;
  // Not "default": generators make a property with one required, or send it.
  const text = `Default: \`${field.default}\`.`;
  return { ...schema, description: 'description' in schema ? `${schema.description} ${text}` : text };
}

const boundedSchema = (field: Field): JsonSchema => ({
  ...valueSchema(field, !field.required),
  ...(field.maxLength !== undefined && { maxLength: field.maxLength }),
  ...(field.pattern !== undefined && { pattern: field.pattern }),
});

function valueSchema(field: Field, orNull: boolean): JsonSchema {
  const { json } = field.type;
  const description = [field.description, knownValues(field)].filter((part) => part !== '').join(' ');
  return {
    ...json,
    ...(orNull && { type: [json.type, 'null'] }),
    ...(description !== '' && { description }),
    ...(field.aliasOf && { deprecated: true }),
    // Not "enum": any string is accepted and may be returned, and generated clients must accept it.
    ...(field.values && { examples: field.values.list, 'x-extensible-enum': field.values.list }),
  };
}

function knownValues({ values }: Field): string {
  if (values === undefined) return '';
  const list = values.list.map((value) => `\`${value}\``).join(', ');
  return values.closed
    ? `One of ${list}. Any other string is stored too, but filters and reports know only these.`
    : `Suggested: ${list}.`;
}
