import type { FastifyInstance } from 'fastify';
import { errors } from '../errors.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns whether the instance is currently read-only. Absent if the instance is never read-only. */
    isReadOnly?: () => boolean;
  }
  interface FastifyContextConfig {
    /** Whether the route is available in read-only mode even though its method allows writes. */
    isServedReadOnly?: boolean;
  }
}

const safeMethods: readonly string[] = ['GET', 'HEAD', 'OPTIONS'];

/**
 * Adds read-only mode. While it is enabled, write routes registered afterwards respond with 503 after
 * authentication and before the body is read, and background work pauses (engine/modules/background.ts).
 */
export function addReadOnlyMode(app: FastifyInstance, isReadOnly: () => boolean): void {
  app.decorate('isReadOnly', isReadOnly);
  app.addHook('onRoute', (route) => {
    if (route.config?.isServedReadOnly === true) return;
    if ([route.method].flat().every((method) => safeMethods.includes(method))) return;
    route.preParsing = [
      (_request, _reply, payload, done) => (isReadOnly() ? done(errors.readOnly()) : done(null, payload)),
      ...[route.preParsing ?? []].flat(),
    ];
  });
}

/** Throws in read-only mode. Called before each step of a long-running request. @throws HttpError 503 */
export function assertWritable(app: FastifyInstance): void {
  if (app.isReadOnly?.() === true) throw errors.readOnly();
}
