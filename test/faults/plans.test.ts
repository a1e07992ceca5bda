// Lists stay fast after a bulk load, even though their statements were prepared on empty tables.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { readConfig } from '../../app/config.ts';
import { modelOf } from '../../app/instance.ts';
import type { Runnable } from '../../engine/database/database.ts';
import { migrate } from '../../engine/schema/apply.ts';
import { literal } from '../../engine/sql/index.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { patient } from '../support/promised.ts';
import { recordStatements } from '../support/statements.ts';

const [records, part] = [30_000, 2000];
const lists = ['accounts?page=2', 'contacts', 'contacts?page=3'];

for (const driver of drivers) {
  describe(`plans after a bulk load (${driver})`, () => {
    let server: Server | undefined;
    let instance: Instance;
    let acme: Organization;

    before(async () => {
      // One connection for lists.
      const environment: Record<string, string> = { ...patient, DATABASE_POOL: '3' };
      if (driver === 'postgresql') {
        // Nothing else analyzes tables.
        server = await startPostgres({ autovacuum: 'off' });
        environment.DATABASE_URL = (await makeDatabase(server.url)).url;
        await migrate(readConfig(environment), modelOf([]));
      }
      instance = await startInstance(driver, { environment });
      acme = await instance.organization('acme');
    });
    after(async () => {
      await instance?.close();
      await server?.stop();
    });

    const query = (text: string) => instance.database.run({ name: '', text, values: [] });
    /** Runs a list as a request does. @returns its statement */
    async function list(path: string): Promise<Runnable> {
      const [statement] = await recordStatements(instance.database, async () => {
        const { status, text } = await instance.call(`GET /api/v1/${path}`, { key: acme.key });
        assert.equal(status, 200, text);
      });
      return statement ?? assert.fail(`no statement for ${path}`);
    }
    /** Returns the number of blocks that the server reads for a statement. */
    async function blocks(text: string, values: Runnable['values'] = []): Promise<number> {
      const explain = `explain (analyze, buffers, format json) ${text}`;
      const [[found] = []] = await instance.database.run({ lane: 'list', name: '', text: explain, values });
      const [{ Plan: plan }] = (typeof found === 'string' ? JSON.parse(found) : found) as [
        { Plan: Record<string, number> },
      ];
      return Number(plan['Shared Hit Blocks']) + Number(plan['Shared Read Blocks']);
    }

    test('are replaced shortly after, without intervention', async () => {
      // Execute the lists often enough for a generic plan.
      for (let count = 0; count < 8; count++) for (const path of lists) await list(path);
      const times = 'now() + make_interval(secs => g), now()';
      const entityManager = instance.database.orm.em.fork();
      // Its name has to be quoted.
      await query('create table "order" as select n from generate_series(1, 300) n');
      // In parts, which stay below a statement's time limit on a busy machine, and in one transaction, so that
      // no analysis sees only a part of the rows.
      await entityManager.transactional(async (open) => {
        for (let first = 1; first <= records; first += part) {
          const numbers = `generate_series(${first}, ${first + part - 1}) g`;
          await open.execute(
            `insert into accounts (organization_id, created_at, updated_at, name) select ${acme.id}, ${times}, 'a' || g from ${numbers}`,
          );
          const newest = `(select id as g from accounts order by id desc limit ${part}) a`;
          await open.execute(
            `insert into contacts (organization_id, created_at, updated_at, last_name, account_id) select ${acme.id}, ${times}, 'c' || g, g from ${newest}`,
          );
          // The embedded database keeps the process busy. The client's idle connection has to end before the service's limit.
          await setImmediate();
        }
      });
      const analyzed = async () => {
        const rows = await query(
          `select 1::text from pg_class where relname in ('accounts', 'contacts') and reltuples >= ${records} or relname = 'order' and reltuples = 300`,
        );
        return rows.length === 3;
      };
      await until(analyzed, 'the tables to be analyzed');
      for (const path of lists) {
        const { name, text, values } = await list(path);
        const parameters = values.map((value) => (value === null ? 'null' : literal(String(value))));
        // Compare the plan created while the tables were empty, which the same connection still uses, with a
        // new plan.
        const found = [await blocks(`execute "${name}" (${parameters})`), await blocks(text, values)];
        assert.ok(Math.max(...found) < 100, `${path}: ${found} blocks`);
      }
    });
  });
}
