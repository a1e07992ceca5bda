import { batchSchemas, type Fragment, referencedUserSchema } from '../compile/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { errorCodes, errorCodesPath } from '../errors.ts';
import type { JsonSchema } from '../fields/index.ts';
import { pageSize } from '../query/index.ts';
import { changeSchemas } from '../records/index.ts';
import { everyHeader, headers, parameters, responses, schemaExamples } from './openapi-components.ts';

/** Schemas shared by all resources. */

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/**
 * Error schemas. Shared parts are separate schemas, because code generators do not resolve references to
 * parts of other schemas.
 */
const errorSchemas = {
  ErrorMessage: { type: 'string', description: 'A human-readable message. Its text can change.' },
  ErrorCode: {
    type: 'string',
    // An `enum` would make generated clients reject codes that are added later.
    description: `A stable identifier for programs. ${Object.entries(errorCodes)
      .map(([code, meaning]) => `\`${code}\`: ${meaning}`)
      .join(' ')} New codes can be added: handle an unknown code by its HTTP status.`,
    examples: Object.keys(errorCodes),
    'x-extensible-enum': Object.keys(errorCodes),
  },
  FieldErrors: {
    type: 'array',
    description: 'The invalid fields or parameters, for 400 and 409 responses; at most 100.',
    maxItems: 100,
    items: ref('FieldError'),
  },
  FieldError: {
    type: 'object',
    description: 'An error in a field or parameter.',
    required: ['field', 'message'],
    properties: { field: { type: 'string' }, message: { type: 'string' }, hint: ref('Hint') },
  },
  Hint: {
    type: 'string',
    description:
      'What to do about the error, for example `Did you mean "name"?`. The message ends with the same text. Absent if there is no advice.',
  },
  OmittedFields: {
    type: 'integer',
    minimum: 1,
    description:
      'Number of invalid fields or parameters that `fields` omits; absent if it lists all of them.',
  },
  ExistingId: {
    type: 'integer',
    format: 'int64',
    description:
      'With `duplicate`, the ID of the record that already has the value, if the caller is allowed to read it.',
  },
  RejectedConstraint: {
    type: 'string',
    description: 'With `rejected_by_database`, the constraint or trigger function that rejected the write.',
  },
  Referrers: {
    type: 'array',
    description:
      'With `referenced`, the references that prevent the delete. Only records that the caller can see are counted.',
    items: {
      type: 'object',
      required: ['resource', 'field', 'count'],
      properties: {
        resource: { type: 'string', description: 'Resource of the records with the reference.' },
        field: { type: 'string', description: 'Name of the reference.' },
        count: { type: 'integer', minimum: 0, maximum: 1000, description: 'Number of records.' },
        more: {
          type: 'boolean',
          const: true,
          description: 'Present if there are more than `count` records.',
        },
      },
    },
  },
  MissingGrant: {
    type: 'string',
    description:
      "With `forbidden` and `outside_scope`, the grant that the caller's profile would need, as `object:action`. Absent if grants are not the reason.",
  },
  Error: {
    type: 'object',
    description: 'The body of every error response.',
    required: ['error', 'code', 'request_id'],
    properties: {
      error: ref('ErrorMessage'),
      hint: ref('Hint'),
      fields: ref('FieldErrors'),
      more: ref('OmittedFields'),
      code: ref('ErrorCode'),
      report: {
        type: 'object',
        description: 'The `ImportReport` of an import that failed after writing some of its lines.',
      },
      existing_id: ref('ExistingId'),
      constraint: ref('RejectedConstraint'),
      referrers: ref('Referrers'),
      grant: ref('MissingGrant'),
      request_id: {
        type: 'string',
        description: "The response's `X-Request-Id`, which also appears in the log and the activity.",
      },
    },
  },
  Problem: {
    description:
      'The body of every error response to a request whose `Accept` header names `application/problem+json` and prefers it at least as much as `application/json` (RFC 9457). It also has the properties of `Error`.',
    allOf: [
      ref('Error'),
      {
        type: 'object',
        required: ['type', 'title', 'status', 'detail', 'instance'],
        properties: {
          type: {
            type: 'string',
            format: 'uri-reference',
            description: `The error code as a URL, for example \`${errorCodesPath}#not_found\`.`,
          },
          title: { type: 'string', description: "The code's meaning." },
          status: { type: 'integer', minimum: 400, maximum: 599, description: 'The HTTP status.' },
          detail: { type: 'string', description: 'The same text as `error`.' },
          instance: {
            type: 'string',
            format: 'uri-reference',
            description: 'The request ID as a URN, for example `urn:request-id:8c1f0d2a-00000e`.',
          },
        },
      },
    ],
  },
};

const count = (description: string) => ({ type: 'integer', minimum: 0, description });
const importReport = {
  type: 'object',
  required: ['created', 'updated', 'failed', 'stopped', 'dry_run', 'ignored', 'lines', 'truncated'],
  properties: {
    created: count('Number of created records, or with `dry_run`, of records that would be created.'),
    updated: count('Number of existing records updated because of `match`.'),
    failed: count('Number of lines that were not written.'),
    stopped: {
      type: 'boolean',
      description:
        'With `on_error=stop`, whether the import stopped at a failed line. Earlier lines were written; the failed line and later lines were not.',
    },
    dry_run: { type: 'boolean' },
    ignored: {
      type: 'array',
      description: 'CSV columns that are not writable fields.',
      items: { type: 'string' },
    },
    lines: {
      type: 'array',
      description: 'The first 1,000 lines that failed.',
      items: {
        type: 'object',
        required: ['line', 'error', 'code'],
        properties: {
          line: {
            type: 'integer',
            minimum: 1,
            description: 'Line number in the body at which the record starts.',
          },
          error: { type: 'string' },
          hint: ref('Hint'),
          code: { type: 'string' },
          fields: ref('FieldErrors'),
          more: ref('OmittedFields'),
          constraint: ref('RejectedConstraint'),
          grant: ref('MissingGrant'),
        },
      },
    },
    truncated: { type: 'boolean', description: 'Whether more lines failed than `lines` contains.' },
  },
};

