// The organization's home page lists problems that need attention, each with its next step, worst first.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { revokeKey } from '../../plugins/access/api-keys/keys.ts';
import { administratorOf, optionOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Instance, type Organization, startInstance } from '../support/instance.ts';
import { delivered, integrate } from '../support/partners.ts';
import { command, makePerson } from '../support/people.ts';

const dayMs = 86_400_000;
let instance: Instance;
let acme: Organization;
let admin: Visitor;
before(async () => {
  instance = await startInstance('postgresql');
  acme = await instance.organization('acme');
  admin = await signIn(instance, administratorOf(acme));
});
after(() => instance.close());

/** Returns the lines of a home page, each with the URL of its next step. */
const linesOf = async (browser: Visitor, slug = 'acme') => {
  const { text } = await browser.get(`/setup/o/${slug}`);
  return [...text.matchAll(/<li class="(\w+)"><p>(.*?)<\/p>(?:<a[^>]*href="([^"]*)")?/g)].map(
    ([, state, line = '', href = '']) =>
      `${state}: ${readable(line.replace(/<[^>]*>/g, ''))} ${readable(href)}`,
  );
};

test('lists each problem with its next step, or that no problems were found', async () => {
  const well = await admin.get('/setup/o/acme');
  assert.match(well.text, /Nothing needs your attention\./);
  assert.match(
    well.text,
    /href="\/setup\/o\/acme\/data\/leads"><span class="tile[^>]*>L<\/span><span><span class="label">Leads</,
  );

  const ending = await acme.makeKey({ expiresAt: new Date(Date.now() + 3 * dayMs) });
  await acme.makeKey({ expiresAt: new Date(Date.now() + 30 * dayMs) });
  await acme.makeKey({ expiresAt: new Date(1) });
  const revoked = await acme.makeKey({ expiresAt: new Date(Date.now() + 3 * dayMs) });
  await transaction(instance.database, (tables) => revokeKey(tables, command(instance), acme.id, revoked.id));
  const { id: bot } = await integrate(instance, acme, 'telegram');
  await delivered(instance, acme.id, bot, { event: 'lost', status: 'dead', error: 'no' });
  assert.doesNotMatch((await admin.get('/setup/o/acme')).text, /Nothing needs your attention/);
  const dead = await linesOf(admin);
  assert.equal(
    dead[0],
    'bad: Problem: Deliveries: 1 failed. /setup/o/acme/deliveries?status=dead',
    'the worst problem comes first',
  );
  assert.match(
    dead[1] ?? '',
    new RegExp(
      `^warn: Note: The API key .* expires on 20.* UTC\\. /setup/o/acme/keys/rotate\\?id=${ending.id}$`,
    ),
  );
  assert.equal(dead.length, 2, 'neither revoked nor expired keys are listed');

  const path = '/setup/o/acme/deliveries';
  const { status } = await admin.submit(`${path}?status=dead`, `${path}/replay-all`);
  assert.equal(status, 303);
  await admin.submit('/setup/o/acme/integrations', '/setup/o/acme/integrations/switch', {
    id: bot,
    to: 'off',
  });
  const off = await linesOf(admin);
  assert.ok(!off.some((line) => line.includes('failed')), 'replayed deliveries are not listed');
  assert.ok(
    off.some((line) => /Telegram\): disabled, so its URL responds with 404/.test(line)),
    String(off),
  );

  const reader = await signIn(
    instance,
    await makePerson(instance, [{ organization: acme, grants: [{ object: 'leads', actions: ['list'] }] }]),
  );
  assert.deepEqual(await linesOf(reader), [], 'shown only to administrators');
  const shown = async (browser: Visitor, slug: string) =>
    /<p class="intro">([^<]*)</.exec((await browser.get(`/setup/o/${slug}`)).text)?.[1];
  assert.equal(await shown(reader, 'acme'), undefined);
  const stranger = await signIn(instance, await makePerson(instance, [{ organization: acme, grants: [] }]));
  assert.match(
    (await shown(stranger, 'acme')) ?? '',
    /^Your profile does not allow you to list any records\./,
  );
  const beta = await instance.organization('beta');
  assert.deepEqual(await linesOf(await signIn(instance, administratorOf(beta)), 'beta'), []);
});

