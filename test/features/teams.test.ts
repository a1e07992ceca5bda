// Teams: scopes with my_team contain the records of the members of the caller's teams, as they are at the time of each
// request.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { compileGrants } from '../../engine/records/index.ts';
import { tablesOf, transaction } from '../../engine/tables/index.ts';
import { createKey } from '../../plugins/access/api-keys/keys.ts';
import { addExistingUser } from '../../plugins/access/identity/users.ts';
import { removeMember } from '../../plugins/access/members/members.ts';
import { profileId } from '../../plugins/access/profiles/profiles.ts';
import { addTeamMember, createTeam, deleteTeam, removeTeamMember } from '../../plugins/access/teams/teams.ts';
import type { Change } from '../support/changes.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { type LimitedCaller, limitedKey, limitedPerson } from '../support/limited.ts';
import { settingsFile } from '../support/partners.ts';
import { activityOf, command, fresh, makePerson, type Person } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { eventsTo, settledFeed, startReceiver } from '../support/receiver.ts';
import { sourcesWith } from '../support/sources.ts';
import { untilWaiting } from '../support/uncommitted.ts';

const tasks = {
  file: 'tasks.yaml',
  text: `
singular: task
description: Something to do.
common: all
fields:
  owner_id: { type: int64, nullable: true, read_only: true, set: creator, assignable: true, description: The owner. }
  name: { type: string, description: The name. }
  assignee_id: { type: user, nullable: true, description: The assignee. }
  is_ours: { type: boolean, nullable: true, default_from: assignee_id in my_team, description: Whether the team has it. }
  status: { type: string, enum: [new, done], closed: true, default: new, transitions: { new: { done: assigned } }, description: The status. }
sort: { by: created_at, direction: desc }
filters: [name]
scopes:
  team: owner_id in my_team
  others: '!(owner_id in my_team)'
  open: owner_id in my_team && status == "new"
  assigned: assignee_id in my_team
  made: created_by_id in my_team || assignee_id in my_team
`,
};

const receiver = await startReceiver();
after(() => receiver.close());
const file = settingsFile(eventsTo(receiver.port));
const actions = ['list', 'read', 'create', 'update', 'delete'];
const onTasks = (scope: string) => actions.map((action) => `tasks:${action}:${scope}`);

