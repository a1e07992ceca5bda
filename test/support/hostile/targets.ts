// Test support: reaches each route with a valid URL, credentials and signature, so that only the body is hostile.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { sql } from 'kysely';
import { tablesOf } from '../../../engine/tables/handle.ts';
import { providers, publicUrl } from '../channels.ts';
import { formsOf, type Visitor, visitor } from '../forms.ts';
import type { Instance, Organization } from '../instance.ts';
import { integrate } from '../partners.ts';
import { customers, newSecret } from '../payments.ts';
import { fresh, logIn, makePerson } from '../people.ts';
import { formNames } from '../screens.ts';
import type { Expected, ExpectedFile } from './bodies.ts';
import type { Route } from './routes.ts';
import { type Access, type AgentTool, customColumns, customFields, partnerSecrets } from './world.ts';

type Headers = Readonly<Record<string, string>>;

/** A route with its path parameters and everything required for its body to be read. */
export interface Target {
  readonly route: Route;
  readonly method: string;
  readonly path: string;
  /** Routes of the same kind share the work: each body is sent at full size to only one route of a kind. */
  readonly kind: string;
  readonly headers: (raw: Uint8Array, path: string) => Headers;
  readonly expected: Expected;
  /** ID of the organization that the headers belong to, unless it is `acme` of the world. */
  readonly organization?: string;
}

const json = 'application/json';
const form = 'application/x-www-form-urlencoded';
const none: Expected = { type: json, shape: { name: '', data: '' }, kept: [] };
const methodOf = ({ methods }: Route): string =>
  ['POST', 'PUT', 'PATCH', 'DELETE', 'GET'].find((method) => methods.includes(method)) ?? methods[0] ?? 'GET';

/** Returns whether a route only rejects methods, or lists the accepted ones, without reading the body. */
export const isRejecting = ({ methods }: Route): boolean =>
  methods.includes('OPTIONS') || methods.includes('TRACE');

