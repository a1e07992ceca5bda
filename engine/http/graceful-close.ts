import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

/**
 * Bounds on reading a request body after its response: a client that sends first and reads later gets its response,
 * and no client keeps a connection busy for long. In bytes and milliseconds.
 */
const [maxRestBytes, maxRestMs] = [64 * 1024 * 1024, 15_000];
/** Time that a client has to close its side of a connection closed by the service, in milliseconds. */
const maxCloseMs = 1_000;

/** State of a connection. */
interface Connection {
  /** The latest request. */
  request: IncomingMessage | undefined;
  /** Requests without a complete response. */
  active: number;
  /** Bytes read when the last request and its response were complete; more mean that the next head is arriving. */
  idleAt: number;
  isClosing: boolean;
}

/**
 * Closes connections without resetting them. A socket that is closed while data arrives is reset by the kernel, and the
 * reset discards the response that its client has not read. So the service first closes its own side, then reads on
 * until the client has closed its side or a limit is reached.
 */
export const gracefulClose = fastifyPlugin(
  async (app: FastifyInstance) => {
    const connections = new Map<Socket, Connection>();

    app.server.on('connection', (socket: Socket) => {
      const connection: Connection = { request: undefined, active: 0, idleAt: 0, isClosing: false };
      connections.set(socket, connection);
      socket.once('close', () => connections.delete(socket));
      // Node calls it after the last response of a connection.
      socket.destroySoon = () => closeGracefully(socket, connection);
    });

    const onRequest = (request: IncomingMessage, response: ServerResponse) => {
      const { socket } = request;
      const connection = connections.get(socket);
      if (connection === undefined) return;
      connection.request = request;
      connection.active++;
      const setIdle = () => {
        if (connection.active === 0 && request.complete) connection.idleAt = socket.bytesRead;
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

    // Node's own method resets connections whose next request is on its way.
    app.server.closeIdleConnections = () => {
      // Requests that have already arrived are read first and get a response.
      setImmediate(() => {
        for (const [socket, connection] of connections) {
          const isIdle = connection.active === 0 && socket.bytesRead === connection.idleAt;
          if (isIdle) closeGracefully(socket, connection);
        }
      });
    };
  },
  { name: 'graceful-close', fastify: '5.x' },
);

/** Closes the service's side of a connection, and destroys it after the client has closed its side or has timed out. */
function closeGracefully(socket: Socket, connection: Connection): void {
  if (connection.isClosing || socket.destroyed) return;
  connection.isClosing = true;
  const { request } = connection;
  const destroy = () => socket.destroy();
  const waitForClient = () => {
    const late = setTimeout(destroy, maxCloseMs);
    socket.once('close', () => clearTimeout(late));
    if (socket.readableEnded) destroy();
    else socket.once('end', destroy);
    socket.resume();
  };
  socket.end(() => {
    if (request === undefined || request.complete) waitForClient();
    else request.once('close', waitForClient);
  });
}

/** Reads and discards the rest of a body whose response has been sent. Destroys the connection at a limit. */
function discardRest(request: IncomingMessage): void {
  const { socket } = request;
  if (socket.destroyed) return;
  const end = socket.bytesRead + maxRestBytes;
  const cut = () => socket.destroy();
  const late = setTimeout(cut, maxRestMs);
  const check = () => {
    if (socket.bytesRead > end) cut();
  };
  request.on('data', check);
  request.once('close', () => clearTimeout(late));
  request.resume();
}
