// Actions of modules in the admin UI: links, forms and messages, without JavaScript.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { ModuleCode } from '../../engine/records/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { createProfile } from '../../plugins/access/profiles/profiles.ts';
import { administratorOf, formsOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { hookedModules, hookedSources } from '../support/hooked.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedPerson } from '../support/limited.ts';
import { command } from '../support/people.ts';
import { patientSignals } from '../support/promised.ts';
import { sourcesWith } from '../support/sources.ts';

const tasks = '/setup/o/acme/data/tasks';
/** Inputs that the action `plan-visit` received. */
const received: unknown[] = [];
const visits: ModuleCode = {
  name: 'visits',
  actions: {
    tasks: {
      'plan-visit': {
        description: 'Plans a visit.',
        input: {
          type: 'object',
          properties: {
            urgent: { type: 'boolean' },
            paid: { type: 'boolean' },
            kind: { type: 'string', enum: ['call', 'visit'] },
            people: { type: 'integer' },
            day: { type: 'string', format: 'date' },
            note: { type: 'string' },
            places: { type: 'array', items: { type: 'string' } },
            size: { enum: ['2', '10'], title: 'How large', description: 'The size of the room.' },
          },
          required: ['kind', 'urgent'],
          additionalProperties: false,
        },
        run: ({ input }) => {
          received.push(input);
          return {};
        },
      },
    },
  },
};

onBothDrivers(
  'actions in the admin UI',
  (instance) => {
    patientSignals();
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

    test('a record has no actions of the collection, and a list no actions of a record', async () => {
      const { json } = await instance().call('POST /api/v1/projects', {
        key: acme.key,
        body: { name: 'Roof' },
      });
      const project = `/setup/o/acme/data/projects/${json.id}`;
      assert.doesNotMatch((await admin.get(project)).text, /\/actions\//);
      assert.equal((await admin.get(`${project}/actions/plan`)).status, 404);
      assert.doesNotMatch((await admin.get(tasks)).text, /\/actions\//);
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

    test('a form that is submitted twice performs the action once', async () => {
      const id = await create({ title: 'Twice', points: 2 });
      const path = `${tasks}/${id}/actions/close`;
      const form = formsOf(await admin.get(path)).find(({ action }) => action === path);
      const values = { ...form?.values, 'input.hours': '1' };
      for (const answer of await Promise.all([admin.post(path, values), admin.post(path, values)]))
        assert.equal(answer.status, 303, problemOf(answer));
      assert.equal((await admin.post(path, values)).status, 303);
      const made = await instance().call(`GET /api/v1/projects?name=after+${id}`, { key: acme.key });
      assert.equal((made.json.data as readonly unknown[]).length, 1);
      const changed = await admin.post(path, { ...values, 'input.hours': '2' });
      assert.equal(changed.status, 422);
      const again = formsOf(changed).find(({ action }) => action === path);
      assert.equal((await admin.post(path, again?.values ?? {})).status, 303, 'with a key of its own');
      assert.equal((await get(id)).hours, 2);
    });

    test('each input has the type of its schema, and blank ones are left out', async () => {
      const id = await create({ title: 'Visit' });
      const path = `${tasks}/${id}/actions/plan-visit`;
      const page = await admin.get(path);
      assert.match(page.text, /<input type="date" id="in-input\.day"/);
      assert.match(page.text, /<select id="in-input\.kind"[^>]* required[^>]*><option value="call">/);
      const fields = {
        'input.urgent': 'on',
        'input.kind': 'visit',
        'input.people': '3',
        'input.day': '2026-03-01',
        'input.note': ' ',
        'input.places': '["a", "b"]',
        'input.size': '10',
      };
      const done = await admin.submit(path, path, fields);
      assert.equal(done.status, 303, problemOf(done));
      const expected = {
        urgent: true,
        paid: false,
        kind: 'visit',
        people: 3,
        day: '2026-03-01',
        places: ['a', 'b'],
        size: '10',
      };
      assert.deepEqual(received.splice(0), [expected]);
      const invalid = await admin.submit(path, path, { ...fields, 'input.places': 'a, b' });
      assert.equal(invalid.status, 400);
      assert.match(invalid.text, /id="notes-input\.places"><p class="error">/);
      assert.equal(problemOf(invalid), '', 'the error is next to its input');
      assert.deepEqual(received, []);
      assert.match(invalid.text, /name="input\.urgent"[^>]* checked/);
      assert.doesNotMatch(
        invalid.text,
        /name="input\.(?:urgent|paid)"[^>]* required|name="input\.paid"[^>]* checked/,
      );
      assert.match(
        invalid.text,
        /<label for="in-input\.size">How large<[^>]*><select id="in-input\.size"(?![^>]* required)[^>]*><option value="">–<\/option><option value="2">2<\/option><option value="10" selected>/,
      );
      assert.match(invalid.text, /id="notes-input\.size"><p>The size of the room\.</);
      assert.match(invalid.text, /<option value="visit" selected>/);
      assert.match(invalid.text, /name="input\.day"[^>]* value="2026-03-01"/);
      assert.match(readable(invalid.text), /<textarea[^>]* name="input\.places"[^>]*>\na, b</);
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
      // Without the grant to read, the form does not name the record, and leads back to the list.
      const writer = await signIn(
        instance(),
        await limitedPerson(instance(), acme, ['tasks:list', 'tasks:update']),
      );
      const plan = `${tasks}/${id}/actions/plan-visit`;
      const form = await writer.get(plan);
      assert.equal(form.status, 200, form.text);
      assert.match(form.text, /<h1>Plan visit<\/h1>/);
      const planned = await writer.submit(plan, plan, { 'input.kind': 'call' });
      assert.equal(planned.headers.get('location'), `${tasks}?done=action-done`, problemOf(planned));
      assert.deepEqual(received.splice(0), [{ kind: 'call', urgent: false, paid: false }]);
      assert.equal((await admin.get(`${tasks}/${id}/actions/nothing`)).status, 404);
      assert.equal((await admin.get(`${tasks}/actions/close`)).status, 404);
    });
  },
  { sources: await sourcesWith(...hookedSources), modules: [...hookedModules([]), visits] },
);
