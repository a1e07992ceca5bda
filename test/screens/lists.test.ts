// Lists in the admin UI: their URL contains the search, order and page, and actions return to this URL.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { changeName } from '../../plugins/access/identity/users.ts';
import { invite } from '../../plugins/access/members/invites.ts';
import { addTeamMember, createTeam } from '../../plugins/access/teams/teams.ts';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { command, makePerson } from '../support/people.ts';

let instance: Instance;
let acme: Organization;
let admin: Visitor;
before(async () => {
  instance = await startInstance('postgresql');
  acme = await instance.organization('acme');
  admin = await signIn(instance, administratorOf(acme));
  const { id } = await acme.makeKey();
  const tables = tablesOf(instance.database);
  const { id: _id, ...key } = await tables
    .selectFrom('crm_api_keys')
    .selectAll()
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  const numbers = Array.from({ length: 60 }, (_, index) => String(index + 10));
  await tables
    .insertInto('crm_api_keys')
    .values(numbers.map((number) => ({ ...key, public_id: `copy-${number}`, name: `Robot ${number}` })))
    .execute();
});
after(() => instance.close());

const keys = '/setup/o/acme/keys';
const rowsOf = ({ text }: Answer): string[] =>
  [...text.matchAll(/<th scope="row"[^>]*>(?:<a[^>]*>)?(.*?)</g)].map(([, title = '']) => readable(title));
const linkIn = ({ text }: Pick<Answer, 'text'>, label: string): string =>
  readable(new RegExp(`<a[^>]*href="([^"]*)"[^>]*>${label}<`).exec(text)?.[1] ?? '');

test('a page has fifty rows, and links to the next one keep order and search', async () => {
  const first = await admin.get(`${keys}?q=robot&sort=Name&dir=desc`);
  assert.deepEqual([rowsOf(first).length, rowsOf(first)[0]], [50, 'Robot 69']);
  assert.match(first.text, /1–50 of 60/);
  const next = await admin.get(linkIn(first, 'Next page'));
  assert.deepEqual([rowsOf(next).length, rowsOf(next)[0]], [10, 'Robot 19']);
  assert.equal(linkIn(next, 'First page'), `${keys}?q=robot&sort=Name&dir=desc`);
  assert.deepEqual(rowsOf(await admin.get(`${keys}?q=robot+42`)), ['Robot 42']);
  for (const odd of ['page=0', 'page=-1', 'page=x', 'page=99', 'sort=toString', 'show=toString', 'dir=up'])
    assert.equal(rowsOf(await admin.get(`${keys}?${odd}`)).length > 0, true, odd);
});

test('a search finds up to ten words in every alphabet and case, and no text that cannot be stored', async () => {
  const rename = (from: string, to: string) =>
    tablesOf(instance.database)
      .updateTable('crm_api_keys')
      .set({ name: to })
      .where('name', '=', from)
      .execute();
  await rename('Robot 69', 'ÄRGER mit Яблоко');
  const found = async (...words: string[]) =>
    rowsOf(await admin.get(`${keys}?q=${encodeURIComponent(words.join(' '))}`));
  assert.deepEqual(await found('ärger', 'ЯБЛОКО'), ['ÄRGER mit Яблоко']);
  await rename('ÄRGER mit Яблоко', 'Robot 69');
  const many = Array.from({ length: 10 }, () => 'robot');
  assert.equal((await found(...many, 'missing')).length, 50);
  assert.deepEqual(await found(...many.slice(1), 'missing'), []);
  assert.deepEqual(await found('robot\0'), []);
});