/** Returns the ways to reach a route. A route without a rule is reached by its path alone. */
export async function targetsOf(world: Access, route: Route): Promise<Target[]> {
  const { url } = route;
  const method = methodOf(route);
  const base = {
    route,
    method,
    path: url.replace(/:\w+|\*/g, '1'),
    kind: `${method} ${url}`,
    headers: () => ({}),
    expected: none,
  };
  if (isRejecting(route)) {
    const kind = `${method === 'OPTIONS' ? method : 'a rejected method'}, limit ${route.bodyLimit}`;
    return [{ ...base, kind }];
  }
  // All resources' batches are alike, and their bodies are large.
  if (url.endsWith('/batch') && !url.startsWith('/api/v1/leads/')) return [];
  if (url.startsWith('/api/v1/')) return [await record(world, base)];
  if (url.startsWith('/auth/')) return [await account(world, base)];
  if (url.startsWith('/setup')) return [await screen(world, base)];
  if (url.startsWith('/webhooks/channels/')) return [await channel(world, base)];
  if (url === '/webhooks/:hook') return customers.map((customer) => payment(base, customer));
  if (url.startsWith('/events')) return [await subscription(world, base)];
  if (url.startsWith('/fields')) return [await customField(world, base)];
  if (url === '/mcp' && world.tools.length > 0)
    return world.tools.map((tool) => toolTarget(world, base, tool));
  if (url.startsWith('/oauth/') && method === 'POST') return oauth(base);
  if (/^\/(?:webhooks|api\/booking-forms)\//.test(url)) return [await partner(world, base)];
  return [base];
}

/** A route that accepts files of records, and how to send them. */
export interface FileTarget extends Omit<Target, 'expected'> {
  readonly expected: ExpectedFile;
}

/**
 * Returns the ways to send files to a route. Most routes do not accept files. API imports are dry runs, so
 * that lines do not create rows.
 */
export async function fileTargetsOf(world: Access, route: Route): Promise<FileTarget[]> {
  const { url } = route;
  if (!route.methods.includes('POST')) return [];
  const base = { route, method: 'POST', headers: () => ({}) };
  const fields = { field: 'last_name', customFields: customColumns };
  const resource = /^\/api\/v1\/(\w+)\/import$/.exec(url)?.[1];
  // All resources' imports are alike, and their bodies are large.
  if (resource === 'leads') {
    const headers = () => ({ authorization: `Bearer ${world.acme.key}` });
    return (['text/csv', 'application/x-ndjson'] as const).map((type) => ({
      ...base,
      path: `${url}?dry_run=true`,
      kind: `an import of ${type}`,
      headers,
      expected: { type, ...fields, start: '' },
    }));
  }
  if (url !== '/setup/o/:org/data/:resource/import') return [];
  const { browser } = world.clerk;
  const path = '/setup/o/acme/data/leads/import';
  const token = await browser.token(path);
  return [
    {
      ...base,
      path,
      kind: 'a form with a file',
      headers: () => headersOf(browser),
      expected: {
        type: 'multipart/form-data',
        ...fields,
        start: `--x\r\ncontent-disposition: form-data; name="_csrf"\r\n\r\n${token}\r\n`,
      },
    },
  ];
}

const descriptions = new WeakMap<Instance, Promise<Record<string, Json>>>();

/** Returns an instance's description, which is read only once. */
function descriptionOf(instance: Instance): Promise<Record<string, Json>> {
  const read =
    descriptions.get(instance) ??
    instance.call('GET /docs/openapi.json').then(({ json }) => json as Record<string, Json>);
  descriptions.set(instance, read);
  return read;
}

/** Returns the content types that the description lists for a route's body. */
export async function documentedTypes(
  { instance }: Pick<Access, 'instance'>,
  { method, route }: Pick<Target, 'method' | 'route'>,
): Promise<string[]> {
  const { paths } = await descriptionOf(instance);
  return Object.keys(at(paths, pathOf(route), method.toLowerCase(), 'requestBody', 'content') ?? {});
}

const pathOf = ({ url }: Route): string => url.replace(/:(\w+)/g, '{$1}');

/** Levels of lists and objects in a body that hostile values are put into. */
const levels = 3;

/** Returns a value with the shape that a schema describes, in which each value without parts is an empty string. */
function shapeOf(components: Json, schema: unknown, depth = levels): unknown {
  const { $ref, properties, items, allOf } = (schema ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof $ref === 'string')
    return shapeOf(components, at(components, 'schemas', $ref.split('/').at(-1) ?? ''), depth);
  if (depth > 0 && items !== undefined) return [shapeOf(components, items, depth - 1)];
  const parts = [properties, ...((allOf ?? []) as Json[]).map((part) => at(part, 'properties'))];
  const members = parts.flatMap((part) => Object.entries(part ?? {}));
  if (depth === 0 || members.length === 0) return '';
  return Object.fromEntries(members.map(([name, part]) => [name, shapeOf(components, part, depth - 1)]));
}

/** Returns whether a route reads a body, according to the description. Routes that are not described do. */
export async function readsBody(
  { instance }: Pick<Access, 'instance'>,
  { method, route }: Pick<Target, 'method' | 'route'>,
): Promise<boolean> {
  const { paths } = await descriptionOf(instance);
  const described = at(paths, pathOf(route), method.toLowerCase());
  return described === undefined || described.requestBody !== undefined;
}

/** Statuses of requests that were rejected before their bodies and parameters were read. */
const gates: ReadonlySet<number> = new Set([0, 401, 403, 404, 405, 413, 415, 429, 503]);

/** Routes that read no body and end their own session, so that only the first request reaches them. */
const endingSessions = ['/auth/logout', '/auth/logout-everywhere', '/auth/sessions/:id'];
/** Routes that read credentials from the body, and respond with 401 to others. */
const checkingCredentials = ['/auth/login', '/setup/login', '/setup/login/passkey'];
/** Forms that read a change or a job, and respond with 404 if it does not exist. */
const findingMore = [
  '/setup/o/:org/data/:resource/undo',
  '/setup/o/:org/data/:resource/:id/undo',
  '/setup/o/:org/data/:resource/jobs/:job/cancel',
];

/**
 * Returns the targets whose requests were all rejected before their bodies and parameters were read. Routes without a body can
 * respond with 404 after the first request, for example if it has deleted the record.
 * @param statuses the statuses of each target's requests with valid credentials and types
 */
export async function unreached(
  world: Pick<Access, 'instance'>,
  statuses: Iterable<readonly [Target, ReadonlySet<number>]>,
): Promise<string[]> {
  const missed: string[] = [];
  for (const [target, received] of statuses) {
    const { method, route } = target;
    const { url } = route;
    if (isRejecting(route) || endingSessions.includes(url)) continue;
    const isRead = (status: number) =>
      !gates.has(status) ||
      (status === 401 && checkingCredentials.includes(url)) ||
      (status === 404 && findingMore.includes(url));
    const isMissing = received.has(404) && !(await readsBody(world, target));
    if (![...received].some(isRead) && !isMissing)
      missed.push(`${method} ${url}: ${[...received].join(', ')}`);
  }
  return missed;
}

/** Returns the body that the description documents for a route. */
async function documented({ instance }: Access, { method, route }: Target): Promise<Expected> {
  const { paths, components } = await descriptionOf(instance);
  const content = at(paths, pathOf(route), method.toLowerCase(), 'requestBody', 'content');
  const [schema] = Object.values(content ?? {}).map((each) => at(each, 'schema'));
  const shape = shapeOf(components as Json, schema);
  return shape === '' ? none : { ...none, shape };
}

type Json = Readonly<Record<string, unknown>> | undefined;
const at = (value: unknown, ...path: string[]): Json =>
  path.reduce<unknown>((inner, key) => (inner as Json)?.[key], value) as Json;

/** Organizations without records, by instance. The cost of a query does not include the records that it returns. */
const emptyOrganizations = new WeakMap<Instance, Promise<Organization>>();
function organizationWithoutRecords({ instance }: Access): Promise<Organization> {
  const organization = emptyOrganizations.get(instance) ?? instance.organization('without-records');
  emptyOrganizations.set(instance, organization);
  return organization;
}

async function record(world: Access, base: Target): Promise<Target> {
  const { url } = base.route;
  const [resource = '', ...more] = url.replace('/api/v1/', '').split('/');
  if (base.method === 'QUERY' || more[0] === 'query') {
    const { id, key } = await organizationWithoutRecords(world);
    const headers = () => ({ authorization: `Bearer ${key}` });
    const expected = await documented(world, base);
    return { ...base, kind: `${base.method} a query`, organization: id, headers, expected };
  }
  const key = world.acme.key;
  const headers = () => ({ authorization: `Bearer ${key}` });
  if (more[0] === 'batch') {
    const single = `/api/v1/${resource}`;
    const { shape } = await documented(world, {
      ...base,
      method: 'POST',
      route: { ...base.route, url: single },
    });
    const record = { id: 1, ...withCustomFields(shape) };
    const items = base.method === 'DELETE' ? { ids: [''] } : { records: [record] };
    const expected: Expected = {
      type: json,
      shape: { ...items, on_error: 'continue' },
      kept: ['id', 'on_error'],
    };
    return { ...base, kind: `${base.method} a batch`, headers, expected };
  }
  const expected = await documented(world, base);
  const isCollection = more.length === 0;
  if (isCollection && ['PATCH', 'DELETE'].includes(base.method)) {
    const { definition } = world.instance.resources.find(({ name }) => name === resource) ?? assert.fail(url);
    const filter = definition.filters.find(({ operators }) => operators.includes('is_null'));
    return {
      ...base,
      path: `${url}?${filter?.name}[is_null]=true`,
      kind: `${base.method} a bulk change`,
      headers: () => ({ ...headers(), prefer: 'bulk' }),
      expected,
    };
  }
  const part = more.filter((segment) => segment !== ':id').join('/');
  const query = part === 'aggregate' ? '?measure=count()' : '';
  const id = url.includes(':id') ? await world.create(resource) : '';
  return {
    ...base,
    path: url.replace(':id', id) + query,
    kind: `${base.method} a record${more[0] === ':id' ? ' by id' : ''}${part === '' ? '' : `, ${part}`}`,
    headers,
    expected: resource === 'leads' ? { ...expected, shape: withCustomFields(expected.shape) } : expected,
  };
}

/** Returns the shape of a lead with values for its custom fields. */
const withCustomFields = (shape: unknown): object =>
  Object.hasOwn(shape as object, 'custom')
    ? {
        ...(shape as object),
        custom: Object.fromEntries(Object.keys(customFields).map((name) => [name, ''])),
      }
    : (shape as object);

/** Reaches the change feed and event subscriptions. Each route has its own subscription, which sends nothing. */
async function subscription(world: Access, base: Target): Promise<Target> {
  const { instance, acme } = world;
  const headers = () => ({ authorization: `Bearer ${acme.key}` });
  const expected = await documented(world, base);
  if (!base.route.url.includes(':id')) return { ...base, headers, expected };
  const body = { url: `https://${fresh('hook')}.invalid/`, resources: ['leads'], actions: ['delete'] };
  const { status, json, text } = await instance.call('POST /events/subscriptions', { key: acme.key, body });
  assert.equal(status, 201, text);
  await tablesOf(instance.database)
    .updateTable('crm_event_subscriptions')
    .set({ paused_until: sql`'infinity'` })
    .where('id', '=', String(json.id))
    .execute();
  return { ...base, path: base.route.url.replace(':id', String(json.id)), headers, expected };
}

/** Reaches the custom fields of leads. Each route has its own field. */
async function customField(world: Access, base: Target): Promise<Target> {
  const { instance, acme } = world;
  const { url } = base.route;
  const name = fresh('field').replace('-', '_');
  const call = (request: string, body?: object) =>
    instance.call(request, { key: acme.key, ...(body && { body }) });
  if (url.includes(':name')) await call('POST /fields/leads', { name, type: 'string' });
  if (url.endsWith('/restore')) await call(`DELETE /fields/leads/${name}`);
  return {
    ...base,
    path: url.replace(':resource', 'leads').replace(':name', name),
    headers: () => ({ authorization: `Bearer ${acme.key}` }),
    expected: await documented(world, base),
  };
}

/** Arguments of tools whose schemas do not describe them. */
const toolArguments: Readonly<Record<string, unknown>> = {
  resource: 'leads',
  id: 1,
  ids: [''],
  values: { last_name: '', lead_score: '', custom: { plain: '' } },
  where: { any: [{ field: '', op: '', value: '' }, { not: { field: 'status', op: 'eq', value: '' } }] },
};
/** Valid arguments, by type. */
const validArguments: Readonly<Record<string, unknown>> = { integer: 1, number: 1, boolean: true };

/** Reaches a tool of agents. Arguments that are not texts, lists or objects are valid, so that the others are read. */
function toolTarget({ acme }: Access, base: Target, { name, parameters }: AgentTool): Target {
  const input = Object.entries(parameters).map(([parameter, { type = '' }]) => {
    const value = toolArguments[parameter] ?? validArguments[type];
    return [parameter, value ?? (type === 'array' ? [''] : '')] as const;
  });
  const valid = input.filter(([, value]) => value === 1 || value === true).map(([parameter]) => parameter);
  return {
    ...base,
    kind: 'a tool of agents',
    headers: () => ({ authorization: `Bearer ${acme.key}` }),
    expected: {
      type: json,
      shape: {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name, arguments: Object.fromEntries(input) },
      },
      kept: ['jsonrpc', 'id', 'method', 'name', 'resource', ...valid],
    },
  };
}

