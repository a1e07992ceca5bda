// Records whose assigned user is no longer a member: the home page lists them, a form reassigns them, `crm doctor` reports them.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { formerUsers } from '../../plugins/admin-ui/records/former-users.ts';
import { readable, signIn } from '../support/forms.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { logIn, makePerson, type Person } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

const overlay = {
  file: 'resources/own-leads.yaml',
  text: 'extends: leads\ntrash: 30 days\nfields:\n  owner_id: { assignable: true }\n',
};

const desks = {
  file: 'desks.yaml',
  text: `
fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  owner_id: { type: user, nullable: true }
`,
};

onBothDrivers(
  'records without an active owner',
  (instance) => {
    let acme: Organization;
    let ann: Person;
    let former: Person;
    let byAnn: Readonly<Record<string, string>>;
    const form = '/setup/o/acme/data/leads/reassign';
    before(async () => {
      acme = await instance().organization('acme');
      ann = await makePerson(instance(), [{ organization: acme }]);
      former = await makePerson(instance(), [{ organization: acme }]);
      byAnn = (await logIn(instance(), ann)).byToken;
    });
    const send = (request: string, body?: unknown) =>
      instance().call(request.replace(' /', ' /api/v1/'), { headers: byAnn, body });
    const findings = () =>
      formerUsers.run({ database: instance().database, resources: instance().resources });

    test('are listed and reassigned, with a change in each history', async () => {
      const browser = await signIn(instance(), ann);
      const home = async () => readable((await browser.get('/setup/o/acme')).text);
      const records = [former, former, ann, former].map(({ id }) => ({
        last_name: 'X',
        owner_id: Number(id),
      }));
      const created = await send('POST /leads/batch', { records });
      assert.equal(created.status, 200, created.text);
      const ids = (created.json.results as { id: number }[]).map(({ id }) => id);
      // Records in the trash do not count.
      const trashed = ids.pop();
      assert.equal((await send(`DELETE /leads/${trashed}`)).status, 200);
      assert.doesNotMatch(await home(), /without an active owner/);
      assert.deepEqual(await findings(), []);
      await tablesOf(instance().database)
        .deleteFrom('crm_memberships')
        .where('user_id', '=', former.id)
        .execute();
      assert.match(await home(), /Records without an active owner: 2 records of leads\./);
      const setDisabled = (disabled_at: Date | null) =>
        tablesOf(instance().database)
          .updateTable('crm_users')
          .set({ disabled_at })
          .where('id', '=', ann.id)
          .execute();
      await setDisabled(new Date());
      assert.match(await home(), /Records without an active owner: 3 records of leads\./);
      await setDisabled(null);
      const [finding] = await findings();
      assert.equal(finding?.location, 'organization acme');
      assert.match(
        finding?.message ?? '',
        /^2 records of leads have a "owner_id" who is no longer an active member$/,
      );

      for (const [added, found] of [
        [10_000, '10,000 records'],
        [1, 'More than 10,000 records'],
      ] as const) {
        await sql`insert into desks (organization_id, owner_id)
          select ${acme.id}::bigint, ${former.id}::bigint from generate_series(1, ${added}::int)`.execute(
          tablesOf(instance().database),
        );
        assert.ok((await home()).includes(`Records without an active owner: ${found} of desks.`), found);
      }
      await sql`delete from desks`.execute(tablesOf(instance().database));
      const page = readable((await browser.get(`${form}?field=owner_id`)).text);
      assert.match(page, new RegExp(`<option value="${ann.id}">`));
      assert.doesNotMatch(page, new RegExp(`<option value="${former.id}">`));
      const rejected = await browser.submit(`${form}?field=owner_id`, form, { user: former.id });
      assert.equal(rejected.status, 400);
      const done = await browser.submit(`${form}?field=owner_id`, form, { user: ann.id });
      assert.equal(done.status, 303);
      for (const id of ids) assert.equal((await send(`GET /leads/${id}`)).json.owner_id, Number(ann.id));
      assert.equal((await send(`POST /leads/${trashed}/restore`)).json.owner_id, Number(former.id));
      assert.match(await home(), /Records without an active owner: 1 record of leads\./);
      assert.match((await findings())[0]?.message ?? '', /^1 record of leads has a "owner_id"/);
      assert.equal((await send(`DELETE /leads/${trashed}`)).status, 200);
      const history = await send(`GET /leads/${ids[0]}/history`);
      const [change] = history.json.data as { action: string; changed: string[] }[];
      assert.equal(change?.action, 'update');
      assert.ok(change?.changed.includes('owner_id'));
      const untouched = await send(`GET /leads/${ids[2]}/history`);
      assert.equal((untouched.json.data as unknown[]).length, 1, 'records of members are unchanged');
      assert.doesNotMatch(await home(), /without an active owner/);
      assert.deepEqual(await findings(), []);
    });

    test('more records than one statement writes are reassigned, and other organizations are not counted', async () => {
      const gone = await makePerson(instance(), [{ organization: acme }]);
      const beta = await instance().organization('beta');
      const tables = tablesOf(instance().database);
      const insert = (organization: string, count: number) =>
        sql`insert into leads (organization_id, owner_id, created_at, updated_at)
          select ${organization}::bigint, ${gone.id}::bigint, now(), now() from generate_series(1, ${count}::int)`.execute(
          tables,
        );
      await insert(acme.id, 501);
      await insert(beta.id, 2);
      await tables.deleteFrom('crm_memberships').where('user_id', '=', gone.id).execute();
      const browser = await signIn(instance(), ann);
      assert.match(readable((await browser.get('/setup/o/acme')).text), /owner: 501 records of leads\./);
      const done = await browser.submit(`${form}?field=owner_id`, form, { user: ann.id });
      assert.match(
        (await browser.get(done.headers.get('location') ?? '')).text,
        /<strong>501 records<\/strong>/,
      );
      const { rows } =
        await sql`select organization_id::text as organization, count(*)::int as count from leads
        where owner_id = ${gone.id}::bigint group by 1`.execute(tables);
      assert.deepEqual(rows, [{ organization: beta.id, count: 2 }]);
    });

    test('IDs beyond 2^53 are exact', async () => {
      const gone = await makePerson(instance(), [{ organization: acme }]);
      const tables = tablesOf(instance().database);
      const [first, second] = ['9007199254740992', '9007199254740993'];
      for (const [id, owner] of [
        [first, ann.id],
        [second, gone.id],
      ])
        await sql`insert into leads (organization_id, id, owner_id, created_at, updated_at)
          values (${acme.id}::bigint, ${id}::bigint, ${owner}::bigint, now(), now())`.execute(tables);
      await tables.deleteFrom('crm_memberships').where('user_id', '=', gone.id).execute();
      const browser = await signIn(instance(), ann);
      await browser.submit(`${form}?field=owner_id`, form, { user: ann.id });
      const { rows } = await sql<{ id: string; owner: string; version: string }>`
        select id::text, owner_id::text as owner, _version::text as version from leads where id >= ${first}::bigint order by id`.execute(
        tables,
      );
      assert.deepEqual(rows, [
        { id: first, owner: ann.id, version: '1' },
        { id: second, owner: ann.id, version: '2' },
      ]);
    });

    test('only administrators reassign, and only fields that can be assigned', async () => {
      const member = await makePerson(instance(), [
        { organization: acme, grants: [{ object: 'leads', actions: ['*'] }] },
      ]);
      const browser = await signIn(instance(), member);
      assert.equal((await browser.get(`${form}?field=owner_id`)).status, 403);
      const fields = { _csrf: await browser.token('/setup/me'), field: 'owner_id', user: ann.id };
      assert.equal((await browser.post(form, fields)).status, 403);
      const admin = await signIn(instance(), ann);
      assert.equal((await admin.get(`${form}?field=created_by_id`)).status, 404);
      assert.equal((await admin.get('/setup/o/acme/data/accounts/reassign?field=owner_id')).status, 404);
    });
  },
  { sources: await sourcesWith(overlay, desks) },
);