test('rows with the same value in the chosen order are in the default order', async () => {
  const tables = tablesOf(instance.database);
  const { id: _id, ...key } = await tables
    .selectFrom('crm_api_keys')
    .selectAll()
    .where('name', '=', 'Robot 42')
    .executeTakeFirstOrThrow();
  const endings = ['twn2', 'twn9', 'twn4', 'twn1'];
  for (const ending of endings)
    await tables
      .insertInto('crm_api_keys')
      .values({ ...key, public_id: ending, last_four: ending, name: 'Twin' })
      .execute();
  const orderOf = async (more: string) =>
    [...(await admin.get(`${keys}?q=twin${more}`)).text.matchAll(/twn\d/g)].map(String);
  const byDefault = await orderOf('');
  assert.deepEqual(byDefault.toSorted(), endings.toSorted());
  for (const dir of ['asc', 'desc']) assert.deepEqual(await orderOf(`&sort=Name&dir=${dir}`), byDefault, dir);
  await tables.deleteFrom('crm_api_keys').where('name', '=', 'Twin').execute();
});

test('the lists of members, teams, keys, apps and sessions are sorted by each column and searched by their contents', async () => {
  const rows = ['one', 'two', 'three', 'four'] as const;
  type Row = (typeof rows)[number];
  const tables = tablesOf(instance.database);
  const sorted = await instance.organization('sorted');
  const { id: organization_id, user: admin_id } = sorted;
  const browser = await signIn(instance, administratorOf(sorted));
  /** Returns the rows in a list, each of which is named by the word in its title. */
  const rowsIn = async (path: string, parameters: Readonly<Record<string, string>>) => {
    const { pathname, searchParams } = new URL(path, instance.url);
    const query = new URLSearchParams([...searchParams, ...Object.entries(parameters)]);
    const { text } = await browser.get(`${pathname}?${query}`);
    return [...text.matchAll(/<th scope="row"[^>]*>([\s\S]*?)<\/th>/g)]
      .flatMap(
        ([, title = '']) => /\b(?:one|two|three|four)\b/.exec(title.replace(/ href="[^"]*"/, ''))?.[0] ?? [],
      )
      .join(' ');
  };
  /** Returns a function that returns a row's position in an order, and a day that increases with the position. */
  const placed = (order: string) => (row: Row) => order.split(' ').indexOf(row);
  const dayOf = (year: number, order: string) => (row: Row) =>
    new Date(Date.UTC(year, 0, placed(order)(row) + 1));
  const check = async (
    path: string,
    orders: Readonly<Record<string, string>>,
    searches: Readonly<Record<string, string>>,
  ) => {
    for (const [column, order] of Object.entries(orders))
      assert.equal(await rowsIn(path, column === '' ? {} : { sort: column }), order, `${path} by ${column}`);
    for (const [q, found] of Object.entries(searches))
      assert.equal(await rowsIn(path, { q }), found, `${path} with ${q}`);
  };
  const setup = '/setup/o/sorted';

  const profileNames = { one: 'Sierra one', two: 'quebec two', three: 'Tango three', four: 'romeo four' };
  const names = { one: 'delta', two: 'Bravo', three: undefined, four: 'alpha' };
  const since = dayOf(2020, 'three one four two');
  const ids = {} as Record<Row, { readonly user: string; readonly profile: string }>;
  for (const row of rows) {
    const email = `${row}@sorted.example`;
    const { id: user } = await makePerson(instance, [{ organization: sorted, grants: [] }], { email });
    const name = names[row];
    if (name !== undefined) await changeName(tables, user, name);
    const membership = await tables
      .updateTable('crm_memberships')
      .set({ created_at: since(row) })
      .where('user_id', '=', user)
      .returning('profile_id')
      .executeTakeFirstOrThrow();
    ids[row] = { user, profile: membership.profile_id };
    await tables
      .updateTable('crm_profiles')
      .set({ name: profileNames[row] })
      .where('id', '=', membership.profile_id)
      .execute();
  }
  await check(
    `${setup}/members`,
    {
      '': 'four one three two',
      Name: 'four two one three',
      Profile: 'two four one three',
      Since: 'three one four two',
    },
    { bravo: 'two', 'two@sorted': 'two', sierra: 'one' },
  );
  await check(`${setup}/profiles`, { Name: 'two four one three' }, { tango: 'three' });

  const actor = command(instance);
  const until = dayOf(2100, 'two three one four');
  const invited = { one: 'three', two: 'four', three: 'one', four: 'two' } as const;
  const teamNames = { one: 'Uniform one', two: 'golf two', three: 'Yankee three', four: 'hotel four' };
  const joined = { one: 'two', two: 'four', three: 'one', four: 'one' } as const;
  await transaction(instance.database, async (inside) => {
    const teams = {} as Record<Row, string>;
    for (const row of rows) {
      const invitation = { organization: organization_id, email: `${row}@guests.example` };
      const { id } = await invite(inside, actor, { ...invitation, profile: ids[invited[row]].profile });
      await inside
        .updateTable('crm_invites')
        .set({ expires_at: until(row) })
        .where('id', '=', id)
        .execute();
      teams[row] = await createTeam(inside, actor, organization_id, teamNames[row]);
    }
    for (const row of rows)
      await addTeamMember(inside, actor, organization_id, teams[joined[row]], ids[row].user);
  });
  await check(
    `${setup}/members?show=invitations`,
    {
      '': 'four three two one',
      For: 'four one three two',
      Profile: 'four two three one',
      Until: 'two three one four',
    },
    { 'three@guests': 'three', romeo: 'two' },
  );
  await check(`${setup}/teams`, { Name: 'two four one three' }, { yankee: 'three' });
  await check(
    `${setup}/teams?show=team-members`,
    { Member: 'four two one three', Team: 'one two four three' },
    { bravo: 'two', 'three@sorted': 'three', golf: 'one' },
  );

  const keyNames = { one: 'Mike one', two: 'lima two', three: 'kilo three', four: 'November four' };
  const appNames = { one: 'Juliett one', two: 'echo two', three: 'India three', four: 'foxtrot four' };
  const profileOfKey = { one: 'four', two: 'three', three: 'two', four: 'one' } as const;
  const memberOfKey = { one: 'two', two: 'four', three: 'three', four: 'one' } as const;
  const memberOfApp = { one: 'three', two: 'one', three: 'four', four: 'two' } as const;
  const keyTimes = ['one four two three', 'two four three one', 'four two one three'] as const;
  const appTimes = ['four one three two', 'one three two four', 'three one four two'] as const;
  for (const isApp of [false, true])
    for (const row of rows) {
      const [created, used, expires] = isApp ? appTimes : keyTimes;
      await tables
        .insertInto('crm_api_keys')
        .values({
          ...{ organization_id, public_id: `${row} ${isApp}`, secret_hash: '', last_four: `end-${row}` },
          name: (isApp ? appNames : keyNames)[row],
          profile_id: ids[isApp ? row : profileOfKey[row]].profile,
          created_by_id: row === 'three' ? ids.one.user : null,
          on_behalf_of_id: ids[(isApp ? memberOfApp : memberOfKey)[row]].user,
          client_id: isApp ? 'client' : null,
          created_at: dayOf(2020, created)(row),
          last_used_at: dayOf(2021, used)(row),
          expires_at: dayOf(2100, expires)(row),
          revoked_at: null,
        })
        .execute();
    }
  await check(
    `${setup}/keys`,
    {
      ...{ '': 'four three two one', Name: 'three two one four', Profile: 'three one four two' },
      ...{ 'On behalf of': 'two one four three', Created: keyTimes[0] },
      ...{ 'Last used': keyTimes[1], State: keyTimes[2] },
    },
    {
      ...{ lima: 'two', quebec: 'three', 'end-two': 'two' },
      ...{ delta: 'four three', 'one@sorted': 'four three', bravo: 'one', 'four@sorted': 'two' },
    },
  );
  await check(
    `${setup}/apps`,
    {
      ...{ '': 'four three two one', App: 'two four three one', Member: 'three four two one' },
      ...{
        Profile: 'two four one three',
        Connected: appTimes[0],
        'Last used': appTimes[1],
        State: appTimes[2],
      },
    },
    { india: 'three', alpha: 'three', 'two@sorted': 'four', tango: 'three' },
  );
  await tables
    .updateTable('crm_api_keys')
    .set({ on_behalf_of_id: admin_id })
    .where('client_id', '=', 'client')
    .execute();
  await check(
    '/setup/me/apps',
    {
      ...{ '': 'four three two one', App: 'two four three one', Profile: 'two four one three' },
      ...{ Connected: appTimes[0], 'Last used': appTimes[1], Expires: appTimes[2] },
    },
    { india: 'three', tango: 'three', sorted: 'four three two one' },
  );

  const methods = { one: 'Password', two: 'Example', three: 'Passkey', four: 'Corp' };
  const sessionTimes = ['three one two four', 'two one four three', 'one four three two'] as const;
  for (const row of rows)
    await tables
      .insertInto('crm_sessions')
      .values({
        ...{ user_id: admin_id, token_hash: row, jti: row, user_agent: `${row}/1`, method: methods[row] },
        created_at: dayOf(2020, sessionTimes[0])(row),
        last_seen_at: dayOf(2021, sessionTimes[1])(row),
        expires_at: dayOf(2100, sessionTimes[2])(row),
      })
      .execute();
  await check(
    '/setup/me',
    {
      ...{ '': 'four three two one', 'Logged in with': 'four two three one', Since: sessionTimes[0] },
      ...{ 'Last used': sessionTimes[1], Ends: sessionTimes[2] },
    },
    { corp: 'four', 'three/1': 'three' },
  );
});

test('a list is sorted in every language, and the first of repeated parameters is used', async () => {
  const page = await admin.get(`${keys}?q=robot+42&q=nothing`, { 'accept-language': 'de' });
  assert.deepEqual(rowsOf(page), ['Robot 42']);
  const [heading = ''] =
    /<th scope="col"[^>]*><a href="[^"]*sort(?:=|&#x3D;)Profile[^"]*"/.exec(page.text) ?? [];
  const sorted = await admin.get(readable(/href="([^"]*)"/.exec(heading)?.[1] ?? assert.fail(page.text)), {
    'accept-language': 'de',
  });
  assert.match(sorted.text, /<th scope="col"[^>]* aria-sort="ascending"><a[^>]*>Profil /);
});

