import type { ResourceDefinition } from '../definition/index.ts';
import type { Field, JsonSchema } from '../fields/index.ts';
import { pageSize } from '../query/index.ts';
import {
  type DescribedResource,
  formatNames,
  formatOf,
  type Operation,
  operations,
  type Upload,
  uploads,
} from '../records/index.ts';
import { deprecationHeaders, deprecationOf } from './deprecations.ts';
import {
  batchSchema,
  inputSchema,
  linesSchema,
  pascal,
  patchSchema,
  projectionSchema,
  projectionSchemaName,
  recordSchema,
  ref,
} from './schemas.ts';

/** The OpenAPI description of one part of the service. */
export interface Fragment {
  readonly tag?: JsonSchema;
  /**
   * Operations by path and method. A path's `parameters` entry contains the parameters shared by all its operations.
   */
  readonly paths?: Readonly<Record<string, Readonly<Record<string, JsonSchema | readonly JsonSchema[]>>>>;
  /** Requests sent by the instance, by name. */
  readonly webhooks?: Readonly<Record<string, Readonly<Record<string, JsonSchema>>>>;
  readonly schemas?: Readonly<Record<string, JsonSchema>>;
  readonly parameters?: Readonly<Record<string, JsonSchema>>;
  /** Additional headers for the error responses that all operations share. */
  readonly errorHeaders?: Readonly<Record<string, JsonSchema>>;
  /** Examples by schema name, added to every body with that schema. */
  readonly examples?: Readonly<Record<string, unknown>>;
  /** Security requirements for all operations in the document. */
  readonly security?: readonly JsonSchema[];
  readonly securitySchemes?: Readonly<Record<string, JsonSchema>>;
}

const content = (schema: JsonSchema, types: readonly string[] = ['application/json']) =>
  Object.fromEntries(types.map((type) => [type, { schema }]));

/** Properties of the instance that a resource's description depends on. */
interface OpenApiContext {
  /** All resources, to resolve references. */
  readonly definitions: readonly ResourceDefinition[];
  /** Path of the API. */
  readonly prefix: string;
  /** Whether requests are rate limited. */
  readonly isLimited: boolean;
}
type DescribedOperation = Operation | Upload;

/** Returns the OpenAPI description of a resource, compiled from its definition and operations. */
export function openApiFragment(
  definition: ResourceDefinition,
  { definitions, prefix, isLimited }: OpenApiContext,
): Fragment {
  const { name, singular, description, fields } = definition;
  const recordName = pascal(singular);
  const word = singular.replaceAll('_', ' ');
  const aRecord = `${/^[aeiou]/.test(word) ? 'an' : 'a'} ${word}`;
  const resource: DescribedResource = { definition, aRecord, recordName, pluralName: pascal(name) };
  const allOperations = [
    ...Object.values(operations),
    ...Object.values(uploads),
  ] as unknown as readonly DescribedOperation[];
  const parameters: Record<string, JsonSchema> = {};
  /** Moves a query parameter to the components, because the resource's former path shares it. */
  const shareParameter = (parameter: JsonSchema): JsonSchema => {
    if ('$ref' in parameter) return parameter;
    const key = `${name}.${String(parameter.name).replace(/\[(\w+)\]/, '.$1')}`;
    parameters[key] = parameter;
    return ref('parameters', key);
  };
  const isDeprecated = (isFormer: boolean) => deprecationOf(definition, isFormer) !== undefined;
  const operationsAt = (path: DescribedOperation['path'], isFormer: boolean) =>
    Object.fromEntries(
      allOperations
        .filter((operation) => operation.path === path)
        .map((operation) => [
          operation.method.toLowerCase(),
          describeOperation(resource, operation, {
            isLimited,
            shareParameter,
            headers: isDeprecated(isFormer) ? deprecationHeaders : {},
            isFormer,
          }),
        ]),
    );
  const id = {
    name: 'id',
    in: 'path',
    required: true,
    description: `ID of the ${word}.`,
    // The ID of an instance's first record, and of the demo organization.
    schema: { type: 'integer', format: 'int64', examples: [1] },
  };

  return {
    tag: { name, description },
    paths: Object.fromEntries(
      [name, ...(definition.alias === undefined ? [] : [definition.renamedFrom])].flatMap((path) => {
        const isFormer = path !== name;
        return [
          [`${prefix}/${path}`, operationsAt('', isFormer)],
          [`${prefix}/${path}/import`, operationsAt('/import', isFormer)],
          [`${prefix}/${path}/{id}`, { parameters: [id], ...operationsAt('/:id', isFormer) }],
          [`${prefix}/${path}/{id}/history`, { parameters: [id], ...operationsAt('/:id/history', isFormer) }],
          [`${prefix}/${path}/batch`, operationsAt('/batch', isFormer)],
        ];
      }),
    ),
    parameters,
    errorHeaders: { ...(isLimited && limitHeaders), ...(isDeprecated(true) && deprecationHeaders) },
    schemas: {
      [recordName]: recordSchema(definition),
      [projectionSchemaName(recordName)]: projectionSchema(definition, definitions, aRecord),
      [`${recordName}Input`]: inputSchema(fields, aRecord),
      [`${recordName}Patch`]: patchSchema(fields, aRecord),
      [`${recordName}Batch`]: batchSchema(ref('schemas', `${recordName}Input`), definition.uniques),
      [`${recordName}BatchPatch`]: batchSchema({
        allOf: [
          ref('schemas', `${recordName}Patch`),
          { type: 'object', required: ['id'], properties: { id: id.schema } },
        ],
      }),
      // Text formats that OpenAPI cannot describe in more detail.
      ...Object.fromEntries(
        formatNames.map((format) => [
          linesSchema(recordName, format),
          { type: 'string', description: `All ${name} as ${formatOf(format).type}, without pages.` },
        ]),
      ),
      [`${recordName}List`]: {
        type: 'object',
        description: `A page of ${name}.`,
        required: ['data', 'page', 'per_page'],
        properties: {
          data: {
            type: 'array',
            maxItems: pageSize,
            items: ref('schemas', projectionSchemaName(recordName)),
          },
          page: { type: 'integer', minimum: 1, description: 'The requested page.' },
          per_page: { type: 'integer', const: pageSize },
        },
      },
    },
  };
}

