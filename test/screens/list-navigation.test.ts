// Lists and the records opened from them: previous and next pages and records, several sort keys, and filters by days
// relative to today.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { dayRanges, rangeFilter } from '../../plugins/admin-ui/records/day-ranges.ts';
import { countText } from '../../plugins/admin-ui/records/list-page.ts';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

const opportunities = '/setup/o/acme/data/opportunities';
const flags = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((letter) => `is_${letter}`);
const holidays = {
  file: 'holidays.yaml',
  text: `common: all
fields:
  name: { type: string }
  day: { type: date, nullable: true }
  start: { type: date, nullable: true }
  ${flags.map((name) => `${name}: { type: boolean }`).join('\n  ')}
filters: [{ field: day, operators: [gte, lte] }, { field: start, operators: [gte] }, ${flags.join(', ')}]
`,
};

/** Returns the link with a relation (`prev` or `next`) in the page's pager or above its title. */
const linkIn = ({ text }: Answer, rel: 'prev' | 'next'): string | undefined => {
  const [, before = '', after = ''] =
    new RegExp(`<a ((?:class="[^"]*" )?)rel="${rel}" href="([^"]*)"`).exec(text) ?? [];
  return before === undefined || after === '' ? undefined : readable(after);
};
const titleIn = ({ text }: Answer): string => readable(/<h1>([^<]*)</.exec(text)?.[1] ?? '');
const aboveIn = ({ text }: Answer): string =>
  readable(/<p class="above"><a href="([^"]*)"/.exec(text)?.[1] ?? '');
const rowsIn = ({ text }: Answer): { readonly name: string; readonly href: string }[] =>
  [...text.matchAll(/<th scope="row"[^>]*><a href="([^"]*)"[^>]*>([^<]*)</g)].map(
    ([, href = '', name = '']) => ({ name: readable(name), href: readable(href) }),
  );
const namesIn = (page: Answer): string[] => rowsIn(page).map(({ name }) => name);
const countIn = ({ text }: Answer): string => /<div class="pager"><p>([^<]*)</.exec(text)?.[1] ?? '';
const chipsIn = ({ text }: Answer): string[] =>
  [...text.matchAll(/aria-label="Remove the filter ([^"]*)"/g)].map(([, label = '']) => readable(label));

const total = 120;
const nameOf = (index: number): string => `Deal ${String(index).padStart(3, '0')}`;
const dayFrom = (offset: number): string =>
  new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);