test('lists up to three expiring keys, and only counts more of them', async () => {
  const theta = await instance.organization('theta');
  const browser = await signIn(instance, administratorOf(theta));
  const expiresAt = new Date(Date.now() + 13 * dayMs);
  for (const lines of [1, 2, 3, 1]) {
    await theta.makeKey({ expiresAt });
    assert.equal((await linesOf(browser, 'theta')).length, lines);
  }
  assert.deepEqual(await linesOf(browser, 'theta'), [
    'warn: Note: 4 API keys expire within two weeks. /setup/o/theta/keys?sort=State',
  ]);
});

test('a subscription whose deliveries fail is not shown as healthy', async () => {
  const gamma = await instance.organization('gamma');
  const browser = await signIn(instance, administratorOf(gamma));
  const page = '/setup/o/gamma/events';
  const profile = await optionOf(browser, `${page}/add`, 'read-only');
  const fields = { url: 'https://events.example/hook', resource: 'leads', action: 'create', profile };
  await browser.submit(`${page}/add`, `${page}/add`, fields);
  const badge = async () =>
    /<span class="badge state (\w+)">([^<]*)</.exec((await browser.get(page)).text)?.slice(1);
  assert.deepEqual(await badge(), ['good', 'Enabled']);
  await sql`update crm_event_subscriptions set failing_since = now() - interval '1 hour'
    where organization_id = ${gamma.id}::bigint`.execute(tablesOf(instance.database));
  assert.deepEqual(await badge(), ['bad', 'Failing']);
  assert.match((await linesOf(browser, 'gamma'))[0] ?? '', /^warn: .*deliveries are failing/);
  for (const [state, line] of [
    ['gone', /^bad: Problem: .*https:\/\/events\.example\/hook.*410/],
    ['failed', /^bad: Problem: .*https:\/\/events\.example\/hook.*no successful delivery for days/],
  ] as const) {
    await sql`update crm_event_subscriptions set state = ${state}, failing_since = null
      where organization_id = ${gamma.id}::bigint`.execute(tablesOf(instance.database));
    assert.equal((await badge())?.[0], 'bad', state);
    assert.match((await linesOf(browser, 'gamma'))[0] ?? '', line);
  }
  for (const since of ['null', 'now()']) {
    await sql`update crm_event_subscriptions set state = 'off', failing_since = ${sql.raw(since)}
      where organization_id = ${gamma.id}::bigint`.execute(tablesOf(instance.database));
    assert.deepEqual(await linesOf(browser, 'gamma'), [], 'disabled by a user');
  }
  await sql`insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, action, status, done_at)
    select organization_id, id, 'lost', '', 'test', 'dead', now() from crm_event_subscriptions
    where organization_id = ${gamma.id}::bigint`.execute(tablesOf(instance.database));
  assert.deepEqual(await linesOf(browser, 'gamma'), [
    `bad: Problem: Sent events: 1 failed. ${page}?show=event-deliveries&status=dead`,
  ]);
});

test('an integration whose deliveries cannot be verified or processed is reported with the reason', async () => {
  const iota = await instance.organization('iota');
  const [telegram, twilio, unknown] = [
    await integrate(instance, iota, 'telegram'),
    await integrate(instance, iota, 'twilio'),
    await integrate(instance, iota, 'telegram'),
  ];
  await sql`update crm_integrations set provider = 'pigeon' where id = ${unknown.id}::bigint`.execute(
    tablesOf(instance.database),
  );
  const browser = await signIn(instance, administratorOf(iota));
  const page = '/setup/o/iota/integrations';
  const reasons = [
    [twilio, 'public_url is not set in config.yaml, so deliveries cannot be verified'],
    [unknown, 'pigeon'],
  ] as const;
  const lines = await linesOf(browser, 'iota');
  assert.equal(lines.length, reasons.length, lines.join('\n'));
  for (const [{ id }, reason] of reasons) {
    const line = lines.find((text) => text.endsWith(`${page}/integration?id=${id}`)) ?? '';
    assert.match(line, /^warn: /);
    assert.ok(line.includes(reason), line);
    assert.ok(readable((await browser.get(`${page}/integration?id=${id}`)).text).includes(reason));
  }
  const { text } = await browser.get(`${page}/integration?id=${telegram.id}`);
  for (const [, reason] of reasons) assert.ok(!text.includes(reason), reason);
});

