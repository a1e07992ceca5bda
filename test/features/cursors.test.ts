// Cursors: following Link headers in every order, including during writes, and where each cursor is accepted.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import fc from 'fast-check';
import type { ResourceDefinition } from '../../engine/definition/definition.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { signing } from '../../plugins/access/secrets/signing.ts';
import { everyType, valuesOf } from '../support/every-type.ts';
import { type Answer, type Organization, onBothDrivers, startInstance } from '../support/instance.ts';
import { dataOf, type ExactRecord, exactRecord, numberText, walk } from '../support/reading.ts';
import { errorOf } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';

/** Returns the target of a link in a response. */
function linkOf(answer: Answer, relation: string): string | undefined {
  const links = (answer.headers.get('link') ?? '').split(', ');
  return links.map((link) => /^<(.*)>; rel="(\w+)"$/.exec(link)).find((link) => link?.[2] === relation)?.[1];
}

/**
 * A resource whose records might not have a creator or an editor, although these fields are not `nullable`.
 */
const signed = {
  file: 'signed.yaml',
  text: `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  author: { type: int64, read_only: true, set: creator }
  reviewer: { type: int64, read_only: true, set: editor }
  note: { type: string, nullable: true }`,
};

const ids = (records: readonly ExactRecord[]) => records.map(({ id }) => numberText(id));

