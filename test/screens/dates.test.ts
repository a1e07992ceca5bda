// Dates in forms and query strings are validated as in the API. An invalid date returns 400 on a page that keeps its
// navigation.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { administratorOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';

/** Invalid dates: years that PostgreSQL or JavaScript cannot store, nonexistent days, and PostgreSQL's keywords. */
const invalid = [
  '-271821-04-20',
  '-271821-04-20T00:00:00Z',
  '+275760-09-13',
  '275760-09-14T00:00:00Z',
  '10000-01-01',
  '0000-01-01',
  '2026-02-30',
  '2026-13-01',
  '2026-01-01T24:00:00Z',
  '2026-01-01T00:60:00Z',
  '2026-01-01T00:00:00+24:00',
  '4714-11-24 BC',
  'infinity',
  '-infinity',
  'now',
  'soon',
  '1767225600',
  '\0',
  '\u0661\u0662\u0663',
  'x'.repeat(5000),
];
/** Valid dates, including the first and last days with offsets that cross the year. */
const valid = [
  '2026-03-01',
  '2026-03-01 09:30',
  '2026-03-01T09:30:00+01:00',
  '2026-03-01T09:30:00.123456789Z',
  '0001-01-01T00:00:00+23:59',
  '9999-12-31T23:59:59-23:59',
];

onBothDrivers('dates on pages', (instance) => {
  let acme: Organization;
  let admin: Visitor;
  before(async () => {
    acme = await instance().organization('acme');
    admin = await signIn(instance(), administratorOf(acme));
    const body = { name: 'Order', stage: 'Prospecting', close_date: '2026-03-01T00:00:00Z' };
    const made = await instance().call('POST /api/v1/opportunities', { key: acme.key, body });
    assert.equal(made.status, 201, made.text);
  });
  const assertFrame = ({ text }: Answer) =>
    assert.match(text, /<nav aria-label="[^"]*">\s*<ul><li><a href="\/setup\/o\/acme"/);
  const parameters: readonly (readonly [path: string, parameter: string, message: RegExp])[] = [
    ['activity', 'from', /from must be a date \(for example 2026-03-01\) or an RFC 3339 timestamp/],
    ['activity', 'until', /until must be a date/],
    ['activity/export', 'from', /from must be a date/],
    ['activity/export', 'until', /until must be a date/],
    ['data/leads', 'created_at[gte]', /created_at\[gte\] must be an RFC 3339 timestamp/],
    ['data/leads', 'updated_at[lt]', /updated_at\[lt\] must be an RFC 3339 timestamp/],
  ];
  for (const [path, parameter, message] of parameters) {
    test(`${path}?${parameter}`, async () => {
      const get = (text: string) =>
        admin.get(`/setup/o/acme/${path}?${new URLSearchParams([[parameter, text]])}`);
      for (const text of invalid) {
        const answer = await get(text);
        assert.equal(answer.status, 400, `${text}: ${answer.text}`);
        assert.match(readable(answer.text), message, text);
        assertFrame(answer);
      }
      if (!path.startsWith('activity')) return;
      for (const text of valid) assert.equal((await get(text)).status, 200, text);
    });
  }

  test('an unescaped "+" in a query string is the sign of an offset, as in the API', async () => {
    const answer = await admin.get('/setup/o/acme/activity?from=2026-03-01T09:30:00+01:00');
    assert.equal(answer.status, 200);
  });

  test('form fields', async () => {
    const page = '/setup/o/acme/data/opportunities/new';
    for (const text of invalid.filter((text) => !text.includes('\0'))) {
      const answer = await admin.submit(page, page, {
        name: 'Order',
        stage: 'Prospecting',
        close_date: text,
      });
      assert.equal(answer.status, 400, text);
      assert.equal(problemOf(answer), 'Some fields are invalid.', text);
      assertFrame(answer);
    }
  });

  describe('out-of-range stored values', () => {
    test('a time beyond the range of JavaScript dates is shown unchanged', async () => {
      await sql`update opportunities set updated_at = '294276-12-31T00:00:00Z' where organization_id = ${acme.id}::bigint`.execute(
        tablesOf(instance().database),
      );
      const list = await admin.get('/setup/o/acme/data/opportunities');
      assert.equal(list.status, 200, list.text);
      assert.match(list.text, /294276-12-31/);
    });
  });
});
