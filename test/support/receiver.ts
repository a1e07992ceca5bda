// A receiver of events, as a customer runs one: it keeps what came, and responds as a test says.
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An event as it came. */
export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly event: {
    readonly type: string;
    readonly timestamp: string;
    readonly data: {
      readonly position: string;
      readonly action: string;
      readonly resource: string;
      readonly id: number;
      readonly version: number;
      readonly changed: readonly string[];
      readonly record: Readonly<Record<string, unknown>> | null;
    };
  };
  /** By performance.now(). */
  readonly at: number;
}

/** What a receiver responds: a status, or whatever it does. */
export type Behaviour = number | ((response: ServerResponse, received: Received) => void);

/** Starts a receiver on a port of its own. */
export async function startReceiver() {
  const received: Received[] = [];
  const behaviours = new Map<string, Behaviour>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const path = request.url ?? '/';
      const event = JSON.parse(text || '{}') as Received['event'];
      const one = { path, headers: request.headers, text, event, at: performance.now() };
      const behave = behaviours.get(path) ?? 204;
      received.push(one);
      if (typeof behave === 'number') response.writeHead(behave).end();
      else behave(response, one);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    received,
    /** What came to a path. */
    at: (path: string) => received.filter((each) => each.path === path),
    /** What it does with what comes to a path from now on. */
    behave: (path: string, behaviour: Behaviour) => behaviours.set(path, behaviour),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The settings that let events go to a receiver of a test. */
export const eventsTo = (...ports: readonly number[]) => ({
  events: { allow_private_addresses: true, allow_http: true, ports },
});