const schemas = {
  Deleted: {
    type: 'object',
    description: 'The request succeeded.',
    required: ['ok'],
    properties: { ok: { type: 'boolean', const: true } },
  },
  ...errorSchemas,
  ImportReport: importReport,
  ...batchSchemas,
  ReferencedUser: referencedUserSchema,
};

/** Path prefix of the REST API. */
export const apiPrefix = '/api/v1';

type ByName<T> = Readonly<Record<string, T>>;
type Paths = NonNullable<Fragment['paths']>;

const mapValues = <From, To>(record: ByName<From>, change: (value: From) => To): Record<string, To> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));

const schemaReference = '#/components/schemas/';

/** Returns a function that adds the example of a body's schema to the body, under the schema's name. */
const addExample =
  (examples: ByName<unknown>) =>
  <T extends JsonSchema>(body: T): T =>
    'content' in body
      ? {
          ...body,
          content: mapValues(body.content as ByName<JsonSchema>, (media) => {
            const { $ref = '' } = media.schema as { readonly $ref?: string };
            const name = $ref.slice(schemaReference.length);
            return Object.hasOwn(examples, name) && !('examples' in media)
              ? { ...media, examples: { [name]: { value: examples[name] } } }
              : media;
          }),
        }
      : body;

/** Adds examples, common response headers and the 405 response to every operation. */
function completePaths(paths: Paths, examples: ByName<unknown>): Paths {
  const withExample = addExample(examples);
  const response = (input: JsonSchema): JsonSchema =>
    '$ref' in input
      ? input
      : { ...withExample(input), headers: { ...everyHeader, ...(input.headers ?? {}) } };
  const operation = (input: JsonSchema): JsonSchema => ({
    ...input,
    ...('requestBody' in input && { requestBody: withExample(input.requestBody as JsonSchema) }),
    responses: {
      ...mapValues(input.responses as ByName<JsonSchema>, response),
      405: { $ref: '#/components/responses/MethodNotAllowed' },
    },
  });
  return mapValues(paths, (path) =>
    mapValues(path, (item) => ('responses' in item ? operation(item) : item)),
  );
}

const mergeAll = <T>(records: readonly (ByName<T> | undefined)[]): Record<string, T> =>
  Object.assign({}, ...records);

/**
 * Builds an instance's OpenAPI 3.1 document from the fragments of its modules.
 * @param info additional keys for the `info` object
 * @param definitions the instance's resources
 */
export function openApiDocument(
  fragments: readonly Fragment[],
  info: JsonSchema & { readonly version: string },
  definitions: readonly ResourceDefinition[],
): JsonSchema {
  const examples = mergeAll([schemaExamples, ...fragments.map((fragment) => fragment.examples)]);
  const paths = completePaths(mergeAll(fragments.map((fragment) => fragment.paths)), examples);
  const text = JSON.stringify(paths);
  const usedResponses = Object.entries(responses).filter(([name]) =>
    text.includes(`"#/components/responses/${name}"`),
  );
  const security = fragments.flatMap(({ security = [] }) => security);
  const usedSchemes = new Set(
    [
      ...security,
      ...Object.values(paths).flatMap((path) =>
        Object.values(path).flatMap((item) => ('security' in item ? (item.security as JsonSchema[]) : [])),
      ),
    ].flatMap(Object.keys),
  );
  return {
    openapi: '3.1.1',
    info: {
      title: 'CRM API',
      ...info,
      summary: "Records in the caller's own organization.",
      description: `Every record belongs to one organization; the API key decides which. Lists are paginated, with ${pageSize} records per page; follow \`next\` in the \`Link\` header until it is absent. Unknown list parameters are ignored unless the request has \`Prefer: handling=strict\`, which is a good default for clients. Identifiers are 64-bit integers. Timestamps keep the UTC offset that was sent, so clients that validate them must allow offsets. Every path with GET also supports HEAD, which is not listed and returns the same status and headers without the body. OPTIONS returns 204 with \`Allow\`.`,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'This instance.' }],
    security,
    tags: fragments.flatMap(({ tag = [] }) => tag),
    paths,
    webhooks: mergeAll(fragments.map((fragment) => fragment.webhooks)),
    components: {
      schemas: {
        ...mergeAll(fragments.map((fragment) => fragment.schemas)),
        ...schemas,
        ...changeSchemas(definitions),
      },
      responses: mapValues(Object.fromEntries(usedResponses), (response) => ({
        ...response,
        headers: { ...response.headers, ...mergeAll(fragments.map(({ errorHeaders }) => errorHeaders)) },
      })),
      headers,
      parameters: { ...parameters, ...mergeAll(fragments.map((fragment) => fragment.parameters)) },
      securitySchemes: Object.fromEntries(
        Object.entries(mergeAll(fragments.map((fragment) => fragment.securitySchemes))).filter(([name]) =>
          usedSchemes.has(name),
        ),
      ),
    },
  };
}
