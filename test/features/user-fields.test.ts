// Fields of type `user`: references to members of the organization.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { readable, signIn } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedPerson } from '../support/limited.ts';
import { logIn, makePerson, type Person } from '../support/people.ts';
import { errorOf } from '../support/scenario.ts';
import { recordStatements } from '../support/statements.ts';

const sources = [
  {
    file: 'tickets.yaml',
    text: `
singular: ticket
fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  created_by_id: { type: int64, nullable: true, read_only: true, set: creator }
  last_modified_by_id: { type: int64, nullable: true, read_only: true, set: editor }
  updated_at: { type: timestamp, read_only: true, set: updated }
  code: { type: string, unique: true }
  subject: { type: string }
  assignee_id: { type: user, nullable: true, description: Who works on it. }
scopes:
  mine: assignee_id == me
filters:
  - { field: assignee_id, operators: [eq, ne, in, is_null] }
  - { field: id, operators: [in] }
`,
  },
  {
    file: 'reviews.yaml',
    text: `
singular: review
fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  reviewer_id: { type: user, required: true }
`,
  },
];

onBothDrivers(
  'user fields',
  (instance) => {
    let acme: Organization;
    let ann: Person;
    let bob: Person;
    let stranger: Person;
    /** Headers for requests by Ann. */
    let byAnn: Readonly<Record<string, string>>;
    before(async () => {
      acme = await instance().organization('acme');
      ann = await makePerson(instance(), [{ organization: acme }]);
      bob = await makePerson(instance(), [{ organization: acme }]);
      stranger = await makePerson(instance(), [{ organization: await instance().organization('beta') }]);
      byAnn = (await logIn(instance(), ann)).byToken;
    });
    const send = (request: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), { headers: { ...byAnn, ...headers }, body });
    const create = async (body: object = {}) => {
      const answer = await send('POST /tickets', body);
      assert.equal(answer.status, 201, answer.text);
      return answer.json as { id: number; assignee_id: number | null };
    };
    const leave = ({ id }: Person) =>
      tablesOf(instance().database)
        .deleteFrom('crm_memberships')
        .where('user_id', '=', id)
        .where('organization_id', '=', acme.id)
        .execute();
    const assertNotMember = (answer: Answer, { id }: Pick<Person, 'id'>, field = 'assignee_id') => {
      const message = `${field} ${id} is not a member of this organization`;
      assert.deepEqual(
        [answer.status, answer.json.code, answer.json.fields],
        [400, 'missing_reference', [{ field, message }]],
        answer.text,
      );
    };
    const idOf = ({ id }: Person) => Number(id);

    test('a value is a member or null; PUT without the field clears it', async () => {
      assert.equal((await create()).assignee_id, null, 'the default is not the creator');
      const { id, assignee_id } = await create({ assignee_id: idOf(bob) });
      assert.equal(assignee_id, idOf(bob));
      const patched = await send(`PATCH /tickets/${id}`, { subject: 'Kept' });
      assert.equal(patched.json.assignee_id, idOf(bob));
      assert.equal((await send(`PUT /tickets/${id}`, { subject: 'Cleared' })).json.assignee_id, null);
    });

    test('strangers and unknown users are rejected with the same text', async () => {
      const { id } = await create();
      for (const person of [stranger, { id: '999999' }]) {
        const body = { assignee_id: Number(person.id) };
        assertNotMember(await send('POST /tickets', body), person);
        assertNotMember(await send(`PATCH /tickets/${id}`, body), person);
        assertNotMember(await send(`PUT /tickets/${id}`, body), person);
        const batch = await send('POST /tickets/batch', { records: [{}, body], on_error: 'continue' });
        const statuses = (batch.json.results as { status: number }[]).map(({ status }) => status);
        assert.deepEqual(statuses, [201, 400]);
      }
      const invalid = await send('POST /tickets', { assignee_id: 'ann' });
      assert.deepEqual(invalid.json.fields, [
        { field: 'assignee_id', message: 'assignee_id must be the id of a member (an integer) or null' },
      ]);
    });

    test('a former member is kept, but cannot be assigned', async () => {
      const former = await makePerson(instance(), [{ organization: acme }]);
      const { id } = await create({ assignee_id: idOf(former) });
      await leave(former);
      const read = await send(`GET /tickets/${id}`);
      const put = await send(`PUT /tickets/${id}`, { ...read.json, subject: 'Changed' });
      assert.deepEqual([put.status, put.json.assignee_id], [200, idOf(former)], put.text);
      assertNotMember(await send('POST /tickets', { assignee_id: idOf(former) }), former);
    });

    test('a required user cannot be absent or null', async () => {
      const made = await send('POST /reviews', { reviewer_id: idOf(bob) });
      assert.deepEqual([made.status, made.json.reviewer_id], [201, idOf(bob)]);
      assertNotMember(await send('POST /reviews', { reviewer_id: idOf(stranger) }), stranger, 'reviewer_id');
      for (const body of [{}, { reviewer_id: null }])
        assert.equal((await send('POST /reviews', body)).status, 400);
    });

    test('lists filter by user, by the caller and by null', async () => {
      const { id: mine } = await create({ assignee_id: idOf(ann) });
      const { id: his } = await create({ assignee_id: idOf(bob) });
      const { id: open } = await create();
      const ids = async (query: string) => {
        const list = await send(`GET /tickets?${query}`);
        assert.equal(list.status, 200, list.text);
        const found = new Set((list.json.data as { id: number }[]).map(({ id }) => id));
        return [mine, his, open].map((id) => found.has(id));
      };
      assert.deepEqual(await ids('assignee_id=me'), [true, false, false]);
      assert.deepEqual(await ids(`assignee_id=${bob.id}`), [false, true, false]);
      assert.deepEqual(await ids(`assignee_id[in]=me&assignee_id[in]=${bob.id}`), [true, true, false]);
      assert.deepEqual(await ids('assignee_id[ne]=me'), [false, true, true]);
      assert.deepEqual(await ids('assignee_id=me&assignee_id[ne]=me'), [false, false, false]);
      assert.deepEqual(await ids('assignee_id[is_null]=true'), [false, false, true]);
      assert.equal((await send('GET /tickets?assignee_id=someone')).status, 400);
    });

    test('expand adds users: an email address only with the grant members:list, former members by name', async () => {
      const named = await makePerson(instance(), [{ organization: acme }]);
      const leaver = await makePerson(instance(), [{ organization: acme }]);
      await tablesOf(instance().database)
        .updateTable('crm_users')
        .set({ name: 'Zoë "Z"' })
        .where('id', 'in', [named.id, leaver.id])
        .execute();
      const active = await create({ assignee_id: idOf(named) });
      const nobody = await create();
      const past = await create({ assignee_id: idOf(leaver) });
      const mine = await create({ assignee_id: idOf(ann) });
      await leave(leaver);
      const records = [active, nobody, past, mine].map(({ id }) => id);
      const withEmail = [
        { id: idOf(named), name: 'Zoë "Z"', email: named.email },
        null,
        { id: idOf(leaver), name: 'Zoë "Z"', former: true },
        { id: idOf(ann), name: null, email: ann.email },
      ];
      const withoutEmail = withEmail.map((user) => {
        if (user === null) return null;
        const { email: _, ...rest } = user;
        return rest;
      });
      const reader = await makePerson(instance(), [
        { organization: acme, grants: [{ object: '*', actions: ['*'] }] },
      ]);
      const { byToken: byReader } = await logIn(instance(), reader);
      for (const [headers, users] of [
        [byAnn, withEmail],
        [byReader, withoutEmail],
        [byAnn, withEmail],
      ] as const) {
        const read = (query: string) => send(`GET ${query}`, undefined, headers);
        const ofRecords = await Promise.all(records.map((id) => read(`/tickets/${id}?expand=assignee_id`)));
        assert.deepEqual(
          ofRecords.map(({ json }) => json.expanded),
          users.map((assignee_id) => ({ assignee_id })),
        );
        const ids = records.map((id) => `id[in]=${id}`).join('&');
        const list = await read(`/tickets?fields=subject&expand=assignee_id&sort=id&dir=asc&${ids}`);
        const data = list.json.data as { id: number; expanded: object }[];
        assert.deepEqual(
          data.filter(({ id }) => records.includes(id)).map(({ expanded }) => expanded),
          users.map((assignee_id) => ({ assignee_id })),
          list.text,
        );
      }
      assert.match(
        (await send(`GET /tickets/${active.id}?expand=assignee_id`)).text,
        /"expanded":\{"assignee_id":\{"id":\d+,"name":"Zoë \\"Z\\"","email":"[^"]+"\}\}\}$/,
      );
      const unknown = await send(`GET /tickets/${active.id}?expand=assignee`);
      const message = 'Unknown field "assignee" in "expand". Did you mean "assignee_id"?';
      assert.deepEqual(errorOf(unknown), {
        error: message,
        code: 'invalid_input',
        fields: [{ field: 'expand', message }],
      });
    });

    test('a scoped caller sees who created and changed the records in the scope', async () => {
      const caller = await limitedPerson(instance(), acme, ['tickets:list:mine', 'tickets:read:mine']);
      const lister = await limitedPerson(instance(), acme, [
        'tickets:list:mine',
        'tickets:read:mine',
        'members:list',
      ]);
      const expand = 'expand=created_by_id,last_modified_by_id';
      const { byToken: byBob } = await logIn(instance(), bob);
      for (const [{ id: reader, key }, emails] of [
        [caller, [{}, {}]],
        [lister, [{ email: ann.email }, { email: bob.email }]],
      ] as const) {
        const { id } = await create({ assignee_id: Number(reader) });
        const { id: other } = await create({ assignee_id: idOf(bob) });
        for (const changed of [id, other])
          assert.equal((await send(`PATCH /tickets/${changed}`, { subject: 'Bob' }, byBob)).status, 200);
        const expanded = {
          created_by_id: { id: idOf(ann), name: null, ...emails[0] },
          last_modified_by_id: { id: idOf(bob), name: null, ...emails[1] },
        };
        const read = await instance().call(`GET /api/v1/tickets/${id}?${expand}`, { key });
        assert.deepEqual(read.json.expanded, expanded, read.text);
        const list = await instance().call(`GET /api/v1/tickets?fields=subject&${expand}`, { key });
        assert.deepEqual(list.json.data, [{ id, subject: 'Bob', expanded }]);
        assert.equal((await instance().call(`GET /api/v1/tickets/${other}?${expand}`, { key })).status, 404);
      }
    });

    test('every way of writing records stores who wrote them, and when', async () => {
      const { byToken: byBob } = await logIn(instance(), bob);
      const csv = { ...byBob, 'content-type': 'text/csv' };
      let count = 0;
      const read = async (code: string) => {
        const { rows } = await sql<{ creator: string; editor: string; isNew: boolean }>`
          select created_by_id as creator, last_modified_by_id as editor, updated_at > now() - interval '1 day' as "isNew"
          from tickets where code = ${code}`.execute(tablesOf(instance().database));
        return rows;
      };
      const assertWritten = async (way: string, answer: Answer, code: string, creator: Person) => {
        assert.ok(answer.status < 300, `${way}: ${answer.text}`);
        assert.deepEqual(await read(code), [{ creator: creator.id, editor: bob.id, isNew: true }], way);
      };
      for (const [way, write] of Object.entries({
        create: (code) => send('POST /tickets', { code }, byBob),
        'create once': (code) => send('POST /tickets', { code }, { ...byBob, 'idempotency-key': code }),
        batch: (code) => send('POST /tickets/batch', { records: [{ code }] }, byBob),
        upsert: (code) => send('POST /tickets/batch', { match: ['code'], records: [{ code }] }, byBob),
        import: (code) => send('POST /tickets/import', `code\n${code}\n`, csv),
      } satisfies Record<string, (code: string) => Promise<Answer>>))
        await assertWritten(way, await write(`new-${++count}`), `new-${count}`, bob);
      const bulk = async (id: number) => {
        const request = `PATCH /tickets?id[in]=${id}`;
        const headers = { ...byBob, prefer: 'bulk' };
        const { json } = await send(request, { subject: 'x' }, headers);
        return send(`${request}&confirm=${json.confirm}`, { subject: 'x' }, headers);
      };
      for (const [way, write] of Object.entries({
        patch: (id) => send(`PATCH /tickets/${id}`, { subject: 'x' }, byBob),
        put: (id, code) => send(`PUT /tickets/${id}`, { code, subject: 'x' }, byBob),
        batch: (id) => send('PATCH /tickets/batch', { records: [{ id, subject: 'x' }] }, byBob),
        upsert: (_, code) => send('POST /tickets/batch', { match: ['code'], records: [{ code }] }, byBob),
        import: (_, code) => send('POST /tickets/import?match=code', `code,subject\n${code},x\n`, csv),
        bulk,
        merge: async (id) => send(`POST /tickets/${id}/merge`, { from: (await create()).id }, byBob),
      } satisfies Record<string, (id: number, code: string) => Promise<Answer>>)) {
        const code = `old-${++count}`;
        const { id } = await create({ code });
        await sql`update tickets set updated_at = '2020-01-01' where id = ${id}`.execute(
          tablesOf(instance().database),
        );
        await assertWritten(way, await write(id, code), code, ann);
      }
      // Undoing a merge writes both records.
      const [id, from] = [await create({ code: 'kept' }), await create({ code: 'merged' })].map(
        (ticket) => ticket.id,
      );
      assert.equal((await send(`POST /tickets/${id}/merge`, { from })).status, 200);
      const unmerged = await send(`POST /tickets/${id}/unmerge`, { from }, byBob);
      for (const code of ['kept', 'merged']) await assertWritten('unmerge', unmerged, code, ann);
    });

    test('expanding a user takes one statement, and a deleted user is null', async () => {
      const gone = await makePerson(instance(), [{ organization: acme }]);
      const { id } = await create({ assignee_id: idOf(gone) });
      await tablesOf(instance().database).deleteFrom('crm_users').where('id', '=', gone.id).execute();
      const statements = await recordStatements(instance().database, async () => {
        const { json } = await send(`GET /tickets/${id}?expand=assignee_id`);
        assert.deepEqual([json.assignee_id, json.expanded], [idOf(gone), { assignee_id: null }]);
      });
      assert.equal(statements.filter(({ text }) => text.includes('"tickets"')).length, 1);
    });

    test('CSV contains and accepts IDs', async () => {
      await create({ subject: 'In CSV', assignee_id: idOf(bob) });
      const csv = await send('GET /tickets', undefined, { accept: 'text/csv' });
      assert.match(csv.text, new RegExp(`,In CSV,${bob.id}\\r?\\n`));
      const lines = `subject,assignee_id\nA,${bob.id}\nB,${stranger.id}\nC,\n`;
      const report = await send('POST /tickets/import', lines, { 'content-type': 'text/csv' });
      assert.deepEqual([report.json.created, report.json.failed], [2, 1], report.text);
    });

    test('forms offer the members by name, and pages show it', async () => {
      const browser = await signIn(instance(), ann);
      const base = '/setup/o/acme/data/tickets';
      const form = readable((await browser.get(`${base}/new`)).text);
      assert.match(form, new RegExp(`<option value="${bob.id}">${bob.email}<`));
      assert.match(form, /<option value="" selected>Nobody</);
      const created = await browser.submit(`${base}/new`, `${base}/new`, {
        subject: 'From a form',
        assignee_id: bob.id,
      });
      const path = (created.headers.get('location') ?? '').replace(/\?.*/, '');
      const assignee = async () => (await send(`GET /tickets/${path.split('/').pop()}`)).json.assignee_id;
      assert.equal(await assignee(), idOf(bob));
      const page = readable((await browser.get(path)).text);
      assert.match(page, new RegExp(`Assignee[\\s\\S]*${bob.email}`));
      await browser.submit(`${path}/edit`, `${path}/edit`, { subject: 'Nobody’s', assignee_id: '' });
      assert.equal(await assignee(), null);
      assert.match(
        (await browser.get(path)).text,
        new RegExp(`<strong>Assignee</strong> <del>${bob.email}</del>`),
      );
      const required = readable((await browser.get('/setup/o/acme/data/reviews/new')).text);
      assert.match(required, /<select [^>]* required[\s\S]*<option value="" selected>Choose a member</);
    });

    test('the description has the field in inputs and `me` in its filters', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const { schemas, parameters } = json.components as {
        schemas: Record<string, { properties: Record<string, object>; required?: string[] }>;
        parameters: Record<string, { description: string }>;
      };
      assert.deepEqual(schemas.TicketInput?.properties.assignee_id, {
        ...{ type: ['integer', 'null'], format: 'int64', description: 'Who works on it.' },
      });
      assert.deepEqual(schemas.ReviewInput?.required, ['reviewer_id']);
      assert.match(parameters['tickets.assignee_id']?.description ?? '', /`me` stands for the calling user/);
    });
  },
  { sources },
);
