import { errorCodes, errors, formatCount, type HttpError } from '../errors.ts';
import type { JsonSchema } from '../fields/index.ts';
import { pageSize } from '../query/index.ts';
import {
  batchLimits,
  defaultBodyLimit,
  maxBulk,
  maxBulkBytes,
  maxDeleted,
  maxExactCount,
  maxMoved,
  maxQueryBytes,
  retentionHours,
  undoDays,
} from '../records/index.ts';
import { problemJson } from './reply.ts';

/** Shared components of the OpenAPI document: error responses, headers, parameters. */

const exampleId = '5f1c0a9e-6d0b-4c4e-9f39-0d2a6c1b7e55';

const requestIdHeader = {
  description:
    "The request's own `X-Request-Id` if it has 1 to 128 letters, digits, `.`, `_`, `:` or `-`; otherwise a new ID.",
  required: true,
  schema: { type: 'string', examples: [exampleId] },
};

/** Headers included in every response. */
export const everyHeader = { 'X-Request-Id': { $ref: '#/components/headers/RequestId' } };

/** Examples, keyed by schema name. */
export const schemaExamples = { Deleted: { ok: true } };

/** Header included in responses to requests with `Prefer`. */
const preferenceApplied = {
  'Preference-Applied': { $ref: '#/components/headers/PreferenceApplied' },
};

const retryAfter = (required: boolean) => ({
  'Retry-After': {
    description: 'Number of seconds to wait before retrying.',
    required,
    schema: { type: 'integer', minimum: 0 },
  },
});

