// A migration that fails: none of the run's migrations are applied, and no lock or connection is leaked.

import assert from 'node:assert/strict';
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Config, readConfig } from '../../app/config.ts';
import { entitiesFor, modelOf } from '../../app/instance.ts';
import { loadResources } from '../../app/serve/build.ts';
import { compileResource } from '../../engine/compile/compile.ts';
import type { Database } from '../../engine/database/database.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { UserError } from '../../engine/errors.ts';
import { apiPrefix } from '../../engine/http/openapi.ts';
import { applyPending } from '../../engine/schema/apply.ts';
import { createMigration } from '../../engine/schema/create.ts';
import { readMigrationLog } from '../../engine/schema/migration-log.ts';
import { drivers, temporaryFolder } from '../support/instance.ts';
import { connected } from '../support/postgres.ts';
import { project, type Storage, unmigratedStorage } from '../support/process.ts';
import { patient } from '../support/promised.ts';
import { sourcesWith } from '../support/sources.ts';

const migrationOf = (
  ...statements: readonly string[]
): string => `import { Migration } from '@mikro-orm/migrations';
export class Migration29990101000000_broken extends Migration {
  override up(): void {
${statements.map((sql) => `    this.addSql(${JSON.stringify(sql)});`).join('\n')}
  }
}
`;

