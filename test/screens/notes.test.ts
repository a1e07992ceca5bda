// Notes about records: in the timeline, with their author, for members who can update the record, and deleted with it.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { changeNote, deleteNote } from '../../plugins/tenants/notes/index.ts';
import { exportOrganization } from '../../plugins/tenants/organizations/export.ts';
import { administratorOf, formsOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import {
  type Answer,
  type Instance,
  type Organization,
  onBothDrivers,
  startInstance,
} from '../support/instance.ts';
import { limitedPerson, setGrants } from '../support/limited.ts';
import { activityOf, command, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';
import { whileUncommitted } from '../support/uncommitted.ts';

const data = '/setup/o/acme/data';
const sources = await sourcesWith(
  {
    file: 'firms.yaml',
    text: `common: all
trash: 30 days
fields:
  name: { type: string }
sort: { by: id }
`,
  },
  {
    file: 'sites.yaml',
    text: `common: all
fields:
  name: { type: string }
  firm_id: { type: reference, to: firms, nullable: true, on_delete: cascade }
  kind: { type: string, enum: [own, foreign] }
scopes:
  own: kind == 'own'
sort: { by: id }
`,
  },
);

/** Returns the texts of the entries in a timeline, newest first. */
const timelineIn = ({ text }: Answer): string[] =>
  [
    ...(/<ol>([\s\S]*?)<\/ol>\s*(?:<p><a|<\/section>)/.exec(text)?.[1] ?? '').matchAll(
      /<span class="mark">[\s\S]*?<\/span><p>([^<]*?) ?<?span|<p class="text"[^>]*>([^<]*)<\/p>/g,
    ),
  ]
    .map(([, entry, note]) => readable((note ?? entry ?? '').trim()))
    .filter((entry) => entry !== '');
const notesIn = ({ text }: Answer): string[] =>
  [...text.matchAll(/<p class="text" dir="auto">([^<]*)<\/p>/g)].map(([, note = '']) => readable(note));
const linkIn = ({ text }: Answer, label: string): string =>
  readable(new RegExp(`<a href="([^"]*)"[^>]*>${label}</a>`).exec(text)?.[1] ?? '');

onBothDrivers(
  'notes',
  (instance, driver) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
    });
    const call = async (request: string, body?: object) => {
      const answer = await instance().call(request.replace(' /', ' /api/v1/'), {
        key: acme.key,
        ...(body && { body }),
      });
      assert.ok(answer.status < 300, answer.text);
      return answer;
    };
    const create = async (resource: string, body: object): Promise<string> =>
      String((await call(`POST /${resource}`, body)).json.id);
    const visitorWith = async (
      ...grants: NonNullable<Parameters<typeof makePerson>[1]>[number]['grants'] & object
    ): Promise<Visitor> => signIn(instance(), await makePerson(instance(), [{ organization: acme, grants }]));
    /** Writes a note and returns the record's page. */
    const write = async (visitor: Visitor, record: string, text: string): Promise<Answer> => {
      const page = await visitor.get(`${data}/${record}`);
      const form = formsOf(page).find(({ action }) => action === `${data}/${record}/notes`);
      const answer = await visitor.post(`${data}/${record}/notes`, {
        ...(form?.values ?? { _csrf: await visitor.token('/setup/me') }),
        text,
      });
      return answer.status === 303 ? visitor.get(answer.headers.get('location') ?? '') : answer;
    };
    const submit = async (visitor: Visitor, url: string, fields: Readonly<Record<string, string>> = {}) => {
      const page = await visitor.get(url);
      const form = formsOf(page).find(({ action }) => action === url);
      const answer = await visitor.post(url, {
        ...(form?.values ?? { _csrf: await visitor.token('/setup/me') }),
        ...fields,
      });
      return answer.status === 303 ? visitor.get(answer.headers.get('location') ?? '') : answer;
    };
    const storedNotes = async (record: string) => {
      const { rows } = await sql<{ text: string }>`select text from crm_notes
        where organization_id = ${acme.id}::bigint and resource || '/' || record_id = ${record} order by id`.execute(
        tablesOf(instance().database),
      );
      return rows.map(({ text }) => text);
    };

    test('a note appears in the timeline with its author, among the changes', async () => {
      const record = `sites/${await create('sites', { name: 'North' })}`;
      const page = await write(admin, record, '  Called <Ada>\r\nShe calls back \u05d0 ');
      assert.match(page.text, /Note added\./);
      assert.deepEqual(notesIn(page), ['Called <Ada>\nShe calls back \u05d0']);
      await call(`PATCH /${record}`, { name: 'Northern' });
      assert.deepEqual(timelineIn(await admin.get(`${data}/${record}`)), [
        'Changed by admin',
        'Note by admin@acme.example',
        'Called <Ada>\nShe calls back \u05d0',
        'Created by admin',
      ]);
      const { rows } = await sql<{
        line: string;
      }>`select action || ' ' || coalesce(record, '-') as line from crm_ledger
        where organization_id = ${acme.id}::bigint and object = 'note'`.execute(
        tablesOf(instance().database),
      );
      assert.deepEqual(
        rows.map(({ line }) => line),
        ['create -'],
        'the change log does not contain the text',
      );
      // A note with the time of a change is above it.
      await sql`insert into crm_notes (organization_id, resource, record_id, author_id, text, created_at)
        select ${acme.id}::bigint, 'sites', object_id, ${acme.user}::bigint, 'At the same time', at from crm_ledger
        where organization_id = ${acme.id}::bigint and object = 'sites' and 'sites/' || object_id = ${record} and version = 2`.execute(
        tablesOf(instance().database),
      );
      assert.deepEqual(timelineIn(await admin.get(`${data}/${record}`)).slice(0, 3), [
        ...['Note by admin@acme.example', 'At the same time', 'Changed by admin'],
      ]);
      const activity = await admin.get('/setup/o/acme/activity');
      assert.match(activity.text, /Note \d+ created/);
      // A record opened from a list stays in this list.
      const listed = await admin.get(`${data}/${record}?list=sort%3Did`);
      const form = formsOf(listed).find(({ action }) => action.startsWith(`${data}/${record}/notes`));
      const added = await admin.post(form?.action ?? '', { ...form?.values, text: 'From the list' });
      assert.equal(added.headers.get('location'), `${data}/${record}?list=sort%3Did&done=note-added`);
      // Notes are not changes to records.
      const { json } = await call(`GET /${record}/history`);
      assert.equal((json.data as unknown[]).length, 2);
    });

    test('empty and too long notes are rejected, and their text is kept', async () => {
      const record = `sites/${await create('sites', { name: 'Empty' })}`;
      const empty = await write(admin, record, ' \n ');
      assert.equal(empty.status, 400);
      assert.equal(problemOf(empty), 'A note must have 1 to 10000 characters');
      const long = await write(admin, record, 'x'.repeat(10_001));
      assert.equal(long.status, 400);
      assert.match(long.text, /<textarea id="note"[^>]* aria-invalid="true">\nx{10001}<\/textarea>/);
      const unstorable = await write(admin, record, 'a\0b');
      assert.equal(unstorable.status, 400);
      assert.deepEqual(await storedNotes(record), []);
      await write(admin, record, 'x'.repeat(10_000));
      assert.deepEqual(await storedNotes(record), ['x'.repeat(10_000)]);
    });

    test('every reader of the record reads its notes, and writing requires the grant to update this record', async () => {
      const [own, foreign] = [
        `sites/${await create('sites', { name: 'Own', kind: 'own' })}`,
        `sites/${await create('sites', { name: 'Foreign', kind: 'foreign' })}`,
      ];
      for (const record of [own, foreign]) await write(admin, record, 'Seen');
      const reader = await visitorWith({ object: 'sites', actions: ['list', 'read'] });
      const page = await reader.get(`${data}/${own}`);
      assert.deepEqual(notesIn(page), ['Seen']);
      assert.doesNotMatch(page.text, /Add note/);
      assert.equal(linkIn(page, 'Delete'), '');
      assert.equal((await write(reader, own, 'No')).status, 403);

      const limited = await visitorWith(
        { object: 'sites', actions: ['list', 'read'] },
        { object: 'sites', actions: ['update:own'] },
      );
      assert.deepEqual(notesIn(await write(limited, own, 'Yes')), ['Yes', 'Seen']);
      assert.equal((await write(limited, foreign, 'No')).status, 403);
      const blind = await visitorWith({ object: 'sites', actions: ['list:own', 'read:own', 'update:own'] });
      assert.equal((await blind.get(`${data}/${foreign}`)).status, 404);
      assert.equal((await write(blind, foreign, 'No')).status, 404);
      const note = await sql<{ id: string }>`select id::text as id from crm_notes
        where organization_id = ${acme.id}::bigint and resource || '/' || record_id = ${foreign}`.execute(
        tablesOf(instance().database),
      );
      const url = `${data}/${foreign}/notes/${note.rows[0]?.id}`;
      for (const action of ['edit', 'delete'])
        assert.equal((await blind.get(`${url}/${action}`)).status, 404);
      // A note is found only under its own record.
      const wrong = `${data}/${own}/notes/${note.rows[0]?.id}`;
      for (const action of ['edit', 'delete'])
        for (const path of [wrong, `${data}/${own}/notes/x`])
          assert.equal((await admin.get(`${path}/${action}`)).status, 404, path);
      assert.deepEqual(await storedNotes(foreign), ['Seen']);
    });

    test('authors change and delete their notes; administrators delete those of others', async () => {
      const record = `sites/${await create('sites', { name: 'Edited' })}`;
      const author = await visitorWith({ object: 'sites', actions: ['list', 'read', 'update'] });
      await write(admin, record, 'Kept');
      const page = await write(author, record, 'First');
      const url = linkIn(page, 'Edit').replace(/\/edit$/, '');
      const edited = await submit(author, `${url}/edit`, { text: 'Second' });
      assert.deepEqual(notesIn(edited), ['Second', 'Kept']);
      assert.match(edited.text, /Note \(edited\) by/);
      assert.equal((await submit(author, `${url}/edit`, { text: '' })).status, 400);
      const other = await visitorWith({ object: 'sites', actions: ['list', 'read', 'update'] });
      for (const action of ['edit', 'delete']) {
        assert.equal((await other.get(`${url}/${action}`)).status, 403, action);
        assert.equal((await submit(other, `${url}/${action}`, { text: 'x' })).status, 403, action);
      }
      // Administrators delete notes of others, but do not write in their names.
      assert.equal((await admin.get(`${url}/edit`)).status, 403);
      assert.equal((await submit(admin, `${url}/edit`, { text: 'x' })).status, 403);
      assert.deepEqual(await storedNotes(record), ['Kept', 'Second']);
      // The functions behind the forms check the organization, too.
      const { id: organization } = await instance().organization('foreign');
      const [resource = '', site = ''] = record.split('/');
      const [id = ''] = url.split('/').slice(-1);
      const foreign = { organization, resource, record: site };
      await transaction(instance().database, async (tables) => {
        await changeNote(tables, command(instance()), foreign, { id, text: 'x' });
        await deleteNote(tables, command(instance()), foreign, id);
      });
      assert.deepEqual(await storedNotes(record), ['Kept', 'Second']);
      const deleted = await submit(admin, `${url}/delete`);
      assert.match(deleted.text, /Note deleted\./);
      assert.deepEqual(await storedNotes(record), ['Kept']);
      const note = url.split('/').at(-1);
      const activity = await activityOf(instance(), acme.id);
      const [created, changed, ...removed] = activity.filter(({ did }) => did.endsWith(` note ${note}`));
      assert.deepEqual([created?.did, changed?.did], [`create note ${note}`, `update note ${note}`]);
      assert.equal(created?.actor, changed?.actor);
      assert.deepEqual(
        removed.map(({ actor, did }) => [actor, did]),
        [[`user ${acme.user}`, `delete note ${note}`]],
      );
    });

    test('an author who can no longer update the record cannot change or delete notes', async () => {
      const record = `sites/${await create('sites', { name: 'Handed over' })}`;
      const grants = ['sites:list', 'sites:read', 'sites:update'];
      const person = await limitedPerson(instance(), acme, grants);
      const author = await signIn(instance(), person);
      const page = await write(author, record, 'Mine');
      const url = linkIn(page, 'Edit').replace(/\/edit$/, '');
      await setGrants(instance(), acme, person.profile, grants.slice(0, 2));
      await until(async () => (await author.get(`${url}/edit`)).status === 403, 'the profile to change');
      assert.equal((await submit(author, `${url}/edit`, { text: 'x' })).status, 403);
      assert.equal((await author.get(`${url}/delete`)).status, 403);
      assert.equal((await submit(author, `${url}/delete`)).status, 403);
      assert.deepEqual(await storedNotes(record), ['Mine']);
      const after = await author.get(`${data}/${record}`);
      assert.deepEqual([linkIn(after, 'Edit'), linkIn(after, 'Delete')], ['', '']);
    });

    test('notes are deleted with their record, also in batches and cascades, and kept in the trash', async () => {
      const firm = await create('firms', { name: 'Kept' });
      const site = await create('sites', { name: 'Dependent', firm_id: Number(firm) });
      const [single, first, second, left] = await Promise.all(
        ['single', 'first', 'second', 'left'].map((name) => create('sites', { name })),
      );
      const records = [`firms/${firm}`, ...[site, single, first, second, left].map((id) => `sites/${id}`)];
      for (const record of records) await write(admin, record, record);
      // Notes of other records with the same IDs.
      const other = await instance().organization('other');
      const tables = tablesOf(instance().database);
      await sql`insert into crm_notes (organization_id, resource, record_id, author_id, text)
        select o.id, _r.resource, n.record_id, ${acme.user}::bigint, 'same ID' from crm_notes n join crm_organizations o on o.id in (${acme.id}::bigint, ${other.id}::bigint)
          cross join lateral (values (n.resource), ('elsewhere')) _r(resource)
        where n.text = n.resource || '/' || n.record_id and (o.id, _r.resource) <> (n.organization_id, n.resource)`.execute(
        tables,
      );
      const withSameId = async () =>
        (await sql`select from crm_notes where text = 'same ID'`.execute(tables)).rows.length;
      assert.equal(await withSameId(), 18);
      await call(`DELETE /sites/${single}`);
      await call('DELETE /sites/batch', { ids: [Number(first), Number(second)] });
      assert.deepEqual((await Promise.all(records.map(storedNotes))).flat(), [
        records[0],
        records[1],
        records[5],
      ]);
      await call(`DELETE /firms/${firm}`);
      assert.deepEqual(await storedNotes(`firms/${firm}`), [`firms/${firm}`]);
      await call(`POST /firms/${firm}/restore`);
      assert.deepEqual(notesIn(await admin.get(`${data}/firms/${firm}`)), [`firms/${firm}`]);
      await call(`DELETE /firms/${firm}`);
      await submit(admin, `${data}/firms/${firm}/purge`);
      assert.deepEqual((await Promise.all(records.map(storedNotes))).flat(), [`sites/${left}`]);
      assert.equal(await withSameId(), 18);
    });

    // The embedded database runs one transaction at a time.
    if (driver === 'postgresql')
      test('a note about a record that is being deleted is not stored', async () => {
        const id = await create('sites', { name: 'Going' });
        const record = `sites/${id}`;
        const _csrf = await admin.token('/setup/me');
        const answer = await whileUncommitted(instance(), [`delete from sites where id = ${id}`], () =>
          admin.post(`${data}/${record}/notes`, { _csrf, text: 'Late' }),
        );
        assert.equal(answer.status, 404);
        assert.deepEqual(await storedNotes(record), []);
      });

    test('many notes and changes are divided into pages without gaps or repetitions', async () => {
      const id = await create('sites', { name: '0' });
      const record = `sites/${id}`;
      for (let change = 1; change <= 24; change++) await call(`PATCH /${record}`, { name: String(change) });
      // Notes between the changes: 120 in the period of the older changes and 3 after the last one. Some have the same time.
      await sql`insert into crm_notes (organization_id, resource, record_id, author_id, text, created_at)
        select ${acme.id}::bigint, 'sites', ${id}::bigint, ${acme.user}::bigint, 'old ' || n, (select min(at) from crm_ledger
          where object = 'sites' and object_id = ${id}::bigint) + (1 + n / 7) * interval '1 microsecond' from generate_series(1, 120) n order by n`.execute(
        tablesOf(instance().database),
      );
      await sql`insert into crm_notes (organization_id, resource, record_id, author_id, text, created_at)
        select ${acme.id}::bigint, 'sites', ${id}::bigint, ${acme.user}::bigint, 'new ' || n, now() + n * interval '1 second'
        from generate_series(1, 3) n`.execute(tablesOf(instance().database));
      const notes: string[] = [];
      const entries: string[] = [];
      let pages = 0;
      for (let url = `${data}/${record}`; url !== ''; pages++) {
        const page = await admin.get(url);
        assert.equal(page.status, 200);
        notes.push(...notesIn(page));
        entries.push(...[...page.text.matchAll(/<p>(Changed|Created) by/g)].map(([, action = '']) => action));
        url = linkIn(page, 'Older changes');
      }
      const expected = (name: string, count: number) =>
        Array.from({ length: count }, (_, index) => `${name} ${count - index}`);
      assert.deepEqual(notes, [...expected('new', 3), ...expected('old', 120)]);
      assert.deepEqual(entries, [...Array.from({ length: 24 }, () => 'Changed'), 'Created']);
      assert.ok(pages >= 4, `${pages} pages`);
      assert.equal((await admin.get(`${data}/${record}?until=yesterday`)).status, 200);
    });

    test('an export of the organization contains the notes', async () => {
      const id = await create('sites', { name: 'Exported' });
      await write(admin, `sites/${id}`, 'In the "export"\nof acme');
      const { database, resources } = instance();
      let text = '';
      for await (const chunk of exportOrganization({ database, resources }, acme.id)) text += String(chunk);
      const found = text
        .split('\n')
        .filter((line) => line.startsWith('{"kind":"note"'))
        .map(
          (line) =>
            (
              JSON.parse(line) as {
                note: { record_id: number; resource: string; text: string; author_id: number };
              }
            ).note,
        )
        .find(({ record_id }) => String(record_id) === id);
      assert.deepEqual(
        [found?.resource, found?.text, String(found?.author_id)],
        ['sites', 'In the "export"\nof acme', acme.user],
      );
    });
  },
  { sources },
);