const locationHeader = { Location: { description: 'Path of the new record.', schema: { type: 'string' } } };
const replayedHeader = {
  'Idempotency-Replayed': {
    description: '`true` if the `Idempotency-Key` was used before and this is the stored response.',
    schema: { type: 'string', const: 'true' },
  },
};
const preferenceHeader = { 'Preference-Applied': ref('headers', 'PreferenceApplied') };
const etagHeader = {
  ETag: {
    description: 'Entity tag of this version of the record, for `If-Match` and `If-None-Match`.',
    schema: { type: 'string' },
  },
};

/** Rate limit headers, defined in draft-ietf-httpapi-ratelimit-headers-09. */
const limitHeaders = {
  'RateLimit-Policy': {
    description: 'Maximum number of requests (`q`) in a window of `w` seconds.',
    schema: { type: 'string', examples: ['"requests";q=60;w=60'] },
  },
  RateLimit: {
    description: 'Remaining requests (`r`) in the current window, which ends in `t` seconds.',
    schema: { type: 'string', examples: ['"requests";r=59;t=41'] },
  },
};
const tooManyRequests = {
  description: 'The caller has exceeded the rate limit. The request was not processed.',
  headers: {
    'Retry-After': {
      description: 'Seconds to wait before the next request.',
      schema: { type: 'integer', minimum: 0 },
    },
    ...limitHeaders,
  },
  content: content(ref('schemas', 'Error')),
};

const unknownParametersNote =
  ' Unknown parameters are ignored, so a mistyped filter returns every record; `Prefer: handling=strict` rejects such requests.';

/** Properties that an operation's description depends on. */
interface DescriptionContext {
  readonly isLimited: boolean;
  /** Adds a query parameter to the components and returns a reference to it. */
  readonly shareParameter: (parameter: JsonSchema) => JsonSchema;
  /** Additional headers for every response. */
  readonly headers: Readonly<Record<string, JsonSchema>>;
  /** Whether the path contains the resource's former name. */
  readonly isFormer: boolean;
}

/** Returns the query parameters, followed by deprecated parameters for former field names. */
const withFormerNames = (
  parameters: readonly JsonSchema[],
  fields: readonly Field[],
): readonly JsonSchema[] =>
  parameters.flatMap((parameter) => {
    const [name = ''] = /^\w+/.exec(String(parameter.name)) ?? [];
    const formerField = fields.find(({ aliasOf }) => aliasOf?.name === name);
    if (formerField === undefined) return [parameter];
    const { description } = formerField;
    return [
      parameter,
      {
        ...parameter,
        name: String(parameter.name).replace(name, formerField.name),
        description,
        deprecated: true,
      },
    ];
  });

