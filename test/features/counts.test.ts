// With `Prefer: count=…`, the response contains the number of records on all pages.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { splitGrant } from '../../plugins/access/profiles/grants.ts';
import { administratorOf, problemOf, readable, signIn } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';

const internal = {
  file: 'own/leads.yaml',
  text: 'extends: leads\nfields:\n  description: { group: internal }\n',
};
const trash = { file: 'own/opportunities.yaml', text: 'extends: opportunities\ntrash: 1 day\n' };
const sources = await sourcesWith(internal, trash);

onBothDrivers(
  'Prefer: count',
  (instance) => {
    let alpha: Organization;
    before(async () => {
      alpha = await instance().organization('alpha');
      const beta = await instance().organization('beta');
      for (const [{ id }, first, last] of [
        [alpha, 1, 12_345],
        [beta, 12_346, 18_345],
      ] as const) {
        await instance().database.run({
          name: '',
          text: `insert into leads (organization_id, created_at, updated_at, status, last_name, rating, source, owner_id)
          select $1::bigint, now(), now(), case when n <= 45 then 'New' else 'Old' end, 'L' || n,
          case when n <= 10000 then 'Hot' else 'Cold' end, case when n <= 11000 then 'Web' else 'Fair' end, case when n <= 11000 then 1 else 2 end
          from generate_series($2::text::int, $3::text::int) n`,
          values: [id, String(first), String(last)],
        });
      }
      await instance().database.run({ name: '', text: 'analyze leads', values: [] });
    });
    const get = (query: string, prefer: string): Promise<Answer> =>
      instance().call(`GET /api/v1/leads?${query}`, { key: alpha.key, headers: { prefer } });
    const countHeaders = ({ headers }: Answer) => [
      headers.get('x-total-count'),
      headers.get('preference-applied'),
    ];

    for (const [query, prefer, ...expected] of [
      ['', 'count=exact', '12345', 'count=exact'],
      ['page=700', 'count=exact', '12345', 'count=exact'],
      ['page=900', 'Count="Exact"', '12345', 'count=exact'],
      ['page=90000000000000000000', 'count=exact', '12345', 'count=exact'],
      ['status=New', 'count=exact', '45', 'count=exact'],
      ['status=New', 'count=estimated', '45', 'count=estimated'],
      // The highest number that is counted instead of estimated.
      ['rating=Hot', 'count=estimated', '10000', 'count=estimated'],
      ['status[ne]=New&q=L1&sort=last_name', 'count=exact', '3446', 'count=exact'],
      ['status=Neither', 'count=exact', '0', 'count=exact'],
      ['status=New', 'handling=strict, count=exact', '45', 'handling=strict, count=exact'],
      ['status=New', 'count=exact; x=1, respond-async', '45', 'count=exact'],
      ['status=New', 'handling=strict', null, 'handling=strict'],
      ['status=New', 'count=none', null, null],
      ['status=New', 'recount=exact', null, null],
    ] as const) {
      test(`?${query} with ${prefer}: ${expected[0]}`, async () => {
        const answer = await get(query, prefer);
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(countHeaders(answer), expected);
      });
    }

    test('estimates large counts, never below the number already counted', async () => {
      const answer = await get('', 'count=estimated');
      const [total, applied] = countHeaders(answer);
      assert.equal(applied, 'count=estimated');
      assert.ok(Number(total) > 10_000 && Number(total) < 16_000, String(total));
      // The same 11,000 leads have both values, but the planner assumes that the fields are independent.
      const [related] = countHeaders(await get('source=Web&owner_id=1', 'count=estimated'));
      assert.equal(related, '10001');
    });

    for (const page of ['1', '2', '5', '6', '501', '618', '90000000000000000000']) {
      for (const counting of ['exact', 'estimated']) {
        for (const query of [`page=${page}`, `page=${page}&sort=last_name&status=Old`]) {
          test(`a large organization, ?${query} with count=${counting}`, async () => {
            const answer = await get(query, `count=${counting}`);
            assert.equal(answer.status, 200, answer.text);
            const [total, applied] = countHeaders(answer);
            assert.equal(applied, `count=${counting}`);
            if (counting === 'exact') assert.equal(total, query.includes('Old') ? '12300' : '12345');
            else assert.ok(Number(total) > 10_000 && Number(total) < 16_000, String(total));
          });
        }
      }
    }

    describe('cursor pages', () => {
      test('count all records, not only the remaining ones', async () => {
        for (const counting of ['exact', 'estimated']) {
          const first = await get('status=New', `count=${counting}`);
          const [, next = ''] = /^<[^?>]*\?([^>]*)>/.exec(first.headers.get('link') ?? '') ?? [];
          assert.deepEqual(countHeaders(await get(next, `count=${counting}`)), ['45', `count=${counting}`]);
        }
        const far = await get('', 'count=exact');
        const [, next = ''] = /^<[^?>]*\?([^>]*)>/.exec(far.headers.get('link') ?? '') ?? [];
        const second = await get(next, 'count=estimated');
        assert.ok(Number(countHeaders(second)[0]) > 10_000);
        const [, third = ''] =
          /[,<] *<?[^?>]*\?([^>]*)>; rel="next"/.exec(second.headers.get('link') ?? '') ?? [];
        for (const counting of ['exact', 'estimated'])
          assert.ok(Number(countHeaders(await get(third, `count=${counting}`))[0]) > 10_000, counting);
      });
    });

    /** Checks a page of a large list with each kind of count. @param read reads the page with the preference */
    const assertCounted = async (
      total: number,
      read: (prefer: string) => Promise<Answer>,
    ): Promise<Answer> => {
      const page = await read('count=none');
      assert.equal(page.status, 200, page.text);
      for (const counting of ['exact', 'estimated']) {
        const counted = await read(`count=${counting}`);
        assert.equal(counted.status, 200, counted.text);
        assert.deepEqual(counted.json.data, page.json.data, counting);
        const [count, applied] = countHeaders(counted);
        assert.equal(applied, `count=${counting}`);
        if (counting === 'exact' || total <= 10_000) assert.equal(count, String(total));
        else assert.ok(Number(count) > 10_000 && Number(count) < 16_000, String(count));
      }
      return page;
    };
    const recordsIn = ({ json }: Answer) => json.data as readonly { readonly id: number }[];

    for (const [query, total] of [
      ['', 12_345],
      ['sort=-id&rating=Hot', 10_000],
      ['sort=last_name&status=Old', 12_300],
      ['sort=-company,last_name&status[ne]=New&q=L1', 3446],
      ['sort=rating,-source&owner_id=1', 11_000],
    ] as const) {
      test(`a large organization, ?${query}: the pages of cursors are counted`, async () => {
        const first = await get(query, 'count=none');
        const pages = [first];
        for (const rel of ['next', 'next', 'prev']) {
          const links = pages.at(-1)?.headers.get('link') ?? '';
          const [, page] = new RegExp(`<[^?>]*\\?([^>]*)>; rel="${rel}"`).exec(links) ?? assert.fail(links);
          pages.push(await assertCounted(total, (prefer) => get(String(page), prefer)));
        }
        const [, second, , again] = pages.map(recordsIn);
        assert.deepEqual(again, second);
      });
    }

    const condition = (field: string, value: unknown, op = 'eq') => ({ field, op, value });
    for (const [name, body, total] of [
      ['all records', {}, 12_345],
      ['one value', { where: { all: [condition('rating', 'Hot')] } }, 10_000],
      [
        'one of two values, sorted',
        { where: { any: [condition('status', 'Old'), condition('rating', 'Cold')] }, sort: '-last_name' },
        12_300,
      ],
      ['any value but one', { where: { not: condition('status', 'New') }, sort: 'rating,-id' }, 12_300],
      [
        'a search and nested conditions',
        {
          q: 'L1',
          where: { all: [{ any: [condition('owner_id', 1), condition('source', ['Fair'], 'in')] }] },
          sort: 'source,last_name',
        },
        3457,
      ],
    ] as const) {
      for (const request of ['POST /api/v1/leads/query', 'QUERY /api/v1/leads']) {
        test(`a large organization, ${request} for ${name}: each page is counted`, async () => {
          const { key } = alpha;
          let cursor: unknown = null;
          const ids = new Set<number>();
          for (let page = 1; page <= 3; page++) {
            const answer = await assertCounted(total, (prefer) =>
              instance().call(request, { key, body: { ...body, cursor }, headers: { prefer } }),
            );
            for (const { id } of recordsIn(answer)) ids.add(id);
            cursor = answer.json.next;
          }
          assert.equal(ids.size, 60);
        });
      }
    }

    test("a large organization, the admin UI's list of records", async () => {
      const browser = await signIn(instance(), administratorOf(alpha));
      const list = '/setup/o/alpha/data/leads';
      const open = async (path: string) => {
        const page = await browser.get(path);
        assert.equal(page.status, 200, `${path}: ${problemOf(page)}`);
        const [, text = ''] = /<div class="pager"><p>([^<]*)</.exec(page.text) ?? [];
        const linkTo = (rel: string) =>
          readable(new RegExp(`rel="${rel}" href="([^"]*)"`).exec(page.text)?.[1] ?? '');
        const rows = [...page.text.matchAll(/<th scope="row"[^>]*><a href="([^"?]*)/g)].map(
          ([, href]) => href,
        );
        return { text, linkTo, rows, html: page.text };
      };
      for (const [query, total] of [
        ['', 'about 1\\d,\\d{3}'],
        ['sort=last_name&status=Old', 'about 1\\d,\\d{3}'],
        ['rating=Hot', '10,000'],
      ] as const) {
        const assertRange = (
          { text, rows }: { text: string; rows: unknown[] },
          first: string,
          last: string,
        ) => {
          assert.match(text, new RegExp(`^${first}–${last} of ${total}$`));
          assert.equal(rows.length, 20);
        };
        const second = await open(`${list}?${query}&page=2`);
        const third = await open(second.linkTo('next'));
        assertRange(second, '21', '40');
        assertRange(third, '41', '60');
        assert.deepEqual((await open(third.linkTo('prev'))).rows, second.rows);
        assertRange(await open(`${list}?${query}&page=500`), '9,981', '10,000');
      }
      assert.match((await open(`${list}?page=618`)).text, /^12,341–12,345 of about 1\d,\d{3}$/);
      const { text, rows, html } = await open(`${list}?page=619`);
      assert.deepEqual(
        [text, rows, /No results\./.test(html), /No leads yet/.test(html)],
        ['', [], true, false],
      );
    });

    test('a caller who does not see all fields gets the exact number, which hidden values do not change', async () => {
      const key = await alpha.keyWith([splitGrant('leads:list')]);
      const limited = () =>
        instance().call('GET /api/v1/leads', { key, headers: { prefer: 'count=estimated' } });
      assert.deepEqual(countHeaders(await limited()), ['12345', 'count=estimated']);
      // The table grows, and so does the estimate.
      const text = `update leads set description = repeat('x', 500) where organization_id = $1::bigint`;
      for (let round = 0; round < 2; round++)
        await instance().database.run({ name: '', text, values: [alpha.id] });
      assert.deepEqual(countHeaders(await limited()), ['12345', 'count=estimated']);
    });

    test('a caller who does not see the trash gets the exact number, which the trash does not change', async () => {
      const key = await alpha.keyWith([splitGrant('opportunities:list')]);
      const run = (text: string, values: string[] = [alpha.id]) =>
        instance().database.run({ name: '', text, values });
      await run(`insert into opportunities (organization_id, created_at, updated_at, name)
        select $1::bigint, now(), now(), 'O' || n from generate_series(1, 15000) n`);
      await run('analyze opportunities', []);
      await run(`update opportunities set "_trashed_at" = now() where organization_id = $1::bigint
        and id in (select id from opportunities order by id limit 4900)`);
      const headers = { prefer: 'count=estimated' };
      const limited = await instance().call('GET /api/v1/opportunities', { key, headers });
      assert.deepEqual(countHeaders(limited), ['10100', 'count=estimated']);
    });

    test('other operations ignore the preference', async () => {
      const { status, headers } = await instance().call('POST /api/v1/leads', {
        key: alpha.key,
        body: {},
        headers: { prefer: 'count=exact' },
      });
      assert.deepEqual(
        [status, headers.get('x-total-count'), headers.get('preference-applied')],
        [201, null, null],
      );
    });
  },
  { sources },
);
