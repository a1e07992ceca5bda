import type { ResourceDefinition } from '../definition/index.ts';
import type { Field, Schema } from '../fields/index.ts';
import { pageSize } from '../query/index.ts';
import { type Action, type DescribedResource, type Operation, operations } from '../records/index.ts';

/** The OpenAPI description of one part of the service. */
export interface Fragment {
  readonly tag?: Schema;
  /** Operations by path and method; an entry `parameters` has those of all of them. */
  readonly paths?: Readonly<Record<string, Readonly<Record<string, Schema | readonly Schema[]>>>>;
  readonly schemas?: Readonly<Record<string, Schema>>;
  readonly parameters?: Readonly<Record<string, Schema>>;
  /** Examples by the name of their schema, for every body that has it. */
  readonly examples?: Readonly<Record<string, unknown>>;
  /** Ways to authenticate for all operations of the document. */
  readonly security?: readonly Schema[];
  readonly securitySchemes?: Readonly<Record<string, Schema>>;
}

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
/** A name as schemas and operation ids have it. */
export const pascal = (name: string) =>
  name.replace(/(?:^|_)([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const content = (schema: Schema, types: readonly string[] = ['application/json']) =>
  Object.fromEntries(types.map((type) => [type, { schema }]));

/** Compiles the OpenAPI description of a resource from its definition and operations. */
export function openApiFragment(definition: ResourceDefinition, prefix: string): Fragment {
  const { name, singular, description, fields } = definition;
  const recordName = pascal(singular);
  const word = singular.replaceAll('_', ' ');
  const aRecord = `${/^[aeiou]/.test(word) ? 'an' : 'a'} ${word}`;
  const resource: DescribedResource = { definition, aRecord, recordName, pluralName: pascal(name) };
  const all: readonly Operation[] = Object.values(operations) as unknown as readonly Operation[];
  const parameters: Record<string, Schema> = {};
  /** Query parameters stand among the components, because HEAD has them too. */
  const shared = (parameter: Schema): Schema => {
    if ('$ref' in parameter) return parameter;
    const key = `${name}.${String(parameter.name).replace(/\[(\w+)\]/, '.$1')}`;
    parameters[key] = parameter;
    return ref('parameters', key);
  };
  const at = (path: Operation['path']) =>
    Object.fromEntries(
      all
        .filter((operation) => operation.path === path)
        .map((operation) => [operation.method.toLowerCase(), describeOperation(resource, operation, shared)]),
    );
  const id = {
    name: 'id',
    in: 'path',
    required: true,
    description: `The ${word}'s id.`,
    schema: { type: 'integer', format: 'int64' },
  };

  return {
    tag: { name, description },
    paths: {
      [`${prefix}/${name}`]: at(''),
      [`${prefix}/${name}/{id}`]: { parameters: [id], ...at('/:id') },
    },
    parameters,
    schemas: {
      [recordName]: {
        type: 'object',
        description: description || undefined,
        required: fields.map((field) => field.name),
        properties: Object.fromEntries(fields.map((field) => [field.name, recordSchema(field)])),
      },
      [`${recordName}Input`]: inputSchema(fields, aRecord),
      [`${recordName}Patch`]: patchSchema(fields, aRecord),
      [`${recordName}List`]: {
        type: 'object',
        description: `A page of ${name}.`,
        required: ['data', 'page', 'per_page'],
        properties: {
          data: { type: 'array', maxItems: pageSize, items: ref('schemas', recordName) },
          page: { type: 'integer', minimum: 1, description: 'The page asked for.' },
          per_page: { type: 'integer', const: pageSize },
        },
      },
    },
  };
}

const locationHeader = { Location: { description: 'Path of the new record.', schema: { type: 'string' } } };
const replayedHeader = {
  'Idempotency-Replayed': {
    description: '`true` if the `Idempotency-Key` was sent before, and this is the response of that time.',
    schema: { type: 'string', const: 'true' },
  },
};
const preferenceHeader = { 'Preference-Applied': ref('headers', 'PreferenceApplied') };
const tagHeader = {
  ETag: {
    description: 'Identifies the record as it is shown; for `If-Match` and `If-None-Match`.',
    schema: { type: 'string' },
  },
};

/** An operation as the OpenAPI document describes it. */
function describeOperation(
  resource: DescribedResource,
  operation: Operation,
  shared: (parameter: Schema) => Schema,
): Schema {
  const { name } = resource.definition;
  const { operationId, summary, parameters = [], body, success } = operation.describe(resource);
  const ofRecord = operation.path === '/:id';
  const headers = {
    ...preferenceHeader,
    ...(operation.status === 201 && { ...locationHeader, ...replayedHeader }),
    ...(success.schema === resource.recordName && tagHeader),
    ...success.headers,
  };
  return {
    operationId,
    summary,
    description: `Needs the grant ${operation.action} on ${name}.`,
    tags: [name],
    parameters: [
      ref('parameters', 'org'),
      ref('parameters', 'Prefer'),
      ...(ofRecord ? [ref('parameters', 'IfMatch'), ref('parameters', 'IfNoneMatch')] : []),
      ...(operation.action === 'create' ? [ref('parameters', 'IdempotencyKey')] : []),
      ...parameters.map(shared),
    ],
    ...(body && {
      requestBody: {
        required: true,
        ...(body.description !== undefined && { description: body.description }),
        content: content(ref('schemas', body.schema), body.types),
      },
    }),
    responses: {
      [operation.status]: {
        description: success.description,
        headers,
        content: content(ref('schemas', success.schema)),
      },
      ...(operation.action === 'read' && {
        304: {
          description: 'The record is as `If-None-Match` says.',
          headers: { ...preferenceHeader, ...tagHeader },
        },
      }),
      ...failures(operation.action),
    },
  };
}

/** The error responses of each action. */
function failures(action: Action) {
  const withId = action === 'read' || action === 'update' || action === 'delete';
  const withBody = action === 'create' || action === 'update';
  return {
    400: ref('responses', 'BadRequest'),
    401: ref('responses', 'Unauthorized'),
    403: ref('responses', 'Forbidden'),
    ...(withId && { 404: ref('responses', 'NotFound'), 412: ref('responses', 'PreconditionFailed') }),
    ...(action === 'create' && { 409: ref('responses', 'StillRunning') }),
    ...((withBody || action === 'delete') && { 413: ref('responses', 'TooLarge') }),
    ...(action === 'create' && { 422: ref('responses', 'KeyReused') }),
    500: ref('responses', 'Failure'),
    503: ref('responses', 'Unavailable'),
  };
}

function inputSchema(fields: readonly Field[], aRecord: string): Schema {
  const writable = fields.filter((field) => !field.readOnly);
  const required = writable.filter((field) => field.required).map((field) => field.name);
  return {
    type: 'object',
    description: `The writable fields of ${aRecord}. Other keys are ignored. Null counts as absent. An absent field gets its default: \`""\`, 0 or null unless its description says otherwise.`,
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(writable.map((field) => [field.name, fieldInputSchema(field)])),
  };
}

function patchSchema(fields: readonly Field[], aRecord: string): Schema {
  const writable = fields.filter((field) => !field.readOnly);
  return {
    type: 'object',
    description: `The fields of ${aRecord} to change. Other keys are ignored. Null gives a field its default.`,
    properties: Object.fromEntries(writable.map((field) => [field.name, boundedSchema(field)])),
  };
}

/** A field in a response. */
function recordSchema(field: Field): Schema {
  return {
    ...valueSchema(field, field.nullable),
    ...(field.readOnly && { readOnly: true }),
  };
}

/** A field in a body: null means "absent" unless the field is required. */
function fieldInputSchema(field: Field): Schema {
  const schema = boundedSchema(field);
  if (field.required || field.default === null || field.default === field.type.empty) return schema;
  // Not "default": generators make a property with one required, or send it.
  const text = `Default: \`${field.default}\`.`;
  return { ...schema, description: 'description' in schema ? `${schema.description} ${text}` : text };
}

const boundedSchema = (field: Field): Schema => ({
  ...valueSchema(field, !field.required),
  ...(field.maxLength !== undefined && { maxLength: field.maxLength }),
  ...(field.pattern !== undefined && { pattern: field.pattern }),
});

function valueSchema(field: Field, orNull: boolean): Schema {
  const { json } = field.type;
  const description = [field.description, knownValues(field)].filter((part) => part !== '').join(' ');
  return {
    ...json,
    ...(orNull && { type: [json.type, 'null'] }),
    ...(description !== '' && { description }),
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