let networks = 0;

/** Reaches the endpoints for OAuth clients: the token endpoint with each type of grant. */
function oauth(base: Target): Target[] {
  const path = base.route.url;
  // Networks are limited, so each request comes from another one.
  const headers = () => ({ 'x-forwarded-for': `2001:db8:${(++networks).toString(16)}::1` });
  const withForm = (shape: Readonly<Record<string, string>>, kept: readonly string[]): Target => ({
    ...base,
    headers,
    expected: { type: form, shape, kept },
  });
  const resource = `${publicUrl}/mcp`;
  switch (path) {
    case '/oauth/token':
      return [
        withForm(
          {
            ...{ grant_type: 'authorization_code', resource, client_id: 'c', code: 'c' },
            ...{ code_verifier: 'v', redirect_uri: 'r' },
          },
          ['grant_type', 'resource'],
        ),
        withForm({ grant_type: 'refresh_token', resource, client_id: 'c', refresh_token: 't' }, [
          'grant_type',
          'resource',
        ]),
      ];
    case '/oauth/revoke':
      return [withForm({ token: 't', client_id: 'c' }, [])];
    case '/oauth/register': {
      const shape = { client_name: '', redirect_uris: [''], client_uri: '', grant_types: [''], scope: '' };
      return [{ ...base, headers, expected: { type: json, shape, kept: [] } }];
    }
    default:
      return [base];
  }
}

