// Imports in the admin UI while their process is killed or stopped: they are never attempted twice, and their page says how
// many lines they have processed at least.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { formsOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { onStored } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { type Service, serve, storageOfItsOwn, until } from '../support/process.ts';
import { patient } from '../support/promised.ts';

/** A file that takes many seconds. */
const longFile = `last_name\n${'a\n'.repeat(300_000)}`;

describe('imports while processes end (postgresql)', () => {
  let storage: Awaited<ReturnType<typeof storageOfItsOwn>>;
  let node: Service;
  let admin: Visitor;
  let leads: string;
  before(async () => {
    storage = await storageOfItsOwn('postgresql');
    const environment = { ...storage.environment, AUTH_SECRETS: 'a secret that all nodes of the test share' };
    storage = { ...storage, environment };
    node = await serve(environment);
  });
  after(async () => {
    await node.kill();
    await storage.remove();
  });
  const login = async () => {
    admin = await signIn(node, first);
  };
  let first: { readonly email: string; readonly password: string };
  beforeEach(async () => {
    first ??= { email: String(node.printed.email), password: String(node.printed.password) };
    await login();
    leads = `${(await admin.get('/setup')).headers.get('location')}/data/leads`;
  });
  /** Starts the import and waits until its page shows progress. @returns the path of the page */
  const start = async (): Promise<string> => {
    const _csrf = await admin.token(`${leads}/import`);
    const content = Buffer.from(longFile).toString('base64');
    const answer = await admin.post(`${leads}/import`, { _csrf, content, key: fresh('key'), step: 'import' });
    const path = answer.headers.get('location') ?? '';
    assert.match(path, /\/jobs\/\d+$/, problemOf(answer));
    await until(async () => (await progress(path)) > 0, 'the progress');
    return path;
  };
  const page = async (path: string) => admin.get(path);
  const progress = async (path: string): Promise<number> =>
    Number(/([\d,]+) of 300,000/.exec(readable((await page(path)).text))?.[1]?.replaceAll(',', '') ?? 0);
  const created = async (): Promise<number> => {
    let count = 0;
    await onStored(storage.environment, async ({ database }) => {
      const text = `select count(*)::text from leads where last_name = 'a'`;
      const [[number] = []] = await database.run({ name: '', text, values: [] });
      count = Number(number);
    });
    return count;
  };
  /** Returns the number of lines that the page of a failed import names. */
  const interruptedAfter = async (path: string): Promise<number> => {
    await until(async () => /Failed/.test((await page(path)).text), 'the import to fail');
    const problem = problemOf(await page(path));
    assert.match(problem, /Records that it has already created or updated are kept\./);
    const [, lines = ''] =
      /interrupted after at least ([\d,]+) lines\./.exec(problem) ?? assert.fail(problem);
    return Number(lines.replaceAll(',', ''));
  };

  /** Time after SIGTERM after which the process ends even if its work has not, in milliseconds. */
  const drainMs = 6500;
  /** Sends SIGTERM. @returns whether the process ended in time, as it does unless the machine is busy */
  const stop = async (): Promise<boolean> => {
    const signalled = performance.now();
    node.signal('SIGTERM');
    const { code, stderr } = await node.ended;
    assert.equal(code, 0, stderr);
    return performance.now() - signalled < drainMs;
  };

  test('an import of a killed process fails, and is not attempted again', async () => {
    const before = await created();
    const path = await start();
    const reached = await progress(path);
    await node.kill();
    // PostgreSQL completes a statement whose client has ended.
    await connected(String(storage.environment.DATABASE_URL), (client) => {
      const others = `select from pg_stat_activity where datname = current_database() and backend_type = 'client backend'
        and pid <> pg_backend_pid()`;
      return until(async () => (await client.query(others)).rows.length === 0, 'its connections to end');
    });
    const stored = (await created()) - before;
    assert.ok(stored >= reached && stored < 300_000, `${stored} stored, ${reached} reported`);
    // The killed process's lease lasts for 30 s.
    await onStored(storage.environment, ({ database }) =>
      database.run({
        ...{ name: '', values: [] },
        text: `update crm_jobs set due_at = now() where state = 'running'`,
      }),
    );
    node = await serve(storage.environment);
    await login();
    const lines = await interruptedAfter(path);
    assert.ok(lines >= reached && lines <= stored, `${lines} lines, ${stored} stored, ${reached} reported`);
    assert.equal(await progress(path), lines);
    assert.equal((await created()) - before, stored);
    assert.ok(!formsOf(await page(path)).some(({ action }) => action.endsWith('/undo')));
  });

  test('a process that is stopped ends its import after the current statement', async () => {
    let [before, path, stored] = [0, '', 0];
    await until(async () => {
      before = await created();
      path = await start();
      const isTimely = await stop();
      stored = (await created()) - before;
      node = await serve(storage.environment);
      await login();
      return isTimely;
    }, 'a process to end in time');
    assert.ok(stored < 300_000);
    assert.equal(await interruptedAfter(path), stored);
    assert.match(
      readable((await page(path)).text),
      new RegExp(`${stored.toLocaleString('en')} records created, 0 lines with errors\\.`),
    );
    assert.equal((await created()) - before, stored);
  });

  test('an import that a stopped process has not begun to write is attempted by the next', async () => {
    let [before, path] = [0, ''];
    await until(async () => {
      await node.kill();
      await onStored(storage.environment, ({ database }) =>
        database.run({ name: '', values: [], text: `delete from crm_jobs where state = 'running'` }),
      );
      node = await serve({ ...storage.environment, ...patient });
      await login();
      before = await created();
      const stopped = await stopBeforeWriting();
      assert.equal(await created(), before);
      node = await serve(storage.environment);
      await login();
      path = stopped ?? '';
      return stopped !== undefined;
    }, 'a process to end in time');
    await until(async () => /Completed|Failed/.test((await page(path)).text), 'the import to end');
    assert.equal(problemOf(await page(path)), '');
    assert.match(readable((await page(path)).text), /2 records created, 0 lines with errors\./);
    assert.equal(await created(), before + 2);
  });

  /**
   * Starts an import, and stops its process before it writes.
   * @returns the path of its page, or undefined if the process did not end in time because the machine is busy
   */
  async function stopBeforeWriting(): Promise<string | undefined> {
    const _csrf = await admin.token(`${leads}/import`);
    const content = Buffer.from('last_name\na\na\n').toString('base64');
    return connected(String(storage.environment.DATABASE_URL), async (client) => {
      const isWaiting = async (object: string) =>
        (await client.query(`select from pg_locks where not granted and relation = '${object}'::regclass`))
          .rows.length > 0;
      const lease = async (): Promise<unknown> =>
        (await client.query(`select due_at::text from crm_jobs where state = 'running'`)).rows[0]?.due_at;
      await client.query('begin; lock table crm_jobs in exclusive mode');
      const sent = admin.post(`${leads}/import`, { _csrf, content, key: fresh('key'), step: 'import' });
      // Reported below.
      sent.catch(() => {});
      await until(() => isWaiting('crm_jobs'), 'the job to be stored');
      // The import reads the grants of its member before it writes.
      await client.query('commit; begin; lock table crm_memberships');
      await until(() => isWaiting('crm_memberships'), 'the import to start');
      let hasEnded = false;
      const stopped = stop().finally(() => {
        hasEnded = true;
      });
      stopped.catch(() => {});
      await until(
        async () =>
          fetch(node.url).then(
            ({ headers }) => headers.get('connection') === 'close',
            () => true,
          ),
        'the process to stop',
      );
      // Imports get 4 s for their end. Their lease is renewed each second.
      for (let renewals = 0; renewals < 5; renewals++) {
        const previous = await lease();
        await until(async () => hasEnded || (await lease()) !== previous, 'the lease to be renewed');
      }
      await client.query('rollback');
      if (!(await stopped)) return undefined;
      const answer = await sent;
      return answer.headers.get('location') ?? assert.fail(problemOf(answer));
    });
  }
});
