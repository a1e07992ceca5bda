// Formats of strings: values that the API rejects before the table's constraint does.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TextFormatName, textFormatOf } from '../../engine/fields/formats.ts';

const cases: readonly (readonly [format: TextFormatName, valid: string, invalid: readonly string[]])[] = [
  // Spaces can separate digits, but not the letters of the country.
  ['iban', 'DE8 9370400440532013000', [' DE89370400440532013000', 'D E89370400440532013000', 'DE89']],
  // The uppercase of this letter is "SS", the code of South Sudan.
  ['country', 'ss', ['ß']],
  ['currency', 'eur', ['€', 'eu']],
];

for (const [format, valid, invalid] of cases)
  test(`${format} accepts only values that match its shape`, () => {
    const { isValid } = textFormatOf(format);
    assert.ok(isValid(valid));
    assert.deepEqual(invalid.filter(isValid), []);
  });
