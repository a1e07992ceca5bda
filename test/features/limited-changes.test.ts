// A caller sees only the changes that its scopes and field groups allow: in a record's history and in the change feed, the
// scopes are evaluated on the record before and after each change.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import type { Change } from '../support/changes.ts';
import { runCommand } from '../support/command-line.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { jobs, limitedKey, limitedPerson, setGrants } from '../support/limited.ts';
import { until } from '../support/process.ts';
import { settledFeed } from '../support/receiver.ts';
import { sourcesWith } from '../support/sources.ts';

const seals = {
  file: 'seals.yaml',
  text: `
singular: seal
common: all
fields:
  name: { type: string }
  grade: { type: string, enum: [A, B] }
  open: { type: boolean }
  size: { type: integer, nullable: true }
scopes:
  good: grade == "A"
  open: open == true
  large: size > 5
filters: [name]
`,
};

onBothDrivers(
  'limited changes',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const call = async (request: string, body?: unknown, key = acme.key): Promise<Answer> => {
      const answer = await instance().call(request.replace(' ', ' /api/v1/'), {
        key,
        ...(body !== undefined && { body }),
      });
      assert.ok(answer.status < 300, answer.text);
      return answer;
    };
    const make = async (body: unknown) => Number((await call('POST jobs', body)).json.id);
    const change = (id: number, body: unknown) => call(`PATCH jobs/${id}`, body);
    const get = (path: string, key: string, headers: Readonly<Record<string, string>> = {}) =>
      instance().call(`GET ${path}`, { headers: { authorization: `Bearer ${key}`, ...headers } });
    const historyOf = async (id: number, key: string): Promise<readonly Change[]> => {
      const answer = await get(`/api/v1/jobs/${id}/history`, key);
      assert.equal(answer.status, 200, answer.text);
      return answer.json.data as Change[];
    };
    /** Reads the feed from a cursor, or from its start, to its end. */
    const feedOf = async (key: string, after = '') => {
      const changes: Change[] = [];
      for (let next = after, pages = 1; ; pages++) {
        const answer = await get(`/events?resources=jobs&after=${next}`, key);
        assert.equal(answer.status, 200, answer.text);
        changes.push(...(answer.json.data as Change[]));
        const isLast = next === answer.json.next || (answer.json.data as Change[]).length === 0;
        next = String(answer.json.next);
        if (isLast) return { changes, next, pages };
      }
    };
    const now = async (key: string) => {
      await settledFeed(instance());
      return String((await get('/events?after=now', key)).json.next);
    };
    /** Reads the feed until it contains a change to a record that is visible to everyone. */
    const feedOfRecord = async (id: number, key: string) => {
      let found: Change[] = [];
      const { changes: all } = await feedUntil(id, acme.key);
      assert.ok(all.length > 0);
      const { changes } = await feedOf(key);
      found = changes.filter((each) => each.id === id);
      return found;
    };
    /** Waits until the feed has caught up with a record's history. */
    const feedUntil = async (id: number, key: string) => {
      const { length } = await historyOf(id, acme.key);
      let changes: Change[] = [];
      await until(async () => {
        ({ changes } = await feedOf(key));
        return changes.filter((each) => each.id === id).length === length;
      }, 'the feed to catch up');
      return { changes };
    };
    const summarize = (changes: readonly Change[]) =>
      changes.map(({ action, version, before: previous, after }) => [
        action,
        version,
        previous?.name ?? null,
        after?.name ?? null,
      ]);
    const both = async (id: number, key: string) => {
      const history = summarize(await historyOf(id, key));
      const feed = summarize(await feedOfRecord(id, key));
      assert.deepEqual(feed.toReversed(), history, 'the feed and the history agree');
      return history;
    };

    test('entering the scopes is a creation, leaving them a deletion', async () => {
      const ann = await limitedPerson(instance(), acme, ['jobs:list:own', 'jobs:read:own']);
      const id = await make({ name: 'n1' });
      await change(id, { name: 'n2', owner_id: Number(ann.id) });
      await change(id, { name: 'n3' });
      await change(id, { name: 'n4', owner_id: Number(acme.user) });
      await change(id, { name: 'n5' });
      await change(id, { name: 'n6', owner_id: Number(ann.id) });
      await call(`DELETE jobs/${id}`);
      assert.deepEqual(await both(id, ann.key), [
        ['delete', 7, 'n6', null],
        ['create', 6, null, 'n6'],
        ['delete', 4, 'n3', null],
        ['update', 3, 'n2', 'n3'],
        ['create', 2, null, 'n2'],
      ]);
      const [, entered, left] = await historyOf(id, ann.key);
      assert.deepEqual(entered?.changed.includes('status'), true, 'all fields');
      assert.deepEqual(left?.changed.includes('status'), true, 'all fields');
      assert.doesNotMatch(JSON.stringify(await historyOf(id, ann.key)), /"n[145]"/);
      assert.deepEqual(
        (await historyOf(id, acme.key)).map(({ action }) => action),
        ['delete', 'update', 'update', 'update', 'update', 'update', 'create'],
      );
    });

    test('several scopes add up', async () => {
      const { key } = await limitedKey(instance(), acme, [
        'jobs:read:hot',
        'jobs:read:part',
        'jobs:list:hot',
        'jobs:list:part',
      ]);
      const parent = await make({ name: 'parent' });
      const id = await make({ name: 'n1', score: 5, due_at: '2026-03-01T01:00:00+02:00' });
      await change(id, { name: 'n2', score: 6 });
      await change(id, { name: 'n3', score: null, due_at: '2026-02-28T23:59:59.999999+02:00' });
      await change(id, { name: 'n4', due_at: '2026-02-28T22:00:00Z' });
      await change(id, { name: 'n5', parent_id: parent });
      assert.deepEqual(await both(id, key), [
        ['create', 5, null, 'n5'],
        ['delete', 4, 'n3', null],
        ['update', 3, 'n2', 'n3'],
        ['create', 2, null, 'n2'],
      ]);
    });

    test('hidden fields are absent, and changes to nothing else are omitted', async () => {
      const { key } = await limitedKey(instance(), acme, ['jobs:read', 'jobs:list']);
      const { key: trusted } = await limitedKey(instance(), acme, [
        'jobs:read',
        'jobs:list',
        'jobs.finance:read',
      ]);
      const id = await make({ name: 'n1', margin: 123_412_341, cost: 987_654_321 });
      const editor = await limitedPerson(instance(), acme, ['jobs:*', 'jobs.finance:*']);
      await call(`PATCH jobs/${id}`, { margin: 432_143_214 }, editor.key);
      await change(id, { name: 'n3', margin: 111_111_111 });
      await change(id, { name: 'n3' });
      await call(`DELETE jobs/${id}`);
      assert.deepEqual(await both(id, key), [
        ['delete', 5, 'n3', null],
        ['update', 3, 'n1', 'n3'],
        ['create', 1, null, 'n1'],
      ]);
      const [, update] = await historyOf(id, key);
      assert.deepEqual(update?.changed.toSorted(), ['last_modified_by_id', 'name', 'updated_at']);
      for (const path of [`/api/v1/jobs/${id}/history`, '/events?resources=jobs']) {
        const { text } = await get(path, key);
        assert.doesNotMatch(text, /margin|cost|finance|123412341|432143214|111111111|987654321/);
      }
      assert.deepEqual(
        (await historyOf(id, trusted)).map(({ changed }) => changed.includes('margin')),
        [true, false, true, true, true],
      );
    });

    test('a write by a caller who does not see a field logs its value', async () => {
      const { key } = await limitedKey(instance(), acme, ['jobs:*']);
      const id = await make({ name: 'n1', margin: 5 });
      await call(`PATCH jobs/${id}`, { name: 'n2' }, key);
      await call('PATCH jobs/batch', { records: [{ id, name: 'n3' }] }, key);
      await call(`DELETE jobs/${id}`, undefined, key);
      const history = await historyOf(id, acme.key);
      assert.deepEqual(
        history.map(({ before: previous, after }) => [previous?.margin, after?.margin]),
        [
          [5, undefined],
          [5, 5],
          [5, 5],
          [undefined, 5],
        ],
      );
      assert.ok(history.slice(1, 3).every(({ changed }) => !changed.includes('margin')));
    });

    test('a record of which no version is visible does not exist', async () => {
      const { key } = await limitedKey(instance(), acme, ['jobs:read:open', 'jobs:list:open']);
      const id = await make({ name: 'secret', status: 'Done' });
      await change(id, { name: 'secret too' });
      const missing = await get('/api/v1/jobs/999999999/history', key);
      const hidden = await get(`/api/v1/jobs/${id}/history`, key);
      assert.deepEqual([hidden.status, hidden.json.error], [404, missing.json.error]);
      await call(`DELETE jobs/${id}`);
      assert.equal((await get(`/api/v1/jobs/${id}/history`, key)).status, 404);
      assert.equal((await get(`/api/v1/jobs/${id}/history`, acme.key)).status, 200);
    });

    test('without changes in the log, only callers who can read the record get an empty history', async () => {
      const { key } = await limitedKey(instance(), acme, ['jobs:read:open', 'jobs:list']);
      for (const [status, code] of [
        ['New', 200],
        ['Done', 404],
      ] as const) {
        const id = await make({ name: 'unlogged', status });
        await sql`delete from crm_ledger where object = 'jobs' and object_id = ${id}::bigint`.execute(
          tablesOf(instance().database),
        );
        assert.equal((await get(`/api/v1/jobs/${id}/history`, key)).status, code, status);
        assert.deepEqual(await historyOf(id, acme.key), []);
      }
    });

    test('a key without a user owns nothing', async () => {
      const { key } = await limitedKey(instance(), acme, ['jobs:read:own', 'jobs:list:own']);
      const id = await make({ name: 'somebody' });
      assert.equal((await get(`/api/v1/jobs/${id}/history`, key)).status, 404);
      assert.deepEqual((await feedOf(key)).changes, []);
    });

    test('values that the scope cannot read, because a field had another type, are not visible', async () => {
      const { key } = await limitedKey(instance(), acme, [
        'jobs:read:hot',
        'jobs:read:part',
        'jobs:list:hot',
        'jobs:list:part',
      ]);
      const id = await make({ name: 'n1', score: 9, due_at: '2026-01-01T00:00:00Z' });
      await change(id, { name: 'n2' });
      assert.equal((await historyOf(id, key)).length, 2);
      for (const [field, value] of [
        ['score', '"high"'],
        ['score', '99999999999999999999'],
        ['due_at', '"soon"'],
        ['parent_id', '"x"'],
        ['parent_id', '1.5'],
      ] as const) {
        const image = { id, name: 'old', [field]: JSON.parse(value) as unknown };
        await sql`update crm_ledger set record = ${JSON.stringify(image)} where object = 'jobs' and object_id = ${id}::bigint and version = 1`.execute(
          tablesOf(instance().database),
        );
        assert.deepEqual(await both(id, key), [['create', 2, null, 'n2']], `${field} = ${value}`);
      }
    });

    test('a version that does not contain a field is not visible in a scope in which the field is empty', async () => {
      const { key } = await limitedKey(instance(), acme, ['jobs:read:whole', 'jobs:list:whole']);
      const id = await make({ name: 'n1' });
      await change(id, { name: 'n2' });
      assert.equal((await historyOf(id, key)).length, 2);
      // Erasures remove fields, and fields that are added later are missing, too.
      const image = { id, name: 'old', status: 'New' };
      await sql`update crm_ledger set record = ${JSON.stringify(image)} where object = 'jobs' and object_id = ${id}::bigint and version = 1`.execute(
        tablesOf(instance().database),
      );
      assert.deepEqual(await both(id, key), [['create', 2, null, 'n2']]);
    });

    test('an erased record is deleted for callers who could see it, without its content', async () => {
      const { key } = await limitedKey(instance(), acme, ['jobs:list:part', 'jobs:read:part']);
      const parent = await make({ name: 'parent' });
      const id = await make({ name: 'Erika Mustermann', parent_id: parent });
      const other = await make({ name: 'Erika Mustermann' });
      await historyOf(id, key);
      await runCommand(instance(), [
        ...['person', 'forget', '--org', 'acme', '--records', 'jobs?name=Erika Mustermann', '--erase'],
        ...['--text', 'Erika Mustermann'],
      ]);
      assert.deepEqual(await both(id, key), [['delete', 2, null, null]]);
      const [deletion] = await historyOf(id, acme.key);
      assert.deepEqual(deletion?.before, { owner_id: Number(acme.user), parent_id: parent });
      assert.equal((await get(`/api/v1/jobs/${other}/history`, key)).status, 404);
      assert.doesNotMatch((await get(`/api/v1/jobs/${id}/history`, acme.key)).text, /Erika/);
    });

    test('the logged deletion of an erased record keeps only values that are not personal data', async () => {
      const ids: unknown[] = [];
      for (const values of [
        { grade: 'A', open: true },
        { grade: 'Erika', open: false },
      ])
        ids.push((await call('POST seals', { name: 'Erika Beispiel', size: 7, ...values })).json.id);
      const selection = 'seals?name=Erika Beispiel';
      await runCommand(instance(), ['person', 'forget', '--org', 'acme', '--records', selection, '--erase']);
      const kept = ids.map(async (id) => {
        const { json } = await get(`/api/v1/seals/${id}/history`, acme.key);
        return (json.data as Change[])[0]?.before;
      });
      assert.deepEqual(await Promise.all(kept), [{ grade: 'A', open: true }, { open: false }]);
    });

    test("the feed's statement contains the caller's scopes and no hidden fields; other callers share one statement", async () => {
      const { key } = await limitedKey(instance(), acme, ['jobs:list:open']);
      const { key: unlimited } = await limitedKey(instance(), acme, ['jobs:list', 'jobs.finance:read']);
      const { database } = instance();
      const { run } = database;
      const statements: Parameters<typeof run>[0][] = [];
      Object.assign(database, {
        run: (...call: Parameters<typeof run>) => {
          if (call[0].name.startsWith('ledger_page')) statements.push(call[0]);
          return run(...call);
        },
      });
      try {
        for (const each of [key, unlimited, acme.key]) await get('/events', each);
      } finally {
        Object.assign(database, { run });
      }
      const [limited, ...others] = statements.map(({ name, text, values }) => ({ name, text, values }));
      assert.match(limited?.name ?? '', /^ledger_page_[0-9a-f]{16}$/);
      for (const side of ['after', 'before'])
        assert.ok(limited?.text.includes(`when 'jobs' then coalesce(_i."${side}" is not null and (`));
      assert.doesNotMatch(JSON.stringify(limited), /margin|cost/);
      assert.deepEqual(
        others.map(({ name, text }) => [name, text.includes('_v."after"')]),
        [
          ['ledger_page', false],
          ['ledger_page', false],
        ],
      );
    });

    describe('cursors', () => {
      test('history pages are full, and their cursors are valid only for the same limits', async () => {
        const { key } = await limitedKey(instance(), acme, ['jobs:read:open']);
        const { key: other } = await limitedKey(instance(), acme, ['jobs:read:hot']);
        const id = await make({ name: 'n1', score: 9 });
        for (let number = 2; number <= 46; number++)
          await change(id, { name: `n${number}`, status: number % 2 === 0 ? 'Done' : 'New' });
        const first = await get(`/api/v1/jobs/${id}/history`, key);
        assert.equal((first.json.data as unknown[]).length, 20);
        const link = /<[^>]*\/api(\/.*)>; rel="next"/.exec(first.headers.get('link') ?? '')?.[1] ?? '';
        const numbers: number[] = [];
        for (let next: string | undefined = `/v1/jobs/${id}/history`; next !== undefined; ) {
          const page: Answer = await get(`/api${next}`, key);
          numbers.push(...(page.json.data as Change[]).map(({ version }) => version));
          next = /<[^>]*\/api(\/.*)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
        }
        assert.deepEqual(
          numbers,
          Array.from({ length: 46 }, (_, index) => 46 - index),
          'each change enters or leaves the scope',
        );
        assert.equal((await get(`/api${link}`, key)).status, 200);
        for (const foreign of [other, acme.key])
          assert.equal((await get(`/api${link}`, foreign)).status, 400);
        const full = await get(`/api/v1/jobs/${id}/history`, acme.key);
        const fullLink = /<[^>]*\/api(\/.*)>; rel="next"/.exec(full.headers.get('link') ?? '')?.[1] ?? '';
        assert.equal((await get(`/api${fullLink}`, key)).status, 400);
      });

      test('the feed advances past changes that are not visible; its cursors are valid only for the same limits', async () => {
        const { key } = await limitedKey(instance(), acme, ['jobs:list:hot']);
        const start = await now(key);
        const count = 520;
        for (let made = 0; made < count; made += 260)
          await call('POST jobs/batch', {
            records: Array.from({ length: 260 }, (_, index) => ({ name: `cold ${made + index}` })),
          });
        const id = await make({ name: 'hot', score: 9 });
        await feedUntil(id, acme.key);
        const changes: Change[] = [];
        let pages = 0;
        let next = start;
        for (; changes.length === 0; pages++) {
          const answer = await get(`/events?after=${next}`, key);
          changes.push(...(answer.json.data as Change[]));
          next = String(answer.json.next);
        }
        assert.deepEqual([pages, changes.map((each) => each.id)], [1, [id]], 'empty pages are skipped');
        for (const foreign of [acme.key, (await limitedKey(instance(), acme, ['jobs:list:open'])).key])
          assert.equal((await get(`/events?after=${next}`, foreign)).status, 400);
        assert.equal((await get(`/events?after=${await now(acme.key)}`, key)).status, 400);
        const same = await limitedKey(instance(), acme, ['jobs:list:hot']);
        assert.equal((await get(`/events?after=${next}`, same.key)).status, 200);
      });

      test('pages of the feed continue after the last change, however many digits its ID has', async () => {
        const { key } = await limitedKey(instance(), acme, ['jobs:list']);
        const start = await now(key);
        await sql`select setval(pg_get_serial_sequence('crm_ledger', 'id'), 99800)`.execute(
          tablesOf(instance().database),
        );
        const names = Array.from({ length: 600 }, (_, index) => `digits ${index}`);
        await call('POST jobs/batch', { records: names.map((name) => ({ name })) });
        let changes: readonly Change[] = [];
        await until(async () => {
          ({ changes } = await feedOf(key, start));
          return changes.length >= names.length;
        }, 'the feed to catch up');
        assert.deepEqual(
          changes.map(({ after }) => after?.name),
          names,
        );
      });
    });

    test('waiting ignores changes that are not visible, and ends with 400 if the limits change', async () => {
      const { key, profile } = await limitedKey(instance(), acme, ['jobs:list:hot']);
      const start = await now(key);
      const waiting = get(`/events?wait=25&after=${start}`, key);
      await make({ name: 'cold', score: 1 });
      const id = await make({ name: 'hot', score: 9 });
      assert.deepEqual(
        ((await waiting).json.data as Change[]).map((each) => each.id),
        [id],
      );
      const again = get(`/events?wait=25&after=${await now(key)}`, key);
      await setGrants(instance(), acme, profile, ['jobs:list:open']);
      const cold = make({ name: 'cold', score: 1 });
      let isOver = false;
      again.then(() => {
        isOver = true;
      });
      await cold;
      // A change wakes the reader, which then has new limits.
      await until(async () => {
        await make({ name: 'cold', score: 1 });
        return isOver;
      }, 'the wait to end');
      assert.equal((await again).status, 400);
    });

    test('a stream contains only visible changes, and ends when the limits change', async () => {
      const { key, profile } = await limitedKey(instance(), acme, ['jobs:list:hot']);
      const start = await now(key);
      const response = await fetch(`${instance().url}/events?after=${start}`, {
        headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
      });
      let text = '';
      let isOver = false;
      const reading = (async () => {
        for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString();
        isOver = true;
      })().catch(() => {
        isOver = true;
      });
      await make({ name: 'cold', score: 1, margin: 471_147_711 });
      const id = await make({ name: 'hot', score: 9, margin: 471_147_711 });
      await until(async () => text.includes('data:'), 'a change');
      assert.match(text, new RegExp(`"id":${id},`));
      assert.doesNotMatch(text, /cold|471147|margin/);
      await setGrants(instance(), acme, profile, ['jobs:list']);
      await until(async () => {
        await make({ name: 'later', score: 9 });
        return isOver;
      }, 'the stream to end');
      await reading;
      const last = [...text.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? '';
      assert.equal((await get('/events', key, { 'last-event-id': last })).status, 400);
    });
  },
  { sources: await sourcesWith(jobs, seals), ownServer: true },
);
