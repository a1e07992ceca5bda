// Providers that partners' endpoints talk to: a server of our own on loopback that plays Meta's Graph API.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** How the provider answers whatever it is asked. */
export type Behaviour =
  | 'fine'
  | 'failing'
  | 'slow'
  | 'huge'
  | 'endless'
  | 'redirect'
  | 'no json'
  | 'other json';

/** A request as the provider got it. */
export interface ProviderRequest {
  readonly method: string;
  /** Path without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  /** The body as JSON; undefined where there was none. */
  readonly body: unknown;
}

/** A provider that listens. */
export interface Provider {
  /** Origin, without a slash at the end. */
  readonly url: string;
  /** Everything that it was asked, oldest first. */
  readonly requests: ProviderRequest[];
  /** How it answers from now on. What it holds back while it is slow, it answers when it becomes anything else. */
  readonly behave: (behaviour: Behaviour) => void;
  /** What it says of a lead, a value or JSON text, by its leadgen id; one that it does not know is a 400, as Meta does it. */
  readonly leads: Map<string, object | string>;
  /** What it says of every lead that the map does not have. */
  readonly everyLead: (lead: (id: string) => object) => void;
  /** Requests that a redirect led elsewhere; must stay empty. */
  readonly strayed: string[];
  /** Refuses connections until it is opened again, on the same port. */
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
    Record<Behaviour, (requests: ProviderRequest, response: ServerResponse) => void>
  > = {
    fine,
    failing: (_, response) => answer(response, 500, { error: { message: 'token SECRET is bad' } }),
    slow: (requests, response) => held.push(() => fine(requests, response)),
    huge: (_, response) => answer(response, 200, { messages: [{ id: 'x'.repeat(3 * 1024 * 1024) }] }),
    endless: (_, response) => pour(response),
    redirect: ({ path }, response) =>
      response.writeHead(307, { location: `${elsewhereUrl}${path}` }).end('{"messages":[{"id":"moved"}]}'),
    'no json': (_, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hello</h1>'),
    'other json': (_, response) => answer(response, 200, { messages: [{ id: 7 }], field_data: 'none' }),
  };
  const server = createServer(async (request, response) => {
    const bytes = Buffer.concat(await request.toArray());
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://provider');
    const one: ProviderRequest = {
      method: request.method ?? '',
      path: pathname,
      query: searchParams,
      headers: request.headers,
      body: bytes.length === 0 ? undefined : JSON.parse(bytes.toString('utf8')),
    };
    requests.push(one);
    behaviours[behaviour](one, response);
  });
  const url = await listen(server, 0);
  const port = Number(new URL(url).port);
  const behave = (next: Behaviour) => {
    behaviour = next;
    const waiting = held;
    held = [];
    if (next !== 'slow') for (const release of waiting) release();
    else held = waiting;
  };
  return {
    url,
    requests: requests,
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

/** An answer that has no end; stops when nobody reads it any more. */
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
