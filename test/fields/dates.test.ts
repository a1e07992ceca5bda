// Which dates exist, compared with JavaScript's calendar, and how timestamps are stored and compared.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { completeTimestamp, isDate, isTimestamp, timestampType } from '../../engine/fields/temporal.ts';

const padded = (value: number, length = 2) => String(value).padStart(length, '0');

/** Returns whether JavaScript's calendar contains a date. It accepts days that do not exist and moves them to the next month. */
function exists(text: string): boolean {
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

test('every date of ordinary years, leap years and centuries', () => {
  let count = 0;
  for (const year of [1, 4, 99, 100, 400, 1900, 1999, 2000, 2023, 2024, 2100, 9999])
    for (let month = 0; month <= 13; month++)
      for (let day = 0; day <= 32; day++) {
        const text = `${padded(year, 4)}-${padded(month)}-${padded(day)}`;
        assert.equal(isDate(text), exists(text), text);
        if (isDate(text)) count++;
      }
  assert.equal(count, 12 * 365 + 4);
});

test('the year 0 does not exist', () => {
  for (const day of ['01-01', '02-29', '12-31']) assert.equal(isDate(`0000-${day}`), false);
});

test('timestamps: the stored columns, the time in UTC, and the same time on the next day', () => {
  const expected = [
    ['2026-03-01T09:30:00Z', '2026-03-01T09:30:00', 'Z', '2026-03-01T09:30:00Z', '2026-03-02T09:30:00Z'],
    [
      '2026-03-01t09:30:00.250z',
      '2026-03-01T09:30:00.25',
      'Z',
      '2026-03-01T09:30:00.25Z',
      '2026-03-02T09:30:00.25Z',
    ],
    ['2026-03-01T09:30:00.000Z', '2026-03-01T09:30:00', 'Z', '2026-03-01T09:30:00Z', '2026-03-02T09:30:00Z'],
    [
      '2026-02-28T23:30:00.05-05:30',
      '2026-02-28T23:30:00.05',
      '-05:30',
      '2026-03-01T05:00:00.05Z',
      '2026-03-01T23:30:00.05-05:30',
    ],
    [
      '2024-02-29T00:00:00.1234567+14:00',
      '2024-02-29T00:00:00.123456',
      '+14:00',
      '2024-02-28T10:00:00.123456Z',
      '2024-03-01T00:00:00.123456+14:00',
    ],
    ['0099-12-31T23:59:59Z', '0099-12-31T23:59:59', 'Z', '0099-12-31T23:59:59Z', '0100-01-01T23:59:59Z'],
    ['0004-02-28T00:00:00Z', '0004-02-28T00:00:00', 'Z', '0004-02-28T00:00:00Z', '0004-02-29T00:00:00Z'],
    // An offset can lead to the years 0 and 10000.
    [
      '0001-01-01T00:00:00+23:59',
      '0001-01-01T00:00:00',
      '+23:59',
      '0001-12-31T00:01:00Z BC',
      '0001-01-02T00:00:00+23:59',
    ],
    [
      '9999-12-30T23:59:59-23:59',
      '9999-12-30T23:59:59',
      '-23:59',
      '9999-12-31T23:58:59Z',
      '9999-12-31T23:59:59-23:59',
    ],
  ] as const;
  for (const [text, local, offset, utc, nextDay] of expected) {
    assert.deepEqual(timestampType.write?.(text), [local, offset], text);
    assert.equal(timestampType.parse?.(text), utc, text);
    assert.equal(timestampType.shift?.(text, 1), nextDay, text);
  }
  assert.equal(timestampType.parse?.('9999-12-31T23:59:59-23:59'), '10000-01-01T23:58:59Z');
});

test('timestamps that do not exist', () => {
  for (const text of [
    '0000-12-31T00:00:00Z',
    '2026-02-29T00:00:00Z',
    '2026-03-01T24:00:00Z',
    '2026-03-01T23:60:00Z',
    '2026-03-01T23:59:60Z',
    '2026-03-01T00:00:00+24:00',
    '2026-03-01T00:00:00',
    '2026-03-01 00:00:00Z',
  ])
    assert.equal(isTimestamp(text), false, text);
});

test('timestamps without seconds or an offset, as users type them', () => {
  for (const [text, expected] of [
    ['2026-03-01', '2026-03-01T00:00:00Z'],
    ['2026-03-01 09:30', '2026-03-01T09:30:00Z'],
    [' 2026-03-01T09:30:15 ', '2026-03-01T09:30:15Z'],
    ['2026-03-01 09:30:15.25 utc', '2026-03-01T09:30:15.25Z'],
    ['2026-03-01 09:30 +05:30', '2026-03-01T09:30:00+05:30'],
    ['2026-03-01 -08:00', '2026-03-01T00:00:00-08:00'],
    ['2026-03-01T09:30:00.123456-08:00', '2026-03-01T09:30:00.123456-08:00'],
    ['2026-03-01 09', undefined],
    ['2026-03-01 09:30 CET', undefined],
    ['01.03.2026', undefined],
    ['', undefined],
  ] as const)
    assert.equal(completeTimestamp(text), expected, text);
});
