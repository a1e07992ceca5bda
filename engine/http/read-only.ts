import type { FastifyInstance } from 'fastify';
import { errors } from '../errors.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Whether nothing may be changed at the moment. Absent where that is always allowed. */
    isReadOnly?: () => boolean;
  }
  interface FastifyContextConfig {
    /** Whether the route is served while nothing may be changed, though its method says that it changes something. */
    isServedReadOnly?: boolean;
  }
}

const safeMethods: readonly string[] = ['GET', 'HEAD', 'OPTIONS'];

/**
 * Adds the read-only mode: every route that is registered from now on and may change something is refused with 503 while
 * it is on, after its caller is known and before its body is read. Background work pauses (engine/modules/background.ts).
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

/** Refuses the next part of a request that takes long. @throws HttpError 503 while nothing may be changed */
export function assertWritable(app: FastifyInstance): void {
  if (app.isReadOnly?.() === true) throw errors.readOnly();
}
