// Saved views of lists: saved from the list's parameters, private or shared, and never wider than the member's list.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { administratorOf, formsOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';

const leads = '/setup/o/acme/data/leads';

/** A tab above a list. */
interface Tab {
  readonly name: string;
  readonly href: string;
  readonly isCurrent: boolean;
  readonly isShared: boolean;
}

/** Returns the tabs of a list. */
const tabsIn = ({ text }: Answer): Tab[] =>
  [
    ...(/<nav class="views"[\s\S]*?<\/nav>/.exec(text)?.[0] ?? '').matchAll(
      /<a href="([^"]*)"([^>]*)>(.*?)<\/a>/gs,
    ),
  ].map(([, href = '', attributes = '', content = '']) => ({
    name: readable(/class="ellipsis">([^<]*)</.exec(content)?.[1] ?? ''),
    href: readable(href),
    isCurrent: attributes.includes('aria-current'),
    isShared: content.includes('Shared view'),
  }));
const namesIn = (page: Answer): string[] => tabsIn(page).map(({ name }) => name);
const tabNamed = (page: Answer, name: string): Tab =>
  tabsIn(page).find((tab) => tab.name === name) ?? assert.fail(`no tab ${name}`);
/** Returns the ID of the view in the current tab. */
const idOf = (page: Answer): string => {
  const { href } = tabsIn(page).find(({ isCurrent }) => isCurrent) ?? assert.fail('no current tab');
  return new URL(href, 'http://x').searchParams.get('view') ?? assert.fail(href);
};
const chipsIn = ({ text }: Answer): string[] =>
  [...text.matchAll(/aria-label="Remove the filter ([^"]*)"/g)].map(([, label = '']) => readable(label));
const headersIn = ({ text }: Answer): string[] =>
  [...text.matchAll(/<th scope="col"[^>]*>(?:<a[^>]*>)?([^<]*)/g)].map(([, label = '']) => label.trim());
const linkIn = ({ text }: Answer, label: string): string =>
  readable(
    new RegExp(`<a class="button quiet" href="([^"]*)">(?:<svg.*?</svg>)?${label}</a>`).exec(text)?.[1] ?? '',
  );

