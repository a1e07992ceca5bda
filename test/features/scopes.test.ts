// Scopes and field groups: a caller reads and writes only the records and fields that its grants allow.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey, limitedPerson } from '../support/limited.ts';
import { logIn, makePerson, type Person } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

const overlays = [
  {
    file: 'resources/own-leads.yaml',
    text: `
extends: leads
scopes:
  own: owner_id == me
  web: source in ["Website", "Meta Lead Ads"]
  mixed: owner_id == me || source == "Website"
fields:
  owner_id: { assignable: true }
  lead_score: { group: scoring }
unique: [email]
`,
  },
  {
    file: 'resources/own-contacts.yaml',
    text: `
extends: contacts
fields:
  name_of_account: { type: joined, through: account_id, show: [name] }
`,
  },
  {
    file: 'resources/own-accounts.yaml',
    text: `
extends: accounts
scopes:
  own: owner_id == me
`,
  },
];

/** A response's body. */
interface Json extends Record<string, unknown> {
  readonly id: number;
  readonly data: readonly Record<string, unknown>[];
  readonly results: readonly { readonly status: number; readonly id: number }[];
  readonly expanded: Readonly<Record<string, { readonly name: string } | null>>;
}

/** Grants as stored: an object, an action and a scope. */
const grants = (...texts: readonly string[]) =>
  texts.map((text) => {
    const [object = '', ...action] = text.split(':');
    return { object, actions: [action.join(':')] } as never;
  });

