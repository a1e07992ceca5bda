import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { errors } from '../errors.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Starts the shutdown. Requests are still processed, but each connection is closed after its current
     * response.
     */
    drain: () => void;
    /** Returns whether the shutdown has started. */
    isDraining: () => boolean;
  }
}

/**
 * Shuts the service down in two phases. In the first, readiness checks fail so that load balancers stop
 * sending requests, but all requests are processed. In the second, requests on open connections get a 503.
 */
export const draining = fastifyPlugin(
  async (app: FastifyInstance) => {
    let isDraining = false;
    let isClosing = false;
    app.decorate('drain', () => {
      isDraining = true;
    });
    app.decorate('isDraining', () => isDraining);
    app.addHook('preClose', async () => {
      isDraining = true;
      isClosing = true;
    });
    app.addHook('onRequest', (_request, _reply, done) => done(isClosing ? errors.draining() : undefined));
    // A response that started before the second phase keeps its connection open. Without this hook, the
    // server would wait for the connection.
    app.addHook('onResponse', (_request, _reply, done) => {
      if (isClosing) setImmediate(() => app.server.closeIdleConnections());
      done();
    });
    app.addHook('onSend', (_request, reply, payload, done) => {
      if (isDraining) reply.header('connection', 'close');
      done(null, payload);
    });
  },
  { name: 'draining', fastify: '5.x', dependencies: ['errors'] },
);

/**
 * Limits for discarding the rest of a request body after the response, in bytes and milliseconds. A client
 * that starts reading only after sending its body still gets the response, but cannot occupy a connection
 * for long.
 */
const [maxDiscardBytes, maxDiscardMs] = [64 * 1024 * 1024, 15_000];
/** Time for a client to close its side of a connection after the service closes its own, in milliseconds. */
const maxCloseMs = 1_000;

/** State of a connection. */
interface Connection {
  /** The latest request on the connection. */
  request: IncomingMessage | undefined;
  /** Number of requests whose responses are not complete. */
  active: number;
  /**
   * Number of bytes that had been read when the last request and its response were complete. If more have
   * been read since, another request is arriving.
   */
  idleBytesRead: number;
  isClosing: boolean;
}

/**
 * Closes connections without resetting them. If a socket is closed while data arrives, the kernel resets the
 * connection, and the client can lose a response that it has not read yet. Therefore, the service closes its
 * own side first and continues to read until the client closes its side or a limit is exceeded.
 */
export const gracefulClose = fastifyPlugin(
  async (app: FastifyInstance) => {
    const connections = new Map<Socket, Connection>();

    app.server.on('connection', (socket: Socket) => {
      const connection: Connection = { request: undefined, active: 0, idleBytesRead: 0, isClosing: false };
      connections.set(socket, connection);
      socket.once('close', () => connections.delete(socket));
      // Node calls this after a connection's last response.
      socket.destroySoon = () => closeGracefully(socket, connection);
    });

    const onRequest = (request: IncomingMessage, response: ServerResponse) => {
      const { socket } = request;
      const connection = connections.get(socket);
      if (connection === undefined) return;
      connection.request = request;
      connection.active++;
      const setIdle = () => {
        if (connection.active === 0 && request.complete) connection.idleBytesRead = socket.bytesRead;
      };
      request.once('close', setIdle);
      response.once('close', () => {
        connection.active--;
        setIdle();
        if (!request.complete) discardRest(request);
      });
    };
    app.server.prependListener('request', onRequest);
    app.server.prependListener('checkExpectation', onRequest);

    // Node's own method resets connections on which another request is arriving.
    app.server.closeIdleConnections = () => {
      // Deferred so that requests that have already arrived are read and get a response.
      setImmediate(() => {
        for (const [socket, connection] of connections) {
          const isIdle = connection.active === 0 && socket.bytesRead === connection.idleBytesRead;
          if (isIdle) closeGracefully(socket, connection);
        }
      });
    };
  },
  { name: 'graceful-close', fastify: '5.x' },
);

/**
 * Closes the service's side of a connection. Destroys the connection when the client has closed its side or
 * timed out.
 */
function closeGracefully(socket: Socket, connection: Connection): void {
  if (connection.isClosing || socket.destroyed) return;
  connection.isClosing = true;
  const { request } = connection;
  const destroy = () => socket.destroy();
  const waitForClient = () => {
    const timer = setTimeout(destroy, maxCloseMs);
    socket.once('close', () => clearTimeout(timer));
    if (socket.readableEnded) destroy();
    else socket.once('end', destroy);
    socket.resume();
  };
  socket.end(() => {
    if (request === undefined || request.complete) waitForClient();
    else request.once('close', waitForClient);
  });
}

/**
 * Reads and discards the rest of a request body after its response has been sent. Destroys the connection if
 * a limit is exceeded.
 */
function discardRest(request: IncomingMessage): void {
  const { socket } = request;
  if (socket.destroyed) return;
  const end = socket.bytesRead + maxDiscardBytes;
  const destroy = () => socket.destroy();
  const timer = setTimeout(destroy, maxDiscardMs);
  const check = () => {
    if (socket.bytesRead > end) destroy();
  };
  request.on('data', check);
  request.once('close', () => clearTimeout(timer));
  request.resume();
}
