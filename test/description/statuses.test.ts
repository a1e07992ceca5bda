// Executes every example in the description and produces every documented status. `send` checks that each
// response matches the description, and the runner lists the statuses that no test produced.
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { after, before, describe, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { errors } from '../../engine/errors.ts';
import { type Description, descriptionOf } from '../support/described.ts';
import { type Answer, type Call, drivers, type Instance, send, startInstance } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { entries, newSecret, organization, variables } from '../support/payments.ts';
import { makePerson, type Person } from '../support/people.ts';
import { missing } from '../support/records.ts';

type Json = Readonly<Record<string, unknown>>;
const object = (value: unknown): Json => (value ?? {}) as Json;
const secret = 'secret-of-a-partner-0123456789';
const settings = settingsFile(
  {
    partners: {
      payments: entries,
      inbound_leads: { secrets: [secret] },
      booking_forms_whatsapp: { secrets: [secret], organization: 'nobody' },
    },
  },
  variables,
);

/** Errors to be thrown in every operation, because they can occur anywhere. */
const anywhere: Readonly<Record<string, () => Error>> = {
  internal: () => new Error('a mistake'),
  database_failed: () => errors.database(new Error('lost')),
  overloaded: errors.overloaded,
  too_slow: () => errors.tooSlow(new Error('cancelled')),
  shutting_down: errors.draining,
};

for (const driver of drivers) {
  describe(`the description, executed (${driver})`, () => {
    let instance: Instance;
    let key: string;
    let nothing: string;
    let events: string;
    let person: Person;
    let token: string;
    let description: Description;
    before(async () => {
      const listen = (message: unknown) => {
        const { fastify } = message as { fastify: FastifyInstance };
        fastify.addHook('onRequest', async ({ headers }) => {
          const wanted = anywhere[String(headers['x-throw'])];
          if (wanted !== undefined) throw wanted();
        });
      };
      subscribe('fastify.initialization', listen);
      instance = await startInstance(driver, {
        environment: { ...settings.environment, IMPORT_MAX_MB: '1' },
      });
      unsubscribe('fastify.initialization', listen);
      const shop = await instance.organization(organization);
      key = shop.key;
      nothing = await shop.keyWith([]);
      events = await shop.keyWith([{ object: 'events', actions: ['*'] }]);
      person = await makePerson(instance, [{ organization: shop }]);
      token = String((await logIn()).json.access_token);
      description = await descriptionOf(instance.url);
    });
    after(() => instance.close());

    const logIn = () => {
      const { email, password } = person;
      return instance.call('POST /auth/login', { body: { email, password } });
    };
    /** Returns the operations whose paths start with a prefix. */
    const operations = (prefix: string) =>
      description.operations().filter(({ template }) => template.startsWith(prefix));
    const pathOf = (template: string, id: string) =>
      template.replace('{id}', id).replace('{customer}', 'acme');
    const secrets = { 'x-inbound-secret': secret, 'x-acme-key': newSecret('acme') };
    /** Returns the credentials for an operation. */
    const credentials = (template: string): Call => {
      if (template.startsWith('/events/')) return { key: events };
      if (template.startsWith('/api/v1/') || template === '/events') return { key };
      if (template.startsWith('/auth/')) return { key: token };
      const headers = template === '/api/booking-forms/whatsapp' ? {} : secrets;
      return template === '/webhooks/inbound-leads' ? { headers } : { key: secret, headers };
    };
    /** Returns a body's first content type. */
    const typeOf = (part: unknown): string =>
      Object.keys(object(object(part).content))[0] ?? 'application/json';
    /** Returns the first example of a request or response body, or undefined if it does not have examples. */
    const exampleOf = (part: unknown): unknown => {
      const { examples } = object(object(object(part).content)[typeOf(part)]);
      return object(Object.values(object(examples))[0]).value;
    };
    /** Returns whether a request is a bulk change, which requires a preference and a filter. */
    const isBulk = (method: string, path: string) =>
      ['patch', 'delete'].includes(method) && /^\/api\/v1\/\w+(?:\?|$)/.test(path);
    const ask = (method: string, path: string, call: Call): Promise<Answer> => {
      const headers = { ...(isBulk(method, path) && { prefer: 'bulk' }), ...call.headers };
      return send(instance.url, `${method.toUpperCase()} ${path}`, { ...call, headers });
    };
    /** Creates a record of a path's resource from the example for its create operation. */
    const make = (template: string): Promise<Answer> => {
      const path = template.replace(
        /\/(?:\{id\}|\{id\}\/(?:history|merge|unmerge)|batch|import|aggregate)$/,
        '',
      );
      const create = operations(path).find((each) => each.template === path && each.method === 'post');
      return instance.call(`POST ${path}`, { key, body: exampleOf(create?.operation.requestBody) });
    };

    /** Returns whether a path merges records, or undoes this. */
    const isOfPair = (template: string) => /\/(?:un)?merge$/.test(template);
    /** Creates the other record for a path that merges records or, if it undoes this, merges it. @returns its ID */
    const makeOther = async (template: string, id: unknown): Promise<unknown> => {
      const from = (await make(template)).json.id;
      const path = `${template.replace(/\/\{id\}.*$/, '')}/${id}/merge`;
      if (template.endsWith('/unmerge'))
        assert.equal((await instance.call(`POST ${path}`, { key, body: { from } })).status, 200);
      return from;
    };

    test('records: accepts each example and returns its documented response', async () => {
      for (const { template, method, operation } of operations('/api/v1/')) {
        const isMerge = isOfPair(template);
        const made = method === 'post' && !isMerge ? undefined : await make(template);
        const path = pathOf(template, String(made?.json.id));
        const example = exampleOf(operation.requestBody);
        assert.equal(
          example !== undefined,
          'requestBody' in operation,
          `${method} ${template} has an example`,
        );
        // A batch specifies record IDs in its body.
        const body = isMerge
          ? { ...object(example), from: await makeOther(template, made?.json.id) }
          : made === undefined
            ? example
            : withId(example, Number(made.json.id));
        const headers = { 'content-type': typeOf(operation.requestBody) };
        const target = isBulk(method, path) ? `${path}?id[in]=${made?.json.id}` : path;
        const answer = await ask(method, target, { key, ...(body !== undefined && { body, headers }) });
        const success = Object.entries(object(operation.responses)).find(([status]) => status < '300');
        assert.equal(answer.status, Number(success?.[0]), answer.text);
        const expected = exampleOf(success?.[1]);
        assert.ok(expected !== undefined, `${method} ${template} has an example response`);
        assert.deepEqual(ofCaller(answer.json), ofCaller(object(expected)), `${method} ${template}`);
      }
    });

    test('accepts the examples of partner endpoints and user routes', async () => {
      const lead = { email: 'ada@example.com', last_name: 'Lovelace' };
      assert.equal((await instance.call('POST /api/v1/leads', { key, body: lead })).status, 201);
      for (const template of ['/webhooks/inbound-leads', '/webhooks/{customer}-payment']) {
        const [found] = operations(template);
        const body = exampleOf(found?.operation.requestBody);
        const answer = await ask('post', pathOf(template, ''), { ...credentials(template), body });
        assert.ok(answer.status < 300, answer.text);
      }
      const [login] = operations('/auth/login');
      const body = exampleOf(login?.operation.requestBody);
      assert.equal(
        (await instance.call('POST /auth/login', { body })).status,
        401,
        'not the password of any user',
      );
    });

    test('returns errors that can occur anywhere, in every operation', async () => {
      for (const [index, { template, method }] of operations('/').entries()) {
        const path = pathOf(template, missing);
        for (const code of index === 0 ? Object.keys(anywhere) : ['internal', 'overloaded']) {
          const call = credentials(template);
          const answer = await ask(method, path, { ...call, headers: { ...call.headers, 'x-throw': code } });
          assert.ok(answer.status >= 500, answer.text);
          assert.equal(answer.json.code, code);
        }
      }
    });

    test('checks credentials, methods and sizes in every operation', async () => {
      for (const { template, method, operation } of operations('/')) {
        const path = pathOf(template, missing);
        const statuses = object(operation.responses);
        const large = '/auth/' === template.slice(0, 6) ? 17 : 1025;
        const unauthenticated = await ask(method, path, method === 'post' ? { body: {} } : {});
        assert.ok([400, 401].includes(unauthenticated.status), unauthenticated.text);
        assert.equal((await ask('propfind', path, {})).status, 405);
        if (413 in statuses) {
          const limit = template.endsWith('/batch') ? 8 * 1025 : large;
          const body = `"${'x'.repeat(limit * 1024)}"`;
          const headers = { 'content-type': typeOf(operation.requestBody) };
          const call = credentials(template);
          const answer = await ask(method, path, { ...call, headers: { ...call.headers, ...headers }, body });
          assert.equal(answer.status, 413, `${method} ${path}: ${answer.text}`);
        }
        if (template.startsWith('/api/v1/')) {
          const body = 'requestBody' in operation && {
            body: isOfPair(template) ? { from: 1 } : {},
          };
          assert.equal((await ask(method, path, { key: nothing, ...body })).status, 403);
          if (template.includes('{id}'))
            assert.equal((await ask(method, path, { key, ...body })).status, 404);
        }
      }
    });

    test('checks preconditions of records', async () => {
      for (const { template, method, operation } of operations('/api/v1/')) {
        const isMerge = isOfPair(template);
        const collection = !template.endsWith('{id}') && !isMerge;
        if (collection) {
          const wrong = `${pathOf(template, '1')}?${template.endsWith('/history') ? 'cursor' : template.endsWith('/aggregate') ? 'tz' : 'page'}=x`;
          if (method === 'get') assert.equal((await ask(method, wrong, { key })).status, 400);
          continue;
        }
        const made = await make(template);
        const path = pathOf(template, String(made.json.id));
        const body = 'requestBody' in operation && {
          body: isMerge ? { from: await makeOther(template, made.json.id) } : {},
        };
        const current = template.endsWith('/unmerge')
          ? await instance.call(`GET ${path.replace('/unmerge', '')}`, { key })
          : made;
        const etag = current.headers.get('etag') ?? '';
        const conditional = async (headers: Record<string, string>) =>
          (await ask(method, path, { key, headers, ...body })).status;
        assert.equal(await conditional({ 'if-match': '"stale"' }), 412);
        assert.equal(await conditional({ 'if-match': 'x' }), 400);
        const read = method === 'get';
        assert.equal(await conditional({ 'if-none-match': etag }), read ? 304 : 412);
      }
    });

    test('users: checks sessions and cross-site writes', async () => {
      for (const { template, method } of operations('/auth/').filter((each) => each.method !== 'post')) {
        const { json } = await instance.call('GET /auth/sessions', { key: token });
        const [session] = json.data as readonly Json[];
        assert.ok(session);
        const other = String((await logIn()).json.access_token);
        const sessions = (await instance.call('GET /auth/sessions', { key: other })).json.data;
        const current = (sessions as readonly Json[]).find((each) => each.current === true);
        const answer = await ask(method, pathOf(template, String(current?.id)), { key: other });
        assert.equal(answer.status, 200, answer.text);
        if (method === 'delete')
          assert.equal((await ask(method, pathOf(template, missing), { key: token })).status, 404);
      }
      const cookie = String((await logIn()).headers.get('set-cookie')).split(';', 1)[0] ?? '';
      for (const { template, method } of operations('/auth/')) {
        if (method === 'get' || template === '/auth/login') continue;
        const headers = { cookie, 'sec-fetch-site': 'cross-site' };
        const answer = await ask(method, pathOf(template, missing), { headers });
        assert.equal(answer.status, 403, `${method} ${template}: ${answer.text}`);
      }
      for (const path of ['/auth/logout', '/auth/logout-everywhere']) {
        const { access_token } = (await logIn()).json;
        assert.equal((await instance.call(`POST ${path}`, { key: String(access_token) })).status, 200);
      }
    });

    test('partners: rejects an unknown organization and too many wrong secrets', async () => {
      const message = { to: '+15550100', message: 'Hello' };
      const call = { key: secret, body: message };
      assert.equal((await instance.call('POST /api/booking-forms/whatsapp', call)).status, 404);
      for (const { template } of operations('/').filter(
        ({ operation }) => 429 in object(operation.responses),
      )) {
        if (template === '/auth/login') continue;
        const wrong: Call = { key: 'wrong', headers: { 'x-acme-key': 'wrong' }, body: {} };
        const statuses = new Set<number>();
        for (let n = 0; n <= 100; n++) statuses.add((await ask('post', pathOf(template, ''), wrong)).status);
        assert.deepEqual([...statuses], [401, 429], template);
      }
    });
  });
}

/** Returns a batch body with another record's ID. */
function withId(body: unknown, id: number): unknown {
  const { records, ids } = object(body);
  if (Array.isArray(ids)) return { ...object(body), ids: [id] };
  return Array.isArray(records) ? { ...object(body), records: [{ ...object(records[0]), id }] } : body;
}

/**
 * Returns a body without the values that differ between callers, or between batches that create and update.
 */
function ofCaller(body: Json): Json {
  if (Array.isArray(body.results)) return { results: Object.keys(object(body.results[0])) };
  if (Array.isArray(body.data)) return { ...body, data: [ofCaller(object(body.data.at(0)))] };
  if ('confirm' in body) return { ...body, confirm: true };
  // Keep only the names of a change's properties, because the values belong to another resource.
  if ('position' in body) return Object.fromEntries(Object.keys(body).map((name) => [name, true]));
  const { id, organization_id, created_at, updated_at, sla_due_date, 'count()': count, ...same } = body;
  return Object.fromEntries(
    Object.entries(same).filter(([name]) => !name.endsWith('_by_id') && name !== 'owner_id'),
  );
}
