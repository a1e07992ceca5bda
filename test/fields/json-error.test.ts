// Positions of JSON syntax errors: a table, and properties compared with JSON.parse.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { jsonErrorOffset, positionAt } from '../../engine/fields/json-error.ts';
import { takesAtMost } from '../support/clock.ts';

const isValid = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/**
 * Strings that complete an unfinished token at the end of a JSON text, and strings that might have to follow
 * a token.
 */
const tokenEnds = [
  ...['', '0', '"', 'n"', '0"', '00"', '000"', '0000"', '""', 'true', 'rue', 'ue', 'e'],
  ...['alse', 'lse', 'se', 'ull', 'll', 'l'],
];
const followers = ['', ':0', '"":0'];

/** Returns the closing brackets for the containers that are open at the end of a JSON text. */
function openContainers(text: string): string {
  let closers = '';
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"?|[[\]{}]/gs)) {
    if (token === '[' || token === '{') closers = (token === '[' ? ']' : '}') + closers;
    else if (token === ']' || token === '}') closers = closers.slice(1);
  }
  return closers;
}

/** Returns whether a string is the start of a valid JSON text, by trying ways to complete it. */
const isPrefix = (text: string): boolean =>
  tokenEnds.some((tokenEnd) =>
    followers.some((follower) => isValid(text + tokenEnd + follower + openContainers(text + tokenEnd))),
  );

/** Checks the offset of the first error in a JSON text, and returns it in characters. */
function check(json: string): number | undefined {
  const bytes = Buffer.from(json);
  const text = bytes.toString();
  const offset = jsonErrorOffset(bytes);
  assert.equal(offset === undefined, isValid(text), text);
  if (offset === undefined) return undefined;
  const start = bytes.toString('utf8', 0, offset);
  assert.ok(text.startsWith(start), `${offset} is within a character of ${text}`);
  assert.ok(isPrefix(start), `${start} is invalid`);
  const next = [...text.slice(start.length)][0] ?? '';
  if (next !== '') assert.ok(!isPrefix(start + next), `${start}${next} can become valid`);
  return start.length;
}