test('charts show the number and the sum of the records in each stage that the member can list', async () => {
  const chartOf = async (browser: Visitor) => {
    const { text } = await browser.get('/setup/o/acme');
    const [chart = ''] =
      /<section class="chart" aria-label="Opportunities by stage"[\s\S]*?<\/section>/.exec(text) ?? [];
    return [...chart.matchAll(/<tr><th scope="row">([\s\S]*?)<\/tr>/g)].map(([, row = '']) =>
      [
        ...[...row.matchAll(/>([^<>]+)</g)].map(([, part = '']) => readable(part.trim())).filter(Boolean),
        /rect width="(\d+)"/.exec(row)?.[1],
      ].join(' '),
    );
  };
  assert.deepEqual(await chartOf(admin), [], 'no chart without records');
  for (const [stage, amount] of [
    ['Prospecting', '1000.5'],
    ['Prospecting', '500'],
    ['Closed Won', '0'],
  ])
    assert.equal(
      (
        await instance.call('POST /api/v1/opportunities', {
          key: acme.key,
          body: { name: 'x', stage, amount: Number(amount) },
        })
      ).status,
      201,
    );
  assert.deepEqual(await chartOf(admin), [
    'Prospecting 2 1,500.5 100',
    'Qualification 0 0',
    'Needs Analysis 0 0',
    'Value Proposition 0 0',
    'Negotiation 0 0',
    'Closed Won 1 0.0 50',
    'Closed Lost 0 0',
  ]);
  const { text } = await admin.get('/setup/o/acme');
  const [chart = ''] =
    /<section class="chart" aria-label="Opportunities by stage"[\s\S]*?<\/section>/.exec(text) ?? [];
  const cells = [...chart.matchAll(/<tr><th scope="row">.*?<\/tr>/gs)].map(
    ([row]) => row.match(/<td/g)?.length,
  );
  assert.deepEqual(new Set(cells), new Set([3]), 'a row without a sum has an empty cell');
  const [, href = ''] = /<tr><th scope="row"><a href="([^"]*)">Prospecting</.exec(text) ?? [];
  assert.match((await admin.get(readable(href))).text, /1–2 of 2/, 'each row leads to its records');
  const grants = [{ object: 'leads', actions: ['list', 'read'] as const }];
  const other = await makePerson(instance, [{ organization: acme, grants }]);
  assert.deepEqual(await chartOf(await signIn(instance, other)), []);
});

