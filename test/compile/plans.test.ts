// A resource's explained statements on a populated database, and the problems reported for a missing index.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { explainStatements, omittedPairs, type StatementPlan } from '../../engine/compile/plans.ts';
import { type Instance, startInstance } from '../support/instance.ts';
import { crm } from '../support/process.ts';
import { related } from '../support/related.ts';
import { sourcesWith } from '../support/sources.ts';

const things = {
  file: 'things.yaml',
  text: `
custom_fields: true
fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  created_at: { type: timestamp, read_only: true, set: created }
  state: { type: string }
  parent_id: { type: reference, to: things, nullable: true }
  size: { type: number }
sort: { by: created_at, direction: desc }
filters: [state, parent_id]
aggregates: { group_by: [state, parent_id, created_at], measures: [size] }
`,
};

describe('crm check --plans', () => {
  for (const missing of [undefined, 'things_state_index', 'things_created_at_index']) {
    describe(missing === undefined ? 'with every index' : `without ${missing}`, () => {
      let instance: Instance;
      let plans: readonly StatementPlan[];
      before(async () => {
        instance = await startInstance('embedded', { sources: [things] });
        const { database, resources } = instance;
        if (missing !== undefined)
          await database.run({ name: '', text: `drop index ${missing}`, values: [] });
        plans = await explainStatements(resources, database);
      });
      after(() => instance.close());
      const bad = () => plans.filter(({ problems }) => problems.length > 0);

      test('lists every operation with its lane', () => {
        const laneOf = (wanted: string) => plans.find(({ request }) => request === wanted)?.lane;
        for (const [request, lane] of [
          ['GET /:id', 'read'],
          ['POST ', 'write'],
          ['PUT /:id', 'write'],
          ['DELETE /:id', 'write'],
          ['why a write was rejected', 'batch'],
          ['GET ?sort=created_at&dir=desc&page=1', 'list'],
          ['GET ?sort=created_at&dir=desc&page=6', 'deep'],
          ['GET ?sort=created_at&dir=desc&page=501', 'scan'],
          ['GET ?sort=size&dir=asc&page=1', 'scan'],
          ['GET ?sort=created_at&dir=asc&state=Ada&page=2', 'list'],
          ['GET /:id?fields=id', 'read'],
          ['GET /:id?expand=parent_id', 'read'],
          ['GET ?fields=id', 'list'],
          ['GET ?expand=parent_id', 'list'],
          ['GET /:id?expand=things', 'read'],
          ['GET ?expand=things', 'list'],
          ['GET /aggregate', 'aggregate'],
          ['GET /aggregate?group_by=parent_id', 'aggregate'],
          ['GET /aggregate?group_by=created_at.month&measure=sum%28size%29', 'aggregate'],
        ] as const) {
          assert.equal(laneOf(request), lane, request);
        }
      });

      test('reports statements on shared connections that do not use an index', () => {
        if (missing === undefined) {
          assert.deepEqual(bad(), []);
          const read = plans.find(({ request }) => request === 'GET /:id');
          assert.deepEqual(read?.indexes, ['things_pkey', 'crm_custom_fields_name']);
          const children = plans.find(({ request }) => request === 'GET /:id?expand=things');
          assert.deepEqual(children?.indexes, [
            'things_pkey',
            'crm_custom_fields_name',
            'things_parent_id_index',
          ]);
          return;
        }
        assert.ok(bad().length > 0);
        // Lists in the default order, whether requested or not.
        const concerned =
          missing === 'things_state_index' ? /state=/ : /sort=created_at|^GET \?(?:fields|expand)=/;
        for (const { request, lane } of bad()) {
          assert.match(request, concerned);
          assert.equal(lane, 'list');
        }
      });
    });
  }
});

test('deletes with cascades use the indexes of the references', async () => {
  const instance = await startInstance('embedded', { sources: await sourcesWith(...related) });
  try {
    const plans = await explainStatements(instance.resources, instance.database);
    for (const path of ['/:id', '/batch']) {
      const plan = plans.find(
        ({ resource, request }) => resource === 'folders' && request === `DELETE ${path}`,
      );
      for (const index of ['folders_parent_id_index', 'papers_folder_id_index', 'clamps_paper_id_index'])
        assert.ok(plan?.indexes.includes(index), `${path}: ${plan?.indexes} lacks ${index}`);
    }
  } finally {
    await instance.close();
  }
});

test('lists limited to a scope use an index if the scope is one equality', async () => {
  const file = 'resources/own-leads.yaml';
  const text =
    'extends: leads\nscopes:\n  own: owner_id == me\n  web: source == "Website"\n  hot: lead_score > 50\n  team: owner_id in my_team\n';
  const instance = await startInstance('embedded', { sources: await sourcesWith({ file, text }) });
  try {
    const plans = await explainStatements(instance.resources, instance.database);
    const ofScope = (label: string) =>
      plans.find(
        ({ resource, request }) =>
          resource === 'leads' && request === `GET ?sort=created_at&dir=desc&page=1 in the ${label}`,
      );
    for (const [scope, index] of [
      ['own', 'leads_owner_id_index'],
      ['web', 'leads_source_index'],
    ]) {
      const plan = ofScope(`scope ${scope}`);
      assert.deepEqual([plan?.lane, plan?.indexes, plan?.problems], ['list', [index], []]);
    }
    for (const scope of ['hot', 'team']) assert.equal(ofScope(`scope ${scope}`)?.lane, 'scan');
    const read = plans.find(({ request }) => request === 'GET /:id in the scope team');
    assert.deepEqual(read?.indexes.toSorted(), [
      'crm_team_members_team',
      'crm_team_members_user',
      'leads_pkey',
    ]);
    assert.equal(ofScope('scopes own and web')?.lane, 'scan');
    for (const request of ['PATCH /:id', 'DELETE /:id', 'POST ', 'GET /:id/history'])
      assert.ok(
        plans.some((plan) => plan.resource === 'leads' && plan.request === `${request} in the scope web`),
        request,
      );
    const [leads] = instance.resources.filter(({ name }) => name === 'leads');
    const [scope] = leads?.definition.scopes ?? [];
    assert.ok(scope !== undefined);
    assert.deepEqual(
      [9, 8, 4].map((count) => omittedPairs({ scopes: Array.from({ length: count }, () => scope) })),
      [6, 0, 0],
    );
    assert.deepEqual(
      plans.filter(({ problems }) => problems.length > 0),
      [],
    );
  } finally {
    await instance.close();
  }
});

test('crm check --plans: short statements of the shipped resources use their indexes', async () => {
  const { code, stdout, stderr } = await crm(['check', '--plans'], {});
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /^lane +resource +request +indexes +problems\n/);
});