onBothDrivers(
  'lists and their records',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
      const records = Array.from({ length: total }, (_, index) => ({
        name: nameOf(index),
        amount: index % 10,
        close_date: `${dayFrom(index - 60)}T12:00:00Z`,
        stage: index % 2 === 0 ? 'Prospecting' : 'Negotiation',
      }));
      const made = await instance().call('POST /api/v1/opportunities/batch', {
        key: acme.key,
        body: { records },
      });
      assert.equal(made.status, 200, made.text);
    });
    const get = async (path: string, visitor = admin): Promise<Answer> => {
      const answer = await visitor.get(path);
      assert.equal(answer.status, 200, `${path}: ${answer.text}`);
      return answer;
    };
    const follow = async (page: Answer, rel: 'prev' | 'next', visitor = admin): Promise<Answer> =>
      get(linkIn(page, rel) ?? assert.fail(`no ${rel} link on ${titleIn(page)}`), visitor);

    test('pages go forward and back, and say which records they show', async () => {
      const pages = [await get(`${opportunities}?sort=name`)];
      const last = () => pages.at(-1) ?? assert.fail('no page');
      while (linkIn(last(), 'next') !== undefined) pages.push(await follow(last(), 'next'));
      assert.deepEqual(
        pages.map(countIn),
        ['1–20', '21–40', '41–60', '61–80', '81–100', '101–120'].map((range) => `${range} of 120`),
      );
      assert.equal(linkIn(pages[0] ?? last(), 'prev'), undefined);
      let back = last();
      for (const page of pages.slice(0, -1).reverse()) {
        back = await follow(back, 'prev');
        assert.deepEqual(namesIn(back), namesIn(page));
        assert.equal(countIn(back), countIn(page));
      }
      assert.equal(linkIn(back, 'prev'), undefined);
    });

    describe('a record opened from a list', () => {
      const query = 'sort=name&dir=desc&stage%5Beq%5D=Negotiation';
      const open = async (list: Answer, name: string): Promise<Answer> =>
        get(rowsIn(list).find((row) => row.name === name)?.href ?? assert.fail(`no ${name}`));

      test('has links to its neighbors, also on other pages of the list', async () => {
        const list = await get(`${opportunities}?${query}`);
        const names = Array.from({ length: total / 2 }, (_, index) => nameOf(total - 1 - 2 * index));
        assert.deepEqual(namesIn(list), names.slice(0, 20));
        let page = await open(list, names[0] ?? '');
        assert.equal(linkIn(page, 'prev'), undefined);
        const walked = [titleIn(page)];
        for (let step = 1; step < names.length; step++) {
          page = await follow(page, 'next');
          walked.push(titleIn(page));
        }
        assert.deepEqual(walked, names);
        assert.equal(linkIn(page, 'next'), undefined);
        for (let step = 1; step < names.length; step++) page = await follow(page, 'prev');
        assert.equal(titleIn(page), names[0]);
        assert.equal(linkIn(page, 'prev'), undefined);
      });

      test('returns to the list, and keeps it while a value is edited', async () => {
        const list = await get(`${opportunities}?${query}`);
        const record = await open(list, nameOf(101));
        assert.equal(aboveIn(record), `${opportunities}?${query}`);
        const edit = readable(
          /<dd class="edit"><a href="([^"]*)" aria-label="Edit Amount"/.exec(record.text)?.[1] ?? '',
        );
        const form =
          formsOf(await get(edit)).find(({ action }) => action.includes('/edit')) ?? assert.fail('no form');
        const saved = await admin.submit(edit, form.action, { ...form.values, amount: '77' });
        assert.equal(saved.status, 303, saved.text);
        const after = await get(saved.headers.get('location') ?? '');
        assert.equal(aboveIn(after), `${opportunities}?${query}`);
        assert.equal(titleIn(await follow(after, 'next')), nameOf(99));
        const [, form2 = ''] = /href="([^"]*\/edit\?list[^"]*)"/.exec(after.text) ?? [];
        const page = await get(readable(form2));
        const [record2 = ''] = readable(form2).split('/edit');
        const kept = `${record2}?${readable(form2).split('?')[1]}`;
        assert.equal(aboveIn(page), kept);
        assert.ok(readable(page.text).includes(`href="${kept}">Cancel<`));
      });

      test('has neighbors on other pages if the list was opened at the number of a page', async () => {
        const list = await get(`${opportunities}?sort=name&page=2`);
        assert.equal(titleIn(await follow(await open(list, nameOf(39)), 'next')), nameOf(40));
      });

      test('has no neighbors if it does not match the list, and an invalid list does not hide it', async () => {
        const [row] = rowsIn(await get(`${opportunities}?q=${encodeURIComponent(nameOf(1))}`));
        const path = (row?.href ?? '').split('?')[0] ?? '';
        for (const list of ['stage=Prospecting', 'sort=nothing', 'cursor=x', 'amount=x', 'x'.repeat(3000)]) {
          const page = await get(`${path}?${new URLSearchParams({ list })}`);
          assert.equal(titleIn(page), nameOf(1));
          assert.equal(linkIn(page, 'next'), undefined, list);
          assert.equal(linkIn(page, 'prev'), undefined, list);
        }
        assert.equal(aboveIn(await get(`${path}?list=%2F%2Fevil.example`)).split('?')[0], opportunities);
        assert.equal(linkIn(await get(path), 'next'), undefined, 'without a list');
      });
    });

    test('several fields sort a list, and the form shows them', async () => {
      const chosen = new URLSearchParams([
        ['sort[field]', 'stage'],
        ['sort[direction]', 'asc'],
        ['sort[field]', 'amount'],
        ['sort[direction]', 'desc'],
        ['sort[field]', ''],
        ['sort[direction]', 'asc'],
        ['sort[field]', 'stage'],
        ['sort[direction]', 'desc'],
      ]);
      const redirect = await admin.get(
        `${opportunities}?q=Deal&page=2&cursor=x&sort=name&dir=desc&${chosen}`,
      );
      assert.equal(redirect.status, 303);
      assert.equal(redirect.headers.get('location'), `${opportunities}?q=Deal&sort=stage%2C-amount`);
      const list = await get(redirect.headers.get('location') ?? '');
      assert.match(list.text, /Stage <span[^>]*>↑<\/span><span class="position"[^>]*>1</);
      assert.match(list.text, /Amount <span[^>]*>↓<\/span><span class="position"[^>]*>2</);
      // The default order is descending, but applies only to its own field.
      assert.match((await get(`${opportunities}?sort=amount`)).text, /aria-sort="ascending"><a[^>]*>Amount/);
      const api = await instance().call('GET /api/v1/opportunities?sort=stage,-amount', { key: acme.key });
      assert.deepEqual(
        namesIn(list),
        (api.json.data as { name: string }[]).map(({ name }) => name),
      );
      assert.equal(list.text.match(/aria-sort=/g)?.length, 1, 'only the first key, as ARIA requires');
      const selected = [...list.text.matchAll(/<option value="([^"]*)" selected>/g)].map(
        ([, value]) => value,
      );
      assert.deepEqual(selected.filter((value) => value !== '').slice(0, 4), [
        'stage',
        'asc',
        'amount',
        'desc',
      ]);
      const single = await admin.get(
        `${opportunities}?${new URLSearchParams([
          ['sort[field]', 'amount'],
          ['sort[direction]', 'desc'],
        ])}`,
      );
      assert.equal(single.headers.get('location'), `${opportunities}?sort=amount&dir=desc`);
      for (const [sort, keys] of [
        ['name', 2],
        ['stage,-amount', 3],
        ['stage,amount,name', 4],
        ['stage,amount,probability,name', 4],
      ] as const) {
        const { text } = await get(`${opportunities}?sort=${sort}`);
        assert.equal(text.match(/name="sort\[field\]"/g)?.length, keys, `${sort}: one more, up to four`);
      }
    });

    test('views keep several sort keys and days relative to today', async () => {
      const query = 'sort=stage%2C-amount&close_date%5Bwithin%5D=next_7_days';
      const saved = await admin.submit(`${opportunities}/views/new?${query}`, `${opportunities}/views`, {
        name: 'Soon',
      });
      assert.equal(saved.status, 303, saved.text);
      const list = await get((saved.headers.get('location') ?? '').replace(/&?done=[^&]*/, ''));
      assert.deepEqual(chipsIn(list), ['Close date is in the next 7 days']);
      assert.deepEqual(
        namesIn(list).toSorted(),
        Array.from({ length: 7 }, (_, day) => nameOf(60 + day)),
      );
      assert.doesNotMatch(list.text, /are ignored/);
      const ignored = await get(`${opportunities}?close_date%5Bwithin%5D=someday`).catch(() => undefined);
      assert.equal(ignored, undefined, 'an unknown range is rejected');
    });

    test('days relative to today are offered for dates, and apply to exports', async () => {
      const menu = await get(`${opportunities}?by=close_date`);
      assert.match(menu.text, /<option value="close_date\[within\]&#x3D;last_7_days">is in the last 7 days</);
      const added = await admin.get(
        `${opportunities}?by=${encodeURIComponent('close_date[within]=last_7_days')}`,
      );
      assert.equal(added.headers.get('location'), `${opportunities}?close_date%5Bwithin%5D=last_7_days`);
      const csv = await get(`${opportunities}/export?close_date%5Bwithin%5D=last_7_days&sort=name`);
      const names = csv.text.match(/Deal \d{3}/g) ?? [];
      assert.deepEqual(
        [...new Set(names)].toSorted(),
        Array.from({ length: 7 }, (_, day) => nameOf(54 + day)),
      );
      for (const by of ['opportunities?by=stage', 'opportunities?by=amount', 'holidays?by=start'])
        assert.doesNotMatch((await get(`/setup/o/acme/data/${by}`)).text, /\[within\]/, by);
    });

    test('the filter menu offers the first six fields with known values', async () => {
      const { text } = await get('/setup/o/acme/data/holidays');
      assert.deepEqual(
        [...text.matchAll(/<select id="quick-(\w+)[^>]*>(.*?)<\/select>/g)].map(([, name, options = '']) => [
          name,
          [...options.matchAll(/value="(\w*)"/g)].map(([, value]) => value),
        ]),
        flags.slice(0, 6).map((name) => [name, ['', 'true', 'false']]),
      );
    });

    test('the chosen columns of a list are remembered, and others are not affected', async () => {
      const person = await makePerson(instance(), [{ organization: acme }]);
      const visitor = await signIn(instance(), person);
      const columnsIn = ({ text }: Answer) =>
        [...text.matchAll(/<th scope="col"[^>]*>(?:<a[^>]*>)?([^<]*)/g)]
          .map(([, label = '']) => label.trim())
          .slice(1, -1);
      const accounts = '/setup/o/acme/data/accounts';
      // A list without records has no columns.
      const body = { name: 'Any' };
      const made = await instance().call('POST /api/v1/accounts', { key: acme.key, body });
      assert.equal(made.status, 201, made.text);
      const columnsOfAccounts = columnsIn(await get(accounts, visitor));
      assert.equal(columnsOfAccounts[0], 'Website');
      const initial = columnsIn(await get(opportunities, visitor));
      assert.deepEqual(
        initial,
        ['Account', 'Amount', 'Stage', 'Close date', 'Probability', 'Updated at'],
        'the first fields after the title, except long texts, and the last change',
      );
      const choose = async (...names: readonly string[]) => {
        const list = await get(`${opportunities}?sort=name`, visitor);
        const [, form = ''] =
          /<form role="search" aria-label="Columns"[^>]*>(.*?)<\/form>/s.exec(list.text) ?? [];
        const hidden = [...form.matchAll(/type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(
          ([, name = '', value = '']): [string, string] => [name, value],
        );
        const columns = names.map((name): [string, string] => ['columns', name]);
        const chosen = await visitor.get(`${opportunities}?${new URLSearchParams([...hidden, ...columns])}`);
        assert.equal(chosen.status, 303);
        const cookie = chosen.headers.getSetCookie().find((each) => each.startsWith('crm_columns='));
        if (names.length > 0) assert.match(cookie ?? '', /; Max-Age=31536000\b/, 'for a year');
        return get(chosen.headers.get('location') ?? '', visitor);
      };
      assert.deepEqual(columnsIn(await choose('amount', 'probability')), ['Amount', 'Probability']);
      assert.deepEqual(columnsIn(await get(opportunities, visitor)), ['Amount', 'Probability']);
      assert.deepEqual(columnsIn(await get(`${opportunities}?columns=stage`, visitor)), ['Stage'], 'a link');
      assert.deepEqual(columnsIn(await get(opportunities, visitor)), ['Amount', 'Probability']);
      // Both lists have this column.
      assert.deepEqual(columnsIn(await choose('description')), ['Description']);
      assert.deepEqual(columnsIn(await get(accounts, visitor)), columnsOfAccounts);
      await choose();
      assert.deepEqual(columnsIn(await get(opportunities, visitor)), initial);
    });

    test('times are compared with whole days', async () => {
      const list = await get(`${opportunities}?created_at%5Bwithin%5D=today`);
      assert.equal(countIn(list), '1–20 of 120');
      assert.equal(countIn(await get(`${opportunities}?created_at%5Bwithin%5D=past`)), '');
      const resource = instance().resources.find(({ name }) => name === 'opportunities') ?? assert.fail();
      const day = dayFrom(0);
      assert.deepEqual(rangeFilter(resource, 'created_at[within]', 'today')?.filters, [
        ['created_at[gte]', `${day}T00:00:00Z`],
        ['created_at[lte]', `${day}T23:59:59.999999Z`],
      ]);
    });

    test('a member who cannot list records sees no neighbors', async () => {
      const person = await makePerson(instance(), [
        { organization: acme, grants: [{ object: 'opportunities', actions: ['read'] }] },
      ]);
      const visitor = await signIn(instance(), person);
      const path = rowsIn(await get(`${opportunities}?sort=name`))[0]?.href ?? '';
      assert.notEqual(linkIn(await get(path), 'next'), undefined);
      assert.equal(linkIn(await get(path, visitor), 'next'), undefined);
    });

    test('days relative to today apply to dates without a time', async () => {
      for (const offset of [-1, 0, 1]) {
        const body = { name: `Day ${offset}`, day: dayFrom(offset) };
        const made = await instance().call('POST /api/v1/holidays', { key: acme.key, body });
        assert.equal(made.status, 201, made.text);
      }
      const within = async (range: string) =>
        namesIn(await get(`/setup/o/acme/data/holidays?day%5Bwithin%5D=${range}`)).toSorted();
      assert.deepEqual(await within('today'), ['Day 0']);
      assert.deepEqual(await within('past'), ['Day -1']);
      assert.deepEqual(await within('next_7_days'), ['Day 0', 'Day 1']);
    });
  },
  { sources: await sourcesWith(holidays) },
);

