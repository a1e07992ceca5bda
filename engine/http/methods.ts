import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, HTTPMethods } from 'fastify';
import { errors } from '../errors.ts';
import { mergePatchTypes } from '../records/index.ts';

/** Methods with routes. No path accepts TRACE. */
const routed: ReadonlySet<string | undefined> = new Set(
  'GET HEAD POST PUT PATCH DELETE OPTIONS QUERY TRACE'.split(' '),
);

/** Original methods of requests routed as TRACE. */
const stoodInFor = new WeakMap<IncomingMessage, string | undefined>();

/**
 * Routes methods that no path accepts as TRACE, so that known paths reject them with 405. Node knows 26 such methods, and
 * routes for each would double the routing tables.
 */
export function substituteMethod(request: IncomingMessage): void {
  if (routed.has(request.method)) return;
  stoodInFor.set(request, request.method);
  request.method = 'TRACE';
}

/** Restores the original method after routing, before other hooks see the request. */
export function restoreMethod(request: IncomingMessage): void {
  if (request.method === 'TRACE') request.method = stoodInFor.get(request) ?? 'TRACE';
}

/**
 * Responds 405 with `Allow` to other methods of a known path, and to OPTIONS with the allowed methods. The body is not read.
 * @param elsewhere methods of the path that another route handles
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
