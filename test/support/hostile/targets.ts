// Test support: reaches each route with a valid URL, credentials and signature, so that only the body is hostile.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { providers, publicUrl } from '../channels.ts';
import type { Instance, Organization } from '../instance.ts';
import { integrate } from '../partners.ts';
import { customers, newSecret } from '../payments.ts';
import { fresh, logIn, makePerson } from '../people.ts';
import { type Administrator, formNames, type Screens } from '../screens.ts';
import type { Expected, ExpectedFile } from './bodies.ts';
import type { Route } from './routes.ts';

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

/** The partner endpoints' secrets, keyed by environment variable. */
export const partnerSecrets = {
  INBOUND_SECRET: 'the-secret-of-inbound-leads',
  BOOKING_FORMS_WHATSAPP_TOKEN: 'the-token-of-booking-forms',
};

interface World {
  readonly instance: Instance;
  readonly screens: Screens;
  readonly acme: Organization;
  /** The administrator who opens the organization's pages. */
  readonly clerk: Administrator;
}

const json = 'application/json';
const none: Expected = { type: json, shape: { name: '', data: '' }, kept: [] };
const methodOf = ({ methods }: Route): string =>
  ['POST', 'PUT', 'PATCH', 'DELETE', 'GET'].find((method) => methods.includes(method)) ?? methods[0] ?? 'GET';

/** Returns the ways to reach a route. A route without a rule is reached by its path alone. */
export async function targetsOf(world: World, route: Route): Promise<Target[]> {
  const { url } = route;
  const method = methodOf(route);
  const base = {
    route,
    method,
    path: url.replace(/:\w+|\*/g, '1'),
    // A route that only answers OPTIONS rejects all bodies alike.
    kind: method === 'OPTIONS' ? `OPTIONS, limit ${route.bodyLimit}` : `${method} ${url}`,
    headers: () => ({}),
    expected: none,
  };
  // All resources' batches are alike, and their bodies are large.
  if (url.endsWith('/batch') && !url.startsWith('/api/v1/leads/')) return [];
  if (url.startsWith('/api/v1/')) return [await record(world, base)];
  if (url.startsWith('/auth/')) return [await account(world, base)];
  if (url.startsWith('/setup')) return [await screen(world, base)];
  if (url.startsWith('/webhooks/channels/')) return [await channel(world, base)];
  if (url === '/webhooks/:hook') return customers.map((customer) => payment(base, customer));
  return [await partner(world, base)];
}

/** A route that accepts files of records, and how to send them. */
export interface FileTarget extends Omit<Target, 'expected'> {
  readonly expected: ExpectedFile;
}

/**
 * Returns the ways to send files to a route. Most routes do not accept files. API imports are dry runs, so
 * that lines do not create rows.
 */
