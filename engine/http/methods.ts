import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, HTTPMethods } from 'fastify';
import { errors } from '../errors.ts';
import { mergePatchTypes } from '../records/index.ts';

/** Those that have routes; no path takes TRACE. */
const routed: ReadonlySet<string | undefined> = new Set(
  'GET HEAD POST PUT PATCH DELETE OPTIONS QUERY TRACE'.split(' '),
);

/** What requests are really asking for that are on their way to a route of TRACE. */
const stoodInFor = new WeakMap<IncomingMessage, string | undefined>();

/**
 * Lets TRACE stand in for the methods that nothing takes, so that a known path refuses them too: Node knows 26 of
 * them, and routes for each would make half of the start's routing tables.
 */
export function substituteMethod(request: IncomingMessage): void {
  if (routed.has(request.method)) return;
  stoodInFor.set(request, request.method);
  request.method = 'TRACE';
}

/** Ends that once the route is found, before anybody else sees the request. */
export function restoreMethod(request: IncomingMessage): void {
  if (request.method === 'TRACE') request.method = stoodInFor.get(request) ?? 'TRACE';
}

/**
 * Responds 405 with Allow where a path is known and the method is not, and to OPTIONS with what the path takes; the
 * body is not read.
 * @param elsewhere methods of the path that another route has
 */
export function rejectOtherMethods(
  app: FastifyInstance,
  url: string,
  allowed: readonly HTTPMethods[],
  elsewhere: readonly HTTPMethods[] = [],
): void {
  const known = [...allowed, 'OPTIONS'];
  const allow = known.join(', ');
  const refuse = () => {
    throw errors.methodNotAllowed(allow);
  };
  app.route({
    url,
    method: 'OPTIONS',
    onRequest: (_request, reply) => {
      if (allowed.includes('PATCH')) reply.header('accept-patch', mergePatchTypes.join(', '));
      reply.code(204).header('allow', allow).send();
    },
    handler: refuse,
  });
  app.route({
    url,
    method: app.supportedMethods.filter(
      (method) => !known.includes(method) && !elsewhere.some((each) => each === method),
    ) as HTTPMethods[],
    onRequest: async () => refuse(),
    handler: refuse,
  });
}
