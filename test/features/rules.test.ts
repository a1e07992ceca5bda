// Rules of fields: reported by the API with the field and a message, and enforced by the database.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { administratorOf, readable, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';

const houses = {
  file: 'houses.yaml',
  text: `
singular: house
common: all
fields:
  rooms: { type: integer, min: 1, max: 100, default: 1 }
  floor: { type: int64, min: -3, nullable: true }
  area: { type: number, min: 0, max: 9999.5, message: Enter an area in square meters. }
  code: { type: string, min_length: 2, max_length: 4, pattern: "^[A-Z😀]+$" }
  door: { type: string, max_length: 1 }
`,
};

onBothDrivers(
  'rules of fields',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const send = (request: string, body?: unknown, call: Call = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), { key: acme.key, body, ...call });
    const run = (text: string) => sql.raw(text).execute(tablesOf(instance().database));
    const create = async (body: object = {}) => {
      const { status, json, text } = await send('POST /houses', body);
      assert.equal(status, 201, text);
      return Number(json.id);
    };

    const invalid: readonly (readonly [field: string, value: unknown, message: string])[] = [
      ['rooms', 0, 'rooms must be at least 1'],
      ['rooms', 101, 'rooms must be at most 100'],
      ['rooms', 'x', 'rooms must be an integer from -2147483648 to 2147483647'],
      ['floor', -4, 'floor must be at least -3'],
      ['area', -0.1, 'Enter an area in square meters.'],
      ['area', JSON.rawJSON('9999.50000000000000000000000001'), 'Enter an area in square meters.'],
      ['area', 'x', 'area must be a number'],
      ['code', 'A', 'code must be at least 2 characters long'],
      ['code', '😀', 'code must be at least 2 characters long'],
      ['code', 'ABCDE', 'code must be at most 4 characters long'],
      ['door', 'AB', 'door must be at most 1 character long'],
      ['code', 'ab', 'code must match ^[A-Z😀]+$'],
    ];
    for (const [field, value, message] of invalid) {
      const body = { [field]: value };
      test(`${JSON.stringify(body)} is rejected: ${message}`, async () => {
        const id = await create();
        const requests = [
          ['POST /houses', body],
          [`PUT /houses/${id}`, body],
          [`PATCH /houses/${id}`, body],
        ] as const;
        for (const [request, content] of requests) {
          const { status, json } = await send(request, content);
          assert.deepEqual(
            [status, json.code, json.fields],
            [400, 'invalid_input', [{ field, message }]],
            request,
          );
        }
        const batch = await send('POST /houses/batch', { records: [{}, body] });
        assert.deepEqual(batch.json.fields, [
          { field: `records[1].${field}`, message: `records[1]: ${message}` },
        ]);
        const lines = `${JSON.stringify(body)}\n`;
        const headers = { 'content-type': 'application/x-ndjson' };
        const imported = await send('POST /houses/import', undefined, { body: lines, headers });
        const [line] = imported.json.lines as { fields: object[] }[];
        assert.deepEqual(line?.fields, [{ field, message }]);
      });
    }

    test('values at the limits, empty strings and null are accepted', async () => {
      for (const body of [
        { rooms: 1, floor: -3, area: 0, code: 'AB' },
        { rooms: 100, area: JSON.rawJSON('9999.50000000000000000000000000'), code: '😀😀😀😀' },
        { floor: JSON.rawJSON('9223372036854775807'), area: JSON.rawJSON('9999.49999999999999999999') },
        { floor: null, rooms: null, area: null, code: '' },
        {},
      ])
        await create(body);
    });

    test('the messages of several fields are joined', async () => {
      const { json } = await send('POST /houses', { area: -1, code: 'A' });
      assert.equal(json.error, 'Enter an area in square meters; code must be at least 2 characters long');
    });

    test('hand-written SQL cannot store invalid values, and null remains possible', async () => {
      const id = await create();
      for (const assignment of ['rooms = 0', 'rooms = 101', 'floor = -4', 'area = 9999.51', "code = 'A'"])
        await assert.rejects(run(`update houses set ${assignment} where id = ${id}`), /houses_\w+_rules/);
      await run(`update houses set floor = null, code = '' where id = ${id}`);
    });

    test('a rejection by the database names the field and its rules', async () => {
      // A trigger changes the value after the API has validated it.
      await run(
        "create function houses_odd() returns trigger language plpgsql as $$ begin if new.code = 'ODD' then new.rooms = 0; elsif new.code = 'BAD' then new.area = -1; end if; return new; end $$",
      );
      await run(
        'create trigger houses_odd before insert or update on houses for each row execute function houses_odd()',
      );
      const rooms = { field: 'rooms', message: 'rooms must be at least 1 and must be at most 100' };
      const area = { field: 'area', message: 'Enter an area in square meters.' };
      for (const [code, issue] of [
        ['ODD', rooms],
        ['BAD', area],
      ] as const) {
        const { status, json } = await send('POST /houses', { code });
        assert.deepEqual([status, json.code, json.fields], [400, 'invalid_input', [issue]]);
      }
      const records = [{ code: 'ABC' }, { code: 'ODD' }, { code: 'BAD' }];
      const { json } = await send('POST /houses/batch', { records, on_error: 'continue' });
      const results = json.results as { status: number; code?: string; fields?: object[] }[];
      assert.deepEqual(
        results.map(({ status, code, fields }) => [status, code, fields]),
        [
          [201, undefined, undefined],
          [400, 'invalid_input', [rooms]],
          [400, 'invalid_input', [area]],
        ],
      );
      await run('drop function houses_odd() cascade');
    });

    test('the API description contains the rules', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const { HouseInput, HousePatch } = (
        json as { components: { schemas: Record<string, { properties: Record<string, object> }> } }
      ).components.schemas;
      for (const schema of [HouseInput, HousePatch]) {
        assert.partialDeepStrictEqual(schema?.properties, {
          rooms: { type: ['integer', 'null'], minimum: 1, maximum: 100 },
          floor: { minimum: -3 },
          area: { minimum: 0, maximum: 9999.5 },
          code: { minLength: 2, maxLength: 4, pattern: '^[A-Z😀]+$' },
        });
      }
    });

    test('a form names the limits, and shows the message of a violated rule at its field', async () => {
      const ann = await signIn(instance(), administratorOf(acme));
      const page = await ann.get('/setup/o/acme/data/houses/new');
      assert.match(readable(page.text), /From 1 to 100\./);
      assert.match(readable(page.text), /At least -3\./);
      assert.match(readable(page.text), /At least 2 characters\./);
      const rejected = await ann.submit('/setup/o/acme/data/houses/new', '/setup/o/acme/data/houses/new', {
        area: '-1',
      });
      assert.equal(rejected.status, 400);
      assert.match(readable(rejected.text), /Enter an area in square meters\./);
    });
  },
  { sources: await sourcesWith(houses) },
);
