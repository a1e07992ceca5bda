// Conditional requests: a record's entity tag changes with its content, and determines whether a request is
// served.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { takesAtMost } from '../support/clock.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { instant } from '../support/reading.ts';
import { definitions, make, missing, oneOfEach, pathOf } from '../support/records.ts';
import { assertErrorShape } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';

const tagOf = ({ headers }: Answer): string => headers.get('etag') ?? 'no tag';
const strong = /^"[\x21\x23-\x7e]+"$/;

const parts = {
  file: 'parts.yaml',
  text: `
singular: part
common: all
fields:
  name: { type: string }
  parent_id: { type: reference, to: parts, nullable: true }
  parent_name: { type: joined, through: parent_id, show: [name] }
`,
};

onBothDrivers(
  'Conditional requests',
  (instance) => {
    let organization: Organization;
    let key: string;
    before(async () => {
      organization = await instance().organization('alpha');
      key = organization.key;
    });
    const call = (request: string, headers: Record<string, string> = {}, body?: unknown) =>
      instance().call(request, { key, headers, ...(body === undefined ? {} : { body }) });
    const create = async (resource: string, body: object = {}) => {
      const answer = await call(`POST /api/v1/${resource}`, {}, body);
      assert.equal(answer.status, 201, answer.text);
      return { path: `/api/v1/${resource}/${answer.json.id}`, id: answer.json.id, tag: tagOf(answer) };
    };

    for (const definition of definitions) {
      describe(definition.name, () => {
        test('the tag matches the last response and changes with each write', async () => {
          const made = await make(instance(), key, definition);
          const path = pathOf(definition, made.id);
          const read = await call(`GET ${path}`);
          assert.match(tagOf(read), strong);
          assert.equal(tagOf(made.answer), tagOf(read));
          assert.equal(tagOf(await call(`HEAD ${path}`)), tagOf(read));
          const put = await call(`PUT ${path}`, {}, {});
          assert.notEqual(tagOf(put), tagOf(read));
          assert.equal(tagOf(await call(`GET ${path}`)), tagOf(put));
        });

        test('a stale If-Match returns 412 without writing, and a current one writes', async () => {
          const made = await make(instance(), key, definition);
          const path = pathOf(definition, made.id);
          const stale = tagOf(made.answer);
          const current = tagOf(await call(`PUT ${path}`, { 'if-match': stale }, {}));
          assert.match(current, strong);
          const asItIs = (await call(`GET ${path}`)).text;
          for (const method of ['PUT', 'DELETE']) {
            for (const header of [
              { 'if-match': stale },
              { 'if-none-match': current },
              { 'if-none-match': '*' },
              // Both conditions must be met.
              { 'if-match': current, 'if-none-match': current },
              { 'if-match': stale, 'if-none-match': stale },
              { 'if-match': '*', 'if-none-match': '*' },
            ]) {
              const response = await call(`${method} ${path}`, header, {});
              assert.equal(response.status, 412, response.text);
              assertErrorShape(response);
              assert.equal((await call(`GET ${path}`)).text, asItIs);
            }
          }
          const deletion = await call(`DELETE ${path}`, { 'if-match': `"x", ${current}` });
          assert.deepEqual([deletion.status, deletion.text], [200, '{"ok":true}']);
        });
      });
    }

    describe('header values', () => {
      let lead: { path: string; tag: string };
      before(async () => {
        lead = await create('leads', { company: 'Told' });
      });
      const put = (header: string, value: string) =>
        call(`PUT ${lead.path}`, { [header]: value.replace('TAG', lead.tag) }, { company: 'Told' });

      for (const value of ['TAG', '*', ' * ', '"x", TAG', 'TAG,"x"', ',, TAG ,', '"x",W/"y", TAG']) {
        test(`If-Match: ${value} matches`, async () => {
          const answer = await put('if-match', value);
          assert.equal(answer.status, 200, answer.text);
          lead.tag = tagOf(answer);
        });
      }
      for (const value of ['"x"', 'W/TAG', '"x", W/TAG', '""', '"x,y", "z"', '"1"']) {
        test(`If-Match: ${value} does not match`, async () =>
          assert.equal((await put('if-match', value)).status, 412));
      }
      for (const header of ['if-match', 'if-none-match']) {
        for (const value of ['', ',', 'x', '"x', 'w/"x"', '*, "x"', '"x" "y"', '"a"b"', '"x\ty"', 'W/*']) {
          test(`${header}: ${JSON.stringify(value)} is malformed`, async () => {
            for (const method of ['GET', 'PUT', 'DELETE']) {
              const answer = await call(
                `${method} ${lead.path}`,
                { [header]: value },
                method === 'PUT' ? {} : undefined,
              );
              assert.equal(answer.status, 400, `${method}: ${answer.text}`);
              assertErrorShape(answer);
            }
          });
        }
      }
      for (const [value, status] of [
        ['TAG', 304],
        ['W/TAG', 304],
        ['"x", W/TAG', 304],
        ['*', 304],
        ['"x"', 200],
      ] as const) {
        test(`GET with If-None-Match: ${value} → ${status}`, async () => {
          for (const method of ['GET', 'HEAD']) {
            const answer = await call(`${method} ${lead.path}`, {
              'if-none-match': value.replace('TAG', lead.tag),
            });
            assert.deepEqual([answer.status, tagOf(answer)], [status, lead.tag]);
            assert.equal(answer.text === '', status === 304 || method === 'HEAD');
            assert.equal(answer.headers.has('content-type'), status !== 304);
            assert.equal(answer.headers.has('content-length'), status !== 304);
          }
        });
      }
      test('long runs of blanks are read in linear time', async () => {
        const value = `"a",${' '.repeat(15_000)}x`;
        // Quadratic parsing would take a hundred times as long.
        await takesAtMost(20, async () => {
          for (let count = 0; count < 5; count++)
            assert.equal((await call(`GET ${lead.path}`, { 'if-match': value })).status, 400);
        });
      });
      test('GET evaluates If-Match before If-None-Match', async () => {
        const both = { 'if-match': '"x"', 'if-none-match': lead.tag };
        assert.equal((await call(`GET ${lead.path}`, both)).status, 412);
        assert.equal((await call(`GET ${lead.path}`, { ...both, 'if-match': lead.tag })).status, 304);
      });
    });

    test('a batch has no tags, because it applies to several records', async () => {
      const { key } = await instance().organization('batches');
      const made = await instance().call('POST /api/v1/leads', { key, body: { last_name: 'before' } });
      const { id } = made.json;
      for (const [request, body] of [
        ['POST /api/v1/leads/batch', { records: [{ last_name: 'new' }] }],
        ['PATCH /api/v1/leads/batch', { records: [{ id, last_name: 'after' }] }],
        ['DELETE /api/v1/leads/batch', { ids: [id] }],
      ] as const)
        for (const name of ['If-Match', 'If-None-Match']) {
          const headers = { [name]: '"x"' };
          const { status, json } = await instance().call(request, { key, body, headers });
          assert.deepEqual(
            [status, json.code, json.error],
            [
              400,
              'invalid_header',
              `${name} cannot be sent with a batch because it applies to a single record`,
            ],
          );
        }
      const list = await instance().call('GET /api/v1/leads', { key });
      assert.deepEqual(
        (list.json.data as { last_name: string }[]).map(({ last_name }) => last_name),
        ['before'],
      );
    });

    test('errors are checked in the order 401, 403, 400, 404, 400 for a reference, 412', async () => {
      const { path, tag } = await create('contacts');
      const put = (headers: Record<string, string>, body: unknown, to = path, as?: string) =>
        instance().call(`PUT ${to}`, { ...(as === undefined ? {} : { key: as }), headers, body });
      const stale = { 'if-match': '"stale"' };
      const nowhere = `/api/v1/contacts/${missing}`;
      assert.equal((await put({ 'if-match': '' }, {})).status, 401);
      assert.equal((await put({ 'if-match': '' }, {}, path, await organization.keyWith([]))).status, 403);
      assert.equal((await put(stale, { email: 1 }, nowhere, key)).status, 400);
      assert.equal((await put({ 'if-match': '' }, {}, nowhere, key)).status, 400);
      assert.equal((await put(stale, {}, nowhere, key)).status, 404);
      assert.equal((await put({ 'if-match': '*' }, {}, nowhere, key)).status, 404);
      assert.equal((await put({ 'if-match': tag }, { account_id: Number(missing) }, path, key)).status, 400);
      assert.equal((await put(stale, { account_id: Number(missing) }, path, key)).status, 412);
    });

    test('the tag changes when a joined record is renamed or deleted', async () => {
      const account = await create('accounts', { name: 'Before' });
      const contact = await create('contacts', { account_id: account.id });
      const { path } = await create('cases', { account_id: account.id, contact_id: contact.id });
      const texts = new Map<string, string>();
      const look = async (step: string) => {
        const answer = await call(`GET ${path}`);
        assert.ok(!texts.has(tagOf(answer)), `${step}: ${tagOf(answer)}`);
        texts.set(tagOf(answer), answer.text);
        return answer;
      };
      const before = await look('made');
      await call(`PUT ${account.path}`, {}, { name: 'After' });
      const renamed = await look('renamed');
      assert.equal(renamed.json.account_name, 'After');
      assert.equal((await call(`PUT ${path}`, { 'if-match': tagOf(before) }, {})).status, 412);
      assert.equal((await call(`GET ${path}`, { 'if-none-match': tagOf(before) })).status, 200);
      await call(`DELETE ${account.path}`);
      const nulled = await look('without the account');
      assert.equal(nulled.json.account_id, null);
      const updatedAt = ({ json }: Answer) => instant(String(json.updated_at));
      assert.ok(updatedAt(nulled) > updatedAt(renamed), 'the record is updated');
      await call(`DELETE ${contact.path}`);
      await look('without the contact');
      const put = await call(
        `PUT ${path}`,
        { 'if-match': tagOf(await call(`GET ${path}`)) },
        { subject: 'x' },
      );
      assert.equal(put.status, 200, put.text);
    });

    test('a record that refers to itself has the same tag in reads and writes', async () => {
      const { path, id } = await create('parts', { name: 'loop' });
      for (const name of ['first', 'second']) {
        const put = await call(`PUT ${path}`, {}, { name, parent_id: id });
        assert.equal(put.json.parent_name, name);
        assert.equal(tagOf(put), tagOf(await call(`GET ${path}`)));
        const again = await call(`PUT ${path}`, { 'if-match': tagOf(put) }, { name, parent_id: id });
        assert.equal(again.status, 200, again.text);
      }
    });

    test('the version is not a field in responses, lists or bodies', async () => {
      const ids = await oneOfEach(instance(), key, 'plain');
      for (const definition of definitions) {
        for (const path of [pathOf(definition), pathOf(definition, ids[definition.name])]) {
          const { text, headers } = await call(`GET ${path}`);
          assert.ok(!text.includes('_version'));
          assert.equal(headers.has('etag'), path !== pathOf(definition));
        }
      }
    });
  },
  { sources: await sourcesWith(parts) },
);
