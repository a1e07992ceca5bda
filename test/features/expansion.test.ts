// Relations: lists of referring records, and expansions on two levels.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { errorOf, type Scenario, scenarios } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';
import { recordStatements } from '../support/statements.ts';

const identity = `
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }`;

const sources = [
  {
    file: 'firms.yaml',
    text: `
fields:${identity}
  name: { type: string }
  parent_id: { type: reference, to: firms, nullable: true }
  people: { type: string }
sort: { by: name }
filters: [parent_id]
`,
  },
  {
    file: 'people.yaml',
    text: `
fields:${identity}
  name: { type: string }
  firm_id: { type: reference, to: firms, nullable: true }
  firm_name: { type: joined, through: firm_id, show: [name] }
sort: { by: name, direction: desc }
filters: [firm_id]
`,
  },
  {
    file: 'tickets.yaml',
    text: `
fields:${identity}
  title: { type: string }
  opener_id: { type: reference, to: people, nullable: true }
  closer_id: { type: reference, to: people, nullable: true }
sort: { by: title }
filters: [opener_id]
`,
  },
];

type Row = Readonly<Record<string, unknown>>;
interface List {
  readonly data: readonly Row[];
  readonly has_more: boolean;
  readonly url: string;
}
const listIn = (row: Row = {}, name: string) =>
  (row.expanded as Readonly<Record<string, List>>)[name] ?? assert.fail(`${name} is not expanded`);
const namesOf = ({ data }: Pick<List, 'data'>) => data.map(({ name, title }) => name ?? title);
const dataOf = ({ json }: Answer) => json.data as readonly Row[];

