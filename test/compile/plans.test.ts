// A resource's explained statements on a populated database, and the problems reported for a missing index.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { explainStatements, type StatementPlan } from '../../engine/compile/plans.ts';
import { type Instance, startInstance } from '../support/instance.ts';
import { crm } from '../support/process.ts';

const things = {
  file: 'things.yaml',
  text: `
fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  created_at: { type: timestamp, read_only: true, set: created }
  state: { type: string }
  parent_id: { type: reference, to: things, nullable: true }
  size: { type: number }
sort: { by: created_at, direction: desc }
filters: [state]
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
        ] as const) {
          assert.equal(laneOf(request), lane, request);
        }
      });

      test('reports statements on shared connections that do not use an index', () => {
        if (missing === undefined) {
          assert.deepEqual(bad(), []);
          const read = plans.find(({ request }) => request === 'GET /:id');
          assert.deepEqual(read?.indexes, ['things_pkey']);
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

test('crm check --plans: short statements of the shipped resources use their indexes', async () => {
  const { code, stdout, stderr } = await crm(['check', '--plans'], {});
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /^lane +resource +request +indexes +problems\n/);
});
