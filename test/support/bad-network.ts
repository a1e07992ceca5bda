// Test support: what may lie between a client and an instance, and lose requests or responses.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/**
 * What becomes of a request: `drop`: it is cut off unsent; `lose`: it is carried out, and its response cut off; `half`: that
 * response is cut in its middle; a response of the network's own.
 */
export type Fate = 'pass' | 'drop' | 'lose' | 'half' | Reply;
interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** A request that came. */
export interface Arrived {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly at: number;
}

export interface Network {
  readonly url: string;
  /** All requests, those that are lost too. */
  readonly arrived: Arrived[];
  /** Says what becomes of each request from now on. */
  decide: (request: Arrived) => Fate;
  readonly close: () => Promise<void>;
}

/** Opens a network to an instance. */
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
  }).listen(0, '127.0.0.1');
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
