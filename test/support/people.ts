// Users: creates them, logs them in, and sends requests that fetch would repair.

import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { decodeJwt } from 'jose';
import { sql } from 'kysely';
import type { Config } from '../../app/config.ts';
import { entitiesFor } from '../../app/instance.ts';
import { buildService } from '../../app/serve/build.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { type Actor, commandLine } from '../../engine/effects/actor.ts';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { addExistingUser, createUser } from '../../plugins/access/identity/users.ts';
import type { Grant } from '../../plugins/access/profiles/grants.ts';
import { createProfile, profileId } from '../../plugins/access/profiles/profiles.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { describeLike } from './described.ts';
import { type Answer, type Call, type Instance, send } from './instance.ts';

/** Changes made by the tests themselves are attributed to the command line. */
export const command = ({ config }: Pick<Instance, 'config'>): Actor => commandLine(config);

/** A user with a login. */
export interface Person {
  readonly id: string;
  readonly email: string;
  readonly password: string;
}

/** Membership in an organization, with the grants of its new profile. Default: all grants. */
export interface Part {
  readonly organization: { readonly id: string };
  readonly grants?: readonly Grant[];
}

let names = 0;
/** Returns a name that is unique in this process. */
export const fresh = (what: string): string => `${what}-${++names}`;

/** Creates a user who is a member of these organizations. The list can be empty. */
export async function makePerson(
  instance: Instance,
  parts: readonly Part[],
  {
    email = `${fresh('person')}@people.example`,
    password = 'correct horse battery staple',
    verified = parts.length !== 1,
  } = {},
): Promise<Person> {
  if (parts.length === 0) return outsider(instance, email, password, verified);
  const actor = command(instance);
  const id = await transaction(instance.database, async (tables) => {
    let made = '';
    for (const { organization, grants } of parts) {
      const profile =
        grants === undefined
          ? await profileId(tables, organization.id, 'administrator')
          : await createProfile(tables, actor, organization.id, fresh('profile'), grants);
      const user = { email, organization: organization.id, profile };
      if (made !== '') await addExistingUser(tables, actor, user);
      else made = await createUser(tables, actor, { ...user, password: () => password, verified });
    }
    return made;
  });
  return { id, email, password };
}

/** Creates a user who is no longer a member of any organization. */
async function outsider(
  instance: Instance,
  email: string,
  password: string,
  verified: boolean,
): Promise<Person> {
  const organization = await instance.organization(fresh('left'));
  const person = await makePerson(instance, [{ organization }], { email, password, verified });
  await tablesOf(instance.database).deleteFrom('crm_memberships').where('user_id', '=', person.id).execute();
  return person;
}

/** A login as a client stores it. */
export interface LoggedIn {
  /** The cookie's value. */
  readonly cookie: string;
  readonly token: string;
  readonly jti: string;
  /** The session's ID. */
  readonly session: string;
  /** Headers for requests from a page with the same origin. */
  readonly byCookie: Readonly<Record<string, string>>;
  /** Headers for requests from a program. */
  readonly byToken: Readonly<Record<string, string>>;
}

