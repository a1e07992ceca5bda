// The JSON written from rows equals the output of PostgreSQL's row_to_json, byte for byte.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import type { Resource } from '../../engine/compile/compile.ts';
import { columnAt, columns, frames } from '../../engine/database/frames.ts';
import { Messages } from '../../engine/database/messages.ts';
import { customCells } from '../../engine/fields/index.ts';
import { noGrants } from '../../engine/records/index.ts';
import { ByteOutput } from '../../engine/sql/output.ts';
import { prepare } from '../../engine/sql/statement.ts';
import { bodyText } from '../support/arbitraries.ts';
import { everyType } from '../support/every-type.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { exactRecord, numberText } from '../support/reading.ts';

const numRuns = Number(process.env.PROPERTY_RUNS ?? 60);
const principal = { kind: 'key', actor: null, name: null, user: null, grants: noGrants } as const;

onBothDrivers(
  'JSON of records',
  (instance) => {
    let acme: Organization;
    const resourceOf = (name: string) => instance().resources.find((each) => each.name === name) as Resource;
    before(async () => {
      acme = await instance().organization('acme');
    });

    /** Returns the output of row_to_json for a statement's rows. */
    async function byDatabase({
      text,
      values,
    }: {
      readonly text: string;
      readonly values: readonly unknown[];
    }) {
      const [row] = await instance().database.run({
        name: '',
        text: `select string_agg(row_to_json(_r)::text, ',') from (${text}) _r`,
        values: values as string[],
      });
      // Additional values are not part of the record.
      return row?.[0]?.toString().replaceAll(/,"_versions":"[^"]*"/g, '');
    }
    const inputOf = (query: Readonly<Record<string, string>>, id = '') => ({
      caller: { principal: { ...principal, organization: acme.id }, requestId: '' },
      query,
      id,
    });

    for (const name of ['loose', 'tight']) {
      test(`${name}: GET and lists equal row_to_json of the same rows, for any values`, async () => {
        const { operations } = resourceOf(name);
        const path = `/api/v1/${name}`;
        const { key } = acme;
        const ids: string[] = [];
        await fc.assert(
          fc.asyncProperty(bodyText(resourceOf(name), { loose: ids }), async (body) => {
            const made = await instance().call(`POST ${path}`, { key, body });
            if (made.status !== 201) return;
            const id = numberText(exactRecord(made.text).id);
            if (name === 'loose') ids.push(id);
            const read = await instance().call(`GET ${path}/${id}`, { key });
            assert.equal(read.text, made.text);
            const one = operations.read.statement(operations.read.plan(inputOf({}, id)));
            assert.ok(one);
            assert.equal(read.text, await byDatabase(one));
          }),
          { numRuns },
        );
        for (const query of [{}, { sort: 'id', page: '2' }, { sort: 'id', dir: 'desc', page: '6' }]) {
          const listed = await instance().call(`GET ${path}?${new URLSearchParams(query)}`, { key });
          const many = operations.list.statement(operations.list.plan(inputOf(query)));
          assert.ok(many);
          const page = Object.hasOwn(query, 'page') ? query.page : '1';
          const data = (await byDatabase(many)) ?? '';
          assert.equal(listed.text, `{"data":[${data}],"page":${page},"per_page":20}`);
        }
      });
    }

    test('keeps decimals that only manual SQL can store', async () => {
      const { key } = acme;
      const made = await instance().call('POST /api/v1/loose', { key, body: {} });
      for (const value of ['NaN', 'Infinity', '-Infinity', '-0.50', '1e+30']) {
        const text = `update loose set n_number = '${value}' where id = ${made.json.id}`;
        await instance().database.run({ name: '', text, values: [] });
        const { operations } = resourceOf('loose');
        const one = operations.read.statement(operations.read.plan(inputOf({}, String(made.json.id))));
        assert.ok(one);
        // Do not use `call`, because values stored with manual SQL do not have to match the description.
        const read = await fetch(`${instance().url}/api/v1/loose/${made.json.id}`, {
          headers: { authorization: `Bearer ${key}` },
        });
        assert.equal(await read.text(), await byDatabase(one));
      }
    });

    test('keeps every character of a text, alone and next to others', async () => {
      const { key } = acme;
      const characters = Array.from({ length: 0x2ff }, (_, index) => String.fromCodePoint(index + 1));
      for (const text of [characters.join(''), ...characters.slice(0, 0x80), '\u{1f30d}\u2028\ufeff']) {
        const made = await instance().call('POST /api/v1/loose', { key, body: { n_text: text } });
        const read = await instance().call(`GET /api/v1/loose/${made.json.id}`, { key });
        assert.equal(read.text, made.text);
        assert.equal(read.json.n_text, text);
      }
    });

    test("returns the last row's additional values outside the JSON", async () => {
      const { database } = instance();
      const { definition } = resourceOf('loose');
      const fields = definition.fields.filter(({ name }) => name === 'id');
      const rowsOf = (rows: string) =>
        prepare<null>(
          '',
          'list',
          () => `select a as "id", b as "_one", c as "_two" from (values ${rows}) _v(a, b, c)`,
          { fields, additional: ['_one', '_two'] },
        ).bind(null);
      const [row = []] = await database.run(rowsOf(`(1, 'x', null), (2, 'y', 'Grüße')`));
      assert.deepEqual(
        row.map((cell) => (cell === null ? null : String(cell))),
        ['{"id":1},{"id":2}', 'y', 'Grüße'],
      );
      const [last = []] = await database.run(rowsOf(`(1, 'x', 'z'), (2, 'y', null)`));
      assert.deepEqual(last.slice(1), ['y', null]);
      const { records, ...none } = rowsOf(`(1, 'x', 'z')`);
      assert.ok(records?.asJson);
      const text = `${none.text} where false`;
      const asJson = records.asJson.replace(none.text, text);
      assert.deepEqual(await database.run({ ...none, text, records: { ...records, asJson } }), []);
    });

    test('the records that a statement returned before it failed are not part of the next result', async () => {
      const { database } = instance();
      const fields = resourceOf('loose').definition.fields.filter(({ name }) => name === 'id');
      const numbers = (value: string) =>
        prepare<null>('', 'list', () => `select ${value} as "id" from generate_series(1, 5) n`, {
          fields,
        }).bind(null);
      await assert.rejects(database.run(numbers('12 / (4 - n)')), { code: '22012' });
      const [[records] = []] = await database.run(numbers('n'));
      assert.equal(String(records), '{"id":1},{"id":2},{"id":3},{"id":4},{"id":5}');
    });
  },
  { sources: everyType },
);

