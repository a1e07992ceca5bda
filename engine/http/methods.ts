import type { FastifyInstance, HTTPMethods } from 'fastify';
import { errors } from '../errors.ts';
import { mergePatchTypes } from '../records/index.ts';

/**
 * Responds 405 with Allow where a path is known and the method is not, and to OPTIONS with what the path takes; the
 * body is not read.
 * @param elsewhere methods of the path that another route has
 */
export function refuseOtherMethods(
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