export async function fileTargetsOf(world: World, route: Route): Promise<FileTarget[]> {
  const { url } = route;
  if (!route.methods.includes('POST')) return [];
  const base = { route, method: 'POST', headers: () => ({}) };
  const resource = /^\/api\/v1\/(\w+)\/import$/.exec(url)?.[1];
  // All resources' imports are alike, and their bodies are large.
  if (resource === 'leads') {
    const headers = () => ({ authorization: `Bearer ${world.acme.key}` });
    return (['text/csv', 'application/x-ndjson'] as const).map((type) => ({
      ...base,
      path: `${url}?dry_run=true`,
      kind: `an import of ${type}`,
      headers,
      expected: { type, field: 'last_name', start: '' },
    }));
  }
  if (url !== '/setup/o/:org/data/:resource/import') return [];
  const { browser } = world.clerk;
  const path = '/setup/o/acme/data/leads/import';
  const token = await browser.token(path);
  const cookie = () => [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  return [
    {
      ...base,
      path,
      kind: 'a form with a file',
      headers: () => ({ cookie: cookie(), 'sec-fetch-site': 'same-origin' }),
      expected: {
        type: 'multipart/form-data',
        field: 'last_name',
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
  { instance }: Pick<World, 'instance'>,
  { method, route }: Pick<Target, 'method' | 'route'>,
): Promise<string[]> {
  const { paths } = await descriptionOf(instance);
  return Object.keys(at(paths, pathOf(route), method.toLowerCase(), 'requestBody', 'content') ?? {});
}

const pathOf = ({ url }: Route): string => url.replace(/:(\w+)/g, '{$1}');

/** Returns the body that the description documents for a route. */
async function documented({ instance }: World, { method, route }: Target): Promise<Expected> {
  const { paths, components } = await descriptionOf(instance);
  const content = at(paths, pathOf(route), method.toLowerCase(), 'requestBody', 'content', json, 'schema');
  const reference: unknown = at(content, '$ref');
  const name = typeof reference === 'string' ? (reference.split('/').at(-1) ?? '') : '';
  const schema = name === '' ? content : at(components, 'schemas', name);
  const names = Object.keys(at(schema, 'properties') ?? {});
  return names.length === 0 ? none : { ...none, shape: Object.fromEntries(names.map((each) => [each, ''])) };
}

type Json = Readonly<Record<string, unknown>> | undefined;
const at = (value: unknown, ...path: string[]): Json =>
  path.reduce<unknown>((inner, key) => (inner as Json)?.[key], value) as Json;

/** Organizations without records, by instance. The cost of a query does not include the records that it returns. */
const emptyOrganizations = new WeakMap<Instance, Promise<Organization>>();
function organizationWithoutRecords({ instance }: World): Promise<Organization> {
  const organization = emptyOrganizations.get(instance) ?? instance.organization('without-records');
  emptyOrganizations.set(instance, organization);
  return organization;
}

async function record(world: World, base: Target): Promise<Target> {
  const [resource = '', ...more] = base.route.url.replace('/api/v1/', '').split('/');
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
    const items = base.method === 'DELETE' ? { ids: [''] } : { records: [{ id: 1, ...(shape as object) }] };
    const expected: Expected = {
      type: json,
      shape: { ...items, on_error: 'continue' },
      kept: ['id', 'on_error'],
    };
    return { ...base, kind: `${base.method} a batch`, headers, expected };
  }
  const part = more.filter((segment) => segment !== ':id').join('/');
  const made = await world.instance.call(`POST /api/v1/${resource}`, { key, body: {} });
  return {
    ...base,
    path: base.route.url.replace(':id', String(made.status === 201 ? made.json.id : 1)),
    kind: `${base.method} a record${more[0] === ':id' ? ' by id' : ''}${part === '' ? '' : `, ${part}`}`,
    headers,
    expected: await documented(world, base),
  };
}

async function account(world: World, base: Target): Promise<Target> {
  const person = await makePerson(world.instance, [{ organization: world.acme }]);
  const { byCookie } = await logIn(world.instance, person);
  return { ...base, headers: () => byCookie, expected: await documented(world, base) };
}

async function partner(world: World, base: Target): Promise<Target> {
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

async function screen({ screens, clerk }: World, base: Target): Promise<Target> {
  const pattern = base.route.url.replace(':org', 'acme');
  // Forms that end sessions use their own administrator.
  const own = pattern.startsWith(sections) ? clerk : await screens.administrator();
  const { browser } = own;
  const name = formNames.find((each) => pattern === each || pattern === `${each}:id`);
  const cookies = () => [...browser.cookies].map(([key, value]) => `${key}=${value}`).join('; ');
  const headers = () => ({ cookie: cookies(), 'sec-fetch-site': 'same-origin' });
  if (name === undefined || base.method !== 'POST') {
    return { ...base, path: pattern.replace(/:\w+|\*/g, '1'), headers };
  }
  const { page, action, fields } = await screens.ready(name, own);
  const _csrf = await browser.token(page);
  return {
    ...base,
    path: action,
    kind: 'a form',
    headers,
    expected: {
      type: 'application/x-www-form-urlencoded',
      shape: { _csrf, ...fields },
      kept: [
        '_csrf',
        ...Object.keys(fields).filter((key) => ['id', 'profile', 'code', 'current'].includes(key)),
      ],
    },
  };
}

async function channel({ instance, acme }: World, base: Target): Promise<Target> {
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
      type: isForm ? 'application/x-www-form-urlencoded' : json,
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
