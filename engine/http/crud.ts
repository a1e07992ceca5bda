import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Resource } from '../compile/index.ts';
import type { Database } from '../database/index.ts';
import { errors } from '../errors.ts';
import type { Query } from '../query/index.ts';
import {
  type Body,
  execute,
  formatOf,
  type OperationRequest,
  type Principal,
  readBody,
  routedOperations,
  type TextSigner,
  type Trace,
} from '../records/index.ts';
import { authorize, authorizeAgain } from './authorize.ts';
import { decodeBody } from './compression.ts';
import { sendDeprecations } from './deprecations.ts';
import { acceptedFormat, sendExport } from './exports.ts';
import { logSlow } from './log.ts';
import { rejectOtherMethods } from './methods.ts';
import { json } from './reply.ts';
import { fieldNamesInRequest } from './requested-names.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Returns the caller and organization of a request. Synchronous if the result is cached. A module sets
     * this.
     * @throws HttpError 401, identical for every reason; 400 or 403 if `?org=` is missing or not accessible;
     * 500 if the database does not respond
     */
    authenticate: (request: FastifyRequest) => Principal | Promise<Principal>;
    /** Statement time above which a request is logged, in milliseconds. */
    slowMs: number;
    /** Whether to record every statement of a request. */
    tracesStatements: boolean;
    /**
     * Called with the names used in a request, which are the resource's name from the path and field names. A
     * module can set it.
     */
    namesSent?: (principal: Principal, resource: string, names: Iterable<string>) => void;
  }
  interface FastifyRequest {
    /** The authenticated caller, set before the route's handler runs. */
    principal: Principal | null;
    /** Measurements of the request's statements; absent before the first statement. */
    trace?: Trace;
  }
}

/** Body length below which sending a string is faster than sending bytes. */
const shortBody = 2048;

/** Options for the routes of a resource. */
export interface CrudOptions {
  readonly resource: Resource;
  readonly database: Database;
  /** Path of the resource. */
  readonly path: string;
  /** Returns the origin of links, without a trailing slash. If it is unknown (empty), links are paths. */
  readonly publicUrl: () => string;
  /** Signs the cursors of lists. */
  readonly signing: TextSigner;
}

/** Adds a resource's routes: all operations, and 405 for other methods. */
export async function crud(
  app: FastifyInstance,
  { resource, database, path, publicUrl, signing }: CrudOptions,
): Promise<void> {
  const links = { url: () => `${publicUrl()}${path}`, signing };
  const fieldNames = new Set(resource.definition.fields.map(({ name }) => name));
  const pathName = path.slice(path.lastIndexOf('/') + 1);
  const methodsByUrl = new Map<string, ('GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE')[]>();
  sendDeprecations(app, resource, path);
  for (const { operation, compiled } of routedOperations(resource.operations)) {
    const url = `${path}${operation.path}`;
    const methods = operation.method === 'GET' ? (['GET', 'HEAD'] as const) : [operation.method];
    methodsByUrl.set(url, [...(methodsByUrl.get(url) ?? []), ...methods]);
    app.route({
      method: operation.method,
      url,
      onRequest: authorize(app, resource.name, operation.action),
      preValidation: decodeBody,
      ...(operation.bodyLimit !== undefined && { bodyLimit: operation.bodyLimit }),
      config: { streams: (operation.formats ?? []).map((format) => formatOf(format).type) },
      handler: async (request, reply) => {
        const baseRequest = operationRequest(request, reply);
        let sentBody: Body | undefined;
        const input: OperationRequest = {
          ...baseRequest,
          links,
          body: (types, maxValues) => {
            sentBody = baseRequest.body(types, maxValues);
            return sentBody;
          },
        };
        const { principal } = baseRequest.caller;
        const reportNames = () =>
          app.namesSent?.(principal, pathName, fieldNamesInRequest(baseRequest.query, sentBody, fieldNames));
        if (compiled.export !== undefined) {
          const format = acceptedFormat(request.headers.accept, operation.formats ?? []);
          if (format !== undefined) {
            reportNames();
            const assertAllowed = authorizeAgain(app, request, resource.name, [operation.action]);
            return sendExport(request, reply, database, {
              operation: compiled.export,
              input,
              format,
              assertAllowed,
            });
          }
        }
        const planOrPromise = compiled.plan(input);
        const plan = planOrPromise instanceof Promise ? await planOrPromise : planOrPromise;
        reportNames();
        const rows = await execute(database, compiled, plan).finally(() => logIfSlow(request));
        const { body, headers, status = operation.status } = compiled.respond(plan, rows);
        if (status !== 200) reply.code(status);
        if (headers !== undefined) reply.headers(headers);
        if (compiled.createdId !== undefined) reply.header('location', `${path}/${compiled.createdId(rows)}`);
        if (status === 304) {
          // A 304 must not have the Content-Length of an empty body. For HEAD, Fastify would set 0 unless the
          // body is a stream.
          return reply
            .removeHeader('content-type')
            .send(request.method === 'HEAD' ? Readable.from([]) : undefined);
        }
        // Node sends a short string together with the headers, but bytes in a second write.
        return body.length < shortBody ? String(body) : body;
      },
    });
  }
  for (const [url, methods] of methodsByUrl) {
    // The route for records handles GET and HEAD, because it accepts any text as an ID.
    const handledElsewhere = /^\/[^/:]+$/.test(url.slice(path.length)) ? (['GET', 'HEAD'] as const) : [];
    rejectOtherMethods(app, url, methods, handledElsewhere);
  }
}

function logIfSlow(request: FastifyRequest): void {
  const { trace, server } = request;
  if (trace !== undefined && trace.statementMs > server.slowMs) logSlow(request, trace);
}

/** Returns a pattern that matches a preference by name. The first match counts (RFC 7240, section 2). */
const preference = (name: string) => new RegExp(`(?:^|,)\\s*${name}\\s*=\\s*"?(\\w+)"?\\s*(?:$|[,;])`, 'i');
const handlingPreference = preference('handling');
const countPreference = preference('count');

/** Builds an operation's input from a request, and sets the headers of every response. */
export function operationRequest(request: FastifyRequest, reply: FastifyReply): OperationRequest {
  const { principal, headers } = request;
  if (principal === null) throw errors.unauthenticated();
  reply.header('content-type', json).header('cache-control', 'no-store');
  const prefer = [headers.prefer ?? []].flat().join(',');
  const strict = handlingPreference.exec(prefer)?.[1]?.toLowerCase() === 'strict';
  const counting = countPreference.exec(prefer)?.[1]?.toLowerCase();
  if (strict) reply.header('preference-applied', 'handling=strict');
  const statements = request.server.tracesStatements ? [] : undefined;
  const trace: Trace = { lane: undefined, statementMs: 0, statements };
  request.trace = trace;
  return {
    caller: { principal, requestId: request.id, trace },
    query: request.query as Query,
    headers: headers as OperationRequest['headers'],
    strict,
    ...((counting === 'exact' || counting === 'estimated') && { counting }),
    id: (request.params as { id?: string }).id,
    body: (types, maxValues) => readBody(headers['content-type'], request.body, types, maxValues),
    bytes: () => request.body as Buffer,
  };
}