onBothDrivers(
  'Expansion',
  (instance) => {
    const callers: Record<string, string> = {};
    const values: Record<string, string> = {};
    let acme: Organization;
    const call = (request: string, body?: unknown, key = acme.key) =>
      instance().call(request.replace(' ', ' /api/v1/'), {
        key,
        ...(body === undefined ? {} : { body }),
      });
    const create = async (resource: string, body: object, key?: string) => {
      const { status, text } = await call(`POST ${resource}`, body, key);
      assert.equal(status, 201, text);
      return /"id":(\d+)/.exec(text)?.[1] ?? assert.fail(text);
    };
    const createMany = async (resource: string, records: readonly object[]) => {
      const { status, text } = await call(`POST ${resource}/batch`, { records });
      assert.equal(status, 200, text);
    };

    before(async () => {
      acme = await instance().organization('acme');
      const beta = await instance().organization('beta');
      values.firm = await create('firms', { name: 'Engines' });
      values.empty = await create('firms', { name: 'Nothing', parent_id: Number(values.firm) });
      values.large = await create('firms', { name: 'Large' });
      const firm_id = Number(values.firm);
      values.ada = await create('people', { name: 'Ada', firm_id });
      values.bob = await create('people', { name: 'Bob', firm_id });
      await create('people', { name: 'Eve' });
      await create('people', { name: 'Zoe' }, beta.key);
      for (const title of ['2 second', '1 first'])
        await create('tickets', { title, opener_id: Number(values.ada), closer_id: Number(values.bob) });
      const many = Array.from({ length: 21 }, (_, index) => ({
        name: `Person ${String(index).padStart(2, '0')}`,
        firm_id: Number(values.large),
      }));
      await createMany('people', many);
      values.full = await create('firms', { name: 'Full' });
      await createMany(
        'people',
        many.slice(1).map(({ name }) => ({ name, firm_id: Number(values.full) })),
      );
      callers.admin = acme.key;
      callers.firms = await acme.keyWith([
        { object: 'firms', actions: ['list', 'read'] },
        { object: 'people', actions: ['read'] },
      ]);
      callers.people = await acme.keyWith([
        { object: 'firms', actions: ['list', 'read'] },
        { object: 'people', actions: ['list'] },
      ]);
    });

    const table: readonly Scenario[] = [
      {
        name: 'a list contains the records as their own list does, in its order',
        as: 'admin',
        does: 'GET /api/v1/firms/{firm}?expand=people.firm_id',
        gets: 200,
        and: async ({ json, headers }) => {
          const { data, has_more, url } = listIn(json, 'people.firm_id');
          assert.deepEqual([has_more, url], [false, `/api/v1/people?firm_id=${values.firm}`]);
          assert.deepEqual(data, dataOf(await call(`GET people?firm_id=${values.firm}`)));
          assert.deepEqual(namesOf({ data }), ['Bob', 'Ada']);
          assert.equal(headers.get('etag'), null);
        },
      },
      {
        name: 'a list of more than 20 records ends after 20 and links to the complete list',
        as: 'admin',
        does: 'GET /api/v1/firms/{large}?fields=name&expand=people.firm_id',
        gets: 200,
        and: async ({ json }) => {
          const { data, has_more, url } = listIn(json, 'people.firm_id');
          assert.deepEqual([data.length, has_more], [20, true]);
          assert.deepEqual(data, dataOf(await instance().call(`GET ${url}`, { key: acme.key })));
        },
      },
      {
        name: 'a list of exactly 20 records is complete',
        as: 'admin',
        does: 'GET /api/v1/firms/{full}?fields=name&expand=people.firm_id',
        gets: 200,
        and: ({ json }) => {
          const { data, has_more } = listIn(json, 'people.firm_id');
          assert.deepEqual([data.length, has_more], [20, false]);
        },
      },
      {
        name: 'a list without records is empty',
        as: 'admin',
        does: 'GET /api/v1/firms/{empty}?fields=name&expand=firms,people.firm_id',
        gets: 200,
        and: ({ text }) => {
          const list = (path: string) =>
            `{"data":[],"has_more":false,"url":"/api/v1/${path}=${values.empty}"}`;
          const expanded = `{"firms":${list('firms?parent_id')},"people.firm_id":${list('people?firm_id')}}`;
          assert.equal(text, `{"id":${values.empty},"name":"Nothing","expanded":${expanded}}`);
        },
      },
      {
        name: 'two levels: the reference of a reference is null',
        as: 'admin',
        does: 'GET /api/v1/people/{ada}?fields=name&expand=firm_id.parent_id',
        gets: 200,
        and: ({ json }) => {
          const { firm_id } = json.expanded as { firm_id: Row };
          assert.deepEqual([firm_id.name, firm_id.expanded], ['Engines', { parent_id: null }]);
        },
      },
      {
        name: 'two levels: lists in a list, named after their references, with and without a declared filter',
        as: 'admin',
        does: 'GET /api/v1/firms/{firm}?expand=people.firm_id.tickets.opener_id,people.firm_id.tickets.closer_id',
        gets: 200,
        and: ({ json }) => {
          const [bob, ada] = listIn(json, 'people.firm_id').data;
          const titles = ['1 first', '2 second'];
          assert.deepEqual(namesOf(listIn(ada, 'tickets.opener_id')), titles);
          assert.deepEqual(namesOf(listIn(ada, 'tickets.closer_id')), []);
          assert.deepEqual(namesOf(listIn(bob, 'tickets.closer_id')), titles);
          assert.equal(
            listIn(bob, 'tickets.closer_id').url,
            `/api/v1/tickets?closer_id%5Bin%5D=${values.bob}`,
          );
          assert.equal(listIn(bob, 'tickets.opener_id').url, `/api/v1/tickets?opener_id=${values.bob}`);
        },
      },
      {
        name: 'two levels: a list in a reference, and the references of a list',
        as: 'admin',
        does: 'GET /api/v1/people?firm_id={firm}&expand=firm_id.firms,tickets.opener_id.closer_id',
        gets: 200,
        and: (answer) => {
          const [bob = {}, ada] = dataOf(answer);
          const { firm_id } = bob.expanded as { firm_id: Row };
          assert.deepEqual(namesOf(listIn(firm_id, 'firms')), ['Nothing']);
          const closers = listIn(ada, 'tickets.opener_id').data.map(({ expanded }) => expanded);
          assert.deepEqual(
            (closers as { closer_id: Row }[]).map(({ closer_id }) => closer_id.name),
            ['Bob', 'Bob'],
          );
        },
      },
      ...(
        [
          [
            'people?expand=tickets',
            'Unknown field "tickets" in "expand". Available fields: firm_id, tickets.opener_id, tickets.closer_id',
          ],
          [
            'people?expand=firm_id.nothing',
            'Unknown field "firm_id.nothing" in "expand". Available fields: firm_id.parent_id, firm_id.firms, firm_id.people.firm_id',
          ],
          [
            'people?expand=firm_id.firm',
            'Unknown field "firm_id.firm" in "expand". Did you mean "firm_id.firms"?',
          ],
          ['people?expand=firm_id.firms.firms', 'expand is limited to two levels'],
          [
            'firms?expand=people.firm_id.tickets.opener_id,people.firm_id.tickets.closer_id',
            'expand can add up to 16400 records, but the maximum is 10000. Expand fewer lists.',
          ],
        ] as const
      ).map(([request, error]) => ({
        as: 'admin',
        does: `GET /api/v1/${request}`,
        gets: 400,
        has: { error },
      })),
      {
        name: 'an export contains references but no lists',
        as: 'admin',
        does: 'GET /api/v1/firms?expand=people.firm_id',
        headers: { accept: 'text/csv' },
        gets: 400,
        has: { error: 'expand cannot contain lists or second-level names with this format' },
      },
      {
        as: 'firms',
        does: 'GET /api/v1/firms/{firm}?expand=people.firm_id',
        gets: 403,
        has: { grant: 'people:list' },
      },
      { as: 'people', does: 'GET /api/v1/firms?expand=people.firm_id', gets: 200 },
      {
        as: 'people',
        does: 'GET /api/v1/firms?expand=people.firm_id.tickets.opener_id',
        gets: 403,
        has: { grant: 'tickets:list' },
      },
      {
        name: 'accounts include their contacts with their cases',
        as: 'admin',
        does: 'GET /api/v1/accounts?expand=contacts.cases,opportunities',
        gets: 200,
      },
    ];
    describe('requested', () => scenarios(instance, () => ({ callers, values }), table));

    test('at most 10 lists and second-level names can be expanded', async () => {
      const nested = ['parent_id', 'firms', 'people.firm_id'];
      const all = ['parent_id', 'firms'].flatMap((name) => [
        name,
        ...nested.map((other) => `${name}.${other}`),
      ]);
      const people = ['firm_id', 'tickets.opener_id', 'tickets.closer_id'].map(
        (other) => `people.firm_id.${other}`,
      );
      const get = (names: readonly string[]) => call(`GET firms/${values.firm}?expand=${names.join()}`);
      assert.equal((await get([...all, ...people.slice(0, 2)])).status, 200);
      const answer = await get([...all, ...people]);
      assert.deepEqual(errorOf(answer), {
        error: 'expand must not contain more than 10 lists and second-level names',
        code: 'invalid_input',
        fields: [
          { field: 'expand', message: 'expand must not contain more than 10 lists and second-level names' },
        ],
      });
    });

    test('a request is one statement in a lane for its cost', async () => {
      for (const [request, lane] of [
        [`firms/${values.firm}?expand=people.firm_id`, 'read'],
        [`people/${values.ada}?expand=firm_id.parent_id`, 'read'],
        [`people/${values.ada}?expand=tickets.opener_id`, 'read'],
        [`people/${values.ada}?expand=tickets.closer_id`, 'scan'],
        ['firms?expand=people.firm_id', 'list'],
        ['firms?expand=firms.people.firm_id', 'scan'],
        ['contacts?expand=account_id.contacts,cases.account_id', 'scan'],
      ] as const) {
        const statements = await recordStatements(instance().database, () => call(`GET ${request}`));
        assert.deepEqual(
          statements.map((statement) => statement.lane),
          [lane],
          request,
        );
      }
    });
  },
  { sources: await sourcesWith(...sources) },
);
