// Phone numbers: the notations of each region that stand for the same number.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { phoneRegionOf, phoneVariants } from '../../engine/fields/phone-numbers.ts';

/** For each region, groups of notations of one number, and the digits of all its notations. */
const groups: readonly (readonly [
  region: string,
  notations: readonly string[],
  digits: readonly string[],
])[] = [
  [
    'DE',
    ['0171 1234567', '+49 171 1234567', '0049 171 1234567', '+49 (0)171 1234567', '491711234567'],
    ['491711234567', '01711234567', '4901711234567'],
  ],
  ['US', ['(202) 555-0100', '+1 202 555 0100', '1-202-555-0100'], ['12025550100', '2025550100']],
  [
    'US',
    ['011 49 171 1234567', '+49 171 1234567', '0049 171 1234567'],
    ['491711234567', '4901711234567', '011491711234567'],
  ],
  [
    'GB',
    ['020 7946 0018', '+44 20 7946 0018', '+44 (0)20 7946 0018'],
    ['442079460018', '02079460018', '4402079460018'],
  ],
  // The leading zero belongs to the number.
  ['IT', ['06 1234 5678', '+39 06 12345678'], ['390612345678', '0612345678']],
  ['ES', ['612 34 56 78', '+34612345678'], ['34612345678', '612345678']],
  ['AR', ['011 15-2345-6789', '+54 9 11 2345 6789'], ['5491123456789', '0111523456789', '540111523456789']],
];

for (const [region, notations, digits] of groups)
  test(`${region}: ${notations[0]} has the same notations as ${notations.slice(1).join(' and ')}`, () => {
    for (const notation of notations) assert.deepEqual(phoneVariants(notation, region), digits, notation);
  });

test('other texts are compared as they are', () => {
  const others = ['110', '12', '', 'none', '171 1234567', '1'.repeat(41)];
  for (const text of others) assert.deepEqual(phoneVariants(text, 'DE'), [text]);
  assert.deepEqual(phoneVariants('0171 1234567', 'XX'), ['0171 1234567']);
});

test('texts of up to 40 characters are converted to other notations', () => {
  const spaced = (length: number) => `0171${' '.repeat(length - 11)}1234567`;
  assert.deepEqual(phoneVariants(spaced(40), 'DE'), ['491711234567', '01711234567', '4901711234567']);
  assert.deepEqual(phoneVariants(spaced(41), 'DE'), [spaced(41)]);
});

test('a number of another country has no national notation', () => {
  assert.deepEqual(phoneVariants('+1 202 555 0100', 'DE'), ['12025550100']);
});

test('a number with an extension is not the number without it', () => {
  const extended = '+1 202 555 0100 ext. 5';
  for (const region of ['DE', 'US']) assert.deepEqual(phoneVariants(extended, region), [extended], region);
});

test('regions are codes of countries with phone numbers', () => {
  assert.deepEqual(['de', 'US', 'gb'].map(phoneRegionOf), ['DE', 'US', 'GB']);
  assert.deepEqual(['', 'D', 'XX', 'Germany', 'ß', 'AQ', '49'].filter(phoneRegionOf), []);
});
