// Tenant isolation in the admin UI: requests every page and form of one organization, with the same IDs, for
// another organization. The pages must not show the first organization's data, and the forms must not change
// its rows.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { type HttpError, UserError } from '../../engine/errors.ts';
import { everyGrant } from '../../engine/records/index.ts';
import { type Tables, tablesOf, transaction } from '../../engine/tables/handle.ts';
import { findRow } from '../../engine/tables/index.ts';
import { revokeKey, rotateKey } from '../../plugins/access/api-keys/keys.ts';
import { createMemberReset } from '../../plugins/access/identity/resets.ts';
import { cancelInvite, invite, replaceUnmailedCode } from '../../plugins/access/members/invites.ts';
import { changeMember, removeMember } from '../../plugins/access/members/members.ts';
import { connect, createConnections } from '../../plugins/access/oauth/connections.ts';
import {
  adjustProfile,
  changeProfile,
  createProfile,
  deleteProfile,
  profileId,
} from '../../plugins/access/profiles/profiles.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { sealing } from '../../plugins/access/secrets/sealing.ts';
import {
  addTeamMember,
  createTeam,
  deleteTeam,
  removeTeamMember,
  renameTeam,
} from '../../plugins/access/teams/teams.ts';
import {
  changeView,
  createView,
  deleteView,
  findView,
  setDefaultView,
} from '../../plugins/admin-ui/saved-views/saved-views.ts';
import { prepareApprovals, proposalRows } from '../../plugins/api/mcp/approval.ts';
import { cancelVisibleJob, findJob } from '../../plugins/jobs/jobs.ts';
import { cancelJob } from '../../plugins/jobs/queue.ts';
import {
  changeCustomField,
  createCustomField,
  findCustomField,
  setDeleted,
} from '../../plugins/tenants/custom-fields/custom-fields.ts';
import { changeNote, createNote, deleteNote, findNote } from '../../plugins/tenants/notes/notes.ts';
import { inboxQueue } from '../../webhooks/inbox/inbox.ts';
import {
  changeSecrets,
  removeIntegration,
  setIntegrationEnabled,
} from '../../webhooks/inbox/integrations.ts';
import { replayItem } from '../../webhooks/queue/items.ts';
import { deliveryQueue } from '../../webhooks/subscriptions/deliveries.ts';
import {
  changeSubscription,
  removeSubscription,
  rotateSecret,
  sendTest,
} from '../../webhooks/subscriptions/subscriptions.ts';
import { administratorOf, formsOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Instance, onBothDrivers } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { command, makePerson } from '../support/people.ts';
import { formNames, openScreens } from '../support/screens.ts';
import { sourcesWith } from '../support/sources.ts';

/** One of acme's forms, with the values that its administrator would submit. */
interface SentForm {
  readonly action: string;
  readonly fields: Readonly<Record<string, string>>;
}

const missing = '987654321';
/** Columns shown on pages. In acme's rows, each of them contains "acme". */
const shownColumns = ['name', 'email', 'url', 'event_id', 'error', 'payload', 'body', 'actor_name'];
const inBeta = (path: string): string =>
  path
    .replace('/setup/o/acme', '/setup/o/beta')
    .replace('/setup/organizations/acme', '/setup/organizations/beta');

/** The shipped resources. Leads have custom fields, and deleted leads are in the trash. */
const sources = (await sourcesWith()).map(({ file, text }) => ({
  file,
  text: file.endsWith('leads.yaml')
    ? text.replace('\nfields:\n', '\ntrash: 30 days\ncustom_fields: true\nfields:\n')
    : text,
}));

