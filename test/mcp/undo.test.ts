// Undoing what agents did: administrators see calls, and undo the changes of a run, of a call, or of a key since a call.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { configured, useTool } from '../support/agents.ts';
import { administratorOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { hookedModules, hookedSources } from '../support/hooked.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';
import { untilWaiting } from '../support/uncommitted.ts';

const path = '/setup/o/acme/agents';
const sources = await sourcesWith(
  ...hookedSources,
  {
    file: 'resources/folders.yaml',
    text: 'singular: folder\ndescription: A folder.\ncommon: all\nfields:\n  title: { type: string, description: The title. }\n',
  },
  {
    file: 'resources/pages.yaml',
    text: 'singular: page\ndescription: A page.\ncommon: all\nfields:\n  title: { type: string, description: The title. }\n  folder_id: { type: reference, to: folders, required: true, on_delete: cascade, description: The folder. }\n',
  },
);

onBothDrivers(
  'Undoing changes of agents',
  (instance, driver) => {
    let acme: Organization;
    let other: Organization;
    let admin: Visitor;
    let stranger: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      other = await instance().organization('other');
      admin = await signIn(instance(), administratorOf(acme));
      stranger = await signIn(instance(), administratorOf(other));
    });
    const api = async (request: string, body?: object) => {
      const [method, resource] = request.split(' ');
      return instance().call(`${method} /api/v1/${resource}`, { key: acme.key, ...(body && { body }) });
    };
    const make = async (resource: string, body: object): Promise<string> => {
      const { status, json, text } = await api(`POST ${resource}`, body);
      assert.equal(status, 201, text);
      return String(json.id);
    };
    /** Creates a key, and returns functions that call tools in a new run of it. */
    const agent = async () => {
      const { id, key } = await acme.makeKey();
      const { run } = await useTool(instance(), key, 'describe');
      const use = (tool: string, input: object) => useTool(instance(), key, tool, { ...input, run });
      return {
        id,
        run: String(run).split('.')[0] ?? '',
        read: (tool: string, input: object) => useTool(instance(), key, tool, input),
        use,
        create: async (resource: string, values: object) =>
          String(((await use('create', { resource, values })).record as { readonly id: unknown }).id),
      };
    };
    /** Returns the IDs of the calls in a list, newest first. */
    const callsIn = async (query: Readonly<Record<string, string>>): Promise<string[]> => {
      const { status, text } = await admin.get(`${path}?${new URLSearchParams(query)}`);
      assert.equal(status, 200);
      const links = text.matchAll(/href="[^"]*\/agents\/undo\?id(?:=|&#x3D;)(\d+)/g);
      return [...new Set([...links].map(([, id = '']) => id))];
    };
    const undo = async (call: string, action = 'undo', visitor = admin): Promise<Answer> => {
      const form = `${path}/${action}?id=${call}`;
      return visitor.submit(form, `${path}/${action}`, { id: call });
    };
    /** Returns the message of a successful action. */
    const messageAfter = async (answer: Answer): Promise<string> => {
      assert.equal(answer.status, 303, problemOf(answer));
      return readable((await admin.get(answer.headers.get('location') ?? '')).text);
    };

    test('the page lists calls, newest first, and filters them by run and key', async () => {
      const { id, run, read, create } = await agent();
      await create('tasks', { title: 'listed' });
      await read('find', { resource: 'leads' });
      const all = readable((await admin.get(`${path}?key=${id}`)).text);
      assert.match(all, /find[\s\S]*Leads[\s\S]*create[\s\S]*Tasks/);
      assert.equal((await callsIn({ key: id })).length, 1, 'only the write can be undone');
      const ofRun = readable((await admin.get(`${path}?run=${run}`)).text);
      assert.match(ofRun, /create[\s\S]*Tasks/);
      assert.doesNotMatch(ofRun, />find</);
      assert.match(ofRun, new RegExp(`Run ${run}`));
      const writes = readable((await admin.get(`${path}?key=${id}&show=writes`)).text);
      assert.match(writes, />create</);
      assert.doesNotMatch(writes, />find</);
      const german = await admin.get(`${path}?key=${id}`, { 'accept-language': 'de' });
      assert.match(readable(german.text), /<h1>Agenten<\/h1>/);
      assert.match((await admin.get('/setup/o/acme')).text, /href="\/setup\/o\/acme\/agents"/);
    });

    test('all changes of a run are undone, newest first', async () => {
      const { run, use, create } = await agent();
      const updated = await make('tasks', { title: 'before', points: 1 });
      const trashed = await make('tasks', { title: 'to the trash' });
      const deleted = await make('leads', { last_name: 'Deleted', company: 'A' });
      const created = await create('tasks', { title: 'created' });
      await use('update', { resource: 'tasks', id: created, values: { title: 'created and changed' } });
      await use('update', { resource: 'tasks', id: updated, values: { title: 'during' } });
      await use('update', { resource: 'tasks', id: updated, values: { title: 'after', points: 2 } });
      await use('delete', { resource: 'tasks', id: trashed });
      await use('delete', { resource: 'leads', id: deleted });
      const [call = ''] = await callsIn({ run });
      const question = readable((await admin.get(`${path}/undo?id=${call}`)).text);
      assert.match(question, /Undo all changes of this run\?/);
      assert.match(
        question,
        /Deleted deleted[\s\S]*to the trash moved to the trash[\s\S]*after changed[\s\S]*during changed[\s\S]*created and changed changed[\s\S]*created created/,
      );
      assert.match(await messageAfter(await undo(call)), /6 changes<\/strong> undone\./);
      assert.equal((await api(`GET tasks/${created}`)).status, 404);
      const { title, points } = (await api(`GET tasks/${updated}`)).json;
      assert.deepEqual([title, points], ['before', 1]);
      assert.equal((await api(`GET tasks/${trashed}`)).status, 200);
      const leads = (await api('GET leads?last_name=Deleted')).json.data as readonly { company: string }[];
      assert.deepEqual(
        leads.map(({ company }) => company),
        ['A'],
      );
    });

    test('a record that has been changed since stays as it is and is reported', async () => {
      const { run, use } = await agent();
      const [own, theirs] = [await make('tasks', { title: 'own' }), await make('tasks', { title: 'theirs' })];
      for (const id of [own, theirs]) {
        await use('update', { resource: 'tasks', id, values: { title: `agent ${id}` } });
        await use('update', { resource: 'tasks', id, values: { points: 7 } });
      }
      await api(`PATCH tasks/${theirs}`, { hours: 3 });
      const [call = ''] = await callsIn({ run });
      const answer = await undo(call);
      assert.match(
        problemOf(answer),
        new RegExp(`^2 changes undone\\. Not undone: agent ${theirs} changed: changed again since; `),
      );
      const values = async (id: string) => {
        const { title, points, hours } = (await api(`GET tasks/${id}`)).json;
        return [title, points, hours];
      };
      assert.deepEqual(await values(own), ['own', null, null]);
      assert.deepEqual(await values(theirs), [`agent ${theirs}`, 7, 3]);
      assert.match(problemOf(await undo(call)), /^0 changes undone/, 'nothing is undone twice');
      assert.deepEqual(await values(own), ['own', null, null]);
    });

    test('records of two resources with the same ID are undone independently of each other', async () => {
      const { run, use } = await agent();
      const task = await make('tasks', { title: 'theirs' });
      let lead = await make('leads', { last_name: 'before' });
      while (Number(lead) < Number(task)) lead = await make('leads', { last_name: 'before' });
      assert.equal(lead, task);
      await use('update', { resource: 'leads', id: lead, values: { last_name: 'during' } });
      await use('update', { resource: 'tasks', id: task, values: { title: 'of the agent' } });
      for (const hours of [1, 2]) await api(`PATCH tasks/${task}`, { hours });
      const [call = ''] = await callsIn({ run });
      assert.match(
        problemOf(await undo(call)),
        /^1 change undone\. Not undone: of the agent changed: changed again/,
      );
      assert.equal((await api(`GET leads/${lead}`)).json.last_name, 'before');
      assert.equal((await api(`GET tasks/${task}`)).json.title, 'of the agent');
    });

    test('a record that has been deleted since is reported like one that has been changed', async () => {
      const { run, use } = await agent();
      const id = await make('leads', { last_name: 'before' });
      await use('update', { resource: 'leads', id, values: { last_name: 'deleted since' } });
      await api(`DELETE leads/${id}`);
      const [call = ''] = await callsIn({ run });
      assert.match(
        problemOf(await undo(call)),
        /^0 changes undone\. Not undone: deleted since changed: changed again/,
      );
    });

    test('a record that a change without a request has changed since stays as it is', async () => {
      const { run, use } = await agent();
      const id = await make('tasks', { title: 'before' });
      await use('update', { resource: 'tasks', id, values: { title: 'of the agent' } });
      await api(`PATCH tasks/${id}`, { hours: 3 });
      // Commands write without a request.
      await sql`update crm_ledger set request_id = null, actor_kind = 'command' where object = 'tasks'
        and object_id = ${id}::bigint and version = 3`.execute(tablesOf(instance().database));
      const [call = ''] = await callsIn({ run });
      assert.match(
        problemOf(await undo(call)),
        /^0 changes undone\. Not undone: of the agent changed: changed again/,
      );
      assert.equal((await api(`GET tasks/${id}`)).json.title, 'of the agent');
    });

    test('changes in other organizations with the same request ID are neither listed nor undone', async () => {
      const { run, create } = await agent();
      const id = await create('tasks', { title: 'shared request' });
      const { rows } = await sql<{ request: string }>`select request_id as request from crm_ledger
        where object = 'tasks' and object_id = ${id}::bigint`.execute(tablesOf(instance().database));
      const made = await instance().call('POST /api/v1/tasks', {
        key: other.key,
        body: { title: 'foreign' },
        headers: { 'x-request-id': rows[0]?.request ?? '' },
      });
      assert.equal(made.headers.get('x-request-id'), rows[0]?.request, made.text);
      const [call = ''] = await callsIn({ run });
      assert.doesNotMatch((await admin.get(`${path}/undo?id=${call}`)).text, /foreign/);
      assert.match(await messageAfter(await undo(call)), /1 change<\/strong> undone\./);
    });

    test('a restored record returns to the trash', async () => {
      const { run, use } = await agent();
      const id = await make('tasks', { title: 'restored' });
      await api(`DELETE tasks/${id}`);
      await use('restore', { resource: 'tasks', id });
      const [call = ''] = await callsIn({ run });
      assert.match(await messageAfter(await undo(call)), /1 change<\/strong> undone\./);
      assert.equal((await api(`GET tasks/${id}`)).status, 404);
      assert.equal((await api(`POST tasks/${id}/restore`)).status, 200);
    });

    test('a value that only modules write does not prevent the undo', async () => {
      const { run, create } = await agent();
      const project = await make('projects', { name: 'counted' });
      const open = async () => (await api(`GET projects/${project}`)).json.open_tasks;
      const id = await create('tasks', { title: 'counted', project_id: Number(project) });
      assert.equal(await open(), 1);
      const [call = ''] = await callsIn({ run });
      assert.match(await messageAfter(await undo(call)), /1 change<\/strong> undone\./);
      assert.equal((await api(`GET tasks/${id}`)).status, 404);
      assert.equal(await open(), 0);
    });

    test('a created record is kept if other records would be deleted with it', async () => {
      const { run, create } = await agent();
      const folder = await create('folders', { title: 'Shared' });
      const own = await create('pages', { title: 'of the agent', folder_id: Number(folder) });
      const page = await make('pages', { title: 'of a member', folder_id: Number(folder) });
      const [call = ''] = await callsIn({ run });
      assert.match(
        problemOf(await undo(call)),
        /^1 change undone\. Not undone: Shared created: other records would be deleted, too$/,
      );
      assert.equal((await api(`GET pages/${page}`)).status, 200);
      assert.equal((await api(`GET pages/${own}`)).status, 404);
      // The other record can have the same ID, because it belongs to another resource.
      const second = await agent();
      const same = await second.create('folders', { title: 'Same ID' });
      const inside = await make('pages', { title: 'of a member', folder_id: Number(same) });
      const tables = tablesOf(instance().database);
      await sql`delete from pages where id = ${same}::bigint and id <> ${inside}::bigint`.execute(tables);
      await sql`update pages set id = ${same}::bigint where id = ${inside}::bigint`.execute(tables);
      const [again = ''] = await callsIn({ run: second.run });
      assert.match(
        problemOf(await undo(again)),
        /^0 changes undone\. Not undone: Same ID created: other records/,
      );
      assert.equal((await api(`GET pages/${same}`)).status, 200);
    });

    test('a change whose undo the API rejects is reported with the error', async () => {
      const { run, use } = await agent();
      const record = await make('tasks', { title: 'coded', code: 'A1' });
      await use('update', { resource: 'tasks', id: record, values: { code: null } });
      await make('tasks', { title: 'same code', code: 'A1' });
      const [call = ''] = await callsIn({ run });
      assert.match(problemOf(await undo(call)), /^0 changes undone\. Not undone: coded changed: .*code/);
      assert.equal((await api(`GET tasks/${record}`)).json.code, null);
    });

    test('the changes of a key since a call are undone', async () => {
      const { id, use } = await agent();
      const record = await make('tasks', { title: 'zero' });
      const [other, theirs] = [await agent(), await make('tasks', { title: 'zero' })];
      for (const title of ['one', 'two', 'three']) {
        await use('update', { resource: 'tasks', id: record, values: { title } });
        await other.use('update', { resource: 'tasks', id: theirs, values: { title } });
      }
      const [, second = ''] = await callsIn({ key: id });
      const question = readable((await admin.get(`${path}/undo-since?id=${second}`)).text);
      assert.match(question, /<h1>Undo all changes of administrator since this call\?<\/h1>/);
      assert.match(await messageAfter(await undo(second, 'undo-since')), /2 changes<\/strong> undone/);
      const titles = await Promise.all([record, theirs].map((task) => api(`GET tasks/${task}`)));
      assert.deepEqual(
        titles.map(({ json }) => json.title),
        ['one', 'three'],
      );
    });

    test('without a run, only the changes of the call itself are undone', async () => {
      const { id, read } = await agent();
      const records = [await make('tasks', { title: 'first' }), await make('tasks', { title: 'second' })];
      for (const record of records)
        await read('update', { resource: 'tasks', id: record, values: { points: 1 } });
      const [newest = ''] = await callsIn({ key: id });
      const question = readable((await admin.get(`${path}/undo?id=${newest}`)).text);
      assert.match(question, /Undo the changes of this call\?/);
      assert.match(await messageAfter(await undo(newest)), /1 change<\/strong> undone\./);
      const tasks = await Promise.all(records.map((record) => api(`GET tasks/${record}`)));
      assert.deepEqual(
        tasks.map(({ json }) => json.points),
        [1, null],
      );
    });

    // The embedded database runs one transaction at a time.
    if (driver === 'postgresql')
      test('an undo ends when its administrator leaves the organization', async () => {
        const { run, use } = await agent();
        const records = Array.from({ length: 60 }, () => ({ title: 'before' }));
        const { results } = (await api('POST tasks/batch', { records })).json;
        const ids = (results as readonly { readonly id: number }[]).map((one) => one.id);
        for (let from = 0; from < ids.length; from += 10)
          await use('update', { resource: 'tasks', ids: ids.slice(from, from + 10), values: { points: 60 } });
        const person = await makePerson(instance(), [{ organization: acme }]);
        const leaving = await signIn(instance(), person);
        const [call = ''] = await callsIn({ run });
        const form = await leaving.token(`${path}/undo?id=${call}`);
        const answer = await connected(String(instance().config.environment.DATABASE_URL), async (client) => {
          await client.query(
            `begin; select from tasks where id = any('{${ids.slice(-10).join()}}') for update`,
          );
          const sent = leaving.post(`${path}/undo`, { _csrf: form, id: call });
          await untilWaiting(client, 'the undo of the first change');
          await tablesOf(instance().database)
            .deleteFrom('crm_memberships')
            .where('user_id', '=', person.id)
            .execute();
          await until(async () => (await leaving.get(path)).status === 403, 'the end of the membership');
          await client.query('commit');
          return sent;
        });
        assert.equal(answer.status, 403, answer.text);
        const { rows } = await sql<{ undone: number }>`select count(*)::int as undone from tasks
          where id = any(${ids.map(String)}::bigint[]) and points is null`.execute(
          tablesOf(instance().database),
        );
        assert.deepEqual(rows, [{ undone: 50 }]);
      });

    test('the question names 200 changes, and calls with too many or without changes are not undone', async () => {
      const { run, create } = await agent();
      await create('tasks', { title: 'of the agent' });
      const [call = ''] = await callsIn({ run });
      const tables = tablesOf(instance().database);
      /** Repeats the first change of the call. */
      const repeat = (count: number) =>
        sql`insert into crm_ledger (organization_id, actor_kind, action, object, object_id, version, request_id)
          select l.organization_id, l.actor_kind, l.action, l.object, l.object_id, l.version, l.request_id
          from (select l.* from crm_ledger l join crm_agent_calls c
            on c.organization_id = l.organization_id and c.request_id = l.request_id
            where c.id = ${call}::bigint order by l.id limit 1) l, generate_series(1, ${count}::int)`.execute(
          tables,
        );
      const question = async () => admin.get(`${path}/undo?id=${call}`);
      await repeat(201);
      const { text } = await question();
      const items = [...text.matchAll(/<li>(.*? created|… and .*?)<\/li>/g)].map(([, item]) => item);
      assert.deepEqual([items.length, items.at(-1)], [201, '… and 2 more']);
      assert.match(text, /<button class="danger">Undo 202 changes<\/button>/);
      await repeat(4799);
      assert.match(
        problemOf(await question()),
        /^These calls have made more than 5,000 changes\. Choose a later call\.$/,
      );
      await sql`delete from crm_ledger l using crm_agent_calls c where c.organization_id = l.organization_id
        and c.request_id = l.request_id and c.id = ${call}::bigint`.execute(tables);
      assert.match(problemOf(await question()), /^These calls have not changed any records/);
    });

    test('filters that are not valid are ignored', async () => {
      const { id } = await agent();
      for (const query of [`key=${id}&run=%00`, 'key=x', 'key=99999999999999999999'])
        assert.equal((await admin.get(`${path}?${query}`)).status, 200, query);
    });

    test('pages do not offer to undo a call that only proposed a write', async () => {
      const { id, key } = await acme.makeKey({ access: 'propose' });
      const task = await make('tasks', { title: 'proposed' });
      await useTool(instance(), key, 'update', { resource: 'tasks', id: task, values: { points: 1 } });
      const query = { key: id, show: 'writes' };
      assert.match((await admin.get(`${path}?${new URLSearchParams(query)}`)).text, />update</);
      assert.deepEqual(await callsIn(query), []);
    });

    test('only administrators of the organization see and undo calls', async () => {
      const { id: key, run, create } = await agent();
      const record = await create('tasks', { title: 'kept' });
      const [call = ''] = await callsIn({ run });
      const grants = [{ object: '*', actions: ['*'] }] as const;
      const member = await signIn(instance(), await makePerson(instance(), [{ organization: acme, grants }]));
      for (const visitor of [member, stranger]) {
        assert.equal((await visitor.get(`${path}?run=${run}`)).status, 403);
        const _csrf = await visitor.token('/setup/me');
        assert.equal((await visitor.post(`${path}/undo`, { _csrf, id: call })).status, 403);
      }
      const own = '/setup/o/other/agents';
      assert.match((await stranger.get(`${own}?run=${run}`)).text, /No calls match the filter/);
      const ofKey = await stranger.get(`${own}?key=${key}`);
      assert.match(ofKey.text, /aria-label="Remove the filter deleted key"/, 'the name of the key');
      const _csrf = await stranger.token('/setup/me');
      const answer = await stranger.post(`${own}/undo`, { _csrf, id: call });
      assert.match(problemOf(answer), /does not exist/);
      assert.equal((await api(`GET tasks/${record}`)).status, 200);
    });
  },
  { sources, modules: hookedModules([]), environment: configured('undo', 'mcp: true\n') },
);
