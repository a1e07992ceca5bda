// Errors thrown by API calls.
import { parse } from './json.ts';
import type { ErrorCode } from './resources.generated.ts';

/** Error for an invalid field or parameter. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
  /** What to do about it. The message ends with the same text. */
  readonly hint?: string;
}

/** Base class for errors from the API or the connection. */
export abstract class CrmError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/**
 * Thrown if the response is missing or incomplete. The request might still have taken effect. `cause` is the original
 * error.
 */
export class ConnectionError extends CrmError {}

/** A reference that prevents a delete. */
export interface Referrers {
  readonly resource: string;
  readonly field: string;
  /** Number of records with the reference that the key can see, at most 1,000. */
  readonly count: number;
  /** Present if there are more records than `count`. */
  readonly more?: true;
}

interface Body {
  readonly error: string;
  readonly hint?: string;
  readonly code: ErrorCode | (string & {});
  readonly fields?: readonly FieldError[];
  readonly more?: number;
  readonly existing_id?: bigint;
  readonly referrers?: readonly Referrers[];
  readonly grant?: string;
  readonly request_id?: string;
  readonly report?: unknown;
}

/** Thrown if the API rejected the request. Common errors have subclasses, and `code` identifies all others. */
export class ApiError extends CrmError {
  readonly status: number;
  /** Stable error code, or `unknown` if the response is not from the API, for example from a proxy. */
  readonly code: ErrorCode | (string & {});
  /** What to do about the error, if there is advice. The message contains the same text. */
  readonly hint: string | undefined;
  /** ID of the request in the instance's log. */
  readonly requestId: string | undefined;
  /** Invalid fields or parameters, at most 100. Empty for other errors. */
  readonly fields: readonly FieldError[];
  /** Number of invalid fields or parameters not listed in `fields`. */
  readonly more: number;
  /** Number of seconds to wait before a retry. */
  readonly retryAfter: number | undefined;
  /** Report on the lines before the error, if an import failed partway through. */
  readonly report: unknown;
  /** Whether the response to an earlier attempt was lost. That attempt might have succeeded and caused this error. */
  isUncertain = false;

  constructor(status: number, headers: Headers, body: Body) {
    const requestId = body.request_id ?? headers.get('x-request-id') ?? undefined;
    super(`${body.error} (status ${status}${requestId === undefined ? '' : `, request ${requestId}`})`);
    this.status = status;
    this.code = body.code;
    this.hint = body.hint;
    this.requestId = requestId;
    this.fields = body.fields ?? [];
    this.more = body.more ?? 0;
    const wait = Number(headers.get('retry-after') ?? Number.NaN);
    this.retryAfter = Number.isFinite(wait) ? Math.max(wait, 0) : undefined;
    this.report = body.report;
  }
}

/** 400: fields, parameters or references are invalid. `fields` lists them. */
export class InvalidInputError extends ApiError {}
/** 401: the key is missing, invalid, expired or revoked. */
export class UnauthenticatedError extends ApiError {}
/** 403: the key's profile does not allow the request. */
export class ForbiddenError extends ApiError {
  /** The grant that the profile would need, for example `leads:update`, or undefined if grants are not the reason. */
  readonly grant: string | undefined;
  constructor(status: number, headers: Headers, body: Body) {
    super(status, headers, body);
    this.grant = body.grant;
  }
}
/** 404: the record does not exist in the organization. */
export class NotFoundError extends ApiError {}
/** 409: another record has the same value in a unique field. */
export class DuplicateError extends ApiError {
  /** ID of the other record, if the key is allowed to read it. */
  readonly existingId: bigint | undefined;
  constructor(status: number, headers: Headers, body: Body) {
    super(status, headers, body);
    this.existingId = body.existing_id;
  }
}
/** 409: a field cannot change from its current value to the new one. `fields` lists the allowed values. */
export class InvalidTransitionError extends ApiError {}
/** 409: other records refer to the record, so it was not deleted. */
export class ReferencedError extends ApiError {
  /** The references that prevent the delete. */
  readonly referrers: readonly Referrers[];
  constructor(status: number, headers: Headers, body: Body) {
    super(status, headers, body);
    this.referrers = body.referrers ?? [];
  }
}
/** 412: the record has changed since it was read, so it was not written. */
export class PreconditionFailedError extends ApiError {}
/** 429: too many requests. */
export class RateLimitedError extends ApiError {}

/** Error classes by error code. Errors with other codes are instances of ApiError. */
const classes: Partial<Record<string, typeof ApiError>> = {
  invalid_input: InvalidInputError,
  missing_reference: InvalidInputError,
  rejected_by_database: InvalidInputError,
  items_refused: InvalidInputError,
  unauthenticated: UnauthenticatedError,
  forbidden: ForbiddenError,
  outside_scope: ForbiddenError,
  not_a_member: ForbiddenError,
  not_found: NotFoundError,
  duplicate: DuplicateError,
  invalid_transition: InvalidTransitionError,
  referenced: ReferencedError,
  precondition_failed: PreconditionFailedError,
  rate_limited: RateLimitedError,
} satisfies Partial<Record<ErrorCode, typeof ApiError>>;

/** Creates the error for an error response. */
export function apiError(status: number, headers: Headers, text: string): ApiError {
  const body = bodyOf(text) ?? { error: 'the response is not from the API', code: 'unknown' };
  return new (classes[body.code] ?? ApiError)(status, headers, body);
}

function bodyOf(text: string): Body | undefined {
  try {
    const body = parse(text, { existing_id: 'int64' }) as Body | null;
    return typeof body?.error === 'string' && typeof body.code === 'string' ? body : undefined;
  } catch {
    return undefined;
  }
}
