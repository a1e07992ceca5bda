// Lists as CSV and NDJSON: complete, exact, and sent at the reader's pace.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { before, describe, test } from 'node:test';
import { parse } from 'csv-parse/sync';
import fastify from 'fastify';
import { authorize } from '../../engine/http/index.ts';
import { commandCaller, everyGrant, exportStream } from '../../engine/records/index.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey, setGrants } from '../support/limited.ts';
import { activityOf } from '../support/people.ts';
import { until } from '../support/process.ts';
import { type Scenario, scenarios } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';

const [csv, ndjson] = ['text/csv', 'application/x-ndjson'];
/** Number of records, which does not fit into one batch of an indexed list. */
const many = 1150;

const linked = {
  file: 'resources/linked-leads.yaml',
  text: `extends: leads
fields:
  account_id: { type: reference, to: accounts, nullable: true }
scopes:
  hot: rating == "Hot"
`,
};

onBothDrivers(
  'exports of lists',
  (instance, driver) => {
    let alpha: Organization;
    let beta: Organization;
    const callers: Record<string, string> = {};
    const world = () => ({ callers, values: {} });
    const as = (accept: string) => ({ headers: { accept } });

    before(async () => {
      alpha = await instance().organization('alpha');
      beta = await instance().organization('beta');
      callers.alpha = alpha.key;
      callers.beta = beta.key;
      callers.reader = await alpha.keyWith([{ object: 'leads', actions: ['read'] }]);
      for (const [{ id }, count] of [
        [alpha, many],
        [beta, 2],
      ] as const) {
        await instance().database.run({
          name: '',
          text: `insert into leads (organization_id, created_at, updated_at, status, last_name, owner_id, description)
          select $1::bigint, now() - n * interval '1 minute', now(), case when n <= 45 then 'New' else 'Old' end, 'L' || n % 100,
          case when n % 3 = 0 then n end, repeat('x', n % 50) from generate_series(1, $2::text::int) n`,
          values: [id, String(count)],
        });
      }
      await instance().database.run({ name: '', text: 'analyze leads', values: [] });
    });

    const get = (query: string, accept: string, key = alpha.key) =>
      instance().call(`GET /api/v1/leads${query}`, { key, ...as(accept) });
    const lines = (text: string) => text.split('\n').slice(0, -1);
    const ids = (text: string) => lines(text).map((line) => String(JSON.parse(line).id));

    /** Reads a list page by page and returns all of its records as JSON text. */
    async function byPages(query: string): Promise<unknown[]> {
      const records: unknown[] = [];
      for (let path: string | undefined = `/api/v1/leads${query}`; path !== undefined; ) {
        const answer = await instance().call(`GET ${path}`, { key: alpha.key });
        records.push(...(answer.json.data as unknown[]));
        path = /^<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];
      }
      return records;
    }

    scenarios(instance, world, [
      { does: 'GET /api/v1/leads', ...as(csv), gets: 401 },
      { as: 'reader', does: 'GET /api/v1/leads', ...as(csv), gets: 403 },
      ...[csv, ndjson].flatMap((accept): Scenario[] => [
        {
          as: 'alpha',
          does: 'GET /api/v1/leads?page=2',
          ...as(accept),
          gets: 400,
          has: { code: 'invalid_input' },
        },
        { as: 'alpha', does: 'GET /api/v1/leads?sort=nothing', ...as(accept), gets: 400 },
        { as: 'alpha', does: 'GET /api/v1/leads?email[gt]=x', ...as(accept), gets: 400 },
        { as: 'alpha', does: 'GET /api/v1/leads?cursor=x.y', ...as(accept), gets: 400 },
        {
          as: 'alpha',
          does: 'GET /api/v1/leads?mail=x',
          headers: { accept, prefer: 'handling=strict' },
          gets: 400,
          has: { error: 'mail is not a parameter of this operation. Did you mean "email"?' },
        },
        {
          as: 'alpha',
          does: 'GET /api/v1/leads/1',
          ...as(accept),
          gets: 200,
          has: { id: 1 },
          name: `one record as ${accept}`,
        },
        {
          as: 'alpha',
          does: 'POST /api/v1/cases',
          with: {},
          ...as(accept),
          gets: 201,
          has: { status: 'New' },
        },
      ]),
    ]);

    for (const [accept, type] of [
      ['*/*', 'application/json; charset=utf-8'],
      ['application/json, text/csv', 'application/json; charset=utf-8'],
      ['text/csv;q=0', 'application/json; charset=utf-8'],
      ['text/*', 'application/json; charset=utf-8'],
      ['application/xml', 'application/json; charset=utf-8'],
      ['text/html, */*;q=0.8, text/csv;q=0.1', 'application/json; charset=utf-8'],
      ['text/csv;q=0.5, application/*', 'application/json; charset=utf-8'],
      ['application/json;q=0.9, text/csv;q=0.9', 'application/json; charset=utf-8'],
      ['text/csv, */*', 'text/csv; charset=utf-8; header=present'],
      // A range with a type applies to JSON rather than any type.
      ['*/*, application/*;q=0.5, text/csv;q=0.7', 'text/csv; charset=utf-8; header=present'],
      ['text/csv, application/x-ndjson', 'text/csv; charset=utf-8; header=present'],
      ['Text/CSV; charset=utf-8', 'text/csv; charset=utf-8; header=present'],
      ['application/json;q=0.5, application/x-ndjson', 'application/x-ndjson; charset=utf-8'],
      ['text/csv;q=0.5, application/x-ndjson;q=0.6', 'application/x-ndjson; charset=utf-8'],
    ]) {
      test(`Accept: ${accept} returns ${type}`, async () => {
        const answer = await get('', accept ?? '', beta.key);
        assert.deepEqual([answer.status, answer.headers.get('content-type')], [200, type]);
      });
    }

    for (const query of [
      '',
      '?status=New',
      '?sort=last_name&dir=desc',
      '?sort=owner_id',
      '?sort=owner_id&dir=desc',
      '?q=L1&sort=id',
      '?status[ne]=New&owner_id[is_null]=true',
      '?status=Neither',
    ]) {
      test(`?${query} returns the same records as its pages, in both formats`, async () => {
        const pages = await byPages(query);
        const answer = await get(query, ndjson);
        assert.equal(answer.status, 200);
        assert.deepEqual(
          lines(answer.text).map((line) => JSON.parse(line)),
          pages,
        );
        const table = parse((await get(query, csv)).text, { columns: true }) as { id: string }[];
        assert.deepEqual(
          table.map(({ id }) => id),
          ids(answer.text),
        );
      });
    }

    test('starts at a cursor and verifies its signature', async () => {
      const all = ids((await get('', ndjson)).text);
      const link = (await get('', '*/*')).headers.get('link') ?? '';
      const cursor = /cursor=([^>]+)>/.exec(link)?.[1];
      assert.deepEqual(ids((await get(`?cursor=${cursor}`, ndjson)).text), all.slice(20));
      assert.equal((await get(`?cursor=${cursor}`, ndjson, beta.key)).status, 400);
    });

    test('an empty list is a header line in CSV and empty in NDJSON', async () => {
      const names = instance()
        .resources.find(({ name }) => name === 'cases')
        ?.definition.fields.map(({ name }) => name);
      const empty = (accept: string) =>
        instance().call('GET /api/v1/cases', { key: beta.key, ...as(accept) });
      assert.equal((await empty(csv)).text, `${names?.join(',')}\r\n`);
      assert.equal((await empty(ndjson)).text, '');
    });

    test('values are exact: 64 bits, decimals, offsets, null and "", quotes, line ends, formulas', async () => {
      const body = `{"name":"=1+1","amount":123456789012345.6780,"stage":"","close_date":"2026-03-01T09:30:00.120+05:30",
      "description":"a \\"b\\", c\\r\\nd"}`;
      const response = await instance().call('POST /api/v1/opportunities', { key: beta.key, body });
      assert.equal(response.status, 201);
      const list = (accept: string) =>
        instance().call('GET /api/v1/opportunities', { key: beta.key, ...as(accept) });
      assert.equal((await list(ndjson)).text, `${response.text}\n`);
      const { text } = await list(csv);
      assert.match(text, /,123456789012345\.6780,/);
      assert.ok(text.includes(',2026-03-01T09:30:00.12+05:30,') && text.includes(',=1+1,'), text);
      assert.ok(text.includes('"a ""b"", c\r\nd"') && text.includes(',"",'), text);
      const [row] = parse(text, { columns: true }) as Record<string, string>[];
      assert.equal(row?.account_id, '');
      for (const [description, cell] of [
        ['e\rf', '"e\rf"'],
        ['e\nf', '"e\nf"'],
        ['"', '""""'],
        [";f'", ";f'"],
      ] as const) {
        const path = `PATCH /api/v1/opportunities/${response.json.id}`;
        await instance().call(path, { key: beta.key, body: { description } });
        assert.ok((await list(csv)).text.includes(`,${cell}`), cell);
      }
    });

    test('continues after records larger than a whole batch, wherever they are', async () => {
      const { id, key } = await instance().organization('large');
      // A batch ends after 4 MiB of text.
      const megabytes = ['0 5', '3 2', '1 0', '1 0', '5 0', '4 0', '0 4', '1 0', '0 9'];
      await instance().database.run({
        name: '',
        text: `insert into leads (organization_id, created_at, updated_at, last_name, company, description)
          select $1::bigint, now(), now(), 'L' || n, repeat('x', 1048576 * split_part(size, ' ', 1)::int),
          repeat('y', 1048576 * split_part(size, ' ', 2)::int)
          from unnest($2::text::text[]) with ordinality s (size, n)`,
        values: [id, `{${megabytes.map((size) => `"${size}"`).join(',')}}`],
      });
      const sizes = (records: readonly { company: string; description: string }[]) =>
        records.map(
          ({ company, description }) => `${company.length / 2 ** 20} ${description.length / 2 ** 20}`,
        );
      for (const [query, expected] of [
        ['?sort=id', megabytes],
        ['?sort=id&dir=desc', megabytes.toReversed()],
      ] as const) {
        const json = await get(query, ndjson, key);
        assert.deepEqual(sizes(lines(json.text).map((line) => JSON.parse(line))), expected);
        const table = await get(query, csv, key);
        assert.deepEqual(sizes(parse(table.text, { columns: true })), expected);
      }
    });

    test('records the caller and the query in the activity, but not in the change feed', async () => {
      const exportEntries = async () =>
        (await activityOf(instance(), beta.id)).filter((each) => each.did.startsWith('export'));
      const before = await exportEntries();
      await get('?status=New', csv, beta.key);
      await instance().call('HEAD /api/v1/leads', { key: beta.key, ...as(csv) });
      const [entry, ...more] = (await exportEntries()).slice(before.length);
      assert.deepEqual([entry?.did, entry?.actor.split(' ')[0], more], ['export leads null', 'key', []]);
    });

    test('checks the caller again before each batch', async () => {
      const { database, resources } = instance();
      const { list } = resources.find(({ name }) => name === 'leads')?.operations ?? assert.fail();
      const exporter = list.export ?? assert.fail();
      const plan = exporter.plan({ caller: commandCaller(alpha.id), query: { sort: 'id' } });
      const sendUntil = async (lastCheck: number) => {
        let checks = 0;
        return text(
          await exportStream(database, exporter, plan, 'ndjson', async () => {
            if (++checks === lastCheck) throw new Error('revoked');
          }),
        );
      };
      for (const check of [1, 2]) await assert.rejects(sendUntil(check), { message: 'revoked' });
      assert.equal(lines(await sendUntil(3)).length, many, 'there are two batches');
    });

    test('HEAD returns the headers without reading records, and gzip is used if accepted', async () => {
      const head = await instance().call('HEAD /api/v1/leads', { key: alpha.key, ...as(csv) });
      assert.deepEqual(
        [head.status, head.text, head.headers.get('content-type')],
        [200, '', `${csv}; charset=utf-8; header=present`],
      );
      const whole = await get('', csv);
      assert.match(whole.headers.get('vary') ?? '', /accept-encoding/);
      for (const [accepted, coding] of [
        ['gzip', 'gzip'],
        ['br, gzip', 'gzip'],
        ['br', null],
        ['gzip;q=0, *', null],
        ['identity', null],
      ] as const) {
        const headers = { accept: csv, 'accept-encoding': accepted };
        const answer = await instance().call('GET /api/v1/leads', { key: alpha.key, headers });
        assert.equal(answer.headers.get('content-encoding'), coding, accepted);
        assert.equal(answer.text, whole.text);
      }
    });

    describe('readers', () => {
      /**
       * Opens an export and reads only the response head. On a busy machine, an export can wait too long for the
       * organization's other one.
       */
      async function open(key = alpha.key, query = 'sort=id'): Promise<IncomingMessage> {
        let reader = await request(key, query);
        await until(async () => {
          if (reader.statusCode !== 503) return true;
          reader.destroy();
          reader = await request(key, query);
          return false;
        }, 'open an export');
        return reader;
      }
      async function request(key: string, query: string): Promise<IncomingMessage> {
        const headers = {
          authorization: `Bearer ${key}`,
          accept: ndjson,
          'accept-encoding': 'identity',
        };
        const outgoing = httpRequest(`${instance().url}/api/v1/leads?${query}`, {
          headers,
          agent: false,
        });
        outgoing.end();
        const [response] = await once(outgoing, 'response');
        return response;
      }
      /** Reads until the response ends or fails. */
      const endOf = (reader: IncomingMessage) =>
        new Promise((resolve) => {
          let size = 0;
          reader.on('data', (chunk: Buffer) => {
            size += chunk.length;
          });
          reader.once('error', ({ code }: NodeJS.ErrnoException) => resolve({ code, some: size > 0 }));
          reader.once('end', () => resolve({ complete: size }));
        });
      before(async () => {
        // Exceeds a connection's buffers.
        const text = `update leads set description = repeat('y', 20000) where organization_id = $1::bigint`;
        await instance().database.run({ name: '', text, values: [alpha.id] });
      });

      test('limits an organization to two exports without blocking its other requests, and frees the slot of a disconnected reader', async () => {
        const readers = [await open(), await open()];
        assert.deepEqual(
          readers.map(({ statusCode }) => statusCode),
          [200, 200],
        );
        const third = await get('', csv);
        assert.deepEqual([third.status, third.json.code], [503, 'overloaded']);
        // On a busy machine, a request can wait too long for the readers' statements.
        await until(
          async () => (await get('', csv, beta.key)).status === 200,
          "another organization's export",
        );
        await until(async () => (await get('', '*/*')).status === 200, 'a list');
        for (const reader of readers) reader.destroy();
        await until(async () => (await get('?status=Neither', csv)).status === 200, 'a free slot');
      });

      const running = () =>
        instance()
          .database.status()
          .lanes.find(({ lane }) => lane === 'stream')?.running;
      /** Opens an export, and asserts that it ends midway after a change. */
      async function assertEnds(key: string, query: string, change: () => Promise<unknown>): Promise<void> {
        await until(() => running() === 0, 'the previous exports to end');
        const reader = await open(key, query);
        assert.deepEqual([reader.statusCode, running()], [200, 1]);
        await change();
        // A reader that reads nothing is disconnected after 30 seconds.
        await until(() => running() === 0, 'the export to end', 25_000);
        assert.deepEqual(await endOf(reader), { code: 'ECONNRESET', some: true });
      }
      for (const [what, query, grants, left] of [
        ['its grant is limited', 'sort=id', ['leads:list'], ['leads:list:hot']],
        [
          'its grant on the expanded records is revoked',
          'sort=id&expand=account_id',
          ['leads:list', 'accounts:read'],
          ['leads:list'],
        ],
        [
          'its grant on the email addresses of expanded users is revoked',
          'sort=id&expand=owner_id',
          ['leads:list', 'members:list'],
          ['leads:list'],
        ],
      ] as const)
        test(`an export ends when ${what}`, async () => {
          const { key, profile } = await limitedKey(instance(), alpha, grants);
          await assertEnds(key, query, () => setGrants(instance(), alpha, profile, left));
        });

      test('a failure midway closes the connection without completing the response', async () => {
        const reader = await open();
        const { database } = instance();
        await database.run({ name: '', text: 'alter table leads rename to leads_gone', values: [] });
        const outcome = await endOf(reader);
        await database.run({ name: '', text: 'alter table leads_gone rename to leads', values: [] });
        assert.deepEqual(outcome, { code: 'ECONNRESET', some: true });
      });
    });

    if (driver === 'postgresql') {
      test('holds no transaction open between two batches', async () => {
        const idle = async () => {
          const [[count] = []] = await instance().database.run({
            name: '',
            text: `select count(*)::text from pg_stat_activity where state like 'idle in transaction%' and datname = current_database()`,
            values: [],
          });
          return count;
        };
        // Background work might be between two of its statements.
        await until(async () => (await idle()) === '0', 'hold none');
      });
    }
  },
  { sources: await sourcesWith(linked), environment: { DATABASE_CONNECT_TIMEOUT_MS: '300' } },
);

test('a request does not continue after its credentials have moved to another organization', async () => {
  const app = fastify();
  app.decorateRequest('principal', null);
  let organization = '1';
  app.decorate('authenticate', () => ({
    ...{ kind: 'user' as const, actor: '3', name: null, organization, user: '3', grants: everyGrant },
  }));
  let again: () => Promise<unknown> = async () => assert.fail();
  app.get('/', { onRequest: authorize(app, 'leads', 'list') }, async ({ assertAllowed }) => {
    again = assertAllowed ?? again;
    return 'read';
  });
  await app.inject('/');
  await again();
  organization = '2';
  await assert.rejects(again(), { status: 403, code: 'not_a_member' });
});
