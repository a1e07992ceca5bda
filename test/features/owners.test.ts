// Assignable owners: `owner_id: { assignable: true }` makes the owner a writable reference to a member.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { tablesOf } from '../../engine/tables/index.ts';
import { readable, signIn } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedPerson } from '../support/limited.ts';
import { logIn, makePerson, type Person } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';
import { recordStatements } from '../support/statements.ts';

const overlay = {
  file: 'resources/own-leads.yaml',
  text: `
extends: leads
fields:
  owner_id: { assignable: true }
`,
};

onBothDrivers(
  'owners',
  (instance) => {
    let acme: Organization;
    let ann: Person;
    let bob: Person;
    let stranger: Person;
    let former: Person;
    /** Headers for requests by Ann. */
    let byAnn: Readonly<Record<string, string>>;
    before(async () => {
      acme = await instance().organization('acme');
      ann = await makePerson(instance(), [{ organization: acme }]);
      bob = await makePerson(instance(), [{ organization: acme }]);
      stranger = await makePerson(instance(), [{ organization: await instance().organization('beta') }]);
      former = await makePerson(instance(), [{ organization: acme }]);
      byAnn = (await logIn(instance(), ann)).byToken;
    });
    const send = (request: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), { headers: { ...byAnn, ...headers }, body });
    const create = async (body: object = {}) => {
      const answer = await send('POST /leads', { last_name: 'Lovelace', ...body });
      assert.equal(answer.status, 201, answer.text);
      return answer.json as { id: number; owner_id: number | null };
    };
    const leave = ({ id }: Person) =>
      tablesOf(instance().database)
        .deleteFrom('crm_memberships')
        .where('user_id', '=', id)
        .where('organization_id', '=', acme.id)
        .execute();
    const assertNotMember = (answer: Answer, { id }: Pick<Person, 'id'>) => {
      assert.deepEqual([answer.status, answer.json.code], [400, 'missing_reference'], answer.text);
      assert.deepEqual(answer.json.fields, [
        { field: 'owner_id', message: `owner_id ${id} is not a member of this organization` },
      ]);
    };

    test('the creator is the owner unless the body names another member or null', async () => {
      assert.equal((await create()).owner_id, Number(ann.id));
      assert.equal((await create({ owner_id: Number(bob.id) })).owner_id, Number(bob.id));
      assert.equal((await create({ owner_id: null })).owner_id, null);
      const once = await send('POST /leads', { owner_id: Number(bob.id) }, { 'idempotency-key': 'owner' });
      const again = await send('POST /leads', { owner_id: Number(bob.id) }, { 'idempotency-key': 'owner' });
      assert.deepEqual([once.json.owner_id, again.json], [Number(bob.id), once.json]);
    });

    test('PUT keeps the owner if the body does not contain it, PATCH changes it', async () => {
      const { id } = await create({ owner_id: Number(bob.id) });
      const put = await send(`PUT /leads/${id}`, { last_name: 'Byron' });
      assert.deepEqual([put.json.last_name, put.json.owner_id], ['Byron', Number(bob.id)]);
      const patched = await send(`PATCH /leads/${id}`, { owner_id: Number(ann.id) });
      assert.equal(patched.json.owner_id, Number(ann.id));
      assert.equal((await send(`PUT /leads/${id}`, { owner_id: null })).json.owner_id, null);
    });

    test('the owner must be a member', async () => {
      for (const person of [stranger, { id: '999999' }]) {
        const owner_id = Number(person.id);
        assertNotMember(await send('POST /leads', { owner_id }), person);
        const { id } = await create();
        assertNotMember(await send(`PATCH /leads/${id}`, { owner_id }), person);
        assertNotMember(await send(`PUT /leads/${id}`, { owner_id }), person);
      }
      const invalid = await send('POST /leads', { owner_id: 'ann' });
      assert.deepEqual([invalid.status, invalid.json.code], [400, 'invalid_input']);
    });

    test('a batch and an import report each record whose owner is not a member', async () => {
      const { id } = await create();
      const records = [{ owner_id: Number(bob.id) }, { owner_id: Number(stranger.id) }, {}];
      const stopped = await send('POST /leads/batch', { records });
      assert.equal(stopped.status, 400);
      assert.match(stopped.text, /owner_id \d+ is not a member of this organization/);
      const batch = await send('POST /leads/batch', { records, on_error: 'continue' });
      const statuses = ({ json }: Answer) =>
        (json.results as { status: number }[]).map(({ status }) => status);
      assert.deepEqual(statuses(batch), [201, 400, 201]);
      const patched = await send('PATCH /leads/batch', {
        records: [
          { id, owner_id: Number(stranger.id) },
          { id: Number((await create()).id), owner_id: Number(bob.id) },
        ],
        on_error: 'continue',
      });
      assert.deepEqual(statuses(patched), [400, 200]);
      for (const dryRun of ['', '?dry_run=true']) {
        const lines = `last_name,owner_id\nA,${bob.id}\nB,${stranger.id}\nC,\n`;
        const report = await send(`POST /leads/import${dryRun}`, lines, { 'content-type': 'text/csv' });
        assert.deepEqual([report.json.created, report.json.failed], [2, 1], report.text);
      }
    });

    test('a former member stays the owner, also in a PUT of the unchanged record', async () => {
      const { id } = await create({ owner_id: Number(former.id) });
      await leave(former);
      const read = await send(`GET /leads/${id}`);
      assert.equal(read.json.owner_id, Number(former.id));
      const put = await send(`PUT /leads/${id}`, { ...read.json, company: 'Acme' });
      assert.deepEqual([put.status, put.json.owner_id], [200, Number(former.id)], put.text);
      assertNotMember(await send('POST /leads', { owner_id: Number(former.id) }), former);
    });

    test('a retry replays the stored response if the owner has left in the meantime', async () => {
      const leaving = await makePerson(instance(), [{ organization: acme }]);
      const record = { owner_id: Number(leaving.id) };
      const requests = [
        ['POST /leads', record, 'left'],
        ['POST /leads/batch', { records: [record] }, 'left-batch'],
      ] as const;
      const post = () =>
        Promise.all(requests.map(([request, body, key]) => send(request, body, { 'idempotency-key': key })));
      const first = await post();
      await leave(leaving);
      for (const [index, replayed] of (await post()).entries()) {
        assert.equal(replayed.headers.get('idempotency-replayed'), 'true', replayed.text);
        assert.deepEqual([replayed.status, replayed.text], [first[index]?.status, first[index]?.text]);
      }
      const other = { ...record, last_name: 'Other' };
      const reused = await send('POST /leads', other, { 'idempotency-key': 'left' });
      assert.deepEqual([reused.status, reused.json.code], [422, 'idempotency_key_reused']);
      assertNotMember(await send('POST /leads', record, { 'idempotency-key': 'new' }), leaving);
    });

    test('a response stored for the same key in another organization does not skip the check', async () => {
      const gamma = await instance().organization('gamma');
      const both = await makePerson(instance(), [{ organization: acme }, { organization: gamma }]);
      const { byToken } = await logIn(instance(), both);
      const owner_id = Number(bob.id);
      for (const [path, body] of [
        ['/leads', { owner_id }],
        ['/leads/batch', { records: [{ owner_id }] }],
      ] as const) {
        const headers = { ...byToken, 'idempotency-key': 'both-organizations' };
        const [own, other] = [
          await send(`POST ${path}?org=acme`, body, headers),
          await send(`POST ${path}?org=gamma`, body, headers),
        ];
        assert.deepEqual([own.status < 300, other.status], [true, 400], other.text);
        assert.match(other.text, /owner_id \d+ is not a member of this organization/);
      }
    });

    test('only writes that name a user look up members', async () => {
      const { id } = await create();
      const lookups = async (request: string, body: object) => {
        const statements = await recordStatements(instance().database, async () => {
          const { status, text } = await send(request, body);
          assert.ok(status < 300, text);
        });
        return statements.filter(({ text }) => /_m\."user_id" = _v/.test(text)).length;
      };
      for (const [value, count] of [
        [{}, 0],
        [{ owner_id: null }, 0],
        [{ owner_id: Number(ann.id) }, 1],
      ] as const) {
        assert.equal(await lookups('POST /leads', value), count);
        assert.equal(await lookups(`PATCH /leads/${id}`, value), count);
        assert.equal(await lookups(`PUT /leads/${id}`, value), count);
        assert.equal(await lookups('POST /leads/batch', { records: [{}, value] }), count);
        assert.equal(await lookups('PATCH /leads/batch', { records: [{ id, ...value }] }), count);
      }
    });

    test('owner_id=me selects the caller’s records, and none without a user', async () => {
      const mine = await create();
      await create({ owner_id: Number(bob.id) });
      const list = await send('GET /leads?owner_id=me');
      const owners = (list.json.data as { owner_id: number }[]).map(({ owner_id }) => owner_id);
      assert.ok(owners.length > 0 && owners.every((owner) => owner === Number(ann.id)), list.text);
      assert.match(list.text, new RegExp(`"id":${mine.id},`));
      assert.equal((await send('GET /leads?owner_id=someone')).status, 400);
      await tablesOf(instance().database)
        .updateTable('crm_api_keys')
        .set({ created_by_id: null })
        .where('organization_id', '=', acme.id)
        .execute();
      const key = await acme.keyWith([{ object: '*', actions: ['*'] }]);
      const where = { field: 'owner_id', op: 'eq', value: 'me' };
      for (const [request, body] of [
        ['GET /api/v1/leads?owner_id=me'],
        ['POST /api/v1/leads/query', { where }],
      ] as const) {
        const { status, json } = await instance().call(request, { key, body });
        assert.deepEqual([status, json.data], [200, []], request);
      }
    });

    test('forms offer the members by name, and keep a former member', async () => {
      const browser = await signIn(instance(), ann);
      const base = '/setup/o/acme/data/leads';
      const options = async (path: string, by = browser) => {
        const [select] =
          /<select [^>]*name="owner_id".*?<\/select>/s.exec(readable((await by.get(path)).text)) ??
          assert.fail('there is no select for the owner');
        return [...select.matchAll(/<option value="(\d*)"( selected)?>([^<]*)</g)];
      };
      const offered = await options(`${base}/new`);
      assert.deepEqual(
        offered.filter(([, , selected]) => selected !== undefined).map(([, id, , label]) => [id, label]),
        [[ann.id, ann.email]],
      );
      assert.ok(offered.some(([, id, , label]) => id === '' && label === 'Nobody'));
      // The order does not reveal the email addresses to members who cannot see them.
      const first = await makePerson(instance(), [{ organization: acme }], { email: '0@people.example' });
      assert.equal((await options(`${base}/new`))[1]?.[1], first.id);
      const limited = await signIn(instance(), await limitedPerson(instance(), acme, ['leads:*']));
      const labels = (await options(`${base}/new`, limited)).slice(1).map(([, , , label = '']) => label);
      assert.ok(labels.includes(`ID ${first.id}`));
      assert.deepEqual(
        labels,
        labels.toSorted((a, b) => a.localeCompare(b)),
      );
      const created = await browser.submit(`${base}/new`, `${base}/new`, {
        last_name: 'X',
        owner_id: bob.id,
      });
      const path = (created.headers.get('location') ?? '').replace(/\?.*/, '');
      const owner = async () => (await send(`GET /leads/${path.split('/').pop()}`)).json.owner_id;
      assert.equal(await owner(), Number(bob.id));
      assert.equal(
        (await options(`${path}/edit`)).filter(([, id]) => id === bob.id).length,
        1,
        'offered once',
      );
      await browser.submit(`${path}/edit`, `${path}/edit`, { last_name: 'Y' });
      assert.equal(await owner(), Number(bob.id), 'a form without the choice keeps the owner');
      await leave(bob);
      assert.ok(
        (await options(`${path}/edit`)).some(
          ([, id, selected, label]) =>
            id === bob.id && selected !== undefined && label === `${bob.email}, former member`,
        ),
      );
      const kept = await browser.submit(`${path}/edit`, `${path}/edit`, { last_name: 'Z', owner_id: bob.id });
      assert.equal(kept.status, 303);
      await browser.submit(`${path}/edit`, `${path}/edit`, { last_name: 'Z', owner_id: '' });
      assert.equal(await owner(), null);
    });

    test('the description contains the owner as a writable field', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const schemas = (json.components as { schemas: Record<string, { properties: object }> }).schemas;
      assert.ok(Object.hasOwn(schemas.LeadInput?.properties ?? {}, 'owner_id'));
      assert.ok(!Object.hasOwn(schemas.AccountInput?.properties ?? {}, 'owner_id'));
    });
  },
  { sources: await sourcesWith(overlay) },
);
