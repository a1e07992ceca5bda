// Checks the lane of each list, and that lists in the lane "list" are served by an index.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type pg from 'pg';
import type { Resource } from '../../engine/compile/compile.ts';
import { operatorOf } from '../../engine/query/operators.ts';
import { noGrants } from '../../engine/records/index.ts';
import { indexes } from '../../engine/records/indexes.ts';
import { lookupKey } from '../../engine/sql/names.ts';
import { type Instance, startInstance } from '../support/instance.ts';
import { quotes } from '../support/quotes.ts';
import { sourcesWith } from '../support/sources.ts';
import { vacuum } from '../support/tables.ts';

describe('lanes of lists', () => {
  let instance: Instance;
  before(async () => {
    instance = await startInstance('postgresql', { sources: await sourcesWith(...quotes) });
  });
  after(() => instance.close());

  const callerOf = (phoneRegion?: string) => {
    const principal = {
      kind: 'key',
      actor: null,
      name: null,
      organization: '1',
      user: null,
      grants: noGrants,
      phoneRegion,
    } as const;
    return { principal, requestId: '' };
  };
  const statementOf = (
    resource: Resource,
    query: Record<string, string | string[]>,
    phoneRegion?: string,
  ) => {
    const { list } = resource.operations;
    const plan = list.plan({ caller: callerOf(phoneRegion), query });
    const statement = list.statement(plan);
    assert.ok(statement);
    return statement;
  };

  for (const [query, lane] of [
    [{}, 'list'],
    [{ page: '5' }, 'list'],
    [{ page: '6' }, 'deep'],
    [{ page: '500' }, 'deep'],
    [{ page: '501' }, 'scan'],
    [{ dir: 'asc' }, 'list'],
    [{ sort: 'id' }, 'list'],
    [{ status: 'New' }, 'list'],
    [{ status: 'New', dir: 'asc', page: '7' }, 'deep'],
    [{ email: 'a@x' }, 'list'],
    [{ 'phone[eq]': '1' }, 'list'],
    // A value without digits has the same key as all leads without a phone number.
    [{ phone: 'x' }, 'scan'],
    [{ 'phone[in]': '00' }, 'scan'],
    [{ phone: 'x0' }, 'list'],
    [{ 'source[in]': 'Web', page: '3' }, 'list'],
    [{ 'owner_id[eq]': '1', 'created_at[gte]': '2026-01-01T00:00:00Z' }, 'list'],
    [{ 'created_at[gte]': '2026-01-01T00:00:00Z', 'created_at[lt]': '2026-02-01T00:00:00Z' }, 'list'],
    [{ 'updated_at[gte]': '2026-01-01T00:00:00Z', sort: 'updated_at' }, 'list'],
    [{ 'updated_at[gte]': '2026-01-01T00:00:00Z' }, 'scan'],
    [{ 'owner_id[is_null]': 'true' }, 'scan'],
    [{ 'status[ne]': 'New' }, 'scan'],
    [{ 'company[in]': 'Engines' }, 'scan'],
    [{ 'lead_score[gte]': '5' }, 'scan'],
    [{ 'id[in]': '5' }, 'scan'],
    [{ status: 'New', rating: 'Hot' }, 'scan'],
    [{ status: ['New', 'Old'] }, 'scan'],
    [{ status: 'New', sort: 'id' }, 'scan'],
    [{ sort: 'description' }, 'scan'],
    [{ sort: 'lead_score', dir: 'desc' }, 'scan'],
  ] as const) {
    test(`leads ${JSON.stringify(query)} → ${lane}`, () => {
      const leads = instance.resources.find(({ name }) => name === 'leads');
      assert.ok(leads);
      assert.equal(statementOf(leads, query as Record<string, string | string[]>).lane, lane);
    });
  }

  test('an index finds the records with a phone number in any of its notations', async () => {
    const leads = instance.resources.find(({ name }) => name === 'leads');
    assert.ok(leads);
    assert.equal(statementOf(leads, { phone: '0171 1234567' }).lane, 'list');
    // A number of another country has a single notation.
    assert.equal(statementOf(leads, { phone: '+1 202 555 0100' }, 'DE').lane, 'list');
    const { lane, text } = statementOf(leads, { phone: '0171 1234567' }, 'DE');
    assert.equal(lane, 'scan');
    const client = (await instance.database.orm.em.getConnection().getNativeClient()) as pg.Pool;
    const connection = await client.connect();
    try {
      await connection.query('set enable_seqscan = off; set enable_bitmapscan = off');
      const { rows } = await connection.query(`explain (generic_plan, format text) ${text}`);
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
      assert.match(plan, /Index Scan using leads_phone_lookup [\s\S]*Index Cond: .*ANY/, plan);
    } finally {
      connection.release(true);
    }
  });

  test('lists in the lane "list" use an index in their order', async () => {
    const client = (await instance.database.orm.em.getConnection().getNativeClient()) as pg.Pool;
    const connection = await client.connect();
    // The planner prefers to scan and sort an empty table. These settings make it show its plan for a large
    // table.
    await connection.query('set enable_seqscan = off; set enable_bitmapscan = off; set enable_sort = off');
    let seen = 0;
    try {
      for (const resource of instance.resources) {
        const { choices } = resource.definition.sort;
        const filter = resource.definition.filters[0]?.field;
        const value = String(filter?.type.examples.find(Boolean) ?? '1');
        for (const sort of choices.size === 0 ? [undefined] : choices.keys()) {
          for (const filters of [{}, ...(filter === undefined ? [] : [{ [filter.name]: value }])]) {
            const query = { ...(sort === undefined ? {} : { sort }), ...filters };
            const { text, lane } = statementOf(resource, query);
            const { rows } = await connection.query(`explain (generic_plan, format text) ${text}`);
            const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
            // An incremental sort only orders rows with an equal prefix, as the index returns them.
            const sorts = /(?<!Incremental )Sort {2}\(/.test(plan);
            assert.ok(lane === 'scan' || !sorts, `${resource.name} ${JSON.stringify(query)}: ${plan}`);
            seen++;
          }
        }
      }
    } finally {
      connection.release(true);
    }
    assert.ok(seen > 100, `${seen}`);
  });

  test('every indexed filter uses its index, in its order if the lane is "list"', async () => {
    const client = (await instance.database.orm.em.getConnection().getNativeClient()) as pg.Pool;
    const connection = await client.connect();
    await connection.query('set enable_seqscan = off; set enable_bitmapscan = off; set enable_sort = off');
    const lanes: string[] = [];
    try {
      for (const resource of instance.resources) {
        const { filters, sort } = resource.definition;
        const parameters = filters.flatMap(({ field, parameters: all }) =>
          all.map((each) => ({ field, ...each })),
        );
        for (const { field, name, operator, source } of parameters) {
          const { index, words } = operatorOf(operator);
          const begins = indexes(resource.definition).some(({ keys }) => keys[1] === lookupKey(field));
          const isFound = begins || field.set === 'id' || source === 'scan';
          assert.ok(index === 'none' || isFound, `${resource.name} ${name} has an index`);
          const value = words?.[0] ?? String(field.type.examples.find(Boolean) ?? '1');
          for (const order of sort.choices.size === 0 ? [{}] : [{}, { sort: field.name }]) {
            const { text, lane } = statementOf(resource, { [name]: value, ...order });
            const { rows } = await connection.query(`explain (generic_plan, format text) ${text}`);
            const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
            const what = `${resource.name} ${name} ${JSON.stringify(order)}: ${plan}`;
            assert.ok(lane === 'scan' || !/(?<!Incremental )Sort {2}\(/.test(plan), what);
            lanes.push(lane);
          }
        }
      }
    } finally {
      connection.release(true);
    }
    for (const lane of ['list', 'scan']) assert.ok(lanes.filter((each) => each === lane).length > 20, lane);
  });

  test('aggregates read only an index if it contains all values', async () => {
    const client = (await instance.database.orm.em.getConnection().getNativeClient()) as pg.Pool;
    const connection = await client.connect();
    const { id } = await instance.organization('acme');
    try {
      // An index is smaller than the table only if rows are long, and is read alone only after a vacuum.
      for (const table of ['leads', 'opportunities']) {
        await connection.query(
          `insert into ${table} (organization_id, created_at, updated_at, description)
           select $1::bigint, now(), now(), repeat('x', 500) from generate_series(1, 5000)`,
          [id],
        );
        await vacuum(instance.database, table);
      }
      await connection.query('set enable_seqscan = off');
      for (const [name, query, index] of [
        ['opportunities', { group_by: 'account_id' }, 'opportunities_account_id_index'],
        [
          'opportunities',
          { group_by: 'created_at.month', tz: 'Europe/Berlin' },
          'opportunities_created_at_index',
        ],
        ['opportunities', { measure: 'sum(amount),count()' }, 'opportunities_amount_index'],
        ['leads', { group_by: 'owner_id' }, 'leads_owner_id_index'],
      ] as const) {
        const resource = instance.resources.find((candidate) => candidate.name === name);
        const { aggregate } = resource?.operations ?? {};
        assert.ok(aggregate);
        const statement = aggregate.statement(aggregate.plan({ caller: callerOf(), query }));
        assert.equal(statement?.lane, 'aggregate');
        const { rows } = await connection.query(`explain (generic_plan, format text) ${statement?.text}`);
        const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
        assert.match(plan, new RegExp(`Index Only Scan using ${index} `), plan);
      }
    } finally {
      connection.release(true);
    }
  });
});