/**
 * Describes an error response. Each possible error code has one example, named after the code.
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
    [problemJson]: { schema: { $ref: '#/components/schemas/Problem' } },
  },
});

const joinList = (texts: readonly string[]) =>
  texts.length < 2 ? texts.join() : `${texts.slice(0, -1).join(', ')} or ${texts.at(-1)}`;

const badRequest = (...extraErrors: readonly HttpError[]) =>
  errorResponse(
    'Invalid parameters, or a body that does not match its description.',
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

const transitionExample = errors.invalidTransition('status', { value: 'draft' }, 'sold', ['listed']);

const itemsRejected = errors.itemsRejected(
  new Map([['records[3]', errors.invalidFields([{ field: 'email', message: 'email must be a string' }])]]),
);
const invalidCsv = errors.invalidCsv('a quote is not closed');
const rejectedByModule = errors.rejectedByModule('The order has already been shipped', undefined);

const failure = (...extraErrors: readonly HttpError[]) =>
  errorResponse(
    'The server or its database failed.',
    [errors.internal(undefined), errors.database(undefined), ...extraErrors],
    { ...preferenceApplied, ...retryAfter(false) },
  );

export const responses = {
  BadRequest: badRequest(),
  BadBatch: badRequest(itemsRejected),
  BadImport: badRequest(invalidCsv),
  // Writes of an instance whose modules have hooks.
  BadRequestOrRejected: badRequest(rejectedByModule),
  BadBatchOrRejected: badRequest(itemsRejected, rejectedByModule),
  BadImportOrRejected: badRequest(invalidCsv, rejectedByModule),
  FailureOfModule: failure(errors.moduleFailed('scores', 'beforeWrite of orders', 'it threw an error')),
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
    "The caller's profile does not grant the action on the object, the caller is not a member of the organization in `org`, or the organization has reached a limit set by the operator.",
    [
      errors.forbidden('orders', 'delete'),
      errors.outsideScope('orders', 'update'),
      errors.quotaExceeded(10000, 'records'),
      errors.notAMember(),
      errors.crossSite(),
    ],
  ),
  CrossSite: errorResponse('A write with a session cookie came from another origin.', [errors.crossSite()]),
  Throttled: errorResponse('Too many attempts.', [errors.tooManyAttempts(60)], retryAfter(true)),
  NotFound: errorResponse(
    'The record does not exist in the organization.',
    [errors.notFound()],
    preferenceApplied,
  ),
  MethodNotAllowed: errorResponse(
    'The path does not support the method. Never returned for this method, except without a preference that it requires.',
    [errors.methodNotAllowed('GET, HEAD, QUERY, POST, OPTIONS')],
    {
      Allow: {
        description: 'The methods that the path supports.',
        required: true,
        schema: { type: 'string' },
      },
    },
  ),
  StillRunning: errorResponse(
    'The first request with this `Idempotency-Key` is still running.',
    [errors.stillRunning()],
    { ...preferenceApplied, ...retryAfter(true) },
  ),
  Duplicate: errorResponse(
    'Another record in the organization has the same values in unique fields.',
    [errors.duplicate(['email'])],
    preferenceApplied,
  ),
  CustomFieldExists: errorResponse('A custom field has this name, or had it before it was deleted.', [
    errors.customFieldExists('tier', false),
  ]),
  InvalidTransition: errorResponse(
    'A field cannot change from its current value to the new one.',
    [transitionExample],
    preferenceApplied,
  ),
  UpdateRejected: errorResponse(
    'Another record in the organization has the same values in unique fields, a field cannot change from its current value to the new one, or other records refer to a record that would be deleted.',
    [
      errors.duplicate(['email']),
      transitionExample,
      errors.referenced('order', [{ resource: 'invoices', field: 'order_id', count: 2, isMore: false }]),
    ],
    preferenceApplied,
  ),
  LockedOrRejected: errorResponse(
    'The record is locked, or the write conflicts with other records: a locked record would change with it, a unique value exists, a field cannot change from its current value to the new one, other records refer to a record that would be deleted, or the first request with this `Idempotency-Key` is still running.',
    [
      errors.locked('order'),
      errors.duplicate(['email']),
      transitionExample,
      errors.referenced('order', [{ resource: 'invoices', field: 'order_id', count: 2, isMore: false }]),
      errors.stillRunning(),
    ],
    { ...preferenceApplied, ...retryAfter(false) },
  ),
  MergeRejected: errorResponse(
    'The records cannot be merged: too many records refer to the other record, records would have the same values in unique fields, a locked record would change, or a field cannot change from its current value to the new one.',
    [
      errors.mergeTooLarge(maxMoved),
      errors.mergeConflict('orders', ['customer_id', 'number']),
      errors.duplicate(['email']),
      errors.locked('order'),
      transitionExample,
    ],
    preferenceApplied,
  ),
  UnmergeRejected: errorResponse(
    `The merge cannot be undone: the records were not merged in the last ${undoDays} days, the other record is no longer in the trash, the fields have changed since, records would have the same values in unique fields, a locked record would change, or a field cannot change back to its previous value.`,
    [
      errors.mergeNotUndoable({ kind: 'tooOld', days: undoDays }),
      errors.mergeConflict('orders', ['customer_id', 'number']),
      errors.duplicate(['email']),
      errors.locked('order'),
      transitionExample,
    ],
    preferenceApplied,
  ),
  BulkRejected: errorResponse(
    `Nothing was written: more than ${formatCount(maxBulk)} records match the filters, or their number has changed since \`confirm\` was issued.`,
    [errors.bulkTooLarge(maxBulk), errors.countChanged()],
    preferenceApplied,
  ),
  BulkDeleteRejected: errorResponse(
    `Nothing was deleted: more than ${formatCount(maxBulk)} records match the filters, their number has changed since \`confirm\` was issued, or more than ${formatCount(maxDeleted)} records would be deleted.`,
    [errors.bulkTooLarge(maxBulk), errors.countChanged(), errors.cascadeTooLarge(maxDeleted)],
    preferenceApplied,
  ),
  StillRunningOrRejected: errorResponse(
    'Another record in the organization has the same values in unique fields, a field cannot have this value in a new record, or the first request with this `Idempotency-Key` is still running.',
    [errors.duplicate(['email']), transitionExample, errors.stillRunning()],
    { ...preferenceApplied, ...retryAfter(false) },
  ),
  Referenced: errorResponse(
    `Nothing was deleted, because other records refer to the record, or to records that would be deleted with it, or because more than ${formatCount(maxDeleted)} records would be deleted.`,
    [
      errors.referenced('order', [{ resource: 'invoices', field: 'order_id', count: 2, isMore: false }]),
      errors.cascadeTooLarge(maxDeleted),
    ],
    preferenceApplied,
  ),
  DuplicateOrReferenced: errorResponse(
    'Another record in the organization has the same values in unique fields, or other records refer to children that would be deleted.',
    [
      errors.duplicate(['email']),
      errors.referenced('order', [{ resource: 'invoices', field: 'order_id', count: 2, isMore: false }]),
    ],
    preferenceApplied,
  ),
  StillRunningOrDuplicate: errorResponse(
    'Another record in the organization has the same values in unique fields, or the first request with this `Idempotency-Key` is still running.',
    [errors.duplicate(['email']), errors.stillRunning()],
    { ...preferenceApplied, ...retryAfter(false) },
  ),
  KeyReused: errorResponse(
    'The `Idempotency-Key` was already used with a different body.',
    [errors.keyReused()],
    preferenceApplied,
  ),
  TooManyJobs: errorResponse('Too many jobs of the organization are waiting.', [errors.tooManyJobs(10)], {
    ...preferenceApplied,
    ...retryAfter(true),
  }),
  CursorExpired: errorResponse(
    'Changes after the cursor may be missing, because the cursor is older than the retained changes or the database was restored. Get a new cursor with `after=now`, read all records again, and then continue with the changes after the new cursor.',
    [errors.cursorExpired()],
  ),
  PreconditionFailed: errorResponse(
    'The record does not satisfy `If-Match` or `If-None-Match`. Nothing was written.',
    [errors.preconditionFailed()],
    preferenceApplied,
  ),
  TooLarge: errorResponse(
    `The body exceeds the path's limit: ${defaultBodyLimit / 1024 / 1024} MiB by default, ${batchLimits.maxBytes / 1024 / 1024} MiB for a batch, ${maxQueryBytes / 1024} KiB for a query, ${maxBulkBytes / 1024} KiB for a bulk change, 16 KiB under \`/auth\`, or the instance's limit for imports.`,
    [errors.tooLarge(defaultBodyLimit)],
  ),
  Failure: failure(),
  NotConfigured: errorResponse('The endpoint has no secret on this instance.', [errors.notConfigured()]),
  NotRecorded: errorResponse('The instance does not record changes.', [errors.notRecorded()]),
  SendFailed: errorResponse(
    'The provider rejected the message or did not respond. The message is stored with the reason.',
    [errors.sendFailed(undefined)],
  ),
  Unavailable: errorResponse(
    'Try again later. The server is shutting down, is read-only during maintenance or has too many waiting requests, or the statement exceeded its time limit or waited too long for a lock.',
    [errors.overloaded(), errors.tooSlow(undefined), errors.readOnly(), errors.draining()],
    { ...preferenceApplied, ...retryAfter(true) },
  ),
};

export const headers = {
  RequestId: requestIdHeader,
  PreferenceApplied: {
    description:
      'The preferences from `Prefer` that were applied, for example `handling=strict`. Absent if none was applied.',
    schema: { type: 'string' },
  },
};

export const parameters = {
  org: {
    name: 'org',
    in: 'query',
    description:
      'Slug of the organization. Required for users who belong to several organizations. Ignored with an API key, which belongs to one organization.',
    schema: { type: 'string' },
  },
  page: {
    name: 'page',
    in: 'query',
    description: `Page number. Each page contains up to ${pageSize} records. Values below 1 are treated as 1. \`data\` is empty after the last page.`,
    schema: { type: 'integer', default: 1 },
  },
  IfMatch: {
    name: 'If-Match',
    in: 'header',
    description:
      'The `ETag` of the record that was read, a list of tags, or `*`. If the record has changed since then, the response is 412 and nothing is written.',
    schema: { type: 'string', examples: ['*'] },
  },
  IfNoneMatch: {
    name: 'If-None-Match',
    in: 'header',
    description:
      "The `ETag` of the caller's copy of the record. If the record has not changed, a read returns 304 without a body, and a write returns 412.",
    schema: { type: 'string' },
  },
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    description: `Makes the create safe to retry for ${retentionHours} hours: requests with the same key and body get the first response. Use a unique value, for example a UUID.`,
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x7e]+$' },
  },
  cursor: {
    name: 'cursor',
    in: 'query',
    description:
      "The position at which the page starts. Follow the URL in the previous page's `Link` header, which includes all parameters. Cannot be combined with `page`.",
    schema: { type: 'string' },
  },
  PreferBulk: {
    name: 'Prefer',
    in: 'header',
    required: true,
    description:
      'Must contain `bulk`. Without it, the path does not support the method, and the response is 405.',
    schema: { type: 'string', examples: ['bulk'] },
  },
  Prefer: {
    name: 'Prefer',
    in: 'header',
    description: `\`handling=strict\` rejects unknown and read-only keys and unknown parameters. Otherwise they are ignored, so a mistyped filter returns every record. For lists, \`count=exact\` returns the total number of records in \`X-Total-Count\`, and \`count=estimated\` returns an estimate if it exceeds ${formatCount(maxExactCount)}.`,
    schema: { type: 'string', examples: ['handling=strict', 'handling=strict, count=exact'] },
  },
};