/** Logs a user in over HTTP. */
export async function logIn(
  instance: Instance,
  { email, password }: Pick<Person, 'email' | 'password'>,
  options: { readonly url?: string; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<LoggedIn> {
  const answer = await send(options.url ?? instance.url, 'POST /auth/login', {
    body: { email, password },
    headers: options.headers ?? {},
  });
  assert.equal(answer.status, 200, answer.text);
  const cookie = cookieOf(answer);
  const token = String(answer.json.access_token);
  const { jti = '' } = decodeJwt(token);
  const row = await tablesOf(instance.database)
    .selectFrom('crm_sessions')
    .select('id')
    .where('jti', '=', jti)
    .executeTakeFirstOrThrow();
  return {
    cookie,
    token,
    jti,
    session: String(row.id),
    byCookie: { cookie: `crm_session=${cookie}`, 'sec-fetch-site': 'same-origin' },
    byToken: { authorization: `Bearer ${token}` },
  };
}

/** Returns the cookie that identifies a known device, as set by a response: `name=value`. */
export const deviceOf = (answer: Answer): string =>
  answer.headers
    .getSetCookie()
    .find((each) => each.includes('crm_device='))
    ?.split(';')[0] ?? assert.fail('the response sets no device cookie');

/** Returns the session cookie's value. The only other cookie that the response can set is the device cookie. */
export function cookieOf(answer: Answer): string {
  const all = answer.headers.getSetCookie();
  const [cookie = '', ...more] = all.filter((each) => !each.includes('crm_device='));
  assert.deepEqual(more, []);
  return /^(?:__Host-)?crm_session=([^;]*)/.exec(cookie)?.[1] ?? assert.fail(`no session in "${cookie}"`);
}

/** An additional node of an instance. */
export interface Node {
  readonly url: string;
  readonly call: (request: string, call?: Call) => Promise<Answer>;
  readonly close: () => Promise<void>;
}

/**
 * Starts a second node. On PostgreSQL, it has its own connections. The embedded database supports only one
 * process.
 */
export async function secondNode(
  { config, resources, database, driver, url: first }: Instance,
  changes: Partial<Config> = {},
  background?: Parameters<typeof buildService>[1],
): Promise<Node> {
  const own = driver === 'postgresql' ? await openDatabase(config, entitiesFor(resources)) : undefined;
  const changed = { ...config, ...changes };
  const options = { config: changed, resources, database: own ?? database };
  const app = await buildService({ ...options, secrets: instanceSecrets(changed) }, background);
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  describeLike(url, first);
  return {
    url,
    call: (request, call) => send(url, request, call),
    close: async () => {
      await app.close();
      await own?.close();
    },
  };
}

/**
 * Sends a request with exactly these headers. fetch sets Host itself and joins repeated headers.
 * @param head alternating names and values
 */
export function exchange(
  url: string,
  request: string,
  head: readonly string[],
  body?: unknown,
): Promise<Answer> {
  const [method = 'GET', path = '/'] = request.split(/ (.*)/s);
  const { hostname, port } = new URL(url);
  const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  const length =
    bytes === undefined ? [] : ['content-type', 'application/json', 'content-length', String(bytes.length)];
  const host = head.some((name) => name.toLowerCase() === 'host') ? [] : ['host', `${hostname}:${port}`];
  return new Promise((resolve, reject) => {
    const sent = httpRequest(
      { hostname, port, method, path, agent: false, headers: [...host, ...head, ...length] },
      async (response) => {
        const text = Buffer.concat(await response.toArray()).toString('utf8');
        const headers = new Headers();
        for (const [name, values] of Object.entries(response.headersDistinct)) {
          for (const value of values ?? []) headers.append(name, value);
        }
        const status = response.statusCode ?? 0;
        resolve({
          status,
          headers,
          text,
          get json() {
            return JSON.parse(text) as Record<string, unknown>;
          },
        });
      },
    );
    sent.on('error', reject);
    sent.end(bytes);
  });
}

/** Returns what a response reveals to a caller, excluding the parts that differ between responses. */
export const told = ({ status, headers, text }: Answer) => ({
  status,
  text: text.replace(/"request_id":"[^"]*"/, ''),
  headers: [...headers].filter(([name]) => name !== 'date' && name !== 'x-request-id'),
});

/**
 * Returns every row of every table as text, in the order of their names, excluding what is written occasionally: the times
 * of last use, and which names keys use.
 */
export async function dump({ database }: Instance, without: readonly string[] = []): Promise<string> {
  const tables = tablesOf(database);
  const { rows } = await sql<{ name: string }>`
    select table_name as name from information_schema.tables where table_schema = current_schema() order by 1
  `.execute(tables);
  const texts = [];
  for (const { name } of rows.filter((table) => ![...without, 'crm_name_uses'].includes(table.name))) {
    const all = await sql<{
      line: string;
    }>`select (to_jsonb(t) - 'last_seen_at' - 'last_used_at')::text as line from ${sql.table(name)} t`.execute(
      tables,
    );
    // Sorted, because an updated row moves within its table.
    texts.push(`${name}:`, ...all.rows.map(({ line }) => line).sort());
  }
  return texts.join('\n');
}

/** Returns an organization's activity, oldest first, with IDs as text. */
export async function activityOf({ database }: Instance, organization: string) {
  const rows = await tablesOf(database)
    .selectFrom('crm_ledger')
    .selectAll()
    .where('organization_id', '=', organization)
    .orderBy('id')
    .execute();
  const text = (id: string | null) => (id === null ? null : String(id));
  return rows.map((row) => ({
    id: String(row.id),
    actor: `${row.actor_kind} ${text(row.actor_id)}`,
    did: `${row.action} ${row.object} ${text(row.object_id)}`,
    at: new Date(row.at),
    requestId: row.request_id,
  }));
}

/**
 * Polls until a condition is met that depends on the age of what a node has cached. A slow machine cannot cause a failure,
 * because only a check that starts after the limit must succeed, however late it starts and however long it takes.
 * @throws if a check that started after the limit fails
 */
export async function soonerThan(limitMs: number, isMet: () => Promise<boolean>): Promise<void> {
  const start = performance.now();
  for (;;) {
    const startedMs = performance.now() - start;
    if (await isMet()) return;
    assert.ok(startedMs <= limitMs, `the condition was not met after ${Math.round(startedMs)} ms`);
    await pause(50);
  }
}
