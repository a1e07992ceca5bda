// Actions of modules in the admin UI: links, forms and messages, without JavaScript.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { tablesOf } from '../../engine/tables/index.ts';
import { createProfile } from '../../plugins/access/profiles/profiles.ts';
import { administratorOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { hookedModules, hookedSources } from '../support/hooked.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedPerson } from '../support/limited.ts';
import { command } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

const tasks = '/setup/o/acme/data/tasks';

onBothDrivers(
  'actions in the admin UI',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
    });
    const create = async (body: object): Promise<number> =>
      Number((await instance().call('POST /api/v1/tasks', { key: acme.key, body })).json.id);
    const get = async (id: number) =>
      (await instance().call(`GET /api/v1/tasks/${id}`, { key: acme.key })).json;

    test('a record links to its actions, whose form has the inputs of the schema', async () => {
      const id = await create({ title: 'Paint', points: 2 });
      const record = await admin.get(`${tasks}/${id}`);
      assert.match(record.text, new RegExp(`href="${tasks}/${id}/actions/close">Close<`));
      const page = await admin.get(`${tasks}/${id}/actions/close`);
      assert.match(readable(page.text), /<h1>Close: Paint<\/h1>/);
      assert.match(page.text, /Closes a task\./);
      assert.match(page.text, /name="input\.hours"[^>]*required/);
      assert.match(page.text, /name="input\.note"/);
    });

    test('the form performs the action once, and says so on the record', async () => {
      const id = await create({ title: 'Paint', points: 2 });
      const path = `${tasks}/${id}/actions/close`;
      const page = await admin.get(path);
      const done = await admin.submit(path, path, { 'input.hours': '2.5' });
      assert.equal(done.status, 303, problemOf(done));
      assert.equal(done.headers.get('location'), `${tasks}/${id}?done=action-done`);
      assert.match(
        (await admin.get(`${tasks}/${id}?done=action-done`)).text,
        /<strong>Close<\/strong> completed\./,
      );
      const task = await get(id);
      assert.deepEqual([task.title, task.hours], ['closed', 2.5]);
      assert.match(page.text, /name="key" value="[\w-]{36}"/);
    });

    test('errors are shown at their inputs, and keep what was entered', async () => {
      const id = await create({ title: 'Paint' });
      const path = `${tasks}/${id}/actions/close`;
      const rejected = await admin.submit(path, path, { 'input.hours': 'many', 'input.note': 'by hand' });
      assert.equal(rejected.status, 400);
      assert.match(readable(rejected.text), /hours must be a number/);
      assert.match(rejected.text, /value="by hand"/);
      const stuck = await create({ title: 'open forever' });
      const stuckPath = `${tasks}/${stuck}/actions/close`;
      const refused = await admin.submit(stuckPath, stuckPath, { 'input.hours': '1' });
      assert.equal(refused.status, 400);
      assert.match(problemOf(refused), /Never close it/);
    });

    test('actions of the collection are linked from the list', async () => {
      const projects = '/setup/o/acme/data/projects';
      assert.match((await admin.get(projects)).text, new RegExp(`href="${projects}/actions/plan"`));
      const path = `${projects}/actions/plan`;
      const rejected = await admin.submit(path, path, {});
      assert.match(problemOf(rejected), /forbidden is not a title/);
    });

    test('a profile grants an action with a grant of its own, but not in a scope', async () => {
      const id = await createProfile(
        tablesOf(instance().database),
        command(instance()),
        acme.id,
        'Archivist',
        [{ object: 'tasks', actions: ['archive'] }],
      );
      const { text } = await admin.get(`/setup/o/acme/profiles/change?id=${id}`);
      assert.match(text, /value="tasks:archive"[^>]* checked/);
      assert.match(text, /value="tasks:archive"/);
      assert.match(text, /value="tasks:update:own"/);
      assert.doesNotMatch(text, /value="tasks:archive:own"|value="projects:archive"/);
    });

    test('members see only the actions for which they have the grant', async () => {
      const id = await create({ title: 'Paint' });
      const reader = await signIn(
        instance(),
        await limitedPerson(instance(), acme, ['tasks:list', 'tasks:read']),
      );
      const record = await reader.get(`${tasks}/${id}`);
      assert.doesNotMatch(record.text, /actions\/close/);
      assert.match(record.text, /actions\/count-margins/);
      assert.equal((await reader.get(`${tasks}/${id}/actions/close`)).status, 403);
      assert.equal((await admin.get(`${tasks}/${id}/actions/nothing`)).status, 404);
      assert.equal((await admin.get(`${tasks}/actions/close`)).status, 404);
    });
  },
  { sources: await sourcesWith(...hookedSources), modules: hookedModules([]) },
);
