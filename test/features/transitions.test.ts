// Closed values, and transitions between them.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { administratorOf, readable, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { withoutHints } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';

const listings = {
  file: 'listings.yaml',
  text: `
singular: listing
common: all
fields:
  name: { type: string }
  status: { type: string, enum: [draft, listed, sold, withdrawn], closed: true, default: draft, initial: [listed], transitions: { draft: [listed], listed: [draft, sold] } }
  kind: { type: string, enum: ["let's let", sale], closed: true }
  phase: { type: string, enum: [one, two], closed: true, nullable: true, initial: [one], transitions: { one: [two] } }
  mood: { type: string, enum: [calm, loud], closed: true, initial: [calm], transitions: { calm: [loud] } }
  grade: { type: string, enum: [A, B], closed: true, required: true, message: Choose a grade. }
  number: { type: int64, nullable: true, unique: true }
filters: [status]
children: { visits: { of: visits, by: listing_id, writable: true } }
`,
};

const visits = {
  file: 'visits.yaml',
  text: `
singular: visit
common: all
fields:
  listing_id: { type: reference, to: listings, required: true, on_delete: cascade }
  state: { type: string, enum: [planned, done], closed: true, default: planned, transitions: { planned: [done] } }
`,
};

onBothDrivers(
  'closed values and transitions',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const send = (request: string, body?: unknown, call: Call = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), { key: acme.key, body, ...call });
    const run = (text: string) => sql.raw(text).execute(tablesOf(instance().database));
    const create = async (body: object = {}) => {
      const { status, json, text } = await send('POST /listings', { grade: 'A', ...body });
      assert.equal(status, 201, text);
      return Number(json.id);
    };
    const statusOf = async (id: number) => (await send(`GET /listings/${id}`)).json.status;

    for (const [field, value, message] of [
      ['status', 'lost', 'status must be one of draft, listed, sold, withdrawn'],
      ['status', 'Draft', 'status must be one of draft, listed, sold, withdrawn'],
      ['status', '', 'status must be one of draft, listed, sold, withdrawn'],
      ['status', 7, 'status must be a string'],
      ['kind', 'rent', "kind must be one of let's let, sale"],
      ['phase', '', 'phase must be one of one, two'],
      ['grade', 'C', 'Choose a grade.'],
      ['grade', '', 'Choose a grade.'],
    ] as const)
      test(`${field} ${JSON.stringify(value)} is rejected with the list`, async () => {
        const id = await create();
        const body = { grade: 'A', [field]: value };
        for (const [request, content] of [
          ['POST /listings', body],
          [`PUT /listings/${id}`, body],
          [`PATCH /listings/${id}`, { [field]: value }],
        ] as const) {
          const { status, json } = await send(request, content);
          assert.deepEqual([status, json.fields], [400, [{ field, message }]], request);
        }
      });

    test('an omitted value is the default, null or empty, also for the database', async () => {
      const { json } = await send('POST /listings', { grade: 'A' });
      assert.deepEqual([json.status, json.kind, json.phase], ['draft', '', null]);
      assert.equal((await send(`PUT /listings/${json.id}`, json)).status, 200);
      for (const assignment of ["status = 'lost'", "status = ''", "kind = 'rent'", "grade = ''"])
        await assert.rejects(run(`update listings set ${assignment}`), /listings_\w+_rules/);
      await run("update listings set kind = 'let''s let'");
    });

    test('the API description contains the values and the transitions', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const { schemas } = (
        json as { components: { schemas: Record<string, { properties: Record<string, object> }> } }
      ).components;
      const statuses = ['draft', 'listed', 'sold', 'withdrawn'];
      assert.deepEqual(schemas.Listing?.properties.status, {
        type: 'string',
        enum: statuses,
        description:
          'One of `draft`, `listed`, `sold`, `withdrawn`. A new record can have `draft`, `listed`. The value can change from `draft` to `listed`; from `listed` to `draft`, `sold`.',
      });
      assert.partialDeepStrictEqual(schemas.ListingInput?.properties, {
        status: { type: ['string', 'null'], enum: [...statuses, null] },
        kind: { enum: ["let's let", 'sale', '', null] },
        grade: { type: 'string', enum: ['A', 'B'] },
      });
      assert.partialDeepStrictEqual(json.paths, {
        '/api/v1/listings': {
          post: { responses: { 409: { $ref: '#/components/responses/StillRunningOrRejected' } } },
        },
        '/api/v1/listings/{id}': {
          patch: { responses: { 409: { $ref: '#/components/responses/UpdateRejected' } } },
        },
      });
    });

    const fromDraft = 'status cannot change from "draft" to "sold". Allowed: listed';
    test('a change that is not among the transitions is a 409 that lists the allowed values', async () => {
      const id = await create();
      for (const [request, body] of [
        [`PUT /listings/${id}`, { grade: 'A', status: 'sold' }],
        [`PATCH /listings/${id}`, { status: 'sold' }],
      ] as const) {
        const { status, json } = await send(request, body);
        assert.deepEqual(
          [status, json.code, json.error, withoutHints(json.fields)],
          [409, 'invalid_transition', fromDraft, [{ field: 'status', message: fromDraft }]],
        );
      }
      assert.equal(await statusOf(id), 'draft');
      for (const status of ['draft', 'listed', 'listed', 'draft', 'listed', 'sold'])
        assert.equal((await send(`PATCH /listings/${id}`, { status })).status, 200, status);
      // Other fields can change, and a final value can be sent back.
      assert.equal((await send(`PATCH /listings/${id}`, { name: 'Loft' })).status, 200);
      assert.equal((await send(`PUT /listings/${id}`, { grade: 'B', status: 'sold' })).status, 200);
      const final = await send(`PATCH /listings/${id}`, { status: null });
      assert.deepEqual(
        [final.status, final.json.error],
        [409, 'status cannot change from "sold" to "draft". No other value is allowed'],
      );
    });

    test('a new record has the default or an initial value', async () => {
      assert.equal(await statusOf(await create({ status: 'listed' })), 'listed');
      for (const headers of [{}, { 'idempotency-key': 'one-listing' }]) {
        const { status, json } = await send('POST /listings', { grade: 'A', status: 'sold' }, { headers });
        assert.deepEqual(
          [status, json.code, json.error],
          [409, 'invalid_transition', 'status of a new record cannot be "sold". Allowed: draft, listed'],
        );
      }
    });

    test('a record without a value is like a new one, and a value cannot be removed', async () => {
      const id = await create();
      const patch = async (phase: string | null) => {
        const { status, json } = await send(`PATCH /listings/${id}`, { phase });
        return status === 200 ? 200 : json.error;
      };
      assert.equal(await patch('two'), 'phase cannot change from no value to "two". Allowed: one');
      assert.equal(await patch(null), 200);
      assert.equal(await patch('one'), 200);
      assert.equal(await patch(null), 'phase cannot change from "one" to no value. Allowed: two');
      assert.equal(await patch('two'), 200);
      // An empty string also counts as no value.
      const moodOf = async (request: string, body: object) => {
        const { json, status } = await send(request, body);
        return status < 300 ? json.mood : json.error;
      };
      assert.equal(await moodOf('POST /listings', { grade: 'A', mood: '' }), '');
      assert.equal(
        await moodOf('POST /listings', { grade: 'A', mood: 'loud' }),
        'mood of a new record cannot be "loud". Allowed: calm',
      );
      const listing = `PATCH /listings/${id}`;
      assert.equal(
        await moodOf(listing, { mood: 'loud' }),
        'mood cannot change from no value to "loud". Allowed: calm',
      );
      assert.equal(await moodOf(listing, { mood: 'calm' }), 'calm');
    });

    test('batches, upserts and imports report the records, and write the others', async () => {
      const [first, second] = [await create({ number: 1 }), await create({ number: 2, status: 'listed' })];
      const records = [
        { id: first, status: 'sold' },
        { id: second, status: 'sold' },
      ];
      const stopped = await send('PATCH /listings/batch', { records });
      assert.deepEqual(
        [stopped.status, withoutHints(stopped.json.fields)],
        [400, [{ field: 'records[0].status', message: `records[0]: ${fromDraft}` }]],
      );
      assert.equal(await statusOf(second), 'listed');
      const failure = [409, 'invalid_transition', [{ field: 'status', message: fromDraft }]];
      const outcomes = (json: Record<string, unknown>) =>
        (json.results as { status: number; code?: string; fields?: object[] }[]).map(
          ({ status, code, fields }) => (status < 300 ? status : [status, code, withoutHints(fields)]),
        );
      const continued = await send('PATCH /listings/batch', { records, on_error: 'continue' });
      assert.deepEqual(outcomes(continued.json), [failure, 200]);
      const upserted = await send('POST /listings/batch', {
        match: ['number'],
        on_error: 'continue',
        records: [
          { number: 1, grade: 'A', status: 'sold' },
          { number: 2, grade: 'A', status: 'sold' },
          { number: 3, grade: 'A', status: 'listed' },
        ],
      });
      assert.deepEqual(outcomes(upserted.json), [failure, 200, 201]);
      const lines = 'number,grade,status\n1,A,sold\n3,A,sold\n4,A,sold\n5,A,\n';
      const imported = await send('POST /listings/import?match=number', undefined, {
        body: lines,
        headers: { 'content-type': 'text/csv' },
      });
      assert.deepEqual(
        [imported.json.created, imported.json.updated, imported.json.failed],
        [1, 1, 2],
        imported.text,
      );
      assert.deepEqual(
        (imported.json.lines as { line: number; code: string }[]).map(({ line, code }) => [line, code]),
        [
          [2, 'invalid_transition'],
          [4, 'invalid_transition'],
        ],
      );
    });

    test('the transitions of children apply to nested writes', async () => {
      const rejected = await send('POST /listings', { grade: 'A', visits: [{}, { state: 'done' }] });
      const isNew = 'state of a new record cannot be "done". Allowed: planned';
      assert.deepEqual(
        [rejected.status, withoutHints(rejected.json.fields)],
        [409, [{ field: 'visits[1].state', message: `visits[1]: ${isNew}` }]],
      );
      const { json } = await send('POST /listings', { grade: 'A', visits: [{}] });
      const [visit] = (json.expanded as { visits: { data: { id: number }[] } }).visits.data;
      const put = async (state: string) =>
        (await send(`PUT /listings/${json.id}`, { grade: 'A', visits: [{ id: visit?.id, state }] })).json;
      assert.equal((await put('done')).id, json.id);
      assert.deepEqual(withoutHints((await put('planned')).fields), [
        {
          field: 'visits[0].state',
          message: 'visits[0]: state cannot change from "done" to "planned". No other value is allowed',
        },
      ]);
    });

    test('concurrent writes cannot skip a value', async () => {
      const ids = await Promise.all(Array.from({ length: 10 }, () => create({ status: 'listed' })));
      // From "listed", both changes are allowed, but neither is allowed after the other one.
      const answers = await Promise.all(
        ids.flatMap((id) => [
          send(`PATCH /listings/${id}`, { status: 'draft' }),
          send(`PUT /listings/${id}`, { grade: 'A', status: 'sold' }),
        ]),
      );
      for (const [index, id] of ids.entries()) {
        const [drafted, sold] = [answers[2 * index]?.status, answers[2 * index + 1]?.status];
        assert.deepEqual([drafted, sold].sort(), [200, 409]);
        assert.equal(await statusOf(id), drafted === 200 ? 'draft' : 'sold');
      }
    });

    test('forms offer only the values to which the record can change', async () => {
      const browser = await signIn(instance(), administratorOf(acme));
      const base = '/setup/o/acme/data/listings';
      const optionsOf = async (page: string, name: string) => {
        const { text } = await browser.get(page);
        const [select = ''] = new RegExp(`<select[^>]*name="${name}"[\\s\\S]*?</select>`).exec(text) ?? [];
        return [...select.matchAll(/<option value="([^"]*)"/g)].map(([, value]) => readable(value ?? ''));
      };
      assert.deepEqual(await optionsOf(`${base}/new`, 'status'), ['draft', 'listed']);
      assert.deepEqual(await optionsOf(`${base}/new`, 'phase'), ['', 'one']);
      const id = await create({ status: 'listed' });
      const edit = `${base}/${id}/edit`;
      assert.deepEqual(await optionsOf(edit, 'status'), ['draft', 'listed', 'sold']);
      const saved = await browser.submit(edit, edit, { status: 'sold', phase: '' });
      assert.equal(saved.status, 303);
      assert.equal(await statusOf(id), 'sold');
    });
  },
  { sources: await sourcesWith(listings, visits) },
);
