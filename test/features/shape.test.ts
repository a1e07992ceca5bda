// Projections: the record fields and referenced records that a caller requests.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import fc from 'fast-check';
import { everyType } from '../support/every-type.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { definitions } from '../support/records.ts';
import { errorOf, type Scenario, scenarios } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';
import { recordStatements } from '../support/statements.ts';

const described = ['id', 'organization_id', 'owner_id', 'created_at', 'updated_at', 'subject', 'status'];
const ofCases = [
  ...described,
  'priority, account_id, contact_id, queue_id, description, sla_due_date, account_name, contact_name',
].join(', ');

/** Returns the members of a record's JSON as written. Every quote inside a string has a backslash. */
function members(text: string): Map<string, string> {
  const names = Object.keys(JSON.parse(text) as object);
  const starts = names.map((name) => text.search(new RegExp(`[{,]"${name}":`)));
  return new Map(
    names.map((name, index) => [name, text.slice((starts[index] ?? 0) + 1, starts[index + 1] ?? -1)]),
  );
}

onBothDrivers(
  'Shapes',
  (instance) => {
    const callers: Record<string, string> = {};
    const values: Record<string, string> = {};
    let acme: Organization;
    const call = (request: string, body?: unknown, key = acme.key) =>
      instance().call(request, { key, ...(body === undefined ? {} : { body }) });
    const create = async (resource: string, body: object, key?: string) => {
      const { status, text } = await call(`POST /api/v1/${resource}`, body, key);
      assert.equal(status, 201, text);
      return /"id":(\d+)/.exec(text)?.[1] ?? assert.fail(text);
    };

    before(async () => {
      acme = await instance().organization('acme');
      const beta = await instance().organization('beta');
      values.account = await create('accounts', {
        name: 'Engines "R" Us, \u{1F680}\n',
        website: 'x.example',
      });
      values.contact = await create('contacts', {
        first_name: 'Ada',
        last_name: 'Lovelace',
        account_id: Number(values.account),
      });
      values.case = await create('cases', {
        subject: 'Broken',
        account_id: Number(values.account),
        contact_id: Number(values.contact),
      });
      values.bare = await create('cases', { subject: 'Nobody' });
      values.lead = await create('leads', { last_name: 'Byron' });
      values.foreign = await create('cases', { subject: 'Foreign' }, beta.key);
      callers.admin = acme.key;
      callers.cases = await acme.keyWith([
        { object: 'cases', actions: ['list', 'read'] },
        { object: 'contacts', actions: ['read'] },
      ]);
    });

    const table: readonly Scenario[] = [
      {
        as: 'admin',
        does: 'GET /api/v1/cases/{case}?fields=subject',
        gets: 200,
        and: ({ text, headers }) => {
          assert.equal(text, `{"id":${values.case},"subject":"Broken"}`);
          assert.equal(headers.get('etag'), null);
        },
      },
      {
        name: 'returns fields in the order of the definition, joins repeated parameters and skips blanks',
        as: 'admin',
        does: 'GET /api/v1/cases/{case}?fields=contact_name,%20subject,&fields=id,subject',
        gets: 200,
        and: ({ text }) =>
          assert.equal(text, `{"id":${values.case},"subject":"Broken","contact_name":"Ada Lovelace"}`),
      },
      {
        name: 'ignores empty parameters',
        as: 'admin',
        does: 'GET /api/v1/cases/{case}?fields=&expand=,',
        gets: 200,
        has: { subject: 'Broken', priority: 'Medium' },
        without: ['expanded'],
        and: ({ headers }) => assert.match(headers.get('etag') ?? '', /^"/),
      },
      {
        as: 'admin',
        does: 'GET /api/v1/cases/{case}?fields=subject,Subject',
        gets: 400,
        has: {
          code: 'invalid_input',
          error: 'Unknown field "Subject" in "fields". Did you mean "subject"?',
          fields: [
            {
              field: 'fields',
              message: 'Unknown field "Subject" in "fields". Did you mean "subject"?',
              hint: 'Did you mean "subject"?',
            },
          ],
        },
      },
      {
        as: 'admin',
        does: 'GET /api/v1/cases/{case}?fields=subject,zzzzz',
        gets: 400,
        has: { error: `Unknown field "zzzzz" in "fields". Available fields: ${ofCases}` },
      },
      {
        name: 'shortens an unknown name in the error',
        as: 'admin',
        does: `GET /api/v1/cases?fields=${'x'.repeat(3000)}`,
        gets: 400,
        without: ['x'.repeat(41)],
      },
      {
        as: 'admin',
        does: 'GET /api/v1/cases/{case}?expand=queue_id&fields=nothing',
        gets: 400,
        has: {
          fields: [
            {
              field: 'fields',
              message: `Unknown field "nothing" in "fields". Available fields: ${ofCases}`,
              hint: `Available fields: ${ofCases}`,
            },
            {
              field: 'expand',
              message:
                'Unknown field "queue_id" in "expand". Available fields: owner_id, account_id, contact_id',
              hint: 'Available fields: owner_id, account_id, contact_id',
            },
          ],
        },
      },
      {
        as: 'admin',
        does: 'GET /api/v1/cases?expand=account',
        gets: 400,
        has: {
          error: 'Unknown field "account" in "expand". Did you mean "account_id"?',
        },
      },
      {
        name: 'a resource without references ignores expand',
        as: 'admin',
        does: 'GET /api/v1/tight?expand=account_id',
        gets: 200,
        without: ['expanded'],
      },
      {
        as: 'admin',
        does: 'GET /api/v1/tight?expand=account_id',
        headers: { prefer: 'handling=strict' },
        gets: 400,
        has: { error: 'expand is not a parameter of this operation' },
      },
      ...['GET /api/v1/cases/{case}', 'GET /api/v1/cases'].map(
        (does): Scenario => ({
          as: 'admin',
          does: `${does}?fields=subject&expand=contact_id`,
          headers: { prefer: 'handling=strict' },
          gets: 200,
        }),
      ),
      {
        as: 'admin',
        does: 'GET /api/v1/cases/{bare}?expand=contact_id,account_id',
        gets: 200,
        has: { subject: 'Nobody', expanded: { account_id: null, contact_id: null } },
      },
      ...['GET /api/v1/cases/{case}', 'GET /api/v1/cases/{foreign}', 'GET /api/v1/cases'].flatMap(
        (does): Scenario[] => [
          {
            as: 'cases',
            does: `${does}?expand=account_id&fields=nothing`,
            gets: 403,
            has: {
              error:
                'Your profile does not grant read on accounts. An administrator can add the grant accounts:read.',
              grant: 'accounts:read',
            },
          },
        ],
      ),
      { as: 'cases', does: 'GET /api/v1/cases/{case}?expand=contact_id', gets: 200 },
      { as: 'admin', does: 'GET /api/v1/cases/{foreign}?expand=contact_id', gets: 404 },
      { does: 'GET /api/v1/cases/{case}?expand=contact_id', gets: 401 },
      ...[
        [{ 'if-match': '"x"' }, 412],
        [{ 'if-match': '*' }, 200],
        [{ 'if-none-match': '"x"' }, 200],
        [{ 'if-none-match': '*' }, 304],
        [{ 'if-match': 'x' }, 400],
      ].map(
        ([headers, gets]): Scenario => ({
          name: `a projection has no tag: ${JSON.stringify(headers)}`,
          as: 'admin',
          does: 'GET /api/v1/cases/{case}?fields=subject',
          headers: headers as Record<string, string>,
          gets: gets as number,
          ...(gets === 304 && {
            and: ({ text, headers: responseHeaders }) =>
              assert.deepEqual([text, responseHeaders.get('etag')], ['', null]),
          }),
        }),
      ),
    ];
    describe('requested', () => scenarios(instance, () => ({ callers, values }), table));

    test("another organization's record and a missing record return the same error, and an invalid ID a hint", async () => {
      const text = 'Case not found in your organization';
      for (const query of ['', '?fields=subject', '?expand=contact_id']) {
        for (const [id, more] of [
          [values.foreign, ''],
          ['987654321', ''],
          ['%ff', ''],
          ['x', '"x" is not an ID: IDs are 64-bit integers.'],
          ['9'.repeat(300), `"${'9'.repeat(100)}…" is not an ID: IDs are 64-bit integers.`],
        ]) {
          const refusal = await call(`GET /api/v1/cases/${id}${query}`);
          const error = more === '' ? text : `${text}. ${more}`;
          assert.deepEqual([refusal.status, errorOf(refusal)], [404, { error, code: 'not_found' }]);
        }
      }
    });

    test('an unknown path lists the known ones', async () => {
      const all = '/api/v1 has accounts, cases, contacts, leads, loose, opportunities, tight';
      for (const [path, error] of [
        ['/api/v1/lead', `Path not found; ${all}. Did you mean "leads"?`],
        ['/api/v1/Leads?status=New', `Path not found; ${all}. Did you mean "leads"?`],
        ['/api/v1/opportunity/7', `Path not found; ${all}. Did you mean "opportunities"?`],
        ['/api/v1/nothing', `Path not found; ${all}`],
        ['/api/v1/deals', `Path not found; ${all}`],
        [`/api/v1/${'<script>'.repeat(1000)}`, `Path not found; ${all}`],
        ['/api/v1/leads/7/notes', `Path not found; ${all}`],
        ['/api/v1', `Path not found; ${all}`],
        ['/leads/7', 'Path not found. Did you mean "/api/v1/leads"?'],
        ['/v1/Leads?x=cases', 'Path not found. Did you mean "/api/v1/leads"?'],
        ['/nowhere', 'Path not found; the API is under /api/v1'],
        ['/', 'Path not found; the API is under /api/v1'],
      ]) {
        for (const key of [acme.key, undefined]) {
          const answer = await instance().call(`GET ${path}`, key === undefined ? {} : { key });
          assert.deepEqual([answer.status, errorOf(answer)], [404, { error, code: 'not_found' }], path);
        }
      }
      const error = 'Path not found. Remove the trailing slash.';
      for (const path of ['/api/v1/leads/', '/api/v1/leads/7/', '/api/v1/leads/7/history/']) {
        const slash = await instance().call(`GET ${path}`, acme);
        assert.deepEqual([slash.status, errorOf(slash)], [404, { error, code: 'not_found' }], path);
      }
    });

    test('a statement contains only the columns and joins that it needs', async () => {
      const textOf = async (request: string) => {
        const statements = await recordStatements(instance().database, () => call(request));
        assert.equal(statements.length, 1);
        return statements[0]?.text ?? '';
      };
      for (const path of [`/api/v1/cases/${values.case}`, '/api/v1/cases']) {
        const one = await textOf(`GET ${path}?fields=subject,contact_name`);
        assert.ok(one.includes('via_contact_id') && !one.includes('via_account_id'), one);
        assert.ok(!one.includes('"description"'), one);
        assert.doesNotMatch(await textOf(`GET ${path}?fields=subject`), / join /);
      }
    });

    test('a list with a projection links to its next page with the same projection, in every order', async () => {
      const names = Array.from({ length: 45 }, (_, index) => `name ${index % 7}`);
      await Promise.all(names.map((name) => create('opportunities', { name, amount: 1 })));
      for (const query of ['sort=name', 'sort=amount&dir=desc', 'sort=close_date', 'sort=id', '']) {
        const ids: unknown[] = [];
        let next: string | undefined = `/api/v1/opportunities?${query}&fields=stage&expand=account_id`;
        while (next !== undefined) {
          const { json, headers } = await call(`GET ${next}`);
          const data = json.data as Record<string, unknown>[];
          for (const record of data) {
            assert.deepEqual(Object.keys(record), ['id', 'stage', 'expanded']);
            ids.push(record.id);
          }
          next = /<([^>]*)>; rel="next"/.exec(headers.get('link') ?? '')?.[1];
        }
        assert.equal(new Set(ids).size, names.length);
        assert.equal(ids.length, names.length);
      }
      const counted = await instance().call('GET /api/v1/opportunities?fields=id&expand=account_id', {
        key: acme.key,
        headers: { prefer: 'count=exact' },
      });
      assert.equal(counted.headers.get('x-total-count'), String(names.length));
    });

    test('projections contain the same values as complete records and the referenced records', async () => {
      const loose = await create('loose', { n_string: 'one "x":,{"n_string":1}' });
      const other = await create('loose', { n_string: '', n_reference: Number(loose), n_int64: 7 });
      await create('loose', { n_reference: Number(other), n_number: 0.1 });
      const records = await Promise.all(
        [...definitions.map(({ name }) => name), 'loose'].map(async (name) => {
          const { definition } = instance().resources.find((each) => each.name === name) ?? assert.fail();
          const { json } = await call(`GET /api/v1/${name}?sort=id`);
          const ids = (json.data as { id: number }[]).map(({ id }) => String(id));
          const texts = await Promise.all(
            ids.map(async (id) => (await call(`GET /api/v1/${name}/${id}`)).text),
          );
          return { name, definition, texts: new Map(ids.map((id, index) => [id, texts[index] ?? ''])) };
        }),
      );
      const textOf = (name: string | undefined, id: unknown) =>
        id === null ? 'null' : (records.find((each) => each.name === name)?.texts.get(String(id)) ?? 'none');
      const shape = fc.constantFrom(...records).chain(({ name, definition }) =>
        fc.record({
          name: fc.constant(name),
          fields: fc.subarray(definition.fields.map((field) => field.name)),
          expand: fc.subarray(
            definition.expansion.flatMap(({ to, name, isList }) =>
              to === undefined || isList ? [] : [name],
            ),
          ),
        }),
      );
      await fc.assert(
        fc.asyncProperty(shape, async ({ name, fields, expand }) => {
          const { definition, texts } = records.find((each) => each.name === name) ?? assert.fail();
          const query = `sort=id&fields=${fields.join()}&expand=${expand.join()}`;
          const expected = (text: string) => {
            const all = members(text);
            const expectedFields = definition.fields.filter(
              (field) => fields.length === 0 || field.name === 'id' || fields.includes(field.name),
            );
            const parsed = JSON.parse(text) as Record<string, unknown>;
            const referred = definition.expansion
              .filter(({ name }) => expand.includes(name))
              .map(({ name, to }) => `"${name}":${textOf(to, parsed[name])}`);
            const parts = [
              ...expectedFields.map((field) => all.get(field.name)),
              ...(referred.length > 0 ? [`"expanded":{${referred.join()}}`] : []),
            ];
            return `{${parts.join()}}`;
          };
          const list = await call(`GET /api/v1/${name}?${query}`);
          const data = /^\{"data":\[(.*)\],"page":1,"per_page":20\}$/s.exec(list.text)?.[1] ?? '';
          const inList = (list.json.data as { id: number }[]).map(({ id }) => texts.get(String(id)) ?? '');
          assert.equal(data, inList.map(expected).join());
          for (const [id, text] of [...texts].slice(0, 3)) {
            assert.equal((await call(`GET /api/v1/${name}/${id}?${query}`)).text, expected(text));
          }
        }),
        { numRuns: 40 },
      );
    });
  },
  { sources: await sourcesWith(...everyType) },
);
