// What calls fail with.
import { parse } from './json.ts';
import type { ErrorCode } from './resources.ts';

/** A wrong field or parameter. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
}

/** Every failure that is not a mistake in the program. */
export abstract class CrmError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No response came, or not all of it: the request may have been carried out or not. `cause` says what happened. */
export class ConnectionError extends CrmError {}

interface Body {
  readonly error: string;
  readonly code: ErrorCode | (string & {});
  readonly fields?: readonly FieldError[];
  readonly more?: number;
  readonly existing_id?: bigint;
  readonly request_id?: string;
  readonly report?: unknown;
}

/** The API refused the request. Subclasses are for what programs deal with; `code` tells the others apart. */
export class ApiError extends CrmError {
  readonly status: number;
  /** A stable word; `unknown` if the response is not the API's, but that of a proxy. */
  readonly code: ErrorCode | (string & {});
  /** What the log of the instance has the request under. */
  readonly requestId: string | undefined;
  /** The wrong fields or parameters, at most 100; empty if the error is not about any. */
  readonly fields: readonly FieldError[];
  /** Number of wrong fields or parameters that `fields` leaves out. */
  readonly more: number;
  /** After how many seconds to try again. */
  readonly retryAfter: number | undefined;
  /** What an import had done before it failed. */
  readonly report: unknown;
  /** An earlier attempt of this call got no response, and may be why this one was refused. */
  isUncertain = false;

  constructor(status: number, headers: Headers, body: Body) {
    const requestId = body.request_id ?? headers.get('x-request-id') ?? undefined;
    super(`${body.error} (status ${status}${requestId === undefined ? '' : `, request ${requestId}`})`);
    this.status = status;
    this.code = body.code;
    this.requestId = requestId;
    this.fields = body.fields ?? [];
    this.more = body.more ?? 0;
    const wait = Number(headers.get('retry-after') ?? Number.NaN);
    this.retryAfter = Number.isFinite(wait) ? Math.max(wait, 0) : undefined;
    this.report = body.report;
  }
}

/** 400: fields, parameters or references are wrong; `fields` names them. */
export class InvalidInputError extends ApiError {}
/** 401: the key is missing, wrong, expired or revoked. */
export class UnauthenticatedError extends ApiError {}
/** 403: the key's profile does not grant it. */
export class ForbiddenError extends ApiError {}
/** 404: the record does not exist in the organization. */
export class NotFoundError extends ApiError {}
/** 409: another record has the same value of a unique field. */
export class DuplicateError extends ApiError {
  /** That record, if the key may read it. */
  readonly existingId: bigint | undefined;
  constructor(status: number, headers: Headers, body: Body) {
    super(status, headers, body);
    this.existingId = body.existing_id;
  }
}
/** 412: the record has changed since it was read; nothing was written. */
export class PreconditionFailedError extends ApiError {}
/** 429: too many requests. */
export class RateLimitedError extends ApiError {}

/** The classes of errors by their codes; those of other codes are ApiErrors. */
const classes: Partial<Record<string, typeof ApiError>> = {
  invalid_input: InvalidInputError,
  missing_reference: InvalidInputError,
  rejected_by_database: InvalidInputError,
  items_refused: InvalidInputError,
  unauthenticated: UnauthenticatedError,
  forbidden: ForbiddenError,
  not_a_member: ForbiddenError,
  not_found: NotFoundError,
  duplicate: DuplicateError,
  precondition_failed: PreconditionFailedError,
  rate_limited: RateLimitedError,
} satisfies Partial<Record<ErrorCode, typeof ApiError>>;

/** The error that a response is. */
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
