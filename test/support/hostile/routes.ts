// Test support: every route of a service, as its router has it.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { FastifyInstance, RouteOptions } from 'fastify';

/** A route as it was registered. */
export interface Route {
  readonly methods: readonly string[];
  readonly url: string;
  /** Bytes of a body that it takes. */
  readonly bodyLimit: number;
}

/** Runs what builds services, and returns the routes of each. */
export async function routesOf<T>(
  build: () => Promise<T>,
): Promise<{ readonly built: T; readonly routes: (app: FastifyInstance) => Route[] }> {
  const seen = new Map<FastifyInstance, RouteOptions[]>();
  const listen = (message: unknown) => {
    const { fastify } = message as { fastify: FastifyInstance };
    const routes: RouteOptions[] = [];
    seen.set(fastify, routes);
    fastify.addHook('onRoute', (route) => {
      routes.push(route);
    });
  };
  subscribe('fastify.initialization', listen);
  try {
    const built = await build();
    return {
      built,
      routes: (app) =>
        (seen.get(app) ?? []).map(({ method, url, bodyLimit }) => ({
          methods: [method].flat(),
          url,
          bodyLimit: bodyLimit ?? app.initialConfig.bodyLimit ?? 0,
        })),
    };
  } finally {
    unsubscribe('fastify.initialization', listen);
  }
}