/** Returns the OpenAPI description of an operation. */
function describeOperation(
  resource: DescribedResource,
  operation: DescribedOperation,
  { isLimited, shareParameter, headers: commonHeaders, isFormer }: DescriptionContext,
): JsonSchema {
  const { definition } = resource;
  const { name } = definition;
  const { operationId, summary, parameters = [], body, success } = operation.describe(resource);
  const isRecordPath = operation.path === '/:id';
  const isUpload = operation.path === '/import';
  const { formats = [] } = operation;
  const lineContent = Object.fromEntries(
    formats.map((format) => [
      formatOf(format).type,
      { schema: ref('schemas', linesSchema(resource.recordName, format)) },
    ]),
  );
  const returnsRecord = [resource.recordName, projectionSchemaName(resource.recordName)].includes(
    success.schema,
  );
  const headers = {
    ...preferenceHeader,
    ...(operation.status === 201 && locationHeader),
    ...(operation.method === 'POST' && !isUpload && replayedHeader),
    ...(returnsRecord && etagHeader),
    ...success.headers,
    ...(isLimited && limitHeaders),
    ...commonHeaders,
  };
  return {
    operationId: isFormer ? `${operationId}Formerly` : operationId,
    ...(isFormer && { deprecated: true }),
    summary,
    description: `${summary.replace(/^\w+/, '$&s')}.${operation.action === 'list' ? unknownParametersNote : ''} Requires the \`${operation.action}\` grant on \`${name}\`.`,
    tags: [name],
    parameters: [
      ref('parameters', 'Prefer'),
      ref('parameters', 'org'),
      ...(isRecordPath ? [ref('parameters', 'IfMatch'), ref('parameters', 'IfNoneMatch')] : []),
      ...(operation.method === 'POST' && !isUpload ? [ref('parameters', 'IdempotencyKey')] : []),
      ...withFormerNames(parameters, definition.fields).map(shareParameter),
    ],
    ...(body && {
      requestBody: {
        required: true,
        ...(body.description !== undefined && { description: body.description }),
        content: isUpload ? lineContent : content(ref('schemas', body.schema), body.types),
      },
    }),
    responses: {
      [operation.status]: {
        description: success.description,
        headers,
        content: { ...content(ref('schemas', success.schema)), ...(!isUpload && lineContent) },
      },
      ...(isRecordPath &&
        operation.action === 'read' && {
          304: {
            description: 'The record has not changed: its entity tag matches `If-None-Match`.',
            headers: { ...preferenceHeader, ...etagHeader, ...commonHeaders },
          },
        }),
      ...failures(resource, operation),
      ...(isLimited && { 429: tooManyRequests }),
    },
  };
}

/** Components for 400 responses that differ from the default response, by path. */
const badRequests: Readonly<Partial<Record<DescribedOperation['path'], string>>> = {
  '/batch': 'BadBatch',
  '/import': 'BadImport',
};

/** Returns the error responses of an operation. */
function failures({ definition }: DescribedResource, operation: DescribedOperation) {
  const { method, path, action } = operation;
  const acceptsIdempotencyKey = method === 'POST' && path !== '/import';
  const isRecordPath = path === '/:id';
  const isDuplicate = isRecordPath && action === 'update' && definition.uniques.length > 0;
  return {
    400: ref('responses', badRequests[path] ?? 'BadRequest'),
    401: ref('responses', 'Unauthorized'),
    403: ref('responses', 'Forbidden'),
    ...((isRecordPath || path === '/:id/history') && { 404: ref('responses', 'NotFound') }),
    ...(isRecordPath && { 412: ref('responses', 'PreconditionFailed') }),
    ...(acceptsIdempotencyKey && {
      409: ref(
        'responses',
        definition.uniques.length > 0 && path === '' ? 'StillRunningOrDuplicate' : 'StillRunning',
      ),
    }),
    ...(isDuplicate && { 409: ref('responses', 'Duplicate') }),
    ...(method !== 'GET' && { 413: ref('responses', 'TooLarge') }),
    ...(acceptsIdempotencyKey && { 422: ref('responses', 'KeyReused') }),
    500: ref('responses', 'Failure'),
    503: ref('responses', 'Unavailable'),
  };
}
