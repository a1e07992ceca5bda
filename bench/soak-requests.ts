import { Agent, request } from 'node:http';

/** A caller in one organization, and the IDs of records that it can use. */
export interface Client {
  readonly url: string;
  readonly key: string;
  readonly login: { readonly email: string; readonly password: string };
  /** IDs of existing records that are not being deleted. */
  readonly ids: number[];
  /** Path of the next page when reading page by page. */
  next: string | undefined;
}

const agent = new Agent({ keepAlive: true, maxSockets: 256 });
const path = '/api/v1/leads';
/** Average number of records per organization. */
const averageRecords = 200;
const timeoutMs = 30_000;

export const makeClient = (url: string, key: string, login: Client['login']): Client => ({
  url,
  key,
  login,
  ids: [],
  next: undefined,
});

interface Response {
  readonly status: number;
  readonly body: string;
  readonly link: string;
}

function send({ url, key }: Client, method: string, target: string, body?: object): Promise<Response> {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      authorization: `Bearer ${key}`,
      ...(text !== undefined && {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(text),
      }),
    };
    const outgoing = request(
      `${url}${target}`,
      { method, agent, headers, timeout: timeoutMs },
      (response) => {
        let received = '';
        response.setEncoding('utf8').on('data', (chunk: string) => {
          received += chunk;
        });
        response.on('error', reject);
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            body: received,
            link: String(response.headers.link ?? ''),
          }),
        );
      },
    );
    outgoing.on('timeout', () => outgoing.destroy(new Error('timeout')));
    outgoing.on('error', reject);
    outgoing.end(text);
  });
}

const lead = (score: number) => ({
  first_name: 'Ada',
  last_name: `Lovelace ${score}`,
  company: 'Analytical Engines',
  email: `ada${score}@example.com`,
  status: ['Open - Not Contacted', 'Working - Contacted'][score % 2],
  lead_score: score,
  description: 'Wants to know what a program is.',
});

const random = (limit: number) => Math.floor(Math.random() * limit);
const anyId = ({ ids }: Client) => ids[random(ids.length)];

type SendRequest = (client: Client) => Promise<Response>;

const create: SendRequest = async (client) => {
  const response = await send(client, 'POST', path, lead(random(100)));
  if (response.status === 201) client.ids.push((JSON.parse(response.body) as { id: number }).id);
  return response;
};
/** Returns a request that uses an existing record, or creates a record if the client does not have any. */
const withRecord =
  (sendRequest: (client: Client, id: number) => Promise<Response>): SendRequest =>
  (client) => {
    const id = anyId(client);
    return id === undefined ? create(client) : sendRequest(client, id);
  };
const walk: SendRequest = async (client) => {
  const response = await send(client, 'GET', client.next ?? `${path}?sort=id`);
  const [, next] = /<([^>]+)>; rel="next"/.exec(response.link) ?? [];
  client.next = next?.replace(/^https?:\/\/[^/]+/, '');
  return response;
};
const remove: SendRequest = (client) => {
  if (client.ids.length < averageRecords) return create(client);
  const [id] = client.ids.splice(random(client.ids.length), 1);
  return send(client, 'DELETE', `${path}/${id}`);
};

/**
 * Kinds of requests, each with its share per thousand requests. A record deleted by a concurrent request does
 * not count as a failure.
 */
const requestKinds: readonly (readonly [share: number, act: SendRequest])[] = [
  [300, withRecord((client, id) => send(client, 'GET', `${path}/${id}`))],
  [200, (client) => send(client, 'GET', path)],
  [100, (client) => send(client, 'GET', `${path}?status=Working%20-%20Contacted`)],
  [50, (client) => send(client, 'GET', `${path}?created_at[gte]=2020-01-01T00:00:00Z&rating=Hot`)],
  [100, walk],
  [90, create],
  [90, remove],
  [35, withRecord((client, id) => send(client, 'PUT', `${path}/${id}`, lead(random(100))))],
  [34, withRecord((client, id) => send(client, 'PATCH', `${path}/${id}`, { lead_score: random(100) }))],
  // Verifying a password costs as much as a hundred other requests.
  [1, (client) => send(client, 'POST', '/auth/login', client.login)],
];
/** Every kind of request, repeated in proportion to its share. */
const weightedKinds = requestKinds.flatMap(([share, sendRequest]) =>
  Array<SendRequest>(share).fill(sendRequest),
);

/** Sends a random request. @returns the reason it failed, or undefined if it succeeded */
export async function nextRequest(client: Client): Promise<string | undefined> {
  const sendRequest = weightedKinds[random(weightedKinds.length)] ?? create;
  try {
    const { status } = await sendRequest(client);
    return status < 300 || status === 404 ? undefined : String(status);
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code ?? (cause as Error).message;
  }
}
