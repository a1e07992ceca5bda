// Hooks after commits: called for every change, at least once and in order, also if they fail at first.
import assert from 'node:assert/strict';
import { before, beforeEach, test } from 'node:test';
import type { CommittedChange, ModuleCode } from '../../engine/records/index.ts';
import { hookCheck } from '../../plugins/hooks/check.ts';
import { hookedSources } from '../support/hooked.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const changes: CommittedChange[] = [];
/** Titles for which the hook fails, with the number of failures left. */
const failing = new Map<string, number>();

const modules: readonly ModuleCode[] = [
  {
    name: 'mirror',
    hooks: {
      tasks: {
        afterCommit: async (change) => {
          const { record, asSystem } = change;
          changes.push(change);
          const title = String(record?.title);
          const left = failing.get(title) ?? 0;
          failing.set(title, left - 1);
          if (left > 0) throw new Error('the mirror is full');
          if (title === 'mirrored' && record?.points !== 77n)
            await asSystem('mirror').update('tasks', change.id, { points: 77n, score: 5n });
        },
      },
    },
  },
];
const sources = await sourcesWith(...hookedSources);

onBothDrivers(
  'Hooks after commits',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    beforeEach(() => {
      changes.length = 0;
    });
    const send = async (request: string, body?: unknown) => {
      const answer = await instance().call(request.replace(' ', ' /api/v1/'), { key: acme.key, body });
      assert.ok(answer.status < 300, answer.text);
      return answer.json;
    };
    const changesOf = (id: unknown) => changes.filter((change) => change.id === BigInt(String(id)));

    test('a hook is called for each change, in order, with the states before and after', async () => {
      const { id } = await send('POST tasks', { title: 'a', points: 1, hours: 0.1 });
      await send(`PATCH tasks/${id}`, { points: 2 });
      await send(`DELETE tasks/${id}`);
      await until(() => changesOf(id).length === 3, 'the hook');
      const [created, updated, deleted] = changesOf(id);
      assert.deepEqual(
        changesOf(id).map(({ action }) => action),
        ['create', 'update', 'trash'],
      );
      assert.deepEqual(
        [created?.record?.points, created?.record?.hours, created?.previous],
        [1n, '0.1', undefined],
      );
      assert.deepEqual(
        [updated?.changed.includes('points'), updated?.previous?.points, updated?.record?.points],
        [true, 1n, 2n],
      );
      assert.deepEqual([deleted?.record, deleted?.previous?.points], [undefined, 2n]);
      assert.deepEqual(
        [created?.organization, created?.actor.kind, created?.resource],
        [BigInt(acme.id), 'key', 'tasks'],
      );
      assert.equal(new Set(changesOf(id).map(({ position }) => position)).size, 3);
    });

    test('a failed hook is called again for the same change, and later changes wait', async () => {
      failing.set('stubborn', 2);
      const { id } = await send('POST tasks', { title: 'stubborn' });
      const { id: later } = await send('POST tasks', { title: 'later' });
      await until(() => changesOf(id).length === 2, 'the hook');
      assert.equal(changesOf(later).length, 0);
      await until(() => changesOf(later).length === 1, 'the hook');
      assert.equal(changesOf(id).length, 3);
      assert.equal(new Set(changesOf(id).map(({ position }) => position)).size, 1);
    });

    test('crm doctor reports a hook that keeps failing', async () => {
      failing.set('hopeless', 1000);
      const { id } = await send('POST tasks', { title: 'hopeless' });
      await until(
        async () => (await hookCheck.run({ database: instance().database })).length > 0,
        'the hook',
      );
      const [finding] = await hookCheck.run({ database: instance().database });
      assert.equal(finding?.location, 'module mirror, organization acme');
      assert.match(
        String(finding?.message),
        /afterCommit has failed \d times for the same change: the mirror is full/,
      );
      failing.delete('hopeless');
      assert.ok(changesOf(id).length >= 3);
    });

    test('a hook writes with system access, and is called for its own writes', async () => {
      failing.clear();
      const { id } = await send('POST tasks', { title: 'mirrored' });
      await until(() => changesOf(id).length === 2, 'the hook');
      const task = await send(`GET tasks/${id}`);
      assert.deepEqual([task.points, task.score], [77, 5]);
      const { data } = (await send(`GET tasks/${id}/history`)) as { data: readonly { actor: object }[] };
      assert.deepEqual(data[0]?.actor, { kind: 'command', id: null, name: 'command (mirror: mirror)' });
    });

    test('organizations created later are included from their first change', async () => {
      const other = await instance().organization('other');
      const { json } = await instance().call('POST /api/v1/tasks', {
        key: other.key,
        body: { title: 'first' },
      });
      await until(() => changesOf(json.id).length === 1, 'the hook');
      assert.equal(changesOf(json.id)[0]?.organization, BigInt(other.id));
    });
  },
  { sources, modules, ownServer: true },
);
