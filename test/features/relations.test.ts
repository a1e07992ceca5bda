// References with `required` and `on_delete`: what clients receive, in which order errors are checked, and what the
// change log contains.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { clientOf, type ResourceTypes } from '../../client/src/client.ts';
import { ReferencedError } from '../../client/src/index.ts';
import { deleteOrganization } from '../../plugins/tenants/organizations/index.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, formsOf, problemOf, readable, signIn } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { rowHashes } from '../support/reading.ts';
import { related } from '../support/related.ts';
import { errorOf, withoutHints } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';

/** A resource whose records only prevent deletes of other records of the same resource. */
const knots = {
  file: 'resources/knots.yaml',
  text: `singular: knot
common: all
fields:
  next_id: { type: reference, to: knots, nullable: true, on_delete: restrict }
`,
};

onBothDrivers(
  'References',
  (instance, driver) => {
    let alpha: Organization;
    let beta: Organization;
    before(async () => {
      alpha = await instance().organization('alpha');
      beta = await instance().organization('beta');
    });
    const send = (request: string, body?: unknown, { key = alpha.key, headers = {} } = {}) =>
      instance().call(request, { key, headers, ...(body !== undefined && { body }) });
    const create = async (resource: string, body: object = {}, key = alpha.key) => {
      const answer = await send(`POST /api/v1/${resource}`, body, { key });
      assert.equal(answer.status, 201, answer.text);
      return Number(answer.json.id);
    };
    const remove = (path: string, headers = {}) => send(`DELETE /api/v1/${path}`, undefined, { headers });
    const get = async (path: string) => (await send(`GET /api/v1/${path}`)).json;
    const status = async (path: string) => (await send(`GET /api/v1/${path}`)).status;
    /** Asserts that a request is rejected, and that it changes nothing. */
    const assertRejected = async (run: () => Promise<Answer>, expected: object) => {
      const before = await rowHashes(instance(), alpha.id);
      const answer = await run();
      assert.deepEqual({ status: answer.status, ...errorOf(answer) }, expected);
      assert.deepEqual(await rowHashes(instance(), alpha.id), before);
    };

    test('a required reference must be present and cannot be null', async () => {
      const folder_id = await create('folders');
      const paper = await create('papers', { folder_id });
      const issue = (message: string) => ({
        status: 400,
        error: message,
        code: 'invalid_input',
        fields: [{ field: 'folder_id', message }],
      });
      const absent = issue('folder_id is required');
      const invalid = issue('folder_id must be the id of a record (an integer)');
      await assertRejected(() => send('POST /api/v1/papers', {}), absent);
      await assertRejected(() => send('POST /api/v1/papers', { folder_id: null }), invalid);
      await assertRejected(() => send(`PUT /api/v1/papers/${paper}`, {}), absent);
      await assertRejected(() => send(`PATCH /api/v1/papers/${paper}`, { folder_id: null }), invalid);
      assert.equal((await send(`PATCH /api/v1/papers/${paper}`, { name: 'Renamed' })).status, 200);
      await assertRejected(() => send(`PATCH /api/v1/papers/${paper}`, { folder_id: 987654321 }), {
        status: 400,
        error: 'folder_id 987654321 does not exist in folders',
        code: 'missing_reference',
        fields: [{ field: 'folder_id', message: 'folder_id 987654321 does not exist in folders' }],
      });
      const [[isNullable] = []] = await instance().database.run({
        name: '',
        text: "select is_nullable::text from information_schema.columns where table_name = 'papers' and column_name = 'folder_id'",
        values: [],
      });
      assert.equal(isNullable, 'NO');
    });

    test('restrict rejects the delete and counts the referring records', async () => {
      const folder_id = await create('folders');
      const paper_id = await create('papers', { folder_id });
      const clamps = [await create('clamps', { paper_id }), await create('clamps', { paper_id })];
      const referenced = (singular: string) => ({
        status: 409,
        error: `This ${singular} cannot be deleted because other records refer to it: clamps.paper_id (2). Delete these records or change their references first.`,
        code: 'referenced',
        referrers: [{ resource: 'clamps', field: 'paper_id', count: 2 }],
      });
      await assertRejected(() => remove(`papers/${paper_id}`), referenced('paper'));
      // The folder's delete would also delete the paper.
      await assertRejected(() => remove(`folders/${folder_id}`), referenced('folder'));
      for (const id of clamps) assert.equal((await remove(`clamps/${id}`)).status, 200);
      assert.equal((await remove(`folders/${folder_id}`)).status, 200);
      assert.equal(await status(`papers/${paper_id}`), 404);
    });

    test('404 precedes 412, which precedes 409', async () => {
      const folder_id = await create('folders');
      const paper_id = await create('papers', { folder_id });
      await create('clamps', { paper_id });
      for (const path of [`papers/${paper_id}`, `folders/${folder_id}`]) {
        const answer = await send(`GET /api/v1/${path}`);
        const etag = answer.headers.get('etag') ?? '';
        assert.equal((await remove(path, { 'if-match': '"old"' })).status, 412);
        assert.equal((await remove(path, { 'if-match': etag })).json.code, 'referenced');
        assert.equal((await remove(path, { 'if-none-match': '*' })).status, 412);
      }
      assert.equal((await remove('papers/987654321', { 'if-match': '"old"' })).status, 404);
      assert.equal((await remove('folders/987654321')).status, 404);
      const foreign = await create('folders', {}, beta.key);
      assert.equal((await remove(`folders/${foreign}`)).status, 404);
    });

    test('a delete with the current entity tag cascades', async () => {
      const folder = await create('folders');
      const paper = await create('papers', { folder_id: folder });
      const { headers } = await send(`GET /api/v1/folders/${folder}`);
      assert.equal(
        (await remove(`folders/${folder}`, { 'if-match': headers.get('etag') ?? '' })).status,
        200,
      );
      assert.equal(await status(`papers/${paper}`), 404);
    });

    test('cascade deletes dependents, clears other references, and logs every change', async () => {
      const folder = await create('folders', { name: 'outer' });
      const inner = await create('folders', { name: 'inner', parent_id: folder });
      const other = await create('folders', { name: 'other' });
      const paper = await create('papers', { folder_id: inner });
      const kept = await create('papers', { folder_id: other, second_folder_id: inner });
      const review = await create('reviews', { paper_id: paper, folder_id: inner });
      const label = await create('labels', { paper_id: paper });
      await send(`PATCH /api/v1/folders/${other}`, { pinned_id: paper });
      // A cycle: the outermost folder is in the innermost folder.
      await send(`PATCH /api/v1/folders/${folder}`, { parent_id: inner });

      const since = String((await send('GET /events?after=now')).json.next);
      const answer = await remove(`folders/${folder}`);
      assert.equal(answer.status, 200, answer.text);
      for (const path of [`folders/${folder}`, `folders/${inner}`, `papers/${paper}`, `reviews/${review}`])
        assert.equal(await status(path), 404, path);
      assert.equal((await get(`labels/${label}`)).paper_id, null);
      assert.equal((await get(`folders/${other}`)).pinned_id, null);
      assert.equal((await get(`papers/${kept}`)).second_folder_id, null);

      // The feed can contain changes before the delete, because older transactions can delay it.
      type Change = { resource: string; id: number; action: string; request_id: string };
      let changes: Change[] = [];
      await until(async () => {
        const { data } = (await send(`GET /events?after=${since}`)).json;
        changes = (data as Change[]).filter((each) => each.request_id === answer.headers.get('x-request-id'));
        return changes.length > 0;
      }, 'the feed to contain the delete');
      assert.deepEqual(changes.map(({ resource, id, action }) => `${action} ${resource}/${id}`).sort(), [
        `delete folders/${folder}`,
        `delete folders/${inner}`,
        `delete papers/${paper}`,
        `delete reviews/${review}`,
        `update folders/${other}`,
        `update labels/${label}`,
        `update papers/${kept}`,
      ]);
    });

    test('batches fail as a whole or for each record', async () => {
      const folder_id = await create('folders');
      const [free, held] = [await create('papers', { folder_id }), await create('papers', { folder_id })];
      const clamp = await create('clamps', { paper_id: held });
      const message =
        'This paper cannot be deleted because other records refer to it: clamps.paper_id (1). Delete these records or change their references first.';
      await assertRejected(() => send('DELETE /api/v1/papers/batch', { ids: [free, held, 987654321] }), {
        status: 400,
        error: `2 records are invalid. First: ids[1]: ${message}`,
        code: 'items_refused',
        fields: [
          { field: 'ids[1]', message: `ids[1]: ${message}` },
          { field: 'ids[2]', message: 'ids[2]: Not found' },
        ],
      });
      const answer = await send('DELETE /api/v1/papers/batch', {
        ids: [held, free, 987654321],
        on_error: 'continue',
      });
      assert.deepEqual(withoutHints(answer.json.results), [
        {
          status: 409,
          error: message,
          code: 'referenced',
          referrers: [{ resource: 'clamps', field: 'paper_id', count: 1 }],
        },
        { status: 200, id: free },
        { status: 404, error: 'Not found', code: 'not_found' },
      ]);
      assert.deepEqual([await status(`papers/${free}`), await status(`papers/${held}`)], [404, 200]);
      assert.equal((await remove(`clamps/${clamp}`)).status, 200);
    });

    test('records of a batch do not protect each other', async () => {
      for (const on_error of ['stop', 'continue']) {
        const folder_id = await create('folders');
        const first = await create('papers', { folder_id });
        const reply = await create('papers', { folder_id, reply_to_id: first });
        assert.equal((await remove(`papers/${first}`)).json.code, 'referenced');
        const answer = await send('DELETE /api/v1/papers/batch', { ids: [first, reply], on_error });
        assert.deepEqual(withoutHints(answer.json.results), [
          { status: 200, id: first },
          { status: 200, id: reply },
        ]);
      }
    });

    test('a batch continues without all records of a chain whose last one is protected', async () => {
      const folder_id = await create('folders');
      const free = await create('papers', { folder_id });
      const chain = [await create('papers', { folder_id })];
      for (const _ of Array(11)) chain.push(await create('papers', { folder_id, reply_to_id: chain.at(-1) }));
      const clamp = await create('clamps', { paper_id: chain.at(-1) });
      const ids = [...chain, free];
      const remaining = async () => {
        const { status, text, json } = await send('DELETE /api/v1/papers/batch', {
          ids,
          on_error: 'continue',
        });
        assert.equal(status, 200, text);
        return (json.results as { status: number }[]).map((result) => result.status);
      };
      assert.deepEqual(await remaining(), [...chain.map(() => 409), 200]);
      assert.equal((await remove(`clamps/${clamp}`)).status, 200);
      assert.deepEqual(await remaining(), [...chain.map(() => 200), 404]);
    });

    test('a record that refers to itself can be deleted', async () => {
      const paper = await create('papers', { folder_id: await create('folders') });
      await send(`PATCH /api/v1/papers/${paper}`, { reply_to_id: paper });
      assert.equal((await remove(`papers/${paper}`)).status, 200);
      const folder = await create('folders');
      await send(`PATCH /api/v1/folders/${folder}`, { parent_id: folder });
      assert.equal((await remove(`folders/${folder}`)).status, 200);
      // Deletes of other resources also delete records that refer to the deleted ones.
      const knot = await create('knots');
      await send(`PATCH /api/v1/knots/${knot}`, { next_id: knot });
      assert.equal((await remove(`knots/${knot}`)).status, 200);
    });

    test('many clients delete protected and unprotected records at the same time', async () => {
      const folder_id = await create('folders');
      const papers = await Promise.all(Array.from({ length: 40 }, () => create('papers', { folder_id })));
      const clamps = await Promise.all(
        papers.map(async (paper_id, index) =>
          create('clamps', index % 2 === 0 ? { paper_id } : { paper_id: papers[0] }),
        ),
      );
      const answers = await Promise.all(papers.map((id) => remove(`papers/${id}`)));
      assert.deepEqual(
        answers.map((answer) => answer.status),
        papers.map((_, index) => (index % 2 === 0 ? 409 : 200)),
      );
      const released = await Promise.all(clamps.map((id) => remove(`clamps/${id}`)));
      assert.ok(released.every((answer) => answer.status === 200));
    });

    // The embedded database runs one transaction at a time.
    const whereSeveralConnect = driver === 'embedded' ? () => {} : test;
    whereSeveralConnect('a delete obeys the rules of references that are added while it waits', async () => {
      const url = String(instance().config.environment.DATABASE_URL);
      /** Deletes a record while another transaction refers to it. @returns the response, and the path of the new record */
      const removeWhile = async (
        deletion: () => Promise<Answer>,
        table: string,
        values: Readonly<Record<string, number>>,
      ) =>
        connected(url, async (client) => {
          await client.query('begin');
          const columns = Object.keys(values).join(', ');
          const { rows } = await client.query<{ id: string }>(
            `insert into ${table} (organization_id, created_at, updated_at, ${columns}) values (${alpha.id}, now(), now(), ${Object.values(values).join(', ')}) returning id::text`,
          );
          const answer = deletion();
          const text = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
          await until(
            async () => (await instance().database.run({ name: '', text, values: [] })).length > 0,
            'the delete to wait',
          );
          await client.query('commit');
          return [await answer, `${table}/${rows[0]?.id}`] as const;
        });
      const batch = (path: string, id: number) =>
        send(`DELETE /api/v1/${path}/batch`, { ids: [id], on_error: 'continue' });
      for (const isBatch of [false, true]) {
        const statusOf = ({ status, json }: Answer) =>
          isBatch ? (json.results as { status: number }[])[0]?.status : status;
        // Conditional writes wait on a connection of the pool. Other writes can time out in a batch, and are then repeated.
        const deletionOf = (path: string, id: number) => () =>
          isBatch ? batch(path, id) : remove(`${path}/${id}`, { 'if-match': '*' });
        // The reference is cleared.
        const account = await create('accounts');
        const [cleared, contact] = await removeWhile(deletionOf('accounts', account), 'contacts', {
          account_id: account,
        });
        assert.deepEqual([statusOf(cleared), (await get(contact)).account_id], [200, null], cleared.text);
        // The record is deleted, too.
        const folder_id = await create('folders');
        const [cascaded, paper] = await removeWhile(deletionOf('folders', folder_id), 'papers', {
          folder_id,
        });
        assert.deepEqual([statusOf(cascaded), await status(paper)], [200, 404], cascaded.text);
        // The record prevents the delete.
        const paper_id = await create('papers', { folder_id: await create('folders') });
        const [rejected, clamp] = await removeWhile(deletionOf('papers', paper_id), 'clamps', { paper_id });
        assert.deepEqual([statusOf(rejected), (await get(clamp)).paper_id], [409, paper_id], rejected.text);
        assert.match(rejected.text, /clamps\.paper_id \(1\)/);
      }
    });

    test('counts more than 1,000 referring records only approximately', async () => {
      const paper_id = await create('papers', { folder_id: await create('folders') });
      for (const count of [1000, 1]) {
        const records = Array.from({ length: count }, () => ({ paper_id }));
        assert.equal((await send('POST /api/v1/clamps/batch', { records })).status, 200);
        const { json } = await remove(`papers/${paper_id}`);
        const more = count === 1;
        assert.deepEqual(json.referrers, [
          { resource: 'clamps', field: 'paper_id', count: 1000, ...(more && { more }) },
        ]);
        assert.match(String(json.error), more ? /\(more than 1,000\)/ : /\(1,000\)/);
      }
    });

    test('a delete removes at most 10,000 records', async () => {
      const folder_id = await create('folders');
      for (let batch = 0; batch < 10; batch++) {
        const records = Array.from({ length: batch === 9 ? 999 : 1000 }, () => ({ folder_id }));
        assert.equal((await send('POST /api/v1/papers/batch', { records })).status, 200);
      }
      const extra = await create('papers', { folder_id });
      const tooLarge = {
        error:
          'The delete would remove more than 10,000 records. Delete some of the records that depend on it first.',
        code: 'cascade_too_large',
      };
      await assertRejected(() => remove(`folders/${folder_id}`), { status: 409, ...tooLarge });
      const answer = await send('DELETE /api/v1/folders/batch', { ids: [folder_id], on_error: 'continue' });
      assert.deepEqual(withoutHints(answer.json.results), [{ status: 409, ...tooLarge }]);
      assert.equal((await remove(`papers/${extra}`)).status, 200);
      const other = await create('folders');
      // Each folder could be deleted alone.
      await assertRejected(
        () => send('DELETE /api/v1/folders/batch', { ids: [folder_id, other], on_error: 'continue' }),
        { status: 409, ...tooLarge },
      );
      assert.equal((await remove(`folders/${folder_id}`)).status, 200);
      assert.deepEqual((await send(`GET /api/v1/papers?folder_id=${folder_id}`)).status, 200);
      assert.equal(await status(`papers/${extra - 1}`), 404);
    });

    test('the confirmation page names the consequences and links to the records that prevent a delete', async () => {
      const browser = await signIn(instance(), administratorOf(alpha));
      const folder_id = await create('folders', { name: 'Contracts' });
      const paper_id = await create('papers', { folder_id, name: 'Lease' });
      const clamp = await create('clamps', { paper_id });
      const submit = async (path: string) => {
        const page = await browser.get(`/setup/o/alpha/data/${path}/delete`);
        const form = formsOf(page).find(({ action }) => action.endsWith('/delete')) ?? assert.fail(page.text);
        return { page, answer: await browser.post(form.action, form.values) };
      };
      const { page, answer } = await submit(`folders/${folder_id}`);
      assert.match(
        readable(page.text),
        /Deletes the folder for everyone, together with the folders, papers, and reviews that depend on it\. This is not possible while reviews, clamps, or papers refer to these records\. Other records that refer to it are kept but lose the reference\. You can restore each of these records later under a new ID\./,
      );
      assert.equal(answer.status, 409);
      assert.equal(
        problemOf(answer),
        'This folder cannot be deleted because other records refer to it: clamps (1). Delete these records or change their references first.',
      );
      // The clamp refers to the paper, so that a filter by the folder would not find it.
      assert.match(answer.text, /href="\/setup\/o\/alpha\/data\/clamps">Show clamps \(1\)/);
      const paper = (await submit(`papers/${paper_id}`)).answer;
      const href = `/setup/o/alpha/data/clamps?paper_id=${paper_id}`;
      assert.ok(readable(paper.text).includes(`href="${href}">Show clamps (1)`), paper.text);
      assert.match((await browser.get(href)).text, new RegExp(`/data/clamps/${clamp}[?"]`));
      assert.equal((await remove(`clamps/${clamp}`)).status, 200);
      assert.equal((await submit(`folders/${folder_id}`)).answer.status, 303);
      assert.equal(await status(`papers/${paper_id}`), 404);
    });

    test('an erasure includes dependent records, in any order, and fails if other records prevent it', async () => {
      const forget = (...args: string[]) =>
        runCommand(instance(), ['person', 'forget', '--org', 'alpha', ...args, '--erase']);
      const folder_id = await create('folders', { name: 'Quillfeather' });
      const paper_id = await create('papers', { folder_id, name: 'About Quillfeather' });
      const clamp = await create('clamps', { paper_id, name: 'Quillfeather' });
      const before = await rowHashes(instance(), alpha.id);
      await assert.rejects(
        forget('--records', 'folders?name=Quillfeather'),
        new RegExp(
          `folders ${folder_id}: This folder cannot be deleted because other records refer to it: clamps\\.paper_id \\(1\\)`,
        ),
      );
      assert.deepEqual(await rowHashes(instance(), alpha.id), before);
      // The paper is protected until the clamp is deleted.
      const { json } = await forget('--records', 'folders?name=Quillfeather', 'clamps?name=Quillfeather');
      assert.deepEqual((json as { records: object }).records, {
        folders: [String(folder_id)],
        papers: [String(paper_id)],
        clamps: [String(clamp)],
      });
      const rows = await instance().database.run({
        name: '',
        text: "select object::text from crm_ledger where organization_id = $1::bigint and (record ~ 'Quillfeather' or before ~ 'Quillfeather')",
        values: [alpha.id],
      });
      assert.deepEqual(rows, []);
      for (const path of [`folders/${folder_id}`, `papers/${paper_id}`, `clamps/${clamp}`])
        assert.equal(await status(path), 404, path);
    });

    test('an erasure fails if it would delete too many records', async () => {
      const folder_id = await create('folders', { name: 'Full' });
      await instance().database.run({
        name: '',
        text: `insert into papers (organization_id, folder_id, name, created_at, updated_at)
          select $1::bigint, $2::bigint, '', now(), now() from generate_series(1, 10001)`,
        values: [alpha.id, String(folder_id)],
      });
      await assert.rejects(
        runCommand(instance(), ['person', 'forget', '--org', 'alpha', '--records', 'folders?name=Full']),
        new RegExp(`more than 10000 records would be deleted with folders ${folder_id}$`),
      );
    });

    test('the client throws an error with the referrers', async () => {
      const paper_id = await create('papers', { folder_id: await create('folders') });
      await create('clamps', { paper_id });
      const client = clientOf<{ papers: ResourceTypes }>(
        { papers: { numbers: { id: 'int64' }, references: {}, users: [], lists: {} } },
        { url: instance().url, key: alpha.key },
      );
      await assert.rejects(client.papers.delete(BigInt(paper_id)), (error) => {
        assert.ok(error instanceof ReferencedError);
        assert.deepEqual(error.referrers, [{ resource: 'clamps', field: 'paper_id', count: 1 }]);
        return true;
      });
    });

    test('an organization with required references and cycles can be deleted', async () => {
      const gamma = await instance().organization('gamma');
      const folder_id = await create('folders', {}, gamma.key);
      const paper_id = await create('papers', { folder_id }, gamma.key);
      await create('clamps', { paper_id }, gamma.key);
      await create('folders', { pinned_id: paper_id, parent_id: folder_id }, gamma.key);
      assert.ok((await deleteOrganization(instance().database, gamma.id)) > 4);
      const hashes = await rowHashes(instance(), gamma.id);
      assert.deepEqual(new Set(Object.values(hashes)), new Set(['0 ']));
    });
  },
  { sources: await sourcesWith(...related, knots) },
);
