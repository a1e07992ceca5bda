import type { FastifyInstance } from 'fastify';
import { deprecationOf, type Resource } from '../compile/index.ts';

/**
 * Sends the headers `Deprecation` (RFC 9745) and `Sunset` (RFC 8594) with every response of routes whose path, or a name of
 * whose records, is a former one.
 */
export function sendDeprecations(app: FastifyInstance, { definition }: Resource, path: string): void {
  const deprecation = deprecationOf(definition, !path.endsWith(`/${definition.name}`));
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