test('an output has space for the cells of all custom fields, also of those without a value', () => {
  const keys = Array.from({ length: 100 }, (_, index) => ({
    custom: { resource: 'things', key: `k${index}` },
  }));
  const type = { encode: customCells(keys).encode, csv: customCells(keys) };
  const { records } = prepare<null>('', 'export', () => '', {
    fields: [{ name: 'custom', type }],
    layout: 'csv',
  }).bind(null);
  const output = new ByteOutput();
  const start = output.bytes.length - 20;
  output.length = start;
  const row = Buffer.from('\0\0\0\x02{}');
  assert.equal(records?.write(row, 0, output), row.length);
  assert.equal(String(output.bytes.subarray(start, output.length)), ','.repeat(99));
});

test('shrinks a large output after returning its content', () => {
  const output = new ByteOutput();
  const usual = output.bytes.length;
  output.reserve(8_000_000);
  output.bytes.fill('x', 0, 2_000_000);
  output.length = 2_000_000;
  output.reserve(8_000_000);
  assert.equal(String(output.take()), 'x'.repeat(2_000_000));
  assert.equal(output.length, 0);
  assert.equal(output.bytes.length, usual);
});

test('reads the messages of a response wherever it is split, and each column of a row', () => {
  const texts = ['D first', 'Z', `E ${'x'.repeat(300)}`, 'Z last'];
  const messages = texts.map((text) => {
    const bytes = Buffer.from(`${text[0]}\0\0\0\0${text.slice(1)}`);
    bytes.writeInt32BE(bytes.length - 1, 1);
    return bytes;
  });
  const response = Buffer.concat(messages);
  for (let size = 1; size <= response.length; size++) {
    const found: string[] = [];
    const read = frames((code, bytes, start, end) => {
      found.push(String.fromCharCode(code) + bytes.toString('latin1', start, end));
    });
    for (let start = 0; start < response.length; start += size) read(response.subarray(start, start + size));
    assert.deepEqual(found, texts, `parts of ${size} bytes`);
  }
  const values = [null, 'a', '', null, 'Grüße', ''];
  const row = Buffer.concat(
    values.map((value) => {
      const length = Buffer.alloc(4);
      length.writeInt32BE(value === null ? -1 : Buffer.byteLength(value));
      return Buffer.concat([length, Buffer.from(value ?? '')]);
    }),
  );
  assert.deepEqual(columns(row, 0, row.length), values);
  assert.deepEqual(
    values.map((_, index) => columnAt(row, 0, index)),
    values,
  );
});

test('sends statements of any size in any language', () => {
  const messages = new Messages();
  const int32 = (value: number) => {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32BE(value);
    return bytes;
  };
  for (const character of ['x', 'ü', '€', '🌍'])
    for (const count of [1, 5_000, 20_000, 700_000, 2]) {
      const text = Buffer.from(character.repeat(count));
      const value = String(text);
      messages.parse(value, value);
      messages.bind('', [null, value]);
      messages.close(value);
      const sent: [code: string, body: Buffer][] = [];
      frames((code, bytes, start, end) => sent.push([String.fromCharCode(code), bytes.subarray(start, end)]))(
        messages.take(),
      );
      const [zero, two] = [Buffer.alloc(1), Buffer.alloc(2)];
      const expected = [
        ['P', [text, zero, text, zero, two]],
        ['B', [zero, zero, two, Buffer.from([0, 2]), int32(-1), int32(text.length), text, two]],
        ['C', [Buffer.from('S'), text, zero]],
      ] as const;
      assert.deepEqual(
        sent.map(([code]) => code),
        expected.map(([code]) => code),
      );
      for (const [index, [code, parts]] of expected.entries())
        assert.ok(sent[index]?.[1].equals(Buffer.concat(parts)), `${code} with ${count} ${character}`);
    }
  // The bytes can be sent later than the next statement is bound.
  messages.parse('first', 'select 1');
  const first = messages.take();
  const copy = Buffer.from(first);
  messages.parse('other', 'select 2');
  messages.take();
  assert.deepEqual(first, copy);
});
