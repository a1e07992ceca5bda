// The admin UI's frame and the display of values: navigation on error pages, search, assets, compressed pages, and
// numbers and dates in the browser's language.
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { brotliDecompressSync } from 'node:zlib';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Instance, type Organization, startInstance } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';

describe('the look of the admin UI', () => {
  let instance: Instance;
  let acme: Organization;
  let admin: Visitor;
  before(async () => {
    instance = await startInstance('postgresql');
    acme = await instance.organization('acme');
    admin = await signIn(instance, administratorOf(acme));
  });
  after(() => instance.close());

  const create = async (resource: string, body: Readonly<Record<string, unknown>>) =>
    String((await instance.call(`POST /api/v1/${resource}`, { key: acme.key, body })).json.id);
  const resultsOf = ({ text }: { readonly text: string }) =>
    [
      ...text.matchAll(
        /<li><a href="([^"]*)"><span class="tile[^>]*>[^<]*<\/span><span><span class="label">([^<]*)<\/span>.*?<\/a><\/li>/g,
      ),
    ].map(
      ([, href = '', label = '']) => `${readable(label)} ${readable(href).replace('/setup/o/acme/', '')}`,
    );

  test('error pages keep the navigation', async () => {
    for (const [path, status] of [
      ['/setup/o/acme/nowhere', 404],
      ['/setup/o/acme/data/nothing', 404],
      ['/setup/nowhere', 404],
      ['/setup/o/beta/keys', 403],
    ] as const) {
      const page = await admin.get(path);
      assert.equal(page.status, status, path);
      assert.match(page.text, /href="\/setup\/o\/acme\/keys"/, path);
      assert.match(page.text, />Log out</, path);
    }
    // The page of an organization keeps its own navigation, and its forms work.
    const other = await instance.organization('other');
    const person = await makePerson(instance, [{ organization: acme }, { organization: other }]);
    const browser = await signIn(instance, person);
    await browser.get('/setup/o/acme');
    const page = await browser.get('/setup/o/other/nowhere');
    assert.match(page.text, /href="\/setup\/o\/other\/keys"/);
    assert.match(page.text, /<p>Page not found\.<\/p>/);
    const { values = {} } = formsOf(page).find(({ action }) => action === '/setup/logout') ?? {};
    const loggedOut = await browser.post('/setup/logout', values);
    assert.equal(loggedOut.headers.get('location'), '/setup/login?done=logged-out');
  });

  test('the page for an internal error names the request, and other error pages do not', async () => {
    const tables = tablesOf(instance.database);
    await sql`alter table crm_ledger add constraint refused check (organization_id = 0) not valid`.execute(
      tables,
    );
    const profiles = '/setup/o/acme/profiles';
    const failed = await admin
      .submit(profiles, `${profiles}/create`, { name: 'refused' })
      .finally(() => sql`alter table crm_ledger drop constraint refused`.execute(tables));
    const id = failed.headers.get('x-request-id') ?? '';
    assert.equal(failed.status, 500);
    assert.ok(failed.text.includes(`Request <code>${id}</code>`), failed.text);
    assert.doesNotMatch(failed.text, /refused|crm_ledger/);
    assert.doesNotMatch((await admin.get('/setup/nowhere')).text, /Request <code>/);
  });

  test('search finds records by words and ID, pages and organizations, as far as the profile allows', async () => {
    const lead = await create('leads', { first_name: 'Zoë', last_name: 'Quast', email: 'zoe@quast.example' });
    const account = await create('accounts', { name: 'Quast & Sons' });
    const search = async (q: string, browser = admin) =>
      resultsOf(await browser.get(`/setup/o/acme/search?${new URLSearchParams({ q })}`));
    assert.deepEqual(await search('quast'), [
      `Quast & Sons data/accounts/${account}`,
      `Zoë Quast data/leads/${lead}`,
    ]);
    assert.ok((await search(lead)).includes(`Zoë Quast data/leads/${lead}`), 'by ID');
    assert.deepEqual(await search('profil'), ['Profiles profiles']);
    await create('opportunities', { name: 'Quarry', account_id: Number(account) });
    const related = (await admin.get('/setup/o/acme/search?q=quarry')).text;
    assert.doesNotMatch(related, new RegExp(`class="below">${account}<`), 'not the ID of another record');
    const { text } = await admin.get('/setup/o/acme/search?q=quast');
    assert.match(text, />Zoë Quast<\/span> <span class="below">zoe@quast\.example</, 'the first other value');
    const [pages = ''] =
      /<section aria-label="Pages">[\s\S]*?<\/section>/.exec(
        (await admin.get('/setup/o/acme/search?q=s')).text,
      ) ?? [];
    assert.equal(pages.match(/<li>/g)?.length, 6);
    assert.deepEqual(await search('acme'), ['acme /setup/o/acme']);
    assert.deepEqual(await search('%_'), []);
    assert.deepEqual(await search('agents'), [], 'without mcp in config.yaml');
    assert.doesNotMatch((await admin.get('/setup/o/acme')).text, /href="\/setup\/o\/acme\/agents"/);
    const grants = [{ object: 'accounts', actions: ['list', 'read'] }] as const;
    const reader = await signIn(instance, await makePerson(instance, [{ organization: acme, grants }]));
    assert.deepEqual(await search('quast', reader), [`Quast & Sons data/accounts/${account}`]);
    assert.deepEqual(await search('profil', reader), []);
    assert.deepEqual(await search('create a'), ['Create account data/accounts/new']);
    assert.deepEqual(await search('create a', reader), []);
    const listed = [{ object: 'accounts', actions: ['list'] }] as const;
    const lister = await signIn(
      instance,
      await makePerson(instance, [{ organization: acme, grants: listed }]),
    );
    assert.deepEqual(await search('quast', lister), [], 'without the grant to read');
    assert.deepEqual(await search('accounts', lister), ['Accounts data/accounts']);
    const go = async (q: string) =>
      (await admin.get(`/setup/o/acme/search?${new URLSearchParams({ q, go: '1' })}`)).headers.get(
        'location',
      );
    assert.equal(await go('zoe@quast.example'), `/setup/o/acme/data/leads/${lead}`, 'the only result');
    assert.equal(await go('quast'), null);
    assert.equal(await go('nothing like this'), null);
    for (let number = 0; number < 6; number++) await create('accounts', { name: `Multiple ${number}` });
    const six = await search('multiple');
    assert.ok(six.length === 6 && six.every((result) => result.startsWith('Multiple ')), six.join());
    await create('accounts', { name: 'Multiple 6' });
    const found = await search('multiple');
    assert.equal(found.length, 7);
    assert.equal(found.at(-1), 'Show all data/accounts?q=multiple');
    assert.equal((await search('multiple 3')).length, 1);
  });

  test('values that do not fit into a cell are tooltips, the first field has the focus, and pages have a duration', async () => {
    const name = 'Tanegawa Precision K.K.';
    const account = await create('accounts', { name });
    await create('opportunities', { name: 'Roof', account_id: Number(account) });
    const list = await admin.get('/setup/o/acme/data/opportunities?q=roof');
    assert.match(
      list.text,
      new RegExp(`<td data-label="Account"[^>]* title="${name}"><a[^>]*>${name}</a></td>`),
    );
    for (const column of ['Amount', 'Close date', 'Updated at'])
      assert.match(
        list.text,
        new RegExp(`<th scope="col" class="number"[^>]*>(<a[^>]*>)?${column}`),
        'right-aligned',
      );
    assert.match(list.text, /<th scope="row"><a[^>]*>Roof<\/a>/, 'short values fit');
    // On phones, badges and the first two other values are shown.
    await create('opportunities', { name: 'Gable', account_id: Number(account), amount: 5, probability: 10 });
    const columns = ['account_id', 'amount', 'stage', 'probability'].map((column) => `columns=${column}`);
    const cards = await admin.get(`/setup/o/acme/data/opportunities?q=gable&${columns.join('&')}`);
    assert.match(cards.text, /<tr class="card">/);
    assert.deepEqual(
      [...cards.text.matchAll(/<td data-label="([^"]*)"(?: data-edit="[^"]*")?(?: class="([^"]*)")?/g)].map(
        ([, label, classes = '']) => `${label}: ${classes}`,
      ),
      ['Account: ', 'Amount: number', 'Stage: ', 'Probability: number extra'],
    );
    for (const page of ['data/accounts/new', `data/accounts/${account}/edit`]) {
      const { text } = await admin.get(`/setup/o/acme/${page}`);
      assert.deepEqual(text.match(/name="\w+"(?= autofocus| required autofocus)/g), ['name="name"'], page);
    }
    assert.match(list.headers.get('server-timing') ?? '', /^total;dur=\d+\.\d$/);
    assert.equal(
      (await instance.call('GET /api/v1/accounts', { key: acme.key })).headers.get('server-timing'),
      null,
    );
  });

  test('assets have immutable URLs, and other versions are revalidated', async () => {
    const { text } = await admin.get('/setup/o/acme');
    const urls = [...text.matchAll(/"(\/setup\/assets\/[^"#]*)/g)].map(([, url = '']) => url);
    assert.ok(urls.length > 3);
    for (const url of new Set(urls)) {
      const asset = await admin.get(url);
      assert.equal(asset.status, 200, url);
      assert.equal(asset.headers.get('cache-control'), 'public, max-age=31536000, immutable');
    }
    const other = await admin.get('/setup/assets/other/setup.css');
    assert.deepEqual([other.status, other.headers.get('cache-control')], [200, 'public, max-age=60']);
    assert.equal((await admin.get('/setup/assets/other/LICENSES.txt')).status, 404);
  });

  test('every icon that a page uses is in the sprite', async () => {
    const sprite = await admin.get('/setup/assets/any/icons.svg');
    const names = new Set([...sprite.text.matchAll(/<symbol id="([^"]*)"/g)].map(([, name]) => name));
    for (const path of ['', '/data/leads', '/data/leads/new', '/keys', '/integrations/add', '/activity']) {
      const { text } = await admin.get(`/setup/o/acme${path}`);
      for (const [, name] of text.matchAll(/icons\.svg#([^"]*)"/g)) assert.ok(names.has(name), name);
    }
  });

  test('pages are compressed, and each response has another form token', async () => {
    const load = () =>
      new Promise<string>((resolve, reject) => {
        httpRequest(`${instance.url}/setup/login`, { headers: { 'accept-encoding': 'br' } }, (response) => {
          const chunks: Buffer[] = [];
          response.on('data', (chunk: Buffer) => chunks.push(chunk));
          response.on('end', () => {
            assert.equal(response.headers['content-encoding'], 'br');
            assert.match(String(response.headers.vary), /accept-encoding/);
            resolve(brotliDecompressSync(Buffer.concat(chunks)).toString());
          });
        })
          .on('error', reject)
          .end();
      });
    assert.match(await load(), /<h1>/);
    const tokens = await Promise.all(
      [1, 2].map(async () => formsOf(await admin.get('/setup/me'))[0]?.values._csrf ?? ''),
    );
    // The start of a token identifies the session; the end proves that the page was sent by this instance.
    const proofs = tokens.map((token) => token.slice(-43));
    const pieces = Array.from(proofs[0] ?? '').map((_, start, { length }) =>
      start + 6 <= length ? proofs[0]?.slice(start, start + 6) : undefined,
    );
    assert.equal(proofs[1]?.length, 43);
    assert.deepEqual(
      pieces.filter((piece) => piece !== undefined && proofs[1]?.includes(piece)),
      [],
      'the size of a response does not reveal the next token',
    );
  });

  test('times are relative to now, in words', async ({ mock }) => {
    const now = new Date();
    mock.timers.enable({ apis: ['Date'], now });
    const times = [
      ['-400 days', 'last year'],
      ['-45 days', 'last month'],
      ['-60 hours', '2 days ago'],
      ['-36 hours', 'yesterday'],
      ['-90 minutes', '1 hour ago'],
      ['-3575 seconds', '59 minutes ago'],
      ['-90 seconds', '1 minute ago'],
      ['-10 seconds', 'just now'],
      ['50 seconds', 'in a moment'],
      ['90 minutes', 'in 1 hour'],
      ['36 hours', 'tomorrow'],
    ] as const;
    for (const [index, [offset]] of times.entries())
      await sql`insert into leads (organization_id, company, last_name, created_at, updated_at)
        values (${acme.id}::bigint, 'Timely', ${`L${index + 10}`}, ${now}::timestamptz + ${offset}::interval, now())`.execute(
        tablesOf(instance.database),
      );
    const { text } = await admin.get('/setup/o/acme/data/leads?q=timely&sort=last_name&columns=created_at');
    assert.deepEqual(
      [...text.matchAll(/<td data-label="Created at"[^>]*><time[^>]*>([^<]*)<\/time>/g)].map(
        ([, time]) => time,
      ),
      times.map(([, time]) => time),
    );
  });

  test('the root leads browsers to the admin UI, and is unknown to other clients', async () => {
    const browser = await instance.call('GET /', { headers: { accept: 'text/html,*/*' } });
    assert.deepEqual([browser.status, browser.headers.get('location')], [303, '/setup']);
    const client = await instance.call('GET /', { headers: { accept: '*/*' } });
    assert.deepEqual([client.status, client.json.code], [404, 'not_found']);
    for (const { headers } of [browser, client]) assert.match(headers.get('vary') ?? '', /accept\b/i);
  });

  test('the switcher leads to the same page of organizations that the user administers, or to their home page', async () => {
    const [own, other] = [await instance.organization('own'), await instance.organization('read-by-many')];
    const person = await makePerson(instance, [
      { organization: acme },
      { organization: own },
      { organization: other, grants: [{ object: 'leads', actions: ['list', 'read'] }] },
    ]);
    const browser = await signIn(instance, person);
    const linksOn = async (page: string) => {
      const [switcher = ''] =
        /<details class="switcher">[\s\S]*?<\/details>/.exec((await browser.get(page)).text) ?? [];
      return [...switcher.matchAll(/href="(\/setup\/o\/[^"]*)"/g)].map(([, href]) => href).toSorted();
    };
    assert.deepEqual(await linksOn('/setup/o/acme/keys'), ['/setup/o/own/keys', '/setup/o/read-by-many']);
    assert.deepEqual(await linksOn('/setup/o/acme/data/leads'), ['/setup/o/own', '/setup/o/read-by-many']);
  });

  test('the switcher lists the most recently visited organizations first, and only these if there are many', async () => {
    const all = await Promise.all(
      Array.from({ length: 11 }, (_, index) =>
        instance.organization(`visited-${String.fromCharCode(97 + index)}`),
      ),
    );
    const linksAfter = async (count: number, visited: readonly number[]) => {
      const memberships = all.slice(0, count).map((organization) => ({ organization }));
      const browser = await signIn(instance, await makePerson(instance, memberships));
      const start = async () => (await browser.get('/setup')).headers.get('location');
      assert.equal(await start(), '/setup/o/visited-a', 'the first by name');
      // The account is a page of the only organization, and otherwise of none.
      const [first = ''] = (await browser.get('/setup/me')).text.match(/action="[^"]*\/search"/) ?? [];
      assert.equal(first, count === 1 ? 'action="/setup/o/visited-a/search"' : '');
      let text = '';
      for (const index of visited) {
        const page = await browser.get(`/setup/o/${all[index]?.slug}`);
        ({ text } = page);
        const cookie = page.headers.getSetCookie().find((each) => each.startsWith('crm_recent_'));
        assert.match(cookie ?? '', /; Max-Age=31536000; Path=\/;/, 'for a year, also in the explorer');
      }
      assert.equal(await start(), `/setup/o/${all[visited.at(-1) ?? 0]?.slug}`, 'the last visited');
      const me = readable((await browser.get('/setup/me')).text);
      assert.equal(
        [...me.matchAll(/<a href="[^"]*">visited-\w<\/a> \(visited-\w\), as administrator/g)].length,
        Math.min(count, 10),
      );
      const more = /Show all (\d+) organizations/.exec(me)?.[1];
      assert.equal(more, count > 10 ? String(count) : undefined);
      const [switcher = ''] = /<details class="switcher">[\s\S]*?<\/details>/.exec(text) ?? [];
      return [...switcher.matchAll(/href="\/setup\/o\/visited-(\w)"/g)].map(([, letter]) => letter).join('');
    };
    assert.equal(await linksAfter(10, [5, 2, 5, 7, 1]), 'hfcadegij', 'then the others by name');
    assert.equal(await linksAfter(10, [3, 2, 1, 2, 1, 2, 1]), 'cdaefghij', 'each of them once');
    assert.equal(await linksAfter(1, [0]), '');
    assert.equal(await linksAfter(11, [9, 8, 7, 6, 5, 4, 3]), 'efghi');
  });

  test('values are formatted for the language of the browser, and closed values are badges', async () => {
    const id = await create('opportunities', {
      name: 'Renewal',
      amount: 1234567.5,
      stage: 'Closed Won',
      close_date: '2027-03-01T09:30:00+01:00',
    });
    const texts = async (language: string) => {
      const { text } = await admin.get(`/setup/o/acme/data/opportunities/${id}`, {
        'accept-language': language,
      });
      return new Map(
        [...text.matchAll(/<dt>(.*?)<\/dt><dd>(.*?)<\/dd>/g)].map(([, label = '', html = '']) => [
          label,
          readable(html.replace(/<[^>]*>/g, '')),
        ]),
      );
    };
    const english = await texts('en-US,en;q=0.9');
    assert.equal(english.get('Amount'), '1,234,567.5');
    assert.match(english.get('Close date') ?? '', /^Mar 1, 2027, 9:30\sAM$/);
    assert.equal(english.get('ID'), id);
    await sql`update opportunities set id = 1234567 where id = ${await create('opportunities', { name: 'Long ID' })}::bigint`.execute(
      tablesOf(instance.database),
    );
    const longId = await admin.get('/setup/o/acme/data/opportunities/1234567');
    assert.match(longId.text, /<dt>ID<\/dt><dd>1234567<\/dd>/, 'IDs are not formatted');
    const german = await texts('de-DE');
    assert.equal(german.get('Amount'), '1.234.567,5');
    assert.match(german.get('Close date') ?? '', /^1\. März 2027/);
    assert.equal((await texts('*, xx-invalid-locale')).get('Amount'), '1,234,567.5');
    const { text } = await admin.get(`/setup/o/acme/data/opportunities/${id}`);
    assert.match(text, /<p class="badges"><span class="badge hue-6">Closed Won<\/span><\/p>/);
    const unlisted = await create('opportunities', { name: 'Elsewhere', stage: 'Somewhere else' });
    assert.match(
      (await admin.get(`/setup/o/acme/data/opportunities/${unlisted}`)).text,
      /<p class="badges"><span class="badge hue-8">Somewhere else<\/span><\/p>/,
      'the neutral color',
    );
    assert.match(text, /title="2027-03-01T09:30:00\+01:00"/, 'the exact time is a tooltip');
  });

  test('empty read-only fields are omitted, and contact details are links', async () => {
    const id = await create('leads', {
      last_name: 'Ames',
      email: 'ames@people.example',
      phone: '+49 30 1234-56',
      linkedin_url: 'javascript:alert(1)',
      facebook_url: 'https://social.example/ames',
    });
    const { text } = await admin.get(`/setup/o/acme/data/leads/${id}`);
    assert.doesNotMatch(text, /<dt>Meta/);
    const [, details = '', system = ''] =
      /<h2>Details<\/h2>([\s\S]*?)<h2>System information<\/h2>([\s\S]*?)<\/dl>/.exec(text) ?? [];
    assert.match(details, /<dt>Phone</);
    assert.doesNotMatch(details, /<dt>(?:ID|Created at|Updated at)</);
    for (const label of ['ID', 'Created at', 'Updated at'])
      assert.ok(system.includes(`<dt>${label}<`), label);
    assert.doesNotMatch(system, /<dt>Organization</);
    assert.match(details, /<dt>Description<\/dt><dd><span class="none">/, 'an empty text, too');
    assert.doesNotMatch(system, /<dt>Phone</);
    assert.match(text, /<dt>Instagram handle<\/dt><dd><span class="none">/);
    for (const href of ['mailto:ames%40people.example', 'tel:+49301234', 'https://social.example/ames'])
      assert.ok(readable(text).includes(`href="${href}`), href);
    assert.doesNotMatch(text, /href="javascript:/);
  });

  test('controls and links have the attributes on which browsers and scripts rely', async () => {
    const id = await create('leads', { last_name: 'Ames', email: 'ames@people.example', company: 'A' });
    await instance.call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body: { company: '' } });
    const page = async (path: string) => readable((await admin.get(`/setup/o/acme/${path}`)).text);
    const list = await page('data/leads?q=ames&sort=last_name');
    assert.match(list, /href="[^"]*\/data\/leads\/export\?[^"]*" data-turbo="false"/, 'a file is not a page');
    assert.match(
      list,
      /<form id="selection"[^>]*><input type="hidden" name="at" value="q=ames&sort=last_name">/,
      'an action on selected records returns to the list',
    );
    assert.match(await page('activity'), /href="[^"]*\/activity\/export" data-turbo="false"/);
    const organizations = readable((await admin.get('/setup/organizations')).text);
    assert.match(organizations, /href="\/setup\/organizations\/acme\/export[^"]*" data-turbo="false"/);
    for (const asset of ['setup\\.css', 'setup\\.js'])
      assert.match(list, new RegExp(`/${asset}"[^>]* data-turbo-track="reload"`), 'reloaded after an update');
    const record = await page(`data/leads/${id}`);
    assert.match(record, /href="mailto:[^"]*" rel="noopener noreferrer"/);
    assert.match(
      record,
      /<strong>Company<\/strong> <del>A<\/del> <span class="hidden">to<\/span> <span class="below">empty</,
    );
    assert.match(await page('members/invite'), /<input type="email" id="in-email"/);
    assert.match(await page('data/leads/import'), /<input type="file" accept="\.csv,text\/csv"/);
    assert.match(
      await page('data/leads/board'),
      /method="post" action="[^"]*\/board" data-turbo="true" data-turbo-action="replace"/,
    );
    const secret = await page('integrations/add?provider=whatsapp');
    assert.match(secret, /<input type="password"[^>]* autocomplete="off"/);
    const shortcuts = (await admin.get('/setup/shortcuts')).text;
    assert.doesNotMatch(shortcuts, /<dialog/, 'the page is its own list');
    // A page that answers a form is loaded again with the form, so it must not be replaced.
    const body = ({ text }: { readonly text: string }) => /<body[^>]*>/.exec(text)?.[0];
    const rejected = await admin.submit('/setup/o/acme/data/leads/new', '/setup/o/acme/data/leads/new', {});
    assert.deepEqual([rejected.status, body(rejected)], [400, '<body class="framed" data-turbo="false">']);
    assert.equal(body(await admin.get('/setup/o/acme')), '<body class="framed">');
  });

  test('a field with closed values is a choice that keeps other stored values', async () => {
    const id = await create('leads', { last_name: 'Ames', rating: 'Lukewarm' });
    const { text } = await admin.get(`/setup/o/acme/data/leads/${id}/edit`);
    const options = /<select id="in-rating"[^>]*>(.*?)<\/select>/.exec(text)?.[1] ?? '';
    assert.deepEqual(
      [...options.matchAll(/<option value="([^"]*)"( selected)?>/g)].map(
        ([, value, selected]) => `${value}${selected ?? ''}`,
      ),
      ['', 'Hot', 'Warm', 'Cold', 'Lukewarm selected'],
    );
  });
});
