// A load balancer in front of several nodes. It checks their readiness and forwards connections.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** A node behind the balancer. */
export interface Backend {
  /** Service URL. */
  readonly url: string;
  /** URL of the admin port, which serves /readyz. */
  readonly admin: string;
}

export interface Balancer {
  readonly url: string;
  readonly add: (node: Backend) => void;
  readonly remove: (node: Backend) => void;
  /** Returns whether the balancer forwards new connections to a node. */
  readonly uses: (node: Backend) => boolean;
  /** Returns the number of connections that no node accepted. */
  readonly lost: () => number;
  readonly close: () => Promise<void>;
}

/** Interval between readiness checks, in milliseconds. */
const checkMs = 100;

export async function startBalancer(): Promise<Balancer> {
  const ready = new Map<Backend, boolean>();
  const sockets = new Set<Socket>();
  let next = 0;
  let lost = 0;
  let isOpen = true;
  const check = async (node: Backend) => {
    while (isOpen && ready.has(node)) {
      const response = await fetch(`${node.admin}/readyz`).catch(() => undefined);
      await response?.arrayBuffer();
      if (ready.has(node)) ready.set(node, response?.ok === true);
      await pause(checkMs);
    }
  };
  const server = createServer((client) => {
    const nodes = [...ready].flatMap(([node, isReady]) => (isReady ? [node] : []));
    const { hostname, port } = new URL(nodes[next++ % nodes.length]?.url ?? 'http://127.0.0.1:1');
    const upstream = connect(Number(port), hostname);
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one);
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
    }
    client.on('error', () => {});
    upstream.on('error', () => lost++);
    client.pipe(upstream).pipe(client);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    add: (node) => {
      ready.set(node, false);
      check(node);
    },
    remove: (node) => ready.delete(node),
    uses: (node) => ready.get(node) === true,
    lost: () => lost,
    close: async () => {
      isOpen = false;
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
