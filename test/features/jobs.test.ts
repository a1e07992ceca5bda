// Actions that run as jobs: in the background, in many transactions, with progress, at least once.
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { type JobAction, type JobContext, type ModuleCode, Rejection } from '../../engine/records/index.ts';
import { tablesOf, transaction } from '../../engine/tables/index.ts';
import { createProfile } from '../../plugins/access/profiles/profiles.ts';
import { jobActions } from '../../plugins/jobs/action-jobs.ts';
import { jobCheck } from '../../plugins/jobs/check.ts';
import { maxResult } from '../../plugins/jobs/index.ts';
import { jobMetrics } from '../../plugins/jobs/metrics.ts';
import { claimJob, finishJob, renewLease, requeueJob } from '../../plugins/jobs/queue.ts';
import { jobsRetention } from '../../plugins/jobs/retention.ts';
import { nextRun, scheduler } from '../../plugins/jobs/schedule.ts';
import { createErasure } from '../../plugins/tenants/erasure/erase-person.ts';
import { hookedSources } from '../support/hooked.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { settingsFile } from '../support/partners.ts';
import { command, logIn, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { errorOf } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';
import { inTimeZone } from '../support/time-zone.ts';
import { whileUncommitted } from '../support/uncommitted.ts';

const file = settingsFile({});
/** What the action does, by the `mode` in its body. */
const modes = new Map<string, JobAction['run']>();
/** The contexts of all attempts. */
const attempts: JobContext[] = [];

const run: JobAction['run'] = (context) => {
  attempts.push(context);
  return modes.get(String(context.input.mode))?.(context);
};
/** Records with custom fields. */
const labels = {
  file: 'resources/labels.yaml',
  text: `
singular: label
description: A label.
common: all
custom_fields: true
fields:
  name: { type: string, description: The name. }
sort: { by: name }
`,
};
const input = {
  type: 'object',
  properties: { mode: { type: 'string' }, count: { type: 'integer' } },
  additionalProperties: false,
};
const modules: readonly ModuleCode[] = [
  {
    name: 'chores',
    actions: {
      tasks: {
        tidy: { description: 'Tidies a task up.', job: true, input, run },
        polish: { description: 'Polishes a task.', job: true, permission: 'own', input, run },
        tally: { description: 'Counts the tasks.', job: true, ofCollection: true, input, run },
      },
      projects: {
        sweep: { description: 'Sweeps all projects.', job: true, ofCollection: true, input, run },
        hurry: { description: 'Takes a moment.', job: true, ofCollection: true, maxMinutes: 0.001, run },
        // On leap days, so that no test starts it by chance.
        leap: {
          ...{ description: 'Runs on leap days.', job: true, ofCollection: true },
          ...{ schedule: '30 2 29 2 *', timeZone: 'Europe/Berlin' },
          run,
        },
      },
    },
  },
];

/** A promise, and the function that resolves it. */
const gate = () => Promise.withResolvers<void>();

onBothDrivers(
  'Jobs',
  (instance, driver) => {
    let acme: Organization;
    let count = 0;
    // The jobs of an organization run one after another.
    beforeEach(async () => {
      count++;
      acme = await instance().organization(`acme-${count}`);
      attempts.length = 0;
      modes.clear();
    });
    const send = (request: string, body?: unknown, key = acme.key, headers = {}): Promise<Answer> =>
      instance().call(request.replace(' ', ' /api/v1/'), {
        key,
        headers,
        ...(body !== undefined && { body }),
      });
    const succeed = async (...parameters: Parameters<typeof send>) => {
      const answer = await send(...parameters);
      assert.ok(answer.status < 300, answer.text);
      return answer.json;
    };
    const createTask = async (values = {}) =>
      Number((await succeed('POST tasks', { title: 'a', ...values })).id);
    const startSweep = async (mode: string, behavior: JobAction['run'], key = acme.key): Promise<number> => {
      modes.set(mode, behavior);
      return Number((await succeed('POST projects/actions/sweep', { mode }, key)).id);
    };
    const jobOf = (id: number, key = acme.key) => succeed(`GET jobs/${id}`, undefined, key);
    const finished = async (id: number, key = acme.key) => {
      const isFinished = async () => !['queued', 'running'].includes(String((await jobOf(id, key)).state));
      await until(isFinished, 'the job');
      return jobOf(id, key);
    };
    const update = (id: number, assignments: string) =>
      sql`update crm_jobs set ${sql.raw(assignments)} where id = ${id}::bigint`.execute(
        tablesOf(instance().database),
      );
    const rowOf = (id: unknown) =>
      tablesOf(instance().database)
        .selectFrom('crm_jobs')
        .select(['state', 'attempts', 'input', 'error', 'due_at', 'done', 'total'])
        .where('id', '=', String(id))
        .executeTakeFirstOrThrow();
    const projects = async () =>
      ((await succeed('GET projects')).data as readonly { name: string }[]).map(({ name }) => name).sort();

    test('an action that is a job is answered immediately, and reports its progress and its result', async () => {
      const id = await createTask({ points: 5 });
      const half = gate();
      modes.set('halves', async ({ record, records, transaction, progress, id: task, input: body }) => {
        assert.equal(record?.points, 5n);
        assert.equal(body.count, 2n ** 53n + 1n);
        const project = await transaction(async (inner) => {
          await inner.update('tasks', task ?? 0n, { points: 6n });
          return inner.create('projects', { name: 'first half' });
        });
        progress(1, 2);
        await half.promise;
        await records.create('projects', { name: 'second half' });
        progress(2, 2);
        return { project: project.name, big: 2n ** 60n };
      });
      const answer = await send(
        `POST tasks/${id}/actions/tidy`,
        `{"mode":"halves","count":${2n ** 53n + 1n}}`,
      );
      assert.equal(answer.status, 202, answer.text);
      const { id: job, created_at: createdAt, ...started } = answer.json;
      assert.equal(answer.headers.get('location'), `/api/v1/jobs/${job}`);
      assert.deepEqual(started, {
        ...{ resource: 'tasks', action: 'tidy', record_id: id, state: 'queued' },
        ...{ progress: null, result: null, error: null, finished_at: null },
      });
      await until(async () => (await jobOf(Number(job))).progress !== null, 'the progress');
      const running = await jobOf(Number(job));
      assert.deepEqual([running.state, running.progress], ['running', { done: 1, total: 2 }]);
      // The first transaction is committed although the job is still running.
      assert.deepEqual(await projects(), ['first half']);
      assert.equal((await succeed(`GET tasks/${id}`)).points, 6);
      half.resolve();
      await finished(Number(job));
      const { text, headers } = await send(`GET jobs/${job}`);
      assert.match(text, /"result":\{"project":"first half","big":1152921504606846976\}/);
      assert.equal(headers.get('cache-control'), 'no-store');
      assert.equal((await rowOf(job)).input, '', 'the body is no longer stored');
      const completed = await jobOf(Number(job));
      assert.deepEqual(
        [completed.state, completed.progress, completed.error, completed.created_at],
        ['completed', { done: 2, total: 2 }, null, createdAt],
      );
      assert.ok(completed.finished_at);
      assert.deepEqual(await projects(), ['first half', 'second half']);
      const { data } = (await succeed(`GET tasks/${id}/history`)) as {
        readonly data: readonly { readonly actor: { readonly kind: string }; readonly request_id: string }[];
      };
      assert.deepEqual(
        [data[0]?.actor.kind, data[0]?.request_id],
        ['key', answer.headers.get('x-request-id')],
        'the change log names the request that started the job',
      );
    });

    test('what the caller sends and may do is checked before the job is queued', async () => {
      const id = await createTask();
      const statusOf = async (...parameters: Parameters<typeof send>) => (await send(...parameters)).status;
      assert.equal(await statusOf(`POST tasks/${id}/actions/tidy`, { count: 'x' }), 400);
      assert.equal(await statusOf('POST tasks/999999/actions/tidy', {}), 404);
      const reader = await acme.keyWith([{ object: 'tasks', actions: ['read'] }]);
      assert.equal(await statusOf(`POST tasks/${id}/actions/tidy`, {}, reader), 403);
      const own = await acme.keyWith([{ object: 'tasks', actions: ['read:own', 'update:own'] }]);
      assert.equal(await statusOf(`POST tasks/${id}/actions/tidy`, {}, own), 404);
      const rows = await tablesOf(instance().database)
        .selectFrom('crm_jobs')
        .select('id')
        .where('organization_id', '=', acme.id)
        .execute();
      assert.deepEqual(rows, []);
    });

    test('a rejection fails the job, and only the transaction in which it was thrown is rolled back', async () => {
      const id = await startSweep('reject', async ({ records, transaction }) => {
        await records.create('projects', { name: 'kept' });
        await transaction(async (inner) => {
          await inner.create('projects', { name: 'undone' });
          throw new Rejection('Not today', { hint: 'Try tomorrow.' });
        });
        return undefined;
      });
      const { state, error, result } = await finished(id);
      assert.deepEqual([state, result], ['failed', null]);
      const { request_id: request, ...reason } = error as Readonly<Record<string, unknown>>;
      assert.deepEqual(reason, {
        ...{ error: 'Not today. Try tomorrow.', code: 'rejected_by_module', hint: 'Try tomorrow.' },
      });
      assert.equal(typeof request, 'string');
      assert.equal(attempts.length, 1);
      assert.deepEqual(await projects(), ['kept']);
    });

    test('a job writes custom fields, alone and in a transaction', async () => {
      const field = { name: 'place', type: 'string' };
      const defined = await instance().call('POST /fields/labels', { key: acme.key, body: field });
      assert.equal(defined.status, 201, defined.text);
      const id = await startSweep('labels', async ({ records, transaction }) => {
        await records.create('labels', { name: 'alone', custom: { place: 'here' } });
        await transaction((inner) =>
          inner.create('labels', { name: 'together', custom: { place: 'there' } }),
        );
        return {};
      });
      assert.equal((await finished(id)).state, 'completed');
      const { data } = await succeed('GET labels?sort=name');
      assert.deepEqual(
        (data as readonly { readonly custom: object }[]).map(({ custom }) => custom),
        [{ place: 'here' }, { place: 'there' }],
      );
    });

    test('the action can handle errors of its transactions', async () => {
      const id = await startSweep('handle', async ({ records, transaction }) => {
        const failures: string[] = [];
        const note = (cause: unknown) => failures.push((cause as Error).constructor.name);
        await records.create('nothing', {}).catch(note);
        await records.asSystem('test').create('tasks', { title: 5 }).catch(note);
        await transaction(async () => {
          throw new RangeError('own');
        }).catch(note);
        return { failures };
      });
      const { result } = await finished(id);
      assert.deepEqual(result, { failures: ['Error', 'SystemCallError', 'RangeError'] });
    });

    test('a job whose action throws an error is attempted three times', async () => {
      let id = 0;
      const lines = await logged(async () => {
        id = await startSweep('throw', async ({ progress }) => {
          progress(attempts.length, 3);
          throw new Error('a secret of the action');
        });
        await finished(id);
      });
      const { state, error, progress } = await jobOf(id);
      assert.deepEqual(
        lines
          .filter(({ msg }) => msg === 'a job failed')
          .map((line) => [line.organization, line.job, line.resource, line.action, line.attempts]),
        [1, 2, 3].map((attempt) => [acme.id, String(id), 'projects', 'sweep', attempt]),
      );
      const failures = lines.filter(({ msg }) => msg === 'a job failed');
      assert.deepEqual(
        failures.map(({ err }) => (err as { readonly message: string }).message),
        failures.map(() => 'a secret of the action'),
      );
      assert.equal(state, 'failed');
      assert.match(JSON.stringify(error), /module_failed/);
      assert.doesNotMatch(JSON.stringify(error), /a secret/);
      assert.deepEqual(progress, { done: 3, total: 3 });
      assert.deepEqual(
        attempts.map(({ attempt, jobId }) => [attempt, jobId]),
        [1, 2, 3].map((attempt) => [attempt, BigInt(id)]),
      );
    });

    test('an outcome that cannot be stored at first is stored later, and the job is not attempted again', async () => {
      const tables = tablesOf(instance().database);
      // Sequences are not rolled back.
      await sql`create sequence outcomes`.execute(tables);
      await sql`create function refuse_outcome() returns trigger language plpgsql as
        'begin if nextval(''outcomes'') < 3 then raise exception ''refused''; end if; return new; end'`.execute(
        tables,
      );
      await sql`create trigger refuse_outcome before update on crm_jobs for each row
        when (new.state = 'completed') execute function refuse_outcome()`.execute(tables);
      try {
        const id = await startSweep('stored', async () => ({ stored: true }));
        assert.deepEqual((await finished(id)).result, { stored: true });
      } finally {
        await sql`drop trigger refuse_outcome on crm_jobs`.execute(tables);
        await sql`drop function refuse_outcome()`.execute(tables);
        await sql`drop sequence outcomes`.execute(tables);
      }
      assert.equal(attempts.length, 1);
    });

    test('a failure to look for jobs is logged once, until they can be read again', async () => {
      const tables = tablesOf(instance().database);
      // Sequences are not rolled back.
      await sql`create sequence refusals`.execute(tables);
      await sql`create function refuse_attempt() returns trigger language plpgsql as
        'begin perform nextval(''refusals''); raise exception ''refused''; end'`.execute(tables);
      const refusals = async () => {
        const { rows } = await sql<{
          count: string;
        }>`select case when is_called then last_value else 0 end as count
          from refusals`.execute(tables);
        return Number(rows[0]?.count);
      };
      /** Runs a job that cannot be started a number of times. */
      const refusing = async (times: number) => {
        const before = await refusals();
        await sql`create trigger refuse_attempt before update on crm_jobs for each row
          when (new.state = 'running') execute function refuse_attempt()`.execute(tables);
        const id = await startSweep('quick', async () => ({}));
        await until(async () => (await refusals()) >= before + times, 'the failures').finally(() =>
          sql`drop trigger refuse_attempt on crm_jobs`.execute(tables),
        );
        assert.equal((await finished(id)).state, 'completed');
      };
      const lines = await logged(async () => {
        await refusing(2);
        await refusing(1);
      }).finally(async () => {
        await sql`drop function refuse_attempt()`.execute(tables);
        await sql`drop sequence refusals`.execute(tables);
      });
      assert.equal(lines.filter(({ msg }) => msg === 'failed to read or store jobs; will retry').length, 2);
    });

    test('progress must consist of whole numbers', async () => {
      const id = await startSweep('progress', ({ progress }) => {
        const accepts = (done: number, total: number) => {
          try {
            progress(done, total);
            return true;
          } catch {
            return false;
          }
        };
        return {
          accepted: [accepts(0, 0), accepts(2 ** 53 - 1, 2 ** 53 - 1)],
          rejected: [accepts(0.5, 1), accepts(-1, 1), accepts(1, 2 ** 53), accepts(Number.NaN, 1)],
        };
      });
      const { result, progress } = await finished(id);
      assert.deepEqual(result, { accepted: [true, true], rejected: [false, false, false, false] });
      assert.deepEqual(progress, { done: 2 ** 53 - 1, total: 2 ** 53 - 1 });
    });

    test('a result that is too long fails the job', async () => {
      const id = await startSweep('long', () => ({ text: 'x'.repeat(maxResult) }));
      await until(async () => attempts.length > 0 && (await rowOf(id)).state !== 'running', 'the attempt');
      await update(id, 'attempts = 2, due_at = now()');
      const { state, error, result } = await finished(id);
      assert.deepEqual([state, result], ['failed', null]);
      assert.match(JSON.stringify(error), /its result is longer than 1048576/);
    });

    test('a call that a job does not await neither ends the process nor writes after the job', async () => {
      const id = await startSweep('forgetful', ({ records, transaction }) => {
        void records.create('projects', { name: 'late' });
        void records.find('nothing');
        void transaction((inner) => inner.create('projects', { name: 'later' }));
        return {};
      });
      assert.equal((await finished(id)).state, 'completed');
      // Another job of the organization is performed after these calls.
      assert.equal((await finished(await startSweep('next', () => ({})))).state, 'completed');
      assert.deepEqual(await projects(), []);
    });

    test('a job fails if its record was deleted while the job waited', async () => {
      const task = await createTask();
      const [block, reached] = [gate(), gate()];
      await startSweep('block', async () => {
        reached.resolve();
        await block.promise;
        return undefined;
      });
      await reached.promise;
      const { id } = await succeed(`POST tasks/${task}/actions/tidy`, {});
      await succeed(`DELETE tasks/${task}`);
      block.resolve();
      const { state, error } = await finished(Number(id));
      assert.deepEqual([state, (error as { readonly code: string }).code], ['failed', 'not_found']);
      assert.equal(attempts.length, 1, 'the action was not called');
    });

    test('a job of which a process died is attempted again after its lease, and the first attempt cannot write', async () => {
      const [stuck, reached] = [gate(), gate()];
      let late: unknown;
      const id = await startSweep('twice', async ({ attempt, records }) => {
        await records.create('projects', { name: `attempt ${attempt}` });
        if (attempt > 1) return { attempt };
        reached.resolve();
        await stuck.promise;
        late = await records.create('projects', { name: 'late' }).catch((cause: unknown) => cause);
        return { attempt };
      });
      await reached.promise;
      await until(async () => {
        // The first attempt can renew its lease before the job is claimed again.
        await update(id, `due_at = case attempts when 1 then now() - interval '1 second' else due_at end`);
        return attempts.length === 2;
      }, 'the second attempt');
      const { state, result } = await finished(id);
      assert.deepEqual([state, result], ['completed', { attempt: 2 }]);
      await until(() => attempts[0]?.signal.aborted === true, 'the first attempt to notice it');
      stuck.resolve();
      await until(() => late !== undefined, 'the first attempt');
      assert.ok(late instanceof Error, String(late));
      assert.deepEqual(await projects(), ['attempt 1', 'attempt 2']);
    });

    test('a job fails after its process died three times', async () => {
      const [block, reached] = [gate(), gate()];
      const id = await startSweep('die', async () => {
        reached.resolve();
        await block.promise;
        return undefined;
      });
      await reached.promise;
      await update(id, `attempts = 3, due_at = now() - interval '1 second'`);
      const { state, error } = await finished(id);
      assert.equal(state, 'failed');
      assert.match(JSON.stringify(error), /ended unexpectedly/);
      block.resolve();
    });

    test('a running job can be canceled: its signal is aborted, and its access to records ends', async () => {
      const reached = gate();
      let late: Promise<unknown> | undefined;
      const id = await startSweep('cancel', async ({ records, progress, signal }) => {
        await records.create('projects', { name: 'before' });
        progress(1, 2);
        reached.resolve();
        // On a busy machine, the limit has passed before the attempt starts.
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
        late = records.create('projects', { name: 'after' }).catch((cause: unknown) => cause);
        return { isIgnored: true };
      });
      await reached.promise;
      const { id: keyId, key } = await acme.makeKey();
      const answer = await send(`POST jobs/${id}/cancel`, undefined, key);
      assert.deepEqual([answer.status, answer.json.id], [200, id]);
      assert.equal(
        answer.json.finished_at === null,
        answer.json.state === 'running',
        'a job has not finished until its process has stopped it',
      );
      const { state, progress, result, error, finished_at: finishedAt } = await finished(id);
      assert.deepEqual([state, progress, result, error], ['cancelled', { done: 1, total: 2 }, null, null]);
      assert.ok(finishedAt);
      assert.ok((await late) instanceof Error);
      assert.deepEqual(await projects(), ['before']);
      // Canceling a finished job changes nothing.
      assert.equal((await succeed(`POST jobs/${id}/cancel`)).finished_at, finishedAt);
      const { rows } = await sql<{ entry: string }>`
        select concat_ws(' ', action, actor_kind, actor_id, request_id) as entry from crm_ledger
        where organization_id = ${acme.id}::bigint and object = 'job' and object_id = ${id}::bigint`.execute(
        tablesOf(instance().database),
      );
      assert.deepEqual(rows, [{ entry: `cancel key ${keyId} ${answer.headers.get('x-request-id')}` }]);
    });

    test('a job that was canceled before its process died is not performed again', async () => {
      const { rows } = await sql<{ id: string }>`
        insert into crm_jobs (organization_id, resource, action, input, caller_kind, request_id, state, attempts, cancel_requested)
        values (${acme.id}::bigint, 'projects', 'sweep', '{}', 'command', '', 'running', 1, true)
        returning id::text as id`.execute(tablesOf(instance().database));
      assert.equal((await finished(Number(rows[0]?.id))).state, 'cancelled');
      assert.deepEqual(attempts, []);
    });

    test('a job waits while the instance is read-only, and the attempt before does not count', async () => {
      const setReadOnly = async (isReadOnly: boolean) => {
        file.replace({ read_only: isReadOnly });
        await until(() => instance().app.isReadOnly?.() === isReadOnly, 'take the settings');
      };
      const id = await startSweep('wait', async ({ attempt, signal }) => {
        if (attempts.length === 1 && !signal.aborted)
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        return { attempt };
      });
      await until(() => attempts.length === 1, 'the attempt');
      await setReadOnly(true);
      try {
        await until(async () => (await jobOf(id)).state === 'queued', 'the job to wait');
      } finally {
        await setReadOnly(false);
      }
      assert.deepEqual((await finished(id)).result, { attempt: 1 });
      assert.equal(attempts.length, 2);
    });

    test('a running job ends when its input is erased, and is not performed again', async () => {
      let isStopped = false;
      const id = await startSweep('erased', async ({ signal }) => {
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
        isStopped = true;
        return {};
      });
      await until(() => attempts.length === 1, 'the attempt');
      await update(id, `input = ''`);
      await until(() => isStopped, 'the attempt to end');
      await update(id, 'due_at = now()');
      const { state, error } = await finished(id);
      assert.equal(state, 'failed');
      assert.match(JSON.stringify(error), /The input of the job was erased/);
      assert.equal(attempts.length, 1);
    });

    test('a process runs at most four jobs at a time, and starts the next one when a job ends', async () => {
      const gates = [gate(), gate(), gate(), gate(), gate()];
      modes.set('occupy', async () => {
        await gates[attempts.length - 1]?.promise;
        return {};
      });
      const jobs: { readonly id: number; readonly key: string }[] = [];
      for (const index of gates.keys()) {
        const { key } = await instance().organization(`busy-${count}-${index}`);
        const { id } = await succeed('POST projects/actions/sweep', { mode: 'occupy' }, key);
        jobs.push({ id: Number(id), key });
      }
      try {
        await until(() => attempts.length === 4, 'four attempts');
        // Leases are renewed as often as the process looks for jobs.
        const leaseOf = async () => String((await rowOf(jobs[0]?.id)).due_at.getTime());
        const lease = await leaseOf();
        await until(async () => (await leaseOf()) !== lease, 'the renewal of a lease');
        assert.deepEqual([attempts.length, (await rowOf(jobs[4]?.id)).state], [4, 'queued']);
        gates[0]?.resolve();
        await until(() => attempts.length === 5, 'the fifth attempt');
      } finally {
        for (const { resolve } of gates) resolve();
      }
      for (const { id, key } of jobs) assert.equal((await finished(id, key)).state, 'completed');
    });

    test('an organization runs one job at a time, and at most 10 wait', async () => {
      const [block, reached] = [gate(), gate()];
      const first = await startSweep('block', async () => {
        reached.resolve();
        await block.promise;
        return undefined;
      });
      await reached.promise;
      modes.set('quick', async () => ({}));
      const key = { 'idempotency-key': 'first-waiting' };
      const waiting = [await succeed('POST projects/actions/sweep', { mode: 'quick' }, acme.key, key)];
      while (waiting.length < 10)
        waiting.push(await succeed('POST projects/actions/sweep', { mode: 'quick' }));
      const rejected = await send('POST projects/actions/sweep', { mode: 'quick' });
      assert.deepEqual([rejected.status, errorOf(rejected).code], [429, 'too_many_jobs']);
      assert.equal(rejected.headers.get('retry-after'), '30');
      const repeated = await send('POST projects/actions/sweep', { mode: 'quick' }, acme.key, key);
      assert.deepEqual([repeated.status, repeated.json.id], [202, waiting[0]?.id]);
      // Other organizations do not wait.
      const other = await instance().organization(`other-${count}`);
      const free = await startSweep('free', async () => ({}), other.key);
      assert.equal((await finished(free, other.key)).state, 'completed');
      assert.equal(attempts.length, 2);
      const [last] = waiting.slice(-1);
      const cancelled = await succeed(`POST jobs/${last?.id}/cancel`);
      assert.deepEqual([cancelled.state, typeof cancelled.finished_at], ['cancelled', 'string']);
      assert.equal((await rowOf(last?.id)).input, '');
      block.resolve();
      assert.equal((await finished(first)).state, 'completed');
      for (const { id } of waiting.slice(0, -1))
        assert.equal((await finished(Number(id))).state, 'completed');
      const started = attempts.slice(2).map(({ jobId }) => Number(jobId));
      assert.deepEqual(
        started,
        waiting.slice(0, -1).map(({ id }) => id),
        'in the order of the requests',
      );
    });

    // The embedded database runs one transaction at a time.
    const whereSeveralConnect = driver === 'embedded' ? () => {} : test;
    whereSeveralConnect('jobs that are queued at the same time count toward the limit', async () => {
      modes.set('late', async () => ({}));
      const late = await whileUncommitted(
        instance(),
        [
          `select pg_advisory_xact_lock(hashtextextended('${JSON.stringify(['jobs', acme.id])}', 0))`,
          `insert into crm_jobs (organization_id, resource, action, input, caller_kind, request_id, due_at)
           select ${acme.id}, 'projects', 'sweep', '{"mode":"late"}', 'key', '', now() + interval '1 day' from generate_series(1, 10)`,
        ],
        () => send('POST projects/actions/sweep', { mode: 'late' }),
      );
      assert.deepEqual([late.status, errorOf(late).code], [429, 'too_many_jobs']);
    });

    test('a job that takes longer than its limit fails, and its access to records ends', async () => {
      let late: Promise<unknown> | undefined;
      let reported: object | null = null;
      modes.set('undefined', async ({ records, progress, signal }) => {
        // On a busy machine, the limit has passed before the attempt starts.
        if (!signal.aborted) {
          reported = { done: 1, total: 3 };
          progress(1, 3);
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        }
        late = records.create('projects', { name: 'late' }).catch((cause: unknown) => cause);
        return undefined;
      });
      const { id } = await succeed('POST projects/actions/hurry');
      const { state, progress, error } = await finished(Number(id));
      assert.deepEqual([state, progress], ['failed', reported]);
      assert.match(
        JSON.stringify(error),
        /The module chores failed in the action hurry of projects: it took longer than 0\.001 minutes/,
      );
      await until(() => late !== undefined, 'the attempt to continue');
      assert.ok((await late) instanceof Error);
      assert.deepEqual(await projects(), []);
      assert.equal(attempts.length, 1);
    });

    const [leapDay, nextLeapDay, pastLeapDay] = [2028, 2032, 2024].map(
      (year) => new Date(`${year}-02-29T01:30:00Z`),
    ) as [Date, Date, Date];
    const later = (date: Date, seconds: number) => new Date(date.getTime() + seconds * 1000);
    /** Returns the jobs of the scheduled action, including those that were started manually. */
    const scheduledJobs = async () => {
      const rows = await tablesOf(instance().database)
        .selectFrom('crm_jobs')
        .select(['id', 'scheduled_for'])
        .where('organization_id', '=', acme.id)
        .where('resource', '=', 'projects')
        .where('action', '=', 'leap')
        .orderBy('id')
        .execute();
      return rows.map((row) => ({ id: Number(row.id), at: row.scheduled_for?.toISOString() }));
    };
    /** Inserts scheduled jobs of another action, and of an action of another resource, which are independent. */
    const insertOthers = (time: Date) =>
      sql`insert into crm_jobs (organization_id, resource, action, input, state, caller_kind, request_id, scheduled_for)
        select ${acme.id}::bigint, resource, action, '', 'completed', 'command', '', ${time}::timestamptz
        from (values ('projects', 'sweep'), ('tasks', 'leap')) v (resource, action)`.execute(
        tablesOf(instance().database),
      );
    /** Starts the scheduler of a process at a time. @returns a function that looks for due jobs at a time */
    const startScheduler = (startedAt: Date) => {
      const queue = scheduler(jobActions(instance().resources), startedAt);
      return (time: Date) => queue(tablesOf(instance().database), time);
    };

    test('a scheduled job is queued once per organization at its time, and runs without limits', async () => {
      modes.set('undefined', async ({ caller, records }) => {
        const project = await records.create('projects', { name: 'at night', open_tasks: 3n });
        return { kind: caller.kind, project: project.id };
      });
      await insertOthers(nextLeapDay);
      await insertOthers(leapDay);
      const before = later(leapDay, -3600);
      const processes = [startScheduler(before), startScheduler(before)];
      await Promise.all(processes.map((check) => check(later(leapDay, -1))));
      assert.deepEqual(await scheduledJobs(), []);
      for (const seconds of [1, 2, 3600])
        await Promise.all(processes.map((check) => check(later(leapDay, seconds))));
      const [job, ...others] = await scheduledJobs();
      assert.deepEqual([job?.at, others], [leapDay.toISOString(), []]);
      const { state, result } = await finished(Number(job?.id));
      assert.equal(state, 'completed');
      const { kind, project } = result as { readonly kind: string; readonly project: number };
      assert.equal(kind, 'command');
      const { data } = (await succeed(`GET projects/${project}/history`)) as {
        readonly data: readonly { readonly actor: unknown }[];
      };
      assert.deepEqual(data[0]?.actor, {
        ...{ kind: 'command', id: null, name: 'schedule of leap (chores)' },
      });
    });

    test('a schedule without a time zone is in UTC, whatever the time zone of the machine', async () => {
      modes.set('undefined', async () => ({}));
      const action = { name: 'leap', schedule: '30 2 29 2 *' };
      const due = later(leapDay, 3600);
      for (const zone of ['Pacific/Kiritimati', 'Pacific/Pago_Pago'])
        assert.match(inTimeZone(zone, () => nextRun(action))?.toISOString() ?? '', /-02-29T02:30:00\.000Z$/);
      const queue = scheduler([{ resource: { name: 'projects' }, action }], later(due, -60));
      const check = (time: Date) =>
        inTimeZone('Pacific/Kiritimati', () => queue(tablesOf(instance().database), time));
      await check(later(due, -1));
      assert.deepEqual(await scheduledJobs(), []);
      await check(later(due, 1));
      const [job, ...others] = await scheduledJobs();
      assert.deepEqual([job?.at, others], [due.toISOString(), []]);
      assert.equal((await finished(Number(job?.id))).state, 'completed');
    });

    test('a missed time is made up for only if the job had a schedule before', async () => {
      modes.set('undefined', async () => ({}));
      await insertOthers(pastLeapDay);
      const manual = await succeed('POST projects/actions/leap');
      await finished(Number(manual.id));
      const dueJobs = async () => (await scheduledJobs()).filter(({ id }) => id !== manual.id);
      const check = startScheduler(later(leapDay, 60));
      await check(later(leapDay, 120));
      assert.deepEqual(await dueJobs(), [], 'the action is new, unlike others with a schedule');
      await startScheduler(later(pastLeapDay, -60))(later(pastLeapDay, 60));
      assert.deepEqual(await dueJobs(), [], 'the organization did not exist');
      await startScheduler(later(leapDay, -60))(later(leapDay, 60));
      const [first] = await dueJobs();
      await finished(Number(first?.id));
      // A process that starts a week later is too late.
      const week = 7 * 86_400;
      await startScheduler(later(nextLeapDay, week))(later(nextLeapDay, week));
      assert.equal((await dueJobs()).length, 1);
      await startScheduler(later(nextLeapDay, week - 1))(later(nextLeapDay, week - 1));
      assert.deepEqual(
        (await dueJobs()).map(({ at }) => at),
        [leapDay.toISOString(), nextLeapDay.toISOString()],
      );
    });

    test('a scheduled job that still waits is not queued again', async () => {
      const [block, reached] = [gate(), gate()];
      modes.set('undefined', async () => ({}));
      await startSweep('block', async () => {
        reached.resolve();
        await block.promise;
        return undefined;
      });
      await reached.promise;
      const check = startScheduler(later(leapDay, -60));
      await check(later(leapDay, 60));
      await check(later(nextLeapDay, 60));
      const [job, ...others] = await scheduledJobs();
      assert.deepEqual(others, []);
      block.resolve();
      assert.equal((await finished(Number(job?.id))).state, 'completed');
    });

    test('a job that was started manually does not replace the scheduled one', async () => {
      const [block, reached] = [gate(), gate()];
      modes.set('undefined', async () => ({}));
      await startSweep('block', async () => {
        reached.resolve();
        await block.promise;
        return undefined;
      });
      await reached.promise;
      const { id } = await succeed('POST projects/actions/leap');
      await startScheduler(later(leapDay, -60))(later(leapDay, 60));
      const [own, scheduled] = await scheduledJobs();
      assert.deepEqual([own?.id, own?.at, scheduled?.at], [id, undefined, leapDay.toISOString()]);
      block.resolve();
      assert.equal((await finished(Number(scheduled?.id))).state, 'completed');
    });

    test('failed and waiting jobs are reported to operators', async () => {
      const database = instance().database;
      const findings = async () =>
        (await jobCheck.run({ database })).filter(({ location }) => location.endsWith(` ${acme.slug}`));
      const counts = async () => {
        const values: Record<string, number> = {};
        await jobMetrics(database).read((name, value, labels) => {
          values[`${name} ${labels?.state}`] = value;
        });
        return values;
      };
      const before = await counts();
      const [block, reached] = [gate(), gate()];
      const failed = await startSweep('fail', () => {
        throw new Rejection('no');
      });
      await finished(failed);
      await startSweep('block', async () => {
        reached.resolve();
        await block.promise;
        return undefined;
      });
      await reached.promise;
      const waiting = await startSweep('wait', async () => ({}));
      await update(waiting, `due_at = now() - interval '61 minutes'`);
      assert.deepEqual(await counts(), {
        'crm_jobs queued': Number(before['crm_jobs queued']) + 1,
        'crm_jobs running': Number(before['crm_jobs running']) + 1,
        'crm_jobs failed': Number(before['crm_jobs failed']) + 1,
      });
      assert.deepEqual((await findings()).map(({ location, message }) => `${location}: ${message}`).sort(), [
        `action sweep of projects, organization ${acme.slug}: jobs that failed during the last day: 1`,
        `action sweep of projects, organization ${acme.slug}: jobs that have been waiting for more than 60 minutes: 1`,
      ]);
      await update(failed, `finished_at = now() - interval '25 hours', due_at = now() - interval '2 hours'`);
      await update(waiting, `due_at = now() - interval '59 minutes'`);
      assert.deepEqual(await findings(), []);
      block.resolve();
      await finished(waiting);
    });

    test('a job is deleted a week after its end, however long it took', async () => {
      const id = await startSweep('quick', async () => ({ swept: 1 }));
      await finished(id);
      const statusAfter = async (assignments: string) => {
        await update(id, assignments);
        await jobsRetention(tablesOf(instance().database));
        return (await send(`GET jobs/${id}`)).status;
      };
      const ended = (days: number) => `finished_at = now() - interval '${days} days'`;
      assert.equal(await statusAfter(`created_at = now() - interval '20 days', ${ended(6)}`), 200);
      assert.equal(await statusAfter(ended(8)), 404);
    });

    describe('the queue', () => {
      const tables = () => tablesOf(instance().database);
      const typesOf = (name: string) => [{ resource: { name: 'projects' }, name }];
      const claim = () => claimJob(tables(), typesOf(`unknown-${count}`));
      /** Queues a job that has been due for a while. The instance does not have its action, so only the test claims it. */
      const queue = async (age: string, { id } = acme) => {
        const { rows } = await sql<{ id: string }>`
          insert into crm_jobs (organization_id, resource, action, input, caller_kind, request_id, due_at)
          values (${id}::bigint, 'projects', ${`unknown-${count}`}, '{}', 'command', '', now() - ${age}::text::interval)
          returning id::text as id`.execute(tables());
        return rows[0]?.id ?? assert.fail();
      };

      test('returns the job that has been due for the longest time, one of each organization', async () => {
        const other = await instance().organization(`other-${count}`);
        const [later, earlier] = [await queue('1 minute'), await queue('2 minutes')];
        await queue('-1 hour');
        const foreign = await queue('1 second', other);
        const first = (await claim()) ?? assert.fail();
        assert.deepEqual([first.id, first.attempts], [earlier, 1]);
        assert.equal((await claim())?.id, foreign);
        assert.equal(await claim(), undefined);
        await finishJob(tables(), first, { state: 'completed' });
        assert.equal((await claim())?.id, later);
        assert.equal(await claim(), undefined);
      });

      test('returns the job that was queued first if two have been due for the same time', async () => {
        const ids = [await queue('1 minute'), await queue('1 minute')];
        const due = new Date(Date.now() - 60_000).toISOString();
        // The row of the first job is stored behind the other one.
        for (const id of ids.toReversed()) await update(Number(id), `due_at = timestamptz '${due}'`);
        assert.equal((await claim())?.id, ids[0]);
      });

      if (driver === 'postgresql')
        test('starts one job of an organization if two processes look for jobs at the same time', async () => {
          const [first] = [await queue('2 minutes'), await queue('1 minute')];
          let claimed: ReturnType<typeof claim> | undefined;
          await transaction(instance().database, async (other) => {
            await sql`update crm_jobs set state = 'running' where id = ${first}::bigint`.execute(other);
            claimed = claim();
            await until(async () => {
              const { rows } = await sql`select from pg_stat_activity
                where wait_event_type = 'Lock' and datname = current_database()`.execute(tables());
              return rows.length > 0;
            }, 'the other process to wait');
          });
          assert.equal(await claimed, undefined);
        });

      test('ignores an attempt that another one has replaced', async () => {
        const id = await queue('1 minute');
        const first = (await claim()) ?? assert.fail();
        assert.deepEqual(await renewLease(tables(), first, { done: 1, total: 2 }), { isCancelled: false });
        assert.equal(await claim(), undefined, 'its lease has been renewed');
        await update(Number(id), `due_at = now()`);
        const second = (await claim()) ?? assert.fail();
        assert.deepEqual([second.id, second.attempts, second.progress], [id, 2, { done: 1, total: 2 }]);
        const { done, total } = await rowOf(id);
        assert.deepEqual([done, total], [null, null], 'the new attempt has no progress yet');
        assert.equal(await renewLease(tables(), first, undefined), undefined);
        await finishJob(tables(), first, { state: 'completed' });
        await requeueJob(tables(), first, { pauseSeconds: 0, isCounted: true });
        const { state, attempts: number } = await rowOf(id);
        assert.deepEqual([state, number], ['running', 2]);
      });

      test('returns a job again after its pause, and counts only failed attempts', async () => {
        const id = await queue('1 minute');
        const numbers: (number | undefined)[] = [];
        for (const isCounted of [false, true, true]) {
          const attempt = (await claim()) ?? assert.fail();
          numbers.push(attempt.attempts);
          await requeueJob(tables(), attempt, { pauseSeconds: 3600, isCounted });
          assert.equal(await claim(), undefined, 'the pause has not ended');
          await update(Number(id), 'due_at = now()');
        }
        assert.deepEqual(numbers, [1, 1, 2]);
      });

      test('fails a job whose action the instance does not have, but only after an hour', async () => {
        const id = await queue('50 minutes');
        assert.equal(await claimJob(tables(), typesOf('other')), undefined);
        const elsewhere = [{ resource: { name: 'tasks' }, name: `unknown-${count}` }];
        assert.equal(await claimJob(tables(), elsewhere), undefined, 'of another resource');
        await update(Number(id), `due_at = now() - interval '61 minutes'`);
        await until(async () => (await rowOf(id)).state === 'failed', 'the job to fail');
        assert.match(
          (await rowOf(id)).error,
          new RegExp(`The instance no longer has the action unknown-${count} of projects`),
        );
      });

      test('deletes jobs that have waited for a week, but none that is running', async () => {
        const ids = [await queue('-1 day'), await queue('-1 day'), await queue('-1 day')];
        const [old, recent, running] = ids.map(Number) as [number, number, number];
        await update(old, `created_at = now() - interval '8 days'`);
        await update(recent, `created_at = now() - interval '6 days'`);
        await update(running, `created_at = now() - interval '8 days', state = 'running'`);
        await jobsRetention(tables());
        const jobs = tables().selectFrom('crm_jobs').select('id').where('id', 'in', ids).orderBy('id');
        assert.deepEqual(
          (await jobs.execute()).map(({ id }) => Number(id)),
          [recent, running],
        );
      });
    });

    test('an idempotency key starts a job once', async () => {
      modes.set('once', async () => ({}));
      const headers = { 'idempotency-key': 'once' };
      const first = await send('POST projects/actions/sweep', { mode: 'once' }, acme.key, headers);
      await finished(Number(first.json.id));
      const second = await send('POST projects/actions/sweep', { mode: 'once' }, acme.key, headers);
      assert.deepEqual(
        [second.status, second.text, second.headers.get('location')],
        [202, first.text, first.headers.get('location')],
      );
      assert.equal(second.headers.get('idempotency-replayed'), 'true');
      const other = await send('POST projects/actions/sweep', { mode: 'other' }, acme.key, headers);
      assert.equal(other.status, 422);
      assert.equal(attempts.length, 1);
    });

    test('a job has the current grants of its caller', async () => {
      const writer = await acme.keyWith([
        { object: 'projects', actions: ['create', 'read', 'list'] },
        { object: 'tasks', actions: ['read', 'list'] },
      ]);
      const isRevoked = gate();
      const forbidden = await startSweep(
        'grants',
        async ({ records }) => {
          const reason = await records
            .create('tasks', { title: 'no' })
            .catch((cause: unknown) => (cause as { readonly code?: string }).code);
          await records.create('projects', { name: 'yes' });
          await isRevoked.promise;
          // Grants are cached for at most a second.
          for (;;) await records.find('projects').then(() => assert.equal(reason, 'forbidden'));
        },
        writer,
      );
      await until(async () => (await projects()).length === 1, 'the first write');
      await sql`delete from crm_grants where organization_id = ${acme.id}::bigint and object = 'projects' and action = 'create'
        and profile_id in (select profile_id from crm_api_keys where name <> 'x' and organization_id = ${acme.id}::bigint)`.execute(
        tablesOf(instance().database),
      );
      isRevoked.resolve();
      const job = await finished(forbidden);
      assert.equal(job.state, 'failed');
      assert.deepEqual((job.error as { readonly grant: string }).grant, 'projects:create');
    });

    const startedByKey = async () => {
      const { id, key } = await acme.makeKey();
      return { key, where: sql`where organization_id = ${acme.id}::bigint and id = ${id}::bigint` };
    };
    const startedByMember = async () => {
      const person = await makePerson(instance(), [{ organization: acme }], { verified: true });
      const { token } = await logIn(instance(), person);
      return { key: token, where: sql`where id = ${person.id}::bigint`, person };
    };
    const endings = {
      'its key is revoked': async () => {
        const { key, where } = await startedByKey();
        return { key, end: sql`update crm_api_keys set revoked_at = now() ${where}` };
      },
      'its key expires': async () => {
        const { key, where } = await startedByKey();
        return { key, end: sql`update crm_api_keys set expires_at = now() ${where}` };
      },
      'its member is disabled': async () => {
        const { key, where } = await startedByMember();
        return { key, end: sql`update crm_users set disabled_at = now() ${where}` };
      },
      'its member leaves the organization': async () => {
        const { key, person } = await startedByMember();
        return {
          key,
          end: sql`delete from crm_memberships where organization_id = ${acme.id}::bigint and user_id = ${person.id}::bigint`,
        };
      },
    };
    for (const [event, prepare] of Object.entries(endings)) {
      test(`a job ends when ${event}`, async () => {
        const { key, end } = await prepare();
        const reached = gate();
        const id = await startSweep(
          'ended',
          async ({ records }) => {
            // Much longer than callers are cached.
            for (let reads = 0; reads < 2000; reads++) {
              await records.find('projects');
              reached.resolve();
              await pause(5);
            }
          },
          key,
        );
        await reached.promise;
        await end.execute(tablesOf(instance().database));
        const { state, error } = await finished(id);
        assert.equal(state, 'failed');
        assert.match(JSON.stringify(error), /unauthenticated/);
      });
    }

    test('only callers who could perform the action see a job, and only its caller and administrators see the result', async () => {
      const id = await createTask();
      modes.set('secret', async () => ({ secret: 'of the caller' }));
      const start = async (key: string) =>
        Number((await succeed(`POST tasks/${id}/actions/tidy`, { mode: 'secret' }, key)).id);
      const caller = await acme.keyWith([{ object: 'tasks', actions: ['read', 'update'] }]);
      const job = await start(caller);
      assert.deepEqual((await finished(job, caller)).result, { secret: 'of the caller' });
      assert.deepEqual((await jobOf(job)).result, { secret: 'of the caller' });
      const colleague = await acme.keyWith([{ object: 'tasks', actions: ['read', 'update'] }]);
      const seen = await jobOf(job, colleague);
      assert.deepEqual([seen.state, seen.result], ['completed', null]);
      modes.set('refuse', () => {
        throw new Rejection('a reason for the caller');
      });
      const refused = Number((await succeed(`POST tasks/${id}/actions/tidy`, { mode: 'refuse' }, caller)).id);
      assert.match(JSON.stringify((await finished(refused, caller)).error), /a reason for the caller/);
      assert.match(JSON.stringify((await jobOf(refused)).error), /a reason for the caller/);
      const { state, error } = await jobOf(refused, colleague);
      assert.deepEqual([state, error], ['failed', null]);
      await createProfile(tablesOf(instance().database), command(instance()), acme.id, 'Own tasks', [
        { object: 'tasks', actions: ['read:own', 'update:own'] },
      ]);
      const { key: owner } = await acme.makeKey({ profile: 'Own tasks', onBehalfOf: acme.user });
      assert.deepEqual((await jobOf(job, owner)).result, null);
      // Limits on records do not hide the jobs of the collection.
      const tally = Number((await succeed('POST tasks/actions/tally', { mode: 'secret' })).id);
      await finished(tally);
      const limited = await acme.keyWith([{ object: 'tasks', actions: ['read:own', 'create:own'] }]);
      const counted = await jobOf(tally, limited);
      assert.deepEqual([counted.state, counted.result], ['completed', null]);
      // A deleted record hides its jobs only from callers whose grants are limited.
      const deleted = await createTask();
      const ofDeleted = await succeed(`POST tasks/${deleted}/actions/tidy`, { mode: 'secret' });
      await finished(Number(ofDeleted.id));
      await succeed(`DELETE tasks/${deleted}`);
      assert.equal((await jobOf(Number(ofDeleted.id), colleague)).state, 'completed');
      assert.equal((await send(`GET jobs/${ofDeleted.id}`, undefined, owner)).status, 404);
      // An action with a grant of its own is limited to the records that the caller can read.
      const polish = Number((await succeed(`POST tasks/${id}/actions/polish`, { mode: 'secret' })).id);
      await finished(polish);
      for (const [actions, status] of [
        [['read', 'polish'], 200],
        [['read:own', 'polish'], 404],
        [['read', 'update'], 404],
      ] as const) {
        const key = await acme.keyWith([{ object: 'tasks', actions }]);
        const answer = await send(`GET jobs/${polish}`, undefined, key);
        assert.equal(answer.status, status, actions.join());
        if (status === 200) assert.equal(answer.json.result, null);
      }
      const other = await instance().organization(`other-${count}`);
      for (const key of [
        await acme.keyWith([{ object: 'tasks', actions: ['read'] }]),
        await acme.keyWith([{ object: 'tasks', actions: ['read:own', 'update:own'] }]),
        await acme.keyWith([{ object: 'tasks', actions: ['read', 'update:own'] }]),
        await acme.keyWith([{ object: 'tasks', actions: ['update:own'] }]),
        await acme.keyWith([{ object: 'projects', actions: ['read', 'update'] }]),
        other.key,
      ])
        for (const request of [`GET jobs/${job}`, `POST jobs/${job}/cancel`]) {
          const answer = await send(request, undefined, key);
          assert.deepEqual([answer.status, errorOf(answer).code], [404, 'not_found']);
        }
      for (const [request, allowed] of [
        [`DELETE jobs/${job}`, 'GET, HEAD, OPTIONS'],
        [`PUT jobs/${job}/cancel`, 'POST, OPTIONS'],
      ] as const) {
        const answer = await send(request);
        assert.deepEqual([answer.status, answer.headers.get('allow')], [405, allowed]);
      }
      for (const missing of ['999999', 'x', '99999999999999999999'])
        assert.equal((await send(`GET jobs/${missing}`)).status, 404);
      assert.equal((await instance().call(`GET /api/v1/jobs/${job}`)).status, 401);
      // A user with the ID of the key did not start it.
      await update(job, `caller_kind = 'user'`);
      assert.equal((await jobOf(job, caller)).result, null);
      await update(job, `caller_kind = 'key'`);
      // Its caller no longer sees the result without the grant for the action.
      await sql`delete from crm_grants where organization_id = ${acme.id}::bigint and object = 'tasks' and action = 'update'`.execute(
        tablesOf(instance().database),
      );
      await until(async () => (await jobOf(job, caller)).result === null, 'the new grants');
      assert.equal((await jobOf(job, caller)).state, 'completed');
    });

    test('an erasure clears the results in which a person appears, and the jobs of erased records', async () => {
      const erased = await createTask({ title: 'Zebulon Quartermain' });
      modes.set('names', async () => ({ name: 'Zebulon Quartermain' }));
      const tidy = Number((await succeed(`POST tasks/${erased}/actions/tidy`, { mode: 'names' })).id);
      await finished(tidy);
      const sweep = await startSweep('names', async () => ({ name: 'Zebulon Quartermain' }));
      assert.deepEqual((await finished(sweep)).result, { name: 'Zebulon Quartermain' });
      const rejected = await startSweep('reject', () => {
        throw new Rejection('Zebulon Quartermain cannot be swept');
      });
      assert.match(JSON.stringify((await finished(rejected)).error), /Zebulon Quartermain/);
      const [block, reached] = [gate(), gate()];
      const running = await startSweep('Zebulon Quartermain', async () => {
        reached.resolve();
        await block.promise;
        return { name: 'Zebulon Quartermain' };
      });
      await reached.promise;
      const { database, resources } = instance();
      const erasure = createErasure(resources);
      const tables = tablesOf(database);
      const request = {
        organization: acme.id,
        records: [`tasks?title=Zebulon Quartermain`],
        texts: ['Zebulon Quartermain'],
      };
      const found = await erasure.find({ run: async (query) => (await query.execute(tables)).rows }, request);
      const actor = { kind: 'command', id: null, name: null, requestId: null, audited: true } as const;
      await transaction(database, async (within) => {
        await erasure.erase(within, actor, request, found);
        block.resolve();
      });
      assert.equal((await send(`GET jobs/${tidy}`)).status, 404);
      const cleared = await jobOf(sweep);
      assert.deepEqual([cleared.state, cleared.result], ['completed', null]);
      const { state: kept, error: erasedError } = await jobOf(rejected);
      assert.deepEqual([kept, erasedError], ['failed', null]);
      assert.equal((await finished(running)).result, null);

      // The same applies to the error of a job that runs during the erasure.
      const again = await createTask({ title: 'Zebulon Quartermain' });
      const [failing, started] = [gate(), gate()];
      const failed = await startSweep('Zebulon Quartermain', async () => {
        started.resolve();
        await failing.promise;
        throw new Rejection('Zebulon Quartermain cannot be swept');
      });
      await started.promise;
      const more = await erasure.find({ run: async (query) => (await query.execute(tables)).rows }, request);
      // In a transaction, like an erasure of the service, so that the job's heartbeat does not see a part of it.
      await transaction(database, async (within) => {
        await erasure.erase(within, actor, request, more);
        failing.resolve();
      });
      assert.equal((await send(`GET tasks/${again}`)).status, 404);
      const { state, error } = await finished(failed);
      assert.deepEqual([state, error], ['failed', null]);
    });

    test('jobs are described', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const paths = json.paths as Readonly<
        Record<string, { readonly post?: { readonly responses: Readonly<Record<string, object>> } }>
      >;
      const { responses = {} } = paths['/api/v1/tasks/{id}/actions/tidy']?.post ?? {};
      assert.deepEqual(
        ['200', '202', '429'].map((status) => status in responses),
        [false, true, true],
      );
      const limits = instance().app.jobs.types.map(({ name, maxMinutes }) => [name, maxMinutes]);
      assert.deepEqual(Object.fromEntries(limits.filter(([name]) => !String(name).startsWith(':'))), {
        ...{ tidy: 60, polish: 60, tally: 60, sweep: 60, hurry: 0.001, leap: 60 },
      });
      assert.ok(paths['/api/v1/jobs/{id}']);
      assert.ok(paths['/api/v1/jobs/{id}/cancel']);
    });
  },
  { sources: await sourcesWith(...hookedSources, labels), modules, environment: file.environment },
);
