// Routes: what a Resource answers over HTTP, and the documents that describe it.
// May import every room of engine/ above it; plugins provide app.authenticate.
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import { type Action, allows, type Resource } from '../compile/index.ts';
import type { Database } from '../database/index.ts';
import { errors } from '../errors.ts';
import {
  createPlan,
  createStatement,
  deletedReply,
  deletePlan,
  deleteStatement,
  execute,
  executeWrite,
  type Input,
  json,
  listPlan,
  listReply,
  listStatement,
  type Principal,
  type Query,
  readBody,
  readPlan,
  readStatement,
  recordReply,
  replacePlan,
  replaceStatement,
} from '../request/index.ts';
import { refuseOtherMethods } from './methods.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Who is calling; set before a route's handler runs. */
    principal: Principal | null;
  }
}

type ById = { Params: { id: string } };

/** The five operations of a resource (contract section 4.1). */
export async function crud(
  app: FastifyInstance,
  { resource, database, path }: { resource: Resource; database: Database; path: string },
): Promise<void> {
  const one = `${path}/:id`;
  const guard = (action: Action) => ({ onRequest: authorize(app, resource.name, action) });

  app.get(path, guard('list'), async (request, reply) => {
    const plan = listPlan(resource, input(request, reply));
    const statement = listStatement(plan);
    return listReply(plan, statement === undefined ? [] : await execute(database, statement));
  });

  app.post(path, guard('create'), async (request, reply) => {
    const body = readBody(request.headers['content-type'], request.body);
    const plan = createPlan(resource, body, input(request, reply));
    const rows = await executeWrite(database, plan, createStatement(plan));
    reply.code(201).header('location', `${path}/${rows[0]?.[1]}`);
    return recordReply(rows);
  });

  app.get<ById>(one, guard('read'), async (request, reply) => {
    const plan = readPlan(resource, request.params.id, input(request, reply));
    return recordReply(await execute(database, readStatement(plan)));
  });

  app.put<ById>(one, guard('update'), async (request, reply) => {
    const body = readBody(request.headers['content-type'], request.body);
    const plan = replacePlan(resource, request.params.id, body, input(request, reply));
    return recordReply(await executeWrite(database, plan, replaceStatement(plan)));
  });

  app.delete<ById>(one, guard('delete'), async (request, reply) => {
    const plan = deletePlan(resource, request.params.id, input(request, reply));
    return deletedReply(await execute(database, deleteStatement(plan)));
  });

  refuseOtherMethods(app, path, ['GET', 'HEAD', 'POST']);
  refuseOtherMethods(app, one, ['GET', 'HEAD', 'PUT', 'DELETE']);
}

/** 401, then 403, before the body is read and before any record is looked up. */
function authorize(app: FastifyInstance, object: string, action: Action): onRequestHookHandler {
  return (request, _reply, done) => {
    const accept = (principal: Principal) => {
      request.principal = principal;
      done(allows(principal.grants, object, action) ? undefined : errors.forbidden(object, action));
    };
    try {
      const caller = app.authenticate(request);
      // Mostly known already: then the request goes on at once.
      if (caller instanceof Promise) caller.then(accept, done);
      else accept(caller);
    } catch (error) {
      done(error as Error);
    }
  };
}

/** The preference `handling`; of one that is given twice the first counts (RFC 7240, section 2). */
const handling = /(?:^|,)\s*handling\s*=\s*"?(\w+)"?\s*(?:$|[,;])/i;

/** What plans need of a request; sets the headers that every answer has. */
function input(request: FastifyRequest, reply: FastifyReply): Input {
  const { principal, headers } = request;
  if (principal === null) throw errors.unauthenticated();
  reply.header('content-type', json).header('cache-control', 'no-store');
  const { prefer } = headers;
  const strict =
    prefer !== undefined && handling.exec([prefer].flat().join(','))?.[1]?.toLowerCase() === 'strict';
  if (strict) reply.header('preference-applied', 'handling=strict');
  return { principal, requestId: request.id, query: request.query as Query, strict };
}
