// The cost of deletes with dependents is linear, also if the statistics of the database are outdated. Counts the rows
// that the server reads.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Instance, type Organization, startInstance } from '../support/instance.ts';
import { related } from '../support/related.ts';
import { sourcesWith } from '../support/sources.ts';
import { type PlanNode, planOf, recordStatements } from '../support/statements.ts';

/** Returns the number of rows that a plan's nodes read. */
const rowsRead = (node: PlanNode): number =>
  node['Actual Loops'] *
    (node['Actual Rows'] +
      (node['Rows Removed by Filter'] ?? 0) +
      (node['Rows Removed by Join Filter'] ?? 0)) +
  (node.Plans ?? []).reduce((sum, child) => sum + rowsRead(child), 0);

const dependents = 2000;

describe('the cost of deletes with dependents', () => {
  let instance: Instance;
  let acme: Organization;
  before(async () => {
    instance = await startInstance('postgresql', { sources: await sourcesWith(...related) });
    acme = await instance.organization('acme');
  });
  after(() => instance.close());

  test('is linear if the statistics call the tables empty', async () => {
    const run = (text: string) => instance.database.run({ name: '', text, values: [] });
    const create = async (resource: string, body: object) => {
      const { json } = await instance.call(`POST /api/v1/${resource}`, { key: acme.key, body });
      return Number(json.id);
    };
    const folder_id = await create('folders', {});
    const fill = () =>
      run(`insert into papers (organization_id, created_at, updated_at, folder_id)
        select ${acme.id}, now(), now(), ${folder_id} from generate_series(1, ${dependents}) n`);
    await run('alter table papers set (autovacuum_enabled = false)');
    await fill();
    await run('delete from papers');
    await run('analyze papers');
    await fill();
    // Prevents the delete, so that it can be explained again.
    await create('clamps', { paper_id: await create('papers', { folder_id }) });
    const statements = await recordStatements(instance.database, async () => {
      const answer = await instance.call(`DELETE /api/v1/folders/${folder_id}`, { key: acme.key });
      assert.deepEqual([answer.status, answer.json.code], [409, 'referenced']);
    });
    assert.equal(statements.length, 2);
    for (const statement of statements) {
      const count = rowsRead(await planOf(instance.database, statement));
      assert.ok(count > dependents && count < 60 * dependents, `${count} rows for ${dependents} dependents`);
    }
  });
});
