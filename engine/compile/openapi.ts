import type { ResourceDefinition, Unique } from '../definition/index.ts';
import type { Field, Schema } from '../fields/index.ts';
import { pageSize } from '../query/index.ts';
import {
  type DescribedResource,
  formatOf,
  maxItems,
  type Operation,
  operations,
  type Upload,
  uploads,
} from '../records/index.ts';

/** The OpenAPI description of one part of the service. */
export interface Fragment {
  readonly tag?: Schema;
  readonly paths?: Readonly<Record<string, Schema>>;
  readonly schemas?: Readonly<Record<string, Schema>>;
  /** Ways to authenticate for all operations of the document. */
  readonly security?: readonly Schema[];
  readonly securitySchemes?: Readonly<Record<string, Schema>>;
}

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const pascal = (name: string) => name.replace(/(?:^|_)([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const content = (schema: Schema, types: readonly string[] = ['application/json']) =>
  Object.fromEntries(types.map((type) => [type, { schema }]));

/** What the description of a resource says of the instance. */
interface Surroundings {
  /** All resources, for those that it refers to. */
  readonly definitions: readonly ResourceDefinition[];
  /** Path of the API. */
  readonly prefix: string;
  /** Whether the requests of each caller are limited. */
  readonly isLimited: boolean;
}
type Described = Operation | Upload;

/** Compiles the OpenAPI description of a resource from its definition and operations. */
export function openApiFragment(
  definition: ResourceDefinition,
  { definitions, prefix, isLimited }: Surroundings,
): Fragment {
  const { name, singular, description, fields } = definition;
  const recordName = pascal(singular);
  const word = singular.replaceAll('_', ' ');
  const aRecord = `${/^[aeiou]/.test(word) ? 'an' : 'a'} ${word}`;
  const resource: DescribedResource = { definition, aRecord, recordName, pluralName: pascal(name) };
  const all = [...Object.values(operations), ...Object.values(uploads)] as unknown as readonly Described[];
  const at = (path: Described['path']) =>
    Object.fromEntries(
      all
        .filter((operation) => operation.path === path)
        .map((operation) => [
          operation.method.toLowerCase(),
          describeOperation(resource, operation, isLimited),
        ]),
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
      [`${prefix}/${name}/import`]: at('/import'),
      [`${prefix}/${name}/{id}`]: { parameters: [id], ...at('/:id') },
      [`${prefix}/${name}/batch`]: at('/batch'),
    },
    schemas: {
      [recordName]: {
        type: 'object',
        description: description || undefined,
        required: fields.map((field) => field.name),
        properties: {
          ...Object.fromEntries(fields.map((field) => [field.name, recordSchema(field)])),
          ...expandedSchema(definition, definitions),
        },
      },
      [`${recordName}Input`]: inputSchema(fields, aRecord),
      [`${recordName}Patch`]: patchSchema(fields, aRecord),
      [`${recordName}Batch`]: batchSchema(ref('schemas', `${recordName}Input`), definition.uniques),
      [`${recordName}BatchPatch`]: batchSchema({
        allOf: [
          ref('schemas', `${recordName}Patch`),
          { type: 'object', required: ['id'], properties: { id: id.schema } },
        ],
      }),
      [`${recordName}List`]: {
        type: 'object',
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
/** Many records, which no schema describes; a list has the whole of its result, not a page. */
const linesContent = { schema: { type: 'string' } };
const tagHeader = {
  ETag: {
    description: 'Identifies the record as it is shown; for `If-Match` and `If-None-Match`.',
    schema: { type: 'string' },
  },
};

/** Fields of draft-ietf-httpapi-ratelimit-headers-09. */
const limitHeaders = {
  'RateLimit-Policy': {
    description: 'Requests (`q`) that the caller may send in a window of so many seconds (`w`).',
    schema: { type: 'string', examples: ['"requests";q=60;w=60'] },
  },
  RateLimit: {
    description: 'Requests that are left (`r`) in a window that ends in so many seconds (`t`).',
    schema: { type: 'string', examples: ['"requests";r=59;t=41'] },
  },
};
const tooMany = {
  description: 'The caller has sent as many requests as the instance allows; nothing was done.',
  headers: {
    'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer', minimum: 0 } },
    ...limitHeaders,
  },
  content: content(ref('schemas', 'Error')),
};

/** An operation as the OpenAPI document describes it. */
function describeOperation(resource: DescribedResource, operation: Described, isLimited: boolean): Schema {
  const { name } = resource.definition;
  const { operationId, summary, parameters = [], body, success } = operation.describe(resource);
  const ofRecord = operation.path === '/:id';
  const isUpload = operation.path === '/import';
  const { formats = [] } = operation;
  const lines = Object.fromEntries(formats.map((name) => [formatOf(name).type, linesContent]));
  const headers = {
    ...(operation.status === 201 && locationHeader),
    ...(operation.method === 'POST' && replayedHeader),
    ...(success.schema === resource.recordName && tagHeader),
    ...success.headers,
    ...(isLimited && limitHeaders),
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
      ...(operation.method === 'POST' && !isUpload ? [ref('parameters', 'IdempotencyKey')] : []),
      ...parameters,
    ],
    ...(body && {
      requestBody: {
        required: true,
        ...(body.description !== undefined && { description: body.description }),
        content: isUpload ? lines : content(ref('schemas', body.schema), body.types),
      },
    }),
    responses: {
      [operation.status]: {
        description: success.description,
        ...(Object.keys(headers).length > 0 && { headers }),
        content: { ...content(ref('schemas', success.schema)), ...(!isUpload && lines) },
      },
      ...(operation.action === 'read' && {
        304: { description: 'The record is as `If-None-Match` says.', headers: tagHeader },
      }),
      ...failures(resource, operation),
      ...(isLimited && { 429: tooMany }),
    },
  };
}

/** The error responses of an operation. */
function failures({ definition }: DescribedResource, operation: Described) {
  const { path, action } = operation;
  const bodyLimit = 'bodyLimit' in operation ? operation.bodyLimit : undefined;
  const isOnce = operation.method === 'POST' && path !== '/import';
  const withId = path === '/:id';
  const isDuplicate = withId && action === 'update' && definition.uniques.length > 0;
  return {
    400: ref('responses', 'BadRequest'),
    401: ref('responses', 'Unauthorized'),
    403: ref('responses', 'Forbidden'),
    ...(withId && { 404: ref('responses', 'NotFound'), 412: ref('responses', 'PreconditionFailed') }),
    ...(isOnce && {
      409: ref(
        'responses',
        definition.uniques.length > 0 && path === '' ? 'StillRunningOrDuplicate' : 'StillRunning',
      ),
    }),
    ...(isDuplicate && { 409: ref('responses', 'Duplicate') }),
    ...((action === 'create' || action === 'update' || bodyLimit !== undefined) && {
      413: ref('responses', 'TooLarge'),
    }),
    ...(isOnce && { 422: ref('responses', 'KeyReused') }),
    500: ref('responses', 'Failure'),
    503: ref('responses', 'Unavailable'),
  };
}

/** The body of a batch. @param uniques where records can be matched by them */
function batchSchema(record: Schema, uniques: readonly Unique[] = []): Schema {
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
export const batchSchemas: Readonly<Record<string, Schema>> = {
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
    description: 'With `on_error: continue`: why the record was not written.',
    required: ['status', 'error', 'code'],
    properties: {
      status: { type: 'integer', enum: [400, 404, 409] },
      error: ref('schemas', 'Error/properties/error'),
      code: ref('schemas', 'Error/properties/code'),
      fields: ref('schemas', 'Error/properties/fields'),
      existing_id: ref('schemas', 'Error/properties/existing_id'),
    },
  },
};

function inputSchema(fields: readonly Field[], aRecord: string): Schema {
  const writable = fields.filter((field) => !field.readOnly);
  const required = writable.filter((field) => field.required).map((field) => field.name);
  return {
    type: 'object',
    description: `The writable fields of ${aRecord}. Other keys are ignored. Null counts as absent.`,
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

/** What `?expand=` adds to a record; nothing where it refers to no others. */
function expandedSchema(
  { expansion }: ResourceDefinition,
  definitions: readonly ResourceDefinition[],
): Readonly<Record<string, Schema>> {
  if (expansion.length === 0) return {};
  const properties = expansion.map(({ name, to }) => {
    const target = definitions.find((each) => each.name === to);
    return [name, { anyOf: [ref('schemas', pascal(target?.singular ?? '')), { type: 'null' }] }];
  });
  return {
    expanded: {
      type: 'object',
      readOnly: true,
      description: 'The records that the references of `?expand=` point to; absent without it.',
      properties: Object.fromEntries(properties),
    },
  };
}

/** A field in a body: null means "absent" unless the field is required. */
const fieldInputSchema = (field: Field): Schema => ({
  ...boundedSchema(field),
  ...(field.required ? {} : { default: field.default }),
});

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