onBothDrivers(
  'cursors',
  (instance) => {
    let alpha: Organization;
    let beta: Organization;
    const get = (path: string, key = alpha.key) => instance().call(`GET ${path}`, { key });
    /** Follows the links of a list to its end. */
    async function follow(
      path: string,
      between: (page: number) => Promise<unknown> = async () => undefined,
      key = alpha.key,
    ): Promise<readonly ExactRecord[]> {
      const records: ExactRecord[] = [];
      let page = 0;
      for (let next: string | undefined = path; next !== undefined; next = linkOf(await lastAnswer, 'next')) {
        page++;
        assert.ok(page <= 10, 'the list never ends');
        lastAnswer = get(next, key);
        const answer = await lastAnswer;
        assert.equal(answer.status, 200, answer.text);
        assert.equal(answer.json.page, page);
        records.push(...dataOf(answer));
        await between(page);
      }
      return records;
    }
    let lastAnswer: Promise<Answer>;
    const post = async (path: string, body: string, key = alpha.key) => {
      const answer = await instance().call(`POST ${path}`, { key, body });
      assert.equal(answer.status, 201, answer.text);
      return numberText(exactRecord(answer.text).id);
    };
    const definitionOf = (name: string): ResourceDefinition => {
      const resource = instance().resources.find((each) => each.name === name);
      assert.ok(resource);
      return resource.definition;
    };

    before(async () => {
      alpha = await instance().organization('alpha');
      beta = await instance().organization('beta');
      const { fields } = definitionOf('loose');
      for (let number = 0; number < 65; number++) {
        const values = fields
          .filter((field) => !field.readOnly)
          .map(({ name, type, to }) => {
            const texts = ['p'.repeat(100), 'p'.repeat(101), '世'.repeat(600), ''].map((text) =>
              JSON.stringify(text),
            );
            const choices = to !== undefined ? ['1', '2'] : [...valuesOf(type), ...(type.text ? texts : [])];
            const value =
              number % 3 === 0 || (to !== undefined && number < 3)
                ? 'null'
                : choices[number % choices.length];
            return `"${name}":${value}`;
          });
        await post('/api/v1/loose', `{${values}}`);
      }
      for (const { key } of [alpha, beta]) {
        for (let number = 0; number < 45; number++) {
          await post('/api/v1/leads', JSON.stringify({ last_name: `L${number % 7}`, status: 'New' }), key);
        }
      }
    });

    test('every order and field type, with nulls and equal values, returns the same records as pages', async () => {
      for (const sort of definitionOf('loose').sort.choices.keys()) {
        for (const dir of ['asc', 'desc']) {
          const query = `sort=${sort}&dir=${dir}`;
          const pages = (await walk(instance(), '/api/v1/loose', query, alpha.key)).flat();
          assert.deepEqual(ids(await follow(`/api/v1/loose?${query}`)), ids(pages), query);
          assert.equal(new Set(ids(pages)).size, 65);
        }
      }
    });

    test('several sort keys in any directions, with nulls and equal values, return the same records as pages', async () => {
      const choices = [...definitionOf('loose').sort.choices.keys()];
      for (const [index, first] of choices.entries()) {
        const second = choices[(index + 3) % choices.length] ?? '';
        for (const sort of [`${first},-${second}`, `-${first},${second}`, `-${second},-${first}`]) {
          const query = `sort=${sort}`;
          const pages = (await walk(instance(), '/api/v1/loose', query, alpha.key)).flat();
          assert.deepEqual(ids(await follow(`/api/v1/loose?${query}`)), ids(pages), query);
          assert.equal(new Set(ids(pages)).size, 65);
          const fields = ids(await follow(`/api/v1/loose?${query}&fields=id`));
          assert.deepEqual(fields, ids(pages), query);
        }
      }
    });

    test('the last key sorts records with equal values, and their IDs follow its direction', async () => {
      const list = async (sort: string) =>
        dataOf(await get(`/api/v1/leads?fields=last_name&sort=${sort}`)).map(
          ({ last_name, id }) => [last_name, Number(numberText(id))] as const,
        );
      const byName = (a: readonly [unknown, number], b: readonly [unknown, number]) =>
        String(a[0]) < String(b[0]) ? -1 : String(a[0]) > String(b[0]) ? 1 : 0;
      const ascending = await list('status,last_name');
      assert.equal(ascending.length, 20);
      assert.deepEqual(
        ascending,
        ascending.toSorted((a, b) => byName(a, b) || a[1] - b[1]),
      );
      const mixed = await list('last_name,-status');
      assert.deepEqual(
        mixed,
        mixed.toSorted((a, b) => byName(a, b) || b[1] - a[1]),
      );
      assert.deepEqual(await list('-last_name'), await list('last_name&dir=desc'));
    });

    test('among several keys, the field of the default order sorts ascending unless it has a "-"', async () => {
      const { key } = await instance().organization('defaults');
      // The default order of leads is by created_at, newest first.
      const made: string[] = [];
      for (const rating of ['Cold', 'Hot', 'Cold', 'Hot'])
        made.push(await post('/api/v1/leads', JSON.stringify({ rating }), key));
      const [a, b, c, d] = made;
      for (const [sort, expected] of [
        ['created_at', [d, c, b, a]],
        ['rating,created_at', [a, c, b, d]],
        ['rating,-created_at', [c, a, d, b]],
        ['-rating,created_at', [b, d, a, c]],
        ['created_at,rating', [a, b, c, d]],
        ['-created_at,rating', [d, c, b, a]],
      ] as const)
        assert.deepEqual(ids(dataOf(await get(`/api/v1/leads?sort=${sort}`, key))), expected, sort);
    });

    test('rejects sort keys that are unknown, repeated, too many, or combined with dir', async () => {
      const dir =
        'dir cannot be combined with several fields or "-" in sort. Write "-" before each field that sorts in descending order.';
      for (const [query, message] of [
        ['sort=last_name,-last_name', 'sort must not contain a field twice'],
        ['sort=last_name,status,rating,company,id', 'sort must not contain more than 4 fields'],
        ['sort=last_name,-status&dir=asc', dir],
        ['sort=-last_name&dir=asc', dir],
      ] as const) {
        const { status, json } = await get(`/api/v1/leads?${query}`);
        assert.deepEqual([status, json.error], [400, message], query);
      }
      for (const sort of [
        'last_name,',
        ',last_name',
        '-',
        '--last_name',
        'last_name,-statsu',
        'last_name, status',
      ]) {
        const { status, json } = await get(`/api/v1/leads?sort=${sort}`);
        assert.equal(status, 400, sort);
        assert.match(String(json.error), /^sort must be one of /);
      }
    });

    test('values that a filter compares case-insensitively are sorted by their exact text on every page', async () => {
      const { key } = await instance().organization('notations');
      const emails = ['ADA@x.example', 'ada@x.example'];
      const made: (readonly [email: string, id: string])[] = [];
      for (let number = 0; number < 25; number++) {
        const email = emails[number % 3 === 0 ? 0 : 1] ?? '';
        made.push([email, await post('/api/v1/leads', JSON.stringify({ email }), key)]);
      }
      const sorted = emails.flatMap((email) => made.flatMap(([value, id]) => (value === email ? [id] : [])));
      for (const [dir, expected] of [
        ['asc', sorted],
        ['desc', sorted.toReversed()],
      ] as const) {
        const path = `/api/v1/leads?email=ada@x.example&sort=email&dir=${dir}`;
        assert.deepEqual(ids(await follow(path, undefined, key)), expected, dir);
      }
    });

    describe('prev', () => {
      /** Follows the links of a list from its last page back to its first. */
      const back = async (path: string) => {
        const pages: (readonly string[])[] = [];
        let answer = await get(path);
        for (let next = linkOf(answer, 'next'); next !== undefined; next = linkOf(answer, 'next'))
          answer = await get(next);
        for (let page = Number(answer.json.page); page > 0; page--) {
          assert.equal(answer.json.page, page);
          pages.unshift(ids(dataOf(answer)));
          const previous = linkOf(answer, 'prev');
          // A full first page that was reached from the second one might not be the first any longer.
          if (page === 1) break;
          assert.ok(previous, `page ${page} has no link to the previous page`);
          const position = answer;
          answer = await get(previous);
          assert.equal(answer.status, 200, answer.text);
          const returned = linkOf(answer, 'next') ?? assert.fail();
          assert.deepEqual((await get(returned)).json, position.json, path);
        }
        return pages;
      };

      test('leads back through the same pages in every order', async () => {
        const choices = [...definitionOf('loose').sort.choices.keys()];
        const single = choices.map((sort, index) => `sort=${sort}&dir=${index % 2 === 0 ? 'asc' : 'desc'}`);
        const several = choices.slice(1).map((sort, index) => `sort=${sort},-${choices[index]}&fields=id`);
        for (const query of [...single, ...several]) {
          const pages = await walk(instance(), '/api/v1/loose', query, alpha.key);
          assert.deepEqual(await back(`/api/v1/loose?${query}`), pages.map(ids), query);
        }
      });

      test('keeps filters, searches and counts', async () => {
        for (const query of [
          'status=New&q=L',
          'created_at[gte]=2020-01-01&sort=last_name',
          'q=L&sort=-last_name',
        ]) {
          const pages = await walk(instance(), '/api/v1/leads', query, alpha.key);
          assert.deepEqual(await back(`/api/v1/leads?${query}`), pages.map(ids), query);
        }
        const second = linkOf(await get('/api/v1/leads'), 'next') ?? assert.fail();
        const headers = { prefer: 'count=exact' };
        const previous = linkOf(await get(second), 'prev') ?? assert.fail();
        const counted = await instance().call(`GET ${previous}`, { key: alpha.key, headers });
        assert.equal(counted.headers.get('x-total-count'), '45');
      });

      test('of a page requested by its number is the page with the previous number', async () => {
        assert.equal(
          linkOf(await get('/api/v1/leads?page=3&sort=id'), 'prev'),
          '/api/v1/leads?sort=id&page=2',
        );
        assert.equal(linkOf(await get('/api/v1/leads'), 'prev'), undefined);
      });

      test('finds records added before the first page, without changing the page number', async () => {
        const { key } = await instance().organization('earlier');
        for (let number = 0; number < 45; number++) await post('/api/v1/leads', '{"last_name":"M"}', key);
        const second = linkOf(await get('/api/v1/leads?sort=last_name', key), 'next') ?? assert.fail();
        for (let number = 0; number < 3; number++) await post('/api/v1/leads', '{"last_name":"A"}', key);
        const first = await get(linkOf(await get(second, key), 'prev') ?? assert.fail(), key);
        assert.deepEqual([first.json.page, dataOf(first).length], [1, 20]);
        const earlier = await get(linkOf(first, 'prev') ?? assert.fail(), key);
        assert.deepEqual([earlier.json.page, dataOf(earlier).length], [1, 3]);
        assert.equal(linkOf(earlier, 'prev'), undefined);
      });

      test('cannot start an export', async () => {
        const second = linkOf(await get('/api/v1/leads'), 'next') ?? assert.fail();
        const previous = linkOf(await get(second), 'prev') ?? assert.fail();
        const headers = { accept: 'text/csv' };
        const { status, text } = await instance().call(`GET ${previous}`, { key: alpha.key, headers });
        assert.equal(status, 400);
        assert.match(text, /cursor of a previous page cannot be used with this format/);
      });
    });

    test('lists records without a creator or editor at every page boundary', async () => {
      const path = '/api/v1/signed';
      // Pages end before, within, between and exactly at the two blocks.
      for (const [signed, unsigned] of [
        [25, 20],
        [40, 5],
        [20, 21],
        [0, 45],
        [41, 1],
      ] as const) {
        const { key, id } = await instance().organization(`signed-${signed}`);
        await instance().database.run({
          name: '',
          text: `insert into signed (organization_id, author, reviewer, note)
            select $1::bigint, u, u, u::text from (select case when n <= $2::int then n % 3 + 1 end u from generate_series(1, $3::int) n) _t`,
          values: [id, String(signed), String(signed + unsigned)],
        });
        for (const sort of ['author', 'reviewer', 'note']) {
          for (const dir of ['asc', 'desc']) {
            const query = `sort=${sort}&dir=${dir}`;
            const pages = (await walk(instance(), path, query, key)).flat();
            assert.equal(new Set(ids(pages)).size, signed + unsigned);
            assert.deepEqual(ids(await follow(`${path}?${query}`, async () => undefined, key)), ids(pages));
          }
        }
      }
    });

    test('texts around the sort length are listed once, however many code units a character has', async () => {
      const { key, id } = await instance().organization('long');
      // 498 to 502 characters before the number: within, at and beyond the sorted prefix. The letter shifts the
      // code units, so that a limit in code units would split a character.
      await instance().database.run({
        name: '',
        text: `insert into leads (organization_id, created_at, updated_at, last_name)
          select $1::bigint, now(), now(), repeat('a', n % 2) || repeat('🌍', 498 + n % 5 - n % 2) || n
          from generate_series(1, 65) n`,
        values: [id],
      });
      for (const dir of ['asc', 'desc']) {
        const query = `sort=last_name&dir=${dir}`;
        const pages = (await walk(instance(), '/api/v1/leads', query, key)).flat();
        assert.equal(new Set(ids(pages)).size, 65);
        const followed = await follow(`/api/v1/leads?${query}`, async () => undefined, key);
        assert.deepEqual(ids(followed), ids(pages), query);
      }
    });

    test('a page can start after a record with the longest values in all sort keys', async () => {
      const { key, id } = await instance().organization('longest');
      const sort = ['first_name', 'last_name', 'company', 'description'];
      for (const character of ['世', '\u0001']) {
        await instance().database.run({
          name: '',
          text: `insert into leads (organization_id, created_at, updated_at, status, ${sort.join()})
            select $1::bigint, now(), now(), $2, ${sort.map(() => 'repeat($2, 600)').join()} from generate_series(1, 21)`,
          values: [id, character],
        });
        const where = { field: 'status', op: 'eq', value: character };
        const page = async (cursor: unknown) => {
          const body = { where, sort: sort.join(), fields: 'id', cursor };
          return instance().call('POST /api/v1/leads/query', { key, body });
        };
        const first = await page(null);
        const second = await page(first.json.next);
        assert.deepEqual(
          [first, second].map(({ json }) => (json.data as unknown[] | undefined)?.length),
          [20, 1],
        );
      }
    });

    test('links keep filters and searches', async () => {
      for (const query of [
        'status=New',
        'status=New&status=Old&sort=last_name',
        'q=L&sort=last_name&dir=desc',
        'created_at[gte]=2020-01-01T00:00:00Z',
        'updated_at[gte]=2020-01-01T00:00:00%2B01:00&sort=last_name',
        'owner_id[is_null]=false&sort=owner_id',
        'last_name=unknown+parameter&x=%C3%A4%20%26%5B',
      ]) {
        const pages = (await walk(instance(), '/api/v1/leads', query, alpha.key)).flat();
        assert.equal(pages.length, 45);
        assert.deepEqual(ids(await follow(`/api/v1/leads?${query}`)), ids(pages), query);
      }
    });

    describe('Link', () => {
      test('full pages link to the next page, later pages to the previous one and every page to the first, and all keep the other parameters', async () => {
        const first = await get('/api/v1/leads?page=2&status=New&status=&x=a%26b&org=beta');
        assert.equal(first.json.page, 2);
        assert.equal(linkOf(first, 'first'), '/api/v1/leads?status=New&status=&x=a%26b&org=beta');
        const next = linkOf(first, 'next') ?? '';
        assert.ok(next.startsWith('/api/v1/leads?status=New&status=&x=a%26b&org=beta&cursor='), next);
        const second = await get(next);
        assert.equal(second.json.page, 3);
        assert.equal(dataOf(second).length, 5);
        const parameters = 'status=New&status=&x=a%26b&org=beta';
        const previous = linkOf(second, 'prev') ?? '';
        assert.ok(previous.startsWith(`/api/v1/leads?${parameters}&cursor=`), previous);
        assert.equal(
          second.headers.get('link'),
          `<${previous}>; rel="prev", </api/v1/leads?${parameters}>; rel="first"`,
        );
        assert.equal(
          (await get('/api/v1/leads?page=99')).headers.get('link'),
          '</api/v1/leads?page=98>; rel="prev", </api/v1/leads>; rel="first"',
        );
        assert.deepEqual(second.json.data, (await get('/api/v1/leads?status=New&page=3')).json.data);
      });

      test('omits links that would be too long for clients', async () => {
        for (const [length, has] of [
          [3990, true],
          [4100, false],
        ] as const) {
          const answer = await get(`/api/v1/leads?x=${'x'.repeat(length)}`);
          assert.deepEqual([answer.status, answer.headers.has('link')], [200, has]);
        }
        const escaped = await get(`/api/v1/leads?x=${'%CC%81'.repeat(1000)}`);
        assert.deepEqual([escaped.status, escaped.headers.has('link')], [200, false]);
        const body = JSON.stringify({ last_name: '\u0001'.repeat(600) });
        for (let number = 0; number < 20; number++) await post('/api/v1/contacts', body);
        const next = linkOf(await get(`/api/v1/contacts?x=${'x'.repeat(3990)}`), 'next') ?? '';
        const last = await get(next);
        assert.deepEqual([last.status, dataOf(last).length], [200, 0]);
      });

      test('strict mode accepts the parameter', async () => {
        const next = linkOf(await get('/api/v1/cases'), 'next') ?? linkOf(await get('/api/v1/leads'), 'next');
        const headers = { prefer: 'handling=strict' };
        assert.equal((await instance().call(`GET ${next}`, { key: alpha.key, headers })).status, 200);
      });
    });

    describe('rejects cursors from another context and altered cursors', () => {
      const message = 'cursor is invalid. Follow the next URL from the Link header unchanged.';
      const assertRejected = async (path: string, key = alpha.key) => {
        const answer = await get(path, key);
        assert.deepEqual(
          [answer.status, errorOf(answer)],
          [400, { error: message, code: 'invalid_input', fields: [{ field: 'cursor', message }] }],
          path,
        );
      };
      const nextOf = async (path: string) => linkOf(await get(path), 'next') ?? '';
      const cursorOf = (url: string) => new URL(url, 'http://x').searchParams.get('cursor') ?? '';

      test('from another organization, resource, order or filter', async () => {
        const next = await nextOf('/api/v1/leads?status=New');
        assert.equal((await get(next)).status, 200);
        await assertRejected(next, beta.key);
        const cursor = cursorOf(next);
        for (const path of [
          `leads?cursor=${cursor}`,
          `leads?status=Old&cursor=${cursor}`,
          `leads?status=New&status=Old&cursor=${cursor}`,
          `leads?status=New&rating=Hot&cursor=${cursor}`,
          `leads?status=New&q=L&cursor=${cursor}`,
          `leads?status[ne]=New&cursor=${cursor}`,
          `leads?status=New&dir=asc&cursor=${cursor}`,
          `leads?status=New&sort=id&cursor=${cursor}`,
          `cases?status=New&cursor=${cursor}`,
          `loose?status=New&cursor=${cursor}`,
        ]) {
          await assertRejected(`/api/v1/${path}`);
        }
      });

      test('from a list with the same parameters but other values, however similar', async () => {
        for (const [parameters, ...others] of [
          ['q=L', 'q=6', 'q=LL', 'q=L+6', 'q='],
          ['created_at[gte]=2020-01-01T00:00:00Z', 'created_at[gte]=2020-01-01T00:00:01Z'],
          ['owner_id[is_null]=false', 'owner_id[is_null]=true'],
          ['status=New&q=L', 'status=Old&q=L', 'status=New&q=l0'],
        ] as const) {
          const next = await nextOf(`/api/v1/leads?${parameters}`);
          assert.equal((await get(next)).status, 200);
          for (const other of others) await assertRejected(`/api/v1/leads?${other}&cursor=${cursorOf(next)}`);
        }
      });

      test('altered at any position, truncated, repeated or forged', async () => {
        const cursor = cursorOf(await nextOf('/api/v1/leads'));
        for (let at = 0; at < cursor.length; at++) {
          const other = cursor[at] === 'A' ? 'B' : 'A';
          await assertRejected(`/api/v1/leads?cursor=${cursor.slice(0, at)}${other}${cursor.slice(at + 1)}`);
        }
        const forgery = Buffer.from('["2","2026-01-01T00:00:00Z","1"]').toString('base64url');
        for (const wrong of [
          '',
          'x',
          '.',
          cursor.slice(1),
          cursor.slice(0, -1),
          `${cursor}.`,
          `${forgery}.`,
          `${forgery}.x`,
          `${forgery}.${cursor.split('.')[1]}`,
          '%00',
          'x'.repeat(9000),
        ]) {
          await assertRejected(`/api/v1/leads?cursor=${wrong}`);
        }
        await assertRejected(`/api/v1/leads?cursor=${cursor}&cursor=${cursor}`);
      });

      test('combined with page', async () => {
        const { status, json } = await get(`${await nextOf('/api/v1/leads')}&page=2`);
        const text = 'page cannot be combined with cursor';
        assert.deepEqual([status, json.error], [400, text]);
      });
    });

    test('returns each record that exists throughout exactly once during writes', async () => {
      let organizations = 0;
      await fc.assert(
        fc.asyncProperty(
          fc.constantFrom('last_name', 'created_at', 'id', 'owner_id', 'updated_at'),
          fc.constantFrom('asc', 'desc'),
          fc.array(
            fc.record({
              does: fc.constantFrom('insert', 'update', 'delete'),
              at: fc.nat(),
              name: fc.constantFrom('', 'A', 'B', 'L0', 'L3', 'Z', 'p'.repeat(120)),
            }),
            { minLength: 8, maxLength: 16 },
          ),
          async (sort, dir, writes) => {
            const { key, id } = await instance().organization(`walk-${++organizations}`);
            const path = '/api/v1/leads';
            // One batch creates equal timestamps. Every third record does not have an owner.
            await instance().database.run({
              name: '',
              text: `insert into leads (organization_id, created_at, updated_at, last_name, owner_id)
                select $1::bigint, timestamptz '2026-01-01' + (n % 9) * interval '1 s', timestamptz '2026-01-01' + (n % 4) * interval '1 s',
                  'L' || n % 5, nullif(n % 3, 0) from generate_series(1, 70) n`,
              values: [id],
            });
            const existing = ids((await walk(instance(), path, 'sort=id', key)).flat());
            const touched = new Set<string>();
            const left = [...writes];
            const seen: string[] = [];
            let next: string | undefined = `${path}?sort=${sort}&dir=${dir}`;
            while (next !== undefined) {
              const answer = await get(next, key);
              assert.equal(answer.status, 200, answer.text);
              seen.push(...ids(dataOf(answer)));
              next = linkOf(answer, 'next');
              await Promise.all(
                left.splice(0, 4).map(async ({ does, at, name }) => {
                  const body = { last_name: name };
                  if (does === 'insert') return instance().call(`POST ${path}`, { key, body });
                  const chosen = existing[at % existing.length] ?? '';
                  // Updates to other fields do not move a record.
                  if (does === 'delete' || sort === 'last_name' || sort === 'updated_at') touched.add(chosen);
                  const method = does === 'update' ? 'PUT' : 'DELETE';
                  return instance().call(`${method} ${path}/${chosen}`, {
                    key,
                    ...(does === 'update' && { body }),
                  });
                }),
              );
            }
            for (const each of existing.filter((one) => !touched.has(one))) {
              assert.equal(seen.filter((one) => one === each).length, 1, `${each} by ${sort} ${dir}`);
            }
          },
        ),
        { numRuns: 8 },
      );
    });
  },
  { sources: await sourcesWith(...everyType, signed) },
);

describe('cursors of an instance', () => {
  test('links are absolute if the instance has a public URL', async () => {
    const environment = { PUBLIC_URL: 'https://crm.example' };
    const instance = await startInstance('postgresql', { environment });
    try {
      const { key } = await instance.organization('alpha');
      const { headers } = await instance.call('GET /api/v1/cases?status=New', { key });
      assert.equal(headers.get('link'), '<https://crm.example/api/v1/cases?status=New>; rel="first"');
    } finally {
      await instance.close();
    }
  });

  test('accepts the previous secret during a rotation, and rejects it after its removal', () => {
    const [old, current] = ['o', 'n'].map((letter) => letter.repeat(32)) as [string, string];
    const by = (...authSecrets: string[]) =>
      signing(instanceSecrets({ authSecrets, dataFolder: '' }), 'cursors of lists');
    const signature = by(old).sign('text');
    assert.ok(by(current, old).verify('text', signature));
    assert.ok(!by(current).verify('text', signature));
    assert.ok(!by(old).verify('texts', signature));
    assert.ok(
      !signing(instanceSecrets({ authSecrets: [old], dataFolder: '' }), 'else').verify('text', signature),
    );
    assert.notEqual(by(current, old).sign('text'), signature);
  });
});
