// Imports: the result for each line, the report, and the records written if an import stops or is
// interrupted.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { Actor } from '../../engine/effects/index.ts';
import { type Tables, transaction } from '../../engine/tables/handle.ts';
import { revokeKey } from '../../plugins/access/api-keys/keys.ts';
import type { Grant } from '../../plugins/access/profiles/grants.ts';
import { changeProfile, createProfile } from '../../plugins/access/profiles/profiles.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { command } from '../support/people.ts';
import { until } from '../support/process.ts';
import { type Scenario, scenarios } from '../support/scenario.ts';

const [csv, ndjson] = ['text/csv', 'application/x-ndjson'];
const leads = 'POST /api/v1/leads/import';
const lines = (...records: readonly unknown[]) =>
  records.map((record) => `${JSON.stringify(record)}\n`).join('');
const numbered = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ last_name: `N${index + 1}` }));

onBothDrivers(
  'imports',
  (instance) => {
    let acme: Organization;
    let other: Organization;
    const callers: Record<string, string> = {};
    const values: Record<string, string> = {};
    before(async () => {
      acme = await instance().organization('acme');
      other = await instance().organization('other');
      callers.acme = acme.key;
      callers.reader = await acme.keyWith([{ object: '*', actions: ['list', 'read', 'update'] }]);
      callers.creator = await acme.keyWith([{ object: '*', actions: ['create'] }]);
      const account = await instance().call('POST /api/v1/accounts', { key: acme.key, body: { name: 'A' } });
      values.account = String(account.json.id);
    });
    const count = async (resource = 'leads', key = acme.key) => {
      const headers = { prefer: 'count=exact' };
      return Number(
        (await instance().call(`GET /api/v1/${resource}`, { key, headers })).headers.get('x-total-count'),
      );
    };
    const load = (
      query: string,
      type: string,
      body: string | Uint8Array,
      more: Record<string, string> = {},
    ): Promise<Answer> =>
      instance().call(`${leads}${query}`, {
        key: acme.key,
        body,
        headers: { 'content-type': type, ...more },
      });
    const as = (type: string, more: Record<string, string> = {}) => ({
      headers: { 'content-type': type, ...more },
    });
    const none = {
      created: 0,
      updated: 0,
      failed: 0,
      stopped: false,
      dry_run: false,
      ignored: [],
      lines: [],
      truncated: false,
    };

    /** Asserts that an import writes nothing. */
    const writesNothing = (scenario: Scenario): Scenario => ({
      ...scenario,
      and: async () => assert.equal(await count(), 0),
    });
    describe('rejects the whole import', () =>
      scenarios(instance, () => ({ callers, values }), [
        writesNothing({ does: leads, with: '', ...as(csv), gets: 401 }),
        writesNothing({ as: 'reader', does: leads, with: 'last_name\nx', ...as(csv), gets: 403 }),
        writesNothing({
          as: 'creator',
          does: `${leads}?match=email`,
          with: 'email\nx',
          ...as(csv),
          gets: 403,
        }),
        writesNothing({ as: 'acme', does: leads, with: {}, gets: 400, has: { code: 'invalid_header' } }),
        writesNothing({ as: 'acme', does: leads, with: 'x', ...as('text/csv; charset=latin1'), gets: 400 }),
        writesNothing({
          as: 'acme',
          does: leads,
          with: '',
          ...as(csv),
          gets: 400,
          has: { error: 'Invalid CSV: the body is empty' },
        }),
        writesNothing({
          as: 'acme',
          does: `${leads}?dry_run=yes&on_error=no`,
          with: '',
          ...as(csv),
          gets: 400,
        }),
        writesNothing({
          as: 'acme',
          does: `${leads}?dry-run=true`,
          with: 'last_name\nx',
          ...as(csv, { prefer: 'handling=strict' }),
          gets: 400,
          has: { error: 'dry-run is not a parameter of this operation. Did you mean "dry_run"?' },
        }),
        writesNothing({
          as: 'acme',
          does: leads,
          with: 'a;last_name;b\n1;2;3',
          ...as(csv),
          gets: 400,
          has: { code: 'invalid_input' },
        }),
        writesNothing({
          as: 'acme',
          does: `${leads}?delimiter=dot`,
          with: 'last_name\nx',
          ...as(csv),
          gets: 400,
          has: { error: 'delimiter must be one of: comma, semicolon, tab, pipe' },
        }),
        writesNothing({
          as: 'acme',
          does: `${leads}?column[Surname]=surname&column[Sex]=&column[Id]=id`,
          with: 'Surname,Sex,Id,email\nx,f,1,a@b.example',
          ...as(csv),
          gets: 400,
          has: { error: 'surname is not a field of this resource; id is read-only' },
        }),
        writesNothing({
          as: 'acme',
          does: `${leads}?match=email&match=phone&column[Surname]=last_name&column[Surname]=email`,
          with: 'Surname\nx',
          ...as(csv),
          gets: 400,
          has: { error: 'match must not be repeated; column[Surname] must not be repeated' },
        }),
        writesNothing({
          as: 'acme',
          does: `${leads}?column[Surname]=last_name`,
          with: 'last_name,Surnames\nx,y',
          ...as(csv),
          gets: 400,
          has: { error: 'column[Surname] is not a column of the file' },
        }),
        writesNothing({
          as: 'acme',
          does: `${leads}?column[Surname]=last_name`,
          with: 'last_name,Surname\nx,y',
          ...as(csv),
          gets: 400,
          has: { error: 'last_name appears twice' },
        }),
        writesNothing({
          as: 'acme',
          does: leads,
          with: 'last_name,last_name\na,b',
          ...as(csv),
          gets: 400,
          has: { error: 'last_name appears twice' },
        }),
        writesNothing({
          as: 'acme',
          does: leads,
          with: 'last_name,id,mail\na,1,b',
          ...as(csv, { prefer: 'handling=strict' }),
          gets: 400,
          has: { error: 'id is read-only; mail is not a field of this resource. Did you mean "email"?' },
        }),
        writesNothing({
          as: 'acme',
          does: leads,
          with: 'last_name\n"a',
          ...as(csv),
          gets: 400,
          has: { error: 'Invalid CSV: line 2: a quote is not closed' },
        }),
        writesNothing({
          as: 'acme',
          does: leads,
          with: 'last_name\na"b',
          ...as(csv),
          gets: 400,
          has: { error: 'Invalid CSV: line 2: a cell contains a quote but does not start with one' },
        }),
        writesNothing({
          as: 'acme',
          does: leads,
          with: `last_name\n${'x'.repeat(1024 * 1024 + 100)}`,
          ...as(csv),
          gets: 400,
          has: { error: 'Invalid CSV: line 2: it is longer than 1048576 bytes, or a quote is not closed' },
          name: 'a CSV line of more than a megabyte',
        }),
        writesNothing({
          as: 'acme',
          does: leads,
          with: 'x',
          ...as(csv, { 'content-encoding': 'gzip' }),
          gets: 400,
          has: { code: 'invalid_header' },
        }),
        writesNothing({
          as: 'acme',
          does: leads,
          with: 'x',
          ...as(csv, { 'content-encoding': 'br' }),
          gets: 400,
        }),
        writesNothing({
          as: 'acme',
          does: `${leads}?match=email`,
          with: 'email\nx',
          ...as(csv),
          gets: 400,
          has: { code: 'invalid_input' },
        }),
        ...Object.entries({ 'Idempotency-Key': 'once', 'If-Match': '*', 'If-None-Match': '*' }).map(
          ([name, value]) =>
            writesNothing({
              as: 'acme',
              does: leads,
              with: 'last_name\nx',
              ...as(csv, { [name]: value }),
              gets: 400,
              has: { error: `${name} cannot be sent with an import. Use "match" instead.` },
              name: `an import with ${name}`,
            }),
        ),
        {
          as: 'acme',
          does: 'PUT /api/v1/leads/import',
          with: {},
          gets: 405,
          and: ({ headers }) => assert.equal(headers.get('allow'), 'POST, OPTIONS'),
        },
        {
          as: 'acme',
          does: 'OPTIONS /api/v1/leads/import',
          gets: 204,
          and: ({ headers }) => assert.equal(headers.get('allow'), 'POST, OPTIONS'),
        },
      ]));

    test('rejects a body that is not UTF-8', async () => {
      const bytes = Buffer.from('last_name\nM\xfcller\n', 'latin1');
      const { json } = await load('', csv, bytes);
      assert.deepEqual(
        [json.error, json.report, await count()],
        ['Invalid CSV: it is not UTF-8', undefined, 0],
        'there is no report of an import that has not begun',
      );
      const line = await load('', ndjson, Buffer.from('{"last_name":"M\xfcller"}\n{}', 'latin1'));
      assert.deepEqual([line.json.created, line.json.failed], [1, 1]);
      const imported = await count();
      const incomplete = Buffer.from('last_name\nMü').subarray(0, -1);
      assert.deepEqual(
        [(await load('', csv, incomplete)).json.error, await count()],
        ['Invalid CSV: it is not UTF-8', imported],
      );
    });

    test('long values keep every character, wherever it is in the body', async () => {
      for (const start of ['', 'x', 'xx', 'xxx']) {
        const description = `${start}${'😀'.repeat(1000)}`;
        const key = { last_name: `long ${start}`, description };
        for (const [type, body] of [
          [csv, `last_name,description\n${key.last_name},${description}\n`],
          [ndjson, lines(key)],
        ] as const) {
          assert.deepEqual((await load('', type, body)).json, { ...none, created: 1 });
          const list = await instance().call('GET /api/v1/leads?sort=id&dir=desc', { key: acme.key });
          const [record] = list.json.data as { description: string }[];
          assert.equal(record?.description, description, `${type} ${start}`);
        }
      }
    });

    test('CSV with other delimiters and column names: each column contains the field to which it is assigned', async () => {
      for (const [delimiter, character] of [
        ['semicolon', ';'],
        ['tab', '\t'],
        ['pipe', '|'],
      ] as const) {
        const rows = [
          ['Surname', 'E-mail', 'last_name', 'x,y'],
          [`Ames, ${delimiter}`, 'a@b.example', 'ignored', '1'],
        ];
        const body = rows.map((cells) => cells.join(character)).join('\n');
        const query = new URLSearchParams({
          delimiter,
          'column[Surname]': 'last_name',
          'column[E-mail]': 'email',
          'column[last_name]': '',
        });
        const answer = await load(`?${query}`, csv, body, { prefer: 'handling=lenient' });
        assert.deepEqual(answer.json, { ...none, created: 1, ignored: ['last_name', 'x,y'] });
        const name = encodeURIComponent(`Ames, ${delimiter}`);
        const list = await instance().call(`GET /api/v1/leads?q=${name}`, { key: acme.key });
        const [record] = list.json.data as { last_name: string; email: string }[];
        assert.deepEqual([record?.last_name, record?.email], [`Ames, ${delimiter}`, 'a@b.example']);
      }
    });

    test('CSV cells are parsed by field type: an empty cell is absent, "" is an empty string', async () => {
      const before = await count('opportunities');
      const body = [
        '\ufeffname,amount,probability,close_date,account_id,stage,id,unknown,description',
        `"a ""b"",\r\nc",123456789012345.6780,7,2026-03-01T09:30:00+05:30,${values.account},,99,x,`,
        '',
        'second,,,,,"",,,"=1+1"',
      ].join('\r\n');
      const call = { key: acme.key, body, ...as(`${csv}; charset=UTF-8; header=present`) };
      const answer = await instance().call('POST /api/v1/opportunities/import', call);
      assert.deepEqual(
        [answer.status, answer.json],
        [200, { ...none, created: 2, ignored: ['id', 'unknown'] }],
      );
      assert.equal(await count('opportunities'), before + 2);
      const list = await instance().call('GET /api/v1/opportunities?sort=id', { key: acme.key });
      assert.ok(list.text.includes('"amount":123456789012345.6780,"stage":"Prospecting"'), list.text);
      const [first, second] = list.json.data as Record<string, unknown>[];
      assert.deepEqual(
        [first?.name, first?.close_date, String(first?.account_id), first?.probability],
        ['a "b",\r\nc', '2026-03-01T09:30:00+05:30', values.account, 7],
      );
      assert.deepEqual(
        [second?.amount, second?.close_date, second?.stage, second?.description],
        [0, null, '', '=1+1'],
      );
    });

    test('reports failing lines by number, in order, and writes all others', async () => {
      const before = await count('opportunities');
      const body = [
        'name,amount,account_id',
        'a,1,',
        '"b',
        'b",x,',
        'c,1',
        'd,2,987654321',
        'e,3,',
        `f,4,${values.account}x`,
      ].join('\n');
      const call = { key: acme.key, body, ...as(csv) };
      const { json } = await instance().call('POST /api/v1/opportunities/import', call);
      assert.deepEqual(json, {
        ...none,
        created: 2,
        failed: 4,
        lines: [
          {
            line: 3,
            error: 'amount must be a number',
            code: 'invalid_input',
            fields: [{ field: 'amount', message: 'amount must be a number' }],
          },
          { line: 5, error: 'Invalid CSV: the line has 2 cells, but the header has 3', code: 'invalid_csv' },
          {
            line: 6,
            error: 'account_id 987654321 does not exist in accounts',
            code: 'missing_reference',
            fields: [{ field: 'account_id', message: 'account_id 987654321 does not exist in accounts' }],
          },
          {
            line: 8,
            error: 'account_id must be the id of a record (an integer) or null',
            code: 'invalid_input',
            fields: [
              { field: 'account_id', message: 'account_id must be the id of a record (an integer) or null' },
            ],
          },
        ],
      });
      assert.equal(await count('opportunities'), before + 2);
    });

    test('NDJSON skips empty lines and reports invalid ones', async () => {
      const before = await count();
      const body = `\ufeff{"last_name":"a"}\r\n\n[1]\n{"lead_score":"7"}\n{"last_name":\n{"lead_score":9223372036854775808}\n{"last_name":"${'x'.repeat(1024 * 1024)}"}\n  \t\n{"last_name": z}\nnull\n12345678901234567890\n{"last_name":"z"}`;
      const { json } = await load('', ndjson, body);
      const failed = json.lines as { line: number; code: string; error: string }[];
      assert.deepEqual(
        failed.map(({ line, code, error }) => [line, code, error]),
        [
          [3, 'invalid_json', 'Invalid JSON body: each line must be an object'],
          [4, 'invalid_input', 'lead_score must be a 64-bit integer'],
          [5, 'invalid_json', 'Invalid JSON body: it ends unexpectedly'],
          [6, 'invalid_input', 'lead_score must be a 64-bit integer'],
          [7, 'line_too_long', 'Line is longer than 1048576 bytes'],
          [9, 'invalid_json', 'Invalid JSON body: unexpected character at line 9, column 15'],
          [10, 'invalid_json', 'Invalid JSON body: each line must be an object'],
          [11, 'invalid_json', 'Invalid JSON body: each line must be an object'],
        ],
      );
      assert.deepEqual([json.created, json.failed, await count()], [2, 8, before + 2]);
      for (const [bytes, code] of [
        [1024 * 1024, 'invalid_input'],
        [1024 * 1024 + 1, 'line_too_long'],
      ] as const) {
        const length = await load('', ndjson, `{"last_name":7${' '.repeat(bytes - 15)}}\n`);
        assert.deepEqual(
          (length.json.lines as { code: string }[]).map((line) => line.code),
          [code],
        );
      }
      assert.deepEqual((await load('', ndjson, '')).json, none);
      const strict = await load('', ndjson, '{"nothing":1}', { prefer: 'handling=strict' });
      assert.deepEqual([strict.json.created, strict.json.failed], [0, 1]);
      const misspelled = await load('', ndjson, '{"last_nam":"x"}', { prefer: 'handling=strict' });
      const [line] = misspelled.json.lines as { hint?: string }[];
      assert.equal(line?.hint, 'Did you mean "last_name"?', misspelled.text);
    });

    test('a dry run validates everything, including references, and writes nothing', async () => {
      const before = await count('opportunities');
      const body = lines(
        { name: 'a' },
        { name: 7 },
        { account_id: 987654321 },
        { account_id: Number(values.account) },
      );
      const call = { key: acme.key, body, ...as(ndjson) };
      const { json } = await instance().call('POST /api/v1/opportunities/import?dry_run=true', call);
      assert.deepEqual([json.dry_run, json.created, json.failed], [true, 2, 2], JSON.stringify(json));
      assert.deepEqual(
        (json.lines as { line: number }[]).map(({ line }) => line),
        [2, 3],
      );
      assert.equal(await count('opportunities'), before);
    });

    test('on_error=stop writes only the lines before the first failing one', async () => {
      for (const bad of [{ lead_score: 'x' }, { owner: 1, last_name: 5 }]) {
        const before = await count();
        const records = [...numbered(1203), bad, ...numbered(3)];
        const { status, json } = await load('?on_error=stop', ndjson, lines(...records));
        assert.deepEqual([status, json.created, json.failed, json.stopped], [200, 1203, 1, true]);
        assert.deepEqual((json.lines as { line: number }[])[0]?.line, 1204);
        assert.equal(await count(), before + 1203);
      }
      const before = await count('opportunities');
      const body = lines({ name: 'a' }, { name: 'b', account_id: 987654321 }, { name: 'c' });
      const call = { key: acme.key, body, ...as(ndjson) };
      const { json } = await instance().call('POST /api/v1/opportunities/import?on_error=stop', call);
      assert.deepEqual(
        [json.created, json.failed, json.stopped, await count('opportunities')],
        [1, 1, true, before + 1],
      );
    });

    test('gzip is decoded, lines are written in order and recorded, and other organizations see nothing', async () => {
      const before = await count();
      const body = gzipSync(lines(...numbered(1500)));
      const answer = await load('', ndjson, body, { 'content-encoding': 'gzip' });
      assert.deepEqual(answer.json, { ...none, created: 1500 });
      assert.deepEqual([await count(), await count('leads', other.key)], [before + 1500, 0]);
      const newest = await instance().call('GET /api/v1/leads?sort=id&dir=desc', { key: acme.key });
      const names = (newest.json.data as { last_name: string }[]).map(({ last_name }) => last_name);
      assert.deepEqual(names.slice(0, 3), ['N1500', 'N1499', 'N1498']);
      const [row] = await instance().database.run({
        name: '',
        text: `select count(*)::text from crm_ledger where object = 'leads' and action = 'create' and request_id = $1`,
        values: [answer.headers.get('x-request-id') ?? ''],
      });
      assert.deepEqual(row, ['1500']);
    });

    test('limits a line to 2,000 cells, in CSV of any size, compressed or not, with or without dry_run', async () => {
      const before = await count();
      const wide = (cells: number) => Array.from({ length: cells }, (_, index) => `c${index}`).join();
      const most = await load('?dry_run=true', csv, `last_name,${wide(1999)}\nx,${','.repeat(1998)}\n`);
      assert.deepEqual([most.status, most.json.created], [200, 1], most.text.slice(0, 200));
      for (const [body, line] of [
        [`last_name,${wide(2000)}\nx\n`, 1],
        [','.repeat(2_000_000), 1],
        [`last_name\nx\n${','.repeat(2000)}\n`, 3],
      ] as const) {
        for (const query of ['', '?dry_run=true']) {
          for (const [bytes, more] of [
            [body, {}],
            [gzipSync(body), { 'content-encoding': 'gzip' }],
          ] as const) {
            const { status, json } = await load(query, csv, bytes, more);
            assert.deepEqual(
              [status, json.code, json.error],
              [400, 'invalid_csv', `Invalid CSV: line ${line}: more than 2000 cells`],
            );
          }
        }
      }
      for (const header of [`"\n",${'b'.repeat(131_072)}`, `"${'\n'.repeat(131_072)}"`]) {
        const { status, json } = await load('', csv, `last_name,${header}\nx,y\n`);
        assert.deepEqual([status, json.error], [400, 'Invalid CSV: the header is longer than 131072 bytes']);
      }
      assert.equal(await count(), before, 'nothing is written before the batch is full');
    });

    test('reports the first 1,000 failing lines', async () => {
      const { json } = await load('?dry_run=true', ndjson, '{"lead_score":"x"}\n'.repeat(1300));
      assert.deepEqual([json.failed, (json.lines as unknown[]).length, json.truncated], [1300, 1000, true]);
    });

    test('reports the written lines if parsing fails midway, and the connection serves the next request', async () => {
      const before = await count();
      const body = `last_name\n${numbered(1001)
        .map(({ last_name }) => last_name)
        .join('\n')}\n"x"y\n`;
      const { status, json } = await load('', csv, body);
      assert.deepEqual(
        [status, json.code, json.error],
        [400, 'invalid_csv', 'Invalid CSV: line 1003: text follows a closing quote'],
      );
      assert.deepEqual(json.report, { ...none, created: 1000 });
      assert.equal(await count(), before + 1000);
    });

    test('rejects more than IMPORT_MAX_MB after decoding', async () => {
      const body = gzipSync('\n'.repeat(2 * 1024 * 1024 + 1));
      const tooLarge = await load('', ndjson, body, { 'content-encoding': 'gzip' });
      assert.deepEqual([tooLarge.status, tooLarge.json.code], [413, 'body_too_large']);
      assert.equal((await load('', ndjson, '\n'.repeat(2 * 1024 * 1024 + 1))).status, 413);
      const most = '\n'.repeat(2 * 1024 * 1024);
      for (const [bytes, more] of [
        [most, {}],
        [gzipSync(most), { 'content-encoding': 'gzip' }],
      ] as const)
        assert.deepEqual((await load('', ndjson, bytes, more)).json, none);
    });

    const grantsLeft =
      (...actions: Grant['actions'][number][]) =>
      (tables: Tables, by: Actor, { profile }: { profile: string }) =>
        changeProfile(tables, by, acme.id, profile, [{ object: 'leads', actions }]);
    for (const [what, query, status, end] of [
      ['a key that is revoked', '', 401, (tables, by, { id }) => revokeKey(tables, by, acme.id, id)],
      ['a revoked grant', '', 403, grantsLeft('list', 'update')],
    ] satisfies [
      string,
      string,
      number,
      (tables: Tables, by: Actor, key: { id: string; profile: string }) => Promise<void>,
    ][]) {
      test(`${what} during an import ends it with a report of the written lines`, async () => {
        const [{ database }, by] = [instance(), command(instance())];
        const grants: Grant[] = [{ object: 'leads', actions: ['create', 'update'] }];
        const profile = await transaction(database, (tables) =>
          createProfile(tables, by, acme.id, what, grants),
        );
        const { id, key } = await acme.makeKey({ profile: what });
        const before = await count();
        const upload = request(`${instance().url}/api/v1/leads/import${query}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': ndjson },
          agent: false,
        });
        const responded = once(upload, 'response');
        const part = (first: number) =>
          lines(
            ...numbered(1000).map((record, index) => ({
              ...record,
              email: `${what.replaceAll(' ', '-')}-${first + index}@example.com`,
            })),
          );
        upload.write(part(0));
        await until(async () => (await count()) === before + 1000, 'the first part');
        await transaction(database, (tables) => end(tables, by, { id, profile }));
        // No node caches a key for longer.
        await pause(1000);
        upload.end(part(1000));
        const [response] = await responded;
        const { code, report } = JSON.parse(await text(response));
        assert.deepEqual(
          [response.statusCode, response.headers['www-authenticate'], code],
          status === 401 ? [401, 'Bearer', 'unauthenticated'] : [403, undefined, 'forbidden'],
        );
        assert.deepEqual(report, { ...none, created: 1000 });
        assert.equal(await count(), before + 1000);
      });
    }

    test('a statement for which no slot is free in time is retried', async () => {
      const before = await count();
      const { database } = instance();
      const loads = (...names: readonly string[]) =>
        database.status().lanes.filter(({ lane }) => names.includes(lane));
      // The import writes its lines, and can look up its key again, because keys are cached for less than a second.
      const rejected = () => loads('batch', 'lookup').reduce((sum, { timedOut }) => sum + timedOut, 0);
      const upload = request(`${instance().url}/api/v1/leads/import`, {
        method: 'POST',
        headers: { authorization: `Bearer ${acme.key}`, 'content-type': csv },
        agent: false,
      });
      const responded = once(upload, 'response');
      upload.write('last_name\n');
      await until(() => loads('stream').some(({ running }) => running > 0), 'the import to wait for lines');
      const earlier = rejected();
      const { promise, resolve: release } = Promise.withResolvers<void>();
      const batch = database.schedule(() => promise, { organization: acme.id, lane: 'batch' });
      upload.end('x\ny');
      await until(() => rejected() > earlier, 'a rejected statement').finally(release);
      await batch;
      const [response] = await responded;
      const { created } = JSON.parse(await text(response));
      assert.deepEqual([response.statusCode, created, await count()], [200, 2, before + 2]);
    });

    test('a statement that exceeds its time limit is retried', async () => {
      const before = await count();
      // Sequences keep their value when a transaction is rolled back.
      for (const statement of [
        'create sequence slow_attempts',
        `create function slow_at_first() returns trigger language plpgsql as $$ begin
           if new.last_name = 'slow' and nextval('slow_attempts') = 1 then raise exception 'slow' using errcode = 'query_canceled'; end if;
           return new; end $$`,
        'create trigger slow_at_first before insert on leads for each row execute function slow_at_first()',
      ])
        await instance().database.run({ name: '', values: [], text: statement });
      const { status, json } = await load('', csv, 'last_name\nslow\nfast');
      assert.deepEqual([status, json.created, await count()], [200, 2, before + 2]);
    });

    test('limits an organization to two imports, frees the slot of a disconnected client and keeps complete batches', async () => {
      const before = await count();
      const open = () => {
        const headers = { authorization: `Bearer ${acme.key}`, 'content-type': ndjson };
        const upload = request(`${instance().url}/api/v1/leads/import`, {
          method: 'POST',
          headers,
          agent: false,
        });
        upload.on('error', () => {});
        upload.write(lines(...numbered(1100)));
        return upload;
      };
      // One after another, because batches of one organization wait for each other.
      const senders = [open()];
      await until(async () => (await count()) === before + 1000, 'a batch of the first');
      senders.push(open());
      await until(async () => (await count()) === before + 2000, 'a batch of each');
      const third = await load('', ndjson, lines({}));
      assert.deepEqual([third.status, third.json.code], [503, 'overloaded']);
      const foreign = { key: other.key, body: lines({}), ...as(ndjson) };
      const independent = await instance().call(`${leads}?dry_run=true`, foreign);
      assert.deepEqual([independent.status, independent.json.created], [200, 1], independent.text);
      const [first, second] = senders;
      first?.destroy();
      await until(async () => (await load('?dry_run=true', ndjson, lines({}))).status === 200, 'a turn');
      second?.end();
      const [response] = await once(second ?? assert.fail(), 'response');
      assert.equal(response.statusCode, 200);
      assert.equal(await count(), before + 2100);
    });
  },
  { environment: { IMPORT_MAX_MB: '2', DATABASE_CONNECT_TIMEOUT_MS: '300' } },
);
