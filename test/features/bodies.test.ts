// POST and PUT bodies: their overall form, and values with the wrong JSON type.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { kinds, wrongValues } from '../support/every-type.ts';
import { onBothDrivers } from '../support/instance.ts';
import { exactRecord, objectText } from '../support/reading.ts';
import {
  definitions,
  fieldsOf,
  fullBody,
  type Pair,
  twoOrganizations,
  writable,
} from '../support/records.ts';
import { errorOf } from '../support/scenario.ts';
import { writesOf } from '../support/writes.ts';

/** Error messages by JSON format or type. */
const expected: Readonly<Record<string, string>> = {
  string: 'a string',
  int32: 'an integer from -2147483648 to 2147483647',
  int64: 'a 64-bit integer',
  number: 'a number',
  'date-time': 'an RFC 3339 timestamp, such as 2026-03-01T09:30:00+01:00',
};

onBothDrivers('bodies', (instance) => {
  let pair: Pair;
  const writes = writesOf(instance, () => pair);
  before(async () => {
    pair = await twoOrganizations(instance());
  });

  describe('Wrong JSON type', () => {
    for (const definition of definitions) {
      const errorMessage = ({ name, type, to }: (typeof definition.fields)[number]) =>
        `${name} must be ${to === undefined ? expected[String(type.json.format ?? type.json.type)] : 'the id of a record (an integer) or null'}`;

      test(`${definition.name}: each field rejects all values of other types, and nothing is written`, async () => {
        await writes.nothing(async () => {
          for (const field of writable(definition)) {
            const message = errorMessage(field);
            for (const value of wrongValues(field.type)) {
              const body = objectText([[field.name, value]]);
              await writes.refused(definition, { body }, (answer) =>
                assert.deepEqual(
                  errorOf(answer),
                  { error: message, code: 'invalid_input', fields: [{ field: field.name, message }] },
                  body,
                ),
              );
            }
          }
        });
      });

      test(`${definition.name}: reports all invalid fields at the same time, and nothing is written`, async () => {
        const fields = writable(definition);
        await writes.nothing(async () => {
          for (const value of ['{}', '[]', '[null]', '{"$ne":null}', '{"$raw":"1"}']) {
            const body = objectText(fields.map(({ name }) => [name, value]));
            await writes.refused(definition, { body }, ({ json }) => {
              const problems = json.fields as { field: string; message: string }[];
              assert.deepEqual(
                problems.map(({ field, message }) => [field, message]).sort(),
                fields.map((field) => [field.name, errorMessage(field)]).sort(),
              );
              assert.equal(json.error, problems.map(({ message }) => message).join('; '));
            });
          }
          const full = exactRecord(fullBody(definition, 'right', pair.alphaIds));
          for (const field of fields) {
            const body = objectText(
              Object.keys(full).map((name) => [name, name === field.name ? 'false' : 'null']),
            );
            await writes.refused(definition, { body }, ({ json }) =>
              assert.deepEqual(
                (json.fields as { field: string }[]).map((problem) => problem.field),
                [field.name],
              ),
            );
          }
        });
      });
    }

    test('the table of kinds contains every JSON type', () => {
      assert.deepEqual([...new Set(Object.values(kinds).map((text) => typeof JSON.parse(text)))].sort(), [
        'boolean',
        'number',
        'object',
        'string',
      ]);
    });
  });

  describe('Bodies that are empty, not JSON, not an object, or not sent as application/json', () => {
    const bytes = (...values: number[]) => Uint8Array.from(values);
    const around = (...values: number[]) =>
      Uint8Array.from([...Buffer.from('{"name":"'), ...values, ...Buffer.from('"}')]);
    const reasons = {
      empty: 'the body is empty',
      end: 'it ends unexpectedly',
      object: 'the body must be an object',
      type: 'the Content-Type must be application/json',
      utf8: 'the body is not UTF-8',
    } as const;
    const json = 'application/json';
    const forms: readonly (readonly [
      name: string,
      body: string | Uint8Array,
      /** A number is the column of an unexpected character. */
      reason: keyof typeof reasons | number,
      type?: string,
    ])[] = [
      ['empty', '', 'empty'],
      ...['[]', '[{}]', 'null', 'true', '1', '"{}"', '9007199254740993', ' [ ] '].map(
        (body) => [body, body, 'object'] as const,
      ),
      ...['{', ' ', '{"name":"x"', '{"name":"x'].map((body) => [JSON.stringify(body), body, 'end'] as const),
      ...(
        [
          ['}', 1],
          ['{"a"}', 5],
          ['{"a":}', 6],
          ['{"a":1,}', 8],
          ['{a:1}', 2],
          ["{'a':1}", 2],
          ['{"a":1}{}', 8],
          ['{"a":01}', 7],
          ['{"a":+1}', 6],
          ['{"a":.5}', 6],
          ['{"a":5.}', 8],
          ['{"a":0x1}', 7],
          ['{"a":NaN}', 6],
          ['{"a":-Infinity}', 7],
          ['{"a":undefined}', 6],
          ['{}//', 3],
          ['/**/{}', 1],
          ['{"a":"\n"}', 7],
          ['{"a":"\\x41"}', 8],
          ['{"a":"\\u12"}', 11],
          ['{"a":tru}', 9],
          ['name=x', 2],
          ['<a/>', 1],
          ['undefined', 1],
          ['{\0}', 2],
          ['{"name":"x"}]', 13],
          ['{"a":1e}', 8],
          ['{"a":1,,"b":2}', 8],
          ['{"a" 1}', 6],
          [")]}',\n{}", 1],
        ] as const
      ).map(([body, column]) => [JSON.stringify(body), body, column] as const),
      ['an invalid byte', around(0xff), 'utf8'],
      ['a lone continuation byte', around(0x80), 'utf8'],
      ['an overlong NUL', around(0xc0, 0x80), 'utf8'],
      ['an encoded surrogate', around(0xed, 0xa0, 0x80), 'utf8'],
      ['past U+10FFFF', around(0xf4, 0x90, 0x80, 0x80), 'utf8'],
      ['a truncated sequence', around(0xe4, 0xb8), 'utf8'],
      ['Latin-1', around(0xfc), 'utf8'],
      ['UTF-16 with a byte order mark', bytes(0xff, 0xfe, ...Buffer.from('{}', 'utf16le')), 'utf8'],
      ['UTF-16 without a byte order mark', bytes(...Buffer.from('{}', 'utf16le')), 2],
      ['gzip', bytes(0x1f, 0x8b, 8, 0, 0, 0, 0, 0), 'utf8'],
      ...[
        ...[
          'text/plain',
          'text/json',
          'text/plain;charset=UTF-8',
          'application/x-www-form-urlencoded',
          'multipart/form-data',
        ],
        ...[
          'multipart/form-data; boundary=x',
          'application/jsonp',
          'application/json5',
          'application/xjson',
          'application/',
        ],
        ...[
          'application/vnd.api+json',
          'application/merge-patch+json',
          'application/problem+json',
          'application/octet-stream',
        ],
        ...[
          'garbage',
          '/',
          ';',
          '*/*',
          'application/*',
          'json',
          'application/json, text/plain',
          'text/plain, application/json',
        ],
        ...[
          'application/json; charset=utf-16',
          'application/json; charset=latin1',
          'application/json;charset=""',
          'a/b',
        ],
      ].map((type) => [`Content-Type: ${type}`, '{}', 'type', type] as const),
    ];
    for (const [name, body, reason, type = json] of forms) {
      const text =
        typeof reason === 'number' ? `unexpected character at line 1, column ${reason}` : reasons[reason];
      test(`${name}: ${text}`, async () => {
        await writes.nothing(async () => {
          for (const definition of definitions) {
            const call = { body, headers: { 'content-type': type } };
            await writes.refused(definition, call, (answer) =>
              assert.deepEqual(errorOf(answer), {
                code: 'invalid_json',
                error: `Invalid JSON body: ${text}`,
              }),
            );
          }
        });
      });
    }

    test('rejects a request without a body', async () => {
      for (const definition of definitions) {
        for (const headers of [{}, { 'content-type': json }]) {
          await writes.refused(definition, { headers }, (answer) =>
            assert.deepEqual(errorOf(answer), {
              code: 'invalid_json',
              error: 'Invalid JSON body: the body is empty',
            }),
          );
        }
      }
    });

    for (const type of [
      ...['application/json', 'Application/JSON', ' application/json ', 'application/json;charset=utf-8'],
      ...[
        'application/json; charset=UTF-8',
        'application/json; charset="utf-8"',
        'application/json; charset=utf8',
      ],
      ...[
        'application/json; profile=x',
        'application/json;',
        'application/json ; charset=utf-8',
        'application/json\t;a=b',
      ],
    ]) {
      test(`accepts Content-Type: ${JSON.stringify(type)} as JSON`, async () => {
        for (const definition of definitions) {
          await writes.served(definition, { body: '{}', headers: { 'content-type': type } });
          // No parser can be reached without its validator.
          const field = writable(definition)[0]?.name ?? '';
          const call = { body: objectText([[field, '{}']]), headers: { 'content-type': type } };
          await writes.refused(definition, call, ({ json }) => assert.ok(Array.isArray(json.fields)));
        }
      });
    }

    for (const [name, body] of [
      ['a byte order mark is skipped', (field: string) => `\uFEFF{"${field}":"x"}`],
      ['surrounding white space', (field: string) => ` \t\r\n{ "${field}" : "x" }\n `],
      [
        'escaped keys are decoded',
        (field: string) => `{"\\u00${field.charCodeAt(0).toString(16)}${field.slice(1)}":"\\u0078"}`,
      ],
      [
        'the last of duplicate keys wins',
        (field: string) => `{"${field}":"first","${field}":{},"${field}":"x"}`,
      ],
    ] as const) {
      test(name, async () => {
        for (const { definition, field } of fieldsOf('string')) {
          await writes.served(definition, { body: body(field.name) }, ({ json }) =>
            assert.equal(json[field.name], 'x'),
          );
        }
      });
    }
  });
});