async function account(world: Access, base: Target): Promise<Target> {
  const person = await makePerson(world.instance, [{ organization: world.acme }]);
  const { byToken } = await logIn(world.instance, person);
  return { ...base, headers: () => byToken, expected: await documented(world, base) };
}

async function partner(world: Access, base: Target): Promise<Target> {
  const secret = base.path.startsWith('/webhooks/')
    ? partnerSecrets.INBOUND_SECRET
    : partnerSecrets.BOOKING_FORMS_WHATSAPP_TOKEN;
  return {
    ...base,
    headers: () => ({ authorization: `Bearer ${secret}` }),
    expected: await documented(world, base),
  };
}

/** Prefix of the pages and forms that the clerk can open. */
const sections = '/setup/o/';

async function screen(world: Access, base: Target): Promise<Target> {
  const { instance, screens, clerk, parametersOf } = world;
  const pattern = base.route.url;
  // Forms that end sessions use their own administrator.
  const own = pattern.startsWith(sections) ? clerk : await screens.administrator();
  const { browser } = own;
  const headers = () => headersOf(browser);
  const inAcme = pattern.replace(':org', 'acme');
  const name = formNames.find((each) => inAcme === each || inAcme === `${each}:id`);
  const parameters = name === undefined ? await parametersOf(pattern) : {};
  const path = pattern.replace(/:(\w+)|\*/g, (_, parameter: string) => parameters[parameter] ?? '1');
  if (base.method !== 'POST') return { ...base, path, headers };
  if (name === undefined) {
    const isOfRecords = pattern.includes('/data/:resource/');
    // Users who are not logged in open these pages.
    const guest = /^\/setup\/(?:forgot|login\/)/.test(pattern) ? visitor(instance) : undefined;
    const shape = await fieldsOn(guest ?? browser, path);
    return {
      ...base,
      path,
      kind: isOfRecords ? 'a form of records' : 'a form',
      headers: guest === undefined ? headers : () => headersOf(guest),
      expected: { type: form, shape, kept: ['_csrf', 'id', 'field', 'version', 'step'] },
    };
  }
  const { page, action, fields } = await screens.ready(name, own);
  const _csrf = await browser.token(page);
  return {
    ...base,
    path: action,
    kind: 'a form',
    headers,
    expected: {
      type: form,
      shape: { _csrf, ...fields },
      kept: [
        '_csrf',
        ...Object.keys(fields).filter((key) => ['id', 'profile', 'code', 'current'].includes(key)),
      ],
    },
  };
}

