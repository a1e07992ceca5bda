import type { Fragment } from '../compile/index.ts';
import type { Schema } from '../fields/index.ts';

/** Where the REST API of records lives. */
export const apiPrefix = '/api/v1';

const errorSchema = {
  type: 'object',
  required: ['error'],
  properties: {
    error: { type: 'string', description: 'What is wrong, for a person.' },
    fields: {
      type: 'array',
      description: 'With 400: each wrong field or parameter.',
      items: {
        type: 'object',
        required: ['field', 'message'],
        properties: { field: { type: 'string' }, message: { type: 'string' } },
      },
    },
    code: {
      type: 'string',
      description: 'What is wrong, for a program.',
      examples: ['overloaded', 'too_slow'],
    },
    request_id: { type: 'string', description: 'With 5xx: what to look for in the log.' },
  },
};

const failure = (description: string, headers?: Schema) => ({
  description,
  ...(headers && { headers }),
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
  TooLarge: failure('The body is larger than 1 MiB.'),
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
    paths: Object.assign({}, ...fragments.map((fragment) => fragment.paths)),
    components: {
      schemas: {
        ...Object.assign({}, ...fragments.map((fragment) => fragment.schemas)),
        Deleted: {
          type: 'object',
          required: ['ok'],
          properties: { ok: { type: 'boolean', const: true } },
        },
        Error: errorSchema,
      },
      responses,
      parameters,
      securitySchemes: Object.assign({}, ...fragments.map((fragment) => fragment.securitySchemes)),
    },
  };
}
