// Which dates exist, compared with JavaScript's calendar.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDate } from '../../engine/fields/temporal.ts';

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
