// Errors: every error that a client can receive, with its HTTP status, code and message.
// Must not import other project code. Every folder may import it.
import { existsSync } from 'node:fs';

/** An issue with one field or parameter of a request. */
export interface FieldIssue {
  readonly field: string;
  readonly message: string;
}

/** Maximum number of `fields` entries per error, and per response that contains several errors. */
const [maxFields, maxResponseFields] = [100, 1000];
/** Maximum lengths, in characters, of a name echoed from a request and of a combined message. */
const [maxName, maxText] = [100, 1000];

/** Shortens text from a request before a response echoes it, for example the name of an unknown field. */
export const excerpt = (text: string): string =>
  text.length <= maxName ? text : `${text.slice(0, maxName).toWellFormed()}…`;

/** The meaning of each error code. Codes are stable, but new ones may be added. */
export const errorCodes = {
  invalid_request: 'The request violates HTTP, or the HTTP server rejected it.',
  invalid_json: 'The body is empty, not valid JSON, not an object, or sent with another content type.',
  invalid_csv: 'The body, or one of its lines, is not CSV in UTF-8.',
  line_too_long: 'A line of the body is longer than 1 MiB.',
  invalid_input: 'Fields or parameters are invalid; `fields` names them.',
  invalid_header: 'A header is malformed or cannot be used here.',
  missing_reference: 'References do not point to existing records of the organization; `fields` names them.',
  duplicate: 'Another record of the organization has the same value of a unique field; `fields` names it.',
  rejected_by_database:
    'A constraint or trigger added to the database by the operator rejected the record; `constraint` names it.',
  items_refused: 'Records of a batch are invalid, and nothing was written; `fields` names them by index.',
  organization_required: 'The caller belongs to several organizations and must choose one with `?org=`.',
  unauthenticated: 'Credentials are missing, wrong, expired or revoked.',
  second_factor_required: 'The password is correct, but `otp` is missing, wrong or already used.',
  second_factor_missing:
    'The instance requires a second factor, and the user has to set one up in a browser.',
  forbidden: "The profile does not grant the action, or a channel's verify token is wrong.",
  quota_exceeded: "The organization has reached a limit set by the instance's operator.",
  not_a_member: 'The caller is not a member of the organization, or the organization does not exist.',
  cross_site: 'A write with a session cookie came from another origin.',
  not_found: 'The record does not exist in the organization, or the path does not exist.',
  method_not_allowed: 'The path does not support the method.',
  request_timeout: 'The request was sent too slowly.',
  in_progress: 'The first request with this `Idempotency-Key` is still running.',
  cursor_expired:
    "The change feed's cursor is older than the retained changes, or precedes a restore of the database.",
  precondition_failed: 'The record does not meet `If-Match` or `If-None-Match`.',
  body_too_large: 'The body exceeds the limit of the path.',
  expectation_failed: 'The server does not support the expectation in `Expect`.',
  idempotency_key_reused: 'The `Idempotency-Key` was already used with a different body.',
  too_many_attempts: 'Too many wrong passwords or secrets.',
  rate_limited: 'The key or user has exceeded the rate limit of the instance.',
  head_too_large: 'The request headers are too large.',
  internal: 'Internal server error.',
  database_failed: 'The database failed or cannot be reached.',
  not_configured: 'The endpoint has no secret on this instance.',
  not_recorded: 'The instance does not record changes.',
  send_failed: 'The message could not be sent.',
  overloaded: 'Too many requests or events are already waiting.',
  too_slow: 'The statement exceeded its time limit or waited too long for a lock, and was canceled.',
  shutting_down: 'The process is shutting down.',
  read_only: 'The instance is read-only during maintenance.',
} as const;

/** A stable word in snake_case, by which programs can identify an error. */
export type ErrorCode = keyof typeof errorCodes;

/** An error response. Helpers throw it, and the error handler (engine/http/error-handling.ts) sends it. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly status: number;
  readonly code: ErrorCode;
  readonly extra: {
    readonly fields?: readonly FieldIssue[];
    /** Number of entries omitted from `fields`. */
    readonly more?: number;
    /** ID of the conflicting record, as decimal text. */
    readonly existingId?: string;
    /** The constraint or trigger function that rejected the write. */
    readonly constraint?: string;
    readonly headers?: Readonly<Record<string, string>>;
    /** Report on the work completed before the failure. */
    readonly report?: object;
  };
  constructor(
    status: number,
    code: ErrorCode,
    message: string,
    extra: HttpError['extra'] = {},
    options?: { readonly cause?: unknown },
  ) {
    super(message, options);
    this.status = status;
    this.code = code;
    this.extra = limitedFields(extra, maxFields);
  }
}

