// Request bodies are parsed as JSON with every number kept exact, or rejected with 400. The numbers are
// compared with exact BigInt arithmetic.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { HttpError } from '../../engine/errors.ts';
import {
  decimalText,
  ExactNumber,
  jsonNumber as parsedNumber,
  parseExactJson,
  parseOwnJson,
} from '../../engine/fields/exact-json.ts';
import { readBody } from '../../engine/records/read-body.ts';
import { jsonNumber } from '../support/arbitraries.ts';
import { takes } from '../support/clock.ts';
import { compareNumbers, exact } from '../support/reading.ts';

const read = (body: string | Uint8Array, contentType: string | undefined = 'application/json') =>
  readBody(contentType, typeof body === 'string' ? Buffer.from(body) : Buffer.from(body));

/** Returns the result, or the message of a 400 error. */
function outcome(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    assert.ok(error instanceof HttpError, String(error));
    assert.equal(error.status, 400);
    return error.message;
  }
}

const incomplete = 'Invalid JSON body: it ends unexpectedly';
const unexpected = (column: number, line = 1) =>
  `Invalid JSON body: unexpected character at line ${line}, column ${column}`;
const notObject = 'Invalid JSON body: the body must be an object';
const wrongType = 'Invalid JSON body: the Content-Type must be application/json';

describe('readBody', () => {
  for (const [body, expected] of [
    ['{}', {}],
    [' \t\r\n{ "a" : null } ', { a: null }],
    ['\uFEFF{"a":1}', { a: 1 }],
    ['{"a":1,"a":2}', { a: 2 }],
    ['{"":1}', { '': 1 }],
    ['{"a":"\\u0000\\ud800"}', { a: '\0\ud800' }],
    ['{"a":-0}', { a: -0 }],
    ['', 'Invalid JSON body: the body is empty'],
    ['[]', notObject],
    ['[{}]', notObject],
    ['null', notObject],
    ['true', notObject],
    ['7', notObject],
    ['12345678901234567890', notObject],
    ['"{}"', notObject],
    ...['{', ' ', '\uFEFF', '{"a":[1,\n'].map((body) => [body, incomplete] as const),
    ...(
      [
        ['}', 1],
        ['{]', 2],
        ['{"a"}', 5],
        ['{"a":}', 6],
        ['{"a":1,}', 8],
        ['{a:1}', 2],
        ["{'a':1}", 2],
        ['{"a":1}{}', 8],
        ['{"a":1} x', 9],
        ['{"a":01}', 7],
        ['{"a":+1}', 6],
        ['{"a":.5}', 6],
        ['{"a":5.}', 8],
        ['{"a":1e}', 8],
        ['{"a":0x1}', 7],
        ['{"a":NaN}', 6],
        ['{"a":Infinity}', 6],
        ['{"a":undefined}', 6],
        ['{"a":"\n"}', 7],
        ['{"a":"\\x41"}', 8],
        ['{"a":"\\u12"}', 11],
        ['{"a":1}//', 8],
        ['/**/{}', 1],
        ['\0{}', 1],
        ['\uFEFF\uFEFF{}', 1],
        ['\uFEFF{a:1}', 2],
        ['{\r\n  "name": "😀",\n  "a": 1\n  "b": 2\n}', 3, 4],
        ['{"a":1234567890123456789012345,}', 32],
        ['{"a":1e999,}', 12],
      ] as const
    ).map(([body, column, line]) => [body, unexpected(column, line)] as const),
  ] as const) {
    test(JSON.stringify(body), () =>
      assert.deepEqual(
        outcome(() => read(body)),
        expected,
      ),
    );
  }

  test('reports invalid UTF-8 at any position', () => {
    for (const bytes of [[0xff], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80]]) {
      const body = Buffer.concat([Buffer.from('{"a":"'), Buffer.from(bytes), Buffer.from('"}')]);
      assert.equal(
        outcome(() => read(body)),
        'Invalid JSON body: the body is not UTF-8',
      );
    }
  });

  test('rejects UTF-16', () => {
    for (const start of [[0xff, 0xfe], []]) {
      const body = Buffer.concat([Buffer.from(start), Buffer.from('{"a":1}', 'utf16le')]);
      assert.match(String(outcome(() => read(body))), /^Invalid JSON body: /);
    }
  });

  for (const type of [
    'application/json',
    'Application/JSON',
    ' application/json ',
    'application/json;charset=utf-8',
    'application/json; charset=UTF-8',
    'application/json; charset="utf8"',
    'application/json; x=y',
    'application/json;',
  ]) {
    test(`accepts Content-Type "${type}"`, () =>
      assert.deepEqual(
        outcome(() => read('{}', type)),
        {},
      ));
  }
  for (const type of [
    '',
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonp',
    'application/json5',
    'application/ld+json',
    'json',
    '*/*',
    'application/json, text/plain',
    'application/json; charset=utf-16',
    'application/json; charset=latin1',
    'text/plain; application/json',
  ]) {
    test(`rejects Content-Type "${type}"`, () =>
      assert.equal(
        outcome(() => read('{}', type)),
        wrongType,
      ));
  }
  test('rejects a missing Content-Type', () => {
    assert.equal(
      outcome(() => readBody(undefined, Buffer.from('{}'))),
      wrongType,
    );
    assert.equal(
      outcome(() => readBody('application/json', undefined)),
      'Invalid JSON body: the body is empty',
    );
  });

  test('never repeats the body in a 400', () => {
    for (const body of ['{"password":"hunter2"', 'hunter2', '{"a":hunter2}']) {
      assert.doesNotMatch(String(outcome(() => read(body))), /hunter2|password/);
    }
  });

  test('parses any text to an object or rejects it with 400', () => {
    const texts = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.json(),
      fc.json().map((text) => text.slice(1)),
    );
    fc.assert(
      fc.property(texts, (text) => {
        const result = outcome(() => read(text));
        if (typeof result === 'string') assert.match(result, /^Invalid JSON body: /);
        else assert.ok(typeof result === 'object' && result !== null && !Array.isArray(result));
      }),
    );
  });
});