onBothDrivers(
  'scopes',
  (instance) => {
    let acme: Organization;
    const people = {} as Record<'ann' | 'bob' | 'admin', Person>;
    const headers: Record<string, Readonly<Record<string, string>>> = {};
    const send = (
      who: string,
      request: string,
      body?: unknown,
      more: Readonly<Record<string, string>> = {},
    ) => instance().call(request.replace(' /', ' /api/v1/'), { headers: { ...headers[who], ...more }, body });
    const ok = async (
      who: string,
      request: string,
      body?: unknown,
      more?: Readonly<Record<string, string>>,
    ) => {
      const answer = await send(who, request, body, more);
      assert.ok(answer.status < 300, `${request}: ${answer.text}`);
      return answer.json as Json;
    };
    const ids = ({ data }: { readonly data: readonly Record<string, unknown>[] }) => data.map(({ id }) => id);
    const lead = async (owner: Person | null, values: object = {}) => {
      const body = { last_name: 'Lead', owner_id: owner === null ? null : Number(owner.id), ...values };
      return (await ok('admin', 'POST /leads', body)).id;
    };
    let own: number;
    let foreign: number;
    let web: number;
    before(async () => {
      acme = await instance().organization('acme');
      const limited = grants(
        'leads:list:own',
        'leads:read:own',
        'leads:create:own',
        'leads:update:own',
        'leads:delete:own',
        'accounts:read:own',
        'contacts:*',
      );
      people.ann = await makePerson(instance(), [{ organization: acme, grants: limited }]);
      people.bob = await makePerson(instance(), [
        {
          organization: acme,
          grants: grants(
            'leads:read:own',
            'leads:read:web',
            'leads:list:web',
            'leads.scoring:read',
            'leads:update',
          ),
        },
      ]);
      people.admin = await makePerson(instance(), [{ organization: acme }]);
      for (const [name, person] of Object.entries(people))
        headers[name] = (await logIn(instance(), person)).byToken;
      own = await lead(people.ann, { email: 'own@example.com', lead_score: 70 });
      foreign = await lead(people.admin, { email: 'foreign@example.com', lead_score: 90 });
      web = await lead(people.admin, { source: 'Website' });
    });

    test('records outside the scope do not exist', async () => {
      assert.equal((await send('ann', `GET /leads/${own}`)).status, 200);
      const missing = await send('ann', 'GET /leads/999999');
      for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
        const body = method === 'PUT' || method === 'PATCH' ? {} : undefined;
        const answer = await send('ann', `${method} /leads/${foreign}`, body);
        assert.deepEqual([answer.status, answer.json.error], [404, missing.json.error], method);
      }
      assert.equal((await ok('admin', `GET /leads/${foreign}`)).last_name, 'Lead');
    });

    test('lists, counts, filters, sorts and exports contain only records in the scope', async () => {
      assert.deepEqual(ids(await ok('ann', 'GET /leads')), [own]);
      assert.deepEqual(ids(await ok('bob', 'GET /leads?sort=id')), [web]);
      for (const count of ['exact', 'estimated']) {
        const answer = await send('ann', 'GET /leads', undefined, { prefer: `count=${count}` });
        assert.equal(answer.headers.get('x-total-count'), '1', count);
      }
      assert.deepEqual(ids(await ok('ann', 'GET /leads?email=foreign@example.com')), []);
      assert.deepEqual(ids(await ok('ann', 'GET /leads?q=example&sort=created_at')), [own]);
      assert.deepEqual(ids(await ok('ann', 'GET /leads?sort=email')), [own]);
      const csv = await send('ann', 'GET /leads?fields=email', undefined, { accept: 'text/csv' });
      assert.match(csv.text, /^id,email\r?\n\d+,own@example\.com\r?\n$/);
    });

    test('scopes of one action add up', async () => {
      const mine = await lead(people.bob);
      assert.equal((await send('bob', `GET /leads/${mine}`)).status, 200);
      assert.equal((await send('bob', `GET /leads/${web}`)).status, 200);
      assert.equal((await send('bob', `GET /leads/${own}`)).status, 404);
      assert.equal(
        (await send('bob', `PATCH /leads/${own}`, { description: 'Seen' })).status,
        404,
        'update is not limited, but read is',
      );
      assert.equal((await send('bob', `PATCH /leads/${web}`, { description: 'Seen' })).status, 200);
    });

    test('a grant to delete all records does not include records that the caller cannot read', async () => {
      const { id: user, key } = await limitedPerson(instance(), acme, [
        ...['leads:list', 'leads:read:own', 'leads:update', 'leads:delete'],
      ]);
      const call = (request: string, body?: unknown, more = {}) =>
        instance().call(request.replace(' /', ' /api/v1/'), { key, headers: more, body });
      const email = 'unread@example.com';
      const [mine, unread] = [
        await lead(null, { owner_id: Number(user), email: 'read@example.com' }),
        await lead(people.admin, { email }),
      ];
      const missing = await call('DELETE /leads/999999');
      const single = await call(`DELETE /leads/${unread}`);
      assert.deepEqual([single.status, single.json.error], [404, missing.json.error]);
      const batch = await call('DELETE /leads/batch', { ids: [unread], on_error: 'continue' });
      assert.deepEqual(
        (batch.json as unknown as Json).results.map(({ status }) => status),
        [404],
      );
      const counted = await call(`DELETE /leads?email=${email}`, undefined, { prefer: 'bulk' });
      assert.deepEqual([counted.status, counted.json.count], [200, 0], counted.text);
      const merged = await call(`POST /leads/${mine}/merge`, { from: unread });
      assert.deepEqual([merged.status, merged.json.code], [400, 'missing_reference']);
      assert.equal((await ok('admin', `GET /leads/${unread}`)).email, email);
      assert.equal((await call(`DELETE /leads/${mine}`)).status, 200);
    });

    test('a write that would leave the scope is refused and writes nothing', async () => {
      const other = Number(people.admin.id);
      const refused = await send('ann', `PATCH /leads/${own}`, { owner_id: other, company: 'Gone' });
      assert.deepEqual([refused.status, refused.json.code], [403, 'outside_scope'], refused.text);
      assert.match(refused.text, /leads:update/);
      const { company, owner_id } = await ok('admin', `GET /leads/${own}`);
      assert.deepEqual([company, owner_id], ['', Number(people.ann.id)]);
      const created = await send('ann', 'POST /leads', { last_name: 'X', owner_id: other });
      assert.deepEqual([created.status, created.json.code], [403, 'outside_scope']);
      const once = await send(
        'ann',
        'POST /leads',
        { last_name: 'X', owner_id: other },
        { 'idempotency-key': 'out' },
      );
      assert.deepEqual([once.status, once.json.code], [403, 'outside_scope']);
      assert.equal((await ok('ann', 'POST /leads', { last_name: 'Mine' })).owner_id, Number(people.ann.id));
    });

    test('batches and imports report the records that would leave the scope', async () => {
      const other = Number(people.admin.id);
      const records = [{ last_name: 'In' }, { last_name: 'Out', owner_id: other }];
      const stopped = await send('ann', 'POST /leads/batch', { records });
      assert.equal(stopped.status, 400, stopped.text);
      assert.match(stopped.text, /records\[1\]/);
      const { results } = await ok('ann', 'POST /leads/batch', { records, on_error: 'continue' });
      assert.deepEqual(
        results.map(({ status }) => status),
        [201, 403],
      );
      const patches = [{ id: own, company: 'A' }, { id: foreign, company: 'B' }, { id: own + 100_000 }];
      const patched = await ok('ann', 'PATCH /leads/batch', { records: patches, on_error: 'continue' });
      assert.deepEqual(
        patched.results.map(({ status }) => status),
        [200, 404, 404],
      );
      const removed = await ok('ann', 'DELETE /leads/batch', { ids: [foreign], on_error: 'continue' });
      assert.deepEqual(
        removed.results.map(({ status }) => status),
        [404],
      );
    });

    describe('imports', () => {
      const load = async (query: string, lines: readonly string[]) => {
        const headers = { 'content-type': 'text/csv' };
        const answer = await send('ann', `POST /leads/import${query}`, `${lines.join('\n')}\n`, headers);
        assert.equal(answer.status, 200, answer.text);
        const { created, updated, failed, ignored, lines: rejected } = answer.json;
        return {
          counts: [created, updated, failed],
          ignored: ignored ?? [],
          rejected: (rejected as readonly Record<string, unknown>[]).map(({ line, code, existing_id }) => [
            line,
            code,
            existing_id,
          ]),
        };
      };
      const named = async (last_name: string) => {
        const { data } = await ok('admin', `GET /leads?q=${last_name}&sort=id&dir=asc`);
        return data.map(({ owner_id, company, lead_score }) => ({ owner_id, company, lead_score }));
      };
      const mine = () => ({ owner_id: Number(people.ann.id), company: '', lead_score: 0 });

      test('create the lines within the scope, and report the others', async () => {
        const lines = [
          'last_name,owner_id',
          'Importedin,',
          `Importedout,${people.admin.id}`,
          `Importedin,${people.ann.id}`,
        ];
        assert.deepEqual(await load('?on_error=continue', lines), {
          counts: [2, 0, 1],
          ignored: [],
          rejected: [[3, 'outside_scope', undefined]],
        });
        assert.deepEqual(await named('Importedin'), [mine(), mine()]);
        assert.deepEqual(await named('Importedout'), []);
        assert.deepEqual(await load('?on_error=stop', lines), {
          counts: [1, 0, 1],
          ignored: [],
          rejected: [[3, 'outside_scope', undefined]],
        });
        assert.deepEqual(await named('Importedin'), [mine(), mine(), mine()]);
      });

      test('do not match a record outside the scope, and report a conflict without its ID', async () => {
        const { company: before } = await ok('admin', `GET /leads/${foreign}`);
        assert.deepEqual(
          await load('?match=email&on_error=continue', [
            'last_name,email,company',
            'Matched,foreign@example.com,Stolen',
            'Matched,own@example.com,Matched',
          ]),
          { counts: [0, 1, 1], ignored: [], rejected: [[2, 'duplicate', undefined]] },
        );
        assert.deepEqual(await named('Matched'), [{ ...mine(), company: 'Matched', lead_score: 70 }]);
        assert.equal((await ok('admin', `GET /leads/${foreign}`)).company, before);
      });

      test('ignore a hidden column as they ignore an unknown one', async () => {
        for (const column of ['lead_score', 'unknown'])
          assert.deepEqual(await load('', [`last_name,${column}`, `Ignored${column.slice(0, 3)},5`]), {
            counts: [1, 0, 0],
            ignored: [column],
            rejected: [],
          });
        assert.deepEqual(await named('Ignoredlea'), [mine()]);
        for (const column of ['lead_score', 'unknown']) {
          const headers = { 'content-type': 'text/csv', prefer: 'handling=strict' };
          const strict = await send('ann', 'POST /leads/import', `last_name,${column}\nStrict,5\n`, headers);
          assert.equal(strict.status, 400, strict.text);
          assert.deepEqual(
            (strict.json.fields as readonly { field: string }[]).map(({ field }) => field),
            [column],
          );
        }
        assert.deepEqual(await named('Strict'), []);
      });
    });

    test('a conflict with an invisible record does not reveal it', async () => {
      const answer = await send('ann', 'POST /leads', { last_name: 'X', email: 'foreign@example.com' });
      assert.deepEqual([answer.status, answer.json.existing_id], [409, undefined], answer.text);
      assert.doesNotMatch(answer.text, new RegExp(`\\b${foreign}\\b`));
      const visible = await send('ann', 'POST /leads', { last_name: 'X', email: 'own@example.com' });
      assert.match(visible.text, new RegExp(`\\b${own}\\b`));
      const upsert = {
        records: [{ email: 'foreign@example.com', company: 'Stolen' }],
        match: ['email'],
        on_error: 'continue',
      };
      const { results } = await ok('ann', 'POST /leads/batch', upsert);
      assert.deepEqual(
        results.map(({ status }) => status),
        [409],
      );
      assert.equal((await ok('admin', `GET /leads/${foreign}`)).company, '');
    });

    describe('references', () => {
      let mine: number;
      let theirs: number;
      before(async () => {
        theirs = (await ok('admin', 'POST /accounts', { name: 'Theirs' })).id;
        const account = await ok('admin', 'POST /accounts', { name: 'Mine' });
        mine = account.id;
        const { sql } = await import('kysely');
        const { tablesOf } = await import('../../engine/tables/index.ts');
        await sql`update accounts set owner_id = ${people.ann.id}::bigint where id = ${mine}::bigint`.execute(
          tablesOf(instance().database),
        );
      });
      test('joined names and expansions of invisible records are empty', async () => {
        const contact = async (account_id: number) =>
          (await ok('admin', 'POST /contacts', { last_name: 'Contact', account_id })).id;
        const [visible, invisible] = [await contact(mine), await contact(theirs)];
        const names = async (id: number) => await ok('ann', `GET /contacts/${id}?expand=account_id`);
        const [first, second] = [await names(visible), await names(invisible)];
        assert.deepEqual([first.name_of_account, first.expanded.account_id?.name], ['Mine', 'Mine']);
        assert.deepEqual([second.name_of_account, second.expanded.account_id], ['', null]);
        assert.equal((await ok('admin', `GET /contacts/${invisible}`)).name_of_account, 'Theirs');
        const tag = (await send('ann', `GET /contacts/${invisible}`)).headers.get('etag');
        await ok('admin', `PATCH /accounts/${theirs}`, { name: 'Renamed' });
        assert.equal((await send('ann', `GET /contacts/${invisible}`)).headers.get('etag'), tag);
        const matched = await send(
          'ann',
          `PATCH /contacts/${invisible}`,
          { title: 'CEO' },
          { 'if-match': String(tag) },
        );
        assert.equal(matched.status, 200, matched.text);
        // The unchanged reference to the invisible record is accepted.
        assert.equal(
          (await send('ann', `PUT /contacts/${invisible}`, { last_name: 'Contact', account_id: theirs }))
            .status,
          200,
        );
        const moved = await send('ann', `PATCH /contacts/${visible}`, { account_id: theirs });
        const absent = await send('ann', `PATCH /contacts/${visible}`, { account_id: 999_999 });
        assert.deepEqual([moved.status, moved.json.code], [400, 'missing_reference'], moved.text);
        assert.equal(
          moved.text.replaceAll(String(theirs), 'N').replace(/req-[^"]+|"request_id":"[^"]*"/g, ''),
          absent.text.replaceAll('999999', 'N').replace(/req-[^"]+|"request_id":"[^"]*"/g, ''),
        );
        assert.equal(
          (await send('ann', 'POST /contacts', { last_name: 'New', account_id: theirs })).status,
          400,
        );
        assert.equal(
          (await send('ann', 'POST /contacts', { last_name: 'New', account_id: mine })).status,
          201,
        );
      });
    });

    test('fields of a group are hidden unless granted', async () => {
      const record = await ok('ann', `GET /leads/${own}`);
      assert.equal('lead_score' in record, false);
      const [listed] = (await ok('ann', 'GET /leads?sort=id')).data;
      assert.equal('lead_score' in (listed ?? {}), false);
      for (const query of ['sort=lead_score', 'fields=lead_score'])
        assert.equal((await send('ann', `GET /leads?${query}`)).status, 400, query);
      await ok('ann', `PUT /leads/${own}`, { last_name: 'Put', email: 'own@example.com', lead_score: 1 });
      await ok('ann', `PATCH /leads/${own}`, { lead_score: 2 });
      assert.equal((await ok('admin', `GET /leads/${own}`)).lead_score, 70);
      const strict = await send(
        'ann',
        `PATCH /leads/${own}`,
        { lead_score: 2 },
        { prefer: 'handling=strict' },
      );
      assert.equal(strict.status, 400);
      assert.match(strict.text, /lead_score is not a field of this resource/);
      const created = await ok('ann', 'POST /leads', { last_name: 'Scored', lead_score: 5 });
      assert.equal((await ok('admin', `GET /leads/${created.id}`)).lead_score, 0);
      const { results } = await ok('ann', 'POST /leads/batch', {
        records: [{ last_name: 'Scored', lead_score: 5 }],
      });
      const [{ id } = { id: 0 }] = results;
      assert.equal((await ok('admin', `GET /leads/${id}`)).lead_score, 0);
      // Bob reads the group, but does not write it.
      assert.equal((await ok('bob', `GET /leads/${web}`)).lead_score, 0);
      await ok('bob', `PATCH /leads/${web}`, { lead_score: 8 });
      assert.equal((await ok('admin', `GET /leads/${web}`)).lead_score, 0);
      const readOnly = await send(
        'bob',
        `PATCH /leads/${web}`,
        { lead_score: 2 },
        { prefer: 'handling=strict' },
      );
      assert.match(readOnly.text, /lead_score is read-only/);
    });

    test('a cursor is not valid with other rights', async () => {
      for (let count = 0; count < 21; count++) await lead(people.ann);
      const first = await send('ann', 'GET /leads');
      const next = /<([^>]*)>; rel="next"/.exec(String(first.headers.get('link')))?.[1] ?? '';
      const path = new URL(next, 'http://x').pathname + new URL(next, 'http://x').search;
      assert.equal((await instance().call(`GET ${path}`, { headers: headers.ann ?? {} })).status, 200);
      assert.equal((await instance().call(`GET ${path}`, { headers: headers.admin ?? {} })).status, 400);
    });

    test('a key has no user unless it was created on behalf of a member', async () => {
      const key = await acme.keyWith(grants('leads:list:own', 'leads:read:own'));
      const answer = await instance().call('GET /api/v1/leads', { key });
      assert.deepEqual([answer.status, answer.json.data], [200, []]);
      const mixed = await acme.keyWith(grants('leads:list:mixed'));
      assert.deepEqual((await instance().call('GET /api/v1/leads', { key: mixed })).json.data, []);
      // Nor does it stand for the user who created it, although that user owns leads.
      const { profile } = await limitedKey(instance(), acme, ['leads:list:own', 'leads:read:own']);
      const created = await acme.makeKey({ profile, user: people.admin.id });
      assert.notEqual((await ok('admin', 'GET /leads')).data.length, 0);
      assert.deepEqual((await instance().call('GET /api/v1/leads', { key: created.key })).json.data, []);
      const owned = await instance().call(`GET /api/v1/leads/${foreign}`, { key: created.key });
      assert.equal(owned.status, 404);
    });

    test('grants for unknown scopes and groups allow nothing', async () => {
      const key = await acme.keyWith(grants('leads:list:team', 'contacts:read:own', 'leads.finance:read'));
      assert.equal((await instance().call('GET /api/v1/leads', { key })).status, 403);
      assert.equal((await instance().call('GET /api/v1/contacts/1', { key })).status, 403);
      const wide = await acme.keyWith(grants('*:list:own'));
      assert.equal((await instance().call('GET /api/v1/leads', { key: wide })).status, 200);
      assert.equal((await instance().call('GET /api/v1/contacts', { key: wide })).status, 403);
    });
  },
  { sources: await sourcesWith(...overlays) },
);
