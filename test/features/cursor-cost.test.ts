// Pages cost the same at any cursor, and pages that are read from an index read only a few rows. Compares the number of
// blocks that the server reads for the first and last of 1,000 pages.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Instance, type Organization, onBothDrivers, startInstance } from '../support/instance.ts';
import { type PlanNode, planOf, recordStatements } from '../support/statements.ts';
import { vacuum } from '../support/tables.ts';

const records = 20_000;

describe('the cost of pages by cursor', () => {
  let instance: Instance;
  let acme: Organization;
  before(async () => {
    instance = await startInstance('postgresql');
    acme = await instance.organization('acme');
    const run = (text: string) => instance.database.run({ name: '', text, values: [] });
    const rows = `generate_series(1, ${records}) n`;
    await run(`insert into leads (organization_id, created_at, updated_at, last_name, status)
      select ${acme.id}, now() + make_interval(secs => n), now() + make_interval(secs => n), 'L' || 1000000 + n, 'New' from ${rows}`);
    await run(`insert into accounts (organization_id, created_at, updated_at, name)
      select ${acme.id}, now(), now(), 'A' || 1000000 + n from ${rows}`);
    await vacuum(instance.database, 'leads');
    await vacuum(instance.database, 'accounts');
  });
  after(() => instance.close());

  const get = (path: string) => instance.call(`GET ${path}`, { key: acme.key });

  /**
   * Returns a page's plan, and the number of blocks that the server reads for it. Unlike time, it does not depend on
   * other work on the machine.
   */
  async function costOf(path: string): Promise<{ plan: PlanNode; blocks: number }> {
    const [statement] = await recordStatements(instance.database, async () => {
      const { status, json } = await get(path);
      assert.deepEqual([status, (json.data as unknown[]).length], [200, 20]);
    });
    assert.ok(statement);
    const plan = await planOf(instance.database, statement);
    return { plan, blocks: (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0) };
  }

  for (const path of [
    '/api/v1/leads',
    '/api/v1/leads?sort=created_at&dir=asc',
    '/api/v1/leads?status=New',
    '/api/v1/leads?sort=id',
    '/api/v1/leads?sort=updated_at&updated_at[gte]=2020-01-01T00:00:00Z',
    '/api/v1/accounts',
  ]) {
    test(path, async () => {
      const first = await costOf(path);
      const before = await get(`${path}${path.includes('?') ? '&' : '?'}page=${records / 20 - 1}`);
      const [, next = ''] = /^<([^>]*)>; rel="next"/.exec(before.headers.get('link') ?? '') ?? [];
      const last = await costOf(next);
      assert.equal((await get(next)).json.page, records / 20);
      // These 20 records can extend into another page of the index or table.
      assert.ok(
        last.blocks <= 1.2 * first.blocks + 3,
        `${first.blocks} blocks for the first page, ${last.blocks} for the last: ${JSON.stringify([first.plan, last.plan])}`,
      );
    });
  }
});

// The embedded database does not have a time limit, so only the number of rows limits the work of a statement.
onBothDrivers(
  'rows read for a page of an organization with many records and a record with many changes',
  (instance) => {
    let acme: Organization;
    let id: number;
    before(async () => {
      acme = await instance().organization('acme');
      const made = await instance().call('POST /api/v1/leads', {
        key: acme.key,
        body: { last_name: 'Ames' },
      });
      id = made.json.id as number;
      const run = (text: string) => instance().database.run({ name: '', text, values: [] });
      await run(`insert into leads (organization_id, created_at, updated_at, last_name, status)
      select ${acme.id}, now(), now(), 'L' || n, 'New' from generate_series(1, 10000) n`);
      await run(`insert into crm_ledger (organization_id, actor_kind, action, object, object_id, version, record)
      select ${acme.id}, 'command', 'update', 'leads', ${id}, n, '{"last_name":"Ames"}' from generate_series(2, 20000) n`);
      await run('analyze leads');
      await run('analyze crm_ledger');
    });

    /** Returns the number of rows that the scans of a plan read. */
    const rowsIn = ({ Plans: plans = [], ...node }: PlanNode): number =>
      plans.length > 0
        ? plans.reduce((sum, plan) => sum + rowsIn(plan), 0)
        : (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'];

    const rowsFor = async (path: string): Promise<number> => {
      const statements = await recordStatements(instance().database, async () => {
        const { status, text } = await instance().call(`GET ${path}`, { key: acme.key });
        assert.equal(status, 200, text);
      });
      let rows = 0;
      for (const statement of statements) rows += rowsIn(await planOf(instance().database, statement));
      return rows;
    };

    for (const path of [
      '/api/v1/leads',
      '/api/v1/leads?status=New',
      '/api/v1/leads?sort=id&dir=asc',
      '/api/v1/leads?page=5',
      '/api/v1/leads?page=6',
      '/api/v1/leads/:id',
      '/api/v1/leads/:id/history',
    ])
      test(path, async () => {
        const rows = await rowsFor(path.replace(':id', String(id)));
        assert.ok(rows > 0 && rows < 500, String(rows));
      });

    test('an aggregate reads every record', async () => {
      const rows = await rowsFor('/api/v1/leads/aggregate?group_by=status');
      assert.ok(rows > 10_000, String(rows));
    });
  },
);
