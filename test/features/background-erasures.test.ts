// Background erasures: requested in the browser, searched in small steps, and carried out exactly once even if a
// process dies.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { backgroundWork } from '../../engine/modules/index.ts';
import { type Tables, tablesOf, transaction } from '../../engine/tables/index.ts';
import { createErasure } from '../../plugins/tenants/erasure/erase-person.ts';
import {
  cancelSearch,
  changeState,
  claimErasure,
  confirmErasure,
  releaseClaim,
  renewClaim,
} from '../../plugins/tenants/erasure/erasure-requests.ts';
import { watchAdmission } from '../support/admitted.ts';
import { settled } from '../support/erasures.ts';
import { administratorOf, formsOf, problemOf, readable, signIn } from '../support/forms.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { secondNode } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { untilWaiting, whileUncommitted } from '../support/uncommitted.ts';

onBothDrivers('erasures in the background', (instance, driver) => {
  let acme: Organization;
  let globex: Organization;
  before(async () => {
    acme = await instance().organization('acme');
    globex = await instance().organization('globex');
  });
  const call = async (request: string, body: object) => {
    const answer = await instance().call(request, { key: acme.key, body });
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  };

  const erasures = () => tablesOf(instance().database).selectFrom('crm_erasures');
  const find = '/setup/o/acme/forgetting/find';

  test('each search statement reads a bounded number of rows', async () => {
    const records = Array.from({ length: 500 }, (_, n) => ({ last_name: `Row ${n}` }));
    await call('POST /api/v1/leads/batch', { records });
    await call('POST /api/v1/leads', { last_name: 'Needleworth' });
    const { database } = instance();
    const limits: number[] = [];
    const erasure = createErasure(instance().resources);
    const result = await erasure.find(
      {
        run: (query) =>
          database.schedule(
            async () => {
              const { rows } = await query.execute(tablesOf(database));
              limits.push(rows.length);
              return rows;
            },
            { organization: acme.id, lane: 'export' },
          ),
      },
      { organization: acme.id, records: [], texts: ['Needleworth'] },
    );
    assert.equal(result.mentions.get('leads')?.length, 1);
    assert.ok(Math.max(...limits) < 500, String(Math.max(...limits)));
    assert.ok(limits.length > 10);
  });

  test('statements that take too long are repeated with one row, and the search fails if that takes too long', async () => {
    const slow = await instance().organization('slow');
    const tables = tablesOf(instance().database);
    const names = ['A', 'B', 'Needleworth', 'C'];
    for (const last_name of names)
      await instance().call('POST /api/v1/leads', { key: slow.key, body: { last_name } });
    await sql`create function cancel() returns boolean language plpgsql
      as $$ begin raise exception using errcode = 'query_canceled'; end $$`.execute(tables);
    const erasure = createErasure(instance().resources);
    /** Searches with statements that the database cancels if they read more than a number of rows. */
    const search = (maxRows: number) => {
      let statements = 0;
      return erasure.find(
        {
          run: async (query) => {
            assert.ok(++statements < 1000, 'the search does not end');
            const { rows } = await query.execute(tables);
            if (rows.length > maxRows) await sql`select cancel()`.execute(tables);
            return rows;
          },
        },
        { organization: slow.id, records: [], texts: ['Needleworth'] },
      );
    };
    try {
      assert.equal((await search(1)).mentions.get('leads')?.length, 1);
      await sql`insert into crm_notes (organization_id, resource, record_id, author_id, text)
        values (${slow.id}::bigint, 'leads', 1, ${slow.user}::bigint, 'A')`.execute(tables);
      await sql`alter table crm_notes rename to crm_notes_stored`.execute(tables);
      await sql`create view crm_notes as select * from crm_notes_stored where cancel()`.execute(tables);
      await assert.rejects(search(100), { code: '57014' });
      const browser = await signIn(instance(), administratorOf(slow));
      const path = find.replace('acme', 'slow');
      const failed = await settled(browser, await browser.submit(path, path, { texts: 'Needleworth' }));
      assert.match(failed.text, /a stored value is too large to search/);
    } finally {
      await sql`drop function cancel() cascade`.execute(tables);
      await sql`alter table if exists crm_notes_stored rename to crm_notes`.execute(tables);
    }
  });

  test('the request returns before the search, which can be canceled and is invisible to other organizations', async () => {
    const browser = await signIn(instance(), administratorOf(acme));
    const other = await signIn(instance(), administratorOf(globex));
    const response = await browser.submit(find, find, { texts: 'Wintermute' });
    assert.equal(response.status, 303);
    const location = response.headers.get('location') ?? assert.fail();
    const foreign = await other.get(location.replace('/acme/', '/globex/'));
    assert.equal(foreign.status, 404);
    assert.equal(problemOf(foreign), 'this search has expired. Start it again.');
    const id = new URL(location, 'http://x').searchParams.get('id') ?? assert.fail();
    const _csrf = await other.token('/setup/o/globex/forgetting/find');
    await other.post('/setup/o/globex/forgetting/cancel', { _csrf, id });
    assert.equal((await erasures().selectAll().where('id', '=', id).execute()).length, 1);
    const token = await browser.token(find);
    await browser.post('/setup/o/acme/forgetting/cancel', { _csrf: token, id });
    assert.deepEqual(await erasures().selectAll().where('id', '=', id).execute(), []);
  });

  test('another process completes an erasure after a crash, once, and leaves no personal data', async () => {
    const { id } = await call('POST /api/v1/leads', {
      last_name: 'Restartley',
      email: 'restartley@example.com',
    });
    const browser = await signIn(instance(), administratorOf(acme));
    const search = await browser.submit(find, find, { records: 'leads?email=restartley@example.com' });
    const question = await settled(browser, search);
    const form = formsOf(question).find(({ action }) => action.endsWith('/forget')) ?? assert.fail();
    const erasure = String(form.values.id);
    assert.doesNotMatch(
      JSON.stringify(await erasures().selectAll().execute()),
      /restartley/i,
      'requests are sealed',
    );
    // Simulate a process that died after claiming the erasure, and whose claim has expired.
    await tablesOf(instance().database)
      .updateTable('crm_erasures')
      .set({ state: 'erasing', claimed_until: new Date(Date.now() - 1000) })
      .where('id', '=', erasure)
      .execute();
    const again = await browser.post('/setup/o/acme/forgetting/forget', { ...form.values, word: 'erase' });
    assert.equal(again.status, 400, 'the erasure has already been confirmed');
    // Any request wakes the worker.
    await browser.submit(find, find, { texts: 'nobody@example.com' });
    await until(
      async () =>
        (await erasures().select('state').where('id', '=', erasure).executeTakeFirst())?.state === 'erased',
      'the erasure',
    );
    assert.equal((await instance().call(`GET /api/v1/leads/${id}`, { key: acme.key })).status, 404);
    const { request, result } = await erasures()
      .selectAll()
      .where('id', '=', erasure)
      .executeTakeFirstOrThrow();
    assert.deepEqual([request, result], ['', '']);
  });

  test('each statement that searches or erases holds a slot of its organization', async () => {
    await call('POST /api/v1/leads', { last_name: 'Slotted', email: 'slotted@example.com' });
    const browser = await signIn(instance(), administratorOf(acme));
    const watched = await watchAdmission(instance());
    try {
      const search = await browser.submit(find, find, { records: 'leads?email=slotted@example.com' });
      const question = await settled(browser, search);
      const form = formsOf(question).find(({ action }) => action.endsWith('/forget')) ?? assert.fail();
      await settled(
        browser,
        await browser.post('/setup/o/acme/forgetting/forget', { ...form.values, word: 'erase' }),
      );
    } finally {
      watched.stop();
    }
    const slotsOf = (pattern: RegExp) =>
      watched.statements.filter(({ text }) => pattern.test(text)).map(({ slot }) => slot);
    const [searches, writes] = [
      slotsOf(/\bas found\b/),
      slotsOf(/^\s*(?:update crm_ledger|with _written as \(delete from "leads")/),
    ];
    assert.ok(
      searches.length > 20 && writes.length > 5,
      `${searches.length} searches, ${writes.length} writes`,
    );
    assert.deepEqual([...new Set([...searches, ...writes])], [`export ${acme.id}`]);
  });

  test('limits concurrent searches and erasures per organization, without delaying other organizations', async () => {
    const busy = await instance().organization('busy');
    const rows = (['searching', 'searching', 'erasing', 'erased'] as const).map((state) => ({
      ...{ organization_id: busy.id, state, request: '', result: '', error: '' },
      ...{ searched: '1234', claimed_until: new Date(Date.now() + 600_000) },
    }));
    const tables = tablesOf(instance().database);
    await tables.insertInto('crm_erasures').values(rows).execute();
    const search = async (organization: Organization) => {
      const browser = await signIn(instance(), administratorOf(organization));
      const page = `/setup/o/${organization.slug}/forgetting/find`;
      return { browser, answer: await browser.submit(page, page, { texts: 'nobody@example.com' }) };
    };
    const { browser, answer } = await search(busy);
    assert.equal(answer.status, 400);
    assert.match(problemOf(answer), /already has 3 searches or erasures in progress/);
    const inProgress = tables
      .selectFrom('crm_erasures')
      .select('id')
      .where('organization_id', '=', busy.id)
      .where('state', '=', 'erasing');
    const [{ id = '' } = {}] = await inProgress.execute();
    const _csrf = await browser.token('/setup/o/busy/forgetting/find');
    await browser.post('/setup/o/busy/forgetting/cancel', { _csrf, id });
    assert.equal((await inProgress.execute()).length, 1, 'an erasure cannot be canceled');
    for (const { id, state } of await tables
      .selectFrom('crm_erasures')
      .select(['id', 'state'])
      .where('organization_id', '=', busy.id)
      .execute()) {
      const path = `/setup/o/busy/forgetting/search?id=${id}`;
      const page = await browser.get(path);
      const isCancelable = formsOf(page).some(({ action }) => action.endsWith('/forgetting/cancel'));
      assert.equal(isCancelable, state === 'searching', state);
      const german = await browser.get(path, { 'accept-language': 'de' });
      assert.deepEqual(
        [readable(page.text).includes('1,234'), readable(german.text).includes('1.234')],
        [state !== 'erased', state !== 'erased'],
        state,
      );
    }
    const other = await search(globex);
    assert.equal((await settled(other.browser, other.answer)).status, 200);
    await tables
      .updateTable('crm_erasures')
      .set({ state: 'erased' })
      .where('organization_id', '=', busy.id)
      .where('state', '=', 'erasing')
      .execute();
    assert.equal((await search(busy)).answer.status, 303, 'a completed erasure makes room');
  });

  if (driver === 'postgresql')
    test('the limit includes searches that are requested at the same time', async () => {
      const racing = await instance().organization('racing');
      const searching = { organization_id: racing.id, state: 'searching' as const, request: '', result: '' };
      const claimed_until = new Date(Date.now() + 600_000);
      await tablesOf(instance().database)
        .insertInto('crm_erasures')
        .values([1, 2].map(() => ({ ...searching, error: '', searched: '0', claimed_until })))
        .execute();
      const browser = await signIn(instance(), administratorOf(racing));
      const page = '/setup/o/racing/forgetting/find';
      const otherSearch = [
        `select from crm_organizations where id = ${racing.id} for update`,
        `insert into crm_erasures (organization_id, state, request, result, error, searched, claimed_until)
          values (${racing.id}, 'searching', '', '', '', 0, now() + interval '10 minutes')`,
      ];
      const answer = await whileUncommitted(instance(), otherSearch, () =>
        browser.submit(page, page, { texts: 'nobody@example.com' }),
      );
      assert.equal(answer.status, 400);
      assert.match(problemOf(answer), /already has 3 searches or erasures in progress/);
    });

  test('search results are deleted after an hour, and completed erasures after a day', async () => {
    const old = await instance().organization('old');
    const cases = [
      ...(['found', 'nothing', 'failed'] as const).flatMap((state) => [
        { state, minutes: 59, isKept: true },
        { state, minutes: 61, isKept: false },
      ]),
      { state: 'erased', minutes: 24 * 60 - 1, isKept: true },
      { state: 'erased', minutes: 24 * 60 + 1, isKept: false },
      { state: 'searching', minutes: 100_000, isKept: true },
      { state: 'erasing', minutes: 100_000, isKept: true },
    ] as const;
    const tables = tablesOf(instance().database);
    const browser = await signIn(instance(), administratorOf(acme));
    const rows = cases.map(({ state, minutes }) => ({
      ...{ organization_id: old.id, state, request: '', result: '', error: `${state} ${minutes}` },
      ...{ searched: '0', claimed_until: new Date(Date.now() + 600_000) },
      changed_at: new Date(Date.now() - minutes * 60_000),
    }));
    await tables.insertInto('crm_erasures').values(rows).execute();
    const kept = cases.filter(({ isKept }) => isKept).map(({ state, minutes }) => `${state} ${minutes}`);
    const left = async () =>
      (await erasures().select('error').where('organization_id', '=', old.id).orderBy('id').execute()).map(
        ({ error }) => error,
      );
    // Any request wakes the worker.
    await browser.submit(find, find, { texts: 'nobody@example.com' });
    await until(async () => (await left()).length <= kept.length, 'the deletion');
    assert.deepEqual(await left(), kept);
  });

  /** Runs work in a transaction that is rolled back, so that the service does not see its rows. */
  const undone = async (work: (tables: Tables) => Promise<void>) => {
    const end = new Error('the end');
    const run = transaction(instance().database, async (tables) => {
      await work(tables);
      throw end;
    });
    await assert.rejects(run, end);
  };
  const row = { request: '', result: '', error: '', searched: '0', claimed_until: null };

  test('the oldest erasure is claimed first, and only one per organization at a time', async () => {
    const [one, two] = [await instance().organization('one'), await instance().organization('two')];
    await undone(async (tables) => {
      const rows = ([two, one, one] as const).map(({ id }, index) => ({
        ...{
          ...row,
          organization_id: id,
          state: index === 1 ? ('erasing' as const) : ('searching' as const),
        },
        changed_at: new Date(Date.now() - (index + 1) * 86_400_000),
      }));
      await tables.insertInto('crm_erasures').values(rows).execute();
      const claim = async () => {
        const claimed = await claimErasure(tables);
        return claimed && [claimed.organization, claimed.state, claimed.id];
      };
      const first = await claim();
      assert.deepEqual(first?.slice(0, 2), [one.id, 'searching']);
      assert.deepEqual((await claim())?.slice(0, 2), [two.id, 'searching']);
      assert.equal(await claim(), undefined, 'the other one of the first organization waits');
      assert.ok(await changeState(tables, one.id, first?.[2] ?? '', 'searching', { state: 'found' }));
      assert.deepEqual((await claim())?.slice(0, 2), [one.id, 'erasing']);
      await tables
        .updateTable('crm_erasures')
        .set({ state: 'found', claimed_until: null })
        .where('organization_id', '=', two.id)
        .execute();
      assert.equal(await claim(), undefined, 'a result is not searched for again');
    });
  });

  test('a claim is renewed with its progress until the search ends, and can be released', async () => {
    const { id: organization } = await instance().organization('renewed');
    await undone(async (tables) => {
      const yesterday = new Date(Date.now() - 86_400_000);
      const own = {
        ...row,
        organization_id: organization,
        state: 'searching' as const,
        changed_at: yesterday,
      };
      const [{ id } = assert.fail(), { id: other } = assert.fail()] = await tables
        .insertInto('crm_erasures')
        .values([own, own])
        .returning('id')
        .execute();
      const stateOf = async (erasure: string) => {
        const { rows } = await sql<{ searched: number; isClaimed: boolean; isChanged: boolean }>`
          select searched::int as searched, claimed_until is not null and claimed_until > now() + interval '30 seconds' as "isClaimed",
            changed_at = now() as "isChanged" from crm_erasures where id = ${erasure}::bigint`.execute(
          tables,
        );
        return Object.values(rows[0] ?? {});
      };
      const claim = { organization, id, state: 'searching', request: '' } as const;
      assert.equal(await renewClaim(tables, claim, 7), true);
      assert.deepEqual(
        [await stateOf(id), await stateOf(other)],
        [
          [7, true, false],
          [0, false, false],
        ],
      );
      await renewClaim(tables, { ...claim, id: other }, 9);
      await releaseClaim(tables, claim);
      assert.deepEqual(
        [await stateOf(id), await stateOf(other)],
        [
          [7, false, false],
          [9, true, false],
        ],
      );
      await renewClaim(tables, claim, 8);
      assert.ok(await changeState(tables, organization, id, 'searching', { state: 'found' }));
      assert.deepEqual(
        [await stateOf(id), await stateOf(other)],
        [
          [8, false, true],
          [9, true, false],
        ],
      );
      assert.equal(await renewClaim(tables, claim, 10), false);
    });
  });

  test('a search and its result can be discarded, but not an erasure', async () => {
    const { id: organization } = await instance().organization('discarded');
    await undone(async (tables) => {
      const states = ['searching', 'found', 'nothing', 'failed', 'erasing', 'erased'] as const;
      const inserted = await tables
        .insertInto('crm_erasures')
        .values(states.map((state) => ({ ...row, organization_id: organization, state })))
        .returning(['id', 'state'])
        .execute();
      const left = async () => {
        const own = tables
          .selectFrom('crm_erasures')
          .select('state')
          .where('organization_id', '=', organization);
        return (await own.orderBy('id').execute()).map(({ state }) => state);
      };
      for (const [index, { id, state }] of inserted.entries()) {
        await cancelSearch(tables, organization, id);
        assert.deepEqual(await left(), states.slice(Math.min(index + 1, 4)), state);
      }
    });
  });

  test('erasures that fail for an unknown reason are repeated later and do not delay others', async () => {
    const tables = tablesOf(instance().database);
    // As many as a process works on at the same time.
    const organizations = [
      await instance().organization('unreadable'),
      await instance().organization('unreadable-too'),
    ];
    const inserted = await tables
      .insertInto('crm_erasures')
      .values(organizations.map(({ id }) => ({ ...row, organization_id: id, state: 'searching' as const })))
      .returning('id')
      .execute();
    const failed = inserted.map(({ id }) => id);
    const browser = await signIn(instance(), administratorOf(acme));
    await logged(async (lines) => {
      const failures = () => lines().filter(({ msg }) => msg === 'erasure failed; it will be retried').length;
      const start = performance.now();
      await settled(browser, await browser.submit(find, find, { texts: 'nobody@example.com' }));
      await until(() => failures() > 1, 'both failures');
      const attempts = 1 + Math.floor((performance.now() - start) / 5000);
      assert.ok(failures() <= 2 * attempts, `${failures()} failures in at most ${attempts} attempts each`);
      const isPostponed = async () => {
        const { rows } = await sql<{ state: string; isLast: boolean; isSoon: boolean }>`
          select state, changed_at > created_at as "isLast",
            claimed_until < now() + interval '6 seconds' as "isSoon"
          from crm_erasures where id = any(${failed}::bigint[])`.execute(tables);
        for (const { state, isLast } of rows) assert.deepEqual([state, isLast], ['searching', true]);
        // The next attempt can be in progress.
        return rows.length === 2 && rows.every(({ isSoon }) => isSoon);
      };
      await until(isPostponed, 'the end of the attempts');
      const before = failures();
      await tables
        .updateTable('crm_erasures')
        .set({ claimed_until: null })
        .where('id', 'in', failed)
        .execute();
      await settled(browser, await browser.submit(find, find, { texts: 'nobody@example.com' }));
      await until(() => failures() > before + 1, 'further attempts');
    });
    await tables.deleteFrom('crm_erasures').where('id', 'in', failed).execute();
  });

  test('a search and a confirmed erasure start immediately, also if another process runs them', async () => {
    const requested: string[] = [];
    const background = backgroundWork((name) => void requested.push(name));
    const node = await secondNode(instance(), {}, background);
    try {
      const runs = () => requested.filter((name) => name === 'erasures').length;
      const browser = await signIn(node, administratorOf(globex));
      const at = '/setup/o/globex/forgetting';
      const sent = await browser.submit(`${at}/find`, `${at}/find`, { texts: 'nobody@example.com' });
      assert.deepEqual([sent.status, runs()], [303, 1], problemOf(sent));
      const id = new URL(sent.headers.get('location') ?? '', 'http://x').searchParams.get('id') ?? '';
      await tablesOf(instance().database)
        .updateTable('crm_erasures')
        .set({ state: 'found', claimed_until: null })
        .where('id', '=', id)
        .execute();
      const _csrf = await browser.token(`${at}/find`);
      const confirmed = await browser.post(`${at}/forget`, { _csrf, id, word: 'erase' });
      assert.deepEqual([confirmed.status, runs()], [303, 2], problemOf(confirmed));
    } finally {
      await node.close();
    }
  });

  test('a result can be confirmed once', async () => {
    const { id: organization } = await instance().organization('confirmed');
    await undone(async (tables) => {
      const { id } = await tables
        .insertInto('crm_erasures')
        .values({ ...row, organization_id: organization, state: 'found' })
        .returning('id')
        .executeTakeFirstOrThrow();
      const confirm = () => confirmErasure(tables, organization, id, 'sealed');
      await confirm();
      await assert.rejects(confirm(), { name: 'UserError' });
    });
  });

  // The embedded database runs one transaction at a time.
  if (driver === 'postgresql')
    test('a search that takes long does not delay the search of another organization', async () => {
      const long = await instance().organization('long-search');
      const { id: short } = await instance().organization('short-search');
      const tables = tablesOf(instance().database);
      await sql`insert into crm_notes (organization_id, resource, record_id, author_id, text)
        values (${long.id}::bigint, 'leads', 1, ${long.user}::bigint, 'A')`.execute(tables);
      // Reading the notes of the first organization waits for a lock.
      await sql`alter table crm_notes rename to crm_notes_stored`.execute(tables);
      await sql`create view crm_notes as select * from crm_notes_stored
        where organization_id <> ${sql.lit(long.id)} or pg_advisory_xact_lock_shared(4711) is not null`.execute(
        tables,
      );
      const search = async (slug: string) => {
        const browser = await signIn(instance(), administratorOf({ ...long, slug }));
        const page = find.replace('acme', slug);
        return { browser, sent: await browser.submit(page, page, { texts: 'nobody@example.com' }) };
      };
      try {
        await connected(String(instance().config.environment.DATABASE_URL), async (client) => {
          await client.query('begin; select pg_advisory_xact_lock(4711)');
          const first = await search('long-search');
          await untilWaiting(client, 'the first search to wait');
          const second = await search('short-search');
          await settled(second.browser, second.sent);
          const states = erasures().select('state').where('organization_id', 'in', [long.id, short]);
          assert.deepEqual(await states.orderBy('id').execute(), [
            { state: 'searching' },
            { state: 'nothing' },
          ]);
          await client.query('commit');
          await settled(first.browser, first.sent);
        });
      } finally {
        await sql`drop view if exists crm_notes`.execute(tables);
        await sql`alter table crm_notes_stored rename to crm_notes`.execute(tables);
      }
    });

  // The embedded database runs one transaction at a time.
  if (driver === 'postgresql')
    test('an erasure that another process has completed is not repeated, and a search ends with the service', async () => {
      const { id } = await call('POST /api/v1/leads', { last_name: 'Kept', email: 'taken.over@example.com' });
      const browser = await signIn(instance(), administratorOf(acme));
      const search = await browser.submit(find, find, { records: 'leads?email=taken.over@example.com' });
      const question = await settled(browser, search);
      const form = formsOf(question).find(({ action }) => action.endsWith('/forget')) ?? assert.fail();
      const { database, app, url } = instance();
      const tables = tablesOf(database);
      await connected(String(instance().config.environment.DATABASE_URL), async (client) => {
        await client.query('begin; lock table crm_notes in access exclusive mode');
        const sent = await browser.post('/setup/o/acme/forgetting/forget', { ...form.values, word: 'erase' });
        assert.equal(sent.status, 303, problemOf(sent));
        await untilWaiting(client, 'the erasure to search for the rows again');
        await client.query(
          `update crm_erasures set state = 'erased', claimed_until = null where id = ${form.values.id}; commit`,
        );
        await client.query('begin; lock table crm_notes in access exclusive mode');
        await browser.submit(find, find, { texts: 'nobody@example.com' });
        await untilWaiting(client, 'the search to wait');
        const lines = await logged(async () => {
          const closed = app.close();
          const isClosing = () =>
            fetch(`${url}/docs`).then(
              ({ status }) => status === 503,
              () => true,
            );
          await until(isClosing, 'the service to close');
          await client.query('rollback');
          await closed;
        });
        assert.ok(!lines.some(({ msg }) => /^erasure failed/.test(String(msg))), 'the stop is not a failure');
      });
      const newest = erasures().select(['state', 'claimed_until']).orderBy('id', 'desc').limit(1);
      assert.deepEqual(await newest.executeTakeFirst(), { state: 'searching', claimed_until: null });
      const { rows } = await sql`select from leads where id = ${id}::bigint`.execute(tables);
      assert.equal(rows.length, 1);
    });
});
