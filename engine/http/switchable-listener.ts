import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { connectionOptions } from './server.ts';

/** A listener whose app can be replaced while connections stay open. */
export interface SwitchableListener {
  readonly server: Server;
  /**
   * Sends all further requests to another app, which is ready, and closes the one before when its requests have got their
   * responses.
   * @param between work for which further requests wait, and begun ones are waited for; if it fails, all stays as it was
   */
  readonly swap: (next: FastifyInstance, between?: () => Promise<void>) => Promise<void>;
  /** Closes the listener, then the app after its last response. */
  readonly close: () => Promise<void>;
}

/** Time that requests have to finish after their app was replaced, in milliseconds. Some wait for changes. */
const drainMs = 5_000;

/** Creates the listener. @param first a ready app that is not listening */
export function createSwitchableListener(first: FastifyInstance): SwitchableListener {
  let current = first;
  let gate: Promise<void> | undefined;
  const begun = new Map<FastifyInstance, Set<ServerResponse>>();
  const responsesOf = (app: FastifyInstance) =>
    begun.get(app) ?? begun.set(app, new Set()).get(app) ?? new Set();
  const idle = async (app: FastifyInstance): Promise<void> => {
    const end = performance.now() + drainMs;
    while (responsesOf(app).size > 0 && performance.now() < end) await pause(5);
  };
  const retire = async (app: FastifyInstance): Promise<void> => {
    await idle(app);
    await app.close();
    begun.delete(app);
  };
  const server = createServer({
    ...connectionOptions.http,
    requestTimeout: connectionOptions.requestTimeout,
    keepAliveTimeout: connectionOptions.keepAliveTimeout,
  });
  const forward = async (event: string, request: IncomingMessage, response: ServerResponse) => {
    while (gate !== undefined) await gate;
    const responses = responsesOf(current);
    responses.add(response);
    response.once('close', () => responses.delete(response));
    current.server.emit(event, request, response);
  };
  for (const event of ['request', 'checkExpectation']) {
    server.on(
      event,
      (request: IncomingMessage, response: ServerResponse) => void forward(event, request, response),
    );
  }
  server.on('clientError', (error: Error, socket: Socket) =>
    current.server.emit('clientError', error, socket),
  );

  return {
    server,
    swap: async (next, between) => {
      const before = current;
      if (between !== undefined) {
        const { promise, resolve } = Promise.withResolvers<void>();
        gate = promise;
        try {
          await idle(before);
          await between();
        } finally {
          gate = undefined;
          resolve();
        }
      }
      current = next;
      void retire(before);
    },
    close: async () => {
      current.leave();
      const closed = new Promise((resolve) => server.close(resolve));
      await retire(current);
      server.closeAllConnections();
      await closed;
    },
  };
}
