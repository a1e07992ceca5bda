import { type ErrorCode, errorCodes, errors, HttpError } from '../errors.ts';
import type { JsonSchema } from '../fields/index.ts';

/** Shared components of the OpenAPI document: error responses, headers, parameters. */

const exampleId = '5f1c0a9e-6d0b-4c4e-9f39-0d2a6c1b7e55';

const requestIdHeader = {
  description:
    "The request's own `X-Request-Id` if it has 1 to 128 letters, digits, `.`, `_`, `:` or `-`; else a new id.",
  required: true,
  schema: { type: 'string', examples: [exampleId] },
};

/** Headers of every response. */
export const everyHeader = { 'X-Request-Id': { $ref: '#/components/headers/RequestId' } };

/** Examples by schema name. */
export const schemaExamples = { Deleted: { ok: true } };

/** Header of responses to requests with `Prefer`. */
const preferenceApplied = {
  'Preference-Applied': { $ref: '#/components/headers/PreferenceApplied' },
};

const retryAfter = (required: boolean) => ({
  'Retry-After': { description: 'Seconds to wait.', required, schema: { type: 'integer', minimum: 0 } },
});

/**
 * Describes an error response, with one example per possible code, named after the code.
 * @param examples the errors as they are thrown
 */
const errorResponse = (description: string, examples: readonly HttpError[], headers?: JsonSchema) => ({
  description: `${description} \`code\` is ${joinList(examples.map(({ code }) => `\`${code}\``))}.`,
  headers: { ...everyHeader, ...headers },
  content: {
    'application/json': {
      schema: { $ref: '#/components/schemas/Error' },
      examples: Object.fromEntries(
        examples.map(({ code, message, extra: { fields, constraint } }) => [
          code,
          {
            summary: errorCodes[code],
            value: { error: message, code, ...(fields && { fields }), constraint, request_id: exampleId },
          },
        ]),
      ),
    },
  },
});

const joinList = (texts: readonly string[]) =>
  texts.length < 2 ? texts.join() : `${texts.slice(0, -1).join(', ')} or ${texts.at(-1)}`;

const errorOf = (status: number, code: ErrorCode, message: string) => new HttpError(status, code, message);

const badRequest = (...extraErrors: readonly HttpError[]) =>
  errorResponse(
    'Wrong parameters, or a body that is not as described.',
    [
      errors.invalidFields([{ field: 'email', message: 'email must be a string' }]),
      errors.invalidJson('the body is empty'),
      errors.malformedHeader('If-Match', 'must be * or a list of entity tags'),
      errors.missingReferences([{ field: 'parent_id', message: 'parent_id 99 does not exist in orders' }]),
      errors.organizationRequired(),
      errors.rejectedByDatabase('orders_total_is_positive'),
      ...extraErrors,
    ],
    preferenceApplied,
  );

const authenticate = {
  'WWW-Authenticate': {
    description: 'Always `Bearer`.',
    required: true,
    schema: { type: 'string', const: 'Bearer' },
  },
};

export const responses = {
  BadRequest: badRequest(),
  BadBatch: badRequest(
    errors.itemsRejected(
      new Map([
        ['records[3]', errors.invalidFields([{ field: 'email', message: 'email must be a string' }])],
      ]),
    ),
  ),
  BadImport: badRequest(errorOf(400, 'invalid_csv', 'the body is not CSV: a quote is not closed')),
  Unauthorized: errorResponse(
    'Missing, wrong, expired or revoked credentials.',
    [errors.unauthenticated(), errors.secondFactorMissing()],
    authenticate,
  ),
  LoginRefused: errorResponse(
    'The email address, the password or the second factor is wrong or missing.',
    [errors.wrongPassword(), errors.secondFactorRequired(), errors.secondFactorMissing()],
    authenticate,
  ),
  Forbidden: errorResponse(
    "The caller's profile lacks the action on the object, `org` names no organization of theirs, or the organization has as much as the operator allows.",
    [
      errors.forbidden('orders', 'delete'),
      errors.quotaExceeded('10000 records'),
      errors.notAMember(),
      errors.crossSite(),
    ],
  ),
  CrossSite: errorResponse("A cookie came with a write from outside the instance's origin.", [
    errors.crossSite(),
  ]),
  Throttled: errorResponse('Too many attempts.', [errors.tooManyAttempts(60)], retryAfter(true)),
  NotFound: errorResponse(
    'The record does not exist in the organization.',
    [errors.notFound()],
    preferenceApplied,
  ),
  MethodNotAllowed: errorResponse(
    'Never for this method: the path responds it to methods that it does not have.',
    [errors.methodNotAllowed('GET, HEAD, POST, OPTIONS')],
    {
      Allow: { description: 'The methods that it has.', required: true, schema: { type: 'string' } },
    },
  ),
  StillRunning: errorResponse(
    'The first request with this `Idempotency-Key` is still running.',
    [errors.stillRunning()],
    { ...preferenceApplied, ...retryAfter(true) },
  ),
  Duplicate: errorResponse(
    'Another record of the organization has the same values of unique fields.',
    [errors.duplicate(['email'])],
    preferenceApplied,
  ),
  StillRunningOrDuplicate: errorResponse(
    'Another record of the organization has the same values of unique fields, or the first request with this `Idempotency-Key` is still running.',
    [errors.duplicate(['email']), errors.stillRunning()],
    { ...preferenceApplied, ...retryAfter(false) },
  ),
  KeyReused: errorResponse(
    'The `Idempotency-Key` was sent with another body before.',
    [errors.keyReused()],
    preferenceApplied,
  ),
  CursorExpired: errorResponse(
    'Changes after the cursor may be missing: it is older than what is kept, or the database was restored. Take a new cursor with `after=now`, then read all records again, then the changes after it.',
    [errors.cursorExpired()],
  ),
  PreconditionFailed: errorResponse(
    'The record has changed: it is not as `If-Match` or `If-None-Match` says. Nothing was written.',
    [errors.preconditionFailed()],
    preferenceApplied,
  ),
  TooLarge: errorResponse(
    'The body is larger than the path allows: 1 MiB, 8 MiB for a batch, what the instance allows for an import, 16 KiB under `/auth`.',
    [errors.tooLarge(1024 * 1024)],
  ),
  Failure: errorResponse(
    'The server or its database failed.',
    [errorOf(500, 'internal', 'the server failed'), errors.database(undefined)],
    { ...preferenceApplied, ...retryAfter(false) },
  ),
  NotConfigured: errorResponse('The endpoint has no secret on this instance.', [errors.notConfigured()]),
  NotRecorded: errorResponse('The instance records no changes.', [errors.notRecorded()]),
  SendFailed: errorResponse(
    'The sender refused the message or did not respond; it is stored with the reason.',
    [errorOf(502, 'send_failed', 'the message was not sent')],
  ),
  Unavailable: errorResponse(
    'Try again: the server is shutting down or read-only for maintenance, too many requests wait already, or the statement took or waited too long and was ended.',
    [errors.overloaded(), errors.tooSlow(undefined), errors.readOnly(), errors.draining()],
    { ...preferenceApplied, ...retryAfter(true) },
  ),
};

export const headers = {
  RequestId: requestIdHeader,
  PreferenceApplied: {
    description:
      'The preferences of `Prefer` that were honored, for example `handling=strict`; absent if none was honored.',
    schema: { type: 'string' },
  },
};

export const parameters = {
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
    description:
      'Selects a page of 20 records. Values below 1 count as 1. `data` is empty beyond the last page.',
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
