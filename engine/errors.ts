// Errors: every failure a caller can see, with its status and its public text.
// May import nothing local; every room may import it.

/** One wrong part of a request body or query. */
export interface FieldProblem {
  readonly field: string;
  readonly message: string;
}

/** An error response. Helpers throw it, the error handler (engine/http/error-handling.ts) sends it. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly status: number;
  readonly extra: {
    readonly fields?: readonly FieldProblem[];
    /** A stable word for programs, in snake_case. */
    readonly code?: string;
    readonly headers?: Readonly<Record<string, string>>;
  };
  constructor(
    status: number,
    message: string,
    extra: HttpError['extra'] = {},
    options?: { readonly cause?: unknown },
  ) {
    super(message, options);
    this.status = status;
    this.extra = extra;
  }
}

const problems = (fields: readonly FieldProblem[]) =>
  new HttpError(400, fields.map((problem) => problem.message).join('; '), { fields });

/** The errors of the REST API, one constructor each. */
export const errors = {
  /** 400: the body is not a JSON object sent as application/json. */
  invalidJson: (reason: string) => new HttpError(400, `invalid JSON body: ${reason}`),
  /** 400: a request needs one Host header, HTTP/1.0 at most one (RFC 9112, section 3.2). */
  oneHostNeeded: (given: number) =>
    new HttpError(400, given === 0 ? 'the Host header is missing' : 'there are several Host headers', {
      headers: { connection: 'close' },
    }),
  /** 400: the client ended the connection before its request was complete. Nobody reads it. */
  cutOff: () => new HttpError(400, 'the request is incomplete'),
  /** 400: all wrong fields or parameters together. */
  invalidFields: problems,
  /** 400: one wrong query parameter. */
  invalidParameter: (field: string, message: string) => problems([{ field, message: `${field} ${message}` }]),
  /** 401: one text for every reason, so that it does not reveal why. */
  unauthenticated: () =>
    new HttpError(401, 'missing or invalid credentials', { headers: { 'www-authenticate': 'Bearer' } }),
  /** 403: the profile lacks the action on the object. */
  forbidden: (object: string, action: string) =>
    new HttpError(403, `the profile does not grant ${action} on ${object}`),
  /** 400: a member of several organizations did not choose one with `?org=`. */
  organizationNeeded: () =>
    problems([{ field: 'org', message: 'org is required: you belong to several organizations' }]),
  /** 403: an unknown organization and one that the caller is no member of look the same. */
  noSuchMembership: () => new HttpError(403, 'you are no member of this organization'),
  /** 403: a write with a cookie that was not sent by a page of this instance. */
  crossSite: () => new HttpError(403, 'a session cookie may write only from pages of this origin'),
  /** 429: too many attempts; `retryAfter` in seconds. */
  throttled: (retryAfter: number) =>
    new HttpError(429, 'too many attempts; try again later', {
      headers: { 'retry-after': String(retryAfter) },
    }),
  /** 404: a missing record, another organization's record and an unknown path look the same. */
  notFound: () => new HttpError(404, 'not found'),
  /** 405: a known path, with the methods that it has. */
  methodNotAllowed: (allow: string) => new HttpError(405, 'method not allowed', { headers: { allow } }),
  /** 400: a header that cannot be read; the message begins with its name. */
  malformedHeader: (name: string, message: string) => new HttpError(400, `${name} ${message}`),
  /** 412: the record is not as the conditions of the request say; nothing was written. */
  preconditionFailed: () => new HttpError(412, 'the record has changed'),
  /** 409: the first request with this Idempotency-Key is still running. */
  stillRunning: () =>
    new HttpError(409, 'the first request with this Idempotency-Key is still running', {
      headers: { 'retry-after': '1' },
    }),
  /** 422: the Idempotency-Key belongs to a request with another body. */
  keyReused: () => new HttpError(422, 'this Idempotency-Key was sent with another body before'),
  /** 413: a body over the limit, in bytes. */
  tooLarge: (limit: number) => new HttpError(413, `the request body is larger than ${limit} bytes`),
  /** 500: the database failed or cannot be reached; `retryAfter` in seconds where waiting helps. */
  database: (cause: unknown, retryAfter?: number) =>
    new HttpError(
      500,
      'the database did not answer as expected',
      retryAfter === undefined ? {} : { headers: { 'retry-after': String(retryAfter) } },
      { cause },
    ),
  /** 503: too many requests wait, of the organization or in total, or this one waited too long. */
  overloaded: () =>
    new HttpError(503, 'the server is busy; try again', {
      code: 'overloaded',
      headers: { 'retry-after': '1' },
    }),
  /** 503: more connections are open than the instance accepts. */
  tooManyConnections: () =>
    new HttpError(503, 'too many connections; try again', {
      code: 'overloaded',
      headers: { 'retry-after': '1', connection: 'close' },
    }),
  /** 503: the database cancelled a statement that exceeded its time limit or its lock timeout. */
  tooSlow: (cause: unknown) =>
    new HttpError(
      503,
      'the request took too long',
      { code: 'too_slow', headers: { 'retry-after': '5' } },
      { cause },
    ),
  /** 501: a partner endpoint whose secret is not set on this instance. */
  notConfigured: () => new HttpError(501, 'this endpoint is not configured on this instance'),
  /** 503: too many events of the organization wait in the inbox; providers retry. */
  inboxFull: () =>
    new HttpError(503, 'too many events wait to be processed; try again later', {
      code: 'overloaded',
      headers: { 'retry-after': '60' },
    }),
  /** 503: the process is draining before it stops. */
  draining: () =>
    new HttpError(503, 'the server is shutting down', {
      headers: { 'retry-after': '1', connection: 'close' },
    }),
} as const;

/** A mistake that a person can fix: configuration, a definition, a command line. Shown as text, without a stack. */
export class UserError extends Error {
  override readonly name = 'UserError';
}