test('a search starts on the first page, and keeps the order', async () => {
  const { text } = await admin.get(`${keys}?q=robot&sort=Name&dir=desc&page=2`);
  const forms = [...text.matchAll(/<form[^>]* method="get"[^>]* action="([^"]*)"[^>]*>(.*?)<\/form>/gs)]
    .filter(([, action]) => action === keys)
    .map(([, , content = '']) => [...content.matchAll(/ name="([^"]*)"/g)].map(([, name = '']) => name));
  assert.notEqual(forms.length, 0);
  for (const names of forms) {
    assert.ok(
      ['sort', 'dir', 'q'].every((name) => names.includes(name)),
      String(names),
    );
    assert.ok(!names.includes('page'), String(names));
  }
});

test('an empty list says whether a search or a view has no rows, and links to all rows', async () => {
  const emptyOf = async (query: string) =>
    /<div class="empty">([\s\S]*?)<\/div>/.exec((await admin.get(`${keys}?${query}`)).text)?.[1] ?? '';
  const searched = await emptyOf('q=nobody&show=expired&sort=Name');
  assert.match(searched, /No results\./);
  assert.equal(linkIn({ text: searched }, 'Show all'), `${keys}?show=expired&sort=Name`);
  const expired = await emptyOf('show=expired&sort=Name');
  assert.match(expired, /No keys match the filter\./);
  assert.equal(linkIn({ text: expired }, 'Show all'), `${keys}?sort=Name`);
});

test('a section with several lists shows the number of rows of each, up to 1,000', async () => {
  const crowded = await instance.organization('crowded');
  const browser = await signIn(instance, administratorOf(crowded));
  const insert = (count: number) =>
    sql`insert into crm_teams (organization_id, name)
      select ${crowded.id}::bigint, 'Team ' || ${count}::int || '-' || n from generate_series(1, ${count}::int) n`.execute(
      tablesOf(instance.database),
    );
  const tab = async () => /Teams \(([^)]*)\)/.exec((await browser.get('/setup/o/crowded/teams')).text)?.[1];
  assert.equal(await tab(), '0');
  await insert(1000);
  assert.equal(await tab(), '1,000');
  await insert(1);
  assert.equal(await tab(), '1,000+');
  const german = await browser.get('/setup/o/crowded/teams', { 'accept-language': 'de' });
  assert.match(german.text, /Teams \(1\.000\+\)/);
});

