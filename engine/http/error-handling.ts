import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import {
  databaseFailure,
  failureReason,
  isDatabaseError,
  rejectingRule,
  sqlState,
} from '../database/index.ts';
import { type ErrorCode, errorJson, errors, HttpError } from '../errors.ts';
import type { NotFound } from './not-found.ts';
import { json } from './reply.ts';
import { newRequestId, requestIdHeader, requestIdOf } from './request-id.ts';

/** On every response; browsers do not guess another content type. */
const standardHeaders = (requestId: string) => ({
  'x-content-type-options': 'nosniff',
  [requestIdHeader]: requestId,
});

/** The errors for Fastify's own refusals. Others of 400 to 499 keep their status with its standard text. */
const fastifyErrors: Readonly<Record<string, (error: FastifyError, request: FastifyRequest) => HttpError>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: (_, request) => errors.tooLarge(request.routeOptions.bodyLimit),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () => errors.invalidJson('the Content-Type must be application/json'),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () => errors.invalidJson('the Content-Length does not match the body'),
};

/** The HttpError for a thrown value; anything unknown becomes a 500 without its text. */
function toHttpError(error: unknown, request: FastifyRequest): HttpError {
  if (error instanceof HttpError) return error;
  const { code = '', statusCode = 500 } = (error ?? {}) as Partial<FastifyError>;
  const known = fastifyErrors[code]?.(error as FastifyError, request);
  if (known !== undefined) return known;
  // A request that the client cut off is not our failure, even if the socket reports an error; nobody reads the response.
  if (error !== undefined && error === request.raw.errored) return errors.cutOff();
  if (isDatabaseError(error)) return databaseFailure(error);
  return statusCode >= 400 && statusCode < 500
    ? new HttpError(statusCode, 'invalid_request', (STATUS_CODES[statusCode] ?? 'bad request').toLowerCase())
    : new HttpError(500, 'internal', 'the server failed', {}, { cause: error });
}

/** Whether something went wrong inside; 501 is an endpoint that is switched off. */
const isFailure = ({ status }: HttpError): boolean => status >= 500 && status !== 501;

/** The HttpError to send for a thrown value; logs what an administrator must see. */
export function httpErrorOf(error: unknown, request: FastifyRequest): HttpError {
  const failure = toHttpError(error, request);
  // While the process drains, refusals are expected.
  if (isFailure(failure) && failure.status !== 503) logFailure(failure, request);
  if (failure.code === 'rejected_by_database') logRejection(request.log, request.id, failure.cause);
  return failure;
}

/** Sends an error in the one shape, `{"error": …}`. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const failure = httpErrorOf(error, request);
  const { headers = {} } = failure.extra;
  reply.code(failure.status).headers({ ...standardHeaders(request.id), ...headers, 'content-type': json });
  reply.send(errorJson(failure, { request_id: request.id }));
}

/** The JSON of an error that is no more than a code and a text. */
const errorBody = (code: ErrorCode, message: string, requestId: string): string =>
  errorJson({ code, message, extra: {} }, { request_id: requestId });

/** Path pattern, not address; class and SQLSTATE, not the driver's text, which may hold what was sent. */
function logFailure(failure: HttpError, request: FastifyRequest): void {
  const cause = failure.cause as Thrown | undefined;
  const details = {
    status: failure.status,
    method: request.method,
    route: request.routeOptions.url,
    sqlstate: sqlState(cause),
    ...(failure.code === 'database_failed' && { reason: failureReason(cause) }),
    code: word(cause?.code),
    cause: word(cause?.name),
    stack: framesOf(cause),
  };
  request.log.error(details, failure.message);
}

/**
 * Logs why a constraint or trigger rejected a write, in the words of the database: its operator wrote the rule. The detail,
 * which has the whole row, is left out.
 */
export function logRejection(
  log: Pick<FastifyRequest['log'], 'warn'>,
  requestId: string,
  cause: unknown,
): void {
  const { message } = (cause ?? {}) as Thrown;
  const details = { request_id: requestId, sqlstate: sqlState(cause), rule: rejectingRule(cause) };
  log.warn({ ...details, reason: String(message) }, 'the database rejected a write');
}

/** A thrown value. */
interface Thrown {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly message?: unknown;
  readonly stack?: unknown;
}

/** A name or a code; undefined for anything that may be free text. */
const word = (value: unknown): string | undefined =>
  typeof value === 'string' && /^\w{1,60}$/.test(value) ? value : undefined;

/** Where it was thrown: the first stack frames, without the message that the stack begins with. */
function framesOf({ message, stack }: Thrown = {}): string[] | undefined {
  if (typeof message !== 'string' || typeof stack !== 'string') return undefined;
  const start = stack.indexOf(message);
  if (start === -1) return undefined;
  const frames = stack.slice(start + message.length).split('\n    at ');
  return frames.slice(1, 6);
}

/**
 * Responds to an address that cannot be decoded, such as `/%ff`: 404, because no record has such an id; 401 without
 * credentials.
 */
export const rejectUndecodableUrl =
  (missing: NotFound) =>
  (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const { code } = error as Partial<FastifyError>;
    const isStranger = request.headers.authorization === undefined;
    const refusal = isStranger ? errors.unauthenticated() : missing(request.url);
    sendError(code === 'FST_ERR_BAD_URL' ? refusal : error, request, reply);
  };

const connectionErrors: Readonly<Record<string, { readonly status: number; readonly code: ErrorCode }>> = {
  HPE_HEADER_OVERFLOW: { status: 431, code: 'head_too_large' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, code: 'request_timeout' },
};

/** Responds to what never became a request: a head that is malformed, too large or too slow. */
export function rejectMalformedRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, code } = connectionErrors[error.code ?? ''] ?? { status: 400, code: 'invalid_request' };
  const reason = STATUS_CODES[status] ?? '';
  const requestId = newRequestId();
  const body = errorBody(code, reason.toLowerCase(), requestId);
  const head = [
    `HTTP/1.1 ${status} ${reason}`,
    `Content-Type: ${json}`,
    `Content-Length: ${body.length}`,
    ...Object.entries(standardHeaders(requestId)).map(([name, value]) => `${name}: ${value}`),
    'Connection: close',
  ];
  socket.end([...head, '', body].join('\r\n'));
}

/** How many Host headers were sent. Node keeps the first and drops the others; a proxy may have used the last. */
function countHosts({ rawHeaders }: IncomingMessage): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 4 && name.toLowerCase() === 'host') count++;
  }
  return count;
}

/** One shape for every error, also for unknown paths. */
export const errorHandling = fastifyPlugin(
  async (app: FastifyInstance, { missing }: { readonly missing: NotFound }) => {
    app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
    // Node would respond 417 in its own format.
    app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
      const requestId = requestIdOf(request);
      const body = errorBody('expectation_failed', 'the expectation cannot be met', requestId);
      response
        .writeHead(417, {
          ...standardHeaders(requestId),
          'content-type': json,
          'content-length': body.length,
        })
        .end(body);
    });
    app.setNotFoundHandler((request, reply) => sendError(missing(request.url), request, reply));
    app.addHook('onRequest', ({ raw, id }, reply, done) => {
      reply.headers(standardHeaders(id));
      const hosts = countHosts(raw);
      const right = hosts === 1 || (hosts === 0 && raw.httpVersion !== '1.1');
      done(right ? undefined : errors.oneHostNeeded(hosts));
    });
    // Before the body is read: no handler would use it.
    app.addHook('preParsing', (request, _reply, payload, done) =>
      request.is404 ? done(missing(request.url)) : done(null, payload),
    );
  },
  { name: 'errors', fastify: '5.x' },
);
