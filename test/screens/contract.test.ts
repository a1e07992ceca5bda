// What every administrative object guarantees. New objects are covered automatically.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import { rowsStatement } from '../../engine/tables/rows.ts';
import { rowsPerPage } from '../../plugins/admin-ui/shell/listing.ts';
import { administratorOf, optionOf, signIn, type Visitor } from '../support/forms.ts';
import { onBothDrivers } from '../support/instance.ts';
import { fresh, makePerson } from '../support/people.ts';

const pathOf = (url: string, query: Readonly<Record<string, string>>): string =>
  `${url.replace(':org', 'acme')}?${new URLSearchParams(query)}`;

onBothDrivers('administrative objects', (instance) => {
  let admin: Visitor;
  /** A member without the administrator profile, and an administrator of another organization. */
  let strangers: readonly Visitor[];
  before(async () => {
    const acme = await instance().organization('acme');
    admin = await signIn(instance(), administratorOf(acme));
    const grants = [{ object: '*', actions: ['*'] }] as const;
    const member = await makePerson(instance(), [{ organization: acme, grants }]);
    const other = await instance().organization('beta');
    strangers = [await signIn(instance(), member), await signIn(instance(), administratorOf(other))];
  });

  test('objects have unique lists', () => {
    const lists = instance().app.adminObjects.map(({ url, query }) => pathOf(url, query));
    assert.deepEqual([...new Set(lists)], lists);
    assert.ok(lists.length >= 12, String(lists));
  });

  test("a list's statement is limited to its owner and to a page, and searches and sorts", () => {
    const tables = tablesOf(instance().database);
    for (const { url, list } of instance().app.adminObjects) {
      const { source, sorts } = list;
      for (const by of Object.values(sorts)) {
        const page = { words: ['a%', 'b'], sort: { by, isDescending: true }, limit: rowsPerPage, offset: 50 };
        const { sql, parameters } = rowsStatement(source, '42', page).compile(tables);
        assert.ok(sql.includes(` where ${source.owner} = $1::bigint and `), `${url}: ${sql}`);
        assert.match(source.owner, /^\w+\.(?:organization_id|user_id)$/);
        assert.equal(source.owner.endsWith('user_id'), !url.includes(':org'), url);
        assert.match(sql, /strpos\(.*\$2.*strpos\(.*\$3/s);
        assert.ok(sql.includes(`order by ${by} desc, ${source.order}`), sql);
        assert.match(sql, /limit \$4::int offset \$5::bigint$/);
        assert.deepEqual(parameters, ['42', 'a%', 'b', rowsPerPage, 50]);
      }
    }
  });

  test('every view, order, search and page of a list is displayed', async () => {
    for (const { url, query, list } of instance().app.adminObjects) {
      const { views, viewParameter, sorts } = list;
      const orders = Object.keys(sorts).flatMap((sort) => [{ sort }, { sort, dir: 'desc' }]);
      const selections: Readonly<Record<string, string>>[] = [
        ...Object.keys(views).map((view) => ({ [viewParameter]: view })),
        ...orders,
        ...['a', "%_'\\", 'É\0'].map((q) => ({ q })),
        { page: '2' },
        { before: '5' },
      ];
      for (const selection of selections) {
        const path = pathOf(url, { ...query, ...selection });
        const { status, text } = await admin.get(path);
        assert.equal(status, 200, path);
        if (selection.q === 'É\0' && list.source.search !== undefined)
          assert.ok(!text.includes('<th scope="row"'), `${path} finds no row`);
      }
    }
  });

  test('the pages and actions of organizations require the administrator profile and a form token', async () => {
    for (const { url, query, actionPages } of instance().app.adminObjects) {
      if (!url.includes(':org')) continue;
      const path = pathOf(url, query);
      for (const stranger of strangers) assert.equal((await stranger.get(path)).status, 403, path);
      for (const [action, hasPage] of Object.entries(actionPages)) {
        const form = `${url.replace(':org', 'acme')}/${action}`;
        assert.equal((await admin.post(form, { id: '1' })).status, 403, `${form} without a token`);
        for (const stranger of strangers) {
          const _csrf = await stranger.token('/setup/me');
          assert.equal((await stranger.post(form, { _csrf, id: '1' })).status, 403, form);
          if (hasPage) assert.equal((await stranger.get(`${form}?id=1`)).status, 403, form);
        }
      }
    }
  });

  test('a submitted form is remembered for two days', async () => {
    const page = '/setup/o/acme/keys';
    const form = `${page}/create`;
    const profile = await optionOf(admin, form, 'read-only');
    const fields = { name: fresh('key'), profile, expires: 'never' };
    const _csrf = await admin.token(page);
    assert.equal((await admin.post(form, { ...fields, _csrf })).status, 200);
    const tables = tablesOf(instance().database);
    const hour = 3_600_000;
    const count = async () => (await tables.selectFrom('crm_sent_forms').select('form').execute()).length;
    const age = (hours: number) =>
      tables
        .updateTable('crm_sent_forms')
        .set({ sent_at: new Date(Date.now() - hours * hour) })
        .execute();
    await age(47);
    const previous = await count();
    assert.equal((await admin.post(form, { ...fields, _csrf })).status, 400);
    // Submitting another form deletes old entries.
    const sendOther = () => admin.submit(page, form, { ...fields, name: fresh('key') });
    assert.equal((await sendOther()).status, 200);
    assert.equal(await count(), previous + 1);
    await age(49);
    assert.equal((await sendOther()).status, 200);
    assert.equal(await count(), 1);
  });
});
