// Test support: every route registered in a service's router.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { FastifyInstance, RouteOptions } from 'fastify';

/** A registered route. */
export interface Route {
  readonly methods: readonly string[];
  readonly url: string;
  /** Maximum body size in bytes. */
  readonly bodyLimit: number;
  /** Content types that the route sends as a stream, according to its declaration. */
  readonly streams: readonly string[];
  /** Returns whether bodies of a content type are parsed. */
  readonly parses: (type: string) => boolean;
}

/** Runs a function that builds services and returns each service's routes. */
export async function routesOf<T>(
  build: () => Promise<T>,
): Promise<{ readonly built: T; readonly routes: (app: FastifyInstance) => Route[] }> {
  const seen = new Map<FastifyInstance, [FastifyInstance, RouteOptions][]>();
  const listen = (message: unknown) => {
    const { fastify } = message as { fastify: FastifyInstance };
    const routes: [FastifyInstance, RouteOptions][] = [];
    seen.set(fastify, routes);
    fastify.addHook('onRoute', function (route) {
      routes.push([this, route]);
    });
  };
  subscribe('fastify.initialization', listen);
  try {
    const built = await build();
    return {
      built,
      routes: (app) =>
        (seen.get(app) ?? []).map(([scope, { method, url, bodyLimit, config }]) => ({
          methods: [method].flat(),
          url,
          bodyLimit: bodyLimit ?? app.initialConfig.bodyLimit ?? 0,
          streams: config?.streams ?? [],
          parses: (type) => scope.hasContentTypeParser(type),
        })),
    };
  } finally {
    unsubscribe('fastify.initialization', listen);
  }
}
