// The board of a resource: one column per listed value, with the number of records and their sum.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

const data = '/setup/o/acme/data';
const board = `${data}/opportunities/board`;

const orders = {
  file: 'orders.yaml',
  text: `common: all
fields:
  name: { type: string }
  state: { type: string, enum: [open, paid, sent], closed: true, default: open, transitions: { open: [paid], paid: [sent] } }
  size: { type: string, enum: [small, large] }
filters: [state, size]
`,
};

/** Returns a board's columns: value, totals and titles. */
const columnsOf = ({ text }: Answer): Record<string, string[]> =>
  Object.fromEntries(
    [
      ...text.matchAll(/<section aria-labelledby="column-\d+" data-value="([^"]*)">([\s\S]*?)<\/section>/g),
    ].map(([, value = '', html = '']) => [
      readable(value),
      [
        readable(/<span class="below">(.*?)<\/span><\/h2>/.exec(html)?.[1] ?? ''),
        ...[...html.matchAll(/<li[^>]*><a href="[^"]*">(.*?)<\/a>/g)].map(([, title = '']) =>
          readable(title),
        ),
      ],
    ]),
  );
/** Returns the facts on a card, each with its label. */
const factsOf = ({ text }: Answer, title: string): string[] => {
  const [, card = ''] =
    [...text.matchAll(/<li[^>]*><a href="[^"]*">(.*?)<\/a>([\s\S]*?)(?:<form|<\/li>)/g)]
      .map(([, name = '', facts = '']) => [readable(name), facts])
      .find(([name]) => name === title) ?? [];
  return [...card.matchAll(/<p title="([^"]*)">(.*?)<\/p>/g)].map(([, label, value = '']) =>
    readable(`${label}: ${value.replace(/<[^>]*>/g, '')}`),
  );
};
const chipsOf = ({ text }: Answer): (string | undefined)[] =>
  [...(/<ul class="chips"[\s\S]*?<\/ul>/.exec(text)?.[0] ?? '').matchAll(/<a [^>]*>/g)].map(([link]) =>
    readable(/\?by=([^"]*)"( aria-current)?/.exec(readable(link))?.slice(1).join('') ?? ''),
  );
const messageOf = ({ text }: Answer): string =>
  readable(/<p class="(?:problem|notice)"[^>]*>(.*?)<\/p>/.exec(text)?.[1] ?? '').replace(/<\/?strong>/g, '');

onBothDrivers(
  'boards',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    let relaunch = '';
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
      const records = Array.from({ length: 22 }, (_, index) => ({
        name: `Small ${index}`,
        amount: 0.1,
        stage: 'Qualification',
      }));
      await instance().call('POST /api/v1/opportunities/batch', { key: acme.key, body: { records } });
      relaunch = await make({ name: 'Relaunch <b>', amount: 1000.25 });
      await make({ name: 'Elsewhere', stage: 'Another' });
      const beta = await instance().organization('beta');
      await instance().call('POST /api/v1/opportunities', {
        key: beta.key,
        body: { name: 'Foreign', amount: 7 },
      });
    });
    const make = async (body: object): Promise<string> => {
      const made = await instance().call('POST /api/v1/opportunities', { key: acme.key, body });
      assert.equal(made.status, 201, made.text);
      return String(made.json.id);
    };
    const stageOf = async (id: string) =>
      (await instance().call(`GET /api/v1/opportunities/${id}`, { key: acme.key })).json.stage;
    const signInAs = async (grants: NonNullable<Parameters<typeof makePerson>[1][number]['grants']>) =>
      signIn(instance(), await makePerson(instance(), [{ organization: acme, grants }]));
    /** Submits the form of a card. */
    const move = async (id: string, to: string): Promise<Answer> => {
      const form = formsOf(await admin.get(board)).find(
        ({ action }) => action === `${data}/opportunities/${id}/board`,
      );
      return admin.post(form?.action ?? assert.fail('no form'), { ...form?.values, to });
    };

    test('columns show exact totals of all records, and the first cards', async () => {
      assert.match((await admin.get(`${data}/opportunities`)).text, new RegExp(`href="${board}"`));
      const page = await admin.get(board);
      const columns = columnsOf(page);
      assert.deepEqual(Object.keys(columns).slice(0, 3), ['Prospecting', 'Qualification', 'Needs Analysis']);
      assert.deepEqual(columns.Prospecting, ['1 · 1,000.25', 'Relaunch <b>']);
      assert.deepEqual(columns['Needs Analysis'], ['0']);
      assert.equal(columns.Qualification?.[0], '22 · 2.20', 'decimals are exact');
      assert.equal(columns.Qualification?.length, 21);
      assert.match(
        page.text,
        /href="[^"]*stage[^"]*Qualification" aria-label="Show all with Stage Qualification"/,
      );
      assert.equal(page.text.match(/aria-label="Show all with/g)?.length, 1, 'other columns are complete');
      assert.match(page.text, /1 record has no stage or another value\./);
      assert.deepEqual(factsOf(page, 'Relaunch <b>'), ['Amount: 1,000.25', 'Probability: 0']);
      const account = await instance().call('POST /api/v1/accounts', {
        key: acme.key,
        body: { name: 'Globex' },
      });
      await make({ name: 'Linked', stage: 'Closed Lost', account_id: Number(account.json.id) });
      assert.deepEqual(factsOf(await admin.get(board), 'Linked'), ['Amount: 0', 'Account: Globex']);
      assert.deepEqual(chipsOf(page), [], 'there is only one field');
      assert.equal((await admin.get(`${data}/opportunities/1/board`)).headers.get('location'), board);
      assert.equal((await admin.get(`${data}/contacts/board`)).status, 404, 'no listed values');
    });

    test('a card moves to another column, and back with one click', async () => {
      const moved = await move(relaunch, 'Negotiation');
      assert.equal(moved.headers.get('location'), `${board}?by=stage&done=record-saved`);
      const page = await admin.get(moved.headers.get('location') ?? '');
      assert.deepEqual(columnsOf(page).Negotiation, ['1 · 1,000.25', 'Relaunch <b>']);
      assert.match(page.text, /<li class="marked" draggable="true">/);
      const undo = formsOf(page).find(({ action }) => action.endsWith('/undo')) ?? assert.fail();
      const undone = await admin.post(undo.action, undo.values);
      assert.equal(undone.headers.get('location'), `${board}?by=stage&done=record-undone`);
      assert.equal(await stageOf(relaunch), 'Prospecting');
    });

    test('a move is rejected if someone else has moved the card, or if the value is invalid', async () => {
      const url = `${data}/opportunities/${relaunch}/board`;
      const form = formsOf(await admin.get(board)).find(({ action }) => action === url);
      const body = { stage: 'Closed Won' };
      await instance().call(`PATCH /api/v1/opportunities/${relaunch}`, { key: acme.key, body });
      const late = await admin.post(url, { ...form?.values, to: 'Negotiation' });
      assert.equal(late.status, 412);
      assert.equal(messageOf(late), 'Someone else has changed Relaunch <b>. Its stage is now Closed Won.');
      assert.equal(await stageOf(relaunch), 'Closed Won');
      const invalid = await move(relaunch, 'Negotation');
      assert.deepEqual([invalid.status, messageOf(invalid)], [400, 'Choose a stage from the list.']);
      assert.equal(await stageOf(relaunch), 'Closed Won');
      for (const by of ['name', 'nothing'])
        assert.equal((await admin.post(url, { ...form?.values, by, to: 'x' })).status, 404);
    });

    test('members see only what their profile allows', async () => {
      const reader = await signInAs([{ object: 'opportunities', actions: ['list', 'read'] }]);
      const page = await reader.get(board);
      assert.equal(page.status, 200);
      assert.doesNotMatch(page.text, /name="to"|draggable/);
      const _csrf = await reader.token(board);
      const fields = { _csrf, by: 'stage', before: 'Closed Won', to: 'Closed Lost' };
      assert.equal((await reader.post(`${data}/opportunities/${relaunch}/board`, fields)).status, 403);
      const lister = await signInAs([{ object: 'opportunities', actions: ['list'] }]);
      assert.equal((await lister.get(board)).status, 403);
      assert.doesNotMatch((await lister.get(`${data}/opportunities`)).text, /\/board"/);
      assert.equal(await stageOf(relaunch), 'Closed Won');
    });

    test('each field with known values divides the cards, and a move that its rules reject has no effect', async () => {
      const path = `${data}/orders`;
      const { json } = await instance().call('POST /api/v1/orders', {
        key: acme.key,
        body: { name: 'Desk', size: 'large' },
      });
      const bySize = await admin.get(`${path}/board?by=size`);
      assert.deepEqual(columnsOf(bySize), { small: ['0'], large: ['1', 'Desk'] });
      assert.deepEqual(chipsOf(bySize), ['state', 'size aria-current']);
      assert.deepEqual(factsOf(bySize, 'Desk'), ['State: open'], 'not the field of the columns');
      const page = await admin.get(`${path}/board`);
      assert.deepEqual(columnsOf(page), { open: ['1', 'Desk'], paid: ['0'], sent: ['0'] });
      const form = formsOf(page).find(({ action }) => action === `${path}/${json.id}/board`);
      const rejected = await admin.post(form?.action ?? '', { ...form?.values, to: 'sent' });
      assert.equal(rejected.status, 409);
      assert.match(messageOf(rejected), /^Desk was not moved: /);
      assert.deepEqual(columnsOf(rejected).open, ['1', 'Desk']);
      const moved = await admin.post(form?.action ?? '', { ...form?.values, to: 'paid' });
      assert.equal(moved.headers.get('location'), `${path}/board?by=state&done=record-saved`);
    });
  },
  { sources: await sourcesWith(orders) },
);
