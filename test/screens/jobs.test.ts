// Jobs in the admin UI: the form of the action leads to a page that shows the progress, without JavaScript.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { type JobAction, Rejection } from '../../engine/records/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { administratorOf, formsOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { hookedSources } from '../support/hooked.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedPerson } from '../support/limited.ts';
import { settingsFile } from '../support/partners.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const file = settingsFile({});
const tasks = '/setup/o/acme/data/tasks';
const run: JobAction['run'] = async ({ input, progress, signal }) => {
  progress(1200, 5000);
  if (input.how === 'fail') throw new Rejection('The task is too hard');
  if (input.how === 'wait' && !signal.aborted)
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  progress(5000, 5000);
  return { message: 'All clean', rooms: 3 };
};
const input = { type: 'object', properties: { how: { type: 'string' } } };

onBothDrivers(
  'jobs in the admin UI',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    let form: string;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
      const { json } = await instance().call('POST /api/v1/tasks', {
        key: acme.key,
        body: { title: 'Paint' },
      });
      form = `${tasks}/${json.id}/actions/clean`;
    });
    /** Submits the form of the action. @returns the path of the job's page */
    const start = async (how: string): Promise<string> => {
      const answer = await admin.submit(form, form, { 'input.how': how });
      assert.equal(answer.status, 303, problemOf(answer));
      const location = answer.headers.get('location') ?? '';
      assert.match(location, new RegExp(`^${tasks}/jobs/\\d+$`));
      return location;
    };
    const shows = (path: string, text: RegExp) =>
      until(async () => text.test(readable((await admin.get(path)).text)), String(text));

    test('the page shows the progress, refreshes itself, and cancels the job', async () => {
      const path = await start('wait');
      await shows(path, /1,200 of 5,000/);
      const page = await admin.get(path);
      assert.equal(page.headers.get('refresh'), '2');
      assert.match(page.text, /<meta name="turbo-visit-control" content="reload">/, 'also after a link');
      assert.match(readable(page.text), /<h1>Clean<\/h1>/);
      assert.match(readable(page.text), /Running/);
      const button = formsOf(page).find(({ action }) => action === `${path}/cancel`) ?? assert.fail();
      const canceled = await admin.post(button.action, button.values);
      assert.equal(canceled.status, 303);
      assert.match(
        (await admin.get(`${path}?done=job-canceled`)).text,
        /<strong>Clean<\/strong> will be canceled\./,
      );
      await shows(path, /Canceled/);
      const after = await admin.get(path);
      assert.equal(after.headers.get('refresh'), null);
      assert.ok(!formsOf(after).some(({ action }) => action.endsWith('/cancel')));
    });

    test('the page shows the result, or why the job failed', async () => {
      const path = await start('work');
      await shows(path, /Completed/);
      const page = readable((await admin.get(path)).text);
      assert.match(page, /5,000 of 5,000/);
      assert.equal(problemOf(await admin.get(path)), '');
      assert.match(page, /Message[\s\S]*All clean[\s\S]*Rooms[\s\S]*3/);
      assert.equal((await admin.get(`${path}/errors.csv`)).status, 404, 'it is not an import');
      const failed = await start('fail');
      await shows(failed, /Failed/);
      assert.match(problemOf(await admin.get(failed)), /The task is too hard/);
    });

    test('administrators see all jobs of the organization', async () => {
      const path = await start('fail');
      await shows(path, /Failed/);
      const page = await admin.get('/setup/o/acme/jobs?show=failed');
      assert.equal(page.status, 200);
      assert.match(page.text, new RegExp(`href="${path}"`));
      assert.match(readable(page.text), /Clean[\s\S]*Tasks[\s\S]*Failed[\s\S]*1,200 of 5,000/);
      assert.match(readable(page.text), new RegExp(administratorOf(acme).email));
      assert.doesNotMatch(readable(page.text), /Completed|Canceled/);
      assert.match(page.text, /<span class="badge state bad">Failed</);
      const german = await admin.get(path, { 'accept-language': 'de' });
      assert.match(readable(german.text), /1\.200 von 5\.000/);
    });

    test('the list shows who started a job, or that it is scheduled', async () => {
      const own = await instance().organization('starters');
      const visitor = await signIn(instance(), administratorOf(own));
      const empty = async (language: string) =>
        readable((await visitor.get('/setup/o/starters/jobs', { 'accept-language': language })).text);
      assert.match(await empty('en'), /imports that run in the background\. They appear here for 7 days\./);
      assert.match(await empty('de'), /Sie erscheinen hier 7 Tage lang\./);
      const add = (action: string, kind: string, id: string | null, isScheduled: boolean) =>
        sql`insert into crm_jobs (organization_id, resource, action, input, state, caller_kind, caller_id, request_id, scheduled_for)
          values (${own.id}::bigint, 'tasks', ${action}, '', 'completed', ${kind}, ${id}::bigint, '', case when ${isScheduled}::boolean then now() end)`.execute(
          tablesOf(instance().database),
        );
      const { id: key } = await own.makeKey({ profile: 'read-only' });
      await add('by-schedule', 'command', null, true);
      await add('by-user', 'user', own.user, false);
      await add('by-key', 'key', key, false);
      await add('by-nobody', 'user', '999999', false);
      await add('by-another-key', 'key', own.user, false);
      await add('by-command', 'command', key, false);
      const { text } = await visitor.get('/setup/o/starters/jobs');
      const starters = [...text.matchAll(/<tr>[\s\S]*?<\/tr>/g)].map(([row]) =>
        ['Schedule', administratorOf(own).email, 'read-only'].filter((starter) => row.includes(starter)),
      );
      assert.deepEqual(
        starters.filter((row, index) => index > 0 || row.length > 0),
        [[], [], [], ['read-only'], [administratorOf(own).email], ['Schedule']],
      );
      assert.doesNotMatch(text, /href="[^"]*\/data\/tasks\/jobs/, 'the instance does not have the actions');
      const actionsIn = async (query: string) =>
        [...(await visitor.get(`/setup/o/starters/jobs?${query}`)).text.matchAll(/>By ([\w ]+)</g)].map(
          ([, name]) => name,
        );
      assert.deepEqual(await actionsIn('q=by-user'), ['user']);
      assert.deepEqual(await actionsIn('q=tasks by-n'), ['nobody']);
      assert.deepEqual(await actionsIn('show=unfinished'), []);
      await sql`update crm_jobs set state = case action when 'by-user' then 'queued' else 'running' end
        where organization_id = ${own.id}::bigint and action in ('by-user', 'by-key')`.execute(
        tablesOf(instance().database),
      );
      assert.deepEqual(await actionsIn('show=unfinished'), ['key', 'user']);
    });

    test('the list says when scheduled jobs run next, in UTC', async () => {
      const now = new Date();
      const [next] = Array.from(
        { length: 9 },
        (_, index) => new Date(Date.UTC(now.getUTCFullYear() + index, 1, 29, 1, 30)),
      ).filter((time) => time.getUTCMonth() === 1 && time > now);
      const { text } = await admin.get('/setup/o/acme/jobs');
      assert.match(text, new RegExp(`Leap runs next on ${next?.getUTCFullYear()}-02-29 01:30:00 UTC\\.`));
    });

    test('the page says that the job waits while the instance is read-only', async () => {
      const setReadOnly = async (isReadOnly: boolean) => {
        file.replace({ read_only: isReadOnly });
        await until(() => instance().app.isReadOnly?.() === isReadOnly, 'take the settings');
      };
      const path = await start('wait');
      await shows(path, /1,200 of 5,000[\s\S]*/);
      await setReadOnly(true);
      await shows(path, /Waiting[\s\S]*This instance is read-only\. The job will continue/).finally(() =>
        setReadOnly(false),
      );
      await shows(path, /Running[\s\S]*This page refreshes automatically/);
      await admin.submit(path, `${path}/cancel`);
      await shows(path, /Canceled/);
    });

    test('the form explains that too many jobs are waiting, and keeps the entered values', async () => {
      const busy = await instance().organization('busy');
      const { json } = await instance().call('POST /api/v1/tasks', {
        key: busy.key,
        body: { title: 'Wait' },
      });
      await sql`insert into crm_jobs (organization_id, resource, action, input, caller_kind, request_id, due_at)
        select ${busy.id}::bigint, 'tasks', 'other', '{}', 'command', '', now() + interval '1 hour' from generate_series(1, 10)`.execute(
        tablesOf(instance().database),
      );
      const visitor = await signIn(instance(), administratorOf(busy));
      const path = `/setup/o/busy/data/tasks/${json.id}/actions/clean`;
      const answer = await visitor.submit(path, path, { 'input.how': 'slowly' });
      assert.equal(answer.status, 429);
      assert.match(problemOf(answer), /10 jobs of the organization are already waiting/);
      assert.match(answer.text, /name="input\.how"[^>]* value="slowly"/);
    });

    test('members see only the jobs whose action they could perform', async () => {
      const path = await start('work');
      await shows(path, /Completed/);
      const reader = await signIn(
        instance(),
        await limitedPerson(instance(), acme, ['tasks:list', 'tasks:read']),
      );
      assert.equal((await reader.get(path)).status, 404);
      const writer = await signIn(
        instance(),
        await limitedPerson(instance(), acme, ['tasks:list', 'tasks:read', 'tasks:update']),
      );
      const page = readable((await writer.get(path)).text);
      assert.match(page, /Completed/);
      assert.doesNotMatch(page, /All clean/);
      const record = form.replace(/\/actions\/.*/, '');
      assert.ok(page.includes(`href="${record}"`));
      const blind = await signIn(
        instance(),
        await limitedPerson(instance(), acme, ['tasks:list', 'tasks:update']),
      );
      const unread = (await blind.get(path)).text;
      assert.ok(
        unread.includes(`href="${tasks}"`) && !unread.includes(`href="${record}"`),
        'back to the list',
      );
      const failed = await start('fail');
      await shows(failed, /Failed/);
      assert.equal(problemOf(await writer.get(failed)), 'The action failed.');
      assert.equal((await admin.get(path.replace('/tasks/', '/projects/'))).status, 404);
      assert.equal((await admin.get(`${tasks}/jobs/x`)).status, 404);
    });
  },
  {
    sources: await sourcesWith(...hookedSources),
    modules: [
      {
        name: 'cleaning',
        actions: {
          tasks: { clean: { description: 'Cleans up.', job: true, input, run } },
          projects: {
            leap: {
              ...{ description: 'Runs on leap days.', job: true, ofCollection: true, run },
              ...{ schedule: '30 2 29 2 *', timeZone: 'Europe/Berlin' },
            },
          },
        },
      },
    ],
    environment: file.environment,
  },
);