test('with NOTES=false, timelines have no form for notes', async () => {
  const instance: Instance = await startInstance('postgresql', { environment: { NOTES: 'false' } });
  try {
    const acme = await instance.organization('acme');
    const admin = await signIn(instance, administratorOf(acme));
    const made = await instance.call('POST /api/v1/leads', { key: acme.key, body: { last_name: 'Ames' } });
    const url = `${data}/leads/${made.json.id}`;
    const page = await admin.get(url);
    assert.match(page.text, /Timeline<\/h2>[\s\S]*Created by/);
    assert.doesNotMatch(page.text, /Add note/);
    const _csrf = await admin.token(url);
    assert.equal((await admin.post(`${url}/notes`, { _csrf, text: 'x' })).status, 404);
    // A note from the time before the setting.
    const { rows } = await sql<{
      id: string;
    }>`insert into crm_notes (organization_id, resource, record_id, author_id, text)
      values (${acme.id}::bigint, 'leads', ${String(made.json.id)}::bigint, ${acme.user}::bigint, 'Earlier') returning id::text as id`.execute(
      tablesOf(instance.database),
    );
    assert.deepEqual(notesIn(await admin.get(url)), []);
    for (const action of ['edit', 'delete']) {
      const note = `${url}/notes/${rows[0]?.id}/${action}`;
      assert.equal((await admin.get(note)).status, 404, action);
      assert.equal((await admin.post(note, { _csrf, text: 'x' })).status, 404, action);
    }
  } finally {
    await instance.close();
  }
});
