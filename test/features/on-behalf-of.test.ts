// API keys on behalf of a member: they can do only what both the key's and the member's grants allow, act as the member,
// and end with the membership.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { tablesOf, transaction } from '../../engine/tables/index.ts';
import { createKey, revokeKey, rotateKey } from '../../plugins/access/api-keys/keys.ts';
import { disableUser, enableUser, findUserBy, verifyEmail } from '../../plugins/access/identity/index.ts';
import { addExistingUser, changeName } from '../../plugins/access/identity/users.ts';
import { changeMember, removeMember } from '../../plugins/access/members/members.ts';
import type { Grant } from '../../plugins/access/profiles/grants.ts';
import { createProfile, profileId } from '../../plugins/access/profiles/profiles.ts';
import { administratorOf, optionOf, problemOf, readable, shownIn, signIn } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import {
  activityOf,
  command,
  fresh,
  makePerson,
  type Node,
  type Person,
  secondNode,
  soonerThan,
} from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { sourcesWith } from '../support/sources.ts';
import { untilWaiting } from '../support/uncommitted.ts';

const overlay = {
  file: 'resources/own-leads.yaml',
  text: `
extends: leads
scopes:
  own: owner_id == me
  web: source == "Website"
fields:
  owner_id: { assignable: true }
`,
};

const onLeads = (...actions: Grant['actions']): Grant[] => [{ object: 'leads', actions }];
const everything: Grant[] = [{ object: '*', actions: ['*'] }];

