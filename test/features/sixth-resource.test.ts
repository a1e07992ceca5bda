// Proves that TypeScript does not depend on a resource: a sixth one, defined in YAML alone, supports everything the
// other five do.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { dataOf, exactRecord, numberText, walk } from '../support/reading.ts';
import { errorOf, scenarios } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';

const projects = {
  file: 'resources/projects.yaml',
  text: `
singular: project
description: Work that was agreed upon.
common: all
fields:
  title: { type: string, required: true, max_length: 40, description: What the project is called. }
  code: { type: string, pattern: "^[A-Z]{2}-[0-9]+$", default: "XX-0" }
  notes: { type: text }
  phase: { type: string, enum: [Planned, Running, Done], default: Planned }
  channel: { type: string, suggested: [Mail, Phone] }
  team_size: { type: integer, default: 1 }
  ledger_number: { type: int64 }
  budget: { type: number, default: 0.5 }
  billable: { type: boolean, default: true }
  kick_off: { type: timestamp, nullable: true }
  deadline: { type: date, nullable: true }
  reviewed_on: { type: date, read_only: true, nullable: true }
  customer_id: { type: reference, to: accounts, nullable: true }
  parent_id: { type: reference, to: projects, nullable: true }
  customer_name: { type: joined, through: customer_id, show: [name] }
  parent_label: { type: joined, through: parent_id, show: [code, title] }
sort: { by: deadline, direction: desc }
filters: [phase, billable, customer_id, deadline, team_size, ledger_number, budget, kick_off]
`,
};

const full = {
  title: 'Bridge',
  code: 'BR-1',
  notes: 'Over\nwater',
  phase: 'Someday',
  channel: 'Carrier pigeon',
  team_size: 7,
  budget: 1234.5,
  billable: false,
  kick_off: '2026-03-01T09:30:00.25+05:30',
  deadline: '2027-12-31',
};

