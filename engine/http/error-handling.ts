import { randomBytes } from 'node:crypto';
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { debuglog } from 'node:util';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import {
  databaseFailure,
  failureReason,
  framesOf,
  isDatabaseError,
  rejectingRule,
  sqlState,
} from '../database/index.ts';
import { errorJson, errors, HttpError, problemOf } from '../errors.ts';
import { didYouMean, hintForInput } from '../yaml/index.ts';
import { parseWeights } from './compression.ts';
import { apiPrefix } from './openapi.ts';
import { json, problemJson, varyBy } from './reply.ts';

/** Header that contains the request ID, in requests and responses. */
const requestIdHeader = 'x-request-id';

const boot = randomBytes(4).toString('hex');
let requestCount = 0;

/**
 * Generates an ID that is unique across nodes. All IDs have the same length, so that responses with the same
 * error also have the same length.
 */
const newRequestId = (): string => `${boot}-${(++requestCount).toString(36).padStart(6, '0')}`;

/** Returns the request ID sent by the caller if it is short and printable, or a new ID otherwise. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const header = headers[requestIdHeader];
  return typeof header === 'string' && /^[\w.:-]{1,128}$/.test(header) ? header : newRequestId();
}

/** The names of a resource in URLs. */
export interface NamedResource {
  readonly name: string;
  readonly definition: { readonly singular: string };
}

/** Returns the error for a URL without a route. It contains only the names of public resources. */
export type NotFound = (url: string) => HttpError;

/** Returns a function that creates errors for unknown URLs. @param resources the instance's resources */
export function createNotFound(resources: readonly NamedResource[]): NotFound {
  const names = resources.map(({ name }) => name);
  const resourceList = `${apiPrefix} has ${names.join(', ')}`;
  return (url) => {
    const path = url.split('?', 1)[0] ?? '';
    const isApi = path === apiPrefix || path.startsWith(`${apiPrefix}/`);
    const words = path
      .slice(isApi ? apiPrefix.length : 0)
      .split('/')
      .slice(1, 10);
    const [resourceName = '', id, ...rest] = words;
    if (!isApi) {
      const similarName = names.find((name) => words.some((word) => word.toLowerCase() === name));
      return similarName === undefined
        ? errors.pathNotFound(`; the API is under ${apiPrefix}`)
        : errors.pathNotFound('', didYouMean(`${apiPrefix}/${similarName}`));
    }
    const resource = resources.find(({ name }) => name === resourceName);
    if (resource === undefined) {
      return errors.pathNotFound(`; ${resourceList}`, hintForInput(resourceName, names));
    }
    // A record has a route, so its URL is unknown only if its ID cannot be decoded.
    const isRecord = id !== undefined && id !== '' && rest.length === 0;
    if (isRecord) return errors.recordNotFound(resource.definition.singular);
    return words.at(-1) === ''
      ? errors.pathNotFound('', 'Remove the trailing slash.')
      : errors.pathNotFound(`; ${resourceList}`);
  };
}

/** Headers of every response. `nosniff` prevents browsers from guessing another content type. */
const standardHeaders = (requestId: string) => ({
  'x-content-type-options': 'nosniff',
  [requestIdHeader]: requestId,
});

/** Errors, keyed by Fastify error code. Other 4xx errors keep their status and get its standard message. */
const fastifyErrors: Readonly<Record<string, (error: FastifyError, request: FastifyRequest) => HttpError>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: (_, request) => errors.tooLarge(request.routeOptions.bodyLimit),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () => errors.invalidJson('the Content-Type must be application/json'),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () => errors.invalidJson('the Content-Length does not match the body'),
};

/** Converts a thrown value to an HttpError. Unknown values become a 500 error that hides their message. */
function toHttpError(error: unknown, request: FastifyRequest): HttpError {
  if (error instanceof HttpError) return error;
  const { code = '', statusCode = 500 } = (error ?? {}) as Partial<FastifyError>;
  const mappedError = fastifyErrors[code]?.(error as FastifyError, request);
  if (mappedError !== undefined) return mappedError;
  // A request aborted by its client is not a server error, even if the socket reports an error.
  if (error !== undefined && error === request.raw.errored) return errors.incompleteRequest();
  if (isDatabaseError(error)) return databaseFailure(error);
  return statusCode >= 400 && statusCode < 500 ? errors.rejectedRequest(statusCode) : errors.internal(error);
}

/** Returns whether an error is a server failure. A 501 is not: it means that the endpoint is disabled. */
const isFailure = ({ status }: HttpError): boolean => status >= 500 && status !== 501;

/** Returns the HttpError to send for a thrown value, and logs server errors. */
export function httpErrorOf(error: unknown, request: FastifyRequest): HttpError {
  const failure = toHttpError(error, request);
  // A 503 is expected while the process drains or sheds load.
  if (isFailure(failure) && failure.status !== 503) logFailure(failure, request);
  if (failure.code === 'rejected_by_database') logRejection(request.log, request.id, failure.cause);
  return failure;
}

/** Returns whether a client names problem details (RFC 9457) and prefers them at least as much as JSON. */
function acceptsProblem(accept: string | undefined): boolean {
  if (accept === undefined || !/problem/i.test(accept)) return false;
  const weights = parseWeights(accept);
  const weight = weights.get(problemJson) ?? 0;
  const other = weights.get('application/json') ?? weights.get('application/*') ?? weights.get('*/*') ?? 0;
  return weight > 0 && weight >= other;
}

