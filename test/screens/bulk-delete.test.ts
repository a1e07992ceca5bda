// Deleting all records that match the filters of a list, without JavaScript.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedPerson } from '../support/limited.ts';
import { sourcesWith } from '../support/sources.ts';

const chores = {
  file: 'chores.yaml',
  text: `
singular: chore
common: all
trash: 30 days
fields:
  name: { type: string }
  area: { type: string }
  score: { type: integer, nullable: true }
  done: { type: boolean }
filters: [area]
search: [name]
scopes: { small: score < 10 }
locked: { when: done, message: Done chores cannot be changed. }
`,
};

const path = '/setup/o/acme/data/chores';
const titleOf = ({ text }: Answer): string => readable(/<h1>(.*?)<\/h1>/.exec(text)?.[1] ?? '');
const messageOf = ({ text }: Answer): string =>
  readable(/<p class="(?:problem|notice)"[^>]*>(.*?)<\/p>/.exec(text)?.[1] ?? '').replace(/<[^>]*>/g, '');

onBothDrivers(
  'deleting all records that match',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
    });
    const create = async (area: string, count: number, values: object = {}) => {
      const records = Array.from({ length: count }, (_, index) => ({
        area,
        name: `${area} ${index}`,
        ...values,
      }));
      for (let start = 0; start < count; start += 1000) {
        const body = { records: records.slice(start, start + 1000) };
        const answer = await instance().call('POST /api/v1/chores/batch', { key: acme.key, body });
        assert.equal(answer.status, 200, answer.text);
      }
    };
    const countOf = async (area: string) => {
      const { headers } = await instance().call(`GET /api/v1/chores?area=${area}`, {
        key: acme.key,
        headers: { prefer: 'count=exact' },
      });
      return Number(headers.get('x-total-count'));
    };
    const question = (area: string, browser = admin) =>
      browser.get(
        `${path}/delete?${new URLSearchParams({ at: `area=${area}`, query: `area=${area}`, step: 'all' })}`,
      );
    const confirm = (page: Answer, browser = admin) => {
      const form = formsOf(page).find(({ action }) => action === `${path}/delete`) ?? assert.fail(page.text);
      return browser.post(form.action, form.values);
    };
    const follow = async (answer: Answer, browser = admin) => {
      assert.equal(answer.status, 303, answer.text);
      return browser.get(answer.headers.get('location') ?? '');
    };

    test('a filtered list with more records than a page offers to delete all of them', async () => {
      await create('home', 1200);
      await create('other', 3);
      const list = await admin.get(`${path}?area=home`);
      assert.match(list.text, /name="step" value="all">.*?Delete all that match</);
      for (const query of ['', '?area=', '?area=other', '?sort=id'])
        assert.doesNotMatch((await admin.get(`${path}${query}`)).text, /that match</, query);
      const page = await question('home');
      assert.equal(titleOf(page), 'Delete 1,200 chores?');
      assert.match(page.text, /and 1,180 more/);
      assert.match(
        readable(page.text),
        />Moves these records to the trash\. They can be restored for 30 days\. If one of them cannot be deleted, none of them is deleted\.</,
      );
      assert.equal(await countOf('home'), 1200);
      const after = await follow(await confirm(page));
      assert.equal(messageOf(after), '1,200 chores deleted.');
      assert.doesNotMatch(after.text, /\/undo"/, 'more records than a request restores');
      assert.deepEqual([await countOf('home'), await countOf('other')], [0, 3]);
    });

    test('an unfiltered list has the same confirmation, which counts the records that the member can delete', async () => {
      await create('whole', 25, { score: 1 });
      await create('whole', 5, { score: 50 });
      const person = await limitedPerson(instance(), acme, [
        'chores:list',
        'chores:read',
        'chores:delete:small',
      ]);
      const browser = await signIn(instance(), person);
      const { text } = await browser.get(`${path}?area=whole`);
      const selection = new URLSearchParams({ at: '', query: 'area=whole' });
      for (const [, id = ''] of text.matchAll(/name="id" value="(\d+)"/g)) selection.append('id', id);
      const selected = await browser.get(`${path}/delete?${selection}`);
      assert.match(selected.text, /value="all">Delete all 25 chores in the list</);
      const page = await browser.get(`${path}/delete?${new URLSearchParams({ query: '', step: 'all' })}`);
      const all = Number(/^Delete (\d+) chores\?$/.exec(titleOf(page))?.[1] ?? assert.fail(titleOf(page)));
      assert.match(page.text, /If one of them cannot be deleted, none of them is deleted/);
      const after = await follow(await confirm(page, browser), browser);
      assert.equal(messageOf(after).trim(), `${all} chores deleted.`);
      assert.equal(await countOf('whole'), 5);
    });

    test('the records can be restored', async () => {
      await create('undone', 30);
      const after = await follow(await confirm(await question('undone')));
      assert.equal(messageOf(after), '30 chores deleted.');
      const undo = formsOf(after).find(({ action }) => action.endsWith('/undo')) ?? assert.fail(after.text);
      assert.equal(
        messageOf(await follow(await admin.post(undo.action, undo.values))),
        '30 chores restored.',
      );
      assert.equal(await countOf('undone'), 30);
    });

    test('nothing is deleted if the number has changed or a record is locked', async () => {
      await create('changed', 25);
      const page = await question('changed');
      await create('changed', 1);
      const rejected = await confirm(page);
      assert.equal(rejected.status, 409);
      assert.match(messageOf(rejected), /^The number of records that match has changed/);
      assert.equal(titleOf(rejected), 'Delete 26 chores?');
      assert.equal(await countOf('changed'), 26);
      // The records of the first page are named, regardless of the page of the list that the member was on.
      const second = new URLSearchParams({ query: 'area=changed&page=2', step: 'all' });
      assert.match((await admin.get(`${path}/delete?${second}`)).text, /and 6 more/);
      await create('changed', 1, { done: true });
      const locked = await confirm(await question('changed'));
      assert.equal(locked.status, 400);
      assert.match(messageOf(locked), /Done chores cannot be changed/);
      assert.equal(await countOf('changed'), 27);
      const forged = formsOf(locked).find(({ action }) => action === `${path}/delete`) ?? assert.fail();
      const german = await admin.post(forged.action, forged.values, { 'accept-language': 'de' });
      assert.equal(messageOf(german), '1 Datensatz wurde abgelehnt: Done chores cannot be changed.');
      for (const more of [{ confirm: 'x' }, { confirm: '' }, { query: 'area=other' }]) {
        const answer = await admin.post(forged.action, { ...forged.values, ...more });
        assert.equal(answer.status, 400);
        assert.match(messageOf(answer), /has expired/);
      }
      assert.equal(await countOf('changed'), 27);
    });

    test('a member deletes only records within the scopes of the grants', async () => {
      // In any order, the first records of the list are not among them.
      await create('scoped', 3, { score: 50 });
      await create('scoped', 25, { score: 1 });
      await create('scoped', 2, { score: 50 });
      const person = await limitedPerson(instance(), acme, [
        'chores:list',
        'chores:read',
        'chores:delete:small',
        'chores:restore',
      ]);
      const browser = await signIn(instance(), person);
      const page = await question('scoped', browser);
      assert.equal(titleOf(page), 'Delete 25 chores?');
      assert.doesNotMatch(page.text, /<li>scoped/, 'records that stay are not named');
      const after = await follow(await confirm(page, browser), browser);
      assert.equal(messageOf(after).trim(), '25 chores deleted.');
      assert.ok(formsOf(after).some(({ action }) => action === `${path}/undo`));
      assert.equal(await countOf('scoped'), 5);
      const none = await follow(await question('scoped', browser), browser);
      assert.match(messageOf(none), /^Nothing was deleted, because you cannot delete any of the records/);
      const blank = new URLSearchParams({ query: 'area=scoped&area= ', step: 'all' });
      assert.equal((await admin.get(`${path}/delete?${blank}`)).status, 400);
      const reader = await signIn(
        instance(),
        await limitedPerson(instance(), acme, ['chores:list', 'chores:read']),
      );
      assert.equal((await question('scoped', reader)).status, 403);
      assert.doesNotMatch((await reader.get(`${path}?area=changed`)).text, /that match</);
      const _csrf = await reader.token(path).catch(() => '');
      const query = 'area=scoped';
      assert.equal(
        (await reader.post(`${path}/delete`, { _csrf, query, step: 'all', confirm: 'x' })).status,
        403,
      );
    });
  },
  { sources: await sourcesWith(chores) },
);
