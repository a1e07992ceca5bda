// Writing a value to the selected records of a list, its undo, and the export of selected records, without JavaScript.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { administratorOf, formsOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

const chores = {
  file: 'chores.yaml',
  text: `
singular: chore
common: all
fields:
  name: { type: string }
  code: { type: string, unique: true, nullable: true }
  area: { type: string }
  score: { type: integer, nullable: true, max: 10 }
  due: { type: date, nullable: true }
  after_id: { type: reference, to: chores, nullable: true }
  done: { type: boolean }
  state:
    type: string
    enum: [open, doing, closed]
    closed: true
    default: open
    transitions: { open: [doing], doing: [closed] }
  helper_id: { type: user, nullable: true, description: A helper. }
filters: [area, { field: id, operators: [in] }]
locked: { when: done, message: Done chores cannot be changed. }
`,
};

const path = '/setup/o/acme/data/chores';
const messageOf = ({ text }: Answer): string =>
  readable(/<p class="notice"[^>]*>(.*?)<\/p>/.exec(text)?.[1] ?? '').replace(/<[^>]*>/g, '');
const optionsIn = ({ text }: Answer): string[] =>
  [...text.matchAll(/<option value="([^"]*)"/g)].map(([, value = '']) => value);

onBothDrivers(
  'selected records',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
    });
    const create = async (values: object): Promise<string> => {
      const made = await instance().call('POST /api/v1/chores', { key: acme.key, body: values });
      assert.equal(made.status, 201, made.text);
      return String(made.json.id);
    };
    const read = async (id: string) =>
      (await instance().call(`GET /api/v1/chores/${id}`, { key: acme.key })).json;
    const values = async (ids: readonly string[], name: string) =>
      Promise.all(ids.map(async (id) => (await read(id))[name]));
    const selection = (ids: readonly string[]) =>
      new URLSearchParams([
        ...ids.map((id): [string, string] => ['id', id]),
        ['at', 'area=home'],
        ['query', 'area=home'],
      ]);
    const formOn = (page: Answer) =>
      formsOf(page).find(({ action }) => action === `${path}/edit`) ?? assert.fail(page.text);
    /** Chooses a field, and returns the page with its input. */
    const choose = async (ids: readonly string[], name: string, browser = admin) => {
      const first = await browser.get(`${path}/edit?${selection(ids)}`);
      assert.equal(first.status, 200, first.text);
      return browser.post(`${path}/edit`, {
        ...formOn(first).values,
        id: [...ids],
        field: name,
        step: 'field',
      });
    };
    const save = async (ids: readonly string[], name: string, value: string, browser = admin) => {
      const page = await choose(ids, name, browser);
      return browser.post(`${path}/edit`, { ...formOn(page).values, id: [...ids], [name]: value });
    };
    const follow = async (answer: Answer) => {
      assert.equal(answer.status, 303, answer.text);
      return admin.get(answer.headers.get('location') ?? '');
    };
    const undo = async (page: Answer) => {
      const form = formsOf(page).find(({ action }) => action === `${path}/undo`) ?? assert.fail(page.text);
      return follow(await admin.post(form.action, form.values));
    };

    test('one value is written to all of them, and undone', async () => {
      const ids = [await create({ area: 'home', score: 1 }), await create({ area: 'home', score: 2 })];
      const list = await admin.get(`${path}?area=home`);
      assert.match(list.text, new RegExp(`formaction="${path}/edit">.*?Edit selected`));
      assert.match(list.text, new RegExp(`formaction="${path}/export">.*?Export selected`));
      const fields = optionsIn(await admin.get(`${path}/edit?${selection(ids)}`));
      assert.ok(fields.includes('score') && fields.includes('helper_id'));
      assert.ok(!fields.includes('code'), 'records cannot share a unique value');
      const saved = await follow(await save(ids, 'score', '7'));
      assert.equal(messageOf(saved), '2 chores updated.');
      assert.match(saved.text, /Remove the filter Area is home/, 'the user is where they were');
      assert.deepEqual(await values(ids, 'score'), [7, 7]);
      const undone = await undo(saved);
      assert.equal(messageOf(undone), 'Change to 2 chores undone.');
      assert.deepEqual(await values(ids, 'score'), [1, 2]);
    });

    test('undo keeps values that have been changed since', async () => {
      const ids = [await create({ area: 'a' }), await create({ area: 'a' })];
      const saved = await follow(await save(ids, 'area', 'b'));
      await instance().call(`PATCH /api/v1/chores/${ids[0]}`, { key: acme.key, body: { area: 'c' } });
      assert.equal(
        messageOf(await undo(saved)),
        'Change to 1 chore undone. The others have been changed since.',
      );
      assert.deepEqual(await values(ids, 'area'), ['c', 'a']);
    });

    test('undo leaves out records that have been deleted since', async () => {
      const ids = [await create({ area: 'a' }), await create({ area: 'a' })];
      const saved = await follow(await save(ids, 'area', 'b'));
      await instance().call(`DELETE /api/v1/chores/${ids[0]}`, { key: acme.key });
      assert.equal(
        messageOf(await undo(saved)),
        'Change to 1 chore undone. The others have been changed since.',
      );
      assert.equal((await read(ids[1] ?? '')).area, 'a');
    });

    test('members are assigned, and values are emptied', async () => {
      const ids = [await create({}), await create({})];
      await follow(await save(ids, 'helper_id', String(acme.user)));
      assert.deepEqual(await values(ids, 'helper_id'), [Number(acme.user), Number(acme.user)]);
      const other = Number(await create({}));
      for (const [name, value] of [
        ['score', 5],
        ['due', '2026-11-28'],
        ['after_id', other],
        ['area', 'garden'],
      ] as const) {
        await follow(await save(ids, name, String(value)));
        assert.deepEqual(await values(ids, name), [value, value]);
      }
      // A record is also entered as a name with its ID, although records of this list cannot be searched.
      const named = await create({ name: 'Named' });
      await follow(await save(ids, 'after_id', `Named (${named})`));
      assert.deepEqual(await values(ids, 'after_id'), [Number(named), Number(named)]);
      for (const name of ['helper_id', 'score', 'due', 'after_id', 'area']) {
        await follow(await save(ids, name, ''));
        const empty = name === 'area' ? '' : null;
        assert.deepEqual(await values(ids, name), [empty, empty], name);
      }
    });

    test('all states are offered, and records that cannot change to the state are left out', async () => {
      const open = await create({});
      const doing = await create({});
      await instance().call(`PATCH /api/v1/chores/${doing}`, { key: acme.key, body: { state: 'doing' } });
      const locked = await create({ done: true });
      assert.deepEqual(optionsIn(await choose([open, doing], 'state')), ['open', 'doing', 'closed']);
      const saved = await follow(await save([open, doing, locked, '999999'], 'state', 'closed'));
      assert.equal(messageOf(saved), '1 chore updated. The others do not exist or cannot be changed.');
      assert.deepEqual(await values([open, doing, locked], 'state'), ['open', 'closed', 'open']);
    });

    test('an invalid value is rejected next to its field, and nothing is written', async () => {
      const ids = [await create({ score: 1 }), await create({ score: 2 })];
      const rejected = await save(ids, 'score', '11');
      assert.equal(rejected.status, 400);
      assert.equal(problemOf(rejected), 'Some fields are invalid.');
      assert.match(rejected.text, /value="11"/);
      assert.deepEqual(await values(ids, 'score'), [1, 2]);
      const missing = await save(['999998', '999999'], 'score', '1');
      assert.equal(missing.status, 404);
      assert.equal(problemOf(missing), 'The records do not exist, or you cannot change them.');
    });

    test('without a selection or a field, nothing happens', async () => {
      assert.equal(
        (await admin.get(`${path}/edit?at=area%3Dhome`)).headers.get('location'),
        `${path}?area=home`,
      );
      const none = { _csrf: await admin.token(path), field: 'score', score: '3', at: 'area=home' };
      const unselected = await admin.post(`${path}/edit`, none);
      assert.equal(unselected.headers.get('location'), `${path}?area=home`);
      const ids = [await create({ score: 1 })];
      const page = await admin.get(`${path}/edit?${selection(ids)}`);
      const other = await admin.post(`${path}/edit`, { ...formOn(page).values, field: 'id', value: '3' });
      assert.equal(other.status, 200);
      assert.deepEqual(optionsIn(other), optionsIn(page));
      assert.deepEqual(await values(ids, 'score'), [1]);
    });

    test('members without the grant can neither open nor submit the form, but export', async () => {
      const person = await makePerson(instance(), [
        { organization: acme, grants: [{ object: 'chores', actions: ['list', 'read'] }] },
      ]);
      const reader = await signIn(instance(), person);
      const ids = [
        await create({ area: 'reader' }),
        await create({ area: 'reader' }),
        await create({ area: 'reader' }),
      ];
      assert.doesNotMatch((await reader.get(path)).text, /Edit selected/);
      assert.equal((await reader.get(`${path}/edit?${selection(ids)}`)).status, 403);
      const page = await choose(ids, 'area');
      const token = await reader.token(path);
      const sent = await reader.post(`${path}/edit`, {
        ...formOn(page).values,
        id: ids,
        area: 'x',
        _csrf: token,
      });
      assert.equal(sent.status, 403);
      assert.deepEqual(await values(ids, 'area'), ['reader', 'reader', 'reader']);
      const csv = await reader.get(
        `${path}/export?${new URLSearchParams([
          ['id', String(ids[2])],
          ['id', String(ids[1])],
          ['query', 'area=reader&sort=id&cursor=x&page=2'],
        ])}`,
      );
      assert.equal(csv.status, 200, csv.text);
      assert.deepEqual(
        csv.text
          .trim()
          .split('\n')
          .slice(1)
          .map((line) => line.split(',')[0]),
        [ids[1], ids[2]],
      );
    });
  },
  { sources: await sourcesWith(chores) },
);
