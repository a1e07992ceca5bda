// Test support: a network between a client and an instance that loses requests or responses.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/**
 * Outcome of a request: `drop` cuts it off before it is forwarded, `lose` forwards it and drops the response,
 * and `half` truncates the response. A Reply is sent instead of the instance's response.
 */
export type Fate = 'pass' | 'drop' | 'lose' | 'half' | Reply;
interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** A request that reached the network. */
export interface Arrived {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly at: number;
}

export interface Network {
  readonly url: string;
  /** All requests, including lost ones. */
  readonly arrived: Arrived[];
  /** Decides the outcome of each subsequent request. */
  decide: (request: Arrived) => Fate;
  readonly close: () => Promise<void>;
}

/** Opens a network in front of an instance. */
export async function badNetwork(target: string): Promise<Network> {
  const server = createServer(async (request, response) => {
    const body = await buffer(request);
    const { method = '', url = '', headers } = request;
    const arrived = { method, path: url, headers, body: body.toString(), at: performance.now() };
    network.arrived.push(arrived);
    const fate = network.decide(arrived);
    if (fate === 'drop') return request.socket.destroy();
    if (typeof fate === 'object') return response.writeHead(fate.status, fate.headers).end(fate.body);
    const onward = send(target + url, { method, headers });
    onward.on('error', () => request.socket.destroy());
    onward.on('response', async (answer) => {
      const bytes = await buffer(answer);
      if (fate === 'lose') return request.socket.destroy();
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      if (fate === 'pass') return response.end(bytes);
      response.write(bytes.subarray(0, bytes.length / 2));
      setTimeout(() => request.socket.destroy(), 5);
    });
    onward.end(body);
  });
  // An idle connection is not closed, because a request could be lost without being counted.
  server.keepAliveTimeout = 0;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const network: Network = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrived: [],
    decide: () => 'pass',
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return network;
}
