// PATCH: a JSON merge patch of a record (RFC 7396).
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { activityOf } from '../support/people.ts';
import { exactRecord } from '../support/reading.ts';
import {
  definitions,
  fullBody,
  make,
  missing,
  oneOfEach,
  pathOf,
  sample,
  writable,
} from '../support/records.ts';
import { errorOf, scenarios } from '../support/scenario.ts';

onBothDrivers('PATCH', (instance) => {
  let organization: Organization;
  let key: string;
  let viewer: string;
  let foreign: Organization;
  const values: Record<string, string> = { missing };
  before(async () => {
    organization = await instance().organization('alpha');
    foreign = await instance().organization('beta');
    key = organization.key;
    viewer = await organization.keyWith([{ object: '*', actions: ['read'] }]);
    Object.assign(values, await oneOfEach(instance(), key, 'patched'));
    values.foreign = String((await oneOfEach(instance(), foreign.key, 'foreign')).leads);
  });

  for (const definition of definitions) {
    test(`${definition.name}: changes each field alone, and null sets its default`, async () => {
      const empty = exactRecord((await make(instance(), key, definition)).answer.text);
      const made = await make(instance(), key, definition, fullBody(definition, 'whole'));
      const path = pathOf(definition, made.id);
      for (const field of writable(definition).filter(({ to }) => to === undefined)) {
        const before = exactRecord((await instance().call(`GET ${path}`, { key })).text);
        for (const [json, expected] of [
          [sample(field, 'changed'), JSON.parse(`{"v":${sample(field, 'changed')}}`)],
          ['null', undefined],
        ] as const) {
          const answer = await instance().call(`PATCH ${path}`, { key, body: `{"${field.name}":${json}}` });
          assert.equal(answer.status, 200, answer.text);
          const now = exactRecord(answer.text);
          if (expected === undefined) assert.deepEqual(now[field.name], empty[field.name]);
          else assert.deepEqual(answer.json[field.name], expected.v, field.name);
          for (const other of writable(definition).filter((each) => each !== field)) {
            assert.deepEqual(now[other.name], before[other.name], `${other.name} after ${field.name}`);
          }
          for (const name of ['id', 'created_at', 'created_by_id', 'owner_id']) {
            assert.deepEqual(now[name], before[name], name);
          }
        }
      }
    });
  }

  describe('rejected and ignored input', () => {
    const patch = (headers: Record<string, string> = {}) => ({
      as: 'admin',
      does: 'PATCH /api/v1/leads/{leads}',
      headers,
    });
    scenarios(instance, () => ({ callers: { admin: key, viewer }, values }), [
      { does: 'PATCH /api/v1/leads/{leads}', with: {}, gets: 401 },
      { as: 'viewer', does: 'PATCH /api/v1/leads/{leads}', with: '{', gets: 403 },
      { as: 'admin', does: 'PATCH /api/v1/leads/{missing}', with: { email: 7 }, gets: 400 },
      { as: 'admin', does: 'PATCH /api/v1/leads/{missing}', with: { email: 'x' }, gets: 404 },
      { as: 'admin', does: 'PATCH /api/v1/leads/{foreign}', with: { email: 'x' }, gets: 404 },
      { as: 'admin', does: 'PATCH /api/v1/leads/none', with: {}, gets: 404 },
      { ...patch(), with: '', gets: 400 },
      { ...patch(), with: [], gets: 400 },
      { ...patch(), with: '"text"', gets: 400 },
      { ...patch(), with: 'null', gets: 400 },
      {
        ...patch(),
        with: { email: 7, company: false },
        gets: 400,
        and: ({ json }) => assert.equal((json.fields as unknown[]).length, 2),
      },
      {
        ...patch({ 'content-type': 'application/merge-patch+json' }),
        with: { company: 'merged' },
        gets: 200,
        has: { company: 'merged' },
      },
      {
        ...patch({ 'content-type': 'application/merge-patch+json; charset=utf-8' }),
        with: {},
        gets: 200,
        has: { company: 'merged' },
      },
      { ...patch({ 'content-type': 'application/json-patch+json' }), with: [], gets: 400 },
      { ...patch({ 'content-type': 'text/plain' }), with: '{}', gets: 400 },
      { ...patch(), with: { id: 7, organization_id: 7, nonsense: 7 }, gets: 200, has: { company: 'merged' } },
      { ...patch({ prefer: 'handling=strict' }), with: { id: 7, nonsense: 7 }, gets: 400 },
      { ...patch({ 'if-match': '"stale"' }), with: { company: 'lost' }, gets: 412 },
      { ...patch({ 'if-match': '*' }), with: { company: 'kept' }, gets: 200, has: { company: 'kept' } },
      {
        as: 'admin',
        does: 'PATCH /api/v1/contacts/{contacts}',
        with: { account_id: Number(missing) },
        gets: 400,
      },
      {
        as: 'admin',
        does: 'PATCH /api/v1/cases/{cases}',
        with: { account_id: null },
        gets: 200,
        has: { account_id: null, account_name: '' },
      },
      {
        as: 'admin',
        does: 'PUT /api/v1/leads/{leads}',
        headers: { 'content-type': 'application/merge-patch+json' },
        with: {},
        gets: 400,
      },
    ]);
  });

  test('a missing reference: reports all errors together and writes nothing', async () => {
    const path = `/api/v1/cases/${values.cases}`;
    const before = (await instance().call(`GET ${path}`, { key })).text;
    const answer = await instance().call(`PATCH ${path}`, {
      key,
      body: `{"subject":"lost","account_id":${missing}}`,
    });
    assert.equal(answer.status, 400);
    const message = `account_id ${missing} does not exist in accounts`;
    assert.deepEqual(errorOf(answer), {
      error: message,
      code: 'missing_reference',
      fields: [{ field: 'account_id', message }],
    });
    assert.equal((await instance().call(`GET ${path}`, { key })).text, before);
  });

  test('is recorded as an update by the caller in the activity', async () => {
    const before = (await activityOf(instance(), organization.id)).length;
    const answer = await instance().call(`PATCH /api/v1/leads/${values.leads}`, {
      key,
      body: { company: 'seen' },
    });
    assert.equal(answer.json.last_modified_by_id, Number(organization.user));
    const rows = (await activityOf(instance(), organization.id)).slice(before);
    assert.deepEqual(
      rows.map(({ did }) => did),
      [`update leads ${values.leads}`],
    );
  });
});
