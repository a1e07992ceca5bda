import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Resource } from '../compile/index.ts';
import type { Database } from '../database/index.ts';
import { errors } from '../errors.ts';
import type { Query } from '../query/index.ts';
import {
  type Body,
  execute,
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
     * Who sent the request, and for which organization; a module provides it. Synchronous when it is known already.
     * @throws HttpError 401, the same for every reason; 400 or 403 where `?org=` does not decide; 500 when the
     *   database does not respond
     */
    authenticate: (request: FastifyRequest) => Principal | Promise<Principal>;
    /** Statements of a request that take longer are logged, in milliseconds. */
    slowMs: number;
    /** Whether somebody wants to know each statement of a request. */
    tracesStatements: boolean;
    /** Told which names a request has: of a resource, as its path has it, and of its fields. A module may provide it. */
    namesSent?: (principal: Principal, resource: string, names: Iterable<string>) => void;
  }
  interface FastifyRequest {
    /** The authenticated caller; set before a route's handler runs. */
    principal: Principal | null;
    /** What its statements cost; absent before there are any. */
    trace?: Trace;
  }
}

/** Bytes of a body that takes less time as a text. */
const shortBody = 2048;

/** What the routes of a resource need. */
export interface CrudOptions {
  readonly resource: Resource;
  readonly database: Database;
  /** Path of the resource. */
  readonly path: string;
  /** Origin of links, without a slash at the end; empty where it is not known, then links are paths. */
  readonly publicUrl: () => string;
  /** Signs the cursors of lists. */
  readonly signing: TextSigner;
}

/** The routes of a resource: every operation, and 405 for all other methods. */
export async function crud(
  app: FastifyInstance,
  { resource, database, path, publicUrl, signing }: CrudOptions,
): Promise<void> {
  const links = { url: () => `${publicUrl()}${path}`, signing };
  const known = new Set(resource.definition.fields.map(({ name }) => name));
  const pathName = path.slice(path.lastIndexOf('/') + 1);
  const allowed = new Map<string, ('GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE')[]>();
  sendDeprecations(app, resource, path);
  for (const { operation, compiled } of routedOperations(resource.operations)) {
    const url = `${path}${operation.path}`;
    const methods = operation.method === 'GET' ? (['GET', 'HEAD'] as const) : [operation.method];
    allowed.set(url, [...(allowed.get(url) ?? []), ...methods]);
    app.route({
      method: operation.method,
      url,
      onRequest: authorize(app, resource.name, operation.action),
      preValidation: decodeBody,
      ...(operation.bodyLimit !== undefined && { bodyLimit: operation.bodyLimit }),
      handler: async (request, reply) => {
        const received = operationRequest(request, reply);
        let sent: Body | undefined;
        const asked: OperationRequest = {
          ...received,
          links,
          body: (types, maxValues) => {
            sent = received.body(types, maxValues);
            return sent;
          },
        };
        const { principal } = received.caller;
        const tell = () =>
          app.namesSent?.(principal, pathName, fieldNamesInRequest(received.query, sent, known));
        if (compiled.export !== undefined) {
          const format = acceptedFormat(request.headers.accept, operation.formats ?? []);
          if (format !== undefined) {
            tell();
            const assertAllowed = authorizeAgain(app, request, resource.name, [operation.action]);
            return sendExport(request, reply, database, {
              operation: compiled.export,
              asked,
              format,
              assertAllowed,
            });
          }
        }
        const planned = compiled.plan(asked);
        const plan = planned instanceof Promise ? await planned : planned;
        tell();
        const rows = await execute(database, compiled, plan).finally(() => tellSlow(request));
        const { body, headers, status = operation.status } = compiled.respond(plan, rows);
        if (status !== 200) reply.code(status);
        if (headers !== undefined) reply.headers(headers);
        if (compiled.createdId !== undefined) reply.header('location', `${path}/${compiled.createdId(rows)}`);
        if (status === 304) {
          // Without the length of a body: it would be that of a 200. For HEAD Fastify sets one of 0 unless there is a stream.
          return reply
            .removeHeader('content-type')
            .send(request.method === 'HEAD' ? Readable.from([]) : undefined);
        }
        // Node sends a short text with its head in one write, bytes in a second one.
        return body.length < shortBody ? String(body) : body;
      },
    });
  }
  for (const [url, methods] of allowed) {
    // A record may be asked for by any text.
    const elsewhere = url === `${path}/batch` ? (['GET', 'HEAD'] as const) : [];
    rejectOtherMethods(app, url, methods, elsewhere);
  }
}

function tellSlow(request: FastifyRequest): void {
  const { trace, server } = request;
  if (trace !== undefined && trace.statementMs > server.slowMs) logSlow(request, trace);
}

/** A preference by its name; the first one counts (RFC 7240, section 2). */
const preference = (name: string) => new RegExp(`(?:^|,)\\s*${name}\\s*=\\s*"?(\\w+)"?\\s*(?:$|[,;])`, 'i');
const handling = preference('handling');
const count = preference('count');

/** What operations need of a request; sets the headers that every response has. */
export function operationRequest(request: FastifyRequest, reply: FastifyReply): OperationRequest {
  const { principal, headers } = request;
  if (principal === null) throw errors.unauthenticated();
  reply.header('content-type', json).header('cache-control', 'no-store');
  const prefer = [headers.prefer ?? []].flat().join(',');
  const strict = handling.exec(prefer)?.[1]?.toLowerCase() === 'strict';
  const counting = count.exec(prefer)?.[1]?.toLowerCase();
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
