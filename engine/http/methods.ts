import type { FastifyInstance, HTTPMethods } from 'fastify';
import { errors } from '../errors.ts';

/** Responds 405 with Allow where a path is known and the method is not; the body is not read. */
export function refuseOtherMethods(app: FastifyInstance, url: string, allowed: readonly HTTPMethods[]): void {
  const refuse = () => {
    throw errors.methodNotAllowed(allowed.join(', '));
  };
  app.route({
    url,
    method: app.supportedMethods.filter(
      (method) => !allowed.includes(method as HTTPMethods),
    ) as HTTPMethods[],
    onRequest: async () => refuse(),
    handler: refuse,
  });
}
