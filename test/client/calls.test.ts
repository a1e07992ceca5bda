// Client calls to a real instance through a network that loses requests and responses.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { getEventListeners } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import fc from 'fast-check';
import { sql } from 'kysely';
import { clientOf, type ResourceTypes } from '../../client/src/client.ts';
import {
  ApiError,
  type ClientOptions,
  ConnectionError,
  type CrmClient,
  CrmError,
  createClient,
  DuplicateError,
  etag,
  ForbiddenError,
  InvalidInputError,
  NotFoundError,
  PreconditionFailedError,
  RateLimitedError,
  ReferencedError,
  readEvent,
  UnauthenticatedError,
} from '../../client/src/index.ts';
import { errorCodes } from '../../engine/errors.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { badNetwork, type Fate, type Network } from '../support/bad-network.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { project, until } from '../support/process.ts';
import { patienceMs, within } from '../support/promised.ts';
import { eventsTo, settledFeed, startReceiver } from '../support/receiver.ts';
import { sourcesWith } from '../support/sources.ts';
import { people } from '../support/unique-people.ts';

/** Types that `crm client` would generate for the resource in test/support/unique-people.ts. */
interface Person extends ResourceTypes {
  readonly record: { readonly id: bigint; readonly email: string; readonly code: bigint | null };
  readonly input: { readonly email?: string; readonly code?: bigint | number | null };
  readonly patch: { readonly email?: string };
  readonly filters: { readonly email?: never };
  readonly search: never;
  readonly sort: 'id';
  readonly match: readonly ['email'] | readonly ['code'];
}
/** A resource with a trash, and the types that `crm client` would generate for it. */
const parcels = {
  file: 'parcels.yaml',
  text: 'singular: parcel\ncommon: [id, organization_id]\ntrash: 30 days\nfields:\n  name: { type: string }\n',
};
interface Parcel extends ResourceTypes {
  readonly record: { readonly id: bigint; readonly name: string };
  readonly input: { readonly name?: string };
  readonly search: never;
  readonly sort: 'id';
  readonly trash: true;
}
/** A resource with a reference to one of several resources, whose values have different types. */
interface Note extends ResourceTypes {
  readonly expanded: { readonly about: { readonly resource: string; readonly total: bigint | string } };
  readonly related: { readonly about: { readonly expanded: object } };
}
const notesInfo = {
  notes: { numbers: { id: 'int64' }, references: { about: ['orders', 'bills'] }, lists: {}, users: [] },
  orders: { numbers: { total: 'int64' }, references: {}, lists: {}, users: [] },
  bills: { numbers: { total: 'decimal' }, references: {}, lists: {}, users: [] },
} as const;
const parcelsInfo = { parcels: { numbers: { id: 'int64' }, references: {}, lists: {}, users: [] } } as const;
const peopleInfo = {
  people: { numbers: { id: 'int64', code: 'int64' }, references: {}, lists: {}, users: [] },
} as const;

/** The class of each error code in the README's table. */
const listedClasses = new Map(
  [
    ...readFileSync(join(project, 'client/README.md'), 'utf8').matchAll(/^\| `(\w+Error)` +\| (.*?) +\|/gm),
  ].flatMap(([, name = '', codes = '']) =>
    [...codes.matchAll(/`(\w+)`/g)].map(([, code = '']) => [code, name] as const),
  ),
);

