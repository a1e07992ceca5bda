import { batchSchemas, type Fragment } from '../compile/index.ts';
import { errorCodes } from '../errors.ts';
import type { Schema } from '../fields/index.ts';

/** Where the REST API of records lives. */
export const apiPrefix = '/api/v1';

const errorSchema = {
  type: 'object',
  required: ['error', 'code', 'request_id'],
  properties: {
    error: { type: 'string', description: 'What is wrong, for a person.' },
    fields: {
      type: 'array',
      description: 'With 400 and 409: each wrong field or parameter.',
      items: {
        type: 'object',
        required: ['field', 'message'],
        properties: { field: { type: 'string' }, message: { type: 'string' } },
      },
    },
    code: {
      type: 'string',
      // Not "enum": new codes may come, and generated clients must accept them.
      description: `What is wrong, for a program. ${Object.entries(errorCodes)
        .map(([code, meaning]) => `\`${code}\`: ${meaning}`)
        .join(' ')} Others may come.`,
      examples: Object.keys(errorCodes),
      'x-extensible-enum': Object.keys(errorCodes),
    },
    report: {
      type: 'object',
      description: 'Of an import that failed after it had written some lines: as `ImportReport`.',
    },
    existing_id: {
      type: 'integer',
      format: 'int64',
      description: 'With `duplicate`: the record that has the value, for callers who may read it.',
    },
    request_id: {
      type: 'string',
      description: 'The `X-Request-Id` of the response, as the log and the activity have it.',
    },
  },
};

const count = (description: string) => ({ type: 'integer', minimum: 0, description });
const importReport = {
  type: 'object',
  required: ['created', 'updated', 'failed', 'stopped', 'dry_run', 'ignored', 'lines', 'truncated'],
  properties: {
    created: count('New records; with `dry_run`, all that would be written.'),
    updated: count('Records that were there, with `match`.'),
    failed: count('Lines that were not written.'),
    stopped: {
      type: 'boolean',
      description:
        'With `on_error=stop`: it ended at a line that failed. Those before it are written; it and all after it are not.',
    },
    dry_run: { type: 'boolean' },
    ignored: {
      type: 'array',
      description: 'Columns of CSV that are no writable field.',
      items: { type: 'string' },
    },
    lines: {
      type: 'array',
      description: 'The first 1,000 lines that failed.',
      items: {
        type: 'object',
        required: ['line', 'error', 'code'],
        properties: {
          line: { type: 'integer', minimum: 1, description: 'Where the record begins in the body.' },
          error: { type: 'string' },
          code: { type: 'string' },
          fields: errorSchema.properties.fields,
        },
      },
    },
    truncated: { type: 'boolean', description: 'Whether more lines failed than `lines` has.' },
  },
};

const requestIdHeader = {
  description:
    "The request's own `X-Request-Id` if it has 1 to 128 letters, digits, `.`, `_`, `:` or `-`; else a new id.",
  schema: { type: 'string' },
};
const requestId = { 'X-Request-Id': { $ref: '#/components/headers/RequestId' } };

const failure = (description: string, headers?: Schema) => ({
  description,
  headers: { ...requestId, ...headers },
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
});
const retryAfter = {
  'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer', minimum: 0 } },
};

const responses = {
  BadRequest: failure('Wrong parameters, or a body that is no JSON object or has wrong fields.'),
  Unauthorized: failure('Missing, wrong, expired or revoked credentials.', {
    'WWW-Authenticate': { description: 'Always `Bearer`.', schema: { type: 'string' } },
  }),
  Forbidden: failure(
    "The caller's profile lacks the action on the object, or `org` names no organization of theirs.",
  ),
  CrossSite: failure("A cookie came with a write from outside the instance's origin."),
  Throttled: failure('Too many attempts.', retryAfter),
  NotFound: failure('There is no such record in the organization.'),
  StillRunning: failure('The first request with this `Idempotency-Key` is still running.', retryAfter),
  Duplicate: failure(
    'Another record of the organization has the same values of unique fields (`duplicate`).',
  ),
  StillRunningOrDuplicate: failure(
    'Another record of the organization has the same values of unique fields (`duplicate`), or the first request with this `Idempotency-Key` is still running (`in_progress`).',
    retryAfter,
  ),
  KeyReused: failure('The `Idempotency-Key` was sent with another body before.'),
  PreconditionFailed: failure(
    'The record has changed: it is not as `If-Match` or `If-None-Match` says. Nothing was written.',
  ),
  TooLarge: failure(
    'The body is larger than 1 MiB, 8 MiB for a batch, or what the instance allows for an import.',
  ),
  Failure: failure('The server or its database failed.', retryAfter),
  NotConfigured: failure('The endpoint has no secret on this instance.'),
  SendFailed: failure('The sender refused the message or did not respond; it is stored with the reason.'),
  Unavailable: failure(
    'Try again: the server is shutting down, too many requests wait already (`code` is `overloaded`), or the statement took or waited too long and was ended (`too_slow`).',
    retryAfter,
  ),
};

const parameters = {
  org: {
    name: 'org',
    in: 'query',
    description:
      'Slug of the organization. Required for people who belong to several; ignored with an API key, which has its own.',
    schema: { type: 'string' },
  },
  page: {
    name: 'page',
    in: 'query',
    description: 'Page of 20 records. Values below 1 count as 1; beyond the last, `data` is empty.',
    schema: { type: 'integer', default: 1 },
  },
  IfMatch: {
    name: 'If-Match',
    in: 'header',
    description:
      'The `ETag` of the record that the caller has read, several, or `*`: 412 if the record has changed since, and nothing is written.',
    schema: { type: 'string', examples: ['*'] },
  },
  IfNoneMatch: {
    name: 'If-None-Match',
    in: 'header',
    description:
      'The `ETag` of the record that the caller has: a read responds 304 without a body if it has not changed, a write 412.',
    schema: { type: 'string' },
  },
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'Makes the create safe to send again, for 24 hours: the same key and body get the response of the first time. Any text that the caller uses once, such as a UUID.',
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x7e]+$' },
  },
  cursor: {
    name: 'cursor',
    in: 'query',
    description:
      'Where a page begins. Only from the `Link` header of the page before, together with all parameters that are there; not with `page`.',
    schema: { type: 'string' },
  },
  Prefer: {
    name: 'Prefer',
    in: 'header',
    description:
      '`handling=strict` refuses unknown and read-only keys and parameters, which are ignored otherwise: a list with a mistyped filter has every record. With lists, `count=exact` counts all records into `X-Total-Count`, `count=estimated` those beyond 10,000 only roughly.',
    schema: { type: 'string', examples: ['handling=strict', 'handling=strict, count=exact'] },
  },
};

type Paths = Readonly<Record<string, Readonly<Record<string, Schema>>>>;

/** Adds the header that every response has. */
function withRequestId(paths: Paths): Schema {
  const described = (response: Schema): Schema =>
    '$ref' in response ? response : { ...response, headers: { ...requestId, ...(response.headers ?? {}) } };
  return mapValues(paths, (path) =>
    mapValues(path, (operation) =>
      'responses' in operation
        ? {
            ...operation,
            responses: mapValues(operation.responses as Readonly<Record<string, Schema>>, described),
          }
        : operation,
    ),
  );
}

const mapValues = <From, To>(record: Readonly<Record<string, From>>, change: (value: From) => To) =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));

/** Builds the OpenAPI 3.1 document of the instance from what each part of it says of itself. */
export function openApiDocument(fragments: readonly Fragment[], version: string): Schema {
  return {
    openapi: '3.1.1',
    info: {
      title: 'CRM API',
      version,
      summary: "Records of the caller's own organization.",
      description:
        'Every record belongs to one organization; the API key decides which. Lists have pages of 20; follow the `next` of their `Link` header until there is none. A parameter that a list does not know is ignored unless the request says `Prefer: handling=strict`, which is a good default for clients. Identifiers are 64-bit integers. Timestamps keep the UTC offset that was written.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'This instance.' }],
    security: fragments.flatMap(({ security = [] }) => security),
    tags: fragments.flatMap(({ tag = [] }) => tag),
    paths: withRequestId(Object.assign({}, ...fragments.map((fragment) => fragment.paths))),
    components: {
      schemas: {
        ...Object.assign({}, ...fragments.map((fragment) => fragment.schemas)),
        Deleted: {
          type: 'object',
          required: ['ok'],
          properties: { ok: { type: 'boolean', const: true } },
        },
        ImportReport: importReport,
        ...batchSchemas,
        Error: errorSchema,
      },
      responses,
      headers: { RequestId: requestIdHeader },
      parameters,
      securitySchemes: Object.assign({}, ...fragments.map((fragment) => fragment.securitySchemes)),
    },
  };
}
