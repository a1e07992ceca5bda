// Dates in forms and query strings are validated as in the API. An invalid date returns 400 on a page that keeps its
// navigation. The parameters and form fields follow from the definitions, and from the pages in the router.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf, transaction } from '../../engine/tables/index.ts';
import { dayRanges, isTemporal } from '../../plugins/admin-ui/records/day-ranges.ts';
import { createView } from '../../plugins/admin-ui/saved-views/index.ts';
import { formsOf, optionOf, problemOf, readable, type Visitor } from '../support/forms.ts';
import { followLinks, linksIn, pageModules, pageRoutes, pageSources } from '../support/hostile/pages.ts';
import { routesOf } from '../support/hostile/routes.ts';
import {
  type Answer,
  drivers,
  type Instance,
  type Organization,
  startInstance,
} from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { command } from '../support/people.ts';
import { openScreens } from '../support/screens.ts';

const { environment } = settingsFile({ mcp: true });

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

/** Returns one invalid date for each index, because parameters and fields of the same type share the code that reads dates. */
const invalidAt = (index: number): string => invalid[index % invalid.length] ?? '';
/** Invalid dates that a form can contain. */
const inForms = invalid.filter((text) => !text.includes('\0'));
/** Invalid dates that are sent to every parameter of every page. */
const severe = ['-271821-04-20T00:00:00Z', '2026-02-30', '\0', 'x'.repeat(5000)];