/** The content type and body of an error response. */
interface RenderedError {
  readonly type: string;
  readonly body: string;
}

/** Renders an error as problem details if the client prefers them, or as `{"error": …}` otherwise. */
const renderError = (failure: HttpError, requestId: string, accept?: string): RenderedError =>
  acceptsProblem(accept)
    ? { type: problemJson, body: errorJson(failure, problemOf(failure, requestId)) }
    : { type: json, body: errorJson(failure, { request_id: requestId }) };

/** Sends an error in the format that the client prefers. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const failure = httpErrorOf(error, request);
  const { headers = {} } = failure.extra;
  const { type, body } = renderError(failure, request.id, request.headers.accept);
  reply.code(failure.status).headers({ ...standardHeaders(request.id), ...headers, 'content-type': type });
  if (type === json) {
    reply.send(body);
    return;
  }
  varyBy(reply, 'accept');
  // Fastify would add a charset to the type of a string.
  reply.send(Buffer.from(body));
}

/** Prints stack traces if NODE_DEBUG=crm is set. */
const debug = debuglog('crm');

/**
 * Logs a server error. Logs the route instead of the URL, and the error's class and SQLSTATE instead of the
 * driver's message, because URLs and messages can contain input. The message of a module's error is logged: its author needs and
 * controls it. `NODE_DEBUG=crm` prints the stack traces of all errors.
 */
function logFailure(failure: HttpError, request: FastifyRequest): void {
  const cause = failure.cause as Thrown | undefined;
  const details = {
    status: failure.status,
    method: request.method,
    route: request.routeOptions.url,
    sqlstate: sqlState(cause),
    ...(failure.code === 'database_failed' && { reason: failureReason(cause) }),
    ...(failure.code === 'module_failed' && { reason: String(cause?.message) }),
    code: word(cause?.code),
    cause: word(cause?.name),
    stack: framesOf(cause),
  };
  request.log.error(details, failure.message);
  debug('%s', cause?.stack ?? cause);
}

/**
 * Logs why a constraint or trigger rejected a write. Includes the database's message, because the operator
 * defined the constraint or trigger. Omits the detail, because it contains the row.
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

/** Properties that a thrown value might have. */
interface Thrown {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly message?: unknown;
  readonly stack?: unknown;
}

/** Returns a value that is a name or code, or undefined for a value that could be free text. */
const word = (value: unknown): string | undefined =>
  typeof value === 'string' && /^\w{1,60}$/.test(value) ? value : undefined;

/**
 * Handles URLs that cannot be decoded, for example `/%ff`. Responds with 404 because no record has such an
 * ID, or with 401 if credentials are missing.
 */
export const rejectUndecodableUrl =
  (notFound: NotFound) =>
  (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const { code } = error as Partial<FastifyError>;
    const isAnonymous = request.headers.authorization === undefined;
    const rejection = isAnonymous ? errors.unauthenticated() : notFound(request.url);
    sendError(code === 'FST_ERR_BAD_URL' ? rejection : error, request, reply);
  };

const connectionErrors: Readonly<Record<string, () => HttpError>> = {
  HPE_HEADER_OVERFLOW: errors.headTooLarge,
  ERR_HTTP_REQUEST_TIMEOUT: errors.headTimeout,
};

/** Responds on a connection whose request headers are malformed, too large, or received too slowly. */
export function rejectMalformedRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const failure = (connectionErrors[error.code ?? ''] ?? errors.rejectedRequest)();
  const requestId = newRequestId();
  // The request's headers could not be parsed, so its Accept header is unknown.
  const { type, body } = renderError(failure, requestId);
  const head = [
    `HTTP/1.1 ${failure.status} ${STATUS_CODES[failure.status]}`,
    `Content-Type: ${type}`,
    `Content-Length: ${body.length}`,
    ...Object.entries(standardHeaders(requestId)).map(([name, value]) => `${name}: ${value}`),
    'Connection: close',
  ];
  socket.end([...head, '', body].join('\r\n'));
}

/** Counts a request's Host headers. Node uses the first one, but a proxy might have used the last one. */
function countHosts({ rawHeaders }: IncomingMessage): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 4 && name.toLowerCase() === 'host') count++;
  }
  return count;
}

/** Sends all errors in the same format, including errors for unknown paths. */
export const errorHandling = fastifyPlugin(
  async (app: FastifyInstance, { missing: notFound }: { readonly missing: NotFound }) => {
    app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
    // Node's own 417 response has a different format.
    app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
      const requestId = requestIdOf(request);
      const failure = errors.expectationFailed();
      const { type, body } = renderError(failure, requestId, request.headers.accept);
      response
        .writeHead(failure.status, {
          ...standardHeaders(requestId),
          ...(type === problemJson && { vary: 'accept' }),
          'content-type': type,
          'content-length': body.length,
        })
        .end(body);
    });
    app.setNotFoundHandler((request, reply) => sendError(notFound(request.url), request, reply));
    app.addHook('onRequest', ({ raw, id }, reply, done) => {
      reply.headers(standardHeaders(id));
      const hosts = countHosts(raw);
      const isValid = hosts === 1 || (hosts === 0 && raw.httpVersion !== '1.1');
      done(isValid ? undefined : errors.hostRequired(hosts));
    });
    // Unknown URLs are rejected before the body is read, because no handler would use the body.
    app.addHook('preParsing', (request, _reply, payload, done) =>
      request.is404 ? done(notFound(request.url)) : done(null, payload),
    );
  },
  { name: 'errors', fastify: '5.x' },
);
