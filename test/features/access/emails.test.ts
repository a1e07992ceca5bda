// Email addresses that look alike are normalized to one address or rejected.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseEmail } from '../../../plugins/access/identity/users.ts';

describe('email addresses', () => {
  const equivalent: readonly string[] = [
    'ada@people.example',
    'ADA@People.Example',
    '  ada@people.example\t',
    'ａｄａ@people.example',
    'ada＠people.example',
    'ada@people.example.',
    'ada@ｐｅｏｐｌｅ.example',
    'ada@people。example',
    '𝒶𝒹𝒶@people.example',
  ];
  for (const text of equivalent) {
    test(`normalizes ${JSON.stringify(text)} to ada@people.example`, () => {
      assert.equal(parseEmail(text), 'ada@people.example');
    });
  }

  for (const [text, email] of [
    ['ada@Bücher.example', 'ada@xn--bcher-kva.example'],
    ['ada@bu\u0308cher.example', 'ada@xn--bcher-kva.example'],
    ['ada@XN--BCHER-KVA.example', 'ada@xn--bcher-kva.example'],
    ['\u212Aelvin@people.example', 'kelvin@people.example'],
    ["o'neil+crm@people.example", "o'neil+crm@people.example"],
    ['ada@localhost', 'ada@localhost'],
  ] as const) {
    test(`normalizes ${JSON.stringify(text)} to ${email}`, () => assert.equal(parseEmail(text), email));
  }

  test('accepts an address of 254 characters, in a text of 1,000 characters', () => {
    const longest = `${'x'.repeat(239)}@people.example`;
    assert.deepEqual([parseEmail(longest), parseEmail(`x${longest}`)], [longest, undefined]);
    const text = 'ada@people.example'.padEnd(1000);
    assert.deepEqual([parseEmail(text), parseEmail(`${text} `)], ['ada@people.example', undefined]);
  });

  test('keeps look-alike domains distinct', () => {
    assert.equal(parseEmail('ada@p\u0435ople.example'), 'ada@xn--pople-zwe.example');
  });

  const refused: readonly string[] = [
    '',
    'ada',
    '@',
    'ada@',
    '@people.example',
    'a b@people.example',
    'a@b@people.example',
    '\u0430da@people.example',
    'ad\u00e4@people.example',
    '\u0130da@people.example',
    'ad\u200Ba@people.example',
    'ada\u200D@people.example',
    'ada@peo\u200Bple.example',
    'ada@peo\u00ADple.example',
    'ada@\u202Eelpoep.example',
    'ada\u0000@people.example',
    'ada@people.example/x',
    'ada@people.example:25',
    'ada@people..example',
    'ada@-people.example-',
    'ada@[127.0.0.1]',
    'ada@peo%70le.example',
    'ada@people.example?x',
    'ada@people.example#x',
    'ada@people.example\\x',
    'ada@peo\tple.example',
    'ada@peo\u0000ple.example',
    'ada@peo\uFE0Fple.example',
    '"ada"@people.example',
    'ada.@people.example',
    'ada@people.example\r\nBcc: b@people.example',
    '.ada@people.example',
    'ada..b@people.example',
    `${'x'.repeat(250)}@people.example`,
    '\u0301'.repeat(1_000_000),
  ];
  for (const text of refused) {
    test(`rejects ${JSON.stringify(text.slice(0, 40))}`, () => assert.equal(parseEmail(text), undefined));
  }
});