test('the number of records in a list is an estimate above 10,000', () => {
  const shown = { page: 2, count: 20, size: 20 };
  assert.equal(countText(10_000, shown, 'en'), '21–40 of 10,000');
  assert.equal(countText(10_001, shown, 'en'), '21–40 of about 10,001');
  assert.equal(countText(10_001, shown, 'de'), '21–40 von etwa 10.001');
});

describe('ranges of days', () => {
  const msPerDay = 86_400_000;
  const dateOf = (day: number | undefined) =>
    day === undefined ? undefined : new Date(day * msPerDay).toISOString().slice(0, 10);
  const leapDay = Date.UTC(2028, 1, 29) / msPerDay;
  for (const [name, first, last] of [
    ['today', '2028-02-29', '2028-02-29'],
    ['last_7_days', '2028-02-23', '2028-02-29'],
    ['last_30_days', '2028-01-31', '2028-02-29'],
    ['this_month', '2028-02-01', '2028-02-29'],
    ['last_month', '2028-01-01', '2028-01-31'],
    ['this_year', '2028-01-01', '2028-12-31'],
    ['next_7_days', '2028-02-29', '2028-03-06'],
    ['next_30_days', '2028-02-29', '2028-03-29'],
    ['past', undefined, '2028-02-28'],
  ] as const)
    test(name, () => {
      const days = dayRanges.get(name)?.days(leapDay);
      assert.deepEqual([dateOf(days?.first), dateOf(days?.last)], [first, last]);
    });
  test('the month before January is in the previous year', () => {
    const days = dayRanges.get('last_month')?.days(Date.UTC(2028, 0, 1) / msPerDay);
    assert.deepEqual([dateOf(days?.first), dateOf(days?.last)], ['2027-12-01', '2027-12-31']);
  });
});