describe('offset of the first error', () => {
  // `^` precedes the unexpected character. A text without `^` is valid, and a text that ends with `^` is
  // incomplete.
  for (const marked of [
    ...[
      '{}',
      '[]',
      '0',
      '-0',
      '1.5e+3',
      '"x"',
      'true',
      'false',
      'null',
      ' \t\r\n{ "a" : [ 1 , { } ] } ',
      '[[],{}]',
    ],
    ...['"\\"\\\\\\/\\b\\f\\n\\r\\t\\uABcd"', '"\ud800\u2028\u007f"', '{"a":1,"a":2}', '1E-9', '[1e0]'],
    ...['^', ' ^', '{^', '[^', '{"a^', '{"a"^', '{"a":^', '{"a":1^', '{"a":1,^', '[1^', '[1,^', '"^', '"\\^'],
    ...['"\\u^', '"\\u12^', '-^', '1.^', '1e^', '1e+^', 't^', 'tru^', 'nul^', '{"a":[{}^', '"a\\"^'],
    ...[
      '^}',
      '^]',
      '{^]',
      '[^}',
      '{"a"^}',
      '{"a":^}',
      '{"a":1,^}',
      '[1,^]',
      '[^,1]',
      '{^,}',
      '[1^}',
      '{"a":1^]',
    ],
    ...['{^a:1}', "{^'a':1}", '{^1:1}', '{"a":1}^{}', '{"a":1} ^x', '{"a":1}^}', '1 ^2', '[1 ^2]', '1^,'],
    ...[
      '{"a":0^1}',
      '{"a":^+1}',
      '{"a":^.5}',
      '{"a":5.^}',
      '{"a":1e^}',
      '{"a":0^x1}',
      '{"a":^NaN}',
      '-^x',
      '1.5^.5',
    ],
    ...[
      '{"a":^Infinity}',
      '{"a":-^Infinity}',
      '{"a":^undefined}',
      'tru^ ',
      'n^one',
      'true^r',
      'null^"',
      '1e+^-1',
    ],
    ...[
      '{"a":"^\n"}',
      '"^\0"',
      '"^\u001f"',
      '"\\^x41"',
      '"\\u12^"',
      '"\\u^g000"',
      '"\\^U0041"',
      '"a"^"b"',
      '"\\^',
    ],
    ...[
      '{"a":1}^//',
      '^/**/{}',
      '^\0{}',
      '0^\0',
      '{}^\xff',
      '^\ufeff{}',
      '^\u00a0{}',
      '^<a/>',
      'n^ame=x',
      '{"a"^,1}',
      '{"a" ^1}',
    ],
  ]) {
    test(JSON.stringify(marked), () => {
      const offset = marked.indexOf('^');
      const text = marked.replace('^', '');
      assert.equal(check(text), offset === -1 ? undefined : offset);
    });
  }

  const json = fc
    .tuple(fc.json(), fc.constantFrom(undefined, 1, '\t'))
    .map(([text, indent]) => JSON.stringify(JSON.parse(text), null, indent));
  const characters = fc.oneof(
    fc.constantFrom(...'{}[]",:\\-+.eEu0 19tfnalse\n\t\0'),
    fc.string({ unit: 'binary', maxLength: 2 }),
  );

  test('truncated JSON ends unexpectedly, or is valid', () => {
    fc.assert(
      fc.property(json, fc.nat(), (text, cut) => {
        const start = text.slice(0, cut % (text.length + 1));
        assert.equal(check(start), isValid(start) ? undefined : start.length);
      }),
    );
  });

  test('corrupted JSON is rejected if JSON.parse rejects it, at the first character that makes it invalid', () => {
    fc.assert(
      fc.property(json, fc.nat(), fc.nat(3), characters, (text, place, removed, inserted) => {
        const at = place % (text.length + 1);
        check(text.slice(0, at) + inserted + text.slice(at + removed));
      }),
      { numRuns: 1000 },
    );
  });

  test('any characters', () => {
    fc.assert(
      fc.property(fc.array(characters, { maxLength: 12 }), (parts) => {
        check(parts.join(''));
      }),
      { numRuns: 1000 },
    );
  });

  test('8 MiB of any text take linear time', async () => {
    const size = 8 * 1024 * 1024;
    for (const [start, part] of [
      ...[
        ['', '['],
        ['', '{"a":'],
        ['', '[0,'],
        ['[', '0,'],
        ['', '[1e5,"x",'],
        ['"', '\\u0061'],
        ['"', 'x'],
      ],
      ...[
        ['', ' '],
        ['', '\n'],
        ['', '9'],
        ['0.', '9'],
      ],
    ] as [string, string][]) {
      const text = Buffer.from(start + part.repeat(size / part.length));
      // This usually takes 2 to 15 loops. Quadratic time would take thousands.
      await takesAtMost(150, async () => positionAt(text, jsonErrorOffset(text) ?? 0));
    }
  });
});

describe('positionAt', () => {
  for (const [text, offset, line, column] of [
    ['', 0, 1, 1],
    ['ab', 0, 1, 1],
    ['ab', 2, 1, 3],
    ['a\nb', 1, 1, 2],
    ['a\nb', 2, 2, 1],
    ['a\r\n\r\n b', 6, 3, 2],
    ['\n\n', 2, 3, 1],
    ['{"😀":x', 8, 1, 7],
    ['\n"ä" x', 6, 2, 5],
    ['\ufeffx', 3, 1, 2],
  ] as const) {
    test(`${JSON.stringify(text)} at ${offset}`, () =>
      assert.deepEqual(positionAt(Buffer.from(text), offset), { line, column }));
  }
});
