import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { connectionOptions } from './server.ts';

/** A listener whose app can be replaced while connections stay open. */
interface SwitchableListener {
  readonly server: Server;
  /**
   * Routes new requests to another app, which must be ready, and closes the previous app when its requests
   * are complete.
   * @param between work to run while no request is active. New requests wait until it is done. If it fails,
   * the previous app stays in use
   */
  readonly swap: (next: FastifyInstance, between?: () => Promise<void>) => Promise<void>;
  /** Closes the listener, then closes the app after its last response. */
  readonly close: () => Promise<void>;
}

/** Time limit for requests after their app is replaced, in milliseconds. Some requests wait for changes. */
const drainMs = 5_000;

/** Creates the listener. @param initialApp an app that is ready but not listening */
export function createSwitchableListener(initialApp: FastifyInstance): SwitchableListener {
  let current = initialApp;
  let gate: Promise<void> | undefined;
  const activeResponses = new Map<FastifyInstance, Set<ServerResponse>>();
  const responsesOf = (app: FastifyInstance) =>
    activeResponses.get(app) ?? activeResponses.set(app, new Set()).get(app) ?? new Set();
  const waitForResponses = async (app: FastifyInstance): Promise<void> => {
    const end = performance.now() + drainMs;
    while (responsesOf(app).size > 0 && performance.now() < end) await pause(5);
  };
  const retire = async (app: FastifyInstance): Promise<void> => {
    await waitForResponses(app);
    await app.close();
    activeResponses.delete(app);
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
      const previous = current;
      if (between !== undefined) {
        const { promise, resolve } = Promise.withResolvers<void>();
        gate = promise;
        try {
          await waitForResponses(previous);
          await between();
        } finally {
          gate = undefined;
          resolve();
        }
      }
      current = next;
      void retire(previous);
    },
    close: async () => {
      current.drain();
      const closing = new Promise((resolve) => server.close(resolve));
      await retire(current);
      server.closeAllConnections();
      await closing;
    },
  };
}
