// The activity page names the fields that a change affected, with their values before and after it.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { administratorOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';

const linkIn = ({ text }: Answer, label: string): string =>
  readable(new RegExp(`<a[^>]*href="([^"]*)"[^>]*>${label}<`).exec(text)?.[1] ?? '');
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
    await change(id, { description: 'z' });
    assert.deepEqual(await newest(id), [], 'the previous value was too long');
  });

  test('values and names are not those of other records with the same ID', async () => {
    const id = await create({ last_name: 'Ames', company: 'Old' });
    const made = async () =>
      Number(
        (await instance().call('POST /api/v1/accounts', { key: acme.key, body: { name: 'Same ID' } })).json
          .id,
      );
    let account = await made();
    while (account < id) account = await made();
    assert.equal(account, id, 'records of two resources have the same ID');
    for (const city of ['Bonn', 'Berlin', 'Ulm'])
      await instance().call(`PATCH /api/v1/accounts/${id}`, { key: acme.key, body: { city } });
    await change(id, { company: 'New' });
    assert.deepEqual(await newest(id), [['Company', 'Old', 'New']]);
    // An organization that was moved from another instance can have a record with the same ID, too.
    const other = await instance().organization('other');
    const tables = tablesOf(instance().database);
    await sql`insert into crm_ledger (organization_id, actor_kind, action, object, object_id, version, record)
      select ${other.id}::bigint, 'command', 'update', 'leads', ${id}::bigint, v, '{"last_name":"Secret","company":"Secret"}'
      from unnest(array[1, 9]) v`.execute(tables);
    const { text } = await admin.get(`/setup/o/acme/activity?record=${id}`);
    assert.match(text, />Lead “Ames” updated</);
    assert.match(text, />Account “Same ID” updated</);
    assert.doesNotMatch(text, /Secret/);
    // Without its previous version, the values before a change are unknown.
    await sql`delete from crm_ledger where organization_id = ${acme.id}::bigint and object = 'leads'
      and object_id = ${id}::bigint and version = 1`.execute(tables);
    assert.deepEqual(await newest(id), []);
  });

  test('keys, apps and members are named, former members and records without a name are not', async () => {
    const other = await instance().organization('elsewhere');
    const person = await makePerson(instance(), [{ organization: acme }, { organization: other }]);
    const { id: key } = await acme.makeKey();
    const tables = tablesOf(instance().database);
    await tables
      .updateTable('crm_api_keys')
      .set({ name: 'Calendar', client_id: 'client' })
      .where('id', '=', key)
      .execute();
    await sql`insert into crm_ledger (organization_id, actor_kind, action, object, object_id)
      select ${acme.id}::bigint, 'command', 'create', object, id::bigint
      from (values ('app', ${key}::text), ('member', ${person.id}::text)) _e(object, id)`.execute(tables);
    const blank = await create({ last_name: '  ' });
    const page = async () => (await admin.get('/setup/o/acme/activity')).text;
    const before = await page();
    assert.match(before, />App “Calendar” connected</);
    assert.ok(before.includes(`>Member “${person.email}” added<`));
    assert.ok(before.includes(`>Lead ${blank} created<`));
    await tables
      .deleteFrom('crm_memberships')
      .where('organization_id', '=', acme.id)
      .where('user_id', '=', person.id)
      .execute();
    const after = await page();
    assert.ok(after.includes(`>Member ${person.id} added<`) && !after.includes(person.email));
  });

  test('activity pages and their CSV file contain every line once', async () => {
    const lines = await instance().organization('lines');
    const browser = await signIn(instance(), administratorOf(lines));
    const all = '/setup/o/lines/activity';
    const created = [];
    for (const count of [500, 500, 37]) {
      const records = Array.from({ length: count }, () => ({ last_name: 'Line' }));
      const { json } = await instance().call('POST /api/v1/leads/batch', {
        key: lines.key,
        body: { records },
      });
      created.push(...(json.results as { id: number }[]).map(({ id }) => String(id)));
    }
    assert.equal(created.length, 1037);
    created.reverse();
    // Within a transaction, activity lines are in the order of the rows.
    const shown: string[] = [];
    for (let path = `${all}?action=create&object=leads`; shown.length < 170; ) {
      const page = await browser.get(path);
      const rows = [
        ...page.text.matchAll(/<th scope="row"[^>]*><a href="[^"]*\/(\d+)">Lead “Line” created</g),
      ].map(([, id = '']) => id);
      assert.equal(rows.length, 50);
      shown.push(...rows);
      path = linkIn(page, 'Next page');
    }
    assert.deepEqual(shown, created.slice(0, shown.length));
    // A filter that is added or removed on a later page applies from the newest entry.
    const [newest = ''] = shown;
    const second = linkIn(await browser.get(`${all}?action=create&object=leads`), 'Next page');
    assert.match(second, /before=/);
    const later = await browser.get(`${second}&by=record`);
    const [form = ''] = /<form role="search" aria-label="Filter"[\s\S]*?<\/form>/.exec(later.text) ?? [];
    assert.doesNotMatch(form, /name="before"/);
    const [, removal = ''] =
      /href="([^"]*)"[^>]* aria-label="Remove the filter Action/.exec(later.text) ?? [];
    assert.ok((await browser.get(readable(removal))).text.includes(`/leads/${newest}"`), removal);
    const csv = await browser.get(`${all}/export?action=create&object=leads`);
    const ids = csv.text
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((line) => line.split(',').at(-1));
    assert.deepEqual(ids, created);
  });
});