const suite = (instance: () => Instance): void => {
  /** An administrator of beta only. */
  let neighbour: Visitor;
  /** An administrator of both organizations, where only the path identifies the organization. */
  let both: Visitor;
  const links = new Set<string>();
  const forms: SentForm[] = [];
  let acmeId = '';
  let betaId = '';
  /** A member of acme, who writes the note, saves the view, starts the job and connects the app. */
  let member = '';
  /** ID of the lead that has the note and the proposal. */
  let lead = '';
  /** The app's authorization code. */
  let code = '';
  const client = 'https://client.example/';

  const tablesWith = async (column: string) => {
    const { rows } = await sql<{ name: string }>`select c.table_name as name
      from information_schema.columns c join information_schema.columns o using (table_schema, table_name)
      where c.table_schema = current_schema() and o.column_name = 'organization_id'
        and c.column_name = ${column} and c.data_type in ('text', 'bigint')`.execute(
      tablesOf(instance().database),
    );
    return rows.map(({ name }) => name).sort();
  };
  /** Hashes acme's rows in each table, in one statement. */
  const rowsOfAcme = async () => {
    const hashes = (await tablesWith('organization_id'))
      // Usage is counted in memory and stored later.
      .filter((name) => name !== 'crm_name_uses')
      .map(
        (name) => sql`select ${sql.lit(name)} as name,
          md5(string_agg(line, '|' order by line)) as hash
          from (select (to_jsonb(t) - 'last_used_at' - 'last_seen_at')::text as line from ${sql.table(name)} t
            where organization_id = ${acmeId}::bigint) _l`,
      );
    const { rows } = await sql
      .join(hashes, sql` union all `)
      .$castTo<{ name: string; hash: string }>()
      .execute(tablesOf(instance().database));
    return Object.fromEntries(rows.map(({ name, hash }) => [name, hash]));
  };
  /** Follows one link of each kind and collects the forms. */
  const crawl = async (admin: Visitor, starts: readonly string[]) => {
    const kinds = new Set<string>();
    const actions = new Set<string>();
    const kindOf = (path: string) => {
      const { pathname, searchParams } = new URL(path, instance().url);
      return `${pathname.replace(/\d+/g, 'n')}?${[...searchParams.keys()].sort()}`;
    };
    const paths = [...starts];
    for (const path of paths) {
      const page = await admin.get(path);
      for (const { action, values } of formsOf(page)) {
        if (!action.includes('acme') || actions.has(action.replace(/\d+/g, 'n'))) continue;
        actions.add(action.replace(/\d+/g, 'n'));
        forms.push({ action, fields: values });
      }
      for (const [, href = ''] of page.text.matchAll(/href="(\/setup\/(?:o|organizations)\/acme[^"]*)"/g)) {
        const [link = ''] = readable(href).split('#');
        if (kinds.has(kindOf(link))) continue;
        kinds.add(kindOf(link));
        links.add(link);
        paths.push(link);
      }
    }
  };

  /** Stores what the forms of the fixed list do not create: a note, a view, a custom field, a job, a proposal and an app. */
  const storeOthers = (profile: string) =>
    transaction(instance().database, async (tables) => {
      const actor = command(instance());
      const organization = acmeId;
      const own = { organization, user: member, resource: 'leads' };
      const expiresAt = new Date(Date.now() + 86_400_000);
      await createNote(tables, actor, { ...own, record: lead }, { author: member, text: 'acme' });
      const view = { name: 'acme', query: 'rating=Hot', isShared: true };
      await setDefaultView(tables, own, await createView(tables, actor, own, view), true);
      await createCustomField(tables, actor, { ...own, name: 'acme_color' }, { type: 'string' });
      await tables
        .insertInto('crm_jobs')
        .values({
          ...{
            organization_id: organization,
            resource: 'leads',
            action: 'unknown',
            record_id: null,
            input: '{}',
          },
          ...{ caller_kind: 'user', caller_id: member, request_id: 'acme', done: null, total: null },
          ...{ scheduled_for: null, finished_at: null },
        })
        .execute();
      code = await connect(tables, actor, instance().config.keyPrefix, {
        client: { id: client, name: 'acme', host: 'client.example', redirectUris: [client] },
        ...{
          redirectUri: client,
          challenge: 'x',
          organization,
          profile,
          user: member,
          access: 'write',
          expiresAt,
        },
      });
      const [, key = ''] = code.split('.');
      // By then, the code could have expired, and with it the key.
      for (const table of ['crm_api_keys', 'crm_connected_apps'] as const)
        await sql`update ${sql.table(table)} set expires_at = ${expiresAt}
        where organization_id = ${organization}::bigint and ${sql.ref(table === 'crm_api_keys' ? 'id' : 'key_id')} = ${key}::bigint`.execute(
          tables,
        );
      await tables
        .insertInto('crm_proposals')
        .values({
          ...{
            organization_id: organization,
            key_id: key,
            tool: 'update',
            resource: 'leads',
            record_id: lead,
          },
          ...{ action: '', body: '{"company":"acme"}', tag: '', run: null, idempotency_key: null },
          ...{ expires_at: expiresAt, decided_by_id: null, decided_at: null },
        })
        .execute();
    });

  before(async () => {
    const screens = await openScreens(instance());
    const { acme, admin } = screens;
    const tables = tablesOf(instance().database);
    acmeId = acme.id;
    for (const { name, definition } of instance().resources) {
      const text = definition.fields.find((field) => field.type.text !== undefined && !field.readOnly);
      const write = (request: string, value: string) =>
        instance().call(request, { key: acme.key, body: { [text?.name ?? '']: value } });
      for (const value of ['acme-kept', 'acme-deleted']) {
        const { json, status } = await write(`POST /api/v1/${name}`, value);
        assert.equal(status, 201);
        await write(`PATCH /api/v1/${name}/${json.id}`, `${value}-again`);
        if (name === 'leads' && value === 'acme-kept') lead = String(json.id);
        if (value === 'acme-deleted')
          await instance().call(`DELETE /api/v1/${name}/${json.id}`, { key: acme.key });
      }
    }
    const own = administratorOf(acme);
    member = (await makePerson(instance(), [{ organization: acme }])).id;
    await storeOthers(await profileId(tables, acmeId, 'administrator'));
    for (const form of formNames.filter((name) => name.startsWith('/setup/o/'))) {
      const { action, fields } = await screens.ready(form, own);
      forms.push({ action, fields });
    }
    await screens.settled();
    for (const column of shownColumns) {
      for (const table of (await tablesWith(column)).filter((name) => name.startsWith('crm_'))) {
        const isBuiltIn = table === 'crm_profiles' ? sql`name in ('administrator', 'read-only')` : sql`false`;
        await sql`update ${sql.table(table)} set ${sql.ref(column)} = 'acme-' || coalesce(${sql.ref(column)}, '')
          where organization_id = ${acme.id}::bigint and coalesce(${sql.ref(column)}, '') not like '%acme%' and not (${isBuiltIn})`.execute(
          tables,
        );
      }
    }
    await crawl(admin, ['/setup/o/acme', '/setup/organizations']);
    for (const { name } of instance().resources) {
      const { rows } = await sql<{ id: string }>`select object_id::text as id from crm_ledger
      where organization_id = ${acme.id}::bigint and object = ${name} and action in ('delete', 'trash')`.execute(
        tables,
      );
      links.add(`/setup/o/acme/data/${name}/${rows[0]?.id}`);
    }
    betaId = String(
      (
        await tables
          .selectFrom('crm_organizations')
          .select('id')
          .where('slug', '=', 'beta')
          .executeTakeFirstOrThrow()
      ).id,
    );
    neighbour = await signIn(instance(), administratorOf({ ...acme, slug: 'beta' }));
    both = await signIn(
      instance(),
      await makePerson(instance(), [{ organization: acme }, { organization: { id: betaId } }]),
    );
  });

  test('the crawl reaches every section and resource', () => {
    const { resources } = instance();
    const reached = [...links].map((link) => new URL(link, instance().url).pathname);
    for (const { name } of resources) {
      assert.ok(
        reached.some((path) => new RegExp(`/data/${name}/\\d+/edit$`).test(path)),
        name,
      );
    }
    for (const name of [
      'keys/rotate',
      'members/change',
      'members/cancel',
      'events/item',
      'events/subscription',
      'forgetting/find',
      'data/leads/trash',
      'custom-fields/change',
      'jobs',
    ])
      assert.ok(reached.includes(`/setup/o/acme/${name}`), name);
    const actions = new Set(forms.map(({ action }) => action.replace(/\d+/g, 'n').replace(/\?.*/, '')));
    for (const name of [
      ...['restore', 'purge', 'merge', 'notes', 'notes/n/delete'].map((end) => `data/leads/n/${end}`),
      ...['views', 'views/n/edit', 'views/n/query', 'views/n/delete'].map((end) => `data/leads/${end}`),
      ...['apps/disconnect', 'proposals/n', 'custom-fields/change', 'custom-fields/delete'],
    ])
      assert.ok(actions.has(`/setup/o/acme/${name}`), `${name} in ${[...actions]}`);
    for (const name of ['rename', 'export', 'delete'])
      assert.ok(reached.includes(`/setup/organizations/acme/${name}`), name);
    assert.ok(forms.length > 50, `${forms.length} forms`);
  });

  test("no page shows the other organization's data, and its IDs look like missing ones", async () => {
    for (const link of links) {
      const path = inBeta(link);
      // A page may repeat parts of its URL.
      if (path.includes('acme')) continue;
      const answer = await neighbour.get(path);
      assert.ok([200, 303, 400, 404].includes(answer.status), `${path}: ${answer.status}`);
      assert.ok(!readable(answer.text).includes('acme'), `${path}: ${answer.text}`);
      assert.ok(!(answer.headers.get('location') ?? '').includes('acme'), path);
      // A date is not an ID.
      if (!/\d/.test(path) || /\d{4}-\d\d-\d\d\D*$/.test(path)) continue;
      const none = await neighbour.get(path.replace(/\d+(?=[^\d]*$)/, missing));
      assert.equal(answer.status, none.status, `${path} responds like a missing one`);
    }
  });

  test('the functions behind the forms check the organization, too', async () => {
    const before = await rowsOfAcme();
    const { config, database } = instance();
    const actor = command(instance());
    const seals = sealing(instanceSecrets(config));
    const secrets = { secret: 'another', token: 'another' };
    const apps = createConnections({ sign: () => '', verify: () => true });
    const noted = (organization: string) => ({ organization, resource: 'leads', record: lead });
    const listIn = (organization: string) => ({ organization, user: member, resource: 'leads' });
    const view = { name: 'acme', query: 'rating=Hot', isShared: true, isOwn: true, isDefault: true };
    const calls: readonly (readonly [
      table: string,
      call: (tables: Tables, beta: string, id: string) => unknown,
    ])[] = [
      ['crm_invites', (tables, beta, id) => cancelInvite(tables, actor, beta, id)],
      ['crm_invites', (tables, beta, id) => replaceUnmailedCode(tables, beta, id)],
      ['crm_api_keys', (tables, beta, id) => revokeKey(tables, actor, beta, id)],
      [
        'crm_api_keys',
        (tables, organization, id) =>
          rotateKey(tables, actor, config.keyPrefix, { organization, id, overlapMs: 1 }),
      ],
      ['crm_profiles', (tables, beta, id) => changeProfile(tables, actor, beta, id, [])],
      ['crm_profiles', (tables, beta, id) => deleteProfile(tables, actor, beta, id)],
      ['crm_teams', (tables, beta, id) => renameTeam(tables, actor, beta, id, 'changed')],
      ['crm_teams', (tables, beta, id) => addTeamMember(tables, actor, beta, id, id)],
      ['crm_teams', (tables, beta, id) => deleteTeam(tables, actor, beta, id)],
      [
        'crm_profiles',
        (tables, beta, id) => {
          const grants = [{ object: 'leads', actions: ['list'] }];
          return adjustProfile(tables, actor, beta, id, { add: grants }, []);
        },
      ],
      [
        'crm_team_members',
        async (tables, beta, id) => {
          const { team_id, user_id } = await tables
            .selectFrom('crm_team_members')
            .select(['team_id', 'user_id'])
            .where('id', '=', id)
            .executeTakeFirstOrThrow();
          await removeTeamMember(tables, actor, beta, team_id, user_id);
        },
      ],
      [
        'crm_users',
        async (tables, beta, id) =>
          changeMember(tables, actor, beta, id, await profileId(tables, beta, 'read-only')),
      ],
      ['crm_users', (tables, beta, id) => removeMember(tables, actor, beta, id)],
      ['crm_users', (tables, beta, id) => createMemberReset(tables, actor, beta, id)],
      ['crm_integrations', (tables, beta, id) => setIntegrationEnabled(tables, actor, beta, id, false)],
      ['crm_integrations', (tables, beta, id) => changeSecrets(tables, actor, seals, beta, id, secrets)],
      ['crm_integrations', (tables, beta, id) => removeIntegration(tables, actor, beta, id)],
      ['crm_inbox', (tables, beta, id) => replayItem(tables, inboxQueue, actor, beta, id)],
      ['crm_event_deliveries', (tables, beta, id) => replayItem(tables, deliveryQueue, actor, beta, id)],
      ...[
        (tables: Tables, beta: string, id: string) =>
          changeSubscription(tables, actor, beta, id, { state: 'off', resources: ['leads'] }),
        (tables: Tables, beta: string, id: string) => rotateSecret(tables, actor, seals, beta, id),
        (tables: Tables, beta: string, id: string) => removeSubscription(tables, actor, beta, id),
        (tables: Tables, beta: string, id: string) => sendTest(tables, beta, id),
      ].map((call) => ['crm_event_subscriptions', call] as const),
      ['crm_notes', (tables, beta, id) => changeNote(tables, actor, noted(beta), { id, text: 'changed' })],
      ['crm_notes', (tables, beta, id) => deleteNote(tables, actor, noted(beta), id)],
      ...[
        (tables: Tables, beta: string, id: string) =>
          changeView(tables, actor, listIn(beta), { ...view, id }, { ...view, name: 'changed' }),
        (tables: Tables, beta: string, id: string) =>
          deleteView(tables, actor, listIn(beta), { ...view, id }),
        (tables: Tables, beta: string, id: string) => setDefaultView(tables, listIn(beta), id, false),
      ].map((call) => ['crm_saved_views', call] as const),
      [
        'crm_custom_fields',
        (tables, beta, id) =>
          changeCustomField(tables, actor, beta, id, { type: 'string', label: 'changed' }),
      ],
      ['crm_custom_fields', (tables, beta, id) => setDeleted(tables, actor, beta, id, true)],
      ['crm_jobs', (tables, beta, id) => cancelJob(tables, beta, id)],
      [
        'crm_connected_apps',
        async (tables, organization, key) => {
          const ids = { organization, key, user: member, client };
          const request = { client, requestId: 'beta', audited: true };
          await apps.revoke(tables, { ...request, token: '', claims: ids });
          const token = code.replace(/^\d+/, organization);
          await apps.redeem(tables, { ...request, code: token, verifier: 'x', redirectUri: client });
          await apps.refresh(tables, { ...request, refreshToken: token });
        },
      ],
    ];
    for (const [table, call] of calls) {
      const column = sql.ref(table === 'crm_connected_apps' ? 'key_id' : 'id');
      const { rows } = await sql<{ id: string }>`select ${column}::text as id from ${sql.table(table)}
        where organization_id = ${acmeId}::bigint order by ${column} desc`.execute(tablesOf(database));
      assert.ok(rows.length > 0, `${table} has rows of acme`);
      for (const { id } of rows) {
        await transaction(database, async (tables) => {
          await call(tables, betaId, id);
        }).catch((cause: unknown) => assert.ok(cause instanceof UserError, `${table}: ${cause}`));
      }
      assert.deepEqual(await rowsOfAcme(), before, `${table}: ${call}`);
    }
  });

  test('the functions behind the pages find nothing of the other organization', async () => {
    const { app, database, resources } = instance();
    const tables = tablesOf(database);
    const before = await rowsOfAcme();
    const idIn = async (table: string) => {
      const { rows } = await sql<{ id: string }>`select id::text as id from ${sql.table(table)}
        where organization_id = ${acmeId}::bigint`.execute(tables);
      return rows[0]?.id ?? assert.fail(table);
    };
    const [note, view, job, proposal] = [
      await idIn('crm_notes'),
      await idIn('crm_saved_views'),
      await idIn('crm_jobs'),
      await idIn('crm_proposals'),
    ];
    const { approve, reject } = prepareApprovals(app, { database, resources });
    const jobs = { database, resources, types: [], audited: true };
    /** Returns the same user as a caller in an organization. */
    const callerIn = (organization: string) => {
      const identity = { kind: 'user' as const, actor: member, organization, user: member };
      return { principal: { ...identity, name: 'acme', grants: everyGrant }, requestId: 'isolation' };
    };
    const found = async (organization: string) => {
      const list = { organization, user: member, resource: 'leads' };
      return {
        note: (await findNote(tables, { ...list, record: lead }, note)) !== undefined,
        view: (await findView(tables, list, view)) !== undefined,
        field: (await findCustomField(tables, { ...list, name: 'acme_color' })) !== undefined,
        proposal: (await findRow(tables, proposalRows, organization, proposal)) !== undefined,
        job: await findJob(jobs, callerIn(organization), job).then(
          () => true,
          ({ status }: HttpError) => status !== 404,
        ),
      };
    };
    const all = { note: true, view: true, field: true, proposal: true, job: true };
    assert.deepEqual(await found(acmeId), all);
    assert.deepEqual(await found(betaId), {
      note: false,
      view: false,
      field: false,
      proposal: false,
      job: false,
    });
    await assert.rejects(cancelVisibleJob(jobs, callerIn(betaId), job), { status: 404 });
    const proposed = (await findRow(tables, proposalRows, acmeId, proposal)) ?? assert.fail();
    assert.equal(await reject(proposed, callerIn(betaId), 'changed'), false);
    assert.equal(await approve(proposed, callerIn(betaId), ''), 'key');
    assert.deepEqual(await rowsOfAcme(), before);
  });

  test('the functions behind the forms change only the row that they name', async () => {
    const { config, database } = instance();
    const actor = command(instance());
    const owner = await instance().organization('pairs');
    const { id: organization } = owner;
    /** Creates two profiles, keys and invitations, and a team with a member. */
    const make = async (name: string) => {
      const { id: member } = await makePerson(instance(), [{ organization: owner, grants: [] }]);
      const keys = [await owner.makeKey(), await owner.makeKey()].map(({ id }) => id);
      return transaction(database, async (tables) => {
        const profileWith = (title: string) =>
          createProfile(tables, actor, organization, `${title} ${name}`, [
            { object: 'leads', actions: ['list', 'read'] },
          ]);
        const profiles = [await profileWith('used'), await profileWith('unused')] as const;
        const [profile] = profiles;
        const inviteAs = (email: string) => invite(tables, actor, { organization, email, profile });
        const invites = [
          (await inviteAs(`${name}-1@people.example`)).id,
          (await inviteAs(`${name}-2@people.example`)).id,
        ];
        const team = await createTeam(tables, actor, organization, name);
        await addTeamMember(tables, actor, organization, team, member);
        return { member, profiles, keys, invites, team };
      });
    };
    const [one, other] = [await make('one'), await make('other')];
    const rowsOf = ({ member, profiles, keys, invites, team }: typeof one) =>
      Promise.all(
        (
          [
            ['crm_memberships', 'user_id', [member]],
            ['crm_profiles', 'id', profiles],
            ['crm_grants', 'profile_id', profiles],
            ['crm_api_keys', 'id', keys],
            ['crm_invites', 'id', invites],
            ['crm_teams', 'id', [team]],
            ['crm_team_members', 'team_id', [team]],
          ] as const
        ).map(async ([table, column, ids]) => {
          const { rows } = await sql<{
            line: string;
          }>`select to_jsonb(t)::text as line from ${sql.table(table)} t
            where organization_id = ${organization}::bigint and ${sql.ref(column)} in (${sql.join(ids)}) order by 1`.execute(
            tablesOf(database),
          );
          return rows.map(({ line }) => line);
        }),
      );
    const before = await rowsOf(other);
    assert.deepEqual(
      before.map((rows) => rows.length),
      [1, 2, 4, 2, 2, 1, 1],
    );
    const { member, profiles, keys, invites, team } = one;
    const [key = '', rotated = ''] = keys;
    const [invitation = ''] = invites;
    const list = [{ object: 'leads', actions: ['list'] }];
    const administrator = await profileId(tablesOf(database), organization, 'administrator');
    const calls: readonly ((tables: Tables) => Promise<unknown>)[] = [
      (tables) => revokeKey(tables, actor, organization, key),
      (tables) => rotateKey(tables, actor, config.keyPrefix, { organization, id: rotated, overlapMs: 1 }),
      (tables) => replaceUnmailedCode(tables, organization, invitation),
      (tables) => cancelInvite(tables, actor, organization, invitation),
      (tables) => changeMember(tables, actor, organization, member, administrator),
      (tables) => adjustProfile(tables, actor, organization, profiles[0], { add: [], remove: list }, []),
      (tables) => changeProfile(tables, actor, organization, profiles[0], list),
      (tables) => deleteProfile(tables, actor, organization, profiles[1]),
      (tables) => renameTeam(tables, actor, organization, team, 'renamed'),
      (tables) => removeTeamMember(tables, actor, organization, team, member),
      (tables) => addTeamMember(tables, actor, organization, team, member),
      (tables) => removeMember(tables, actor, organization, member),
      (tables) => deleteTeam(tables, actor, organization, team),
    ];
    for (const call of calls) {
      const own = await rowsOf(one);
      await transaction(database, call);
      assert.deepEqual(await rowsOf(other), before, String(call));
      assert.notDeepEqual(await rowsOf(one), own, String(call));
    }
  });

  test("no form changes the other organization's rows, and its IDs look like missing ones", async () => {
    const before = await rowsOfAcme();
    const steady = (answer: Answer) => problemOf(answer).replaceAll(/\d+/g, 'n');
    const sent: string[] = [];
    for (const by of [neighbour, both]) {
      const _csrf = await by.token('/setup/me');
      for (const { action, fields } of forms) {
        const path = inBeta(action);
        // Forms for a whole organization do not contain row IDs.
        if (path.startsWith('/setup/organizations/')) continue;
        const typed = { word: 'erase', ...fields, _csrf };
        const answer = await by.post(path, typed);
        if (by === neighbour) assert.ok(!readable(answer.text).includes('acme'), `${path}: ${answer.text}`);
        if (fields.id !== undefined) {
          const none = await by.post(path, { ...typed, id: missing });
          const problems = [answer, none].map((response) => [response.status, steady(response)]);
          assert.deepEqual(problems, Array(2).fill([400, steady(none)]), `${path} ${JSON.stringify(fields)}`);
        }
        if (/\/data\/\w+\/\d/.test(path)) assert.equal(answer.status, 404, path);
        sent.push(path);
        if (sent.length % 10 === 0) assert.deepEqual(await rowsOfAcme(), before, `one of ${sent.slice(-10)}`);
      }
    }
    assert.deepEqual(await rowsOfAcme(), before, `one of ${sent.slice(-10)}`);
  });
};

onBothDrivers('two organizations in the admin UI', suite, {
  environment: settingsFile({ mcp: true }).environment,
  sources,
});
