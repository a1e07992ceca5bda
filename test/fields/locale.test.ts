// Numbers, dates and times as pages show them: in the user's locale, with every digit and in their own UTC offset.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { localDate, localMoment, localNumber } from '../../engine/fields/locale.ts';
import { inTimeZone } from '../support/time-zone.ts';

/** Replaces the spaces of all widths that formats contain. */
const plain = (text: string): string => text.replace(/\s/g, ' ');

test('numbers keep their digits', () => {
  for (const [text, locale, expected] of [
    ['1234567.5000', 'en', '1,234,567.5000'],
    ['-1234567.5000', 'de', '-1.234.567,5000'],
    ['12345678901234567890.12345678901234567890', 'de', '12.345.678.901.234.567.890,12345678901234567890'],
    ['-0.5', 'en', '-0.5'],
    ['1234567', 'ar-EG', '1,234,567'],
    ['1'.repeat(41), 'en', '1'.repeat(41)],
    ['1e30', 'en', '1e30'],
    ['NaN', 'en', 'NaN'],
  ] as const)
    assert.equal(plain(localNumber(text, locale)), expected, `${text} ${locale}`);
});

test('dates', () => {
  for (const [text, locale, expected] of [
    ['2026-03-01', 'en', 'Mar 1, 2026'],
    ['2026-03-01', 'de', '1. März 2026'],
    ['0099-12-31', 'en', 'Dec 31, 99'],
    ['soon', 'en', 'soon'],
  ] as const)
    assert.equal(plain(localDate(text, locale)), expected);
});

test('times are in their own UTC offset, and midnight is a date', () => {
  for (const [text, locale, expected] of [
    ['2026-03-01T09:05:59.25Z', 'en', 'Mar 1, 2026, 9:05 AM'],
    ['2026-03-01T23:30:00-05:00', 'en', 'Mar 1, 2026, 11:30 PM'],
    ['2026-03-01T23:30:00+14:00', 'de', '1. März 2026, 23:30'],
    ['2026-03-01T00:00:00+02:00', 'en', 'Mar 1, 2026'],
    ['2026-03-01T00:00:01Z', 'en', 'Mar 1, 2026, 12:00 AM'],
    ['2026-03-01T12:00:00Z', 'en', 'Mar 1, 2026, 12:00 PM'],
    ['294276-12-31T00:00:00Z', 'en', '294276-12-31T00:00:00Z'],
  ] as const)
    assert.equal(plain(localMoment(text, locale)), expected, text);
});

test('dates and times do not depend on the time zone of the machine', () => {
  // Each locale's formatters are created only once, so these locales are not used elsewhere.
  for (const [zone, locale] of [
    ['Pacific/Kiritimati', 'en-NZ'],
    ['Pacific/Pago_Pago', 'en-IE'],
  ] as const)
    inTimeZone(zone, () => {
      assert.equal(new Date('2026-03-01T12:00:00Z').getHours(), zone === 'Pacific/Kiritimati' ? 2 : 1);
      assert.equal(plain(localDate('2026-03-01', locale)), '1 Mar 2026', zone);
      assert.equal(plain(localMoment('2026-03-01T00:00:00+02:00', locale)), '1 Mar 2026', zone);
      assert.match(
        plain(localMoment('2026-03-01T23:30:00Z', locale)),
        /^1 Mar 2026, (11:30 pm|23:30)$/,
        zone,
      );
      assert.match(
        plain(localMoment('2026-03-01T00:30:00Z', locale)),
        /^1 Mar 2026, (12:30 am|0?0:30)$/,
        zone,
      );
    });
});