onBothDrivers(
  'teams',
  (instance, driver) => {
    let acme: Organization;
    let beta: Organization;
    /** Members of the team North: ann and bob. Of South: cid. Of none: dan. */
    const people = {} as Record<'ann' | 'bob' | 'cid' | 'dan', LimitedCaller & Person>;
    const teams = {} as Record<'north' | 'south', string>;
    const by = () => command(instance());
    const inTransaction = <T>(work: Parameters<typeof transaction<T>>[1]) =>
      transaction(instance().database, work);
    const createIn = ({ id }: Organization, name: string) =>
      inTransaction((tables) => createTeam(tables, by(), id, name));
    const join = (team: string, { id }: Pick<Person, 'id'>, organization = acme) =>
      inTransaction((tables) => addTeamMember(tables, by(), organization.id, team, id));
    const leave = (team: string, { id }: Pick<Person, 'id'>) =>
      inTransaction((tables) => removeTeamMember(tables, by(), acme.id, team, id));
    /** Sends a request in acme. Some users are also members of beta. */
    const call = (key: string, request: string, body?: unknown, headers = {}): Promise<Answer> =>
      instance().call(`${request}${request.includes('?') ? '&' : '?'}org=acme`, {
        ...{ key, headers },
        ...(body !== undefined && { body }),
      });
    const send = (key: string, request: string, body?: unknown, headers = {}) =>
      call(key, request.replace(' ', ' /api/v1/'), body, headers);
    const ok = async (key: string, request: string, body?: unknown, headers = {}) => {
      const answer = await send(key, request, body, headers);
      assert.ok(answer.status < 300, `${request}: ${answer.text}`);
      return answer;
    };
    const create = async (name: string, owner: Pick<Person, 'id'> | null, values = {}, key = acme.key) => {
      const body = { name, owner_id: owner === null ? null : Number(owner.id), ...values };
      return Number((await ok(key, 'POST tasks', body)).json.id);
    };
    /** Returns the names of the tasks that a caller lists, sorted. */
    const namesFor = async ({ key }: Pick<LimitedCaller, 'key'>, query = '') => {
      const { json } = await ok(key, `GET tasks${query}`);
      return (json.data as { readonly name: string }[]).map(({ name }) => name).sort();
    };
    const statusFor = async ({ key }: Pick<LimitedCaller, 'key'>, id: number) =>
      (await send(key, `GET tasks/${id}`)).status;
    const of = {} as Record<'ann' | 'bob' | 'cid' | 'nobody', number>;

    before(async () => {
      [acme, beta] = [await instance().organization('acme'), await instance().organization('beta')];
      for (const name of ['ann', 'bob', 'cid', 'dan'] as const)
        people[name] = await limitedPerson(instance(), acme, onTasks('team'));
      teams.north = await createIn(acme, 'North');
      teams.south = await createIn(acme, 'South');
      await join(teams.north, people.ann);
      await join(teams.north, people.bob);
      await join(teams.south, people.cid);
      of.ann = await create('ann', people.ann);
      of.bob = await create('bob', people.bob);
      of.cid = await create('cid', people.cid);
      of.nobody = await create('nobody', null);
    });

    test('lists, counts, filters and exports contain the records of the team', async () => {
      assert.deepEqual(await namesFor(people.ann), ['ann', 'bob']);
      assert.deepEqual(await namesFor(people.bob), ['ann', 'bob']);
      assert.deepEqual(await namesFor(people.cid), ['cid']);
      assert.deepEqual(await namesFor(people.dan), [], 'not in a team');
      assert.deepEqual(await namesFor(people.ann, '?name=cid'), []);
      const { key } = people.ann;
      const counted = await ok(key, 'GET tasks', undefined, { prefer: 'count=exact' });
      assert.equal(counted.headers.get('x-total-count'), '2');
      const csv = await ok(key, 'GET tasks?fields=name&sort=created_at&dir=asc', undefined, {
        accept: 'text/csv',
      });
      assert.deepEqual(csv.text.trim().split(/\r?\n/).slice(1), [`${of.ann},ann`, `${of.bob},bob`]);
    });

    test('a member without a team sees only their own records', async () => {
      const id = await create('dan', people.dan);
      assert.deepEqual(await namesFor(people.dan), ['dan']);
      assert.equal(await statusFor(people.ann, id), 404);
      await ok(acme.key, `DELETE tasks/${id}`);
    });

    test('records of others do not exist, and no write moves a record out of the team', async () => {
      const { key } = people.ann;
      for (const [method, body] of [['GET'], ['PUT', {}], ['PATCH', {}], ['DELETE']] as const) {
        for (const id of [of.cid, of.nobody])
          assert.equal((await send(key, `${method} tasks/${id}`, body)).status, 404, method);
      }
      await ok(key, `PATCH tasks/${of.bob}`, { assignee_id: Number(people.ann.id) });
      const toBob = await create('new', people.bob, {}, key);
      for (const owner of [people.cid, people.dan, null]) {
        const body = { name: 'outside', owner_id: owner === null ? null : Number(owner.id) };
        const created = await send(key, 'POST tasks', body);
        assert.deepEqual([created.status, created.json.code], [403, 'outside_scope'], created.text);
        const moved = await send(key, `PATCH tasks/${toBob}`, body);
        assert.deepEqual([moved.status, moved.json.code], [403, 'outside_scope'], moved.text);
        const batch = await send(key, 'POST tasks/batch', { records: [body] });
        assert.deepEqual([batch.status, batch.json.code], [400, 'items_refused'], batch.text);
      }
      const lines = [people.bob, people.cid].map(({ id }) =>
        JSON.stringify({ name: 'imported', owner_id: Number(id) }),
      );
      const imported = await send(key, 'POST tasks/import', lines.join('\n'), {
        'content-type': 'application/x-ndjson',
      });
      assert.deepEqual([imported.json.created, imported.json.failed], [1, 1], imported.text);
      assert.deepEqual(await namesFor(people.ann, '?name=imported'), ['imported']);
      await ok(key, `DELETE tasks/${toBob}`);
    });

    test('conditions can be negated and combined; a record without a user is neither in the team nor outside', async () => {
      const cases = [
        ['others', ['cid']],
        ['open', ['ann', 'bob']],
        ['made', ['bob']],
      ] as const;
      await ok(acme.key, 'DELETE tasks/batch', {
        ids: await idsOf('imported'),
      });
      for (const [scope, names] of cases) {
        const caller = await limitedPerson(instance(), acme, onTasks(scope));
        await join(teams.north, caller);
        assert.deepEqual(await namesFor(caller), names, scope);
        await leave(teams.north, caller);
      }
    });
    const idsOf = async (name: string) =>
      ((await ok(acme.key, `GET tasks?name=${name}`)).json.data as { readonly id: number }[]).map(
        ({ id }) => id,
      );

    test('joining and leaving a team apply to the next request', async () => {
      assert.equal(await statusFor(people.ann, of.cid), 404);
      await join(teams.south, people.ann);
      assert.deepEqual(await namesFor(people.ann), ['ann', 'bob', 'cid'], 'several teams');
      assert.deepEqual(await namesFor(people.cid), ['ann', 'cid']);
      assert.deepEqual(await namesFor(people.bob), ['ann', 'bob'], 'not the teams of the others');
      await leave(teams.south, people.ann);
      assert.equal(await statusFor(people.ann, of.cid), 404);
      assert.deepEqual(await namesFor(people.cid), ['cid']);
    });

    test('members who leave the organization leave its teams, and a deleted team has no members', async () => {
      const [eve, fay] = [
        await limitedPerson(instance(), acme, onTasks('team')),
        await limitedPerson(instance(), acme, onTasks('team')),
      ];
      const west = await createIn(acme, 'West');
      for (const person of [eve, fay]) await join(west, person);
      const id = await create('eve', eve);
      assert.equal(await statusFor(fay, id), 200);
      await inTransaction((tables) => removeMember(tables, by(), acme.id, eve.id));
      assert.equal(await statusFor(fay, id), 404);
      await assert.rejects(join(west, eve), /not a member of this organization/);
      await join(west, people.ann);
      assert.equal(await statusFor(fay, of.ann), 200);
      await inTransaction((tables) => deleteTeam(tables, by(), acme.id, west));
      assert.equal(await statusFor(fay, of.ann), 404);
      const rows = tablesOf(instance().database).selectFrom('crm_team_members').select('user_id');
      assert.deepEqual(await rows.where('team_id', '=', west).execute(), []);
    });

    if (driver === 'postgresql')
      test('users cannot join a team that is being deleted, or after they have left the organization', async () => {
        const person = await limitedPerson(instance(), acme, onTasks('team'));
        const team = await createIn(acme, fresh('team'));
        for (const [statement, message] of [
          [`delete from crm_memberships where user_id = ${person.id}`, /not a member of this organization/],
          [`delete from crm_teams where id = ${team}`, /this team does not exist/],
        ] as const)
          await connected(String(instance().config.environment.DATABASE_URL), async (client) => {
            await client.query(`begin; ${statement}`);
            const joining = assert.rejects(join(team, person), message);
            await untilWaiting(client, 'wait for the deletion');
            await client.query('commit');
            await joining;
          });
      });

    test('organizations can have teams with the same name, which do not share members', async () => {
      const north = await createIn(beta, 'North');
      await inTransaction(async (tables) => {
        const profile = await profileId(tables, beta.id, 'read-only');
        for (const { email } of [people.ann, people.cid])
          await addExistingUser(tables, by(), { email, organization: beta.id, profile });
      });
      for (const person of [people.ann, people.cid]) await join(north, person, beta);
      assert.deepEqual(await namesFor(people.ann), ['ann', 'bob']);
      assert.deepEqual(await namesFor(people.cid), ['cid']);
      await assert.rejects(join(north, people.bob), /this team does not exist/);
      await assert.rejects(join(north, people.bob, beta), /not a member of this organization/);
      await assert.rejects(createIn(acme, ' North '), /a team named "North" already exists/);
    });

    test('a key on behalf of a member has the member’s teams, and no other key has one', async () => {
      const { plaintext } = await inTransaction(async (tables) =>
        createKey(tables, by(), 'crm_', {
          ...{ organization: acme.id, name: 'Assistant', user: acme.user, expiresAt: null },
          ...{ profile: await profileId(tables, acme.id, 'administrator'), onBehalfOf: people.ann.id },
        }),
      );
      assert.deepEqual(await namesFor({ key: plaintext }), ['ann', 'bob']);
      for (const scope of ['team', 'others']) {
        const ordinary = await limitedKey(instance(), acme, onTasks(scope));
        assert.deepEqual(await namesFor(ordinary), [], scope);
        assert.equal(await statusFor(ordinary, of.cid), 404, scope);
      }
    });

    test('the history and the feed show the changes of the team’s records, for the current members', async () => {
      const id = await create('n1', people.cid);
      await ok(acme.key, `PATCH tasks/${id}`, { name: 'n2', owner_id: Number(people.bob.id) });
      await ok(acme.key, `PATCH tasks/${id}`, { name: 'n3' });
      await ok(acme.key, `PATCH tasks/${id}`, { name: 'n4', owner_id: Number(people.ann.id) });
      const historyFor = async (key: string) =>
        ((await ok(key, `GET tasks/${id}/history`)).json.data as Change[]).map(({ action, after }) => [
          action,
          after?.name,
        ]);
      const feedFor = async (key: string) => {
        let changes: Change[] = [];
        for (let after = ''; ; ) {
          const { json } = await call(key, `GET /events?resources=tasks&after=${after}`);
          changes = [...changes, ...(json.data as Change[])];
          if ((json.data as Change[]).length === 0) break;
          after = String(json.next);
        }
        return changes.filter((change) => change.id === id).map(({ action, after }) => [action, after?.name]);
      };
      await until(async () => (await feedFor(acme.key)).length === 4, 'the feed to catch up');
      const ofNorth = [
        ['create', 'n2'],
        ['update', 'n3'],
        ['update', 'n4'],
      ];
      const both = async (key: string) => {
        const [history, feed] = [await historyFor(key), await feedFor(key)];
        assert.deepEqual(history.toReversed(), feed);
        return feed;
      };
      assert.deepEqual(await both(people.ann.key), ofNorth);
      assert.deepEqual(await feedFor(people.cid.key), [
        ['create', 'n1'],
        ['delete', undefined],
      ]);
      assert.equal((await send(people.dan.key, `GET tasks/${id}/history`)).status, 404);
      await leave(teams.north, people.bob);
      assert.deepEqual(await both(people.ann.key), [['create', 'n4']]);
      await join(teams.south, people.ann);
      await join(teams.north, people.bob);
      assert.deepEqual(await both(people.ann.key), [['create', 'n1'], ['update', 'n2'], ...ofNorth.slice(1)]);
      await leave(teams.south, people.ann);
      await ok(acme.key, `DELETE tasks/${id}`);
    });

    test('a subscription has no user and therefore no team', async () => {
      const subscribe = async (scope: string) => {
        const events = ['events:create', 'events:read'];
        const { key } = await limitedKey(instance(), acme, [...events, `tasks:read${scope}`]);
        const body = { url: `${receiver.url}/${fresh('hook')}`, resources: ['tasks'] };
        await settledFeed(instance());
        const answer = await instance().call('POST /events/subscriptions', { key, body });
        assert.equal(answer.status, 201, answer.text);
        return async () => {
          const url = `GET /events/subscriptions/${answer.json.id}/deliveries`;
          return (await instance().call(url, { key })).json.data as readonly { readonly event: string }[];
        };
      };
      const [ofTeam, ofOthers, all] = [
        await subscribe(':team'),
        await subscribe(':others'),
        await subscribe(''),
      ];
      const id = await create('sent', people.ann);
      // If another test's transaction was open, the changes of the test before this one are also delivered.
      const event = `create tasks ${id} v1`;
      await until(
        async () => (await all()).filter((delivery) => delivery.event === event).length === 1,
        'the delivery',
      );
      for (const deliveries of [ofTeam, ofOthers]) assert.deepEqual(await deliveries(), []);
      await ok(acme.key, `DELETE tasks/${id}`);
    });

    test('permissions, transitions and defaults depend on the team', async () => {
      const { key } = people.ann;
      const permissionsOn = async (id: number) => {
        const { json } = await call(key, `GET /auth/permissions?resource=tasks&id=${id}`);
        return json.resources as { tasks: { actions: { update: unknown } } } | undefined;
      };
      assert.deepEqual((await permissionsOn(of.bob))?.tasks.actions.update, {
        allowed: true,
        scopes: ['team'],
      });
      assert.equal(await permissionsOn(of.cid), undefined);
      for (const [task, allowed] of [
        [of.bob, true],
        [of.cid, false],
      ] as const) {
        for (const method of ['GET', 'head']) {
          const request = [method, `/api/v1/tasks/${task}`, '--org', 'acme'];
          const caller = ['--as', people.ann.email.toUpperCase()];
          const command = ['profile', 'test', people.ann.profile, ...request, ...caller];
          const { json, text } = await runCommand(instance(), command);
          assert.deepEqual([json.allowed, json.action], [allowed, 'read'], text);
        }
      }
      const stranger = ['GET', '/api/v1/tasks', '--org', 'acme', '--as', administratorOf(beta).email];
      await assert.rejects(
        runCommand(instance(), ['profile', 'test', people.ann.profile, ...stranger]),
        /no member of this organization has the email address admin@beta\.example/,
      );
      const id = await create('t', people.ann, { assignee_id: Number(people.cid.id) }, key);
      const refused = await send(key, `PATCH tasks/${id}`, { status: 'done' });
      assert.deepEqual([refused.status, refused.json.code], [409, 'invalid_transition'], refused.text);
      const done = { assignee_id: Number(people.bob.id) };
      await ok(key, `PATCH tasks/${id}`, done);
      assert.equal((await ok(key, `PATCH tasks/${id}`, { status: 'done' })).json.status, 'done');
      for (const [assignee, expected] of [
        [people.bob, true],
        [people.cid, false],
      ] as const) {
        const body = { name: 't', assignee_id: Number(assignee.id) };
        assert.equal((await ok(key, 'POST tasks', body)).json.is_ours, expected);
      }
      const withoutUser = await limitedKey(instance(), acme, ['*:*']);
      assert.equal((await ok(withoutUser.key, 'POST tasks', done)).json.is_ours, false);
      await ok(acme.key, 'DELETE tasks/batch', { ids: await idsOf('t') });
    });

    test('reads limited by a team use only replicas with every acknowledged write', () => {
      const resource = instance().resources.find(({ name }) => name === 'tasks') ?? assert.fail();
      const accessFor = (...grants: readonly string[]) => {
        const { operations } = resource.viewFor(
          compileGrants(grants.map((action) => ({ object: 'tasks', action }))),
        );
        return [operations.list.readsOnly, operations.read.readsOnly];
      };
      assert.deepEqual(accessFor('list:team', 'read:team'), ['current', 'current']);
      assert.deepEqual(accessFor('list:team', 'read'), ['current', 'current']);
      assert.deepEqual(accessFor('list', 'read'), [true, true]);
    });

    test('commands manage teams', async () => {
      const run = (...args: readonly string[]) => runCommand(instance(), ['team', ...args, '--org', 'beta']);
      const person = await makePerson(instance(), [{ organization: beta }]);
      const { json: created } = await run('create', 'East');
      assert.equal(created.name, 'East');
      const added = await run('add', 'East', person.email.toUpperCase(), people.ann.id);
      assert.deepEqual(added.json.users, [person.email, people.ann.email]);
      await run('rename', 'East', 'Far East');
      const list = await run('list');
      const east = (list.json.teams as { name: string; members: { email: string }[] }[]).find(
        ({ name }) => name === 'Far East',
      );
      assert.deepEqual(
        east?.members.map(({ email }) => email).sort(),
        [person.email, people.ann.email].sort(),
      );
      assert.match(list.text, /^id +name +members\n.*Far East/s);
      for (const [args, message] of [
        [['create', 'North'], /a team named "North" already exists/],
        [['create', ' '], /the name must have 1 to 200 characters/],
        [['rename', 'North', 'Far East'], /a team named "Far East" already exists/],
        [['delete', 'Nort'], /team "Nort" does not exist in this organization\. Available: Far East, North/],
        [['add', 'North', people.bob.email], /is not a member of this organization/],
        [['add', 'Far East', person.email], /already a member of the team/],
        [['remove', 'North', person.email], /is not a member of the team/],
      ] as const)
        await assert.rejects(run(...args), message, args.join(' '));
      await run('remove', 'Far East', person.email);
      await run('delete', 'Far East');
      const did = (await activityOf(instance(), beta.id)).map((entry) => entry.did);
      for (const entry of [
        ...['create', 'update', 'add member', 'remove member', 'delete'].map(
          (action) => `${action} team ${created.id}`,
        ),
        `join team member ${person.id}`,
        `leave team member ${person.id}`,
      ])
        assert.ok(did.includes(entry), `${entry}: ${did}`);
    });

    test('administrators who view records as a profile see those of their own teams', async () => {
      const person = await makePerson(instance(), [{ organization: acme }]);
      const browser = await signIn(instance(), person);
      const id = await profileId(tablesOf(instance().database), acme.id, people.ann.profile);
      const form = '/setup/o/acme/profiles/view-as';
      assert.equal((await browser.submit(`${form}?id=${id}`, form, { id })).status, 303);
      const shownTasks = async () => {
        const { text } = await browser.get('/setup/o/acme/data/tasks');
        return Object.entries(of).flatMap(([name, task]) =>
          new RegExp(`/setup/o/acme/data/tasks/${task}\\b`).test(text) ? [name] : [],
        );
      };
      assert.deepEqual(await shownTasks(), []);
      await join(teams.north, person);
      assert.deepEqual(await shownTasks(), ['ann', 'bob']);
      await leave(teams.north, person);
    });

    test('administrators manage teams in the admin UI', async () => {
      const base = '/setup/o/acme/teams';
      const admin: Visitor = await signIn(instance(), administratorOf(acme));
      const submit = async (action: string, fields: Readonly<Record<string, string>>, query = '') => {
        const answer = await admin.submit(`${base}/${action}${query}`, `${base}/${action}`, fields);
        assert.equal(answer.status, 303, problemOf(answer));
        const { text } = await admin.get(answer.headers.get('location') ?? '');
        return readable(text.replaceAll(/<\/?strong>/g, ''));
      };
      assert.match(await submit('create', { name: 'Field & Co' }), /Field & Co created\./);
      const { id } = await tablesOf(instance().database)
        .selectFrom('crm_teams')
        .select('id')
        .where('name', '=', 'Field & Co')
        .executeTakeFirstOrThrow();
      const conflict = await admin.submit(`${base}/create`, `${base}/create`, { name: 'North' });
      assert.deepEqual([conflict.status, problemOf(conflict)], [400, 'a team named "North" already exists']);
      for (const { id: member } of [people.ann, people.cid])
        assert.match(await submit('add', { member }, `?team=${id}`), /added to the team\./);
      assert.deepEqual(await namesFor(people.ann), ['ann', 'bob', 'cid']);
      const list = readable((await admin.get(`${base}?q=field`)).text);
      assert.match(list, />Field & Co<\/a><\/th><td data-label="Members"[^>]*>2</);
      const members = readable((await admin.get(`${base}?show=team-members&team=${id}`)).text);
      assert.match(members, /Remove the filter Field & Co/);
      // The script of the pages passes on the query string of the list.
      const at = encodeURIComponent(`show=team-members&team=${id}`);
      const form = (await admin.get(`${base}/add?at=${at}`)).text;
      assert.equal(/<option value="(\d+)" selected/.exec(form)?.[1], id, 'the team whose members are listed');
      const row = await tablesOf(instance().database)
        .selectFrom('crm_team_members')
        .select('id')
        .where('team_id', '=', id)
        .where('user_id', '=', people.cid.id)
        .executeTakeFirstOrThrow();
      assert.match(await submit('remove', { id: row.id }, `?id=${row.id}`), /removed from the team\./);
      assert.deepEqual(await namesFor(people.ann), ['ann', 'bob']);
      assert.match(await submit('rename', { id, name: 'Field' }, `?id=${id}`), /Field renamed\./);
      assert.match(await submit('delete', { id }, `?id=${id}`), /Field deleted\./);
      const former = readable((await admin.get(`${base}?show=team-members&team=${id}`)).text);
      assert.match(former, /Remove the filter deleted team/);
      const outOfRange = await admin.get(`${base}?show=team-members&team=${'9'.repeat(20)}`);
      assert.equal(outOfRange.status, 200);
      const activity = readable((await admin.get('/setup/o/acme/activity')).text);
      assert.match(activity, /Team \d+ deleted/);
      assert.match(activity, /Member removed from team \d+/);
      assert.match(activity, /Member “[^”]+” removed from a team/);
    });
  },
  { sources: await sourcesWith(tasks), environment: file.environment },
);