const sources = await sourcesWith(people, parcels);
const receiver = await startReceiver();
after(() => receiver.close());
const { environment } = settingsFile(eventsTo(receiver.port));
onBothDrivers(
  'The client',
  (instance) => {
    let network: Network;
    let organization: Organization;
    let crm: CrmClient;
    const clientWith = (options: Partial<ClientOptions> = {}) =>
      createClient({ url: network.url, key: organization.key, ...options });
    before(async () => {
      network = await badNetwork(instance().url);
      organization = await instance().organization('alpha');
      crm = clientWith();
    });
    beforeEach(() => {
      network.decide = () => 'pass';
      network.arrived.length = 0;
    });
    after(() => network.close());

    /** Sets the fate of each of the next requests. Later requests pass. */
    const next = (...fates: readonly Fate[]) => {
      const remaining = [...fates];
      network.decide = () => remaining.shift() ?? 'pass';
    };

    describe('numbers', () => {
      test('every 64-bit integer and decimal is returned exactly', async () => {
        const integer = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
        const decimal = fc
          .tuple(fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }), fc.stringMatching(/^\d{0,12}[1-9]$/))
          .map(([whole, part]) => `${whole}.${part}`);
        await fc.assert(
          fc.asyncProperty(integer, decimal, async (probability, amount) => {
            const made = await crm.opportunities.create({ probability, amount });
            assert.deepEqual([made.probability, made.amount], [probability, amount]);
            const read = await crm.opportunities.get(made.id, { fields: ['amount', 'probability'] });
            assert.deepEqual(read, { id: made.id, probability, amount });
            const again = await crm.opportunities.replace(made.id, {
              probability: read.probability,
              amount: read.amount,
            });
            assert.deepEqual([again.probability, again.amount], [probability, amount]);
          }),
          { numRuns: 30 },
        );
      });

      test('are exact in lists, batches, exports, filters and expanded records', async () => {
        const large = 9007199254740993n;
        const [made] = await crm.opportunities.createMany([
          { amount: '9007199254740993.07', probability: large, name: 'large' },
        ]);
        assert.ok(made);
        assert.equal(typeof made.id, 'bigint');
        const where = { amount: { gte: '9007199254740993.07', lte: '9007199254740993.07' } };
        const { data } = await crm.opportunities.list({ where });
        assert.deepEqual(
          data.map(({ id, probability }) => [id, probability]),
          [[made.id, large]],
        );
        const exported = [];
        for await (const { amount } of crm.opportunities.export({ where })) exported.push(amount);
        assert.deepEqual(exported, ['9007199254740993.07']);
        const account = await crm.accounts.create({ name: 'Acme' });
        const contact = await crm.contacts.create({ account_id: account.id });
        const shown = await crm.contacts.get(contact.id, { expand: ['account_id'] });
        assert.deepEqual(shown.expanded.account_id, account);
        const { expanded } = await crm.accounts.get(account.id, { expand: ['contacts.account_id'] });
        const [listed] = expanded.contacts.data;
        assert.deepEqual([listed?.id, listed?.expanded.account_id?.id], [contact.id, account.id]);
        assert.equal((await crm.opportunities.create({ amount: '-1.5e3' })).amount, '-1500');
        const owned = await crm.accounts.get(account.id, { expand: ['owner_id'] });
        assert.equal(owned.expanded.owner_id?.id, BigInt(organization.user));
      });

      test('are exact in a record of one of several resources', async () => {
        const options = { url: network.url, key: organization.key };
        const { notes } = clientOf<{
          readonly notes: Note;
          readonly orders: ResourceTypes;
          readonly bills: ResourceTypes;
        }>(notesInfo, options);
        for (const [resource, total] of [
          ['orders', 9007199254740993n],
          ['bills', '9007199254740993'],
        ] as const) {
          const about = `{"resource":"${resource}","total":9007199254740993}`;
          next({ status: 200, body: `{"id":1,"expanded":{"about":${about}}}` });
          const { expanded } = await notes.get(1, { expand: ['about'] });
          assert.equal(expanded.about.total, total);
        }
      });

      test("JSON.stringify reproduces the instance's response exactly", async () => {
        const account = await crm.accounts.create({ name: 'Acme' });
        const input = { amount: '12345678901234567.89', probability: 2n ** 62n, account_id: account.id };
        const made = await crm.opportunities.create(input);
        const path = `/api/v1/opportunities/${made.id}`;
        const textOf = async (query: string) =>
          (await instance().call(`GET ${path}${query}`, { key: organization.key })).text;
        assert.equal(JSON.stringify(made), await textOf(''));
        assert.match(
          JSON.stringify(made),
          /"amount":12345678901234567\.89,.*"probability":4611686018427387904/,
        );
        const expanded = await crm.opportunities.get(made.id, { expand: ['account_id'] });
        assert.equal(JSON.stringify(expanded), await textOf('?expand=account_id'));
        const page = await crm.opportunities.list({ fields: ['amount'], where: { account_id: account.id } });
        assert.equal(JSON.stringify(page.data), `[${await textOf('?fields=amount')}]`);
        for await (const change of crm.opportunities.history(made.id)) {
          const { json } = await instance().call(`GET ${path}/history`, { key: organization.key });
          assert.deepEqual(JSON.parse(JSON.stringify(change)), (json.data as unknown[])[0]);
        }
        assert.match(
          JSON.stringify(await crm.opportunities.createMany([input])),
          /^\[\{"status":201,"id":\d+\}\]$/,
        );
        assert.deepEqual(
          Object.keys(made).filter((name) => name === 'toJSON'),
          [],
          'toJSON is not enumerable',
        );
        assert.deepEqual(structuredClone(made), made);
      });

      test('fails on a runtime without exact numbers before anything is sent', async () => {
        const { rawJSON } = JSON as unknown as { readonly rawJSON: unknown };
        Reflect.deleteProperty(JSON, 'rawJSON');
        try {
          assert.throws(() => clientWith(), { name: 'TypeError', message: /JSON\.rawJSON.*Node\.js 22/ });
          await assert.rejects(readEvent('{}', {}, 'whsec_c2VjcmV0'), {
            name: 'TypeError',
            message: /rawJSON/,
          });
        } finally {
          Object.defineProperty(JSON, 'rawJSON', { value: rawJSON, writable: true, configurable: true });
        }
      });

      test('rejects inexact values without sending them', async () => {
        for (const call of [
          () => crm.opportunities.create({ probability: 2 ** 53 }),
          () => crm.opportunities.create({ amount: Number.NaN }),
          () => crm.opportunities.create({ amount: '1,5' }),
          () => crm.opportunities.create({ amount: '0x10' }),
          () => crm.leads.get(2 ** 53),
          () => crm.leads.deleteMany([1, 2 ** 53]),
          () => crm.leads.patchMany([{ id: 2 ** 53 }]),
          () => crm.leads.merge(1, 2 ** 53),
          () => crm.leads.unmerge(1, 2 ** 53),
          () => crm.permissions({ resource: 'leads', id: 2 ** 53 }),
          () => crm.subscriptions.replay(1, { from: 2 ** 53 }),
          () => crm.subscriptions.replay(1, { from: 1, to: 2 ** 53 }),
          () => crm.leads.list({ where: { owner_id: 2 ** 53 } }),
          () => crm.leads.query({ where: { field: 'owner_id', op: 'eq', value: 2 ** 53 } }),
          () => crm.leads.query({ where: { not: { field: 'owner_id', op: 'in', value: [1, 2 ** 53] } } }),
          () => crm.leads.query({ where: { any: [{ field: 'owner_id', op: 'eq', value: 2 ** 53 }] } }),
          () => crm.leads.list({ where: { email: '' } }),
          () => crm.leads.list({ where: { email: [] } }),
          () => crm.leads.list({ where: { email: ['a@example.com', ''] } }),
          () => crm.leads.list({ where: { email: { eq: undefined } as object } }),
          () => crm.leads.list({ where: { email: undefined as unknown as string } }),
        ])
          await assert.rejects(async () => call(), TypeError);
        assert.equal(network.arrived.length, 0);
      });
    });

    describe('lists', () => {
      test('all() returns every page, and a cursor continues after a page', async () => {
        const records = Array.from({ length: 45 }, (_, n) => ({ subject: `walk ${n}`, status: 'Walked' }));
        await crm.cases.createMany(records);
        const subjects = [];
        for await (const { subject } of crm.cases.all({ where: { status: 'Walked' }, fields: ['subject'] }))
          subjects.push(subject);
        assert.deepEqual(subjects.sort(), records.map(({ subject }) => subject).sort());
        assert.equal(network.arrived.filter(({ method }) => method === 'GET').length, 3);
        const first = await crm.cases.list({ where: { status: 'Walked' }, count: 'exact' });
        assert.equal(first.total, 45);
        assert.ok(first.next);
        const second = await crm.cases.list({ where: { status: 'Walked' }, cursor: first.next });
        const both = new Set([...first.data, ...second.data].map(({ id }) => id));
        assert.equal(both.size, 40);
      });

      test('query() returns pages, also of the trash, with the selected fields and related records', async () => {
        const account = await crm.accounts.create({ name: 'Asked' });
        const records = Array.from({ length: 25 }, (_, n) => ({
          last_name: `asked ${n}`,
          account_id: account.id,
        }));
        const ids = (await crm.contacts.createMany(records)).map(({ id }) => id);
        const query = {
          where: { field: 'account_id', op: 'eq', value: account.id },
          sort: 'id',
          dir: 'desc',
          fields: ['last_name'],
          expand: ['account_id'],
          count: 'exact',
        } as const;
        const first = await crm.contacts.query(query);
        const second = await crm.contacts.query({ ...query, cursor: first.next ?? '' });
        assert.deepEqual([first.total, second.total, second.next], [25, 25, undefined]);
        const all = [...first.data, ...second.data];
        assert.deepEqual(
          all.map(({ id }) => id),
          ids.toReversed(),
        );
        assert.deepEqual(all[0], {
          id: ids[24],
          last_name: 'asked 24',
          expanded: { account_id: { ...account } },
        });
        assert.deepEqual(
          (await crm.contacts.query({ q: 'asked 24' })).data.map(({ id }) => id),
          ids.slice(24),
        );
        const options = { url: network.url, key: organization.key };
        const { parcels } = clientOf<{ readonly parcels: Parcel }>(parcelsInfo, options);
        const [kept, trashed] = await parcels.createMany([{ name: 'kept' }, { name: 'trashed' }]);
        await parcels.delete(trashed?.id ?? 0n);
        const idsIn = ({ data }: Awaited<ReturnType<typeof parcels.query>>) => data.map(({ id }) => id);
        assert.deepEqual(idsIn(await parcels.query()), [kept?.id]);
        assert.deepEqual(idsIn(await parcels.query({ trashed: true })), [trashed?.id]);
        await parcels.deleteMany([kept?.id ?? 0n]);
      });

      test('history() follows the cursors, but no link to another host', async () => {
        const link = '<https://elsewhere.example/?cursor=abc>; rel="next"';
        next({ status: 200, headers: { link }, body: '{"data":[]}' }, { status: 200, body: '{"data":[]}' });
        for await (const _ of crm.leads.history(7n));
        assert.deepEqual(
          network.arrived.map(({ path }) => path),
          ['/api/v1/leads/7/history', '/api/v1/leads/7/history?cursor=abc'],
        );
      });

      test('several sort keys and fields are one parameter each', async () => {
        await crm.leads.list({ sort: ['-lead_score', 'id'], fields: ['email', 'rating'] });
        assert.deepEqual(
          network.arrived.map(({ path }) => path),
          ['/api/v1/leads?sort=-lead_score%2Cid&fields=email%2Crating'],
        );
      });

      test('the options of an aggregate are its parameters', async () => {
        next({ status: 200, body: '{"data":[]}' });
        await crm.leads.aggregate({
          where: { rating: 'Hot' },
          q: 'ada',
          groupBy: ['rating', 'created_at.month'],
          measures: ['count()', 'sum(lead_score)'],
          having: { 'count()': { gte: 2n } },
          timeZone: 'Europe/Berlin',
        });
        const [{ path } = assert.fail()] = network.arrived;
        const { pathname, searchParams } = new URL(path, network.url);
        assert.equal(pathname, '/api/v1/leads/aggregate');
        assert.deepEqual(Object.fromEntries(searchParams), {
          ...{ rating: 'Hot', q: 'ada', tz: 'Europe/Berlin' },
          ...{ group_by: 'rating,created_at.month', measure: 'count(),sum(lead_score)' },
          'having[count()][gte]': '2',
        });
      });

      test('an export decodes characters that are split between chunks, and ends with the loop', async () => {
        const bytes = new TextEncoder().encode('{"last_name":"Ä"}\n{"last_name":"B"}\n{"last_name":"C"}\n');
        const within = bytes.indexOf(0xc3) + 1;
        let isCancelled = false;
        const split: typeof fetch = async () =>
          new Response(
            new ReadableStream({
              start: (controller) => {
                controller.enqueue(bytes.subarray(0, within));
                controller.enqueue(bytes.subarray(within));
              },
              cancel: () => {
                isCancelled = true;
              },
            }),
          );
        const names = [];
        for await (const { last_name } of clientWith({ fetch: split }).contacts.export()) {
          names.push(last_name);
          if (names.length === 2) break;
        }
        assert.deepEqual([names, isCancelled], [['Ä', 'B'], true]);
      });

      test('rejects an unknown filter unless the client is not strict', async () => {
        const where = { mail: 'ada@example.com' } as object;
        await assert.rejects(crm.leads.list({ where }), InvalidInputError);
        await clientWith({ strict: false }).leads.list({ where });
      });
    });

    describe('errors', () => {
      for (const [name, call, kind, code, status] of [
        ['a missing record', () => crm.leads.get(4711), NotFoundError, 'not_found', 404],
        [
          'a read-only field',
          () => crm.leads.create({ id: 7n } as object),
          InvalidInputError,
          'invalid_input',
          400,
        ],
        [
          'an invalid key',
          () => clientWith({ key: 'crm_wrong' }).leads.list(),
          UnauthenticatedError,
          'unauthenticated',
          401,
        ],
        [
          'an oversized batch',
          () => crm.leads.createMany(Array(1001).fill({})),
          InvalidInputError,
          'invalid_input',
          400,
        ],
      ] as const) {
        test(name, async () => {
          const error = await failureOf(call());
          assert.ok(error instanceof kind && error instanceof ApiError && error instanceof CrmError);
          assert.deepEqual([error.code, error.status, error.name], [code, status, kind.name]);
          assert.match(error.requestId ?? '', /^[\w-]{8,}$/);
          assert.ok(error.message.endsWith(` (status ${status}, request ${error.requestId})`), error.message);
          assert.equal(error.isUncertain, false);
        });
      }

      test('each error code of the service has the class that the README lists', async () => {
        assert.ok([...listedClasses.keys()].every((code) => Object.hasOwn(errorCodes, code)));
        assert.equal(listedClasses.get('rejected_by_database'), 'InvalidInputError');
        for (const code of Object.keys(errorCodes)) {
          const body = JSON.stringify({ error: 'no', code, request_id: 'x' });
          next({ status: 400, body });
          const error = await failureOf(clientWith({ retries: 0 }).leads.list());
          assert.ok(error instanceof ApiError);
          assert.deepEqual([error.code, error.name], [code, listedClasses.get(code) ?? 'ApiError']);
        }
      });

      test('an error contains the hint, the number of omitted fields and the wait', async () => {
        const error = { error: 'Wrong. Do this.', hint: 'Do this.', code: 'other', request_id: 'x', more: 7 };
        const fields = [{ field: 'email', message: 'wrong' }];
        const once = clientWith({ retries: 0 });
        for (const [header, wait] of [
          ['30', 30],
          ['-1', 0],
          ['soon', undefined],
          [undefined, undefined],
        ] as const) {
          const headers: Record<string, string> = header === undefined ? {} : { 'retry-after': header };
          next({ status: 400, headers, body: JSON.stringify({ ...error, fields }) });
          const failure = await failureOf(once.leads.list());
          assert.ok(failure instanceof ApiError);
          assert.deepEqual(
            [failure.hint, failure.more, failure.fields, failure.retryAfter],
            ['Do this.', 7, fields, wait],
          );
        }
      });

      test('an error contains the references that prevent a delete', async () => {
        const referrers = [{ resource: 'contacts', field: 'account_id', count: 1000, more: true }];
        const body = JSON.stringify({ error: 'no', code: 'referenced', request_id: 'x', referrers });
        next({ status: 409, body });
        const error = await failureOf(crm.accounts.delete(1));
        assert.ok(error instanceof ReferencedError);
        assert.deepEqual(error.referrers, referrers);
      });

      test('a missing grant, and invalid fields', async () => {
        const key = await organization.keyWith([{ object: 'leads', actions: ['list'] }]);
        const denied = await failureOf(clientWith({ key }).leads.create({}));
        assert.ok(denied instanceof ForbiddenError);
        assert.equal(denied.grant, 'leads:create');
        const wrong = await failureOf(crm.leads.create({ company: 7 } as object));
        assert.ok(wrong instanceof InvalidInputError);
        assert.deepEqual(
          wrong.fields.map(({ field }) => field),
          ['company'],
        );
      });

      test('a response that is not from the API', async () => {
        next(
          { status: 418, body: '<h1>teapot</h1>' },
          { status: 302, headers: { location: instance().url } },
        );
        for (const status of [418, 302]) {
          const error = await failureOf(crm.leads.list());
          assert.ok(error instanceof ApiError);
          assert.deepEqual([error.status, error.code], [status, 'unknown']);
          assert.equal(error.message, `the response is not from the API (status ${status})`);
        }
        next({ status: 418, headers: { 'x-request-id': 'proxy-1' }, body: '{"error":"teapot"}' });
        const error = await failureOf(crm.leads.list());
        assert.ok(error instanceof ApiError);
        assert.deepEqual([error.code, error.requestId], ['unknown', 'proxy-1']);
      });

      test('never reveal the key', async () => {
        const dead = clientWith({ url: 'http://127.0.0.1:1', retries: 0 });
        const error = await failureOf(dead.leads.list({ q: 'private' }));
        assert.ok(error instanceof ConnectionError);
        assert.doesNotMatch(
          `${error.stack} ${JSON.stringify(error)}`,
          new RegExp(`${organization.key}|private`),
        );
      });
    });

    describe('retries', () => {
      const lost: readonly Fate[] = ['lose', 'half', 'drop', { status: 502 }, { status: 500, body: '{}' }];

      test('a create is retried with the same idempotency key and executed once', async () => {
        next(...lost);
        const made = await crm.leads.create({ company: 'once' });
        assert.equal(network.arrived.length, 6);
        assert.equal(new Set(network.arrived.map(({ headers }) => headers['idempotency-key'])).size, 1);
        assert.equal(new Set(network.arrived.map(({ body }) => body)).size, 1);
        const all = [];
        for await (const lead of crm.leads.all({ q: 'once' })) all.push(lead);
        assert.deepEqual(all, [made]);
      });

      test('stop after the configured number', async () => {
        network.decide = () => 'drop';
        await assert.rejects(clientWith({ retries: 2 }).leads.create({}), ConnectionError);
        assert.equal(network.arrived.length, 3);
      });

      test('respect Retry-After, and fail immediately if it is too long', async () => {
        const body = JSON.stringify({ error: 'slowly', code: 'rate_limited', request_id: 'x' });
        next({ status: 429, headers: { 'retry-after': '1' }, body });
        await clientWith({ maxWait: 1000 }).leads.list();
        const [first, second] = network.arrived;
        assert.ok(first && second && second.at - first.at >= 990);
        next({ status: 429, headers: { 'retry-after': '61' }, body });
        const error = await failureOf(crm.leads.list());
        assert.ok(error instanceof RateLimitedError);
        assert.equal(error.retryAfter, 61);
      });

      test('are aborted by a signal', async () => {
        next({ status: 503, headers: { 'retry-after': '86400' } });
        const { leads } = clientWith({ maxWait: Infinity });
        const list = leads.list({ signal: AbortSignal.timeout(100) });
        await assert.rejects(within(patienceMs, list), { name: 'TimeoutError' });
      });

      test('every call is aborted by its signal', async () => {
        const options = { url: network.url, key: organization.key };
        const { parcels } = clientOf<{ readonly parcels: Parcel }>(parcelsInfo, options);
        const { people } = clientOf<{ readonly people: Person }>(peopleInfo, options);
        const { leads, subscriptions } = crm;
        const all = async (items: AsyncIterable<unknown>) => {
          for await (const _ of items);
        };
        const signal = AbortSignal.abort();
        const calls: readonly (() => Promise<unknown>)[] = [
          () => leads.list({ signal }),
          () => all(leads.all({ signal })),
          () => leads.query({ signal }),
          () => leads.aggregate({ signal }),
          () => leads.get(1, { signal }),
          () => leads.create({}, { signal }),
          () => leads.replace(1, {}, { signal }),
          () => leads.patch(1, {}, { signal }),
          () => leads.update(1, () => ({}), { signal }),
          () => leads.delete(1, { signal }),
          () => parcels.restore(1, { signal }),
          () => leads.merge(1, 2, { signal }),
          () => leads.unmerge(1, 2, { signal }),
          () => all(leads.history(1, { signal })),
          () => leads.createMany([{}], { signal }),
          () => people.upsert([{}], ['email'], { signal }),
          () => leads.patchMany([{ id: 1 }], { signal }),
          () => leads.deleteMany([1], { signal }),
          () => leads.patchAll({ q: 'nobody' }, {}, { signal }),
          () => leads.deleteAll({ q: 'nobody' }, { signal }),
          () => all(leads.export({ signal })),
          () => leads.exportCsv({ signal }),
          () => leads.import([{}], { signal }),
          () => crm.me({ signal }),
          () => crm.permissions({ signal }),
          () => all(crm.events({ signal })),
          () => subscriptions.list({ signal }),
          () => subscriptions.get(1, { signal }),
          () => subscriptions.create({ url: '', resources: [] }, { signal }),
          () => subscriptions.update(1, {}, { signal }),
          () => subscriptions.delete(1, { signal }),
          () => subscriptions.rotateSecret(1, { signal }),
          () => subscriptions.test(1, { signal }),
          () => subscriptions.replay(1, { from: 1 }, { signal }),
          () => all(subscriptions.deliveries(1, { signal })),
        ];
        for (const call of calls) await assert.rejects(call, { name: 'AbortError' }, String(call));
        assert.deepEqual(network.arrived, []);
        const { id } = await leads.create({});
        network.arrived.length = 0;
        const controller = new AbortController();
        const change = () => {
          controller.abort();
          return { company: 'too late' };
        };
        await assert.rejects(leads.update(id, change, { signal: controller.signal }), { name: 'AbortError' });
        assert.deepEqual(
          network.arrived.map(({ method }) => method),
          ['GET'],
        );
      });

      test('leave no listeners on the signal', async () => {
        const { signal } = new AbortController();
        next('drop', 'drop');
        await clientWith({ maxWait: 1 }).leads.list({ signal });
        assert.equal(network.arrived.length, 3);
        assert.deepEqual(getEventListeners(signal, 'abort'), []);
      });

      test('each attempt has a time limit', async () => {
        const slow: typeof fetch = (_, init) =>
          new Promise((_, reject) => init?.signal?.addEventListener('abort', () => reject(new Error('cut'))));
        const error = await failureOf(clientWith({ fetch: slow, timeout: 20, retries: 1 }).leads.list());
        assert.ok(error instanceof ConnectionError && /within 20 ms/.test(error.message));
      });

      test('an error is retried if repeating the call is safe', async () => {
        const answer = (status: number, code: string): Fate => ({
          status,
          body: JSON.stringify({ error: 'no', code, request_id: 'x' }),
        });
        const withoutEffect = ['rate_limited', 'in_progress', 'overloaded', 'too_slow', 'shutting_down'];
        const errors = {
          withoutEffect: withoutEffect.map((code) => answer(409, code)),
          temporary: [408, 429, 500, 502, 503, 504].map((status) => answer(status, 'other')),
          permanent: [400, 401, 403, 404, 409, 410, 412, 413, 422, 501, 505].map((status) =>
            answer(status, 'other'),
          ),
        };
        const hasty = clientWith({ retries: 1, maxWait: 1 });
        for (const [call, body, retried] of [
          [() => hasty.leads.list(), '{"data":[]}', ['withoutEffect', 'temporary']],
          [() => hasty.leads.deleteMany([1]), '{"results":[]}', ['withoutEffect']],
          [() => hasty.leads.import([{}]), '{}', []],
        ] as const) {
          for (const [kind, all] of Object.entries(errors)) {
            for (const error of all) {
              network.arrived.length = 0;
              next(error, { status: 200, body });
              const isRetried = retried.some((item) => item === kind);
              if (isRetried) await call();
              else assert.ok((await failureOf(call())) instanceof ApiError);
              assert.equal(network.arrived.length, isRetried ? 2 : 1, `${call} ${JSON.stringify(error)}`);
            }
          }
        }
      });

      test('permanent errors are not retried', async () => {
        await assert.rejects(crm.leads.get(4711));
        next({ status: 501 });
        await assert.rejects(crm.leads.list());
        assert.equal(network.arrived.length, 2);
      });

      test('imports and bulk deletes are not retried after a lost response', async () => {
        next('lose', 'lose');
        await assert.rejects(crm.contacts.import([{ last_name: 'lost' }]), ConnectionError);
        const { id } = await crm.contacts.create({});
        network.arrived.length = 0;
        next('lose');
        await assert.rejects(crm.contacts.deleteMany([id]), ConnectionError);
        next({ status: 503 });
        await assert.rejects(crm.contacts.deleteMany([id]), ApiError);
        assert.equal(network.arrived.length, 2);
        const body = JSON.stringify({ error: 'busy', code: 'overloaded', request_id: 'x' });
        next({ status: 503, body });
        const other = await crm.contacts.create({});
        next({ status: 503, body });
        assert.equal((await crm.contacts.deleteMany([other.id])).length, 1);
      });

      test('an import that was interrupted after it had written lines is not repeated', async () => {
        const report = {
          created: 1,
          updated: 0,
          failed: 0,
          stopped: true,
          dry_run: false,
          ignored: [],
          lines: [],
        };
        for (const code of ['overloaded', 'too_slow', 'shutting_down']) {
          network.arrived.length = 0;
          next({ status: 503, body: JSON.stringify({ error: 'busy', code, request_id: 'x', report }) });
          const error = await failureOf(crm.contacts.import([{ last_name: 'a' }, { last_name: 'b' }]));
          assert.ok(error instanceof ApiError);
          assert.deepEqual([error.code, error.report, network.arrived.length], [code, report, 1]);
        }
      });

      test('bulk changes are counted, then confirmed', async () => {
        const title = 'bulk';
        await crm.contacts.createMany([{ title }, { title }]);
        const where = { title: { in: [title] } };
        next('lose');
        const { count, confirm } = await crm.contacts.patchAll({ where }, { department: 'Research' });
        assert.equal(count, 2);
        assert.deepEqual(await crm.contacts.patchAll({ where }, { department: 'Research' }, { confirm }), {
          count: 2,
        });
        const found = await crm.contacts.createMany([{ last_name: 'Bulky' }, { last_name: 'Bulkier' }]);
        assert.equal((await crm.contacts.deleteAll({ q: 'Bulky' })).count, 1);
        await crm.contacts.deleteMany(found.map(({ id }) => id));
        const deletion = await crm.contacts.deleteAll({ where });
        next('lose');
        await assert.rejects(
          crm.contacts.deleteAll({ where }, { confirm: deletion.confirm }),
          ConnectionError,
        );
        await assert.rejects(crm.contacts.deleteAll({ where }, { confirm: deletion.confirm }), ApiError);
        assert.throws(() => crm.contacts.deleteAll({ where: { title: { in: [] } } }), TypeError);
      });

      test('a delete succeeds even if its first response is lost', async () => {
        const { id } = await crm.leads.create({});
        next('lose');
        await crm.leads.delete(id);
        await assert.rejects(crm.leads.delete(id), NotFoundError);
      });

      test('a merge succeeds even if its first response is lost', async () => {
        const { id } = await crm.leads.create({ last_name: 'Lovelace' });
        const other = await crm.leads.create({ last_name: 'Byron', first_name: 'Ada' });
        next('lose');
        const { first_name, last_name } = await crm.leads.merge(id, other.id);
        assert.deepEqual([first_name, last_name], ['Ada', 'Lovelace']);
        await assert.rejects(crm.leads.get(other.id), NotFoundError);
        await assert.rejects(crm.leads.merge(id, other.id), { code: 'missing_reference' });
        next('lose');
        assert.equal((await crm.leads.unmerge(id, other.id)).first_name, '');
        assert.equal((await crm.leads.get(other.id)).first_name, 'Ada');
        await assert.rejects(crm.leads.unmerge(id, other.id), { code: 'merge_not_undoable' });
      });

      test('a restore succeeds even if its first response is lost', async () => {
        const options = { url: network.url, key: organization.key };
        const { parcels } = clientOf<{ readonly parcels: Parcel }>(parcelsInfo, options);
        const { id } = await parcels.create({ name: 'found' });
        await parcels.delete(id);
        next('lose');
        assert.deepEqual(await parcels.restore(id), { ...(await parcels.get(id)) });
        await assert.rejects(parcels.restore(id), NotFoundError);
      });

      test('a lost response is remembered across later errors that had no effect', async () => {
        const overloaded = {
          status: 503,
          body: JSON.stringify({ error: 'busy', code: 'overloaded', request_id: 'x' }),
        };
        const made = await crm.leads.create({});
        next(overloaded, 'lose', overloaded);
        const patched = crm.leads.patch(made.id, { company: 'new' }, { ifMatch: etag(made) ?? '' });
        const uncertain = await failureOf(patched);
        assert.ok(uncertain instanceof PreconditionFailedError && uncertain.isUncertain);
        next('lose', overloaded);
        await crm.leads.delete(made.id);
        next(overloaded, overloaded);
        const certain = await failureOf(crm.leads.delete(made.id));
        assert.ok(certain instanceof NotFoundError && !certain.isUncertain);
      });

      test('a truncated export fails', async () => {
        await crm.contacts.createMany([{ last_name: 'cut' }, { last_name: 'off' }]);
        next('half');
        const read = async () => {
          for await (const _ of crm.contacts.export());
        };
        await assert.rejects(read, ConnectionError);
      });
    });

    describe('changes', () => {
      test('update preserves concurrent changes', async () => {
        const { id } = await crm.leads.create({});
        const clients = Array.from({ length: 6 }, () => clientWith());
        await Promise.all(
          clients.map(async ({ leads }) => {
            for (let n = 0; n < 5; n++)
              await leads.update(id, ({ lead_score }) => ({ lead_score: lead_score + 1n }));
          }),
        );
        assert.equal((await crm.leads.get(id)).lead_score, 30n);
      });

      test('update writes nothing for undefined, and awaits the function', async () => {
        const made = await crm.leads.create({});
        assert.deepEqual(await crm.leads.update(made.id, () => undefined), made);
        const changed = await crm.leads
          .update(made.id, async () => ({ city: '', company: 'later' }) as object)
          .catch((e) => e);
        assert.ok(changed instanceof InvalidInputError);
      });

      test('update does not repeat a change that might have been applied', async () => {
        const { id } = await crm.leads.create({});
        let reads = 0;
        network.decide = ({ method }) => (method === 'PATCH' && reads++ === 0 ? 'lose' : 'pass');
        const error = await failureOf(
          crm.leads.update(id, ({ lead_score }) => ({ lead_score: lead_score + 1n })),
        );
        assert.ok(error instanceof PreconditionFailedError && error.isUncertain);
        assert.equal((await crm.leads.get(id)).lead_score, 1n);
      });

      test('rejects an ETag of an older version', async () => {
        const made = await crm.leads.create({});
        await crm.leads.patch(made.id, { company: 'new' });
        const ifMatch = etag(made) ?? '';
        assert.ok(ifMatch);
        for (const call of [
          () => crm.leads.patch(made.id, {}, { ifMatch }),
          () => crm.leads.replace(made.id, {}, { ifMatch }),
          () => crm.leads.delete(made.id, { ifMatch }),
        ])
          await assert.rejects(call, PreconditionFailedError);
      });
    });

    describe('many records', () => {
      test('upsert updates existing records and creates the rest; a duplicate error contains the existing ID', async () => {
        const { people } = clientOf<{ people: Person }>(peopleInfo, {
          url: network.url,
          key: organization.key,
        });
        const ada = await people.create({ email: 'ada@example.com', code: 2n ** 62n });
        next('lose');
        const results = await people.upsert(
          [{ email: 'ada@example.com' }, { email: 'grace@example.com' }],
          ['email'],
        );
        assert.deepEqual(
          results.map(({ status }) => status),
          [200, 201],
        );
        assert.equal(results[0]?.id, ada.id);
        const error = await failureOf(people.create({ code: 2n ** 62n }));
        assert.ok(error instanceof DuplicateError);
        assert.equal(error.existingId, ada.id);
        const [failed] = await people.createMany([{ code: 2n ** 62n }], { onError: 'continue' });
        assert.ok(failed && 'existing_id' in failed, JSON.stringify(failed));
        assert.equal(failed.existing_id, ada.id);
      });

      test('createMany creates each record once, even if its first response is lost', async () => {
        next('lose');
        const results = await crm.leads.createMany([{ company: 'Many once' }, { company: 'Many once' }]);
        assert.equal(network.arrived.length, 2);
        const { data } = await crm.leads.list({ q: 'Many once', sort: 'id' });
        assert.deepEqual(
          data.map(({ id }) => id),
          results.map(({ id }) => id),
        );
        const options = { idempotencyKey: 'the-same-batch' };
        const again = [
          await crm.leads.createMany([{ company: 'Same' }], options),
          await crm.leads.createMany([{ company: 'Same' }], options),
        ];
        assert.deepEqual(again[0], again[1]);
      });

      test('onError: continue returns a result per record', async () => {
        const results = await crm.contacts.createMany([{}, { account_id: 4711 }], { onError: 'continue' });
        assert.deepEqual(
          results.map(({ status }) => status),
          [201, 400],
        );
        const failed = results[1];
        assert.ok(failed && 'error' in failed && failed.fields?.[0]?.field === 'account_id');
        await assert.rejects(crm.contacts.createMany([{}, { account_id: 4711 }]), InvalidInputError);
      });

      test('import accepts records, strings, files and streams', async () => {
        const line = '{"last_name":"imported"}\n';
        for (const source of [
          [{ last_name: 'imported' }],
          line,
          new Blob([line]),
          new Blob([line]).stream(),
        ]) {
          const report = await crm.contacts.import(source, { onError: 'stop' });
          assert.deepEqual([report.created, report.failed, report.stopped], [1, 0, false]);
        }
        const file = 'last_name,id,shoe_size\nimported,7,44\n';
        const report = await crm.contacts.import(file, { format: 'csv' });
        assert.deepEqual([report.created, report.ignored], [1, ['id', 'shoe_size']]);
      });
    });

    test('import updates matching records, and stops at the first line that fails', async () => {
      const { people } = clientOf<{ people: Person }>(peopleInfo, {
        url: network.url,
        key: organization.key,
      });
      const { id } = await people.create({ email: 'imported@example.com' });
      const records = [{ email: 'imported@example.com', code: 7n }, { code: 7n }, { code: 8n }];
      const report = await people.import(records, { match: ['email'], onError: 'stop' });
      assert.deepEqual([report.updated, report.created, report.failed, report.stopped], [1, 0, 1, true]);
      assert.equal((await people.get(id)).code, 7n);
    });

    describe('the instance', () => {
      test('me: the key and its organization', async () => {
        next('drop');
        const me = await crm.me();
        assert.equal(me.user, null);
        assert.deepEqual(
          [me.organizations[0]?.id, me.organizations[0]?.slug, me.key?.name, me.limits.per_page],
          [BigInt(organization.id), 'alpha', 'admin', 20],
        );
        assert.match(JSON.stringify(me), new RegExp(`"id":${organization.id},"slug":"alpha"`));
        const wrong = await failureOf(clientWith({ key: 'crm_wrong' }).me());
        assert.ok(wrong instanceof UnauthenticatedError);
        const assistant = '{"key":{"id":1,"on_behalf_of":{"id":9007199254740993}}}';
        next({ status: 200, body: assistant });
        const { key } = await crm.me();
        assert.deepEqual([key?.id, key?.on_behalf_of?.id], [1n, 9007199254740993n]);
      });

      test('permissions: on a resource or on a record', async () => {
        const { id } = await crm.leads.create({});
        next('lose');
        const { resources } = await crm.permissions({ resource: 'leads', id });
        assert.deepEqual(
          [Object.keys(resources), resources.leads?.actions.read],
          [['leads'], { allowed: true }],
        );
        assert.ok(Object.keys((await crm.permissions()).resources).length > 1);
        await assert.rejects(crm.permissions({ resource: 'leads', id: 4711 }), NotFoundError);
      });

      test('events: pages of changes after a cursor, typed by resource, with exact numbers', async () => {
        const begin = [];
        for await (const page of crm.events({ after: 'now' })) begin.push(page);
        assert.deepEqual(begin[0]?.data, []);
        const after = begin[0]?.next ?? '';
        const amount = '12345678901234567.89';
        const made = await crm.opportunities.create({ amount });
        await crm.leads.create({ company: 'not asked for' });
        await crm.opportunities.delete(made.id);
        const changes = [];
        let last = after;
        next('lose');
        // Changes appear in the feed after all older transactions have finished.
        const query = { after, resources: ['opportunities'], follow: true } as const;
        for await (const { data, next: cursor } of crm.events(query)) {
          changes.push(...data);
          last = cursor;
          if (changes.length >= 2) break;
        }
        assert.deepEqual(
          changes.map(({ action, id, version }) => [action, id, version]),
          [
            ['create', made.id, 1n],
            ['delete', made.id, 2n],
          ],
        );
        const [created] = changes;
        assert.ok(created?.resource === 'opportunities');
        assert.equal(created.after?.amount, amount);
        const deleted = changes[1];
        assert.ok(deleted?.resource === 'opportunities');
        assert.deepEqual([deleted.before?.amount, typeof deleted.actor.id], [amount, 'bigint']);
        assert.match(JSON.stringify(created), /"amount":12345678901234567\.89/);
        const { value: rest } = await crm.events({ after: last, resources: ['opportunities'] }).next();
        assert.deepEqual(rest?.data, [], 'no change is returned twice');
        await assert.rejects(crm.events({ after: 'x' }).next(), InvalidInputError);
      });

      test('events: without follow, all pages until the last change, without waiting', async () => {
        const { value: begin } = await crm.events({ after: 'now' }).next();
        const records = Array.from({ length: 600 }, (_, n) => ({ subject: `event ${n}` }));
        const ids = (await crm.cases.createMany(records)).map(({ id }) => id);
        await settledFeed(instance());
        network.arrived.length = 0;
        const pages = [];
        for await (const { data } of crm.events({ after: begin?.next ?? '', resources: ['cases'] }))
          pages.push(data.map(({ id }) => id));
        assert.ok(pages.length > 2, `${pages.length} pages`);
        assert.deepEqual(pages.at(-1), []);
        assert.deepEqual(pages.flat(), ids);
        for (const { path } of network.arrived) assert.doesNotMatch(path, /[?&]wait=/);
      });

      test('events: with follow, new changes arrive until the signal aborts', async () => {
        const stop = new AbortController();
        const pages = crm.events({
          after: 'now',
          resources: ['contacts'],
          follow: true,
          signal: stop.signal,
        });
        await pages.next();
        assert.doesNotMatch(network.arrived.at(-1)?.path ?? assert.fail(), /[?&]wait=/, 'the end is known');
        const [change, made] = await Promise.all([
          (async () => {
            // Records that earlier tests created might still appear.
            for await (const { data } of pages) {
              const found = data.find(
                ({ resource, after }) => resource === 'contacts' && after?.last_name === 'Followed',
              );
              if (found) return found;
            }
            return undefined;
          })(),
          crm.contacts.create({ last_name: 'Followed' }),
        ]);
        assert.equal(change?.id, made.id);
        const waiting = crm.events({ after: 'now', follow: true, signal: stop.signal });
        await waiting.next();
        network.arrived.length = 0;
        const further = waiting.next();
        await until(async () => network.arrived.length > 0, 'the feed is requested');
        stop.abort();
        await assert.rejects(further, { name: 'AbortError' });
      });

      test('subscriptions: create, list, change, test, replay, deliveries, secrets, delete', async () => {
        const key = await organization.keyWith([
          { object: 'events', actions: ['*'] },
          { object: '*', actions: ['*'] },
        ]);
        const { subscriptions, leads } = clientWith({ key });
        // Both drivers share the receiver.
        const path = `/${randomUUID()}`;
        const url = receiver.url + path;
        await settledFeed(instance());
        const { secret, ...made } = await subscriptions.create({ url, resources: ['leads'] });
        assert.match(secret, /^whsec_/);
        assert.deepEqual(await subscriptions.get(made.id), made);
        assert.deepEqual(await subscriptions.list(), [made]);
        const changed = await subscriptions.update(made.id, { actions: ['create'] });
        assert.deepEqual([changed.id, changed.actions], [made.id, ['create']]);

        const arrived = (count: number) =>
          until(async () => receiver.at(path).length >= count, `${count} events`);
        const delivery = await subscriptions.test(made.id);
        assert.equal(typeof delivery, 'bigint');
        await arrived(1);
        const lead = await leads.create({ company: 'Subscribed' });
        await arrived(2);
        const received = receiver.at(path)[1];
        assert.ok(received);
        const event = await readEvent(received.text, received.headers, secret);
        assert.ok(event.type === 'leads.created');
        assert.deepEqual([event.data.id, event.data.record], [lead.id, lead]);
        assert.match(JSON.stringify(event), new RegExp(`"id":${lead.id},`));

        const all = async (status?: 'dead') => {
          const deliveries = [];
          for await (const delivery of subscriptions.deliveries(made.id, status && { status }))
            deliveries.push(delivery);
          return deliveries;
        };
        assert.deepEqual((await all()).map(({ id }) => id).at(-1), delivery);
        assert.deepEqual(await all('dead'), []);
        await until(
          async () => (await all()).every(({ status }) => status === 'done'),
          'settle the deliveries',
        );
        assert.equal(await subscriptions.replay(made.id, { from: delivery }), 1);
        await arrived(3);
        await sql`insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, action, status, done_at)
          select ${organization.id}::bigint, ${made.id}::bigint, 'more ' || n, '', 'test', case when n > 60 then 'dead' else 'done' end, now()
          from generate_series(1, 70) n`.execute(tablesOf(instance().database));
        network.arrived.length = 0;
        const listed = (await all()).map(({ id }) => id);
        assert.deepEqual([listed.length, new Set(listed).size], [72, 72]);
        assert.deepEqual(
          listed,
          listed.toSorted((a, b) => Number(b - a)),
        );
        assert.equal(network.arrived.length, 2, 'pages');
        assert.equal((await all('dead')).length, 10);
        for (const call of [
          () => subscriptions.create({ url, resources: ['leads'] }),
          () => subscriptions.test(made.id),
          () => subscriptions.replay(made.id, { from: delivery }),
          () => subscriptions.rotateSecret(made.id),
        ]) {
          network.arrived.length = 0;
          next('lose');
          await assert.rejects(call(), ConnectionError);
          assert.equal(network.arrived.length, 1, `${call} is not repeated`);
        }
        for (const call of [
          () => subscriptions.list(),
          () => subscriptions.get(made.id),
          () => subscriptions.update(made.id, { actions: ['create'] }),
          () => subscriptions.deliveries(made.id).next(),
        ]) {
          network.arrived.length = 0;
          next('lose');
          await call();
          assert.equal(network.arrived.length, 2, `${call} is repeated`);
        }
        assert.notEqual((await subscriptions.rotateSecret(made.id)).secret, secret);
        assert.equal((await subscriptions.update(made.id, { state: 'off' })).state, 'off');
        next('lose');
        await subscriptions.delete(made.id);
        await assert.rejects(subscriptions.get(made.id), NotFoundError);
        const nothing = clientWith({ key: await organization.keyWith([]) });
        await assert.rejects(nothing.subscriptions.list(), ForbiddenError);
      });
    });

    test('the URL can contain a path', async () => {
      const urls: string[] = [];
      const answer: typeof fetch = async (url) => {
        urls.push(String(url));
        return new Response('{"data":[]}');
      };
      await clientWith({ url: 'https://crm.example/base/', fetch: answer }).leads.list({ page: 2 });
      assert.deepEqual(urls, ['https://crm.example/base/api/v1/leads?page=2']);
    });

    test('the key can be a function, and the organization can be set', async () => {
      let calls = 0;
      const key = async () => {
        calls++;
        return organization.key;
      };
      next('drop');
      await clientWith({ url: `${network.url}//`, key, organization: 'alpha' }).leads.list({ page: 2 });
      assert.equal(calls, 2);
      assert.equal(network.arrived[1]?.path, '/api/v1/leads?page=2&org=alpha');
    });
  },
  { sources, environment, ownServer: true },
);

/** Asserts that a call fails, and returns its error. */
const failureOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => assert.fail('it did not fail'),
    (error: unknown) => error,
  );
