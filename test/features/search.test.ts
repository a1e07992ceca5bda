// ?q= finds records that contain each word in any searched field, regardless of case, and treats pattern
// characters literally.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { searchLimits } from '../../engine/query/search.ts';
import { noGrants } from '../../engine/records/index.ts';
import { type Instance, type Organization, onBothDrivers } from '../support/instance.ts';
import { dataOf } from '../support/reading.ts';
import { assertErrorShape } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';
import { vacuum } from '../support/tables.ts';

const notes = {
  file: 'notes.yaml',
  text: 'common: all\nfields:\n  title: { type: string }\n  body: { type: string, nullable: true }\nsearch: [title, body]\n',
};

const people = [
  { first_name: 'Ada', last_name: 'Lovelace', company: 'Analytical Engines', email: 'ada@x.example' },
  { first_name: 'Grace', last_name: 'Hopper', company: 'COBOL & Sons', email: 'grace@navy.example' },
  { first_name: 'Änne', last_name: 'Größe', company: '100%_sure\\', email: '' },
  { first_name: '明', last_name: '世界', company: '', email: 'ming@navy.example' },
  { first_name: 'Lo', last_name: 'Adair', company: "O'Neil", email: '', description: 'Lovelace' },
];

onBothDrivers(
  '?q=',
  (instance) => {
    let alpha: Organization;
    let beta: Organization;
    before(async () => {
      alpha = await instance().organization('alpha');
      beta = await instance().organization('beta');
      for (const body of people) await instance().call('POST /api/v1/leads', { key: alpha.key, body });
      await instance().call('POST /api/v1/contacts', { key: alpha.key, body: { last_name: 'Lovelace' } });
      await instance().call('POST /api/v1/accounts', {
        key: alpha.key,
        body: { website: 'engines.example' },
      });
      await instance().call('POST /api/v1/leads', { key: beta.key, body: people[0] });
    });
    const search = (query: string, key = alpha.key, list = 'leads') =>
      instance().call(`GET /api/v1/${list}?${query}`, { key });
    const q = (text: string) => `q=${encodeURIComponent(text)}`;

    for (const [text, ...names] of [
      ['lovelace', 'Ada'],
      ['LOVE', 'Ada'],
      ['velac', 'Ada'],
      ['ada', 'Lo', 'Ada'],
      ['ada engines', 'Ada'],
      ['engines   ada', 'Ada'],
      ['ada hopper'],
      ['adalovelace'],
      ['navy', '明', 'Grace'],
      ['grace@navy.example', 'Grace'],
      ['änne', 'Änne'],
      ['ÄNNE GRÖßE', 'Änne'],
      ['世界', '明'],
      ['%'].concat('Änne'),
      ['100%_s', 'Änne'],
      ['sure\\', 'Änne'],
      ['1__%'],
      ["o'neil", 'Lo'],
      ["' or '1'='1"],
      ['a d', 'Lo', 'Ada'],
      ['Lovelace Adair'],
      ['', 'Lo', '明', 'Änne', 'Grace', 'Ada'],
      ['   ', 'Lo', '明', 'Änne', 'Grace', 'Ada'],
    ] as string[][]) {
      test(`"${text}" finds ${names.length === 0 ? 'nothing' : names.join(', ')}`, async () => {
        const answer = await search(q(text ?? ''));
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(
          dataOf(answer).map((record) => record.first_name),
          names,
        );
      });
    }

    test('a search, a filter, a sort and a page can be combined, within the organization', async () => {
      const names = async (query: string, key = alpha.key) =>
        dataOf(await search(query, key)).map((record) => record.first_name);
      assert.deepEqual(await names('q=navy&sort=first_name&dir=asc'), ['Grace', '明']);
      assert.deepEqual(await names('q=navy&email=ming@navy.example'), ['明']);
      assert.deepEqual(await names('q=navy&page=2'), []);
      assert.deepEqual(await names('q=lovelace', beta.key), ['Ada']);
      assert.deepEqual(await names('q=hopper', beta.key), []);
    });

    test('the other resources can be searched, too', async () => {
      assert.equal(dataOf(await search('q=LOVE', alpha.key, 'contacts')).length, 1);
      assert.equal(dataOf(await search('q=engines', alpha.key, 'accounts')).length, 1);
      const { key } = alpha;
      await instance().call('POST /api/v1/cases', { key, body: { subject: 'Broken engine' } });
      await instance().call('POST /api/v1/opportunities', { key, body: { name: 'Ten engines' } });
      for (const list of ['cases', 'opportunities']) {
        assert.equal(dataOf(await search('q=ENGINE', key, list)).length, 1);
        assert.equal(dataOf(await search('q=nothing', key, list)).length, 0);
      }
    });

    test('rejects queries that are too long, repeated or contain U+0000', async () => {
      for (const query of [
        'q=a&q=b',
        q('x'.repeat(searchLimits.length + 1)),
        q(Array.from({ length: searchLimits.words + 1 }, (_, word) => word).join(' ')),
        'q=%00',
      ]) {
        const answer = await search(query);
        assert.equal(answer.status, 400, query);
        assertErrorShape(answer);
        assert.deepEqual(
          (answer.json.fields as { field: string }[]).map(({ field }) => field),
          ['q'],
        );
      }
    });

    test('accepts queries up to the limits, in which a repeated word counts once', async () => {
      const { length, words } = searchLimits;
      for (const text of [
        'x'.repeat(length),
        Array.from({ length: words }, (_, word) => word).join(' '),
        Array.from({ length: words + 1 }, () => 'nothing').join(' '),
      ])
        assert.deepEqual(dataOf(await search(q(text))), [], text);
      assert.equal(dataOf(await search(q(`${'ada '.repeat(words)}engines`))).length, 1);
    });

    test('a record without a value in one of the fields is found by the others', async () => {
      const { key } = alpha;
      for (const body of [
        { title: 'Only a title' },
        { title: 'Both', body: 'Only a title?' },
        { body: 'None' },
      ])
        assert.equal((await instance().call('POST /api/v1/notes', { key, body })).status, 201);
      assert.deepEqual(
        dataOf(await search('q=only&sort=id', key, 'notes')).map(({ title }) => title),
        ['Only a title', 'Both'],
      );
    });

    describe('the index', () => {
      test('is used for any query', async () => {
        assert.match(await planOf(instance(), alpha), /leads_search_gin/);
      });
    });
  },
  { sources: await sourcesWith(notes) },
);

/**
 * Returns the plan for a search. On PostgreSQL, this is the generic plan, which does not depend on the words.
 */
async function planOf({ driver, database, resources }: Instance, { id }: Organization): Promise<string> {
  const leads = resources.find(({ name }) => name === 'leads');
  assert.ok(leads);
  const principal = {
    kind: 'key',
    actor: null,
    name: null,
    organization: id,
    user: null,
    grants: noGrants,
  } as const;
  const { list } = leads.operations;
  const query = { q: 'lovelace engines' };
  const caller = { principal, requestId: '' };
  const statement = list.statement(list.plan({ caller, query }));
  assert.ok(statement);
  const run = (text: string) => database.run({ name: '', text, values: [] });
  await run(`insert into leads (organization_id, created_at, updated_at, last_name, company)
    select ${id}, now(), now(), md5(n::text), md5((n + 7)::text) from generate_series(1, 5000) n`);
  await vacuum(database, 'leads');
  // PGlite does not accept placeholders without values, so it explains the statement with its values.
  const explained =
    driver === 'embedded'
      ? database.run({ name: '', text: `explain ${statement.text}`, values: statement.values })
      : run(`explain (generic_plan) ${statement.text}`);
  return (await explained).flat().join('\n');
}