onBothDrivers(
  'keys on behalf of members',
  (instance, driver) => {
    let acme: Organization;
    let beta: Organization;
    let second: Node;
    before(async () => {
      acme = await instance().organization('acme');
      beta = await instance().organization('beta');
      second = await secondNode(instance());
    });
    after(() => second.close());
    const by = () => command(instance());
    const profileWith = (grants: readonly Grant[], organization = acme) =>
      transaction(instance().database, (tables) =>
        createProfile(tables, by(), organization.id, fresh('profile'), grants),
      );
    /** Returns a profile with grants that are limited to scopes, each as `action:scope`. */
    const scopedProfile = async (...actions: readonly string[]) => {
      const profile_id = await profileWith([]);
      const rows = actions.map((action) => ({
        ...{ organization_id: acme.id, profile_id },
        ...{ object: 'leads', action },
      }));
      await tablesOf(instance().database).insertInto('crm_grants').values(rows).execute();
      return profile_id;
    };
    /** Creates a key with a profile on behalf of a member. */
    const keyFor = ({ id }: Pick<Person, 'id'>, profile: string, organization = acme) =>
      transaction(instance().database, (tables) =>
        createKey(tables, by(), 'crm_', {
          ...{ organization: organization.id, profile, name: 'Assistant', user: organization.user },
          ...{ onBehalfOf: id, expiresAt: null },
        }),
      );
    const memberWith = (grants?: readonly Grant[]) =>
      makePerson(instance(), [{ organization: acme, ...(grants && { grants }) }]);
    const moveTo = ({ id }: Person, profile: string) =>
      transaction(instance().database, (tables) => changeMember(tables, by(), acme.id, id, profile));
    const remove = ({ id }: Person) =>
      transaction(instance().database, (tables) => removeMember(tables, by(), acme.id, id));
    const call = (key: string, request: string, body?: unknown) =>
      instance().call(request.replace(' /', ' /api/v1/'), { key, ...(body !== undefined && { body }) });
    const createLead = async (key: string, body: object = {}) => {
      const answer = await call(key, 'POST /leads', { last_name: 'Lovelace', ...body });
      assert.equal(answer.status, 201, answer.text);
      return answer.json as { id: number; owner_id: number | null; created_by_id: number | null };
    };
    const idsIn = ({ json, text, status }: Answer) => {
      assert.equal(status, 200, text);
      return (json.data as { id: number }[]).map(({ id }) => id).sort((a, b) => a - b);
    };

    describe('a request needs a grant of both the key and the member', () => {
      for (const [name, ofKey, ofMember, statuses] of [
        ['both', everything, everything, [200, 201, 200]],
        ['only the key', everything, onLeads('list'), [200, 403, 403]],
        ['only the member', onLeads('list'), everything, [200, 403, 403]],
        ['different actions', onLeads('list', 'create'), onLeads('create', 'read'), [403, 201, 403]],
        ['a member without grants', everything, [], [403, 403, 403]],
        ['a key without grants', [], everything, [403, 403, 403]],
      ] as const) {
        test(name, async () => {
          const { id } = await createLead(acme.key);
          const member = await memberWith(ofMember);
          const { plaintext: key } = await keyFor(member, await profileWith(ofKey));
          const answers = [
            await call(key, 'GET /leads'),
            await call(key, 'POST /leads', {}),
            await call(key, `GET /leads/${id}`),
          ];
          assert.deepEqual(
            answers.map(({ status }) => status),
            statuses,
          );
          const members = await instance().call('GET /auth/members', { key });
          assert.equal(members.status, 403);
        });
      }

      test('the same profile', async () => {
        const profile = await profileWith(onLeads('list'));
        const member = await memberWith();
        await moveTo(member, profile);
        const { plaintext: key } = await keyFor(member, profile);
        assert.equal((await call(key, 'GET /leads')).status, 200);
        assert.equal((await call(key, 'POST /leads', {})).status, 403);
      });
    });

    test('records belong to the member, and the change log names the key and the member', async () => {
      const member = await memberWith();
      const { id: keyId, plaintext: key } = await keyFor(member, await profileWith(everything));
      const lead = await createLead(key);
      assert.deepEqual([lead.owner_id, lead.created_by_id], [Number(member.id), Number(member.id)]);
      assert.deepEqual(idsIn(await call(key, 'GET /leads?owner_id=me')), [lead.id]);
      const { json } = await call(key, `GET /leads/${lead.id}/history`);
      assert.deepEqual((json.data as { actor: unknown }[])[0]?.actor, {
        ...{ kind: 'key', id: Number(keyId), name: `Assistant on behalf of ${member.email}` },
      });
    });

    test('both limits apply to scopes, and "me" is the member', async () => {
      const member = await memberWith();
      const profile = await profileWith(everything);
      const { plaintext: key } = await keyFor(member, profile);
      const [mine, other] = [await createLead(key), await createLead(acme.key)];
      const mineFromWeb = await createLead(key, { source: 'Website' });
      const otherFromWeb = await createLead(acme.key, { source: 'Website' });
      const own = await scopedProfile('list:own', 'read:own');
      const web = await scopedProfile('list:web', 'read:web');
      const statusesOf = (ofKey: string) =>
        Promise.all(
          [mine, other, mineFromWeb, otherFromWeb].map(
            async ({ id }) => (await call(ofKey, `GET /leads/${id}`)).status,
          ),
        );
      const { plaintext: ownKey } = await keyFor(member, own);
      assert.deepEqual(idsIn(await call(ownKey, 'GET /leads')), [mine.id, mineFromWeb.id]);
      assert.deepEqual(await statusesOf(ownKey), [200, 404, 200, 404]);
      await moveTo(member, web);
      const { plaintext: bothKey } = await keyFor(member, own);
      assert.deepEqual(idsIn(await call(bothKey, 'GET /leads')), [mineFromWeb.id]);
      assert.deepEqual(await statusesOf(bothKey), [404, 404, 200, 404]);
      const { plaintext: webKey } = await keyFor(member, profile);
      assert.deepEqual(await statusesOf(webKey), [404, 404, 200, 200]);
      assert.equal((await call(webKey, 'POST /leads', {})).status, 403);
      // Each action has the member's limit of its own.
      await moveTo(member, await scopedProfile('list', 'read', 'update:web'));
      const { plaintext: updatingKey } = await keyFor(member, profile);
      const statuses = [];
      for (const { id } of [other, otherFromWeb])
        for (const request of [`GET /leads/${id}`, `PATCH /leads/${id}`])
          statuses.push(
            (await call(updatingKey, request, request.startsWith('PATCH') ? { rating: 'Hot' } : undefined))
              .status,
          );
      assert.deepEqual(statuses, [200, 404, 200, 200]);
    });

    test('a key of another organization is limited by its own membership', async () => {
      const member = await makePerson(instance(), [
        { organization: acme, grants: onLeads('list') },
        { organization: beta, grants: onLeads('create') },
      ]);
      const inAcme = await keyFor(member, await profileWith(everything));
      const inBeta = await keyFor(member, await profileWith(everything, beta), beta);
      const statusesOf = async ({ plaintext }: { readonly plaintext: string }) => [
        (await call(plaintext, 'GET /leads')).status,
        (await call(plaintext, 'POST /leads', {})).status,
      ];
      assert.deepEqual(await statusesOf(inAcme), [200, 403]);
      assert.deepEqual(await statusesOf(inBeta), [403, 201]);
      await remove(member);
      await soonerThan(1000, async () => (await statusesOf(inAcme)).every((status) => status === 401));
      assert.deepEqual(await statusesOf(inBeta), [403, 201]);
    });

    describe('changes apply within one second, on every node', () => {
      const becomes = async (key: string, before: number, status: number, change: () => Promise<unknown>) => {
        const statuses = () =>
          Promise.all(
            [instance(), second].map(async (node) => (await node.call('GET /api/v1/leads', { key })).status),
          );
        assert.deepEqual(await statuses(), [before, before]);
        await change();
        await soonerThan(1000, async () => (await statuses()).every((current) => current === status));
      };
      const keyOf = async (member: Person) => (await keyFor(member, await profileWith(everything))).plaintext;

      test('another profile for the member', async () => {
        const member = await memberWith(onLeads('list'));
        const key = await keyOf(member);
        await becomes(key, 200, 403, async () => moveTo(member, await profileWith([])));
        await becomes(key, 403, 200, async () => moveTo(member, await profileWith(onLeads('list'))));
      });

      test('a removed member, whose return does not revive the key', async () => {
        const member = await makePerson(instance(), [{ organization: acme }], { verified: true });
        const { id, plaintext: key } = await keyFor(member, await profileWith(everything));
        const { id: revoked } = await keyFor(member, await profileWith(everything));
        await transaction(instance().database, (tables) => revokeKey(tables, by(), acme.id, revoked));
        await becomes(key, 200, 401, () => remove(member));
        const { email } = member;
        const profile = await profileId(tablesOf(instance().database), acme.id, 'administrator');
        await transaction(instance().database, (tables) =>
          addExistingUser(tables, by(), { email, organization: acme.id, profile }),
        );
        const next = await keyOf(member);
        assert.equal((await call(next, 'GET /leads')).status, 200);
        assert.equal((await call(key, 'GET /leads')).status, 401);
        const entries = (await activityOf(instance(), acme.id)).map(({ did }) => did);
        for (const each of [id, revoked])
          assert.deepEqual(
            entries.filter((entry) => entry.endsWith(` key ${each}`)),
            [`create key ${each}`, `revoke key ${each}`],
          );
      });

      test('a membership deleted by other means', async () => {
        const member = await memberWith();
        await becomes(await keyOf(member), 200, 401, () =>
          tablesOf(instance().database)
            .deleteFrom('crm_memberships')
            .where('user_id', '=', member.id)
            .execute(),
        );
      });

      test('a verified user, who can act in other organizations', async () => {
        const member = await memberWith();
        await tablesOf(instance().database)
          .insertInto('crm_memberships')
          .values({
            ...{ organization_id: beta.id, user_id: member.id },
            profile_id: await profileId(tablesOf(instance().database), beta.id, 'administrator'),
          })
          .execute();
        const { plaintext } = await keyFor(member, await profileWith(everything, beta), beta);
        await becomes(plaintext, 401, 200, () =>
          transaction(instance().database, async (tables) =>
            verifyEmail(tables, by(), await findUserBy(tables, member.id)),
          ),
        );
      });

      test('a disabled user', async () => {
        const member = await memberWith();
        const key = await keyOf(member);
        const user = await findUserBy(tablesOf(instance().database), member.id);
        await becomes(key, 200, 401, () =>
          transaction(instance().database, (tables) => disableUser(tables, by(), user)),
        );
        const disabled = await findUserBy(tablesOf(instance().database), member.id);
        await becomes(key, 401, 200, () =>
          transaction(instance().database, (tables) => enableUser(tables, by(), disabled)),
        );
      });
    });

    test('a rotated key keeps its member', async () => {
      const member = await memberWith(onLeads('list'));
      const { id } = await keyFor(member, await profileWith(everything));
      const { plaintext: key } = await transaction(instance().database, (tables) =>
        rotateKey(tables, by(), 'crm_', { organization: acme.id, id, overlapMs: 0 }),
      );
      assert.equal((await call(key, 'GET /leads')).status, 200);
      assert.equal((await call(key, 'POST /leads', {})).status, 403);
    });

    test('a key cannot act on behalf of someone who is not a member', async () => {
      const stranger = await makePerson(instance(), [{ organization: beta }]);
      const profile = await profileWith(everything);
      for (const id of [stranger.id, '999999'])
        await assert.rejects(keyFor({ id }, profile), /only act on behalf of a member of this organization/);
    });

    if (driver === 'postgresql')
      test('a key cannot act on behalf of a member who is being removed', async () => {
        const member = await memberWith();
        const profile = await profileWith(everything);
        await connected(String(instance().config.environment.DATABASE_URL), async (client) => {
          // As a removal does it.
          await client.query(`begin; select from crm_organizations where id = ${acme.id} for update`);
          const creation = assert.rejects(
            keyFor(member, profile),
            /only act on behalf of a member of this organization/,
          );
          await untilWaiting(client, 'wait for the removal');
          await client.query(`delete from crm_memberships where user_id = ${member.id}; commit`);
          await creation;
        });
      });

    test('GET /auth/me names the member with their grants', async () => {
      const member = await makePerson(instance(), [
        { organization: acme },
        { organization: beta, grants: onLeads('list') },
      ]);
      const ofKey = await profileWith(onLeads('list', 'create'), beta);
      const { id, plaintext: key } = await keyFor(member, ofKey, beta);
      const unnamed = (await instance().call('GET /auth/me', { key })).json.key as Record<string, object>;
      assert.equal(Object.hasOwn(unnamed.on_behalf_of ?? {}, 'name'), false);
      await changeName(tablesOf(instance().database), member.id, 'Ada');
      const { json } = await instance().call('GET /auth/me', { key });
      const { on_behalf_of, ...described } = json.key as Record<string, unknown>;
      assert.equal(described.id, Number(id));
      const { profile, ...person } = on_behalf_of as Record<string, unknown>;
      const { name: profileOfMember } = await tablesOf(instance().database)
        .selectFrom('crm_memberships as m')
        .innerJoin('crm_profiles as p', 'p.id', 'm.profile_id')
        .select('p.name')
        .where('m.organization_id', '=', beta.id)
        .where('m.user_id', '=', member.id)
        .executeTakeFirstOrThrow();
      assert.equal(profile, profileOfMember);
      assert.notEqual(profile, described.profile);
      assert.deepEqual(person, {
        ...{ id: Number(member.id), email: member.email, name: 'Ada' },
        grants: { leads: ['list'] },
      });
      assert.deepEqual([json.user, json.grants], [null, { leads: ['list', 'create'] }]);
      const ordinary = await instance().call('GET /auth/me', { key: acme.key });
      assert.equal(Object.hasOwn(ordinary.json.key as object, 'on_behalf_of'), false);
    });

    test('a key on behalf of a member cannot determine what a subscription sends', async () => {
      const events: Grant[] = [...everything, { object: 'events', actions: ['*'] }];
      const { plaintext: key } = await keyFor(await memberWith(events), await profileWith(events));
      const answer = await instance().call('POST /events/subscriptions', {
        key,
        body: { url: 'https://receiver.example/', resources: ['leads'] },
      });
      assert.deepEqual([answer.status, answer.json.code], [403, 'forbidden'], answer.text);
    });

    describe('the form', () => {
      const page = '/setup/o/acme/keys/create';
      const submitted = async (member: Person, profile = 'read-only') => {
        const browser = await signIn(instance(), administratorOf(acme));
        const fields = {
          ...{ name: 'Assistant', expires: 'never', on_behalf_of: member.id },
          profile: await optionOf(browser, page, profile),
        };
        return { browser, answer: await browser.submit(page, page, fields) };
      };

      test('offers members, and the list shows the member', async () => {
        const member = await memberWith();
        const { browser, answer } = await submitted(member);
        const key = shownIn(answer, 'plaintext');
        assert.deepEqual(
          [(await call(key, 'GET /leads')).status, (await call(key, 'POST /leads', {})).status],
          [200, 403],
        );
        assert.equal(await optionOf(browser, page, member.email), member.id);
        const list = readable((await browser.get(`/setup/o/acme/keys?q=${member.email}`)).text);
        assert.match(list, /On behalf of/);
        assert.ok(list.includes(`>${member.email}<`), list);
      });

      test('rejects users of other organizations', async () => {
        const { answer } = await submitted(await makePerson(instance(), [{ organization: beta }]));
        assert.match(problemOf(answer), /only act on behalf of a member of this organization/);
      });

      test('requires the grant members:update', async () => {
        const tables = tablesOf(instance().database);
        const grant = {
          ...{ organization_id: acme.id, object: 'members', action: '*' },
          profile_id: await profileId(tables, acme.id, 'administrator'),
        };
        const member = await memberWith();
        const { id, plaintext: key } = await keyFor(member, await profileWith(everything));
        await tables
          .deleteFrom('crm_grants')
          .where('organization_id', '=', acme.id)
          .where('profile_id', '=', grant.profile_id)
          .where('object', '=', 'members')
          .execute();
        try {
          const { browser, answer } = await submitted(member);
          assert.match(problemOf(answer), /requires the grant members:update/);
          const rotate = '/setup/o/acme/keys/rotate';
          const rotated = await browser.submit(`${rotate}?id=${id}`, rotate, { id, overlap: '1h' });
          assert.match(problemOf(rotated), /requires the grant members:update/);
          assert.doesNotMatch((await browser.get(page)).text, /on_behalf_of/);
          assert.equal((await call(key, 'GET /leads')).status, 200);
        } finally {
          await tables.insertInto('crm_grants').values(grant).execute();
        }
      });
    });
  },
  { sources: await sourcesWith(overlay) },
);
