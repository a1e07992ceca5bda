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
  /** Operations by path and method; an entry `parameters` has those of all of them. */
  readonly paths?: Readonly<Record<string, Readonly<Record<string, JsonSchema | readonly JsonSchema[]>>>>;
  /** Requests that the instance sends, by their names. */
  readonly webhooks?: Readonly<Record<string, Readonly<Record<string, JsonSchema>>>>;
  readonly schemas?: Readonly<Record<string, JsonSchema>>;
  readonly parameters?: Readonly<Record<string, JsonSchema>>;
  /** Headers that the errors may have which all operations share. */
  readonly errorHeaders?: Readonly<Record<string, JsonSchema>>;
  /** Examples by the name of their schema, for every body that has it. */
  readonly examples?: Readonly<Record<string, unknown>>;
  /** Ways to authenticate for all operations of the document. */
  readonly security?: readonly JsonSchema[];
  readonly securitySchemes?: Readonly<Record<string, JsonSchema>>;
}

const content = (schema: JsonSchema, types: readonly string[] = ['application/json']) =>
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
  const parameters: Record<string, JsonSchema> = {};
  /** Query parameters are components because a resource's former path has them too. */
  const shared = (parameter: JsonSchema): JsonSchema => {
    if ('$ref' in parameter) return parameter;
    const key = `${name}.${String(parameter.name).replace(/\[(\w+)\]/, '.$1')}`;
    parameters[key] = parameter;
    return ref('parameters', key);
  };
  const isDeprecated = (isFormer: boolean) => deprecationOf(definition, isFormer) !== undefined;
  const at = (path: Described['path'], isFormer: boolean) =>
    Object.fromEntries(
      all
        .filter((operation) => operation.path === path)
        .map((operation) => [
          operation.method.toLowerCase(),
          describeOperation(resource, operation, {
            isLimited,
            shared,
            headers: isDeprecated(isFormer) ? deprecationHeaders : {},
            isFormer,
          }),
        ]),
    );
  const id = {
    name: 'id',
    in: 'path',
    required: true,
    description: `The ${word}'s id.`,
    // The first record of an instance, and of the demo organization.
    schema: { type: 'integer', format: 'int64', examples: [1] },
  };

  return {
    tag: { name, description },
    paths: Object.fromEntries(
      [name, ...(definition.alias === undefined ? [] : [definition.renamedFrom])].flatMap((path) => {
        const isFormer = path !== name;
        return [
          [`${prefix}/${path}`, at('', isFormer)],
          [`${prefix}/${path}/import`, at('/import', isFormer)],
          [`${prefix}/${path}/{id}`, { parameters: [id], ...at('/:id', isFormer) }],
          [`${prefix}/${path}/{id}/history`, { parameters: [id], ...at('/:id/history', isFormer) }],
          [`${prefix}/${path}/batch`, at('/batch', isFormer)],
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
      // Texts that no schema describes further.
      ...Object.fromEntries(
        formatNames.map((format) => [
          linesSchema(recordName, format),
          { type: 'string', description: `All of ${name} as ${formatOf(format).type}, not a page.` },
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

const ignored =
  ' A parameter that it does not know is ignored: with a mistyped filter it has every record. `Prefer: handling=strict` refuses such a request.';

/** What the description of an operation says of its resource. */
interface OperationSurroundings {
  readonly isLimited: boolean;
  /** Puts a query parameter among the components. */
  readonly shared: (parameter: JsonSchema) => JsonSchema;
  /** Headers of every response. */
  readonly headers: Readonly<Record<string, JsonSchema>>;
  /** Whether its path has the former name of the resource. */
  readonly isFormer: boolean;
}

/** Query parameters, each also under the former name of its field. */
const withFormerNames = (
  parameters: readonly JsonSchema[],
  fields: readonly Field[],
): readonly JsonSchema[] =>
  parameters.flatMap((parameter) => {
    const [name = ''] = /^\w+/.exec(String(parameter.name)) ?? [];
    const former = fields.find(({ aliasOf }) => aliasOf?.name === name);
    if (former === undefined) return [parameter];
    const { description } = former;
    return [
      parameter,
      {
        ...parameter,
        name: String(parameter.name).replace(name, former.name),
        description,
        deprecated: true,
      },
    ];
  });

/** An operation as the OpenAPI document describes it. */
function describeOperation(
  resource: DescribedResource,
  operation: Described,
  { isLimited, shared, headers: further, isFormer }: OperationSurroundings,
): JsonSchema {
  const { definition } = resource;
  const { name } = definition;
  const { operationId, summary, parameters = [], body, success } = operation.describe(resource);
  const ofRecord = operation.path === '/:id';
  const isUpload = operation.path === '/import';
  const { formats = [] } = operation;
  const lines = Object.fromEntries(
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
    ...(returnsRecord && tagHeader),
    ...success.headers,
    ...(isLimited && limitHeaders),
    ...further,
  };
  return {
    operationId: isFormer ? `${operationId}Formerly` : operationId,
    ...(isFormer && { deprecated: true }),
    summary,
    description: `Needs the grant ${operation.action} on ${name}.${operation.action === 'list' ? ignored : ''}`,
    tags: [name],
    parameters: [
      ref('parameters', 'Prefer'),
      ref('parameters', 'org'),
      ...(ofRecord ? [ref('parameters', 'IfMatch'), ref('parameters', 'IfNoneMatch')] : []),
      ...(operation.method === 'POST' && !isUpload ? [ref('parameters', 'IdempotencyKey')] : []),
      ...withFormerNames(parameters, definition.fields).map(shared),
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
        headers,
        content: { ...content(ref('schemas', success.schema)), ...(!isUpload && lines) },
      },
      ...(ofRecord &&
        operation.action === 'read' && {
          304: {
            description: 'The record is as `If-None-Match` says.',
            headers: { ...preferenceHeader, ...tagHeader, ...further },
          },
        }),
      ...failures(resource, operation),
      ...(isLimited && { 429: tooMany }),
    },
  };
}

/** What is wrong with a request, where there is more than with others. */
const badRequests: Readonly<Partial<Record<Described['path'], string>>> = {
  '/batch': 'BadBatch',
  '/import': 'BadImport',
};

/** The error responses of an operation. */
function failures({ definition }: DescribedResource, operation: Described) {
  const { method, path, action } = operation;
  const isOnce = method === 'POST' && path !== '/import';
  const withId = path === '/:id';
  const isDuplicate = withId && action === 'update' && definition.uniques.length > 0;
  return {
    400: ref('responses', badRequests[path] ?? 'BadRequest'),
    401: ref('responses', 'Unauthorized'),
    403: ref('responses', 'Forbidden'),
    ...((withId || path === '/:id/history') && { 404: ref('responses', 'NotFound') }),
    ...(withId && { 412: ref('responses', 'PreconditionFailed') }),
    ...(isOnce && {
      409: ref(
        'responses',
        definition.uniques.length > 0 && path === '' ? 'StillRunningOrDuplicate' : 'StillRunning',
      ),
    }),
    ...(isDuplicate && { 409: ref('responses', 'Duplicate') }),
    ...(method !== 'GET' && { 413: ref('responses', 'TooLarge') }),
    ...(isOnce && { 422: ref('responses', 'KeyReused') }),
    500: ref('responses', 'Failure'),
    503: ref('responses', 'Unavailable'),
  };
}