test('a checklist leads a new organization through its first steps, until they are done or it is hidden', async () => {
  const delta = await instance.organization('delta');
  const browser = await signIn(instance, administratorOf(delta));
  const home = '/setup/o/delta';
  const stepsOf = async (visitor: Visitor) => {
    const { text } = await visitor.get(home);
    const [list = ''] = /<section class="steps"[\s\S]*?<\/section>/.exec(text) ?? [];
    return [...list.matchAll(/<li>[\s\S]*?<\/li>/g)].map(
      ([item]) => /<a href="([^"]*)"/.exec(item)?.[1] ?? readable(item.replace(/<[^>]*>/g, '').trim()),
    );
  };
  const start = await stepsOf(browser);
  assert.deepEqual(start.sort(), [
    `${home}/data/accounts`,
    `${home}/integrations/add`,
    `${home}/members/invite`,
    'Create an API key (done)',
  ]);
  for (const path of start.filter((step) => step.startsWith(home)))
    assert.equal((await browser.get(path)).status, 200, path);
  const setClient = (client_id: string | null) =>
    tablesOf(instance.database)
      .updateTable('crm_api_keys')
      .set({ client_id })
      .where('organization_id', '=', delta.id)
      .execute();
  await setClient('the client of a connected app');
  assert.ok((await stepsOf(browser)).includes(`${home}/keys/create`), 'apps are not API keys');
  await setClient(null);
  const invited = async () => (await stepsOf(browser)).includes('Invite a colleague (done)');
  const page = `${home}/members`;
  const profile = await optionOf(browser, `${page}/invite`, 'read-only');
  await browser.submit(page, `${page}/invite`, { email: 'guest@people.example', profile });
  assert.ok(await invited(), 'an open invitation');
  const invitations = readable((await browser.get(`${page}?show=invitations`)).text);
  const id = /cancel\?id=(\d+)/.exec(invitations)?.[1] ?? assert.fail(invitations);
  await browser.submit(page, `${page}/cancel`, { id });
  assert.ok(!(await invited()));
  const reader = await makePerson(instance, [
    { organization: delta, grants: [{ object: 'leads', actions: ['list', 'read'] }] },
  ]);
  assert.deepEqual(await stepsOf(await signIn(instance, reader)), [], 'only administrators');
  await instance.call('POST /api/v1/leads', { key: delta.key, body: { last_name: 'Ames' } });
  assert.deepEqual((await stepsOf(browser)).sort(), [
    `${home}/integrations/add`,
    'Create an API key (done)',
    'Create or import records (done)',
    'Invite a colleague (done)',
  ]);
  const answer = await browser.submit(home, `${home}/hide-steps`);
  assert.deepEqual(await stepsOf(browser), [], 'hidden');
  const cookie = answer.headers.getSetCookie().find((each) => each.startsWith('crm_hide_steps='));
  assert.match(cookie ?? '', /; Max-Age=31536000\b/, 'for a year');
  assert.match(cookie ?? '', new RegExp(`; Path=${home}(?:;|$)`), 'in this organization only');
  const other = await signIn(instance, administratorOf(delta));
  assert.equal((await stepsOf(other)).length, 4, 'in this browser only');
  await integrate(instance, delta, 'telegram');
  assert.deepEqual(await stepsOf(other), [], 'all done');
});

test('shows the member’s records, the newest activity, and the new records of each week', async () => {
  const epsilon = await instance.organization('epsilon');
  for (const last_name of ['Ames', 'Bishop'])
    await instance.call('POST /api/v1/leads', { key: epsilon.key, body: { last_name } });
  const { key } = await epsilon.makeKey({ user: null });
  await instance.call('POST /api/v1/leads', { key, body: { last_name: 'Chen' } });
  await sql`update leads set created_at = now() - interval '7 days' where last_name = 'Chen' and organization_id = ${epsilon.id}::bigint`.execute(
    tablesOf(instance.database),
  );
  const sectionOf = async (browser: Visitor, label: string) => {
    const { text } = await browser.get('/setup/o/epsilon');
    const [section = ''] =
      new RegExp(`<section[^>]* aria-label="${label}"[\\s\\S]*?</section>`).exec(text) ?? [];
    const rows = [...section.matchAll(/<(li|tr)>([\s\S]*?)<\/\1>/g)];
    return rows.map(([, , row = '']) =>
      readable(row.replace(/<(?:title|time)[\s\S]*?<\/(?:title|time)>/g, '').replace(/<[^>]*>/g, ' '))
        .replace(/\s+/g, ' ')
        .trim(),
    );
  };
  const admin = await signIn(instance, administratorOf(epsilon));
  assert.deepEqual(
    await sectionOf(admin, 'My records'),
    ['Bishop Lead', 'Ames Lead'],
    'not the key’s record',
  );
  const activity = await sectionOf(admin, 'Recent activity');
  assert.equal(activity.length, 5);
  assert.match(activity[0] ?? '', /^Logged in /);
  assert.match(activity[1] ?? '', /^Lead “Chen” created /);
  const german = await admin.get('/setup/o/epsilon', { 'accept-language': 'de' });
  assert.match(readable(german.text), /Lead „Chen“ angelegt/);
  assert.deepEqual(await sectionOf(admin, 'New records per week'), [
    'Records Last week This week',
    'Leads 1 2',
  ]);
  // The first of the eight weeks, and the week before it.
  for (const [last_name, weeks] of [
    ['Old', 7],
    ['Older', 8],
  ] as const) {
    await instance.call('POST /api/v1/leads', { key, body: { last_name } });
    await sql`update leads set created_at = now() - ${weeks}::int * interval '7 days' where last_name = ${last_name}
      and organization_id = ${epsilon.id}::bigint`.execute(tablesOf(instance.database));
  }
  const [, trend = ''] =
    /<svg class="trend[^>]*>([\s\S]*?)<\/svg>/.exec((await admin.get('/setup/o/epsilon')).text) ?? [];
  assert.match(trend, /<title>Leads created per week: 1, 0, 0, 0, 0, 0, 1, 2<\/title>/);
  assert.deepEqual(
    [...trend.matchAll(/<rect x="(\d+)" y="(\d+)" width="8" height="(\d+)"/g)].map((bar) =>
      bar.slice(1).map(Number),
    ),
    [1, 0, 0, 0, 0, 0, 1, 2].map((count, week) => {
      const height = [1, 12, 24][count] ?? 0;
      return [10 * week, 24 - height, height];
    }),
  );
  const [, weekly = ''] =
    /aria-label="New records per week"[\s\S]*?<th scope="row"><a href="([^"]*)">Leads</.exec(
      (await admin.get('/setup/o/epsilon')).text,
    ) ?? [];
  assert.match(
    (await admin.get(readable(weekly))).text,
    /1–4 of 4/,
    'leads to the records of all eight weeks',
  );
  for (const last_name of ['Dee', 'Eve', 'Fay', 'Gil'])
    await instance.call('POST /api/v1/leads', { key: epsilon.key, body: { last_name } });
  await instance.call('POST /api/v1/accounts', { key: epsilon.key, body: { name: 'Hall' } });
  assert.deepEqual(
    await sectionOf(admin, 'My records'),
    ['Hall Account', 'Gil Lead', 'Fay Lead', 'Eve Lead', 'Dee Lead'],
    'those that changed last',
  );
  const grants = [{ object: 'leads', actions: ['list'] as const }];
  const lister = await signIn(instance, await makePerson(instance, [{ organization: epsilon, grants }]));
  for (const label of ['My records', 'Recent activity', 'New records per week'])
    assert.deepEqual(await sectionOf(lister, label), [], label);
});

