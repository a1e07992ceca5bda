// Unique fields within an organization: which values count as equal, and how a duplicate is reported.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { exactRecord, numberText } from '../support/reading.ts';
import { errorOf } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';
import { people } from '../support/unique-people.ts';

const path = '/api/v1/people';
const secret = 'the-secret-of-inbound-leads';
const sources = (await sourcesWith(people)).map(({ file, text }) => ({
  file,
  text: file.endsWith('leads.yaml')
    ? text.replace('email: { type: string,', 'email: { type: string, unique: true,')
    : text,
}));

onBothDrivers(
  'Unique fields',
  (instance) => {
    let alpha: Organization;
    let beta: Organization;
    before(async () => {
      alpha = await instance().organization('alpha');
      beta = await instance().organization('beta');
    });
    const send = (request: string, body: object, key = alpha.key) => instance().call(request, { key, body });
    const post = async (body: object, key = alpha.key) => {
      const answer = await send(`POST ${path}`, body, key);
      assert.equal(answer.status, 201, answer.text);
      return numberText(exactRecord(answer.text).id);
    };
    const isDuplicate = (answer: Answer, existing: string | undefined, ...names: string[]) => {
      assert.equal(answer.status, 409, answer.text);
      const { error, code, fields, existing_id } = answer.json;
      assert.deepEqual(
        [error, code, (fields as { field: string }[]).map(({ field }) => field), existing_id],
        [
          `Another record has the same ${names.join(' and ')}`,
          'duplicate',
          names,
          existing === undefined ? undefined : Number(existing),
        ],
      );
    };

    test('POST, PUT and PATCH return 409 with the ID of the record that has the same value', async () => {
      const [first, other] = [await post({ email: 'a@x', code: 7 }), await post({ email: 'b@x' })];
      isDuplicate(await send(`POST ${path}`, { email: 'a@x' }), first, 'email');
      isDuplicate(await send(`PUT ${path}/${other}`, { email: 'a@x' }), first, 'email');
      isDuplicate(await send(`PATCH ${path}/${other}`, { code: 7 }), first, 'code');
      for (const method of ['PUT', 'PATCH']) {
        assert.equal(
          (await send(`${method} ${path}/${first}`, { email: 'a@x', code: 7 })).status,
          200,
          'its own',
        );
      }
      const { email, code } = (await instance().call(`GET ${path}/${other}`, { key: alpha.key })).json;
      assert.deepEqual([email, code], ['b@x', null]);
    });

    for (const [actions, isShown] of [
      [[], false],
      [['list'], false],
      [['read'], true],
      [['list', 'read'], true],
    ] as const) {
      test(`${isShown ? 'returns' : 'omits'} the ID for a caller with the grants create, update${actions.map((each) => `, ${each}`).join('')}`, async () => {
        const email = `${actions.join('-')}@x`;
        const existing = await post({ email });
        const own = await post({});
        const key = await alpha.keyWith([{ object: 'people', actions: ['create', 'update', ...actions] }]);
        const expected = isShown ? existing : undefined;
        isDuplicate(await send(`POST ${path}`, { email }, key), expected, 'email');
        isDuplicate(await send(`PUT ${path}/${own}`, { email }, key), expected, 'email');
        isDuplicate(await send(`PATCH ${path}/${own}`, { email }, key), expected, 'email');
        const lines = `${JSON.stringify({ email })}\n`;
        const headers = { 'content-type': 'application/x-ndjson' };
        const bulk = [
          await send(`POST ${path}/batch`, { on_error: 'continue', records: [{ email }] }, key),
          await send(
            `PATCH ${path}/batch`,
            { on_error: 'continue', records: [{ id: Number(own), email }] },
            key,
          ),
          await instance().call(`POST ${path}/import`, { key, body: lines, headers }),
          await instance().call(`POST ${path}/import?dry_run=true`, { key, body: lines, headers }),
        ];
        for (const { json, text } of bulk) {
          const [result] = (json.results ?? json.lines) as { code: string; existing_id?: number }[];
          assert.deepEqual(
            [result?.code, result?.existing_id],
            ['duplicate', expected === undefined ? undefined : Number(expected)],
            text,
          );
        }
      });
    }

    test('other organizations have their own values', async () => {
      await post({ email: 'both@x' });
      await post({ email: 'both@x' }, beta.key);
    });

    test('batches and dry runs are compared only with records of the same organization', async () => {
      const theirs = (await send('POST /api/v1/accounts', {})).json.id;
      await post({ email: 'across@x', code: 42 });
      const own = await post({ email: 'own@x' }, beta.key);
      const items = [
        { email: 'across@x', code: 42 },
        { email: 'own@x' },
        { email: 'new@x', account_id: theirs },
      ];
      const dryRun = async (query: string) => {
        const answer = await instance().call(`POST ${path}/import?dry_run=true${query}`, {
          key: beta.key,
          body: items.map((item) => `${JSON.stringify(item)}\n`).join(''),
          headers: { 'content-type': 'application/x-ndjson' },
        });
        assert.equal(answer.status, 200, answer.text);
        return (answer.json.lines as { line: number; code: string; existing_id?: number }[]).map(
          ({ line, code, existing_id }) => [line, code, existing_id],
        );
      };
      const missing = [3, 'missing_reference', undefined];
      assert.deepEqual(await dryRun(''), [[2, 'duplicate', Number(own)], missing]);
      assert.deepEqual(await dryRun('&match=email'), [missing]);
      // The duplicate makes the database reject the batch, so that all of its items are checked.
      const batch = await send(`POST ${path}/batch`, { on_error: 'continue', records: items }, beta.key);
      const results = batch.json.results as { status: number; existing_id?: number }[];
      assert.deepEqual(
        results.map(({ status, existing_id }) => [status, existing_id]),
        [
          [201, undefined],
          [409, Number(own)],
          [400, undefined],
        ],
      );
    });

    test('ignores empty values and compares others exactly, whatever their length', async () => {
      for (const body of [{}, {}, { email: '', code: null }, { email: null }]) await post(body);
      const long = 'ü'.repeat(100);
      for (const email of [
        'Exact@x',
        'exact@x',
        'exact@x ',
        long,
        `${long}1`,
        `${long}2`,
        `${long}${'3'.repeat(100_000)}`,
      ]) {
        const id = await post({ email });
        isDuplicate(await send(`POST ${path}`, { email }), id, 'email');
      }
      const id = await post({ code: 0 });
      isDuplicate(await send(`POST ${path}`, { code: 0 }), id, 'code');
      await send(`DELETE ${path}/${id}`, {});
      await post({ code: 0 });
      const exact = await send(`POST ${path}`, {});
      assert.equal(exact.status, 201);
      const big = '{"code":9007199254740993}';
      assert.equal((await instance().call(`POST ${path}`, { key: alpha.key, body: big })).status, 201);
      assert.equal((await instance().call(`POST ${path}`, { key: alpha.key, body: big })).status, 409);
      assert.equal(
        (await instance().call(`POST ${path}`, { key: alpha.key, body: '{"code":9007199254740992}' })).status,
        201,
      );
    });

    test('combined fields are duplicates only if all of them are equal and none is empty', async () => {
      const [a, b] = [
        (await send('POST /api/v1/accounts', {})).json.id,
        (await send('POST /api/v1/accounts', {})).json.id,
      ];
      const since = '2026-03-01';
      const first = await post({ account_id: a, since });
      for (const body of [
        { account_id: b, since },
        { account_id: a },
        { account_id: a },
        { since },
        { since },
      ])
        await post(body);
      isDuplicate(await send(`POST ${path}`, { account_id: a, since }), first, 'account_id', 'since');
      const half = await post({ account_id: a });
      isDuplicate(await send(`PATCH ${path}/${half}`, { since }), first, 'account_id', 'since');
      const both = await send(`POST ${path}`, { account_id: a, since, email: 'a@x' });
      assert.equal(both.status, 409);
      await send(`DELETE /api/v1/accounts/${a}`, {});
      assert.equal((await send(`PATCH ${path}/${half}`, { since })).status, 200, 'references became null');
    });

    test('a missing reference takes precedence over a duplicate', async () => {
      const answer = await send(`POST ${path}`, { email: 'a@x', account_id: 987654321 });
      assert.ok([400, 409].includes(answer.status), answer.text);
      const error = errorOf(await send(`POST ${path}`, { account_id: 987654321, since: '2026-01-01' }));
      assert.equal(error.code, 'missing_reference');
    });

    test('partners: rejects a duplicate without an ID and writes nothing', async () => {
      const inbound = (email: string) =>
        instance().call('POST /webhooks/inbound-leads', {
          body: { email },
          headers: { authorization: `Bearer ${secret}`, 'x-org-slug': 'alpha' },
        });
      assert.equal((await inbound('lead@x')).status, 201);
      isDuplicate(await inbound('lead@x'), undefined, 'email');
      assert.equal((await inbound('other@x')).status, 201);
    });
  },
  { sources, environment: { INBOUND_SECRET: secret } },
);