onBothDrivers(
  'a sixth resource',
  (instance) => {
    const callers: Record<string, string> = {};
    const values: Record<string, string> = {};
    let alpha: Organization;
    const world = () => ({ callers, values });
    const post = async (path: string, key: string, body: unknown) => {
      const answer = await instance().call(`POST /api/v1/${path}`, { key, body });
      assert.equal(answer.status, 201, answer.text);
      return numberText(exactRecord(answer.text).id);
    };
    before(async () => {
      alpha = await instance().organization('alpha');
      const beta = await instance().organization('beta');
      callers.alpha = alpha.key;
      callers.beta = beta.key;
      const may = (action: 'list' | 'read' | 'create' | 'update' | 'delete') =>
        alpha.keyWith([{ object: 'projects', actions: [action] }]);
      for (const action of ['list', 'read', 'create', 'update', 'delete'] as const) {
        callers[action] = await may(action);
      }
      callers.accountant = await alpha.keyWith([{ object: 'accounts', actions: ['*'] }]);
      values.customer = await post('accounts', alpha.key, { name: 'Acme' });
      values.foreign = await post('accounts', beta.key, { name: 'Foreign secret' });
      values.foreignProject = await post('projects', beta.key, { title: 'Foreign plan' });
      values.parent = await post('projects', alpha.key, { title: 'Parent' });
      values.project = await post('projects', alpha.key, {
        ...full,
        customer_id: Number(values.customer),
        parent_id: Number(values.parent),
      });
    });

    test('an empty body creates defaults and empty values', async () => {
      const answer = await instance().call(`GET /api/v1/projects/${values.parent}`, { key: alpha.key });
      const { id, created_at, updated_at, ...rest } = answer.json;
      assert.deepEqual(rest, {
        organization_id: Number(alpha.id),
        owner_id: Number(alpha.user),
        created_by_id: Number(alpha.user),
        last_modified_by_id: Number(alpha.user),
        title: 'Parent',
        code: 'XX-0',
        notes: '',
        phase: 'Planned',
        channel: '',
        team_size: 1,
        ledger_number: 0,
        budget: 0.5,
        billable: true,
        kick_off: null,
        deadline: null,
        reviewed_on: null,
        customer_id: null,
        parent_id: null,
        customer_name: '',
        parent_label: '',
      });
      assert.match(String(created_at), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/);
      assert.equal(updated_at, created_at);
      assert.equal(id, Number(values.parent));
    });

    test('every type is stored exactly, and joined names come through both references', async () => {
      const answer = await instance().call(`GET /api/v1/projects/${values.project}`, { key: alpha.key });
      const expected = { ...full, customer_name: 'Acme', parent_label: 'XX-0 Parent', reviewed_on: null };
      for (const [field, value] of Object.entries(expected))
        assert.deepEqual(answer.json[field], value, field);
      const body = '{"title":"Big","ledger_number":9007199254740993,"budget":123456789012345.6780}';
      const big = await instance().call('POST /api/v1/projects', { key: alpha.key, body });
      const record = exactRecord(big.text);
      assert.deepEqual(record.ledger_number, { number: '9007199254740993' });
      assert.deepEqual(record.budget, { number: '123456789012345.6780' });
    });

    scenarios(instance, world, [
      // Permissions: one grant each, on this resource only.
      { as: 'list', does: 'GET /api/v1/projects', gets: 200, has: { page: 1, per_page: 20 } },
      { as: 'read', does: 'GET /api/v1/projects/{project}', gets: 200, has: { title: 'Bridge' } },
      { as: 'read', does: 'GET /api/v1/projects', gets: 403, without: ['Bridge'] },
      { as: 'list', does: 'GET /api/v1/projects/{project}', gets: 403, without: ['Bridge'] },
      { as: 'create', does: 'POST /api/v1/projects', with: { title: 'By grant' }, gets: 201 },
      { as: 'read', does: 'POST /api/v1/projects', with: { title: 'No' }, gets: 403 },
      { as: 'create', does: 'PUT /api/v1/projects/{project}', with: full, gets: 403 },
      { as: 'update', does: 'DELETE /api/v1/projects/{project}', gets: 403 },
      { as: 'accountant', does: 'GET /api/v1/projects/{project}', gets: 403, without: ['Bridge'] },
      { does: 'GET /api/v1/projects', gets: 401, without: ['Bridge'] },
      // Other organizations.
      {
        as: 'beta',
        does: 'GET /api/v1/projects/{project}',
        gets: 404,
        has: { error: 'Project not found in your organization' },
      },
      { as: 'beta', does: 'PUT /api/v1/projects/{project}', with: full, gets: 404 },
      { as: 'beta', does: 'DELETE /api/v1/projects/{project}', gets: 404 },
      { as: 'beta', does: 'GET /api/v1/projects', gets: 200, without: ['Bridge', 'Acme'] },
      { as: 'alpha', does: 'GET /api/v1/projects', gets: 200, without: ['Foreign'] },
      // Required, max_length, pattern and wrong types, reported together.
      {
        as: 'alpha',
        does: 'POST /api/v1/projects',
        with: { code: 'br-1', team_size: 1.5, billable: 'yes', deadline: '2026-02-30', customer_id: {} },
        gets: 400,
        and: ({ json }) => {
          const fields = json.fields as { field: string; message: string }[];
          assert.deepEqual(fields.map(({ message }) => message).sort(), [
            'billable must be true or false',
            'code must match ^[A-Z]{2}-[0-9]+$',
            'customer_id must be the id of a record (an integer) or null',
            'deadline must be a date, such as 2026-03-01',
            'team_size must be an integer from -2147483648 to 2147483647',
            'title is required',
          ]);
        },
      },
      {
        as: 'alpha',
        does: 'POST /api/v1/projects',
        with: { title: 'x'.repeat(41) },
        gets: 400,
        has: { error: 'title must be at most 40 characters long' },
      },
      { as: 'alpha', does: 'POST /api/v1/projects', with: { title: '🌉'.repeat(40) }, gets: 201 },
      {
        as: 'alpha',
        does: 'POST /api/v1/projects',
        with: { title: 'Strict', titel: 1, parent_label: '' },
        headers: { prefer: 'handling=strict' },
        gets: 400,
        has: {
          error: 'titel is not a field of this resource. Did you mean "title"?; parent_label is read-only',
        },
      },
      {
        as: 'alpha',
        does: 'POST /api/v1/projects',
        with: { title: 'Read-only', reviewed_on: '2026-01-01', id: 1, customer_name: 'x' },
        gets: 201,
        has: { reviewed_on: null, customer_name: '' },
      },
      // Parameters.
      ...[
        ['sort=customer_name', /^sort must be one of id, organization_id, .*deadline/],
        ['sort=nothing', /^sort must be one of/],
        ['dir=up', /^dir must be asc or desc$/],
        ['page=x', /^page must be an integer$/],
        ['billable=yes', /^billable must be true or false$/],
        ['deadline=tomorrow', /^deadline must be a date/],
      ].map(([query, message]) => ({
        as: 'alpha',
        does: `GET /api/v1/projects?${query}`,
        gets: 400,
        and: ({ json }: { json: Record<string, unknown> }) =>
          assert.match(String(json.error), message as RegExp),
      })),
      { as: 'alpha', does: 'PATCH /api/v1/projects', with: {}, gets: 405 },
      { as: 'alpha', does: 'GET /api/v1/projects/99999999999999999999', gets: 404 },
    ]);

    test("a reference to another organization's record is rejected like a reference to a missing record", async () => {
      for (const field of ['customer_id', 'parent_id']) {
        for (const id of [values[field === 'parent_id' ? 'foreignProject' : 'foreign'], '999999']) {
          const call = { key: alpha.key, body: { title: 'Linked', [field]: Number(id) } };
          const refusals = [
            await instance().call('POST /api/v1/projects', call),
            await instance().call(`PUT /api/v1/projects/${values.project}`, call),
          ];
          for (const answer of refusals) {
            const to = field === 'parent_id' ? 'projects' : 'accounts';
            const message = `${field} ${id} does not exist in ${to}`;
            assert.deepEqual(
              [answer.status, errorOf(answer)],
              [400, { error: message, code: 'missing_reference', fields: [{ field, message }] }],
            );
          }
        }
      }
    });

    test('lists have pages of 20, a default order, any other order, and filters', async () => {
      const gamma = await instance().organization('gamma');
      const day = (number: number) => `2026-01-${String((number % 9) + 1).padStart(2, '0')}`;
      for (let number = 0; number < 45; number++) {
        await post('projects', gamma.key, {
          title: `P ${number}`,
          deadline: number % 5 === 0 ? null : day(number),
          phase: number % 2 === 0 ? 'Running' : 'Done',
          billable: number % 3 === 0,
          budget: number / 10,
        });
      }
      const titles = async (query: string) =>
        (await walk(instance(), '/api/v1/projects', query, gamma.key)).map((page) =>
          page.map((record) => String(record.title)),
        );
      const pages = await titles('');
      assert.deepEqual(
        pages.map((page) => page.length),
        [20, 20, 5],
      );
      const order = (by: (number: number) => string | number, turn: 1 | -1) =>
        Array.from({ length: 45 }, (_, number) => number)
          .sort((a, b) => turn * (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : a - b))
          .map((number) => `P ${number}`);
      const deadline = (number: number) => (number % 5 === 0 ? '9999' : day(number));
      assert.deepEqual(pages.flat(), order(deadline, -1));
      assert.deepEqual((await titles('dir=asc')).flat(), order(deadline, 1));
      assert.deepEqual(
        (await titles('sort=budget')).flat(),
        order((number) => number, 1),
      );
      assert.deepEqual(
        (await titles('sort=billable&dir=desc')).flat(),
        order((number) => Number(number % 3 === 0), -1),
      );
      const numbered = (predicate: (number: number) => boolean) =>
        order((number) => number, 1).filter((_, number) => predicate(number));
      const filtered = async (query: string) => (await titles(`sort=id&${query}`)).flat();
      assert.deepEqual(
        await filtered('phase=Done'),
        numbered((number) => number % 2 === 1),
      );
      assert.deepEqual(
        await filtered('phase=Done&phase=Running'),
        numbered(() => true),
      );
      assert.deepEqual(
        await filtered('phase=Done&billable=true'),
        numbered((number) => number % 6 === 3),
      );
      assert.deepEqual(await filtered('budget=0.7'), ['P 7']);
      assert.deepEqual(await filtered('phase=&budget=0.70'), ['P 7']);
      assert.deepEqual(
        await filtered('deadline=2026-01-04'),
        numbered((number) => number % 9 === 3 && number % 5 !== 0),
      );
    });

    test('PUT replaces a record, DELETE clears references to it, and the record is missing afterwards', async () => {
      const key = alpha.key;
      const parent = await post('projects', key, { title: 'Short-lived', code: 'SL-1' });
      const child = await post('projects', key, { title: 'Child', team_size: 9, parent_id: Number(parent) });
      const path = `/api/v1/projects/${child}`;
      const updater = await instance().call(`PUT ${path}`, {
        key: callers.update ?? '',
        body: { title: 'Changed', parent_id: Number(parent) },
      });
      assert.equal(updater.status, 200, updater.text);
      const { team_size, owner_id, last_modified_by_id, parent_label } = updater.json;
      assert.deepEqual([team_size, parent_label, owner_id], [1, 'SL-1 Short-lived', Number(alpha.user)]);
      assert.equal(last_modified_by_id, null, 'written by a key without a user');

      const itself = await instance().call(`PUT ${path}`, {
        key,
        body: { title: 'Itself', parent_id: Number(child) },
      });
      assert.equal(itself.json.parent_label, 'XX-0 Itself');

      await instance().call(`PUT ${path}`, { key, body: { title: 'Child', parent_id: Number(parent) } });
      const deletion = await instance().call(`DELETE /api/v1/projects/${parent}`, { key });
      assert.deepEqual([deletion.status, deletion.text], [200, '{"ok":true}']);
      assert.equal((await instance().call(`GET /api/v1/projects/${parent}`, { key })).status, 404);
      assert.equal((await instance().call(`DELETE /api/v1/projects/${parent}`, { key })).status, 404);
      const orphan = await instance().call(`GET ${path}`, { key });
      assert.deepEqual(
        [orphan.json.title, orphan.json.parent_id, orphan.json.parent_label],
        ['Child', null, ''],
      );
      const renamed = await instance().call(`GET /api/v1/projects?customer_id=${values.customer}`, { key });
      assert.deepEqual(
        dataOf(renamed).map(({ customer_name }) => customer_name),
        ['Acme'],
      );
    });

    test('the API description includes it, without authentication', async () => {
      const { json: document } = await instance().call('GET /docs/openapi.json');
      const { paths, components } = document as {
        paths: Record<string, Record<string, { parameters?: { $ref: string }[] }>>;
        components: {
          schemas: Record<
            string,
            { properties: Record<string, Record<string, unknown>>; required?: string[] }
          >;
        };
      };
      assert.deepEqual(Object.keys(paths['/api/v1/projects'] ?? {}), ['get', 'post', 'patch', 'delete']);
      assert.deepEqual(Object.keys(paths['/api/v1/projects/{id}'] ?? {}), [
        'parameters',
        'get',
        'put',
        'patch',
        'delete',
      ]);
      const own = '#/components/parameters/projects.';
      const offered = paths['/api/v1/projects']?.get?.parameters?.flatMap(({ $ref }) =>
        $ref.startsWith(own) ? $ref.slice(own.length) : [],
      );
      assert.deepEqual(offered, [
        'sort',
        'dir',
        'phase',
        'billable',
        'customer_id',
        'deadline',
        'team_size',
        'ledger_number',
        'budget',
        'kick_off',
        'parent_id.in',
        'fields',
        'expand',
      ]);
      const { Project: whole, ProjectProjection: record, ProjectInput: input } = components.schemas;
      assert.ok(whole && record && input);
      const path = `/api/v1/projects/${values.project}?expand=customer_id`;
      const answer = await instance().call(`GET ${path}`, { key: alpha.key });
      assert.deepEqual(record.required, ['id'], '`fields` can leave out every other field');
      assert.deepEqual(
        whole.required,
        Object.keys(answer.json).filter((name) => name !== 'expanded'),
        'complete records have every field',
      );
      assert.deepEqual(
        Object.keys(record.properties),
        Object.keys(answer.json),
        'in the order of the response',
      );
      assert.deepEqual(input.required, ['title']);
      assert.equal(input.properties.reviewed_on, undefined);
      assert.equal(input.properties.customer_name, undefined);
      assert.deepEqual(input.properties.title?.maxLength, 40);
      assert.deepEqual(input.properties.code?.pattern, '^[A-Z]{2}-[0-9]+$');
      assert.deepEqual(record.properties.phase?.['x-extensible-enum'], ['Planned', 'Running', 'Done']);
      assert.equal(record.properties.phase?.enum, undefined, 'any string is accepted');
      assert.deepEqual(record.properties.channel?.examples, ['Mail', 'Phone']);
      assert.deepEqual(record.properties.deadline?.type, ['string', 'null']);
    });
  },
  { sources: await sourcesWith(projects) },
);