for (const driver of drivers)
  describe(`dates on pages (${driver})`, () => {
    let built: Instance;
    const instance = () => built;
    let urls: readonly string[];
    let acme: Organization;
    let admin: Visitor;
    /** ID of a record of each resource with dates. */
    const ids: Record<string, string> = {};
    const data = '/setup/o/acme/data';
    const create = async (request: string, body: object) => {
      const made = await built.call(`POST ${request}`, { key: acme.key, body });
      assert.equal(made.status, 201, made.text);
      return String(made.json.id);
    };

    before(async () => {
      const router = await routesOf(() =>
        startInstance(driver, { environment, sources: pageSources, modules: pageModules }),
      );
      built = router.built;
      urls = pageRoutes(router.routes(built.app));
      const screens = await openScreens(built);
      ({ acme, admin } = screens);
      await Promise.all([screens.newDelivery(), screens.newEventDelivery(), screens.newTeam()]);
      await create('/fields/parcels', { name: 'packed_on', type: 'date' });
      await create('/fields/parcels', { name: 'packed_at', type: 'timestamp' });
      const order = { name: 'Order', stage: 'Prospecting', close_date: '2026-03-01T00:00:00Z' };
      ids.opportunities = await create('/api/v1/opportunities', order);
      ids.parcels = await create('/api/v1/parcels', { name: 'Parcel', due_on: '2026-03-01' });
    });
    after(() => built.close());

    const assertFrame = ({ text }: Answer) =>
      assert.match(text, /<nav aria-label="[^"]*">\s*<ul><li><a href="\/setup\/o\/acme"/);
    const get = (path: string, parameter: string, text: string) =>
      admin.get(`/setup/o/acme/${path}?${new URLSearchParams([[parameter, text]])}`);

    const parameters: readonly (readonly [path: string, parameter: string, message: RegExp])[] = [
      ['activity', 'from', /from must be a date \(for example 2026-03-01\) or an RFC 3339 timestamp/],
      ['activity', 'until', /until must be a date/],
      ['activity/export', 'from', /from must be a date/],
      ['activity/export', 'until', /until must be a date/],
    ];
    for (const [path, parameter, message] of parameters) {
      test(`${path}?${parameter}`, async () => {
        for (const text of invalid) {
          const answer = await get(path, parameter, text);
          assert.equal(answer.status, 400, `${text}: ${answer.text}`);
          assert.match(readable(answer.text), message, text);
          assertFrame(answer);
        }
        for (const text of valid) assert.equal((await get(path, parameter, text)).status, 200, text);
      });
    }

    test('every filter of every resource', async () => {
      const filters = built.resources.flatMap(({ name, definition }) =>
        definition.filters
          .filter(({ field }) => isTemporal(field))
          .flatMap((filter) => filter.parameters.map((parameter) => ({ resource: name, ...parameter })))
          .filter(({ operator }) => operator !== 'is_null'),
      );
      assert.ok(filters.length > 30, `${filters.length} filters`);
      let tested = 0;
      for (const [index, { resource, name }] of filters.entries()) {
        for (const path of [`data/${resource}`, `data/${resource}/export`]) {
          const texts = index < 2 ? invalid : [invalidAt(index)];
          for (const text of texts) {
            const answer = await get(path, name, text);
            assert.equal(answer.status, 400, `${path}?${name}=${text}: ${answer.text}`);
            assert.ok(readable(answer.text).includes(`${name} must be`), `${name}=${text}: ${answer.text}`);
            assertFrame(answer);
            tested++;
          }
        }
      }
      assert.ok(tested > 140, `${tested} requests`);
    });

    test('ranges of days, also in saved views', async () => {
      for (const range of dayRanges.keys()) {
        for (const field of ['created_at', 'due_on', 'due_at'])
          assert.equal(
            (await get('data/parcels', `${field}[within]`, range)).status,
            200,
            `${field} ${range}`,
          );
      }
      const list = { organization: acme.id, user: acme.user, resource: 'parcels' };
      for (const [index, text] of inForms.slice(0, 8).entries()) {
        for (const name of ['due_on[within]', 'due_at[gte]']) {
          const id = await transaction(built.database, (tables) =>
            createView(tables, command(built), list, {
              name: `${name} ${index}`,
              query: String(new URLSearchParams([[name, text]])).slice(0, 4000),
              isShared: false,
            }),
          );
          const page = await get('data/parcels', 'view', id);
          assert.ok([200, 400].includes(page.status), `${name}=${text}: ${page.text}`);
          assertFrame(page);
        }
      }
    });

    test('every date in a form for a record', async () => {
      let fields = 0;
      for (const [resource, id] of Object.entries(ids)) {
        for (const page of [`${data}/${resource}/new`, `${data}/${resource}/${id}/edit`]) {
          const form =
            formsOf(await admin.get(page)).find(({ action }) => action === page) ?? assert.fail(page);
          const dates = Object.keys(form.values).filter((name) => /(?:_on|_at|_date)$/.test(name));
          for (const name of dates) {
            fields++;
            const texts =
              fields <= 3
                ? inForms
                : [0, 5, 10].map((step) => inForms[(fields + step) % inForms.length] ?? '');
            for (const text of texts) {
              const answer = await admin.post(page, { ...form.values, name: 'X', [name]: text });
              assert.equal(answer.status, 400, `${page} ${name}=${text}: ${answer.text}`);
              assert.equal(problemOf(answer), 'Some fields are invalid.', text);
              assertFrame(answer);
            }
          }
        }
      }
      assert.equal(fields, 2 * 5, 'fields of the definitions and custom fields');
    });

    test('dates in the input of an action and the expiry of a key', async () => {
      const action = `${data}/parcels/${ids.parcels}/actions/weigh`;
      const keys = '/setup/o/acme/keys/create';
      const profile = await optionOf(admin, keys, 'read-only');
      for (const text of inForms) {
        const acted = await admin.submit(action, action, { 'input.day': text });
        // The schema's format only selects the control. The action decides which dates are valid.
        assert.equal(acted.status, 303, `${text}: ${acted.text}`);
        const created = await admin.submit(keys, keys, { name: 'Key', profile, expires: text });
        assert.equal(created.status, 400, `${text}: ${created.text}`);
        assertFrame(created);
      }
    });

    test('no parameter to which a page links fails with a date', async () => {
      const found = new Map<string, readonly [path: string, name: string]>();
      const older = `${data}/parcels/${ids.parcels}?history=&until=2026-01-01T00:00:00Z&entry=notes.1&rest=1`;
      const start = ['', '/jobs', '/proposals', '/events?show=event-deliveries', '/agents', '/activity'].map(
        (page) => `/setup/o/acme${page}`,
      );
      await followLinks(
        urls,
        [
          ...start,
          ...Object.entries(ids).map(([resource, id]) => `${data}/${resource}/${id}`),
          older,
          '/setup/me',
        ],
        async ({ path }) => {
          const answer = await admin.get(path);
          for (const link of [path, ...linksIn(answer)]) {
            const [page = '', query] = link.split('?');
            for (const name of new URLSearchParams(query).keys()) found.set(`${page} ${name}`, [link, name]);
          }
          for (const [, action = '', inside = ''] of answer.text.matchAll(
            /<form[^>]* method="get"[^>]* action="([^"]*)"[^>]*>([\s\S]*?)<\/form>/g,
          ))
            for (const [, name = ''] of inside.matchAll(/ name="([^"]*)"/g))
              found.set(`${readable(action)} ${readable(name)}`, [readable(action), readable(name)]);
          return answer;
        },
      );
      assert.ok(found.size > 80, `${found.size} parameters`);
      for (const [index, [link, name]] of [...found.values()].entries()) {
        const [page = '', query] = link.split('?');
        for (const text of link === older ? severe : [severe[index % severe.length] ?? '']) {
          const changed = new URLSearchParams(query);
          changed.set(name, text);
          const answer = await admin.get(`${page}?${changed}`);
          assert.ok(answer.status < 500, `${page}?${changed}: ${answer.status}`);
          if (answer.status === 400) assertFrame(answer);
        }
      }
    });

    test('an unescaped "+" in a query string is the sign of an offset, as in the API', async () => {
      const answer = await admin.get('/setup/o/acme/activity?from=2026-03-01T09:30:00+01:00');
      assert.equal(answer.status, 200);
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
