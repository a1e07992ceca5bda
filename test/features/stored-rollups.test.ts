// Rollups with `stored: true`, which every write of the combined records updates.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { deleteOrganization } from '../../plugins/tenants/organizations/index.ts';
import { administratorOf, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey } from '../support/limited.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';
import { outdatedRollups, projects, recordsOf, storedNames } from '../support/stored-rollups.ts';

const sources = await sourcesWith(...projects);
const eur = (amount: number) => ({ amount, currency: 'EUR' });
const only = (record: Readonly<Record<string, unknown>>, names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, record[name]]));

onBothDrivers(
  'Stored rollups',
  (instance, driver) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const call = (request: string, body?: unknown, options: Call = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), {
        key: acme.key,
        ...(body !== undefined && { body }),
        ...options,
      });
    const succeeds = async (request: string, body?: unknown, options: Call = {}) => {
      const answer = await call(request, body, options);
      assert.ok(answer.status < 300, `${request}: ${answer.text}`);
      return answer;
    };
    const create = async (path: string, body: object): Promise<number> =>
      Number((await succeeds(`POST ${path}`, body)).json.id);
    const sql = (text: string) => instance().database.run({ name: '', text, values: [] });
    const task = (project: number, price: number, more: object = {}) =>
      create('/tasks', { project_id: project, unit_price: price, ...more });
    /** Reads a project and checks its rollups. */
    const read = async (id: number) => {
      const answer = await succeeds(`GET /projects/${id}`);
      assert.deepEqual(outdatedRollups([answer.json]), []);
      return answer;
    };
    const none = {
      total: 0,
      paid: eur(0),
      tasks: 0,
      open_tasks: 0,
      smallest: null,
      largest: null,
      average: null,
      pieces: 0,
      last_due_on: null,
      last_seen_at: null,
      reviews: 0,
      profit: 0,
      parts: 0,
    };

    test('values follow the records in every way of changing them; writes of the record ignore them', async () => {
      const { json, headers } = await succeeds('POST /projects', { name: 'Roof', total: 7, tasks: 3 });
      assert.deepEqual(only(json, storedNames), none);
      const id = Number(json.id);
      const first = await task(id, 2.5, {
        quantity: 3,
        payment: eur(10.25),
        due_on: '2026-03-01',
        seen_at: '2026-03-01T09:30:00+01:00',
        profit: 4,
      });
      await task(id, 100, { payment: eur(0.75), due_on: '2026-04-01', seen_at: '2026-03-01T08:00:00Z' });
      await task(id, 1, { quantity: 7, status: 'done', reviewed_project_id: id });
      await create('/projects', { parent_id: id });
      const all = {
        total: 114.5,
        paid: eur(11),
        tasks: 3,
        open_tasks: 2,
        smallest: 7,
        largest: eur(10.25),
        average: 38.166666666666664,
        pieces: 11,
        last_due_on: '2026-04-01',
        last_seen_at: '2026-03-01T08:30:00Z',
        reviews: 1,
        profit: 4,
        parts: 1,
      };
      const current = await read(id);
      assert.deepEqual(only(current.json, storedNames), all);
      // The entity tag depends on the values, but the version and the time of the last change do not.
      const [stale, etag] = [headers.get('etag') ?? '', current.headers.get('etag') ?? ''];
      assert.notEqual(etag, stale);
      assert.equal(current.json.updated_at, json.updated_at);
      const versions = await sql(`select _version::text from projects where id = ${id}`);
      assert.deepEqual(versions, [['1']]);
      const unchanged = { headers: { 'if-none-match': etag } };
      assert.equal((await call(`GET /projects/${id}`, undefined, unchanged)).status, 304);
      const conditional = (tag: string) => ({ headers: { 'if-match': tag } });
      assert.equal((await call(`PATCH /projects/${id}`, { name: 'x' }, conditional(stale))).status, 412);
      const patched = await succeeds(`PATCH /projects/${id}`, { name: 'y', total: 1 }, conditional(etag));
      assert.deepEqual(only(patched.json, storedNames), all);
      const put = await succeeds(`PUT /projects/${id}`, { name: 'z', total: 1 });
      assert.deepEqual(only(put.json, storedNames), all);
      const strict = { headers: { prefer: 'handling=strict' } };
      const rejected = await call(`PATCH /projects/${id}`, { total: 1 }, strict);
      assert.deepEqual(rejected.json.fields, [{ field: 'total', message: 'total is read-only' }]);
      const total = async (project = id) => (await read(project)).json.total;
      // A record in the trash does not count until it is restored.
      await succeeds(`DELETE /tasks/${first}`);
      assert.equal(await total(), 107);
      await succeeds(`POST /tasks/${first}/restore`);
      assert.equal(await total(), 114.5);
      await succeeds(`PATCH /tasks/${first}`, { quantity: 4 });
      assert.equal(await total(), 117);
      // A record can stop matching a rollup's condition without any other change.
      for (const [status, count] of [
        ['done', 1],
        ['open', 2],
      ] as const) {
        await succeeds(`PATCH /tasks/${first}`, { status });
        assert.equal((await read(id)).json.open_tasks, count);
      }
      const other = await create('/projects', { name: 'Other' });
      await succeeds(`PATCH /tasks/${first}`, { project_id: other });
      assert.deepEqual([await total(), await total(other)], [107, 10]);
      await sql(`delete from tasks where id = ${first}`);
      assert.equal(await total(other), 0);
      const history = await succeeds(`GET /projects/${id}/history`);
      assert.deepEqual(
        recordsOf(history).map(({ action }) => action),
        ['update', 'update', 'create'],
      );
      assert.ok(!history.text.includes('"total"'), history.text);
    });

    test('one write of many records updates all records to which they refer or referred', async () => {
      const ids = [await create('/projects', {}), await create('/projects', {})];
      const [first = 0, second = 0] = ids;
      const batch = await succeeds('POST /tasks/batch', {
        records: Array.from({ length: 9 }, (_, index) => ({ project_id: ids[index % 2], unit_price: index })),
      });
      const tasks = (batch.json.results as { id: number }[]).map(({ id }) => id);
      const totals = async () => [(await read(first)).json.total, (await read(second)).json.total];
      assert.deepEqual(await totals(), [20, 16]);
      await succeeds('PATCH /tasks/batch', {
        records: tasks.map((id, index) => ({ id, project_id: ids[(index + 1) % 2], unit_price: index * 10 })),
      });
      assert.deepEqual(await totals(), [160, 200]);
      await succeeds('DELETE /tasks/batch', { ids: tasks.slice(0, 3) });
      assert.deepEqual(await totals(), [150, 180]);
      const csv = `project_id,unit_price\n${first},1000\n${second},2000\n${first},\n`;
      await succeeds('POST /tasks/import', csv, { headers: { 'content-type': 'text/csv' } });
      assert.deepEqual(await totals(), [1150, 2180]);
    });

    test('a write together with children returns their values', async () => {
      const body = { name: 'Nested', items: [{ unit_price: 1 }, { unit_price: 2, quantity: 2 }] };
      const { json, headers, text } = await succeeds('POST /projects', body);
      assert.deepEqual([json.total, json.tasks], [5, 2], text);
      const { headers: current } = await read(Number(json.id));
      assert.equal(current.get('etag'), headers.get('etag'));
      const put = await succeeds(`PUT /projects/${json.id}`, { name: 'Nested', items: [{ unit_price: 7 }] });
      assert.deepEqual([put.json.total, put.json.tasks], [7, 1]);
    });

    test('records of the same resource: a record does not count among its own, and deletes clear references', async () => {
      const id = await create('/projects', { name: 'Own parent' });
      await succeeds(`PATCH /projects/${id}`, { parent_id: id });
      assert.equal((await read(id)).json.parts, 0);
      const parent = await create('/projects', {});
      await succeeds(`PATCH /projects/${id}`, { parent_id: parent });
      assert.equal((await read(parent)).json.parts, 1);
      await task(parent, 5);
      await succeeds(`DELETE /projects/${parent}`);
      assert.equal((await read(id)).json.parent_id, null);
      await succeeds(`DELETE /projects/${id}`);
    });

    test('lists are filtered and sorted by them', async () => {
      const own = await instance().organization('sorting');
      const options = { key: own.key };
      await sql(
        `insert into projects (organization_id, name, created_at, updated_at) select ${own.id}, 'p' || n, now(), now() from generate_series(1, 30) n`,
      );
      await sql(
        `insert into tasks (organization_id, project_id, status, quantity, unit_price, payment, due_on, seen_at, created_at, updated_at)
         select ${own.id}, id, 'open', 1, substr(name, 2)::int % 10, substr(name, 2)::int, date '2026-01-01' + substr(name, 2)::int, timestamptz '2026-01-01' + substr(name, 2)::int * interval '1 day', now(), now()
         from projects where organization_id = ${own.id} and name <> 'p30'`,
      );
      const names = async (query: string) =>
        recordsOf(await succeeds(`GET /projects?fields=name&${query}`, undefined, options)).map(
          ({ name }) => name,
        );
      assert.deepEqual(await names('total[gte]=8&total[lt]=9.5&sort=total&dir=desc'), [
        'p29',
        'p19',
        'p9',
        'p28',
        'p18',
        'p8',
      ]);
      assert.deepEqual(await names('total=9'), ['p9', 'p19', 'p29']);
      assert.deepEqual(await names('total[in]=1&total[in]=2&sort=total'), [
        'p1',
        'p11',
        'p21',
        'p2',
        'p12',
        'p22',
      ]);
      assert.deepEqual(await names('total[ne]=0&total[lt]=2'), ['p1', 'p11', 'p21']);
      assert.deepEqual(await names('smallest[is_null]=true'), ['p30']);
      assert.deepEqual(await names('paid[gte]=29'), ['p29']);
      assert.deepEqual(await names('last_due_on[lt]=2026-01-03'), ['p1']);
      assert.deepEqual(await names('last_seen_at[gte]=2026-01-29'), ['p28', 'p29']);
      for (const sort of ['total', 'last_due_on', 'last_seen_at', 'paid', 'parts']) {
        const rows = await sql(
          `select name from projects where organization_id = ${own.id} order by ${sort} nulls last, id`,
        );
        const found: unknown[] = [];
        let next: string | undefined = `/api/v1/projects?sort=${sort}&fields=name`;
        while (next !== undefined) {
          const page = await instance().call(`GET ${next}`, options);
          assert.equal(page.status, 200, page.text);
          found.push(...recordsOf(page).map(({ name }) => name));
          const [, link] = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '') ?? [];
          next = link === undefined ? undefined : link.slice(link.indexOf('/api/'));
        }
        assert.deepEqual(found, rows.flat(), sort);
      }
      const indexes = String(await sql(`select indexname from pg_indexes where tablename = 'projects'`));
      assert.match(indexes, /projects_total_index/);
      const csv = await succeeds('GET /projects', undefined, { ...options, headers: { accept: 'text/csv' } });
      assert.match(csv.text, /^[^\n]*total,live_total,paid/);
      const { json } = await succeeds('POST /projects/import', csv.text.split('\n').slice(0, 2).join('\n'), {
        ...options,
        headers: { 'content-type': 'text/csv' },
      });
      assert.ok((json.ignored as string[]).includes('total'), JSON.stringify(json));
    });

    test('groups hide them, also in entity tags', async () => {
      const own = await instance().organization('hidden');
      const options = { key: own.key };
      const { json } = await succeeds('POST /projects', {}, options);
      await succeeds('POST /tasks', { project_id: json.id, profit: 5, unit_price: 1 }, options);
      const limited = await limitedKey(instance(), own, ['projects:list', 'projects:read']);
      const readLimited = () => succeeds(`GET /projects/${json.id}`, undefined, limited);
      const answer = await readLimited();
      assert.deepEqual([answer.json.total, 'profit' in answer.json], [1, false]);
      await sql(`update tasks set profit = 6 where organization_id = ${own.id}`);
      assert.equal((await readLimited()).headers.get('etag'), answer.headers.get('etag'));
      assert.equal((await call('GET /projects?sort=profit', undefined, limited)).status, 400);
      const { json: full } = await succeeds(`GET /projects/${json.id}`, undefined, options);
      assert.equal(full.profit, 6);
    });

    test('OpenAPI describes them as read-only, and pages and forms show them as such', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const { schemas } = (
        json as unknown as { components: { schemas: Record<string, { properties: object }> } }
      ).components;
      const { Project, ProjectInput } = schemas;
      assert.deepEqual(only({ ...Project?.properties }, ['total']), {
        total: {
          type: 'number',
          description:
            'A field. Sum of `amount` of all `tasks` that refer to the record through `project_id`.',
          readOnly: true,
        },
      });
      assert.ok(!('total' in (ProjectInput?.properties ?? {})));
      const browser = await signIn(instance(), administratorOf(acme));
      const id = await create('/projects', { name: 'Page' });
      await task(id, 98765.5, { seen_at: '2026-03-01T09:30:00Z' });
      const path = `/setup/o/${acme.slug}/data/projects`;
      const { text: form } = await browser.get(`${path}/${id}/edit`);
      assert.match(form, /id="in-name"/);
      assert.doesNotMatch(form, /id="in-total"/);
      const { text: page } = await browser.get(`${path}/${id}`);
      assert.match(page, /98,765\.5/);
      const { text: list } = await browser.get(`${path}?total[gte]=98765.5&last_seen_at[gte]=2026-03-01`);
      assert.match(list, new RegExp(`/projects/${id}[?"]`));
    });

    // The embedded database has one connection.
    const whereSeveralConnect = driver === 'embedded' ? () => {} : test;
    whereSeveralConnect('concurrent transactions update the same record one after the other', async () => {
      const id = await create('/projects', {});
      const insert = (price: number) =>
        `insert into tasks (organization_id, project_id, status, quantity, unit_price, created_at, updated_at) values (${acme.id}, ${id}, 'open', 1, ${price}, now(), now())`;
      const url = String(instance().config.environment.DATABASE_URL);
      await connected(url, (first) =>
        connected(url, async (second) => {
          await first.query('begin');
          await first.query(insert(1));
          // This transaction has a snapshot without the first one's record.
          await second.query('begin');
          const waiting = second.query(insert(20));
          const blocked = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'insert into tasks%'`;
          await until(async () => {
            // A transaction sees the same activity until its snapshot is cleared.
            await first.query('select pg_stat_clear_snapshot()');
            return (await first.query(blocked)).rows.length > 0;
          }, 'the insert to wait');
          await first.query('commit');
          await waiting;
          await second.query('commit');
        }),
      );
      assert.equal((await read(id)).json.total, 21);
    });

    test('an organization can be deleted', async () => {
      const own = await instance().organization('leaving');
      const options = { key: own.key };
      const { json } = await succeeds('POST /projects', { items: [{ unit_price: 3 }] }, options);
      const part = await succeeds('POST /projects', { parent_id: json.id }, options);
      await succeeds(`PATCH /projects/${json.id}`, { parent_id: part.json.id }, options);
      await deleteOrganization(instance().database, own.id);
      assert.deepEqual(await sql(`select id::text from projects where organization_id = ${own.id}`), []);
    });
  },
  { sources },
);
