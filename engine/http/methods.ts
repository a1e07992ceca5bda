import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, HTTPMethods, onRequestHookHandler } from 'fastify';
import { errors } from '../errors.ts';
import { mergePatchTypes } from '../records/index.ts';
import { prefersBulk } from './operation-input.ts';

/** Methods with routes. No path accepts TRACE. */
const routedMethods: ReadonlySet<string | undefined> = new Set(
  'GET HEAD POST PUT PATCH DELETE OPTIONS QUERY TRACE'.split(' '),
);

/** Original methods of requests that are routed as TRACE. */
const originalMethods = new WeakMap<IncomingMessage, string | undefined>();

/**
 * Routes unsupported methods as TRACE, so that known paths reject them with 405. Node accepts 26 unsupported
 * methods; adding routes for each of them would double the size of the routing tables.
 */
export function substituteMethod(request: IncomingMessage): void {
  if (routedMethods.has(request.method)) return;
  originalMethods.set(request, request.method);
  request.method = 'TRACE';
}

/** Restores the original method after routing, before other hooks see the request. */
export function restoreMethod(request: IncomingMessage): void {
  if (request.method === 'TRACE') request.method = originalMethods.get(request) ?? 'TRACE';
}

/** Returns the value of `Allow` for a path. */
const allowOf = (allowedMethods: readonly HTTPMethods[]): string => [...allowedMethods, 'OPTIONS'].join(', ');

/**
 * Returns a hook that rejects a method with 405 unless the request prefers a bulk change. The body is not read.
 * @param allowedMethods returns the methods that the path supports without the preference
 */
export const requireBulk =
  (allowedMethods: () => readonly HTTPMethods[]): onRequestHookHandler =>
  ({ headers }, _reply, done) =>
    done(prefersBulk(headers) ? undefined : errors.methodNotAllowed(allowOf(allowedMethods())));

/**
 * Responds to unsupported methods on a known path with 405 and `Allow`, and to OPTIONS with the allowed
 * methods. The body is not read.
 * @param handledElsewhere methods on the path that another route handles
 */
export function rejectOtherMethods(
  app: FastifyInstance,
  url: string,
  allowedMethods: readonly HTTPMethods[],
  handledElsewhere: readonly HTTPMethods[] = [],
): void {
  const allMethods = [...allowedMethods, 'OPTIONS'];
  const allow = allowOf(allowedMethods);
  const rejectMethod = () => {
    throw errors.methodNotAllowed(allow);
  };
  app.route({
    url,
    method: 'OPTIONS',
    onRequest: (_request, reply) => {
      if (allowedMethods.includes('PATCH')) reply.header('accept-patch', mergePatchTypes.join(', '));
      if (allowedMethods.includes('QUERY')) reply.header('accept-query', 'application/json');
      reply.code(204).header('allow', allow).send();
    },
    handler: rejectMethod,
  });
  app.route({
    url,
    method: app.supportedMethods.filter(
      (method) => !allMethods.includes(method) && !handledElsewhere.some((handled) => handled === method),
    ) as HTTPMethods[],
    onRequest: async () => rejectMethod(),
    handler: rejectMethod,
  });
}
