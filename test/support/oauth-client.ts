// An OAuth client: its metadata document on a local server, and the steps of the authorization code flow in a browser.
import assert from 'node:assert/strict';
import { hash, randomBytes } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { formsOf, signIn, type Visitor } from './forms.ts';
import { type Answer, type Instance, send } from './instance.ts';
import { settingsFile } from './partners.ts';
import type { Person } from './people.ts';
import { whileUncommitted } from './uncommitted.ts';

/** Where the tests' client receives codes. Nothing listens there. */
export const callback = 'http://127.0.0.1:7/callback';

/** Metadata of a client whose document is served at a path. */
export type Metadata = Readonly<Record<string, unknown>>;

/** A server of client ID metadata documents. */
export interface ClientHost {
  readonly port: number;
  /** Serves a document at a path, or responds with a function. @returns the client's ID */
  readonly serve: (path: string, document?: Metadata | ((response: ServerResponse) => void)) => string;
  /** Returns how often a document was requested. */
  readonly requests: (id: string) => number;
  readonly close: () => Promise<void>;
}

/** Starts a server of client ID metadata documents on a free port. */
export async function startClientHost(): Promise<ClientHost> {
  const documents = new Map<string, (response: ServerResponse) => void>();
  const counts = new Map<string, number>();
  const server = createServer(({ url = '' }, response) => {
    counts.set(url, (counts.get(url) ?? 0) + 1);
    const respond = documents.get(url);
    if (respond === undefined) response.writeHead(404).end();
    else respond(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    serve: (path, document = {}) => {
      const id = `http://127.0.0.1:${port}${path}`;
      const metadata = { client_id: id, client_name: 'Assistant', redirect_uris: [callback] };
      documents.set(
        path,
        typeof document === 'function'
          ? document
          : (response) => sendJson(response, JSON.stringify({ ...metadata, ...document })),
      );
      return id;
    },
    requests: (id) => counts.get(new URL(id).pathname) ?? 0,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Sends a JSON document. */
export const sendJson = (response: ServerResponse, text: string): unknown =>
  response.writeHead(200, { 'content-type': 'application/json' }).end(text);

/** Returns a settings file with which OAuth is enabled and documents of local clients can be read. */
export const oauthSettings = (ports: readonly number[], more: object = {}) =>
  settingsFile({ mcp: true, events: { allow_private_addresses: true, allow_http: true, ports }, ...more });

/** A PKCE code verifier with its challenge. */
export interface Pkce {
  readonly verifier: string;
  readonly challenge: string;
}

export function pkce(): Pkce {
  const verifier = randomBytes(32).toString('base64url');
  return { verifier, challenge: hash('sha256', verifier, 'base64url') };
}

/** Parameters that replace those of a valid request. Undefined removes a parameter. */
export type Changes = Readonly<Record<string, string | undefined>>;

/** Returns parameters with changes, as a query string. */
export const queryOf = (parameters: Changes): string =>
  new URLSearchParams(
    Object.entries(parameters).flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name, value]],
    ),
  ).toString();

/** Returns the URL that starts the flow. */
export const authorizeUrl = (
  { url }: Pick<Instance, 'url'>,
  client: string,
  challenge: string,
  changes: Changes = {},
): string =>
  `/oauth/authorize?${queryOf({
    ...{ response_type: 'code', client_id: client, redirect_uri: callback, state: 'state of the client' },
    ...{ code_challenge: challenge, code_challenge_method: 'S256', resource: `${url}/mcp`, ...changes },
  })}`;

/** Opens the consent page as a user who is logged in. @returns its URL and the response */
export async function openConsent(
  instance: Pick<Instance, 'url'>,
  browser: Visitor,
  client: string,
  { challenge = pkce().challenge, changes = {} }: { challenge?: string; changes?: Changes } = {},
): Promise<{ readonly page: string; readonly answer: Answer }> {
  const start = await browser.get(authorizeUrl(instance, client, challenge, changes));
  assert.equal(start.status, 303, start.text);
  const page = start.headers.get('location') ?? '';
  return { page, answer: await browser.get(page) };
}

/** Submits the form on a consent page. */
export async function decide(
  browser: Visitor,
  page: Pick<Answer, 'text'>,
  fields: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const form = formsOf(page).find(({ action }) => action === '/setup/connect');
  assert.ok(form, page.text);
  return browser.post('/setup/connect', { ...form.values, step: 'allow', ...fields });
}

/** Returns the parameters with which a response redirects to the client. */
export function returned(answer: Answer, redirectUri = callback): URLSearchParams {
  assert.equal(answer.status, 303, answer.text);
  const location = answer.headers.get('location') ?? '';
  assert.ok(location.startsWith(`${redirectUri}?`), location);
  return new URL(location).searchParams;
}

/** Posts a form to an endpoint for clients. */
export const post = ({ url }: Pick<Instance, 'url'>, path: string, parameters: Changes): Promise<Answer> =>
  send(url, `POST ${path}`, {
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: queryOf(parameters),
  });

/** Tokens of a connected app. */
export interface Tokens {
  readonly access: string;
  readonly refresh: string;
}

/** Returns the tokens in a response of the token endpoint. */
export function tokensIn(answer: Answer): Tokens {
  assert.equal(answer.status, 200, answer.text);
  return { access: String(answer.json.access_token), refresh: String(answer.json.refresh_token) };
}

/** A code that has not been exchanged yet. */
export interface Consent {
  readonly code: string;
  /** Parameters of the request that exchanges the code. */
  readonly exchange: Readonly<Record<string, string>>;
}

/** Gives a client the consent of a user to read and write, unless the fields restrict it. */
export async function consent(
  instance: Pick<Instance, 'url'>,
  user: Person | Visitor,
  client: string,
  fields: Readonly<Record<string, string>> = {},
): Promise<Consent> {
  const browser = 'cookies' in user ? user : await signIn(instance, user);
  const { verifier, challenge } = pkce();
  const { answer } = await openConsent(instance, browser, client, { challenge });
  const code =
    returned(await decide(browser, answer, { access: 'write', ...fields })).get('code') ??
    assert.fail('no code');
  return {
    code,
    exchange: {
      ...{ grant_type: 'authorization_code', client_id: client, code, redirect_uri: callback },
      ...{ code_verifier: verifier, resource: `${instance.url}/mcp` },
    },
  };
}

/** Connects a client to a user. */
export async function connect(
  instance: Pick<Instance, 'url'>,
  user: Person | Visitor,
  client: string,
  fields: Readonly<Record<string, string>> = {},
): Promise<Tokens> {
  const { exchange } = await consent(instance, user, client, fields);
  return tokensIn(await post(instance, '/oauth/token', exchange));
}

/** Sends two requests that change a connected app. On PostgreSQL, neither can change it until both wait. */
export const sendBoth = <T>(instance: Instance, send: () => Promise<T>): Promise<readonly T[]> => {
  const both = () => Promise.all([send(), send()]);
  return instance.driver === 'embedded'
    ? both()
    : whileUncommitted(instance, ['lock table crm_connected_apps in share mode'], both, 2);
};

/** Exchanges a refresh token. */
export const refresh = (
  instance: Pick<Instance, 'url'>,
  client: string,
  { refresh: refresh_token }: Pick<Tokens, 'refresh'>,
): Promise<Answer> =>
  post(instance, '/oauth/token', { grant_type: 'refresh_token', client_id: client, refresh_token });
