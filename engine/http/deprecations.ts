import type { FastifyInstance } from 'fastify';
import { deprecationOf, type Resource } from '../compile/index.ts';

/**
 * Adds `Deprecation` (RFC 9745) and `Sunset` (RFC 8594) headers to every response for a resource whose path
 * or fields have former names.
 * @param pathName the name in the path
 */
export function sendDeprecations(app: FastifyInstance, { definition }: Resource, pathName: string): void {
  const deprecation = deprecationOf(definition, pathName !== definition.name);
  if (deprecation === undefined) return;
  const [deprecated, sunset] = [deprecation.deprecated, deprecation.sunset].map((day) => new Date(day));
  const headers = {
    deprecation: `@${Number(deprecated) / 1000}`,
    sunset: sunset?.toUTCString() ?? '',
  };
  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(headers);
    done();
  });
}