test('an action returns to the same list, which hides and names the revoked key', async () => {
  const query = 'q=robot+1&sort=Name';
  const list = await admin.get(`${keys}?${query}`);
  assert.ok(rowsOf(list).includes('Robot 12'));
  const question = await admin.get(
    readable(/href="([^"]*)" aria-label="Revoke Robot 12"/.exec(list.text)?.[1] ?? ''),
  );
  assert.match(readable(question.text), new RegExp(`href="${keys}\\?${query.replace('+', '\\+')}">Cancel`));
  const form = formsOf(question).find(({ action }) => action === `${keys}/revoke`) ?? assert.fail();
  const done = await admin.post(form.action, form.values);
  assert.equal(done.headers.get('location'), `${keys}?${query}&done=key-revoked`);
  const after = await admin.get(done.headers.get('location') ?? '');
  assert.match(after.text, /<strong>Robot 12<\/strong> revoked\./);
  assert.ok(!rowsOf(after).includes('Robot 12'));
  assert.deepEqual(rowsOf(await admin.get(`${keys}?show=revoked`)), ['Robot 12']);
  // The message belongs to this page only, not to the pages to which it links.
  assert.doesNotMatch(after.text, /done(?:=|&#x3D;)/);
  const again = await admin.get(`${keys}?done=key-revoked`);
  assert.doesNotMatch(
    again.text,
    /revoked\.|class="done"/,
    'the name is not part of the URL, and the message appears only once',
  );
  // However many filters the list has, the user returns to it.
  const filters = `q=${'robot+'.repeat(600)}1`;
  const profiles = '/setup/o/acme/profiles';
  const filtered = await admin.post(`${profiles}/create`, { ...form.values, name: 'Many', at: filters });
  assert.ok(filtered.headers.get('location')?.startsWith(`${profiles}?${filters}&done=`));
});

test('an invalid return URL is ignored', async () => {
  const form = formsOf(await admin.get(`${keys}/create?at=${encodeURIComponent('"><script>')}`)).find(
    ({ action }) => action === `${keys}/create`,
  );
  assert.equal(form?.values.at, undefined);
  const { id } = await acme.makeKey();
  const sent = { ...form?.values, id, at: '\r\nset-cookie: a=b', from: '../../../docs' };
  const answer = await admin.post(`${keys}/revoke`, sent);
  assert.equal(answer.headers.get('location'), `${keys}?done=key-revoked`);
});

test('activity is filtered by actor, action, object, record and time', async () => {
  const activity = '/setup/o/acme/activity';
  const count = async (query: string) => rowsOf(await admin.get(`${activity}?${query}`)).length;
  const all = await count('');
  assert.ok(all > 3);
  const revoked = await count('action=revoke');
  assert.equal(revoked, 2);
  assert.equal(await count('action=revoke&actor=admin%40acme.example&object=key'), 2);
  assert.equal(await count('action=revoke&from=2999-01-01'), 0);
  assert.equal(await count('until=2999-01-01'), all);
  const [, record = ''] =
    /,key,(\d+)$/m.exec((await admin.get(`${activity}/export?action=revoke`)).text) ?? [];
  assert.equal(await count(`record=${record}&object=key&action=revoke`), 1);
  const byCommand = (await admin.get(`${activity}/export?actor=command+line`)).text
    .trimEnd()
    .split('\n')
    .slice(1);
  assert.ok(byCommand.length > 0);
  for (const line of byCommand) assert.match(line, /^[^,]*,command line,command,/);
  const last = '2020-02-29T12:00:00.000001Z';
  await sql`update crm_ledger set at = ${last}::timestamptz where organization_id = ${acme.id}::bigint
    and action = 'revoke' and object_id = ${record}::bigint`.execute(tablesOf(instance.database));
  const [before, after] = ['2020-02-29T12:00:00Z', '2020-02-29T12:00:00.000002Z'];
  for (const [range, expected] of [
    [`from=${last}&until=${last}`, 1],
    [`from=${before}&until=${after}`, 1],
    [`until=${before}`, 0],
    [`from=${after}`, 1],
  ] as const)
    assert.equal(await count(`action=revoke&${range}`), expected, range);
  for (const nothing of ['record=x', 'from=soon', 'actor=%00', 'actor=nobody'])
    assert.equal(await count(nothing), 0, nothing);
  const csv = await admin.get(`${activity}/export?action=revoke`);
  assert.match(csv.headers.get('content-disposition') ?? '', /filename="acme-activity\.csv"/);
  const [head, ...lines] = csv.text.trimEnd().split('\n');
  assert.equal(head, 'at,actor,actor_kind,action,object,id');
  assert.equal(lines.length, 2);
  for (const line of lines) assert.match(line, /^20[^,]*Z,admin@acme\.example,user,revoke,key,\d+$/);
  const added = await admin.get(`${activity}?action=revoke&by=object&value=key`);
  assert.equal(added.headers.get('location'), `${activity}?action=revoke&object=key`);
});

test('no activity matches a text that cannot be stored', async () => {
  const activity = '/setup/o/acme/activity';
  assert.notEqual(rowsOf(await admin.get(activity)).length, 0);
  for (const name of ['actor', 'action', 'object']) {
    const page = await admin.get(`${activity}?${name}=a%00`);
    assert.deepEqual([page.status, rowsOf(page)], [200, []], name);
    const file = await admin.get(`${activity}/export?${name}=a%00`);
    assert.deepEqual([file.status, file.text.trimEnd().split('\n').slice(1)], [200, []], name);
  }
});

test('activity exports are never formulas', async () => {
  const { key, id } = await acme.makeKey();
  await tablesOf(instance.database)
    .updateTable('crm_api_keys')
    .set({ name: '=1+1' })
    .where('id', '=', id)
    .execute();
  const made = await instance.call('POST /api/v1/leads', { key, body: { last_name: 'By a formula' } });
  assert.equal(made.status, 201);
  const { text } = await admin.get(`/setup/o/acme/activity/export?record=${made.json.id}&object=leads`);
  assert.match(text, /,'=1\+1,key,create,leads,/);
});

test('activity names records, also deleted ones, and links to them', async () => {
  const call = async (request: string, body: object) =>
    (await instance.call(request, { key: acme.key, body })).json;
  const { id } = await call('POST /api/v1/leads', { first_name: 'Zoë', last_name: 'Renamed' });
  const { id: nameless } = await call('POST /api/v1/leads', {});
  await call(`PATCH /api/v1/leads/${id}`, { last_name: 'Quast' });
  await instance.call(`DELETE /api/v1/leads/${id}`, { key: acme.key });
  const { text } = await admin.get('/setup/o/acme/activity?object=leads');
  const entries = [...text.matchAll(/<th scope="row"[^>]*><a href="([^"]*)">(.*?)</g)].map(
    ([, href = '', title = '']) => [readable(title), readable(href)],
  );
  const url = '/setup/o/acme/data/leads';
  assert.deepEqual(entries.slice(0, 4), [
    ['Lead “Zoë Quast” deleted', `${url}/${id}`],
    ['Lead “Zoë Quast” updated', `${url}/${id}`],
    [`Lead ${nameless} created`, `${url}/${nameless}`],
    ['Lead “Zoë Quast” created', `${url}/${id}`],
  ]);
  assert.equal((await admin.get(`${url}/${id}`)).status, 200, 'a deleted record has a page');
  const { text: keys } = await admin.get('/setup/o/acme/activity?object=key&action=revoke');
  assert.match(keys, /<a href="\/setup\/o\/acme\/keys">API key “Robot/);
  const { text: form } = await admin.get('/setup/o/acme/activity?by=from');
  assert.match(form, /<select id="filter-by" name="by"><option value="from" selected>from<.*value="until"/);
  assert.match(form, /<input type="date" id="in-value" name="value"/);
});
