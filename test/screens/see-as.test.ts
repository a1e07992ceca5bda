// Administrators view the pages of records as a profile: read-only, with the profile's scopes and field groups.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { tablesOf, transaction } from '../../engine/tables/index.ts';
import { changeMember } from '../../plugins/access/members/members.ts';
import type { Grant } from '../../plugins/access/profiles/grants.ts';
import { createProfile, deleteProfile } from '../../plugins/access/profiles/profiles.ts';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { deals } from '../support/guarded.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { command, fresh, makePerson, soonerThan } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

const assignable = {
  file: 'resources/assignable-deals.yaml',
  text: `extends: deals
trash: 30 days
fields:
  owner_id: { assignable: true }
  stage: { type: string, enum: [Open, Won], default: Open, description: Stage. }
filters: [stage]
`,
};
const home = '/setup/o/acme';
const list = `${home}/data/deals`;
const profiles = `${home}/profiles`;
const cookie = 'crm_view_as';
const banner = /You see the records as the profile/;

onBothDrivers(
  'viewing records as a profile',
  (instance) => {
    let acme: Organization;
    let large: number;
    let small: number;
    before(async () => {
      acme = await instance().organization('acme');
      const create = async (body: unknown) => {
        const answer = await instance().call('POST /api/v1/deals', { key: acme.key, body });
        assert.equal(answer.status, 201, answer.text);
        return Number(answer.json.id);
      };
      large = await create({ title: 'Large deal', size: 50, margin: 471_147_711 });
      small = await create({ title: 'Small deal', size: 5, margin: 471_147_712 });
    });

    const everything: Grant = { object: 'deals', actions: ['*'] };
    const profileWith = async (...grants: readonly Grant[]) => {
      const name = fresh('profile');
      const id = await transaction(instance().database, (tables) =>
        createProfile(tables, command(instance()), acme.id, name, grants),
      );
      return { id, name };
    };
    /** All actions on small deals, which a viewer must not be able to perform. */
    const writers: Grant = { object: 'deals', actions: ['*:small'] };
    const view = (browser: Visitor, id: string) =>
      browser.submit(`${profiles}/view-as?id=${id}`, `${profiles}/view-as`, { id });
    /** Logs in as an administrator who views records as a new profile. */
    const viewer = async (...grants: readonly Grant[]) => {
      const person = await makePerson(instance(), [{ organization: acme }]);
      const browser = await signIn(instance(), person);
      const profile = await profileWith(...grants);
      const answer = await view(browser, profile.id);
      assert.equal(answer.status, 303, answer.text);
      assert.equal(answer.headers.get('location'), list);
      return { ...{ browser, profile, person }, text: async () => readable((await browser.get(list)).text) };
    };
    const isUnlimited = async (browser: Visitor) => {
      const { text } = await browser.get(list);
      assert.match(text, /Large deal/);
      assert.doesNotMatch(text, banner);
      assert.equal(browser.cookies.get(cookie), undefined);
    };

    test('shows only the records, fields and resources that the profile allows', async () => {
      const { browser, profile, text } = await viewer(writers);
      const page = await text();
      assert.match(page, /Small deal/);
      assert.doesNotMatch(page, /Large deal|471,?147|data\/leads"/);
      assert.match(page, new RegExp(`as the profile <strong>${profile.name}</strong>`));
      assert.equal((await browser.get(`${list}/${large}`)).status, 404);
      const record = readable((await browser.get(`${list}/${small}`)).text);
      assert.match(record, banner);
      assert.doesNotMatch(record, /471,?147|Margin|\/edit"|\/delete"/);
      assert.equal((await browser.get(`${home}/data/leads`)).status, 403);
      const search = readable((await browser.get(`${home}/search?q=${large}`)).text);
      assert.match(search, banner);
      assert.doesNotMatch(search, /Large deal/);
      assert.match(readable((await browser.get(`${home}/search?q=${small}`)).text), /Small deal/);
      const csv = (await browser.get(`${list}/export`)).text;
      assert.match(csv, /Small deal/);
      assert.doesNotMatch(csv, /Large deal|margin/);
    });

    test('shows a field group that the profile grants', async () => {
      const { browser } = await viewer(
        { object: 'deals', actions: ['list', 'read'] },
        { object: 'deals.finance', actions: ['read'] },
      );
      assert.match((await browser.get(`${list}/${large}`)).text, /471,?147,?711/);
    });

    test('shows email addresses of members if the profile grants them', async () => {
      const owner = await makePerson(instance(), [{ organization: acme }]);
      const body = { title: 'Owned deal', owner_id: Number(owner.id) };
      const { json } = await instance().call('POST /api/v1/deals', { key: acme.key, body });
      const readers: Grant = { object: 'deals', actions: ['list', 'read'] };
      for (const more of [[], [{ object: 'members', actions: ['list'] }]] as const) {
        const { browser } = await viewer(readers, ...more);
        const { text } = await browser.get(`${list}/${json.id}`);
        assert.match(text, /Owned deal/);
        assert.equal(text.includes(owner.email), more.length > 0);
      }
    });

    test('rejects all changes', async () => {
      const { browser, person } = await viewer(everything, { object: 'deals.finance', actions: ['*'] });
      const _csrf = await browser.token(list);
      const created = await instance().call('POST /api/v1/deals', {
        key: acme.key,
        body: { title: 'Trashed' },
      });
      const trashed = Number(created.json.id);
      // The same user deletes a record in another session, in which the records are not viewed as a profile.
      const own = await signIn(instance(), person);
      const deleted = await own.post(`${list}/delete`, { _csrf: await own.token(list), id: String(trashed) });
      assert.equal(deleted.status, 303, deleted.text);
      const { transaction: batch } = await tablesOf(instance().database)
        .selectFrom('crm_ledger')
        .select('transaction')
        .where('object', '=', 'deals')
        .where('object_id', '=', String(trashed))
        .where('action', '=', 'trash')
        .executeTakeFirstOrThrow();
      const stored = async () => {
        const records = await instance().call('GET /api/v1/deals', { key: acme.key });
        const histories = await Promise.all(
          [small, trashed].map((id) => instance().call(`GET /api/v1/deals/${id}/history`, { key: acme.key })),
        );
        const trash = await instance().call('GET /api/v1/deals?trashed=true', { key: acme.key });
        const notes = await tablesOf(instance().database).selectFrom('crm_notes').selectAll().execute();
        return [records.json.data, trash.json.data, ...histories.map(({ json }) => json.data), notes];
      };
      const body = { title: 'Small deal', size: 6 };
      const update = await instance().call(`PATCH /api/v1/deals/${small}`, { key: acme.key, body });
      assert.equal(update.status, 200, update.text);
      const admin = await signIn(instance(), administratorOf(acme));
      const [, change = ''] =
        /undo\?change=([\w-]+)/.exec(readable((await admin.get(`${list}/${small}`)).text)) ?? [];
      assert.notEqual(change, '');
      const before = await stored();
      const content = Buffer.from('title\nImported\n').toString('base64');
      for (const [path, fields] of [
        ['/new', { title: 'New' }],
        [`/${small}/edit`, { title: 'Changed' }],
        [`/${small}/delete`, {}],
        [`/${small}/undo`, { change }],
        ['/import', { step: 'import', content, key: 'k' }],
        ['/reassign', { field: 'owner_id', user: acme.user }],
        ['/delete', { id: String(small) }],
        ['/undo', { change: String(batch) }],
        [`/${small}/board`, { by: 'stage', before: 'Open', to: 'Won' }],
        [`/${small}/notes`, { text: 'A note' }],
        [`/${trashed}/restore`, {}],
        [`/${trashed}/purge`, {}],
      ] as const) {
        const answer = await browser.post(`${list}${path}`, { _csrf, ...fields });
        assert.equal(answer.status, 403, path);
      }
      for (const path of [
        '/new',
        `/${small}/edit`,
        `/${small}/delete`,
        '/import',
        `/${trashed}/restore`,
        `/${trashed}/purge`,
      ])
        assert.equal((await browser.get(`${list}${path}`)).status, 403, path);
      assert.deepEqual(await stored(), before);
    });

    test('ends with Stop', async () => {
      const { browser } = await viewer(writers);
      const stop = `${home}/view-as/stop`;
      assert.equal((await browser.post(stop, {})).status, 403, 'without a form token');
      assert.match((await browser.get(list)).text, banner);
      assert.equal((await browser.submit(list, stop)).status, 303);
      await isUnlimited(browser);
    });

    test('ends when the profile is deleted', async () => {
      const { browser, profile } = await viewer(writers);
      await transaction(instance().database, (tables) =>
        deleteProfile(tables, command(instance()), acme.id, profile.id),
      );
      await isUnlimited(browser);
    });

    test('ends when the user is no longer an administrator', async () => {
      const { browser, person } = await viewer(everything);
      const { id } = await profileWith(writers);
      await transaction(instance().database, (tables) =>
        changeMember(tables, command(instance()), acme.id, person.id, id),
      );
      // Sessions are cached for less than a second.
      await soonerThan(1000, async () => !banner.test((await browser.get(list)).text));
      assert.equal(browser.cookies.get(cookie), undefined);
      assert.doesNotMatch((await browser.get(list)).text, /Large deal/);
    });

    describe('the cookie', () => {
      test('is ignored in another session', async () => {
        const { browser } = await viewer(writers);
        const admin = await signIn(instance(), administratorOf(acme));
        admin.cookies.set(cookie, browser.cookies.get(cookie) ?? '');
        await isUnlimited(admin);
      });

      test('is ignored if it does not contain an ID', async () => {
        const { browser } = await viewer(writers);
        const [, session] = (browser.cookies.get(cookie) ?? '').split('.');
        browser.cookies.set(cookie, `x.${session}`);
        await isUnlimited(browser);
      });

      test('is ignored in another organization', async () => {
        const other = await instance().organization(fresh('other'));
        const { browser } = await viewer(everything);
        const admin = await signIn(instance(), administratorOf(other));
        const [profile] = (browser.cookies.get(cookie) ?? '').split('.');
        const { id } = await tablesOf(instance().database)
          .selectFrom('crm_sessions')
          .select('id')
          .where('user_id', '=', other.user)
          .orderBy('created_at', 'desc')
          .executeTakeFirstOrThrow();
        admin.cookies.set(cookie, `${profile}.${id}`);
        const { text } = await admin.get(`/setup/o/${other.slug}/data/deals`);
        assert.doesNotMatch(text, banner);
        assert.equal(admin.cookies.get(cookie), undefined);
        assert.equal((await admin.get(list)).status, 403);
      });

      test('is not given to members who are not administrators', async () => {
        const member = await makePerson(instance(), [{ organization: acme, grants: [writers] }]);
        const browser = await signIn(instance(), member);
        const { id } = await profileWith({ object: '*', actions: ['list', 'read'] });
        const _csrf = await browser.token('/setup/me');
        assert.equal((await browser.post(`${profiles}/view-as`, { _csrf, id })).status, 403);
        assert.equal(browser.cookies.get(cookie), undefined);
      });
    });

    test('is offered on the pages of profiles, and the activity shows it', async () => {
      const { browser, profile } = await viewer(writers);
      const link = `${profiles}/view-as?id=${profile.id}`;
      assert.ok(readable((await browser.get(`${profiles}/change?id=${profile.id}`)).text).includes(link));
      assert.equal(
        formsOf(await browser.get(link)).filter(({ values }) => values.id === profile.id).length,
        1,
      );
      const activity = readable((await browser.get(`${home}/activity`)).text);
      assert.match(activity, new RegExp(`Records viewed as profile (${profile.id}|“${profile.name}”)`));
    });

    test('needs a profile that can list records', async () => {
      const browser = await signIn(instance(), administratorOf(acme));
      const { id } = await profileWith({ object: 'deals', actions: ['read'] });
      const answer = await view(browser, id);
      assert.equal(answer.status, 400);
      assert.match(answer.text, /this profile cannot list any records/i);
      assert.equal(browser.cookies.get(cookie), undefined);
    });
  },
  { sources: await sourcesWith(deals, assignable) },
);
