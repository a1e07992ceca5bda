// Hooks after commits: called for every change, at least once and in order, also if they fail at first.
import assert from 'node:assert/strict';
import { before, beforeEach, describe, test } from 'node:test';
import fastify from 'fastify';
import { sql } from 'kysely';
import { backgroundWork } from '../../engine/modules/index.ts';
import type { CommittedChange, ModuleCode } from '../../engine/records/index.ts';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { hookCheck } from '../../plugins/hooks/check.ts';
import { hooksModule } from '../../plugins/hooks/index.ts';
import { commitRunner } from '../../plugins/hooks/run.ts';
import { hookedSources } from '../support/hooked.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';
import { mayBeIdle } from '../support/uncommitted.ts';

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
  (instance, driver) => {
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
      assert.deepEqual([created?.organization, created?.resource], [BigInt(acme.id), 'tasks']);
      const { data } = (await send(`GET tasks/${id}/history`)) as {
        data: readonly { actor: { kind: string; id: number; name: string } }[];
      };
      const [{ actor } = assert.fail()] = data;
      assert.deepEqual(created?.actor, { kind: 'key', id: BigInt(actor.id), name: actor.name });
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
      assert.deepEqual(changesOf(id)[1]?.actor, {
        ...{ kind: 'command', id: null, name: 'command (mirror: mirror)' },
      });
      const task = await send(`GET tasks/${id}`);
      assert.deepEqual([task.points, task.score], [77, 5]);
      const { data } = (await send(`GET tasks/${id}/history`)) as {
        data: readonly { actor: object; request_id: string }[];
      };
      assert.deepEqual(data[0]?.actor, { kind: 'command', id: null, name: 'command (mirror: mirror)' });
      assert.equal(data[0]?.request_id, data[1]?.request_id, 'the request that caused it');
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

    test('that changes cannot be read is logged once until it is possible again', async () => {
      const { database, resources } = instance();
      const lines: { readonly msg: string }[] = [];
      const write = (line: string) => lines.push(JSON.parse(line) as (typeof lines)[number]);
      let isFailing = false;
      const schedule: typeof database.schedule = async (...given) => {
        if (isFailing) throw new Error('no connection');
        return database.schedule(...given);
      };
      // Handles are shared by databases with the same object.
      const copy = { ...database, orm: Object.create(database.orm) as typeof database.orm, schedule };
      const app = fastify({ logger: { level: 'warn', base: {}, stream: { write } } });
      const background = backgroundWork();
      let runs = 0;
      const every: typeof background.every = (owner, name, intervalMs, work) =>
        background.every(owner, name, intervalMs, async () => {
          await work();
          runs++;
        });
      app.decorate('background', { ...background, every });
      // The functions of the instance stay as they are.
      const copies = resources.map((resource) => {
        const { hooks } = resource.context;
        return { ...resource, context: { ...resource.context, ...(hooks && { hooks: { ...hooks } }) } };
      });
      await hooksModule.register?.(app, { database: copy, resources: copies });
      await app.ready();
      for (const value of [true, false, true]) {
        [isFailing, runs] = [value, 0];
        await until(() => {
          background.run('hooks after commits');
          return runs >= 2;
        }, 'two runs');
      }
      isFailing = false;
      await app.close();
      const message = 'failed to read changes for hooks; will retry';
      assert.deepEqual(
        lines.map(({ msg }) => msg),
        [message, message],
      );
    });

    describe('of several processes', () => {
      let count = 0;
      /** The module whose hooks the test calls. The instance does not have it. */
      let module: string;
      beforeEach(() => {
        count++;
        module = `other-${count}`;
      });
      const never = () => false;
      /** Returns the functions with which a process calls a hook of tasks. */
      const processWith = (
        hook: (change: CommittedChange) => unknown,
        name = module,
        log: (details: object, message: string) => void = () => {},
      ) => {
        const { database, resources } = instance();
        const hooks = resources[0]?.context.hooks ?? assert.fail();
        const afterCommit = async (change: CommittedChange) => {
          await hook(change);
        };
        return commitRunner({ database, resources, hooks, log }, [
          { module: name, byResource: new Map([['tasks', afterCommit]]) },
        ]);
      };
      const createTask = async (title: string, { key } = acme): Promise<bigint> => {
        const { status, json, text } = await instance().call('POST /api/v1/tasks', { key, body: { title } });
        assert.equal(status, 201, text);
        return BigInt(String(json.id));
      };
      const another = () => instance().organization(`created-${count}`);
      /** Calls hooks until a condition is true. Earlier transactions can hold back changes for a moment. */
      const runUntil = ({ run }: ReturnType<typeof processWith>, isDone: () => boolean) =>
        until(async () => {
          await run(never);
          return isDone();
        }, 'the hook');
      /** Like `runUntil`, for hooks that fail: stops before their second attempt, however late it is. */
      const runOnceUntil = ({ run }: ReturnType<typeof processWith>, isDone: () => boolean) =>
        until(async () => {
          await run(isDone);
          return isDone();
        }, 'the hook');
      const place = async () => {
        const { rows } = await sql<{
          attempts: number;
          error: string;
          isLeased: boolean;
          pause: number;
        }>`select attempts, error, leased_until > now() as "isLeased", extract(epoch from next_at - now())::int as pause
          from crm_hook_places where module = ${module} and organization_id = ${acme.id}::bigint`.execute(
          tablesOf(instance().database),
        );
        return rows[0] ?? assert.fail();
      };
      const setPlace = (assignments: string) =>
        sql`update crm_hook_places set ${sql.raw(assignments)} where module = ${module}`.execute(
          tablesOf(instance().database),
        );

      test('a call that a hook does not await does not end the process', async () => {
        let calls = 0;
        const process = processWith(({ asSystem }) => {
          void asSystem('ignored').create('nothing', {});
          void asSystem('ignored').find('nothing');
          calls++;
        });
        await process.run(never);
        await createTask('not awaited');
        await runUntil(process, () => calls > 0);
        await createTask('awaited');
        await runUntil(process, () => calls > 1);
      });

      test('a new module starts with the next change', async () => {
        const seen: bigint[] = [];
        const earlier = await createTask('before the module');
        const process = processWith(({ id }) => seen.push(id));
        await process.start();
        await process.run(never);
        const later = await createTask('after the module');
        await runUntil(process, () => seen.includes(later));
        assert.ok(!seen.includes(earlier));
      });

      test('a new module starts with the first change in organizations created after its process started', async () => {
        const seen: bigint[] = [];
        const process = processWith(({ id }) => seen.push(id));
        await process.start();
        const first = await createTask('first', await another());
        await runUntil(process, () => seen.includes(first));
      });

      test('a module with places in other organizations starts with the first change in a new one', async () => {
        const seen: bigint[] = [];
        const process = processWith(({ id }) => seen.push(id));
        await process.run(never);
        const first = await createTask('first', await another());
        await runUntil(process, () => seen.includes(first));
      });

      test('each organization has its own place', async () => {
        const seen: bigint[] = [];
        const process = processWith(({ id }) => seen.push(id));
        const other = await another();
        await process.run(never);
        const ids = [
          await createTask('one', other),
          await createTask('two'),
          await createTask('three', other),
        ];
        const tables = tablesOf(instance().database);
        await until(async () => {
          const { rows } = await sql`select from crm_ledger where object = 'tasks'
            and object_id = any(${ids.map(String)}::text[]::bigint[]) and transaction < pg_snapshot_xmin(pg_current_snapshot())`.execute(
            tables,
          );
          return rows.length === ids.length;
        }, 'the changes');
        await process.run(never);
        assert.deepEqual(
          seen.toSorted((a, b) => Number(a - b)),
          ids,
        );
      });

      if (driver === 'postgresql')
        test('hooks do not look for changes that an open transaction holds back', async () => {
          const process = processWith(() => {});
          await process.run(never);
          let turns = 0;
          await transaction(instance().database, async (tables) => {
            await mayBeIdle(tables);
            await sql`select pg_current_xact_id()`.execute(tables);
            await createTask('held back');
            await process.run(() => ++turns > 2);
          });
          assert.equal(turns, 0);
        });

      test('a change whose hook is running is not passed to another process', async () => {
        const seen: unknown[] = [];
        const second = processWith(({ id }) => seen.push(['second', id]));
        const first = processWith(async ({ id }) => {
          seen.push(['first', id]);
          await second.run(never);
        });
        await first.run(never);
        const id = await createTask('once');
        await runUntil(first, () => seen.length > 0);
        assert.deepEqual(seen, [['first', id]]);
      });

      test('a process that stops leaves the remaining changes to others immediately', async () => {
        const [seen, probed]: [bigint[], bigint[]] = [[], []];
        const stopping = processWith(({ id }) => seen.push(id));
        const probe = processWith(({ id }) => probed.push(id), `probe-${count}`);
        await Promise.all([stopping.run(never), probe.run(never)]);
        const ids = [await createTask('first'), await createTask('second')];
        await runUntil(probe, () => probed.length === 2);
        await stopping.run(() => seen.length > 0);
        assert.deepEqual([seen, (await place()).isLeased], [ids.slice(0, 1), false]);
        await processWith(({ id }) => seen.push(id)).run(never);
        assert.deepEqual(seen, ids);
      });

      test('a hook is called 12 times for a change, with pauses of up to 15 minutes, and then the change is skipped', async () => {
        const seen: bigint[] = [];
        const process = processWith(({ id, record }) => {
          seen.push(id);
          if (record?.title === 'cursed') throw new Error('the mirror is broken');
        });
        await process.run(never);
        const cursed = await createTask('cursed');
        await runOnceUntil(process, () => seen.length > 0);
        const { attempts, error } = await place();
        assert.deepEqual([attempts, error], [1, 'the mirror is broken']);
        // Each pause is twice as long as the one before.
        for (const [previous, pause] of [
          [8, 256],
          [10, 900],
        ] as const) {
          await setPlace(`attempts = ${previous}, next_at = now()`);
          await process.run(never);
          const last = await place();
          assert.equal(last.attempts, previous + 1);
          assert.ok(last.pause > (pause * 2) / 3 && last.pause <= pause, String(last.pause));
        }
        await process.run(never);
        assert.deepEqual(seen, [cursed, cursed, cursed], 'the pause has not ended');
        const next = await createTask('after the cursed one');
        await setPlace('next_at = now()');
        await runUntil(process, () => seen.includes(next));
        assert.deepEqual(seen, [cursed, cursed, cursed, cursed, next]);
        const { attempts: left, error: none } = await place();
        assert.deepEqual([left, none], [0, '']);
      });

      test('the attempts of each change are counted and logged separately', async () => {
        const logged: unknown[] = [];
        const fail = ({ id }: CommittedChange) => {
          throw new Error(`${id}: ${'x'.repeat(600)}`);
        };
        const process = processWith(fail, module, (details, message) => {
          const { module: name, resource, attempts } = details as Record<string, unknown>;
          logged.push([message, name, resource, attempts]);
        });
        await process.run(never);
        await createTask('cursed');
        const next = await createTask('cursed, too');
        await runOnceUntil(process, () => logged.length > 0);
        await setPlace('attempts = 11, next_at = now()');
        await runOnceUntil(process, () => logged.length > 2);
        const { attempts, error } = await place();
        assert.equal(attempts, 1);
        assert.deepEqual([error.length, error.startsWith(`${next}: x`)], [500, true]);
        const failed = 'an afterCommit hook failed';
        assert.deepEqual(logged, [
          [failed, module, 'tasks', 1],
          ['an afterCommit hook failed for the last time; the change is skipped', module, 'tasks', 12],
          [failed, module, 'tasks', 1],
        ]);
      });

      test('crm doctor reports a hook after its third failure', async () => {
        await processWith(() => {}).run(never);
        const findings = async () =>
          (await hookCheck.run({ database: instance().database })).filter(
            ({ location }) => location === `module ${module}, organization acme`,
          );
        await setPlace('attempts = 2');
        assert.deepEqual(await findings(), []);
        await setPlace('attempts = 3');
        assert.equal((await findings()).length, 1);
      });

      test('after a restore, changes of the hour before the last call are passed again', async () => {
        const seen: bigint[] = [];
        const process = processWith(({ id }) => seen.push(id));
        await process.run(never);
        const [old, recent] = [await createTask('old'), await createTask('recent')];
        await runUntil(process, () => seen.length === 2);
        // The module is not new.
        await setPlace(`since = '-infinity'`);
        const tables = tablesOf(instance().database);
        await sql`update crm_ledger set at = now() - interval '61 minutes'
          where object = 'tasks' and object_id = ${String(old)}::bigint`.execute(tables);
        await tables.updateTable('crm_ledger_epochs').set({ source: 'restored' }).execute();
        await runUntil(process, () => seen.length > 2);
        assert.ok(seen.slice(2).includes(recent));
        assert.ok(!seen.slice(2).includes(old));
        const next = await createTask('next');
        await runUntil(process, () => seen.includes(next));
      });
    });
  },
  { sources, modules, ownServer: true },
);