/** Returns a parsed value with each number as `{ number }`, as `exact` returns it. */
function described(value: unknown): unknown {
  if (value instanceof ExactNumber) return { number: value.source };
  if (typeof value === 'number') return { number: Object.is(value, -0) ? '-0' : String(value) };
  if (Array.isArray(value)) return value.map(described);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, described(item)]));
}

/** Returns whether two such trees are equal, comparing numbers by their exact value. */
function same(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return a === b;
  if ('number' in a && 'number' in b) return compareNumbers(String(a.number), String(b.number)) === 0;
  const [left, right] = [Object.entries(a), Object.entries(b)];
  return (
    left.length === right.length &&
    left.every(([key, item], index) => key === right[index]?.[0] && same(item, right[index]?.[1]))
  );
}

describe('parseExactJson', () => {
  for (const [source, expected] of [
    ['1', 1],
    ['-0', -0],
    ['9007199254740991', 9007199254740991],
    ['9007199254740992', 9007199254740992],
    ['9007199254740993', new ExactNumber('9007199254740993')],
    ['-9223372036854775808', new ExactNumber('-9223372036854775808')],
    ['0.1', 0.1],
    ['1e400', new ExactNumber('1e400')],
    ['-1E400', new ExactNumber('-1E400')],
    ['1e-400', new ExactNumber('1e-400')],
    ['0.1234567890123456789', new ExactNumber('0.1234567890123456789')],
    ['12345678901234.56', 12345678901234.56],
    // Different notations of a value that a double can represent are parsed to the same value.
    ['1.0000000000000000', 1],
    ['10e-001', 1],
    ['-1697840e-001', -169784],
    ['0.0000000000000010E+015', 1],
    ['1000000000000000000000000', 1e24],
    ['0e-500', 0],
    ['9007199254740993.0', new ExactNumber('9007199254740993.0')],
    ['90071992547409930e-001', new ExactNumber('90071992547409930e-001')],
    ['"9007199254740993"', '9007199254740993'],
  ] as const) {
    test(`parses ${source} by itself, in a list and in an object`, () => {
      assert.deepStrictEqual(parseExactJson(source), expected);
      assert.deepStrictEqual(parseExactJson(`[${source},{"a":${source}}]`), [expected, { a: expected }]);
    });
  }

  test('keeps the value of every number', () => {
    fc.assert(
      fc.property(jsonNumber, (source) => {
        const { a } = parseExactJson(`{"a":${source}}`) as { a: unknown };
        const { number } = described(a) as { number: string };
        assert.equal(compareNumbers(number, source), 0, `${source} became ${number}`);
      }),
      { numRuns: 2000 },
    );
  });

  test('equals JSON.parse except for numbers, with keys in the same order', () => {
    fc.assert(
      fc.property(fc.json(), fc.array(jsonNumber, { minLength: 1 }), (json, numbers) => {
        const text = `{"json":${json},"numbers":[${numbers.join(',')}]}`;
        assert.ok(same(described(parseExactJson(text)), exact(text)), text);
      }),
      { numRuns: 500 },
    );
  });

  test('treats __proto__ as an ordinary key that does not change a prototype', () => {
    for (const number of ['1', '9007199254740993']) {
      const text = `{"__proto__":{"polluted":${number}},"constructor":{"prototype":{"polluted":1}},"\\u005f_proto__":2}`;
      const value = parseExactJson(text) as object;
      assert.equal(Object.getPrototypeOf(value), Object.prototype);
      assert.deepEqual(Object.keys(value), ['__proto__', 'constructor']);
      assert.equal(({} as { polluted?: unknown }).polluted, undefined);
    }
  });

  for (const depth of [100, 10_000, 500_000]) {
    test(`parses nesting of ${depth} or rejects it with one 400, in bounded time`, () => {
      const texts = ['1', '9007199254740993'].flatMap((inner) => [
        `{"a":${'['.repeat(depth)}${inner}${']'.repeat(depth)}}`,
        `{"a":${'{"a":'.repeat(depth)}${inner}${'}'.repeat(depth)}}`,
      ]);
      for (const result of takes(5000, () => texts.map((text) => outcome(() => read(text))))) {
        if (typeof result === 'string') assert.equal(result, 'Invalid JSON body: it is nested too deeply');
      }
    });
  }

  test('accepts 200 levels and 40,000 values, also with keys, and more in JSON of the service itself', () => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
    const list = (count: number) => `[${Array.from({ length: count - 1 }, () => '1').join()}]`;
    const object = (count: number) =>
      `{${Array.from({ length: count - 1 }, (_, index) => `"k${index}":""`).join()}}`;
    for (const text of [nested(200), list(40_000), object(40_000)]) assert.ok(parseExactJson(text));
    for (const [text, message] of [
      [nested(201), 'is nested too deeply'],
      [list(40_001), 'contains more than 40000 values'],
      [object(40_001), 'contains more than 40000 values'],
    ] as const) {
      assert.throws(() => parseExactJson(text), { name: 'RangeError', message });
      assert.ok(parseOwnJson(text));
    }
    assert.ok(parseExactJson(list(40_001), 40_001));
    assert.throws(() => parseExactJson(list(3), 2), { message: 'contains more than 2 values' });
  });

  test('a decimal number has up to 100 significant digits, in the range of a double', () => {
    const textOf = (source: string) => decimalText(parsedNumber(source));
    const ones = '1'.repeat(100);
    for (const source of [
      ones,
      `-${ones}`,
      `${ones}000`,
      `0.000${ones}`,
      `1.${'1'.repeat(99)}`,
      `${ones}e-300`,
      '12345678901234567890.5',
    ])
      assert.equal(textOf(source), source);
    for (const source of [`${ones}1`, `1.${ones}`, `0.000${ones}1`, '1e400', '-1e-400', `${ones}e300`])
      assert.equal(textOf(source), undefined, source);
    assert.deepEqual(
      [textOf('0e-400'), textOf('-0'), decimalText('1'), decimalText(null)],
      ['0', '0', undefined, undefined],
    );
  });

  test('numbers of more than 500 characters keep their text', () => {
    for (const source of [`0.${'0'.repeat(498)}1`, `-0.${'0'.repeat(498)}`, '9'.repeat(501)]) {
      assert.deepEqual(parseExactJson(`[${source},1,"",${source}]`), [
        new ExactNumber(source),
        1,
        '',
        new ExactNumber(source),
      ]);
    }
  });

  test('parses 100,000 long numbers and keys in less than a second', () => {
    const text = `{${Array.from({ length: 30_000 }, (_, index) => `"k${index}":9007199254740993.${index}`)}}`;
    const value = takes(1000, () => parseExactJson(text) as object);
    assert.equal(Object.keys(value).length, 30_000);
  });
});