/** Returns the headers of a browser's requests from a page with the same origin. */
const headersOf = ({ cookies }: Visitor): Headers => ({
  cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; '),
  'sec-fetch-site': 'same-origin',
});

/** Returns the fields of the form with an action, from the page where it is found. Other forms have a valid token. */
async function fieldsOn(browser: Visitor, action: string): Promise<Readonly<Record<string, string>>> {
  const folder = action.replace(/\/[^/]*$/, '');
  for (const page of [action, `${action}?field=owner_id`, `${action}/new`, folder]) {
    const found = formsOf(await browser.get(page)).find((each) => each.action.split('?')[0] === action);
    if (found !== undefined)
      return { ...Object.fromEntries(found.names.map((name) => [name, ''])), ...found.values };
  }
  const page = browser.cookies.size > 1 ? '/setup/me' : '/setup/login';
  return { _csrf: await browser.token(page), id: '1', name: '', text: '' };
}

async function channel({ instance, acme }: Access, base: Target): Promise<Target> {
  const name = base.route.url.split('/')[3] ?? '';
  const sends = providers.find(({ provider }) => provider === name);
  // A channel that the tests do not cover yet is reached by its path.
  if (sends === undefined) return base;
  const added = await integrate(instance, acme, name);
  const isForm = sends.type !== json;
  const raw = sends.body('1234567');
  return {
    ...base,
    path: added.path,
    kind: `${base.method} a channel, limit ${base.route.bodyLimit}`,
    headers: (bytes, path) =>
      isForm
        ? { 'x-twilio-signature': twilioSignature(added.secret, `${publicUrl}${path}`, bytes) }
        : sends.headers(added, bytes as Buffer & string),
    expected: {
      type: isForm ? form : json,
      shape: isForm ? Object.fromEntries(new URLSearchParams(raw)) : JSON.parse(raw),
      kept: ['object', 'field'],
    },
  };
}

/** Computes the X-Twilio-Signature of any form, including forms with repeated names. */
function twilioSignature(secret: string, url: string, bytes: Uint8Array): string {
  const pairs = [...new URLSearchParams(Buffer.from(bytes).toString('utf8'))];
  // The service rejects larger forms before it sorts them, so their signature does not matter.
  const sorted = pairs.length > 1000 ? [] : pairs.sort(([a, x], [b, y]) => compare(a, b) || compare(x, y));
  const unique = sorted.filter(([key, value], index) => {
    const before = sorted[index - 1];
    return before?.[0] !== key || before[1] !== value;
  });
  return createHmac('sha1', secret)
    .update(url + unique.flat().join(''))
    .digest('base64');
}
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function payment(base: Target, { name, payload, headers }: (typeof customers)[number]): Target {
  return {
    ...base,
    method: 'POST',
    path: `/webhooks/${name}-payment`,
    kind: 'a payment',
    headers: (raw) => headers(raw as Buffer & string, newSecret(name), fresh('event')),
    expected: {
      type: json,
      shape: payload({ event: 'e', email: 'a@example.com', phone: '1' }),
      kept: name === 'stripe' ? ['type'] : [],
    },
  };
}

/** Fails if the admin UI has a form that the rules above do not cover. */
export function assertKnown(targets: readonly Target[]): void {
  const reached = targets.map(({ path }) => path);
  for (const form of formNames) {
    assert.ok(
      reached.some((path) => path.startsWith(form)),
      `${form} is reached`,
    );
  }
}
