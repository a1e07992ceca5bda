// Access to records for the routes, pages, commands and background work of modules.
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { type RecordAccess, recordAccess } from '../../app/module-records.ts';
import { compileGrants, everyGrant } from '../../engine/records/access.ts';
import type { Grants, Where } from '../../engine/records/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { hookedModules, hookedSources } from '../support/hooked.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';

onBothDrivers(
  'Records for modules',
  (instance) => {
    let acme: Organization;
    let records: RecordAccess;
    let count = 0;
    beforeEach(async () => {
      count++;
      acme = await instance().organization(`acme-${count}`);
      records = recordAccess(instance(), 'chores');
    });
    /** Returns access for a caller with these grants, as a route has it. */
    const access = (grants: Grants) =>
      records.of({
        id: 'request',
        principal: {
          ...{ kind: 'key' as const, actor: '1', name: 'a key', organization: acme.id, user: null, grants },
        },
      });
    const history = async (path: string) =>
      (await instance().call(`GET /api/v1/${path}/history`, { key: acme.key })).json.data as readonly {
        readonly actor: { readonly kind: string; readonly name: string | null };
        readonly request_id: string | null;
      }[];

    test('are those that the caller can see, and the caller is the author of the changes', async () => {
      const { create, update, get, find } = access(everyGrant);
      const { id } = await create('projects', { name: 'a' });
      await update('projects', id as bigint, { name: 'b' });
      assert.equal((await get('projects', id as bigint))?.name, 'b');
      assert.equal(await get('projects', 0n), undefined);
      assert.equal((await find('projects', { where: { name: 'b' } })).length, 1);
      assert.deepEqual(await find('projects', { where: { name: 'a' } }), []);
      const [change] = await history(`projects/${id}`);
      assert.deepEqual([change?.actor.name, change?.request_id], ['a key', 'request']);
      const reader = access(compileGrants([{ object: 'projects', action: 'read' }]));
      assert.equal((await reader.get('projects', id as bigint))?.name, 'b');
      await assert.rejects(reader.delete('projects', id as bigint), { status: 403 });
      await assert.rejects(
        reader.transaction((inner) => inner.create('projects', { name: 'c' })),
        { status: 403 },
      );
    });

    test('have the grants of the member who requests a page, and need a caller', async () => {
      const user = { id: acme.user, email: 'ada@people.example', name: null, language: null };
      const grants = compileGrants([{ object: 'projects', action: 'create' }]);
      const { slug, id: organization } = acme;
      const membership = {
        ...{ organization, slug, formerSlugs: [], name: slug },
        ...{ profile: 'creator', grants, phoneRegion: undefined },
      };
      const session = {
        ...{ id: '1', jti: '1', user, tokenVersion: 1, method: '', secondFactor: false },
        ...{ startedAt: 0, lastSeen: 0, expires: 0, memberships: new Map([[slug, membership]]) },
      };
      const member = {
        ...{ person: { session, credential: 'cookie' as const }, membership },
        actor: { kind: 'user' as const, id: user.id, name: user.email, requestId: 'page', audited: true },
      };
      const { id } = await records.of(member).create('projects', { name: 'a' });
      const [change] = await history(`projects/${id}`);
      assert.deepEqual(change?.actor, { kind: 'user', id: Number(acme.user), name: user.email });
      assert.equal(change.request_id, 'page');
      await assert.rejects(records.of(member).delete('projects', id as bigint), { status: 403 });
      assert.throws(() => records.of({ id: 'request', principal: null }), { status: 401 });
    });

    test('are without limits with system access, whose author and reason are in the change log', async () => {
      const other = await instance().organization(`other-${count}`);
      const system = records.asSystem(acme.id, 'at night');
      const project = await system.create('projects', { name: 'a', open_tasks: 70n });
      assert.equal(project.open_tasks, 70n);
      const { get } = records.asSystem(other.id, 'at night');
      assert.equal(await get('projects', project.id as bigint), undefined);
      const [change] = await history(`projects/${project.id}`);
      assert.deepEqual(change?.actor, { kind: 'command', id: null, name: 'command (chores: at night)' });
      await assert.rejects(system.create('tasks', { title: 'forbidden' }), {
        name: 'SystemCallError',
        status: 400,
      });
    });

    test('can be written in one transaction', async () => {
      const system = records.asSystem(acme.id, 'at night');
      const names = async () => (await system.find('projects')).map(({ name }) => name);
      const work = system.transaction(async (inner) => {
        await inner.create('projects', { name: 'a' });
        throw new RangeError('an error of the module');
      });
      await assert.rejects(work, new RangeError('an error of the module'));
      assert.deepEqual(await names(), []);
      const created = await system.transaction(async (inner) => {
        const { id } = await inner.create('projects', { name: 'a' });
        return inner.update('projects', id as bigint, { name: 'b' });
      });
      assert.equal(created.name, 'b');
      assert.deepEqual(await names(), ['b']);
      const counted = await system.transaction((inner) =>
        inner.update('projects', created.id as bigint, { open_tasks: 70n }),
      );
      assert.equal(counted.open_tasks, 70n);
      const [change] = await history(`projects/${created.id}`);
      assert.equal(change?.actor.name, 'command (chores: at night)');
    });

    test('can be read in pages, also while they change', async () => {
      const system = records.asSystem(acme.id, 'at night');
      const bodies = Array.from({ length: 45 }, (_, number) => ({
        name: `project ${String(number).padStart(2, '0')}`,
      }));
      const created = await instance().call('POST /api/v1/projects/batch', {
        key: acme.key,
        body: { records: bodies },
      });
      assert.equal(created.status, 200, created.text);
      const sizes: number[] = [];
      const seen = new Set<unknown>();
      for await (const page of system.pages('projects', { sort: 'id' })) {
        sizes.push(page.length);
        for (const { id, name } of page) {
          seen.add(name);
          await system.delete('projects', id as bigint);
        }
      }
      assert.deepEqual([sizes, seen.size], [[20, 20, 5], 45]);
      assert.deepEqual(await system.find('projects'), []);
    });

    test('are found by values of their fields, by conditions and by groups of them', async () => {
      const system = records.asSystem(acme.id, 'at night');
      const { id } = await system.create('projects', { name: 'b' });
      await system.create('tasks', { title: 'one', project_id: id });
      await system.create('tasks', { title: 'two', project_id: null });
      const titles = async (where: Where) =>
        (await system.find('tasks', { where, sort: 'title' })).map(({ title }) => title);
      assert.deepEqual(await titles({ project_id: id }), ['one']);
      assert.deepEqual(await titles({ project_id: id, title: 'two' }), []);
      assert.deepEqual(await titles({ project_id: null }), ['two']);
      assert.deepEqual(await titles({ title: ['one', 'two'] }), ['one', 'two']);
      assert.deepEqual(await titles({ field: 'title', op: 'eq', value: 'one' }), ['one']);
      assert.deepEqual(await titles({ any: [{ title: 'two' }, { project_id: id }] }), ['one', 'two']);
      assert.deepEqual(await titles({ title: ['one', 'two'], not: { project_id: id } }), ['two']);
      assert.deepEqual(await titles({ all: [{ field: 'project_id', op: 'is_null', value: true }] }), ['two']);
      assert.deepEqual(await titles({}), ['one', 'two']);
      await assert.rejects(system.find('tasks', { where: { titel: 'one' } }), {
        message: 'titel has no filter. Did you mean "title"?',
      });
      await assert.rejects(system.find('projects', { where: { open_tasks: 1 } }), {
        message:
          "open_tasks cannot be compared with a value. Its operators are gt, lt: write { field: 'open_tasks', op: 'gt', value: … }",
      });
      await assert.rejects(system.find('tasks', { where: { title: undefined } }), {
        message: 'the value of title is undefined',
      });
    });

    test('list the organizations of the instance', async () => {
      // The oldest organization is the one that changed last.
      await tablesOf(instance().database)
        .updateTable('crm_organizations')
        .set({ name: 'Oldest' })
        .where('slug', '=', 'acme-1')
        .execute();
      const all = await records.organizations();
      const [first] = all;
      assert.deepEqual([first?.slug, first?.name], ['acme-1', 'Oldest']);
      assert.ok(all.some(({ id, slug }) => id === BigInt(acme.id) && slug === acme.slug));
      const ids = all.map(({ id }) => id);
      assert.deepEqual(
        ids,
        ids.toSorted((a, b) => Number(a - b)),
      );
    });
  },
  { sources: await sourcesWith(...hookedSources), modules: hookedModules([]) },
);
