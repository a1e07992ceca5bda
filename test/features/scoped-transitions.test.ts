// Transitions that are limited to the records of a scope.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { administratorOf, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { logIn, makePerson } from '../support/people.ts';
import { withoutHints } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';

const listings = {
  file: 'listings.yaml',
  text: `
singular: listing
common: [id, organization_id]
fields:
  owner_id: { type: int64, nullable: true, read_only: true, set: creator, assignable: true }
  code: { type: string, unique: true }
  score: { type: integer, nullable: true }
  status:
    type: string
    enum: [draft, listed, sold, withdrawn]
    closed: true
    default: draft
    initial: [listed]
    transitions: { draft: { listed: own, withdrawn: all }, listed: { sold: good, draft: own } }
scopes:
  own: owner_id == me
  good: score > 5
`,
};

onBothDrivers(
  'scoped transitions',
  (instance) => {
    let acme: Organization;
    let ada: Readonly<Record<string, string>>;
    let adasId: unknown;
    before(async () => {
      acme = await instance().organization('acme');
      const grants = [{ object: 'listings', actions: ['list', 'read', 'create', 'update'] as never }];
      const person = await makePerson(instance(), [{ organization: acme, grants }]);
      ada = (await logIn(instance(), person)).byToken;
      adasId = (await send('POST /listings', {}, { headers: ada })).json.owner_id;
      assert.notEqual(adasId, null);
    });
    /** Sends a request with a key, which acts without a user, or with other headers. */
    const send = (request: string, body?: unknown, { headers, ...call }: Call = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), {
        ...(headers === undefined ? { key: acme.key } : { headers }),
        body,
        ...call,
      });
    const create = async (body: object) => {
      const { status, json, text } = await send('POST /listings', body);
      assert.equal(status, 201, text);
      return json.id;
    };
    const assertRejected = ({ status, json }: Awaited<ReturnType<typeof send>>, message: string) =>
      assert.deepEqual(
        [status, json.code, withoutHints(json.fields)],
        [409, 'invalid_transition', [{ field: 'status', message }]],
      );
    const toListed = 'status cannot change from "draft" to "listed". Allowed: withdrawn';

    test('a caller changes only records in the scope', async () => {
      const id = await create({ owner_id: adasId });
      assertRejected(await send(`PATCH /listings/${id}`, { status: 'listed' }), toListed);
      assertRejected(await send(`PUT /listings/${id}`, { owner_id: adasId, status: 'listed' }), toListed);
      const changed = await send(`PATCH /listings/${id}`, { status: 'listed' }, { headers: ada });
      assert.equal(changed.json.status, 'listed', changed.text);
      const others = await create({ owner_id: null });
      assertRejected(
        await send(`PATCH /listings/${others}`, { status: 'listed' }, { headers: ada }),
        toListed,
      );
    });

    test('the scope is evaluated on the record before the change', async () => {
      const id = await create({ owner_id: null });
      const both = { owner_id: adasId, status: 'listed' };
      assertRejected(await send(`PATCH /listings/${id}`, both, { headers: ada }), toListed);
      const own = await create({ owner_id: adasId });
      const given = await send(
        `PATCH /listings/${own}`,
        { owner_id: null, status: 'listed' },
        { headers: ada },
      );
      assert.deepEqual([given.json.status, given.json.owner_id], ['listed', null], given.text);
    });

    test('the error lists the values that the caller can choose', async () => {
      const id = await create({ owner_id: adasId, status: 'listed', score: 6 });
      assertRejected(
        await send(`PATCH /listings/${id}`, { status: 'withdrawn' }, { headers: ada }),
        'status cannot change from "listed" to "withdrawn". Allowed: sold, draft',
      );
      assertRejected(
        await send(`PATCH /listings/${id}`, { status: 'withdrawn' }),
        'status cannot change from "listed" to "withdrawn". Allowed: sold',
      );
      await send(`PATCH /listings/${id}`, { score: null });
      assertRejected(
        await send(`PATCH /listings/${id}`, { status: 'sold' }),
        'status cannot change from "listed" to "sold". No other value is allowed',
      );
      assert.equal((await send(`PATCH /listings/${id}`, { status: 'listed' })).status, 200);
    });

    test('batches, upserts and concurrent requests obey', async () => {
      const [own, others] = [
        await create({ owner_id: adasId, code: 'own' }),
        await create({ code: 'others' }),
      ];
      const batch = (request: string, body: object) =>
        send(request, { on_error: 'continue', ...body }, { headers: ada });
      const patched = await batch('PATCH /listings/batch', {
        records: [own, others].map((id) => ({ id, status: 'listed' })),
      });
      assert.deepEqual(
        (patched.json.results as { status: number }[]).map(({ status }) => status),
        [200, 409],
        patched.text,
      );
      const upserted = await batch('POST /listings/batch', {
        match: ['code'],
        records: ['own', 'others'].map((code) => ({ code, status: code === 'own' ? 'draft' : 'listed' })),
      });
      assert.deepEqual(
        (upserted.json.results as { status: number }[]).map(({ status }) => status),
        [200, 409],
        upserted.text,
      );
      const ids = await Promise.all(
        Array.from({ length: 12 }, (_, index) => create({ owner_id: index % 2 === 0 ? adasId : null })),
      );
      const answers = await Promise.all(
        ids.map((id) => send(`PATCH /listings/${id}`, { status: 'listed' }, { headers: ada })),
      );
      assert.deepEqual(
        answers.map(({ status }) => status),
        ids.map((_, index) => (index % 2 === 0 ? 200 : 409)),
      );
    });

    test('forms offer only the values that the member can choose', async () => {
      const browser = await signIn(instance(), administratorOf(acme));
      const optionsOf = async (id: unknown) => {
        const { text } = await browser.get(`/setup/o/acme/data/listings/${id}/edit`);
        const [select = ''] = /<select[^>]*name="status"[\s\S]*?<\/select>/.exec(text) ?? [];
        return [...select.matchAll(/<option[^>]*value="([^"]*)"/g)].map(([, value]) => value);
      };
      assert.deepEqual(await optionsOf(await create({ owner_id: adasId })), ['draft', 'withdrawn']);
      assert.deepEqual(await optionsOf(await create({ owner_id: null, status: 'listed', score: 6 })), [
        'listed',
        'sold',
      ]);
      const base = '/setup/o/acme/data/listings';
      const saved = await browser.submit(`${base}/new`, `${base}/new`, { code: 'mine' });
      assert.equal(saved.status, 303, saved.text);
      const { json } = await send('GET /listings?sort=id&dir=desc');
      const [newest] = json.data as Readonly<Record<string, unknown>>[];
      assert.equal(newest?.code, 'mine');
      assert.deepEqual(await optionsOf(newest?.id), ['draft', 'listed', 'withdrawn']);
    });

    test('the API description and the diagram name the scopes', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const { schemas } = json.components as {
        schemas: Record<string, { properties: Record<string, { description?: string }> }>;
      };
      assert.match(
        schemas.Listing?.properties.status?.description ?? '',
        /The value can change from `draft` to `listed` \(only in the scope `own`\), `withdrawn`; from `listed` to `sold` \(only in the scope `good`\), `draft` \(only in the scope `own`\)\.$/,
      );
      const { text, headers } = await instance().call('GET /docs/transitions/listings.status.svg');
      assert.deepEqual(
        [headers.get('content-type'), headers.get('cache-control')],
        ['image/svg+xml; charset=utf-8', 'no-cache'],
      );
      assert.match(
        text,
        /draft, where new records can start, can change to listed \(in the scope own\) or withdrawn\./,
      );
      assert.equal(text.match(/>(own|good)<\/text>/g)?.length, 3);
      // Two values of new records, two final values, and four changes.
      for (const [part, count] of [
        ['<circle class="start"', 2],
        ['<rect class="inner"', 2],
        ['<path class="arrow"', 4],
      ] as const)
        assert.equal(text.split(part).length - 1, count, part);
      const pages = await Promise.all(
        ['listings', 'leads'].map((name) => instance().call(`GET /docs/${name}`)),
      );
      assert.deepEqual(
        pages.map((page) => page.text.match(/<img src="[^"]*"/g)),
        [['<img src="/docs/transitions/listings.status.svg"'], null],
      );
    });
  },
  { sources: await sourcesWith(listings) },
);
