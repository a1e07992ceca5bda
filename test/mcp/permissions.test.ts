// What agents can see and do: grants, scopes, field groups, organizations and custom fields apply to the tools.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { transaction } from '../../engine/tables/index.ts';
import { changeName } from '../../plugins/access/identity/users.ts';
import { configured, failTool, useTool } from '../support/agents.ts';
import { type Instance, type Organization, onBothDrivers } from '../support/instance.ts';
import { jobs, limitedKey, limitedPerson } from '../support/limited.ts';
import { dump, makePerson } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

/** The record in a result. */
const recordIn = (result: Readonly<Record<string, unknown>>) =>
  result.record as Readonly<Record<string, unknown>>;

onBothDrivers(
  'Permissions of agents',
  (instance: () => Instance) => {
    let acme: Organization;
    let other: Organization;
    before(async () => {
      acme = await instance().organization('acme');
      other = await instance().organization('other');
    });
    const create = async (key: string, values: object): Promise<number> =>
      Number(recordIn(await useTool(instance(), key, 'create', { resource: 'jobs', values })).id);
    const keyWith = async (...grants: readonly string[]) => (await limitedKey(instance(), acme, grants)).key;

    const writes = {
      create: { values: { name: 'x' } },
      update: { id: 1, values: { name: 'x' } },
      delete: { id: 1 },
    };
    for (const [name, input] of [
      ['find', {}],
      ['get', { id: 1 }],
      ['aggregate', {}],
      ['history', { id: 1 }],
      ...Object.entries(writes),
      ...Object.entries(writes).map(([tool, each]) => [tool, { ...each, dry_run: true }] as const),
    ] as const) {
      test(`${name} ${'dry_run' in input ? 'as a dry run ' : ''}names the missing grant`, async () => {
        const key = await keyWith('leads:list');
        const action = { find: 'list', aggregate: 'list', get: 'read', history: 'read' }[name] ?? name;
        const state = await dump(instance());
        const { code, grant } = await failTool(instance(), key, name, { resource: 'jobs', ...input });
        assert.deepEqual([code, grant], ['forbidden', `jobs:${action}`]);
        assert.equal(await dump(instance()), state);
      });
    }

    test('describe shows only what the caller can do', async () => {
      const key = await keyWith('jobs:list', 'jobs:read:open');
      const { resources, no_access } = await useTool(instance(), key, 'describe');
      assert.deepEqual(resources, [
        {
          name: 'jobs',
          description: 'Something to do.',
          you_may: 'list, read (only records in the scope open)',
        },
      ]);
      assert.ok((no_access as readonly string[]).includes('leads'));
      const several = await keyWith('jobs:read:open', 'jobs:read:own', 'jobs:update:hot');
      assert.equal(
        (await useTool(instance(), several, 'describe', { resource: 'jobs' })).you_may,
        'read (only records in the scope own or open), update (only records in the scope hot)',
      );
      assert.equal((await failTool(instance(), key, 'describe', { resource: 'leads' })).code, 'forbidden');
      const described = await useTool(instance(), key, 'describe', { resource: 'jobs' });
      assert.doesNotMatch(JSON.stringify(described), /margin|cost/i);
      const all = await useTool(instance(), acme.key, 'describe', { resource: 'jobs' });
      assert.deepEqual(all.rules, ['Margins are positive.']);
      assert.match(JSON.stringify(all.aggregate), /sum\(margin\)/);
    });

    test('records outside the scope do not exist', async () => {
      const open = await create(acme.key, { name: 'scope open', status: 'New' });
      const done = await create(acme.key, { name: 'scope done', status: 'Done' });
      const key = await keyWith('jobs:list:open', 'jobs:read:open', 'jobs:update:open', 'jobs:delete:open');
      const { records } = await useTool(instance(), key, 'find', { resource: 'jobs', limit: 100 });
      const ids = (records as readonly { readonly id: number }[]).map(({ id }) => id);
      assert.deepEqual([ids.includes(open), ids.includes(done)], [true, false]);
      const state = await dump(instance());
      for (const [name, more] of [
        ['get', {}],
        ['update', { values: { name: 'x' } }],
        ['update', { values: { name: 'x' }, dry_run: true }],
        ['delete', {}],
        ['delete', { dry_run: true }],
      ] as const) {
        const input = { resource: 'jobs', ...more };
        const outside = await failTool(instance(), key, name, { ...input, id: done });
        const missing = await failTool(instance(), key, name, { ...input, id: 999_999 });
        assert.deepEqual({ ...outside, request_id: '' }, { ...missing, request_id: '' });
        assert.equal(outside.code, 'not_found');
      }
      for (const dry_run of [false, true]) {
        const values = { status: 'Done' };
        const moved = await failTool(instance(), key, 'update', {
          resource: 'jobs',
          id: open,
          values,
          dry_run,
        });
        assert.equal(moved.code, 'outside_scope');
      }
      assert.equal(await dump(instance()), state);
    });

    test('hidden fields are absent, unknown and not part of changes', async () => {
      const id = await create(acme.key, { name: 'hidden', margin: 7 });
      const key = await keyWith('jobs:list', 'jobs:read', 'jobs:update');
      const use = (name: string, input: object) =>
        useTool(instance(), key, name, { resource: 'jobs', ...input });
      assert.equal('margin' in recordIn(await use('get', { id })), false);
      const changes = await use('update', { id, values: { name: 'renamed' }, dry_run: true });
      assert.deepEqual(changes.changes, { name: { from: 'hidden', to: 'renamed' } });
      const history = JSON.stringify(await use('history', { id }));
      assert.equal(history.includes('margin'), false);
      for (const [name, input] of [
        ['find', { fields: ['margin'] }],
        ['find', { where: { field: 'margin', op: 'eq', value: 7 } }],
        ['find', { sort: 'margin' }],
        ['get', { id, fields: ['margin'] }],
        ['update', { id, values: { margin: 8 } }],
      ] as const) {
        const unknown = JSON.parse(JSON.stringify(input).replaceAll('margin', 'nothin')) as object;
        const hidden = await failTool(instance(), key, name, { resource: 'jobs', ...input });
        const missing = await failTool(instance(), key, name, { resource: 'jobs', ...unknown });
        assert.equal(
          JSON.stringify({ ...hidden, request_id: '' }).replaceAll('margin', 'nothin'),
          JSON.stringify({ ...missing, request_id: '' }),
        );
      }
    });

    test('a dry run returns no values of a record that the caller cannot read', async () => {
      const id = await create(acme.key, { name: 'unreadable' });
      const input = { resource: 'jobs', id, dry_run: true };
      const blind = await useTool(instance(), await keyWith('jobs:delete'), 'delete', input);
      assert.deepEqual(blind, { dry_run: true, changes: {} });
      const reader = await useTool(instance(), await keyWith('jobs:delete', 'jobs:read'), 'delete', input);
      assert.deepEqual((reader.changes as { name: object }).name, { from: 'unreadable', to: null });
    });

    test('writes of several records need the grant to read, because their dry run returns values', async () => {
      const id = await create(acme.key, { name: 'several' });
      const key = await keyWith('jobs:update', 'jobs:delete');
      for (const dry_run of [false, true])
        for (const [tool, more] of [
          ['update', { values: { name: 'x' } }],
          ['delete', {}],
        ] as const) {
          const { code, grant } = await failTool(instance(), key, tool, {
            ...{ resource: 'jobs', ids: [id], dry_run },
            ...more,
          });
          assert.deepEqual([code, grant], ['forbidden', 'jobs:read'], tool);
        }
      assert.equal(
        recordIn(await useTool(instance(), acme.key, 'get', { resource: 'jobs', id })).name,
        'several',
      );
    });

    test('users are named by email address only to callers who can list members', async () => {
      const person = await makePerson(instance(), [{ organization: acme }]);
      const id = await create(acme.key, { name: 'owned', owner_id: Number(person.id) });
      const owner = async (...grants: readonly string[]) => {
        const input = { resource: 'jobs', id, fields: ['owner_id'] };
        return recordIn(await useTool(instance(), await keyWith(...grants), 'get', input)).owner_id;
      };
      const user = Number(person.id);
      assert.deepEqual(await owner('jobs:read', 'members:list'), { id: user, name: person.email });
      assert.deepEqual(await owner('jobs:read'), { id: user, name: null });
      await transaction(instance().database, (tables) => changeName(tables, person.id, 'Ada Lovelace'));
      for (const more of [[], ['members:list']])
        assert.deepEqual(await owner('jobs:read', ...more), { id: user, name: 'Ada Lovelace' });
    });

    test('records of other organizations do not exist', async () => {
      const id = await create(other.key, { name: 'foreign' });
      for (const [name, more] of [
        ['get', {}],
        ['update', { values: { name: 'x' } }],
        ['update', { values: { name: 'x' }, dry_run: true }],
        ['delete', {}],
        ['delete', { dry_run: true }],
      ] as const)
        assert.equal(
          (await failTool(instance(), acme.key, name, { resource: 'jobs', id, ...more })).code,
          'not_found',
        );
      const { records } = await useTool(instance(), acme.key, 'find', {
        resource: 'jobs',
        where: { field: 'name', op: 'eq', value: 'foreign' },
      });
      assert.deepEqual(records, []);
      const values = { name: 'x', parent_id: id };
      for (const dry_run of [false, true]) {
        const { code } = await failTool(instance(), acme.key, 'create', {
          resource: 'jobs',
          values,
          dry_run,
        });
        assert.equal(code, 'missing_reference');
      }
    });

    test('names of referenced records are returned only to callers who can read them', async () => {
      const account = await useTool(instance(), acme.key, 'create', {
        resource: 'accounts',
        values: { name: 'Secret Ltd' },
      });
      const { id } = recordIn(account);
      await useTool(instance(), acme.key, 'create', {
        resource: 'opportunities',
        values: { name: 'Deal', account_id: id },
      });
      const find = async (...grants: readonly string[]) => {
        const { records } = await useTool(instance(), await keyWith(...grants), 'find', {
          resource: 'opportunities',
          fields: ['account_id'],
        });
        return (records as readonly { readonly account_id: unknown }[]).map((record) => record.account_id);
      };
      assert.deepEqual(await find('opportunities:list'), [id]);
      assert.deepEqual(await find('opportunities:list', 'accounts:read'), [{ id, name: 'Secret Ltd' }]);
    });

    test('a key on behalf of a member sees what the member sees', async () => {
      const person = await limitedPerson(instance(), acme, ['jobs:list:own', 'jobs:read:own', 'jobs:create']);
      const { key } = await acme.makeKey({ onBehalfOf: person.id });
      await create(acme.key, { name: 'of another' });
      const own = await create(key, { name: 'own' });
      const { resources } = await useTool(instance(), key, 'describe');
      assert.deepEqual(
        (resources as readonly { readonly you_may: string }[]).map(({ you_may }) => you_may),
        ['list (only records in the scope own), read (only records in the scope own), create'],
      );
      const { records } = await useTool(instance(), key, 'find', { resource: 'jobs' });
      assert.deepEqual(
        (records as readonly { readonly id: number }[]).map(({ id }) => id),
        [own],
      );
      assert.equal(
        (await failTool(instance(), key, 'delete', { resource: 'jobs', id: own })).code,
        'forbidden',
      );
      // The email address of the member is visible only to callers who can list members.
      const author = async (caller: string) => {
        const { changes } = await useTool(instance(), caller, 'history', { resource: 'jobs', id: own });
        return (changes as readonly { readonly by: string }[])[0]?.by;
      };
      assert.equal(await author(acme.key), `administrator on behalf of ${person.email} (mcp create)`);
      assert.equal(
        await author(await keyWith('jobs:read')),
        'administrator on behalf of a member (mcp create)',
      );
    });

    test('custom fields are described, written, found and returned', async () => {
      const field = await instance().call('POST /fields/jobs', {
        key: acme.key,
        body: { name: 'shoe_size', type: 'integer', help: 'The size.' },
      });
      assert.equal(field.status, 201, field.text);
      const inGroup = await instance().call('POST /fields/jobs', {
        key: acme.key,
        body: { name: 'bonus', type: 'integer', group: 'finance' },
      });
      assert.equal(inGroup.status, 201, inGroup.text);
      const use = (name: string, input: object) =>
        useTool(instance(), acme.key, name, { resource: 'jobs', ...input });
      const description = await use('describe', {});
      const own = { shoe_size: 'integer; nullable. The size.' };
      assert.deepEqual(description.custom, { ...own, bonus: 'integer; nullable' });
      assert.match((description.where as Readonly<Record<string, string>>)['custom.shoe_size'] ?? '', /^eq /);
      const limited = await keyWith('jobs:list', 'jobs:read');
      const visible = await useTool(instance(), limited, 'describe', { resource: 'jobs' });
      assert.deepEqual(visible.custom, own);
      assert.doesNotMatch(JSON.stringify(visible), /bonus/);
      const id = await create(acme.key, { name: 'custom', custom: { shoe_size: 42, bonus: 7 } });
      const where = { field: 'custom.shoe_size', op: 'eq', value: 42 };
      assert.deepEqual(await use('find', { where, fields: ['custom.shoe_size'] }), {
        records: [{ id, custom: { shoe_size: 42 } }],
      });
      const changes = await use('update', { id, values: { custom: { shoe_size: 43 } }, dry_run: true });
      const [from, to] = [42, 43].map((shoe_size) => ({ shoe_size, bonus: 7 }));
      assert.deepEqual(changes.changes, { custom: { from, to } });
    });

    test('quotas apply to writes and to dry runs', async () => {
      const full = await instance().organization('full');
      await create(full.key, { name: 'first' });
      for (const dry_run of [true, false]) {
        const input = { resource: 'jobs', values: { name: 'second' }, dry_run };
        assert.equal((await failTool(instance(), full.key, 'create', input)).code, 'quota_exceeded');
      }
    });
  },
  {
    sources: await sourcesWith({
      ...jobs,
      text: jobs.text.replace(
        'sort: {',
        `custom_fields: true
aggregates: { group_by: [status], measures: [margin] }
checks:
  - { that: margin == null || margin > 0, fields: [margin], message: Margins are positive. }
sort: {`,
      ),
    }),
    environment: configured(
      'permissions',
      'mcp: true\nquotas: { organizations: { full: { records: 1 } } }\n',
    ),
  },
);