for (const driver of drivers) {
  describe(`a failing migration (${driver})`, () => {
    const migrations = temporaryFolder();
    const file = join(migrations.path, 'Migration29990101000000_broken.ts');
    let storage: Storage;
    let database: Database;
    let config: Config;
    before(async () => {
      cpSync(join(project, 'migrations'), migrations.path, { recursive: true });
      writeFileSync(file, migrationOf('create table half_done (id bigint)', 'select * from no_such_table'));
      storage = await unmigratedStorage(driver);
      config = readConfig({
        ...storage.environment,
        MIGRATIONS_DIR: migrations.path,
        ...patient,
        // Fewer than the attempts below, so that a leaked connection would be noticed.
        DATABASE_POOL: '2',
      });
      database = await openDatabase(config, entitiesFor(await loadResources(config)));
    });
    after(async () => {
      await database?.close();
      await storage?.remove();
      migrations.remove();
    });

    test('leaves nothing behind, and the same process applies all migrations once it is fixed', async () => {
      for (let time = 0; time < 3; time++) {
        await assert.rejects(applyPending(database, config), /no_such_table/);
      }
      const tables = await database.run({
        name: '',
        text: `select table_name::text from information_schema.tables
               where table_schema = 'public' and table_name not in ('crm_migrations', 'crm_nodes')`,
        values: [],
      });
      assert.deepEqual(tables, [], 'all migrations of a run or none');
      const { DATABASE_URL } = storage.environment;
      if (DATABASE_URL !== undefined) {
        const kept = await connected(DATABASE_URL, (client) =>
          client.query(
            `select (select count(*)::int from pg_locks l join pg_database d on d.oid = l.database
                     where d.datname = current_database() and locktype = 'advisory') as locks,
                    (select count(*)::int from pg_stat_activity
                     where datname = current_database() and state like 'idle in transaction%') as transactions`,
          ),
        );
        assert.deepEqual(kept.rows, [{ locks: 0, transactions: 0 }]);
      }
      rmSync(file);
      assert.ok((await applyPending(database, config)).length > 0);
      assert.deepEqual(await applyPending(database, config), []);
    });

    test('names duplicate values of a field that becomes unique and applies nothing', async () => {
      const sql = (text: string) => database.run({ name: '', text, values: [] });
      await sql(`insert into crm_organizations (slug, name) values ('alpha', 'Alpha')`);
      await sql(
        `insert into leads (organization_id, email, created_at, updated_at) select id, 'twice@example.com', now(), now() from crm_organizations, generate_series(1, 2)`,
      );
      await sql(
        'insert into leads (organization_id, created_at, updated_at) select id, now(), now() from crm_organizations, generate_series(1, 2)',
      );
      const sources = (await sourcesWith()).map(({ file, text }) => ({
        file,
        text: file.endsWith('leads.yaml')
          ? text.replace('email: { type: string,', 'email: { type: string, unique: true,')
          : text,
      }));
      const resources = compileResource(checkSources(sources), apiPrefix, []);
      const { statements } = await createMigration(config, modelOf(resources), 'unique');
      assert.match(statements[0] ?? '', /^do \$check\$ .*leads\.email has a duplicate value in /s);
      assert.deepEqual(statements.slice(1), [
        `create unique index "leads_email_unique" on "leads" ("organization_id", left(lower("email"), 100), (case when length(lower("email")) > 100 then md5(lower("email")) else '' end)) where lower("email") <> '';`,
      ]);
      const unique = () => sql(`select 1 from pg_indexes where indexname = 'leads_email_unique'`);
      await assert.rejects(applyPending(database, config), (error) => {
        assert.ok(error instanceof UserError, String(error));
        assert.match(
          error.message,
          /^leads\.email has a duplicate value in 2 records, for example \d+ of organization \d+, .* Nothing was migrated\./,
        );
        assert.doesNotMatch(error.message, /\n|twice@/);
        return true;
      });
      assert.deepEqual(await unique(), []);
      await sql(`delete from leads where id = (select max(id) from leads where email <> '')`);
      assert.equal((await applyPending(database, config)).length, 1);
      assert.equal((await unique()).length, 1);
    });

    const failures: readonly (readonly [statement: string, says: RegExp])[] = [
      [`create unique index "twice" on "leads" ("company")`, /^cannot create the unique index "twice"/],
      [
        `alter table "leads" add constraint "c" check (length("company") > 10)`,
        /failed: check constraint "c"/,
      ],
      [`update "leads" set "lead_score" = "company"::bigint`, /failed: invalid input syntax/],
    ];
    for (const [number, [statement, says]] of failures.entries()) {
      test(`reveals no record values in error messages (${statement})`, async () => {
        const run = (text: string) => database.run({ name: '', text, values: [] });
        await run(`update leads set company = 'Secret'`);
        const own = join(migrations.path, `Migration2999010100000${number + 1}_broken.ts`);
        writeFileSync(own, migrationOf(statement));
        await assert.rejects(applyPending(database, config), (error) => {
          assert.match((error as Error).message, says);
          assert.match((error as Error).message, /migrate again/);
          assert.doesNotMatch((error as Error).message, /Secret/);
          return error instanceof UserError;
        });
        rmSync(own);
      });
    }

    const nothing = 'Nothing was migrated.';
    const leads = "table: 'leads'";
    const listed: readonly (readonly [what: string, change: string, message: (file: string) => string])[] = [
      [
        'a change to a table that does not exist',
        `{ kind: 'createIndex', table: 'no_such_table', name: 'i', index: { keys: ['"id"'] } }`,
        (file) =>
          `${file} failed: relation "no_such_table" does not exist. Statement: ${driver === 'embedded' ? 'create index "i" on "no_such_table" ("id")' : 'select from "no_such_table" limit 1'}. ${nothing} Fix the cause, then migrate again.`,
      ],
      [
        'a long statement, which is shortened',
        `{ kind: 'raw', sql: 'select no_such_column, \\'${'x'.repeat(200)}\\'' }`,
        (file) =>
          `${file} failed: column "no_such_column" does not exist. Statement: select no_such_column, '${'x'.repeat(176)}. ${nothing} Fix the cause, then migrate again.`,
      ],
      // On a table in use, a check of the records precedes these changes, so that the migration does not fail halfway.
      [
        'a unique index on duplicate values',
        `{ kind: 'createIndex', ${leads}, name: 'twice', index: { keys: ['"organization_id"', '"company"'], kind: 'unique', where: '"company" = \\'Secret\\'' } }`,
        (file) =>
          `cannot create the unique index "twice", because records have duplicate values. ${nothing} Change or delete these records, then migrate again (${file}).`,
      ],
      [
        'missing values in a column that is no longer nullable',
        `{ kind: 'nullability', ${leads}, column: 'owner_id', nullable: false }`,
        (file) =>
          `${file} failed: column "owner_id" of relation "leads" contains null values. Statement: alter table "leads" alter column "owner_id" set not null. ${nothing} Fix the cause, then migrate again.`,
      ],
    ];
    for (const [number, [what, change, message]] of listed.entries()) {
      test(`names the cause, and applies nothing: ${what}`, async () => {
        await database.run({ name: '', text: `update leads set company = 'Secret'`, values: [] });
        const own = join(migrations.path, `Migration2999010200000${number}_listed.ts`);
        const first = `{ kind: 'addColumns', ${leads}, columns: { by_first_change: { type: 'text', nullable: true } } }`;
        writeFileSync(own, `export const changes = [${first}, ${change}];`);
        await assert.rejects(applyPending(database, config), { name: 'UserError', message: message(own) });
        const columns = `select from information_schema.columns where column_name = 'by_first_change'`;
        assert.deepEqual(await database.run({ name: '', text: columns, values: [] }), []);
        rmSync(own);
      });
    }

    test('detects a changed file, even if its name is stored with an extension', async () => {
      const run = (text: string) => database.run({ name: '', text, values: [] });
      const [[name]] = (await run(`select min(name) from crm_migrations`)) as [[string]];
      await run(`update crm_migrations set name = name || '.ts', checksum = null where name = '${name}'`);
      assert.deepEqual(await applyPending(database, config), []);
      const stored = `select count(*)::text from crm_migrations where name = '${name}.ts' and length(checksum) = 64`;
      assert.deepEqual(await run(stored), [['1']]);
      assert.deepEqual((await readMigrationLog(database, config)).problems, []);
      await run(`update crm_migrations set checksum = 'other' where name = '${name}.ts'`);
      assert.match(
        String((await readMigrationLog(database, config)).problems),
        /^\S+ was changed after it was applied/,
      );
    });

    test('a pending migration of the platform does not count as skipped, unlike an own one', async () => {
      const [own, platform] = [temporaryFolder(), temporaryFolder()];
      const write = (folder: string, name: string) =>
        writeFileSync(join(folder, `${name}.ts`), 'export const changes = [];');
      write(own.path, 'Migration29990105000000_own');
      const ofInstance = { ...config, migrations: own.path };
      assert.deepEqual(await applyPending(database, ofInstance), ['Migration29990105000000_own']);
      const skipped = async () => {
        const both = { ...ofInstance, platformMigrations: platform.path };
        const { pending, problems } = await readMigrationLog(database, both);
        return [pending, problems.filter((problem) => problem.includes('skipped'))];
      };
      write(platform.path, 'Migration29990104000000_platform');
      assert.deepEqual(await skipped(), [['Migration29990104000000_platform'], []]);
      write(own.path, 'Migration29990104000001_between');
      assert.deepEqual(await skipped(), [
        ['Migration29990104000000_platform', 'Migration29990104000001_between'],
        [
          'Migration29990104000001_between was skipped, because the later migration Migration29990105000000_own is already applied. It will be applied now.',
        ],
      ]);
      own.remove();
      platform.remove();
    });
  });
}
