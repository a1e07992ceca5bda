import { Agent, request } from 'node:http';

/** A caller of one organization, and what it knows of its records. */
export interface Client {
  readonly url: string;
  readonly key: string;
  readonly login: { readonly email: string; readonly password: string };
  /** Records that exist and that no request is deleting. */
  readonly ids: number[];
  /** The next page of a walk. */
  next: string | undefined;
}

const agent = new Agent({ keepAlive: true, maxSockets: 256 });
const path = '/api/v1/leads';
/** Records of each organization: so many are kept, on average. */
const kept = 200;
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
    const sent = request(`${url}${target}`, { method, agent, headers, timeout: timeoutMs }, (response) => {
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
    });
    sent.on('timeout', () => sent.destroy(new Error('timeout')));
    sent.on('error', reject);
    sent.end(text);
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

const random = (below: number) => Math.floor(Math.random() * below);
const anyId = ({ ids }: Client) => ids[random(ids.length)];

type Act = (client: Client) => Promise<Response>;

const create: Act = async (client) => {
  const response = await send(client, 'POST', path, lead(random(100)));
  if (response.status === 201) client.ids.push((JSON.parse(response.body) as { id: number }).id);
  return response;
};
/** Uses an existing record, or creates one. */
const withRecord =
  (act: (client: Client, id: number) => Promise<Response>): Act =>
  (client) => {
    const id = anyId(client);
    return id === undefined ? create(client) : act(client, id);
  };
const walk: Act = async (client) => {
  const response = await send(client, 'GET', client.next ?? `${path}?sort=id`);
  const [, next] = /<([^>]+)>; rel="next"/.exec(response.link) ?? [];
  client.next = next?.replace(/^https?:\/\/[^/]+/, '');
  return response;
};
const remove: Act = (client) => {
  if (client.ids.length < kept) return create(client);
  const [id] = client.ids.splice(random(client.ids.length), 1);
  return send(client, 'DELETE', `${path}/${id}`);
};

/** Request kinds with their share in a thousand. Records deleted by a concurrent request are not failures. */
const acts: readonly (readonly [share: number, act: Act])[] = [
  [300, withRecord((client, id) => send(client, 'GET', `${path}/${id}`))],
  [200, (client) => send(client, 'GET', path)],
  [100, (client) => send(client, 'GET', `${path}?status=Working%20-%20Contacted`)],
  [50, (client) => send(client, 'GET', `${path}?created_at[gte]=2020-01-01T00:00:00Z&rating=Hot`)],
  [100, walk],
  [90, create],
  [90, remove],
  [35, withRecord((client, id) => send(client, 'PUT', `${path}/${id}`, lead(random(100))))],
  [34, withRecord((client, id) => send(client, 'PATCH', `${path}/${id}`, { lead_score: random(100) }))],
  // A password costs as much as a hundred other requests.
  [1, (client) => send(client, 'POST', '/auth/login', client.login)],
];
/** Each act as often as its share says. */
const wheel = acts.flatMap(([share, act]) => Array<Act>(share).fill(act));

/** Sends one request, by chance. @returns why it failed; undefined if it did not */
export async function nextRequest(client: Client): Promise<string | undefined> {
  const act = wheel[random(wheel.length)] ?? create;
  try {
    const { status } = await act(client);
    return status < 300 || status === 404 ? undefined : String(status);
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code ?? (cause as Error).message;
  }
}
