// Proposals of agents: keys whose writes a person must approve.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { HttpError } from '../../engine/errors.ts';
import { compileGrants } from '../../engine/records/index.ts';
import { findRow, tablesOf, transaction } from '../../engine/tables/index.ts';
import { revokeKey } from '../../plugins/access/api-keys/index.ts';
import { changeName } from '../../plugins/access/identity/users.ts';
import type { Grant } from '../../plugins/access/profiles/grants.ts';
import { createProfile } from '../../plugins/access/profiles/profiles.ts';
import { prepareApprovals, proposalRows } from '../../plugins/api/mcp/approval.ts';
import { proposalsRetention } from '../../plugins/api/mcp/index.ts';
import { callTool, configured, failTool, useTool } from '../support/agents.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, optionOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { assertGerman, namesIn } from '../support/german.ts';
import { hookedModules, hookedSources } from '../support/hooked.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { command, fresh, makePerson, type Person, soonerThan } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { sourcesWith } from '../support/sources.ts';
import { untilWaiting, whileUncommitted } from '../support/uncommitted.ts';

const path = '/setup/o/acme/proposals';
const sources = await sourcesWith(...hookedSources);

onBothDrivers(
  'Proposals of agents',
  (instance, driver) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
    });
    const api = (request: string, { key = acme.key, body }: { key?: string; body?: object } = {}) => {
      const [method, path] = request.split(' ');
      return instance().call(`${method} /api/v1/${path}`, { key, ...(body && { body }) });
    };
    const make = async (body: object): Promise<string> => {
      const { status, json, text } = await api('POST tasks', { body });
      assert.equal(status, 201, text);
      return String(json.id);
    };

    test('a key that proposes cannot write with the API', async () => {
      const { key } = await acme.makeKey({ access: 'propose' });
      const id = await make({ title: 'kept' });
      assert.equal((await api(`GET tasks/${id}`, { key })).json.title, 'kept');
      const me = await instance().call('GET /auth/me', { key });
      assert.equal((me.json.key as { access: string }).access, 'propose');
      for (const [request, body] of [
        ['POST tasks', { title: 'new' }],
        [`PATCH tasks/${id}`, { title: 'changed' }],
        [`DELETE tasks/${id}`, undefined],
        ['POST tasks/batch', { records: [{ title: 'new' }] }],
        [`POST tasks/${id}/actions/close`, { hours: 1 }],
        ['POST projects/actions/plan', {}],
      ] as const) {
        const answer = await api(request, { key, ...(body && { body }) });
        assert.equal(answer.status, 403, request);
        assert.match(String(answer.json.error), /^This key can only propose writes/);
        assert.match(String(answer.json.hint), /POST \/mcp/);
      }
      const reader = await acme.makeKey({ access: 'read-only' });
      const answer = await api(`PATCH tasks/${id}`, { key: reader.key, body: { title: 'changed' } });
      assert.equal(answer.status, 403);
      assert.doesNotMatch(String(answer.json.error), /propose/);
      assert.equal((await api(`GET tasks/${id}`)).json.title, 'kept');
    });

    test('the pages of agents and their proposals are in German', async () => {
      const german = { 'accept-language': 'de' };
      const { key } = await acme.makeKey({ access: 'propose' });
      const { proposal } = await useTool(instance(), key, 'create', {
        resource: 'tasks',
        values: { title: 'German' },
      });
      const { id } = proposal as { readonly id: number };
      const names = new Set([
        ...namesIn(instance(), ['acme', 'admin@acme.example', 'German', 'administrator', 'create', 'tasks']),
      ]);
      for (const page of ['agents', 'proposals', 'proposals?status=approved', `proposals/${id}`])
        assertGerman(await admin.get(`/setup/o/acme/${page}`, german), names);
    });

    test('administrators choose the access of a key, and a rotated key keeps it', async () => {
      const page = '/setup/o/acme/keys';
      const holder = await instance().call('GET /auth/me', { key: acme.key });
      assert.equal((holder.json.key as { access?: string }).access, undefined);
      const profile = await optionOf(admin, `${page}/create`, 'administrator');
      const create = (access: string) =>
        admin.submit(`${page}/create`, `${page}/create`, { name: 'Careful', profile, expires: '30', access });
      assert.equal((await create('propose')).status, 200);
      const list = await admin.get(`${page}?q=Careful`);
      assert.match(list.text, /proposes writes/);
      const id = /\/keys\/rotate\?id(?:=|&#x3D;)(\d+)/.exec(list.text)?.[1] ?? '';
      const rotated = await admin.submit(`${page}/rotate?id=${id}`, `${page}/rotate`, { id, overlap: '1h' });
      const key = /crm_\w+/.exec(rotated.text)?.[0] ?? '';
      const me = await instance().call('GET /auth/me', { key });
      assert.equal((me.json.key as { access: string }).access, 'propose');
      assert.equal((await create('all')).status, 400);
    });

    /** Creates a key that proposes, with functions that call tools. */
    const agent = async (options: { grants?: readonly Grant[]; onBehalfOf?: Person } = {}) => {
      const { grants, onBehalfOf } = options;
      const profile = fresh('agents');
      if (grants !== undefined)
        await transaction(instance().database, (tables) =>
          createProfile(tables, command(instance()), acme.id, profile, grants),
        );
      const { id, key } = await acme.makeKey({
        access: 'propose',
        ...(grants && { profile }),
        ...(onBehalfOf && { onBehalfOf: onBehalfOf.id }),
      });
      const use = (tool: string, input: object = {}) => useTool(instance(), key, tool, input);
      return {
        id,
        key,
        profile,
        use,
        fail: (tool: string, input: object) => failTool(instance(), key, tool, input),
        /** Proposes a write. @returns the proposal's ID */
        propose: async (tool: string, input: object) => {
          const { proposal } = await use(tool, input);
          const { id: proposed, status } = proposal as { readonly id: unknown; readonly status: string };
          assert.equal(status, 'pending');
          return String(proposed);
        },
        statusOf: async (proposal: string) => {
          const { proposals } = await use('describe', { proposals: true });
          return (proposals as readonly Readonly<Record<string, unknown>>[]).find(
            (one) => String(one.id) === proposal,
          );
        },
      };
    };
    const idsOf = async (resource: string, query = '') =>
      ((await api(`GET ${resource}?per_page=100&${query}`)).json.data as { id: number }[]).map(
        ({ id }) => id,
      );
    const titleOf = async (id: string) => (await api(`GET tasks/${id}`)).json.title;
    const url = (proposal: string) => `${path}/${proposal}`;
    const decide = (proposal: string, fields: Record<string, string> = {}, visitor = admin) =>
      visitor.submit(url(proposal), url(proposal), fields);
    const approve = async (proposal: string, visitor = admin) => {
      const answer = await decide(proposal, {}, visitor);
      assert.equal(answer.status, 303, problemOf(answer));
    };
    /** Approves a proposal, which must fail. @returns the message */
    const failToApprove = async (proposal: string, visitor = admin) => {
      const answer = await decide(proposal, {}, visitor);
      assert.equal(answer.status, 409, answer.text);
      return problemOf(answer);
    };
    const member = async (grants: readonly Grant[]) => {
      const person = await makePerson(instance(), [{ organization: acme, grants }]);
      return { person, browser: await signIn(instance(), person) };
    };
    const changeOf = async (id: string) => {
      const { data } = (await api(`GET tasks/${id}/history`)).json as {
        data: readonly { action: string; actor: { kind: string; name: string } }[];
      };
      return data[0];
    };

    test('no tool writes: each write becomes a proposal with its changes', async () => {
      const { use, propose, statusOf } = await agent();
      const [id, trashed] = [await make({ title: 'old' }), await make({ title: 'in the trash' })];
      await api(`DELETE tasks/${trashed}`);
      assert.match(String((await use('describe')).proposals), /become proposals/);
      assert.equal((await use('describe', { resource: 'tasks' })).writes, 'become proposals');
      const before = [await idsOf('tasks'), await idsOf('projects')];
      const calls: readonly (readonly [string, object])[] = [
        ['create', { resource: 'tasks', values: { title: 'new' } }],
        ['update', { resource: 'tasks', id, values: { title: 'changed' } }],
        ['delete', { resource: 'tasks', id }],
        ['restore', { resource: 'tasks', id: trashed }],
        ['act', { resource: 'tasks', id, action: 'close', input: { hours: 1 } }],
        ['act', { resource: 'projects', action: 'plan' }],
      ];
      for (const [tool, input] of calls) {
        const proposal = await propose(tool, input);
        assert.equal((await statusOf(proposal))?.tool, tool);
      }
      const { proposals } = await use('describe', { proposals: true });
      const tasks = { status: 'pending', resource: 'tasks' };
      assert.deepEqual(
        (proposals as readonly Readonly<Record<string, unknown>>[]).map(({ id: _, ...rest }) => rest),
        [
          { ...tasks, tool: 'act', resource: 'projects', action: 'plan' },
          { ...tasks, tool: 'act', record: Number(id), action: 'close' },
          { ...tasks, tool: 'restore', record: Number(trashed) },
          { ...tasks, tool: 'delete', record: Number(id) },
          { ...tasks, tool: 'update', record: Number(id) },
          { ...tasks, tool: 'create' },
        ],
      );
      assert.equal(await titleOf(id), 'old');
      assert.equal((await api(`GET tasks/${trashed}`)).status, 404);
      assert.deepEqual([await idsOf('tasks'), await idsOf('projects')], before);
      const { changes } = await use('update', { resource: 'tasks', id, values: { title: 'changed' } });
      assert.deepEqual(changes, { title: { from: 'old', to: 'changed' } });
    });

    test('a write that is not valid or not granted does not become a proposal', async () => {
      const { use, fail } = await agent({
        grants: [{ object: 'tasks', actions: ['list', 'read', 'update'] }],
      });
      const id = await make({ title: 'kept' });
      const one = { resource: 'tasks', id };
      assert.equal((await fail('create', { resource: 'tasks', values: { title: 'x' } })).code, 'forbidden');
      assert.equal((await fail('update', { ...one, values: { titel: 'x' } })).code, 'invalid_input');
      assert.equal((await fail('update', { ...one, values: { title: 'forbidden' } })).code, 'invalid_input');
      assert.equal((await fail('update', { ...one, id: 999_999, values: { title: 'x' } })).code, 'not_found');
      const several = { resource: 'tasks', ids: [id, 999_999], values: { title: 'x' } };
      assert.equal((await fail('update', several)).code, 'items_refused');
      await use('update', { ...one, values: { title: 'x' }, dry_run: true });
      assert.deepEqual((await use('describe', { proposals: true })).proposals, []);
      const blind = await agent({ grants: [{ object: 'tasks', actions: ['update'] }] });
      const { code, grant } = await blind.fail('update', { ...one, values: { title: 'x' } });
      assert.deepEqual([code, grant], ['forbidden', 'tasks:read'], 'its result contains values');
    });

    test('the same idempotency key is the same proposal, and proposals count as writes', async () => {
      const { id, use, fail } = await agent();
      const input = { resource: 'tasks', values: { title: 'once' }, idempotency_key: 'once' };
      const [first, second] = [await use('create', input), await use('create', input)];
      assert.deepEqual(
        String((second.proposal as { id: unknown }).id),
        String((first.proposal as { id: unknown }).id),
      );
      assert.equal(second.replayed, true);
      const other = await fail('create', { ...input, values: { title: 'twice' } });
      assert.equal(other.code, 'idempotency_key_reused');
      await approve(String((first.proposal as { id: unknown }).id));
      assert.equal(((await use('create', input)).proposal as { status: string }).status, 'approved');
      const actor = await agent();
      const task = await make({ title: 'to close' });
      const action = {
        resource: 'tasks',
        id: task,
        action: 'close',
        input: { hours: 1 },
        idempotency_key: 'act',
      };
      const act = async () => String(((await actor.use('act', action)).proposal as { id: unknown }).id);
      assert.equal(await act(), await act());
      const another = await actor.fail('act', { ...action, id: await make({ title: 'another' }) });
      assert.equal(another.code, 'idempotency_key_reused');
      const { proposal: own, replayed } = await actor.use('create', input);
      assert.deepEqual(
        [(own as { status: string }).status, replayed],
        ['pending', undefined],
        'of another key',
      );
      const rows = await tablesOf(instance().database)
        .selectFrom('crm_agent_calls')
        .select(['records_read', 'records_written'])
        .where('key_id', '=', id)
        .orderBy('id')
        .execute();
      assert.deepEqual(
        rows.map((row) => [row.records_read, row.records_written]),
        [
          [0, 1],
          [1, 0],
          [1, 0],
        ],
      );
    });

    if (driver === 'postgresql')
      test('concurrent calls with the same idempotency key create one proposal', async () => {
        const { use } = await agent();
        const input = { resource: 'tasks', values: { title: 'together' }, idempotency_key: 'together' };
        const results = await connected(
          String(instance().config.environment.DATABASE_URL),
          async (client) => {
            await client.query('begin; lock table crm_proposals in share mode');
            const calls = [use('create', input), use('create', input)];
            await untilWaiting(client, 'both to be stored', 2);
            await client.query('rollback');
            return Promise.all(calls);
          },
        );
        const { proposals } = await use('describe', { proposals: true });
        const [only, ...others] = proposals as readonly { readonly id: unknown }[];
        assert.deepEqual(others, []);
        assert.deepEqual(
          results.map(({ proposal }) => String((proposal as { readonly id: unknown }).id)),
          [String(only?.id), String(only?.id)],
        );
        assert.deepEqual(results.map(({ replayed }) => replayed).toSorted(), [true, undefined]);
      });

    test('an approved write is performed as the approver, and the history names both', async () => {
      const { propose, statusOf } = await agent();
      const id = await make({ title: 'before', points: 2 });
      const proposal = await propose('update', { resource: 'tasks', id, values: { title: 'after' } });
      const page = readable((await admin.get(url(proposal))).text);
      assert.match(page, /<dt>Title<\/dt><dd><del>before<\/del>[\s\S]*<ins>after<\/ins>/);
      await approve(proposal);
      assert.equal(await titleOf(id), 'after');
      const name = `admin@acme.example (proposal ${proposal} of administrator)`;
      assert.deepEqual((await changeOf(id))?.actor.name, name);
      assert.equal((await changeOf(id))?.actor.kind, 'user');
      const record = readable((await admin.get(`/setup/o/acme/data/tasks/${id}`)).text);
      assert.ok(record.includes(`(proposal ${proposal} of administrator)`));
      const activity = readable((await admin.get('/setup/o/acme/activity')).text);
      assert.ok(activity.includes(`(proposal ${proposal} of administrator)`));
      assert.equal((await statusOf(proposal))?.status, 'approved');
      const row = await findRow(tablesOf(instance().database), proposalRows, acme.id, proposal);
      assert.deepEqual([row?.decidedByEmail, row?.decided_at === null], ['admin@acme.example', false]);
      for (const fields of [{}, { step: 'reject', reason: 'Too late' }])
        assert.equal(await failToDecide(proposal, fields), 'This proposal has already been decided.');
      const { status, reason } = (await statusOf(proposal)) ?? {};
      assert.deepEqual([status, reason], ['approved', undefined]);
    });
    const failToDecide = async (proposal: string, fields = {}) => {
      const token = await admin.token('/setup/o/acme/proposals');
      return problemOf(await admin.post(url(proposal), { _csrf: token, ...fields }));
    };

    test('all kinds of writes can be approved', async () => {
      const { propose, statusOf } = await agent();
      /** Approves a proposal. @returns the title of its page, and whether the pages warn that values are lost */
      const approved = async (proposal: string) => {
        const [page, several] = [
          (await admin.get(url(proposal))).text,
          (await admin.get(`${path}/approve?id=${proposal}`)).text,
        ];
        await approve(proposal);
        const [, title] = /<h1>(.*?)<\/h1>/.exec(readable(page)) ?? [];
        return [title, ...[page, several].map((text) => text.includes('<button class="danger">'))];
      };
      const created = await propose('create', { resource: 'tasks', values: { title: 'by approval' } });
      assert.deepEqual(await approved(created), ['Create task by approval', false, false]);
      const id = String((await statusOf(created))?.record);
      assert.equal(await titleOf(id), 'by approval');
      const decided = readable((await admin.get(url(created))).text);
      assert.match(decided, /<h1>Create task by approval<\/h1>[\s\S]*approved/);
      const close = { resource: 'tasks', id, action: 'close', input: { hours: 2 } };
      assert.deepEqual(await approved(await propose('act', close)), [
        'Close: task by approval',
        false,
        false,
      ]);
      assert.equal(await titleOf(id), 'closed');
      assert.deepEqual(await approved(await propose('delete', { resource: 'tasks', id })), [
        'Delete task closed',
        true,
        true,
      ]);
      assert.equal((await api(`GET tasks/${id}`)).status, 404);
      assert.equal((await admin.get(url(created))).status, 200, 'the page of the proposal remains');
      assert.deepEqual(await approved(await propose('restore', { resource: 'tasks', id })), [
        'Restore task closed',
        false,
        false,
      ]);
      assert.equal(await titleOf(id), 'closed');
    });

    test('a rejected proposal is not performed, and the agent reads why', async () => {
      const { propose, statusOf } = await agent();
      const id = await make({ title: 'kept' });
      const proposal = await propose('delete', { resource: 'tasks', id });
      const long = `Too early ${'x'.repeat(489)}\u{1f600}`;
      const answer = await decide(proposal, { step: 'reject', reason: long.replace(' ', '\n') });
      assert.equal(answer.status, 303);
      assert.equal(await titleOf(id), 'kept');
      const { status, reason } = (await statusOf(proposal)) ?? {};
      assert.deepEqual([status, reason], ['rejected', `${long.slice(0, 499)}\ufffd`]);
      assert.match(readable((await admin.get(url(proposal))).text), /rejected[\s\S]*Too early/);
      assert.equal(await failToDecide(proposal), 'This proposal has already been decided.');
    });

    test('a proposal for a record that has changed since is outdated', async () => {
      const { propose, statusOf } = await agent();
      for (const [tool, input] of [
        ['update', { values: { title: 'of the agent' } }],
        ['delete', {}],
        ['act', { action: 'close', input: { hours: 1 } }],
      ] as const) {
        const id = await make({ title: 'first' });
        const proposal = await propose(tool, { resource: 'tasks', id, ...input });
        await api(`PATCH tasks/${id}`, { body: { title: 'of a member' } });
        const problem = await failToApprove(proposal);
        assert.equal(problem, 'The record has changed since the proposal, which is outdated. Changed: Title');
        assert.equal(await titleOf(id), 'of a member');
        assert.equal((await statusOf(proposal))?.status, 'outdated');
      }
      const gone = await make({ title: 'gone' });
      const proposal = await propose('update', { resource: 'tasks', id: gone, values: { title: 'x' } });
      await api(`DELETE tasks/${gone}`);
      assert.match(await failToApprove(proposal), /is outdated/);
    });

    if (driver === 'postgresql')
      test('a record that changes during its approval is outdated', async () => {
        const { propose, statusOf } = await agent();
        for (const [tool, input] of [
          ['update', { values: { title: 'of the agent' } }],
          ['delete', {}],
          ['act', { action: 'archive' }],
        ] as const) {
          const id = await make({ title: 'first' });
          const proposal = await propose(tool, { resource: 'tasks', id, ...input });
          const problem = await connected(
            String(instance().config.environment.DATABASE_URL),
            async (client) => {
              await client.query(`begin; select from crm_proposals where id = ${proposal} for update`);
              const answer = failToApprove(proposal);
              await untilWaiting(client, 'check the proposal, and wait for its row');
              await api(`PATCH tasks/${id}`, { body: { title: 'of a member' } });
              await client.query('rollback');
              return answer;
            },
          );
          assert.match(problem, /The record has changed since/, tool);
          const task = (await api(`GET tasks/${id}`)).json;
          assert.deepEqual([task.title, task.code], ['of a member', null]);
          assert.notEqual((await statusOf(proposal))?.status, 'approved');
        }
      });

    if (driver === 'postgresql')
      test('a proposal that is rejected or expires during its approval is not performed', async () => {
        for (const change of [
          "status = 'rejected', decided_at = now()",
          "expires_at = now() - interval '1 minute'",
        ]) {
          const { propose } = await agent();
          const id = await make({ title: 'kept' });
          const proposal = await propose('update', { resource: 'tasks', id, values: { title: 'changed' } });
          const statement = `update crm_proposals set ${change} where id = ${proposal}`;
          const problem = await whileUncommitted(instance(), [statement], () => failToApprove(proposal));
          assert.equal(problem, 'This proposal has already been decided.', change);
          assert.equal(await titleOf(id), 'kept', change);
        }
      });

    if (driver === 'postgresql')
      test('a proposal that is approved together with a change to its record stays approved', async () => {
        const { propose, statusOf } = await agent();
        const id = await make({ title: 'first' });
        const proposal = await propose('update', { resource: 'tasks', id, values: { title: 'second' } });
        const others = [
          `update tasks set title = 'second' where id = ${id}`,
          `update crm_proposals set status = 'approved', decided_at = now() where id = ${proposal}`,
        ];
        const problem = await whileUncommitted(instance(), others, () => failToApprove(proposal));
        assert.match(problem, /The record has changed since/);
        assert.equal((await statusOf(proposal))?.status, 'approved');
      });

    test('an approver without the grant does not perform a proposal', async () => {
      const { propose, statusOf } = await agent();
      const { approve: perform } = prepareApprovals(instance().app, instance());
      const id = await make({ title: 'kept', code: fresh('granted') });
      const [closed, deleted] = [
        await propose('act', { resource: 'tasks', id, action: 'close', input: { hours: 1 } }),
        await propose('delete', { resource: 'tasks', id }),
      ];
      const grants = compileGrants([{ object: 'tasks', action: 'read' }]);
      const identity = { kind: 'user' as const, actor: acme.user, organization: acme.id, user: acme.user };
      const approver = { principal: { ...identity, name: null, grants }, requestId: 'limited' };
      for (const [proposal, grant] of [
        [closed, 'tasks:update'],
        [deleted, 'tasks:delete'],
      ] as const) {
        const row = await findRow(tablesOf(instance().database), proposalRows, acme.id, proposal);
        const failure = await perform(row ?? assert.fail(), approver, '');
        assert.ok(failure instanceof HttpError, String(failure));
        assert.deepEqual([failure.status, failure.extra.grant], [403, grant]);
        assert.equal((await statusOf(proposal))?.status, 'pending');
      }
      assert.equal(await titleOf(id), 'kept');
    });

    if (driver === 'postgresql')
      test('a key that ends during an approval cannot propose through a person', async () => {
        const ends = {
          revoked: (id: string) =>
            transaction(instance().database, (tables) => revokeKey(tables, command(instance()), acme.id, id)),
          expired: (id: string) =>
            tablesOf(instance().database)
              .updateTable('crm_api_keys')
              .set({ expires_at: new Date(Date.now() - 1000) })
              .where('id', '=', id)
              .execute(),
        };
        for (const [name, end] of Object.entries(ends)) {
          const { id: keyId, propose } = await agent();
          const id = await make({ title: 'kept' });
          const proposal = await propose('update', { resource: 'tasks', id, values: { title: 'changed' } });
          const problem = await connected(
            String(instance().config.environment.DATABASE_URL),
            async (client) => {
              await client.query(`begin; select from crm_proposals where id = ${proposal} for update`);
              const answer = failToApprove(proposal);
              await untilWaiting(client, 'check the proposal, and wait for its row');
              await end(keyId);
              await client.query('rollback');
              return answer;
            },
          );
          assert.match(problem, /^The key administrator has been revoked, has expired/, name);
          assert.equal(await titleOf(id), 'kept', name);
          const { status } = await tablesOf(instance().database)
            .selectFrom('crm_proposals')
            .select('status')
            .where('id', '=', proposal)
            .executeTakeFirstOrThrow();
          assert.equal(status, 'pending', name);
        }
      });

    test('a key that has been revoked or has lost the grant cannot propose through a person', async () => {
      const id = await make({ title: 'kept' });
      const change = { resource: 'tasks', id, values: { title: 'changed' } };
      const revoked = await agent();
      const first = await revoked.propose('update', change);
      const keys = '/setup/o/acme/keys';
      await admin.submit(`${keys}/revoke?id=${revoked.id}`, `${keys}/revoke`, { id: revoked.id });
      assert.match(await failToApprove(first), /^The key administrator has been revoked/);
      const limited = await agent({ grants: [{ object: 'tasks', actions: ['list', 'read', 'update'] }] });
      const second = await limited.propose('update', change);
      await tablesOf(instance().database)
        .deleteFrom('crm_grants')
        .where('organization_id', '=', acme.id)
        .where('action', '=', 'update')
        .where('profile_id', 'in', (query) =>
          query.selectFrom('crm_profiles').select('id').where('name', '=', limited.profile),
        )
        .execute();
      await soonerThan(2000, async () => (await callTool(instance(), limited.key, 'update', change)).isError);
      assert.match(await failToApprove(second), /is no longer permitted/);
      const { person } = await member([{ object: 'tasks', actions: ['list', 'read', 'update'] }]);
      const delegated = await agent({ onBehalfOf: person });
      const third = await delegated.propose('update', change);
      const page = readable((await admin.get(url(third))).text);
      assert.ok(page.includes(`administrator on behalf of ${person.email}`));
      await approve(third);
      assert.equal(
        (await changeOf(id))?.actor.name,
        `admin@acme.example (proposal ${third} of administrator)`,
      );
      const reader = await instance().call(`GET /api/v1/tasks/${id}/history`, {
        key: await acme.keyWith([{ object: 'tasks', actions: ['read'] }]),
      });
      assert.ok(!reader.text.includes(person.email), 'the history does not reveal the email address');
      assert.ok(!reader.text.includes('admin@acme.example'));
      assert.ok(reader.text.includes(`(proposal ${third} of administrator)`));
    });

    test('the rights of both are checked with their own scopes', async () => {
      const grants = [{ object: 'tasks', actions: ['list', 'read', 'update:own'] }];
      const { person } = await member(grants);
      const { propose, fail } = await agent({ onBehalfOf: person });
      const [own, other] = [
        await make({ title: 'own', owner_id: Number(person.id) }),
        await make({ title: 'of another member' }),
      ];
      const values = { points: 1 };
      assert.equal((await fail('update', { resource: 'tasks', id: other, values })).code, 'not_found');
      const proposal = await propose('update', { resource: 'tasks', id: own, values });
      const stranger = await member(grants);
      assert.match(await failToApprove(proposal, stranger.browser), /^Not approved, .*not found/);
      await approve(proposal);

      assert.equal((await api(`GET tasks/${own}`)).json.points, 1);
    });

    test('children are proposed with their record, and shown to members who can write them', async () => {
      const { propose } = await agent();
      const proposal = await propose('create', {
        resource: 'projects',
        values: { name: 'With tasks', tasks: [{ title: 'nested title' }] },
      });
      const { browser } = await member([{ object: 'projects', actions: ['list', 'read', 'create'] }]);
      assert.equal((await browser.get(url(proposal))).status, 404);
      assert.match((await admin.get(url(proposal))).text, /nested title/);
      await approve(proposal);
      assert.equal((await idsOf('tasks', 'title=nested+title')).length, 1);
    });

    test('only members who can perform a proposal see it', async () => {
      const { propose } = await agent();
      const id = await make({ title: 'private title' });
      const proposal = await propose('update', { resource: 'tasks', id, values: { points: 7 } });
      const finance = await propose('update', { resource: 'tasks', id, values: { margin: 4711 } });
      const [reader, own, writer] = [
        await member([{ object: 'tasks', actions: ['list', 'read'] }]),
        await member([{ object: 'tasks', actions: ['list:own', 'read:own', 'update:own'] }]),
        await member([{ object: 'tasks', actions: ['list', 'read', 'update'] }]),
      ];
      for (const { browser } of [reader, own]) {
        const list = await browser.get(path);
        assert.equal(list.status, 200);
        assert.ok(!list.text.includes('private title'));
        assert.ok(!(await browser.get('/setup/o/acme')).text.includes('private title'));
        assert.equal((await browser.get(url(proposal))).status, 404);
        const answer = await browser.post(url(proposal), { _csrf: await browser.token('/setup/me') });
        assert.equal(answer.status, 404);
        const many = await browser.post(`${path}/approve`, {
          _csrf: await browser.token('/setup/me'),
          id: [proposal],
        });
        assert.equal(many.status, 303);
      }
      assert.equal((await writer.browser.get(url(finance))).status, 404);
      assert.ok(!(await writer.browser.get(path)).text.includes('4711'));
      assert.match((await admin.get(url(finance))).text, /4711/);
      assert.ok((await writer.browser.get('/setup/o/acme')).text.includes('private title'));
      await approve(proposal, writer.browser);
      const { points, margin } = (await api(`GET tasks/${id}`)).json;
      assert.deepEqual([points, margin], [7, null]);
      assert.match(
        String((await changeOf(id))?.actor.name),
        new RegExp(`^${writer.person.email} \\(proposal`),
      );
    });

    test('proposals of other organizations do not exist', async () => {
      const { propose } = await agent();
      const proposal = await propose('create', { resource: 'tasks', values: { title: 'of acme' } });
      const other = await instance().organization('other');
      const stranger = await signIn(instance(), administratorOf(other));
      const foreign = `/setup/o/other/proposals/${proposal}`;
      assert.equal((await stranger.get(foreign)).status, 404);
      assert.equal((await stranger.get(url(proposal))).status, 403);
      const answer = await stranger.post(foreign, { _csrf: await stranger.token('/setup/me') });
      assert.equal(answer.status, 404);
      assert.equal((await stranger.get(`/setup/o/other/proposals/approve?id=${proposal}`)).status, 303);
    });

    test('one of two approvers wins, and the write is performed once', async () => {
      const { propose } = await agent();
      const proposal = await propose('create', { resource: 'tasks', values: { title: 'only once' } });
      const { browser } = await member([{ object: 'tasks', actions: ['list', 'read', 'create'] }]);
      const answers = await Promise.all([decide(proposal), decide(proposal, {}, browser)]);
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [303, 409]);
      assert.equal((await idsOf('tasks', 'title=only+once')).length, 1);
    });

    test('a write that is rejected leaves the proposal pending', async () => {
      const { propose, statusOf } = await agent();
      const proposal = await propose('create', { resource: 'tasks', values: { title: 'x', code: 'taken' } });
      const id = await make({ title: 'y', code: 'taken' });
      assert.match(await failToApprove(proposal), /^Not approved, because the write was rejected: .*code/);
      assert.equal((await statusOf(proposal))?.status, 'pending');
      await api(`PATCH tasks/${id}`, { body: { code: null } });
      await approve(proposal);
    });

    test('an action of the collection that fails leaves its proposal pending and writes nothing', async () => {
      const { propose, statusOf } = await agent();
      const proposal = await propose('act', { resource: 'projects', action: 'plan' });
      assert.match(await failToApprove(proposal), /^Not approved, .*forbidden is not a title/);
      assert.deepEqual(await idsOf('projects', 'name=planned'), []);
      assert.equal((await statusOf(proposal))?.status, 'pending');
    });

    test('proposals expire, and are deleted later', async () => {
      const { propose, statusOf } = await agent();
      const [id, second] = [await make({ title: 'kept' }), await make({ title: 'also kept' })];
      const proposal = await propose('delete', { resource: 'tasks', id });
      const decided = await propose('delete', { resource: 'tasks', id: second });
      await decide(decided, { step: 'reject' });
      const { created_at, expires_at } = await tablesOf(instance().database)
        .selectFrom('crm_proposals')
        .select(['created_at', 'expires_at'])
        .where('id', '=', proposal)
        .executeTakeFirstOrThrow();
      assert.equal(Math.round((expires_at.getTime() - created_at.getTime()) / 86_400_000), 30);
      const age = (days: number) =>
        tablesOf(instance().database)
          .updateTable('crm_proposals')
          .set({
            expires_at: new Date(Date.now() - days * 86_400_000),
          })
          .where('id', '=', proposal)
          .execute();
      await age(1);
      assert.equal((await statusOf(proposal))?.status, 'expired');
      assert.ok(!(await admin.get(path)).text.includes(url(proposal)));
      assert.equal(await failToDecide(proposal), 'This proposal has expired.');
      assert.equal(await titleOf(id), 'kept');
      const deleteAfter = async (days: number) => {
        await age(days);
        await tablesOf(instance().database)
          .updateTable('crm_proposals')
          .set({ decided_at: new Date(Date.now() - days * 86_400_000) })
          .where('id', '=', decided)
          .execute();
        await proposalsRetention(tablesOf(instance().database));
        return [(await statusOf(proposal))?.status, (await statusOf(decided))?.status];
      };
      assert.deepEqual(await deleteAfter(29), ['expired', 'rejected']);
      assert.deepEqual(await deleteAfter(31), [undefined, undefined]);
    });

    test('erasing a person deletes proposals with their data or for their records', async () => {
      const { propose, statusOf } = await agent();
      const { json } = await api('POST leads', {
        body: { last_name: 'Quillfeather', email: 'q@quill.example' },
      });
      const ofRecord = await propose('update', { resource: 'leads', id: json.id, values: { rating: 'Hot' } });
      const withText = await propose('create', {
        resource: 'leads',
        values: { last_name: 'Quillfeather II' },
      });
      const other = await propose('create', { resource: 'leads', values: { last_name: 'Lovelace' } });
      await runCommand(instance(), [
        ...['person', 'forget', '--org', 'acme', '--records', 'leads?email=q@quill.example'],
        ...['--text', 'Quillfeather', '--erase'],
      ]);
      assert.equal(await statusOf(ofRecord), undefined);
      assert.equal(await statusOf(withText), undefined);
      assert.notEqual(await statusOf(other), undefined);
    });

    test('values are escaped, and references have names', async () => {
      const { propose } = await agent();
      const project = await api('POST projects', { body: { name: 'Apollo' } });
      const attack = '</ins><script>alert(1)</script> Ignore this and approve';
      const proposal = await propose('create', {
        resource: 'tasks',
        values: { title: attack, project_id: project.json.id },
      });
      for (const page of [url(proposal), path, '/setup/o/acme', `${path}/approve?id=${proposal}`]) {
        const { text } = await admin.get(page);
        assert.ok(!text.includes('<script>alert'), page);
        assert.ok(text.includes('&lt;script&gt;alert'), page);
      }
      assert.match((await admin.get(url(proposal))).text, /Apollo/);
      const { browser } = await member([{ object: 'tasks', actions: ['list', 'read', 'create'] }]);
      const { status, text } = await browser.get(url(proposal));
      assert.equal(status, 200);
      assert.ok(!text.includes('Apollo'), 'a record that the member cannot read');
      assert.match(
        text,
        new RegExp(`<dt>Project</dt><dd><del></del>[^\\n]*<ins>ID ${project.json.id}</ins>`),
      );
    });

    test('several proposals of a run are approved together', async () => {
      const { use, propose, statusOf } = await agent();
      const { run } = await use('describe');
      const ids = [
        await make({ title: 'first' }),
        await make({ title: 'second' }),
        await make({ title: 'third' }),
      ];
      const proposals: string[] = [];
      for (const id of ids)
        proposals.push(await propose('update', { resource: 'tasks', id, values: { points: 5 }, run }));
      const list = await admin.get(`${path}?run=${String(run).split('.')[0]}`);
      const links = list.text.matchAll(/\/proposals\/(\d+)"/g);
      assert.deepEqual(
        [...links].map(([, id]) => id),
        proposals.toReversed(),
      );
      await api(`PATCH tasks/${ids[1]}`, { body: { hours: 1 } });
      const [runId] = String(run).split('.');
      const page = readable((await admin.get(url(proposals[0] ?? ''))).text);
      for (const link of [`/setup/o/acme/data/tasks/${ids[0]}`, `${path}?show=all&run=${runId}`])
        assert.ok(page.includes(`href="${link}"`), link);
      const form = `${path}/approve?${new URLSearchParams(proposals.map((id): [string, string] => ['id', id]))}`;
      const token = await admin.token(form);
      const answer = await admin.post(`${path}/approve`, { _csrf: token, id: proposals });
      assert.equal(answer.status, 409);
      assert.match(
        problemOf(answer),
        /^2 proposals approved\. Not approved: Change task second: The record has changed/,
      );
      const states = await Promise.all(proposals.map(async (id) => (await statusOf(id))?.status));
      assert.deepEqual(states, ['approved', 'outdated', 'approved']);
    });

    test('of several proposals for a record, the first one is approved', async () => {
      const { propose, statusOf } = await agent();
      const id = await make({ title: 'ordered' });
      const proposals: string[] = [];
      for (const points of [1, 2])
        proposals.push(await propose('update', { resource: 'tasks', id, values: { points } }));
      const _csrf = await admin.token(path);
      const answer = await admin.post(`${path}/approve`, { _csrf, id: proposals.toReversed() });
      assert.match(problemOf(answer), /^1 proposal approved\. Not approved: Change task ordered: /);
      assert.equal((await api(`GET tasks/${id}`)).json.points, 1);
      const states = await Promise.all(proposals.map(async (one) => (await statusOf(one))?.status));
      assert.deepEqual(states, ['approved', 'outdated']);
      const again = await admin.post(`${path}/approve`, { _csrf, id: proposals });
      assert.equal(again.status, 303, 'those that are decided are left out');
      assert.equal((await api(`GET tasks/${id}`)).json.points, 1);
    });

    test('the list has pages, and views by state', async () => {
      const { propose, use } = await agent();
      const original = await propose('create', { resource: 'tasks', values: { title: 'copied' } });
      const { rows } = await sql<{ id: string }>`
        insert into crm_proposals (organization_id, key_id, tool, resource, action, body, tag, run, expires_at)
        select organization_id, key_id, tool, resource, action, body, tag, 'paged', expires_at
        from crm_proposals, generate_series(1, 51) where id = ${original}::bigint returning id::text as id`.execute(
        tablesOf(instance().database),
      );
      const ids = rows.map((row) => row.id).toSorted((a, b) => Number(b) - Number(a));
      const listed = async (query: string) => {
        const { text } = await admin.get(query.startsWith('/') ? query : `${path}?run=paged${query}`);
        const next = /rel="next" href="([^"]*)"/.exec(text)?.[1];
        return {
          ids: [...text.matchAll(/<a href="[^"]*\/proposals\/(\d+)">/g)].map(([, id]) => id),
          next: next === undefined ? undefined : readable(next),
          text: readable(text),
        };
      };
      const first = await listed('');
      assert.deepEqual(first.ids, ids.slice(0, 50));
      const second = await listed(first.next ?? '');
      assert.deepEqual([second.ids, second.next], [ids.slice(50), undefined]);
      assert.match(first.next ?? '', /\bbefore=\d/);
      const others = [...second.text.matchAll(/ href="([^"]*\/proposals\?[^"]*)"/g)].map(([, link]) => link);
      assert.ok(others.length > 3 && others.includes(`${path}?run=paged`), 'the way back to the first page');
      for (const link of others) assert.doesNotMatch(link ?? '', /before=/);
      const [newest = ''] = ids;
      await decide(newest, { step: 'reject' });
      assert.deepEqual((await listed('&show=decided')).ids, [newest]);
      const canSelect = async (show: string) =>
        (await admin.get(`${path}?run=paged&show=${show}`)).text.includes(`"${path}/approve"`);
      assert.deepEqual([await canSelect('pending'), await canSelect('decided')], [true, false]);
      assert.deepEqual((await listed('')).ids, ids.slice(1));
      for (const view of ['all', 'constructor'])
        assert.deepEqual((await listed(`&show=${view}`)).ids, ids.slice(0, 50), view);
      assert.deepEqual((await listed('&before=x')).ids, ids.slice(1));
      for (const [odd, status] of [
        [`${path}?run=%00`, 200],
        [`${path}/x`, 404],
        [`${path}/approve?id=x`, 303],
      ] as const)
        assert.equal((await admin.get(odd)).status, status, odd);
      const { text: home } = await admin.get('/setup/o/acme');
      assert.deepEqual(
        [...home.matchAll(/\/proposals\/(\d+)"/g)].map(([, id]) => id),
        ids.slice(1, 6),
        'the newest pending ones',
      );
      const { proposals } = await use('describe', { proposals: true });
      assert.deepEqual(
        (proposals as readonly { readonly id: unknown }[]).map(({ id }) => String(id)),
        ids.slice(0, 50),
        'the newest',
      );
    });

    const newestOn = async (browser: Visitor, page: string) =>
      /\/proposals\/(\d+)"/.exec((await browser.get(page)).text)?.[1];
    /** Copies a proposal, and adds a number of characters to its body. */
    const copy = (proposal: string, count: number, length = 0) =>
      sql`insert into crm_proposals (organization_id, key_id, tool, resource, record_id, action, body, tag, expires_at)
        select organization_id, key_id, tool, resource, record_id, action, body || repeat(' ', ${length}::int), tag, expires_at
        from crm_proposals, generate_series(1, ${count}::int) where id = ${proposal}::bigint`.execute(
        tablesOf(instance().database),
      );

    test('a member sees old proposals even if there are many or large newer ones that the member cannot see', async () => {
      const { propose } = await agent();
      const visible = await propose('create', { resource: 'projects', values: { name: 'for planners' } });
      const created = await propose('create', { resource: 'tasks', values: { title: 'for others' } });
      await copy(created, 100);
      await copy(created, 3, 900_000);
      const { browser } = await member([
        { object: 'projects', actions: ['list', 'read', 'create'] },
        { object: 'tasks', actions: ['list', 'read', 'update'] },
      ]);
      for (const page of [path, '/setup/o/acme']) assert.equal(await newestOn(browser, page), visible, page);
      // The member can change tasks, but not their margin.
      const id = await make({ title: 'with a margin' });
      await copy(await propose('update', { resource: 'tasks', id, values: { margin: 1 } }), 5, 900_000);
      for (const page of [path, '/setup/o/acme']) assert.equal(await newestOn(browser, page), visible, page);

      await copy(created, 2000);
      const list = await browser.get(path);
      assert.doesNotMatch(list.text, /\/proposals\/\d/);
      const next = readable(/rel="next" href="([^"]*)"/.exec(list.text)?.[1] ?? assert.fail('no next page'));
      assert.equal(await newestOn(browser, next), visible);
      assert.match((await browser.get('/setup/o/acme')).text, />All proposals</);
    });

    if (driver === 'postgresql')
      test('a proposal that is added while a page is read does not hide another one', async () => {
        const { propose } = await agent();
        const visible = await propose('create', { resource: 'projects', values: { name: 'for planners' } });
        const created = await propose('create', { resource: 'tasks', values: { title: 'for others' } });
        await copy(created, 98);
        const { browser } = await member([{ object: 'projects', actions: ['list', 'read', 'create'] }]);
        const url = String(instance().config.environment.DATABASE_URL);
        const lock = 'lock table crm_proposals in access exclusive mode';
        const newest = await connected(url, (first) =>
          connected(url, async (second) => {
            await first.query(`begin; ${lock}`);
            const answer = newestOn(browser, path);
            await untilWaiting(first, 'read the sizes');
            // Obtains the lock after the first of the page's statements, and before the second.
            await second.query('begin');
            const locked = second.query(lock);
            await untilWaiting(first, 'lock the table after the statement', 2);
            await first.query('rollback');
            await locked;
            await untilWaiting(second, 'read the proposals');
            await second.query(`insert into crm_proposals
              (organization_id, key_id, tool, resource, action, body, tag, expires_at)
              select organization_id, key_id, tool, resource, action, body, tag, expires_at
              from crm_proposals where id = ${created}`);
            await second.query('commit');
            return answer;
          }),
        );
        assert.equal(newest, visible);
      });

    test('email addresses are shown only to members who can list members', async () => {
      const grants = [{ object: 'tasks', actions: ['list', 'read', 'update'] }];
      const { person } = await member(grants);
      const { browser } = await member(grants);
      const { propose } = await agent({ onBehalfOf: person });
      const id = await make({ title: 'of people' });
      const proposal = await propose('update', { resource: 'tasks', id, values: { points: 1 } });
      const emailsOn = async (pages: readonly string[], email: string) => {
        const texts = await Promise.all(
          [admin, browser].map((visitor) => Promise.all(pages.map((page) => visitor.get(page)))),
        );
        return texts.map((answers) => answers.map(({ text }) => text.includes(email)));
      };
      const pages = [url(proposal), path, '/setup/o/acme', `${path}/approve?id=${proposal}`];
      const [yes, no] = [pages.map(() => true), pages.map(() => false)];
      assert.deepEqual(await emailsOn(pages, person.email), [yes, no]);
      await decide(proposal, { step: 'reject' });
      const decided = [url(proposal)];
      assert.deepEqual(await emailsOn(decided, person.email), [[true], [false]]);
      // The name of an administrator's own page is not on the page of the other member.
      assert.ok(!(await browser.get(url(proposal))).text.includes('admin@acme.example'));
      await transaction(instance().database, (tables) => changeName(tables, person.id, 'Ada Lovelace'));
      assert.match(readable((await browser.get(url(proposal))).text), /on behalf of Ada Lovelace/);
    });

    test('the pages are in the browser’s language', async () => {
      const { propose } = await agent();
      const proposal = await propose('create', { resource: 'tasks', values: { title: 'Name' } });
      const german = { 'accept-language': 'de' };
      assert.match(readable((await admin.get(path, german)).text), /<h1>Vorschläge von Agenten<\/h1>/);
      assert.match(readable((await admin.get(url(proposal), german)).text), /Genehmigen[\s\S]*Ablehnen/);
      assert.match((await admin.get('/setup/o/acme', german)).text, /Alle Vorschläge/);
    });
  },
  {
    sources,
    modules: hookedModules([]),
    environment: configured('proposals', 'mcp: true\n'),
  },
);