/** An error's `fields`, and the number of entries omitted from them. */
interface FieldIssues {
  readonly fields?: readonly FieldIssue[] | undefined;
  readonly more?: number | undefined;
}

function limitedFields<T extends FieldIssues>(error: T, limit: number): T {
  const { fields = [], more = 0 } = error;
  if (fields.length <= limit) return error;
  const firstFields = fields.slice(0, limit);
  return {
    ...error,
    fields: firstFields.length === 0 ? undefined : firstFields,
    more: more + fields.length - firstFields.length,
  };
}

/** Returns a function that limits the total number of `fields` entries across the errors of a response. */
export function fieldLimiter(): <T extends FieldIssues>(error: T) => T {
  let remaining = maxResponseFields;
  return (error) => {
    const result = limitedFields(error, remaining);
    remaining -= result.fields?.length ?? 0;
    return result;
  };
}

/** Serializes an error as JSON. @param more additional properties */
export function errorJson(
  { message, code, extra }: Pick<HttpError, 'message' | 'code' | 'extra'>,
  more: Readonly<Record<string, unknown>>,
): string {
  const { fields, more: omitted, existingId, constraint, report } = extra;
  const text = JSON.stringify({ error: message, code, fields, more: omitted, constraint, report, ...more });
  // Inserted as text, because an ID can exceed the range of a JavaScript number.
  return existingId === undefined ? text : `${text.slice(0, -1)},"existing_id":${existingId}}`;
}

/** Returns the text with its first letter in uppercase. */
export const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const fieldsError = (fields: readonly FieldIssue[], code: ErrorCode = 'invalid_input') =>
  new HttpError(400, code, joinMessages(fields), { fields });

/** Joins the messages of issues, up to the maximum length of a message. */
function joinMessages(fields: readonly FieldIssue[]): string {
  let text = '';
  for (const [index, { message }] of fields.entries()) {
    if (index > 0 && text.length + message.length > maxText)
      return `${text}; and ${fields.length - index} more`;
    text += index === 0 ? message : `; ${message}`;
  }
  return text;
}

