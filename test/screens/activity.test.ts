// The activity page names the fields that a change affected, with their values before and after it.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { administratorOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';

const activity = '/setup/o/acme/activity?action=update&object=leads';

onBothDrivers('changes in the activity', (instance) => {
  let acme: Organization;
  let admin: Visitor;
  before(async () => {
    acme = await instance().organization('acme');
    admin = await signIn(instance(), administratorOf(acme));
  });
  const create = async (body: object): Promise<number> => {
    const made = await instance().call('POST /api/v1/leads', { key: acme.key, body });
    assert.equal(made.status, 201, made.text);
    return Number(made.json.id);
  };
  const change = async (id: number, body: object) => {
    const answer = await instance().call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body });
    assert.equal(answer.status, 200, answer.text);
  };
  /** Returns the changes of the newest entry about a lead: the label, the value before and the value after. */
  const newest = async (id: number): Promise<readonly (readonly string[])[]> => {
    const { status, text } = await admin.get(`${activity}&record=${id}`);
    assert.equal(status, 200);
    const [, row = ''] = /<tbody>\s*<tr[^>]*>(.*?)<\/tr>/s.exec(text) ?? [];
    const [, details = ''] = /<details class="diff">(.*?)<\/details>/s.exec(row) ?? [];
    return [...details.matchAll(/<li><strong>(.*?)<\/strong>(.*?)<\/li>/gs)].map(
      ([, label = '', values = '']) =>
        [label, /<del>(.*?)<\/del>/.exec(values)?.[1] ?? '', /<ins>(.*?)<\/ins>/.exec(values)?.[1] ?? ''].map(
          readable,
        ),
    );
  };

  test('values before and after each change', async () => {
    const id = await create({ last_name: 'Ames', company: 'Old', rating: 'Hot' });
    await change(id, { company: '<b>New</b>', rating: null });
    assert.deepEqual(await newest(id), [
      ['Company', 'Old', '<b>New</b>'],
      ['Rating', 'Hot', ''],
    ]);
    await change(id, { first_name: 'Ada' });
    assert.deepEqual(await newest(id), [['First name', '', 'Ada']]);
  });

  test('fields of the server are omitted, and long values are cut', async () => {
    const id = await create({ last_name: 'Long' });
    await change(id, { description: 'x'.repeat(10_000) });
    const [[label, , after = ''] = [], ...others] = await newest(id);
    assert.deepEqual([label, after.length, others], ['Description', 202, []]);
    await change(id, { description: 'y'.repeat(30_000) });
    assert.deepEqual(await newest(id), [], 'too long to be compared');
  });
});