onBothDrivers('saved views', (instance) => {
  let acme: Organization;
  let admin: Visitor;
  let grace: Visitor;
  before(async () => {
    acme = await instance().organization('acme');
    admin = await signIn(instance(), administratorOf(acme));
    grace = await visitorWith(['list', 'read']);
    for (const body of [
      { last_name: 'Hot', rating: 'Hot', status: 'Working - Contacted' },
      { last_name: 'Cold', rating: 'Cold' },
    ]) {
      const made = await instance().call('POST /api/v1/leads', { key: acme.key, body });
      assert.equal(made.status, 201, made.text);
    }
  });
  const visitorWith = async (actions: readonly ('list' | 'read' | 'create')[]): Promise<Visitor> => {
    const grants = [{ object: 'leads', actions }];
    return signIn(instance(), await makePerson(instance(), [{ organization: acme, grants }]));
  };
  const follow = async (visitor: Visitor, answer: Answer): Promise<Answer> => {
    assert.equal(answer.status, 303, problemOf(answer));
    return visitor.get(answer.headers.get('location') ?? '');
  };
  /** Saves a list as a view and returns the page that opens next. */
  const save = async (
    visitor: Visitor,
    query: string,
    fields: Readonly<Record<string, string>>,
  ): Promise<Answer> => {
    const page = await visitor.get(`${leads}/views/new?${query}`);
    assert.equal(page.status, 200, page.text);
    const form = formsOf(page).find(({ action }) => action === `${leads}/views`) ?? assert.fail(page.text);
    return follow(visitor, await visitor.post(form.action, { ...form.values, ...fields }));
  };
  /** Submits a form of the view in the current tab. */
  const submit = async (
    visitor: Visitor,
    list: Answer,
    action: 'edit' | 'delete' | 'query',
    fields: Readonly<Record<string, string>> = {},
  ): Promise<Answer> => {
    const tab = tabsIn(list).find(({ isCurrent }) => isCurrent) ?? assert.fail('no current tab');
    const url = `${leads}/views/${new URL(tab.href, 'http://x').searchParams.get('view')}/${action}`;
    const page = action === 'query' ? list : await visitor.get(url);
    const form =
      formsOf(page).find((each) => each.action === url) ?? assert.fail(`${action}: ${page.status}`);
    return visitor.post(url, { ...form.values, ...fields });
  };

  test('a view stores filters, search, order and columns', async () => {
    const query = 'rating=Hot&q=hot&sort=last_name&dir=desc&columns=company&columns=rating&cursor=x';
    const list = await admin.get(`${leads}?${query.replace('&cursor=x', '')}`);
    assert.deepEqual(namesIn(list), [], 'no tabs without views');
    assert.match(linkIn(list, 'Save view'), /\/views\/new\?rating=Hot&q=hot&sort=last_name/);
    const saved = await save(admin, query, { name: 'Hot <leads>' });
    assert.match(readable(saved.text), /View <strong>Hot <leads><\/strong> saved\./);
    assert.deepEqual(namesIn(saved), ['All leads', 'Hot <leads>']);
    const opened = await admin.get(tabNamed(await admin.get(leads), 'Hot <leads>').href);
    assert.deepEqual(chipsIn(opened), ['Rating is Hot']);
    assert.deepEqual(headersIn(opened).slice(0, 3), ['Lead', 'Company', 'Rating']);
    assert.match(tabNamed(opened, 'Hot <leads>').href, /&sort=last_name&dir=desc&/);
    assert.match(opened.text, /<input type="search" name="q" value="hot"/);
    assert.ok(tabNamed(opened, 'Hot <leads>').isCurrent);
    assert.equal(linkIn(opened, 'Save as new view'), '', 'nothing has changed');
    const { searchParams } = new URL(tabNamed(opened, 'Hot <leads>').href, 'http://x');
    const reversed = new URLSearchParams([...searchParams].toSorted(([a], [b]) => b.localeCompare(a)));
    assert.equal(searchParams.get('q'), 'hot');
    assert.equal(linkIn(await admin.get(`${leads}?${reversed}`), 'Save as new view'), '', 'in any order');
    // Another member does not see a private view.
    assert.deepEqual(namesIn(await grace.get(leads)), []);
    const { href } = tabNamed(opened, 'Hot <leads>');
    const id = new URL(href, 'http://x').searchParams.get('view');
    assert.equal((await grace.get(`${leads}/views/${id}/edit`)).status, 404);
  });

  test('views are sorted by name, and private ones are not logged', async () => {
    const visitor = await visitorWith(['list', 'read']);
    const logged = () =>
      tablesOf(instance().database)
        .selectFrom('crm_ledger')
        .select('id')
        .where('object', '=', 'saved view')
        .execute();
    const before = await logged();
    await save(visitor, 'rating=Hot', { name: 'Second' });
    await save(visitor, 'rating=Cold', { name: 'Third' });
    const saved = await save(visitor, 'rating=Warm', { name: 'Zeroth' });
    const renamed = await follow(visitor, await submit(visitor, saved, 'edit', { name: 'First' }));
    assert.deepEqual(
      namesIn(renamed).filter((name) => /^(First|Second|Third)$/.test(name)),
      ['First', 'Second', 'Third'],
    );
    await follow(visitor, await submit(visitor, renamed, 'delete'));
    assert.deepEqual(await logged(), before);
  });

  test('a changed list can be stored in the view or saved as a new one', async () => {
    const saved = await save(admin, 'rating=Cold', { name: 'Cold' });
    const changed = await admin.get(`${tabNamed(saved, 'Cold').href}&status=Working%20-%20Contacted`);
    assert.ok(tabNamed(changed, 'Cold').isCurrent);
    assert.match(linkIn(changed, 'Save as new view'), /rating=Cold&status=Working/);
    const stored = await follow(admin, await submit(admin, changed, 'query'));
    assert.deepEqual(chipsIn(stored), ['Rating is Cold', 'Status is Working - Contacted']);
    assert.deepEqual(chipsIn(await admin.get(tabNamed(await admin.get(leads), 'Cold').href)), [
      'Rating is Cold',
      'Status is Working - Contacted',
    ]);
  });

  test('views are renamed and deleted; a name is used once', async () => {
    const saved = await save(admin, 'rating=Warm', { name: 'Warm' });
    const renamed = await follow(admin, await submit(admin, saved, 'edit', { name: 'Lukewarm' }));
    assert.ok(namesIn(renamed).includes('Lukewarm') && !namesIn(renamed).includes('Warm'));
    assert.deepEqual(chipsIn(renamed), ['Rating is Warm']);
    const form = formsOf(await admin.get(`${leads}/views/new?rating=Hot`)).find(
      ({ action }) => action === `${leads}/views`,
    );
    const again = await admin.post(`${leads}/views`, { ...form?.values, name: 'Lukewarm' });
    assert.equal(again.status, 400);
    assert.equal(readable(problemOf(again)), 'A view named "Lukewarm" already exists');
    assert.match(again.text, /name="query" value="rating(=|&#x3D;)Hot"/);
    await save(admin, 'rating=Warm', { name: 'Other' });
    assert.equal((await submit(admin, renamed, 'edit', { name: 'Other' })).status, 400);
    // Other members and other lists have names of their own.
    await save(grace, 'rating=Hot', { name: 'Of grace' });
    const accounts = '/setup/o/acme/data/accounts';
    await admin.submit(`${accounts}/views/new`, `${accounts}/views`, { name: 'Of accounts', query: 'q=a' });
    for (const name of ['Of grace', 'Of accounts', 'Lukewarm', 'Lukewarm'])
      assert.ok(namesIn(await follow(admin, await submit(admin, renamed, 'edit', { name }))).includes(name));
    const deleted = await follow(admin, await submit(admin, renamed, 'delete'));
    assert.ok(!namesIn(deleted).includes('Lukewarm'));
    assert.match(readable(deleted.text), /View <strong>Lukewarm<\/strong> deleted\./);
  });

  test('a shared view appears for all members; its owner and administrators change it', async () => {
    const saved = await save(grace, 'rating=Hot', { name: 'Team', shared: 'true' });
    assert.ok(tabNamed(saved, 'Team').isShared);
    const other = await visitorWith(['list', 'read']);
    const list = await other.get(tabNamed(await other.get(leads), 'Team').href);
    assert.deepEqual(chipsIn(list), ['Rating is Hot']);
    const id = new URL(tabNamed(list, 'Team').href, 'http://x').searchParams.get('view');
    for (const action of ['delete', 'query'])
      assert.equal(
        (
          await other.post(`${leads}/views/${id}/${action}`, {
            _csrf: await other.token(leads),
            query: '',
          })
        ).status,
        403,
        action,
      );
    const form = await other.get(`${leads}/views/${id}/edit`);
    assert.match(form.text, /name="default"/);
    assert.doesNotMatch(form.text, /name="(?:name|shared)"/);
    // A member who cannot change the view can still open the list with it.
    await follow(other, await submit(other, list, 'edit', { name: 'Mine', shared: '', default: 'true' }));
    const opened = await follow(other, await other.get(leads));
    assert.ok(tabNamed(opened, 'Team').isCurrent);
    const all = await other.get(tabNamed(opened, 'All leads').href);
    assert.ok(tabNamed(all, 'All leads').isCurrent, 'a default view of another member can be left');
    assert.deepEqual(chipsIn(all), []);
    const adminList = await admin.get(tabNamed(await admin.get(leads), 'Team').href);
    await follow(admin, await submit(admin, adminList, 'edit', { name: 'Everyone', shared: 'true' }));
    assert.ok(namesIn(await grace.get(leads)).includes('Everyone'));
    const unchanged = await follow(other, await other.get(leads));
    assert.ok(tabNamed(unchanged, 'Everyone').isCurrent, 'it remains the default of the other member');
    const third = await visitorWith(['list', 'read']);
    const shown = await third.get(tabNamed(unchanged, 'Everyone').href);
    for (const value of ['true', ''])
      await follow(third, await submit(third, shown, 'edit', { default: value }));
    assert.equal((await third.get(leads)).status, 200);
    assert.equal((await other.get(leads)).status, 303, 'also if another member no longer uses it');
    const logged = async () => {
      const { rows } = await sql<{ action: string }>`select action from crm_ledger
        where organization_id = ${acme.id}::bigint and object = 'saved view' and object_id = ${id}::bigint
        order by transaction, id`.execute(tablesOf(instance().database));
      return rows.map(({ action }) => action);
    };
    assert.deepEqual(await logged(), ['create', 'update']);
    // When the view becomes private, it is no longer the default of others.
    await follow(
      grace,
      await submit(grace, await grace.get(tabNamed(await grace.get(leads), 'Everyone').href), 'edit', {
        name: 'Everyone',
      }),
    );
    assert.equal((await other.get(leads)).status, 200);
    assert.deepEqual(await logged(), ['create', 'update', 'update']);
  });

  test('the list opens with the default view, and the other lists stay reachable', async () => {
    const visitor = await visitorWith(['list', 'read', 'create']);
    await save(visitor, 'rating=Hot', { name: 'First', default: 'true' });
    await save(visitor, 'rating=Cold', { name: 'Second', default: 'true' });
    const opened = await follow(visitor, await visitor.get(leads));
    assert.ok(tabNamed(opened, 'Second').isCurrent);
    const withMessage = await visitor.get(`${leads}?done=view-deleted`);
    assert.match(withMessage.headers.get('location') ?? '', /\?view=\d+&.*&done=view-deleted$/);
    const all = await visitor.get(tabNamed(opened, 'All leads').href);
    assert.ok(tabNamed(all, 'All leads').isCurrent);
    assert.deepEqual(chipsIn(all), []);
    const hot = await visitor.get(`${leads}?rating=Hot`);
    const removal = readable(/<a href="([^"]*)" class="filter"/.exec(hot.text)?.[1] ?? '');
    assert.deepEqual(chipsIn(await visitor.get(removal)), [], 'removing the last filter shows all records');
    await follow(visitor, await submit(visitor, opened, 'edit', { name: 'Second', default: '' }));
    assert.equal((await visitor.get(leads)).status, 200);
  });

  test('the default view stays the default when other views are saved and changed', async () => {
    const visitor = await visitorWith(['list', 'read', 'create']);
    const defaultName = async () => {
      const opened = await follow(visitor, await visitor.get(leads));
      return tabsIn(opened).find(({ isCurrent }) => isCurrent)?.name;
    };
    await save(visitor, 'rating=Hot', { name: 'Default', default: 'true' });
    const other = await save(visitor, 'rating=Cold', { name: 'Other', default: '' });
    assert.equal(await defaultName(), 'Default');
    const renamed = await follow(
      visitor,
      await submit(visitor, other, 'edit', { name: 'Renamed', default: '' }),
    );
    assert.ok(tabNamed(renamed, 'Renamed').isCurrent);
    assert.equal(await defaultName(), 'Default');
    await follow(visitor, await submit(visitor, renamed, 'delete'));
    assert.equal(await defaultName(), 'Default');
  });

  test('fields that do not exist are ignored with a hint', async () => {
    const saved = await save(admin, 'rating=Hot', { name: 'Old' });
    await sql`update crm_saved_views set query = 'rating=Hot&budget[gt]=5&sort=budget&dir=asc&columns=budget&columns=company&stage=x'
      where name = 'Old'`.execute(tablesOf(instance().database));
    const { href } = tabNamed(await admin.get(leads), 'Old');
    assert.equal(href.replace(/view=\d+/, ''), `${leads}?&rating=Hot&columns=company`);
    const opened = await admin.get(href);
    assert.equal(opened.status, 200);
    assert.match(opened.text, /They are ignored: budget, stage\./);
    assert.doesNotMatch(saved.text, /They are ignored/);
  });

  test('several filters are selected together', async () => {
    const list = await admin.get(leads);
    assert.match(list.text, /aria-label="Quick filters"[\s\S]*name="status\[eq\]"[\s\S]*name="rating\[eq\]"/);
    const query = 'view=3&q=&status%5Beq%5D=&rating%5Beq%5D=Hot&owner_id%5Beq%5D=me&set=1';
    const chosen = await admin.get(`${leads}?${query}`);
    assert.equal(chosen.status, 303);
    assert.equal(
      decodeURIComponent(chosen.headers.get('location') ?? ''),
      `${leads}?view=3&rating[eq]=Hot&owner_id[eq]=me`,
    );
    const none = await admin.get(`${leads}?status%5Beq%5D=&rating%5Beq%5D=&set=1`);
    assert.equal(none.headers.get('location'), `${leads}?view=all`, 'not the default view');
    // A selected value replaces the filter, which can omit the operator.
    const one = /aria-label="Quick filters"[\s\S]*?<\/form>/.exec(
      (await admin.get(`${leads}?rating=Hot`)).text,
    )?.[0];
    assert.match(one ?? '', /<option value="Hot" selected>/);
    assert.doesNotMatch(one ?? '', /type="hidden" name="rating/);
    // A field with several values cannot be selected here, and its filters are kept.
    const several = await admin.get(`${leads}?rating=Hot&rating=Cold`);
    const form = /aria-label="Quick filters"[\s\S]*?<\/form>/.exec(several.text)?.[0] ?? '';
    assert.doesNotMatch(form, /select id="quick-rating/);
    assert.equal([...form.matchAll(/type="hidden" name="rating"/g)].length, 2);
  });

  test('saving requires the grant to list; an administrator who views records as a profile changes nothing', async () => {
    const reader = await visitorWith(['read']);
    assert.equal((await reader.get(`${leads}/views/new?rating=Hot`)).status, 403);
    const csrf = { _csrf: await reader.token('/setup/me'), name: 'x', query: '' };
    assert.equal((await reader.post(`${leads}/views`, csrf)).status, 403);
    const profile = await sql<{ id: string }>`select id::text as id from crm_profiles
      where organization_id = ${acme.id}::bigint and name = 'read-only'`.execute(
      tablesOf(instance().database),
    );
    const viewing = await signIn(instance(), administratorOf(acme));
    const base = '/setup/o/acme/profiles';
    await viewing.submit(base, `${base}/view-as`, { id: profile.rows[0]?.id ?? '' });
    const list = await viewing.get(`${leads}?rating=Hot`);
    assert.match(list.text, /You see the records as the profile/);
    assert.equal(linkIn(list, 'Save view'), '');
    assert.match((await admin.get(`${leads}?rating=Hot`)).text, /formaction="[^"]*\/views\/new"/);
    assert.doesNotMatch(list.text, /formaction="[^"]*\/views\/new"/);
    assert.equal((await viewing.get(`${leads}/views/new?rating=Hot`)).status, 403);
    const id = idOf(await save(admin, 'rating=Hot', { name: 'Unchanged' }));
    const views = async () => {
      const { rows } = await sql`select id, name, query from crm_saved_views order by id`.execute(
        tablesOf(instance().database),
      );
      return rows;
    };
    const before = await views();
    const fields = { _csrf: await viewing.token(leads), name: 'Changed', query: 'rating=Cold' };
    for (const path of ['', `/${id}/edit`, `/${id}/query`, `/${id}/delete`])
      assert.equal((await viewing.post(`${leads}/views${path}`, fields)).status, 403, path);
    assert.deepEqual(await views(), before);
  });

  test('a shared view belongs to the list of one organization', async () => {
    const beta = await instance().organization('beta');
    const neighbor = await signIn(instance(), administratorOf(beta));
    const saved = await save(admin, 'rating=Hot', { name: 'Of acme', shared: 'true' });
    const id = idOf(saved);
    for (const [visitor, list] of [
      [neighbor, '/setup/o/beta/data/leads'],
      [admin, '/setup/o/acme/data/accounts'],
    ] as const) {
      assert.ok(!namesIn(await visitor.get(list)).includes('Of acme'), list);
      const fields = { _csrf: await visitor.token(list), name: 'Taken over', query: '', shared: 'true' };
      for (const action of ['edit', 'query', 'delete']) {
        const path = `${list}/views/${id}/${action}`;
        assert.equal((await visitor.get(path)).status, 404, path);
        assert.equal((await visitor.post(path, fields)).status, 404, path);
      }
    }
    const opened = await admin.get(tabNamed(await admin.get(leads), 'Of acme').href);
    assert.deepEqual(chipsIn(opened), ['Rating is Hot']);
    await follow(admin, await submit(admin, opened, 'delete'));
    const { rows } = await sql<{ action: string }>`select action from crm_ledger
      where object = 'saved view' and object_id = ${id}::bigint order by id`.execute(
      tablesOf(instance().database),
    );
    assert.deepEqual(
      rows.map(({ action }) => action),
      ['create', 'delete'],
    );
  });

  test('a member saves up to 50 views of a list, each with up to 4,000 characters', async () => {
    const gamma = await instance().organization('gamma');
    const person = await makePerson(instance(), [{ organization: acme }, { organization: gamma }]);
    const visitor = await signIn(instance(), person);
    const store = async (list: string, name: string, query: string) => {
      const form = `${list}/views/new`;
      const answer = await visitor.submit(form, `${list}/views`, { name, query });
      return answer.status === 303 ? 'saved' : problemOf(answer);
    };
    const tooLong = 'This view has too many filters to be saved. Remove some of them.';
    assert.equal(await store(leads, 'Long', `q=${'x'.repeat(3999)}`), tooLong);
    assert.equal(await store(leads, 'Long', `q=${'x'.repeat(3998)}`), 'saved');
    await sql`insert into crm_saved_views (organization_id, user_id, resource, name, query, is_shared)
      select ${acme.id}::bigint, ${person.id}::bigint, 'leads', 'View ' || n, '', false from generate_series(1, 48) n`.execute(
      tablesOf(instance().database),
    );
    assert.equal(await store(leads, 'The last one', 'rating=Hot'), 'saved');
    const tooMany = 'You already have 50 views of this list. Delete a view first.';
    assert.equal(await store(leads, 'One more', 'rating=Hot'), tooMany);
    assert.equal(await store('/setup/o/acme/data/accounts', 'Of another list', 'q=a'), 'saved');
    assert.equal(await store('/setup/o/gamma/data/leads', 'Of another organization', 'q=a'), 'saved');
    const tooLongName = 'The name must have 1 to 100 characters';
    assert.equal(await store('/setup/o/gamma/data/leads', 'x'.repeat(101), 'q=a'), tooLongName);
    assert.equal(await store('/setup/o/gamma/data/leads', 'x'.repeat(100), 'q=a'), 'saved');
    await save(grace, 'rating=Hot', { name: 'Of another member' });
    // Names in other organizations are not taken.
    const { rows } = await sql<{ id: string }>`select id::text as id from crm_saved_views
      where user_id = ${person.id}::bigint and name = 'The last one'`.execute(tablesOf(instance().database));
    const edit = `${leads}/views/${rows[0]?.id}/edit`;
    assert.equal((await visitor.submit(edit, edit, { name: 'Of another organization' })).status, 303);
  });
});