/** The errors of the REST API, with a constructor for each. */
export const errors = {
  /** 400: the body is not a JSON object sent as application/json. */
  invalidJson: (reason: string) => new HttpError(400, 'invalid_json', `Invalid JSON body: ${reason}`),
  /** 400: the body or one of its lines is not valid CSV in UTF-8. */
  invalidCsv: (reason: string) => new HttpError(400, 'invalid_csv', `Invalid CSV: ${reason}`),
  /** 400: a line exceeds the limit, which is in bytes. */
  lineTooLong: (limit: number) => new HttpError(400, 'line_too_long', `Line is longer than ${limit} bytes`),
  /** 400: the Host header is missing or repeated (RFC 9112, section 3.2). @param count number of Host headers */
  hostRequired: (count: number) =>
    new HttpError(
      400,
      'invalid_request',
      count === 0 ? 'The Host header is missing' : 'Several Host headers were sent. Send exactly one.',
      {
        headers: { connection: 'close' },
      },
    ),
  /** 400: the client disconnected before its request was complete, so it will not receive this response. */
  incompleteRequest: () => new HttpError(400, 'invalid_request', 'The request is incomplete'),
  /** 400: fields or parameters are invalid. */
  invalidFields: (fields: readonly FieldIssue[]) => fieldsError(fields),
  /** 400: the body refers to records that do not exist in the organization. */
  missingReferences: (fields: readonly FieldIssue[]) => fieldsError(fields, 'missing_reference'),
  /** 400: a constraint or trigger that the operator added to the database rejected the record. */
  rejectedByDatabase: (constraint: string, cause?: unknown) =>
    new HttpError(
      400,
      'rejected_by_database',
      `The database rejected the record: ${constraint}`,
      { constraint },
      { cause },
    ),
  /**
   * 409: another record has the same values in these unique fields.
   * @param existingId the other record's ID, if the caller can read that record
   */
  duplicate: (names: readonly string[], existingId?: string) => {
    const isSingle = names.length === 1;
    const message = `Another record has the same ${names.join(' and ')}`;
    return new HttpError(409, 'duplicate', message, {
      fields: names.map((field) => ({
        field,
        message: isSingle ? message : `${field} has the same value, in combination with the other fields`,
      })),
      ...(existingId !== undefined && { existingId }),
    });
  },
  /** 400: several items of a batch have the same values in unique fields. */
  duplicateInBatch: (names: readonly string[]) =>
    fieldsError(
      names.map((field) => ({
        field,
        message: `${names.join(' and ')} is the same in several records of the batch`,
      })),
    ),
  /** 400: an item of a batch is invalid as a whole. */
  invalidItem: (message: string) => new HttpError(400, 'invalid_input', message),
  /**
   * 400: items of a batch are invalid and nothing was written.
   * @param items errors by location, for example `records[2]`
   */
  itemsRejected: (items: ReadonlyMap<string, HttpError>, cause?: unknown) => {
    const fields = [...items].flatMap(
      ([location, { message, extra }]) =>
        extra.fields?.map((issue) => ({
          field: `${location}.${issue.field}`,
          message: `${location}: ${issue.message}`,
        })) ?? [{ field: location, message: `${location}: ${message}` }],
    );
    const more = [...items.values()].reduce((sum, { extra }) => sum + (extra.more ?? 0), 0);
    const [first] = fields;
    return new HttpError(
      400,
      'items_refused',
      items.size === 1
        ? `1 record is invalid: ${first?.message}`
        : `${items.size} records are invalid. First: ${first?.message}`,
      { fields, ...(more > 0 && { more }) },
      { cause },
    );
  },
  /** 400: a query parameter is invalid. */
  invalidParameter: (field: string, message: string) =>
    fieldsError([{ field, message: `${field} ${message}` }]),
  /** 401: the credentials are missing, unknown, expired or revoked. The text does not reveal which. */
  unauthenticated: () =>
    new HttpError(401, 'unauthenticated', 'Missing or invalid credentials', {
      headers: { 'www-authenticate': 'Bearer' },
    }),
  /** 401: the Authorization header does not start with `Bearer`. Its key is not verified. */
  bearerNeeded: () =>
    new HttpError(401, 'unauthenticated', 'Send the key as "Authorization: Bearer <key>"', {
      headers: { 'www-authenticate': 'Bearer' },
    }),
  /** 401: a login with a password failed. The text does not reveal why. */
  wrongPassword: () =>
    new HttpError(401, 'unauthenticated', 'Wrong email or password', {
      headers: { 'www-authenticate': 'Bearer' },
    }),
  /** 401: the password is correct, but the second factor is missing or wrong. */
  secondFactorRequired: (message = 'This user has a second factor. Send its code as "otp".') =>
    new HttpError(401, 'second_factor_required', message, { headers: { 'www-authenticate': 'Bearer' } }),
  /** 401: the instance requires a second factor that the user has not set up. */
  secondFactorMissing: () =>
    new HttpError(
      401,
      'second_factor_missing',
      'This instance requires a second factor. Log in at /setup in a browser and set one up.',
      { headers: { 'www-authenticate': 'Bearer' } },
    ),
  /** 403: the caller's profile does not grant the action on the object. */
  forbidden: (object: string, action: string) =>
    new HttpError(403, 'forbidden', `Your profile does not grant ${action} on ${object}`),
  /**
   * 403: the organization has reached one of its limits.
   * @param quota description of the limit, for example "100 records"
   */
  quotaExceeded: (quota: string) =>
    new HttpError(
      403,
      'quota_exceeded',
      `The organization has reached its limit of ${quota}. Delete some, or ask the operator of this instance for a higher limit.`,
    ),
  /** 400: a member of several organizations did not select an organization with `?org=`. */
  organizationRequired: () =>
    fieldsError(
      [{ field: 'org', message: 'org is required because you belong to several organizations' }],
      'organization_required',
    ),
  /**
   * 403: the caller is not a member of the organization, or the organization does not exist. The text does not reveal
   * which.
   */
  notAMember: () => new HttpError(403, 'not_a_member', 'You are not a member of this organization'),
  /** 403: a write with a session cookie came from another origin. */
  crossSite: () =>
    new HttpError(
      403,
      'cross_site',
      'Writes with a session cookie are only allowed from pages of this origin',
    ),
  /** 429: too many attempts have failed. `retryAfter` is in seconds. */
  tooManyAttempts: (retryAfter: number) =>
    new HttpError(429, 'too_many_attempts', 'Too many attempts. Try again later.', {
      headers: { 'retry-after': String(retryAfter) },
    }),
  /** 429: the caller has exceeded the rate limit. `retryAfter` is in seconds. */
  rateLimited: (retryAfter: number) =>
    new HttpError(429, 'rate_limited', 'Too many requests. Try again later.', {
      headers: { 'retry-after': String(retryAfter) },
    }),
  /** 404: the resource does not exist. */
  notFound: () => new HttpError(404, 'not_found', 'Not found'),
  /** 404: the path does not exist. @param hint a suggestion, including its leading punctuation */
  pathNotFound: (hint: string) => new HttpError(404, 'not_found', `Path not found${hint}`),
  /** 404: the record does not exist, belongs to another organization, or has an invalid ID. */
  recordNotFound: (singular: string) =>
    new HttpError(
      404,
      'not_found',
      `${capitalize(singular.replaceAll('_', ' '))} not found in your organization`,
    ),
  /** 405: the path does not support the method. @param allow the supported methods */
  methodNotAllowed: (allow: string) =>
    new HttpError(405, 'method_not_allowed', `Method not allowed. Allowed methods: ${allow}`, {
      headers: { allow },
    }),
  /** 400: a header is malformed. @param message completes "<name> …" */
  malformedHeader: (name: string, message: string) =>
    new HttpError(400, 'invalid_header', `${name} ${message}`),
  /** 410: changes after the cursor may be missing. */
  cursorExpired: () =>
    new HttpError(
      410,
      'cursor_expired',
      'Changes after this cursor may have been deleted. Get a new cursor with after=now, read all records again, and then continue with the changes after the new cursor.',
    ),
  /** 412: the record does not meet the conditions of the request, so nothing was written. */
  preconditionFailed: () =>
    new HttpError(412, 'precondition_failed', 'The record has changed since it was read'),
  /** 409: the first request with this Idempotency-Key is still running. */
  stillRunning: () =>
    new HttpError(409, 'in_progress', 'The first request with this Idempotency-Key is still running', {
      headers: { 'retry-after': '1' },
    }),
  /** 422: the Idempotency-Key was used with a different body. */
  keyReused: () =>
    new HttpError(
      422,
      'idempotency_key_reused',
      'This Idempotency-Key was already used with a different body',
    ),
  /** 408: the body arrives too slowly. */
  requestTimeout: () =>
    new HttpError(408, 'request_timeout', 'The request was sent too slowly', {
      headers: { connection: 'close' },
    }),
  /** 413: the body exceeds the limit, which is in bytes. */
  tooLarge: (limit: number) =>
    new HttpError(413, 'body_too_large', `The request body is larger than ${limit} bytes`),
  /** 500: the database failed or cannot be reached. `retryAfter` is in seconds. */
  database: (cause: unknown, retryAfter = 5) =>
    new HttpError(
      500,
      'database_failed',
      'The database did not respond as expected',
      { headers: { 'retry-after': String(retryAfter) } },
      { cause },
    ),
  /** 503: too many requests are waiting in total or for the organization, or this request has waited too long. */
  overloaded: () =>
    new HttpError(503, 'overloaded', 'The server is busy. Try again.', {
      headers: { 'retry-after': '1' },
    }),
  /** 503: more connections are open than the instance accepts. */
  tooManyConnections: () =>
    new HttpError(503, 'overloaded', 'Too many connections. Try again.', {
      headers: { 'retry-after': '1', connection: 'close' },
    }),
  /** 503: the database canceled a statement that exceeded its statement or lock timeout. */
  tooSlow: (cause: unknown) =>
    new HttpError(
      503,
      'too_slow',
      'The request took too long',
      { headers: { 'retry-after': '5' } },
      { cause },
    ),
  /** 501: the partner endpoint's secret is not set on this instance. */
  notConfigured: () =>
    new HttpError(501, 'not_configured', 'This endpoint is not configured on this instance'),
  /** 501: the instance does not record changes. */
  notRecorded: () => new HttpError(501, 'not_recorded', 'This instance does not record changes'),
  /** 503: too many of the organization's events are waiting in the inbox. Providers retry. */
  inboxFull: () =>
    new HttpError(503, 'overloaded', 'Too many events are waiting to be processed. Try again later.', {
      headers: { 'retry-after': '60' },
    }),
  /** 503: the operator has made the instance read-only. */
  readOnly: () =>
    new HttpError(503, 'read_only', 'The service is read-only during maintenance. Try again later.', {
      headers: { 'retry-after': '60' },
    }),
  /** 503: the process is draining before it stops. */
  draining: () =>
    new HttpError(503, 'shutting_down', 'The server is shutting down', {
      headers: { 'retry-after': '1', connection: 'close' },
    }),
} as const;

/**
 * An error that the user can fix, in the configuration, a definition or a command. It is printed without a stack trace.
 */
export class UserError extends Error {
  override readonly name = 'UserError';
}

const fileReasons: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EEXIST: 'it already exists',
  EISDIR: 'it is a folder',
  ELOOP: 'it contains a loop of symbolic links',
  ENOENT: 'it does not exist',
  ENOSPC: 'no space is left on the device',
  ENOTDIR: 'a component of its path is not a folder',
  EPERM: 'permission denied',
  EROFS: 'it is on a read-only file system',
};

/** Returns the reason why a file or folder cannot be used. */
export function fileReason(cause: unknown): string {
  const { code, message, path } = cause as NodeJS.ErrnoException;
  if (code === 'ENOTDIR' && path !== undefined && existsSync(path)) return 'it is a file, not a folder';
  return fileReasons[code ?? ''] ?? code ?? message;
}