test('shows how many deliveries of the last week succeeded and failed', async () => {
  const zeta = await instance.organization('zeta');
  const { id: bot } = await integrate(instance, zeta, 'telegram');
  for (const status of ['done', 'done', 'dead'])
    await delivered(instance, zeta.id, bot, { event: `${status}${Math.random()}`, status });
  const administrator = await signIn(instance, administratorOf(zeta));
  const chartOf = async (browser = administrator) => {
    const { text } = await browser.get('/setup/o/zeta');
    const [chart = '', title] =
      /<section class="chart" aria-label="Deliveries: ([^"]*)"[\s\S]*?<\/section>/.exec(text) ?? [];
    const rows = [
      ...readable(chart).matchAll(
        /<a href="[^"]*\?status=(\w+)">[\s\S]*?rect width="(\d+)"[\s\S]*?<td class="number">([\d,]+)</g,
      ),
    ].map(([, status, share, count]) => [status, count, share]);
    return title === undefined ? [] : [title, ...rows];
  };
  assert.deepEqual(await chartOf(), [
    'the last 7 days',
    ['waiting', '0', '0'],
    ['done', '2', '100'],
    ['dead', '1', '50'],
  ]);
  const grants = [{ object: 'leads', actions: ['list'] as const }];
  const reader = await makePerson(instance, [{ organization: zeta, grants }]);
  assert.deepEqual(await chartOf(await signIn(instance, reader)), [], 'only administrators');
  await sql`insert into crm_inbox (organization_id, integration_id, event_id, payload, status, done_at)
    select organization_id, id, 'many ' || n, '{}', 'done', now()
    from crm_integrations, generate_series(1, 998) n where id = ${bot}::bigint`.execute(
    tablesOf(instance.database),
  );
  assert.deepEqual(await chartOf(), [
    'the last 1,000',
    ['waiting', '0', '0'],
    ['done', '999', '100'],
    ['dead', '1', '0'],
  ]);
  await sql`update crm_inbox set received_at = now() - interval '8 days' where organization_id = ${zeta.id}::bigint`.execute(
    tablesOf(instance.database),
  );
  assert.deepEqual(await chartOf(), []);
});
