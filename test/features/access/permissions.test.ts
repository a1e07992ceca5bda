// GET /auth/permissions: what a caller can do with each resource, or with a record.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { transaction } from '../../../engine/tables/index.ts';
import type { Grant } from '../../../plugins/access/profiles/grants.ts';
import { createProfile } from '../../../plugins/access/profiles/profiles.ts';
import { deals } from '../../support/guarded.ts';
import { type Organization, onBothDrivers } from '../../support/instance.ts';
import { command, fresh, logIn, makePerson } from '../../support/people.ts';
import { sourcesWith } from '../../support/sources.ts';

const allowed = { allowed: true };
const shared = [
  'id',
  'organization_id',
  'owner_id',
  'created_by_id',
  'last_modified_by_id',
  'created_at',
  'updated_at',
];

onBothDrivers(
  'GET /auth/permissions',
  (instance) => {
    let acme: Organization;
    let other: Organization;
    const deal = async (key: string, body: object) => {
      const made = await instance().call('POST /api/v1/deals', { key, body });
      assert.equal(made.status, 201, made.text);
      return String(made.json.id);
    };
    /** Returns a new member's headers, for requests with its token. */
    const member = async (grants: readonly Grant[]) =>
      (await logIn(instance(), await makePerson(instance(), [{ organization: acme, grants }]))).byToken;
    const permissions = async (query: string, headers: Readonly<Record<string, string>>) => {
      const { status, json, text } = await instance().call(`GET /auth/permissions${query}`, { headers });
      assert.equal(status, 200, text);
      return (json.resources as Record<string, { actions: object; fields: Record<string, unknown> }>).deals;
    };
    const statusOf = async (query: string, headers: Readonly<Record<string, string>>) =>
      (await instance().call(`GET /auth/permissions${query}`, { headers })).status;

    before(async () => {
      acme = await instance().organization('acme');
      other = await instance().organization('other');
    });

    test('lists every resource, for keys, tokens and cookies', async () => {
      const person = await logIn(instance(), await makePerson(instance(), [{ organization: acme }]));
      const answers = await Promise.all(
        [{ authorization: `Bearer ${acme.key}` }, person.byToken, person.byCookie].map((headers) =>
          instance().call('GET /auth/permissions', { headers }),
        ),
      );
      const [byKey] = answers;
      assert.deepEqual(
        Object.keys(byKey?.json.resources as object),
        instance().resources.map(({ name }) => name),
      );
      for (const { status, text, headers } of answers)
        assert.deepEqual([status, text, headers.get('cache-control')], [200, byKey?.text, 'no-store']);
      const { actions, fields } = (await permissions('?resource=deals', person.byToken)) ?? assert.fail();
      assert.deepEqual(actions, {
        ...{ list: allowed, read: allowed, create: allowed, update: allowed, delete: allowed },
      });
      assert.deepEqual(fields.missing, []);
      assert.deepEqual(fields.writable, ['title', 'size', 'margin']);
    });

    test('rejects people who are not members of the organization', async () => {
      const headers = await member([{ object: 'deals', actions: ['read'] }]);
      assert.equal(await statusOf(`?org=${other.slug}`, headers), 403);
    });

    test('names scopes, and the grants that are missing', async () => {
      const headers = await member([
        { object: 'deals', actions: ['read', 'update:own', 'update:small', 'delete:unknown'] },
      ]);
      assert.deepEqual(await permissions('?resource=deals', headers), {
        actions: {
          list: { allowed: false, grant: 'deals:list' },
          read: allowed,
          create: { allowed: false, grant: 'deals:create' },
          update: { allowed: true, scopes: ['own', 'small'] },
          delete: { allowed: false, grant: 'deals:delete' },
        },
        fields: {
          readable: [...shared, 'title', 'size'],
          writable: ['title', 'size'],
          missing: ['margin', 'cost'].map((field) => ({ field, grant: 'deals.finance:read' })),
        },
      });
    });

    test('callers who can only create can write fields, and callers who can only list can read them', async () => {
      const names = ['title', 'size'];
      for (const [action, readable, writable] of [
        ['create', [], names],
        ['update', [], names],
        ['delete', [], []],
        ['list', [...shared, ...names], []],
        ['read', [...shared, ...names], []],
      ] as const) {
        const headers = await member([{ object: 'deals', actions: [action] }]);
        const { fields } = (await permissions('?resource=deals', headers)) ?? assert.fail();
        assert.deepEqual([fields.readable, fields.writable], [readable, writable], action);
      }
    });

    test("a key on behalf of a member is also limited to the member's scopes", async () => {
      const { id } = await makePerson(instance(), [
        { organization: acme, grants: [{ object: 'deals', actions: ['read', 'list:own', 'update:own'] }] },
      ]);
      const profile = fresh('limited');
      await transaction(instance().database, (tables) =>
        createProfile(tables, command(instance()), acme.id, profile, [
          { object: 'deals', actions: ['read:small', 'list', 'update:small'] },
        ]),
      );
      const { key } = await acme.makeKey({ profile, onBehalfOf: id });
      const headers = { authorization: `Bearer ${key}` };
      const { actions } = (await permissions('?resource=deals', headers)) ?? assert.fail();
      assert.deepEqual(actions, {
        list: { allowed: true, scopes: ['own'] },
        read: { allowed: true, scopes: ['small'] },
        create: { allowed: false, grant: 'deals:create' },
        update: { allowed: true, scopes: ['small'], within: ['own'] },
        delete: { allowed: false, grant: 'deals:delete' },
      });
    });

    test('a group that can only be read', async () => {
      const headers = await member([
        { object: 'deals', actions: ['read', 'update'] },
        { object: 'deals.finance', actions: ['read'] },
      ]);
      const { fields } = (await permissions('?resource=deals', headers)) ?? assert.fail();
      assert.deepEqual(fields, {
        readable: [...shared, 'title', 'size', 'margin', 'cost'],
        writable: ['title', 'size'],
        missing: [{ field: 'margin', grant: 'deals.finance:update' }],
      });
    });

    test('evaluates the scopes on a record', async () => {
      const headers = await member([
        { object: 'deals', actions: ['read', 'create', 'update:own', 'delete:small'] },
      ]);
      const own = await instance().call('POST /api/v1/deals', { headers, body: { size: 100 } });
      const small = await deal(acme.key, { size: 1 });
      for (const [id, update, remove] of [
        [String(own.json.id), true, false],
        [small, false, true],
      ] as const) {
        const { actions, fields } = (await permissions(`?resource=deals&id=${id}`, headers)) ?? assert.fail();
        assert.deepEqual(fields.writable, update ? ['title', 'size'] : []);
        assert.deepEqual(actions, {
          list: { allowed: false, grant: 'deals:list' },
          read: allowed,
          create: allowed,
          update: { allowed: update, scopes: ['own'], ...(!update && { grant: 'deals:update' }) },
          delete: { allowed: remove, scopes: ['small'], ...(!remove && { grant: 'deals:delete' }) },
        });
        const patched = await instance().call(`PATCH /api/v1/deals/${id}`, { headers, body: { title: 'x' } });
        assert.equal(patched.status, update ? 200 : 404, 'the API decides the same');
      }
    });

    test('a record that the caller cannot read is not found, whether or not it exists', async () => {
      const [small, large] = [await deal(acme.key, { size: 1 }), await deal(acme.key, { size: 99 })];
      const foreign = await deal(other.key, { size: 1 });
      const scoped = await member([{ object: 'deals', actions: ['read:small', 'update', 'delete'] }]);
      const blind = await member([{ object: 'deals', actions: ['list', 'update', 'delete'] }]);
      const texts = new Set<string>();
      for (const [headers, id, status] of [
        [scoped, small, 200],
        [scoped, large, 404],
        [scoped, foreign, 404],
        [scoped, '999999', 404],
        [scoped, 'x', 404],
        [scoped, '', 404],
        [blind, small, 404],
        [blind, '999999', 404],
      ] as const) {
        const answer = await instance().call(`GET /auth/permissions?resource=deals&id=${id}`, { headers });
        assert.equal(answer.status, status, `${id}: ${answer.text}`);
        if (status === 404) texts.add(String(answer.json.error));
      }
      assert.deepEqual([...texts], ['Deal not found in your organization']);
    });

    test('rejects unknown resources, repeated parameters, an ID without a resource, and callers without credentials', async () => {
      const headers = { authorization: `Bearer ${acme.key}` };
      for (const query of [
        '?resource=rockets',
        '?resource=',
        '?id=1',
        '?resource=deals&resource=leads',
        '?resource=deals&id=1&id=2',
      ])
        assert.equal(await statusOf(query, headers), 400, query);
      assert.equal(await statusOf('', {}), 401);
      assert.equal((await instance().call('POST /auth/permissions', { headers, body: {} })).status, 405);
    });
  },
  { sources: await sourcesWith(deals) },
);
