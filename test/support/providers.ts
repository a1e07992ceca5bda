// A server on loopback that simulates Meta's Graph API.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { freePort } from './postgres.ts';

/** How the provider responds to requests. */
export type Behaviour =
  | 'fine'
  | 'failing'
  | 'slow'
  | 'huge'
  | 'endless'
  | 'redirect'
  | 'closed'
  | 'reset'
  | 'no json'
  | 'other json';

/** A request received by the provider. */
export interface ProviderRequest {
  readonly method: string;
  /** Path without the query string. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  /** The parsed JSON body, or undefined if it was empty. */
  readonly body: unknown;
}

/** A running provider. */
export interface Provider {
  /** Origin without a trailing slash. */
  readonly url: string;
  /** All received requests, oldest first. */
  readonly requests: ProviderRequest[];
  /**
   * Sets the behavior. Requests held back while the provider is slow are answered when the behavior changes.
   */
  readonly behave: (behaviour: Behaviour) => void;
  /**
   * Leads by leadgen ID, as values or JSON text. Requests for other leads receive 400, as they do from Meta.
   */
  readonly leads: Map<string, object | string>;
  /** Sets the response for leads that are not in the map. */
  readonly everyLead: (lead: (id: string) => object) => void;
  /** Requests caused by following a redirect, which must remain empty. */
  readonly strayed: string[];
  /** Refuses connections until `open` is called, which uses the same port. */
  readonly shut: () => Promise<void>;
  readonly open: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Starts a provider. */
export async function startProvider(): Promise<Provider> {
  const requests: ProviderRequest[] = [];
  const leads = new Map<string, object | string>();
  const strayed: string[] = [];
  let behaviour: Behaviour = 'fine';
  let held: (() => void)[] = [];
  let messages = 0;
  let other: (id: string) => object | undefined = () => undefined;

  const elsewhere = createServer((request, response) => {
    strayed.push(`${request.method} ${request.url}`);
    response.end('{"messages":[{"id":"from elsewhere"}],"field_data":[]}');
  });
  const elsewhereUrl = await listen(elsewhere, 0);

  const fine = ({ method, path }: ProviderRequest, response: ServerResponse) => {
    if (method === 'POST' && /^\/v\d+\.\d+\/[^/]+\/messages$/.test(path)) {
      return answer(response, 200, { messages: [{ id: `wamid.${++messages}` }] });
    }
    const id = /^\/v\d+\.\d+\/(\d+)$/.exec(path)?.[1] ?? '';
    const lead = leads.get(id) ?? other(id);
    return lead === undefined
      ? answer(response, 400, { error: { message: 'Unsupported get request', code: 100 } })
      : answer(response, 200, lead);
  };
  const behaviours: Readonly<
    Record<Behaviour, (request: ProviderRequest, response: ServerResponse) => void>
  > = {
    fine,
    failing: (_, response) => answer(response, 500, { error: { message: 'token SECRET is bad' } }),
    slow: (request, response) => held.push(() => fine(request, response)),
    huge: (_, response) => answer(response, 200, { messages: [{ id: 'x'.repeat(3 * 1024 * 1024) }] }),
    endless: (_, response) => pour(response),
    redirect: ({ path }, response) =>
      response.writeHead(307, { location: `${elsewhereUrl}${path}` }).end('{"messages":[{"id":"moved"}]}'),
    closed: (_, response) => response.socket?.destroy(),
    reset: (_, response) => response.socket?.resetAndDestroy(),
    'no json': (_, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hello</h1>'),
    'other json': (_, response) => answer(response, 200, { messages: [{ id: 7 }], field_data: 'none' }),
  };
  const server = createServer(async (request, response) => {
    const bytes = Buffer.concat(await request.toArray());
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://provider');
    const received: ProviderRequest = {
      method: request.method ?? '',
      path: pathname,
      query: searchParams,
      headers: request.headers,
      body: bytes.length === 0 ? undefined : JSON.parse(bytes.toString('utf8')),
    };
    requests.push(received);
    behaviours[behaviour](received, response);
  });
  // Reserved while connections are refused, because the system does not assign it to other processes.
  const port = await freePort();
  const url = await listen(server, port);
  const behave = (next: Behaviour) => {
    behaviour = next;
    const waiting = held;
    held = [];
    if (next !== 'slow') for (const release of waiting) release();
    else held = waiting;
  };
  return {
    url,
    requests,
    leads,
    everyLead: (lead) => {
      other = lead;
    },
    strayed,
    behave,
    shut: () => shut(server),
    open: async () => {
      await listen(server, port);
    },
    close: async () => {
      behave('fine');
      await Promise.all([shut(server), shut(elsewhere)]);
    },
  };
}

function answer(response: ServerResponse, status: number, body: object | string): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  response.writeHead(status, { 'content-type': 'application/json' }).end(text);
}

/** Sends an endless response until the client disconnects. */
function pour(response: ServerResponse): void {
  const piece = 'x'.repeat(64 * 1024);
  const more = () => {
    while (!response.destroyed && response.write(piece));
  };
  response.on('drain', more).on('error', () => {});
  more();
}

function listen(server: Server, port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    });
  });
}

function shut(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
