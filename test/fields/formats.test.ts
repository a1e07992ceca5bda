// Formats of strings: values that the API rejects before the table's constraint does.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TextFormatName, textFormatOf } from '../../engine/fields/formats.ts';

const cases: readonly (readonly [
  format: TextFormatName,
  valid: readonly string[],
  invalid: readonly string[],
])[] = [
  [
    'email',
    [`${'a'.repeat(244)}@x.example`, `ada@${'x'.repeat(63)}.example`, 'ada@x.ee'],
    [`${'a'.repeat(245)}@x.example`, `ada@${'x'.repeat(64)}.example`, 'ada@x.e', 'ada@-x.example'],
  ],
  // The international prefix is not part of the number.
  [
    'phone',
    ['110', '123456789012345', '00123456789012345'],
    ['11', '0011', '1234567890123456', '001234567890123456', '030+1234'],
  ],
  // Spaces can separate digits, but not the letters of the country. The check digits of all lengths are valid.
  [
    'iban',
    ['DE8 9370400440532013000', 'NO93 8601 1117 947', 'XY41123456789012345678901234567890'],
    [
      ' DE89370400440532013000',
      'D E89370400440532013000',
      'DE89',
      'XY331234567890',
      'XY851234567890123456789012345678901',
    ],
  ],
  // The uppercase of this letter is "SS", the code of South Sudan.
  ['country', ['ss'], ['ß']],
  ['currency', ['eur'], ['€', 'eu']],
];

for (const [format, valid, invalid] of cases)
  test(`${format} accepts only values that match its shape`, () => {
    const { isValid } = textFormatOf(format);
    assert.deepEqual(valid.filter(isValid), valid);
    assert.deepEqual(invalid.filter(isValid), []);
  });
