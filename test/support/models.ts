// Test support: a database with tables for a test's own definitions and migrations.
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import '../../app/migration-imports.ts';
import { readConfig } from '../../app/config.ts';
import { modelOf } from '../../app/instance.ts';
import { compileResource } from '../../engine/compile/compile.ts';
import type { Database, TextRows } from '../../engine/database/database.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { parseExactJson } from '../../engine/fields/exact-json.ts';
import { apiPrefix } from '../../engine/http/openapi.ts';
import { applyPending } from '../../engine/schema/apply.ts';
import { createMigration } from '../../engine/schema/create.ts';
import { driftOf } from '../../engine/schema/drift.ts';
import { changeOf, type Intent } from '../../engine/schema/model-change.ts';
import { storedModel } from '../../engine/schema/stored-model.ts';
import { type Driver, temporaryFolder } from './instance.ts';
import { migratedStorage, project } from './process.ts';
import { patient } from './promised.ts';
import { sourcesWith } from './sources.ts';

/** Creates a database with one organization, and the test's own definitions and migrations. */
export async function modelWith(driver: Driver) {
  const folder = temporaryFolder();
  const migrations = join(folder.path, 'migrations');
  cpSync(join(project, 'migrations'), migrations, { recursive: true });
  const storage = await migratedStorage(driver);
  const config = readConfig({ ...patient, ...storage.environment, MIGRATIONS_DIR: migrations });
  const shipped = await sourcesWith();
  let resources = compileResource(checkSources(shipped), apiPrefix, []);
  const database: Database = await openDatabase({ ...config, statementTimeoutMs: 0, lockTimeoutMs: 0 }, []);
  const sql = (text: string): Promise<TextRows> => database.run({ name: '', text, values: [] });
  await sql(`insert into crm_organizations (slug, name) values ('alpha', 'Alpha')`);
  await applyPending(database, config);
  let made = 0;
  let last: Awaited<ReturnType<typeof createMigration>> | undefined;
  return {
    environment: storage.environment,
    config,
    database,
    sql,
    resources: () => resources,
    /** Writes definitions in addition to the shipped ones. */
    write: (files: Readonly<Record<string, string>>) => {
      const more = Object.entries(files).map(([name, text]) => ({ file: `${name}.yaml`, text }));
      resources = compileResource(checkSources([...shipped, ...more]), apiPrefix, []);
    },
    /** Returns the difference between the definitions and the last migration. */
    change: () => changeOf(config, modelOf(resources)),
    /**
     * Creates a migration. Its name contains a counter, because several migrations can be created within one
     * second.
     */
    create: async (intent: Intent = {}) => {
      const name = `m${String(++made).padStart(3, '0')}`;
      last = await createMigration(config, modelOf(resources), name, intent);
      return last.statements;
    },
    /** Returns the changes of the last migration. */
    changes: () => last?.changes ?? [],
    /** Removes the last migration, which has not been applied. */
    discard: async () => {
      if (last?.file === undefined) return;
      rmSync(last.file);
      rmSync(last.file.replace(/\.ts$/, '.json'), { force: true });
    },
    /** Returns every record as it appears in responses. */
    records: async (name: string): Promise<readonly unknown[]> => {
      const resource = resources.find((each) => each.name === name);
      if (resource === undefined) throw new Error(name);
      const { columns, joins } = resource.context.projection;
      const rows = await sql(
        `select row_to_json(_r)::text from (select ${columns} from "${name}" t${joins(() => 'null')} order by t."id") _r`,
      );
      return rows.map(([text]) => parseExactJson(String(text)));
    },
    drift: () => driftOf(database, storedModel(config).tables),
    writeMigration: (name: string, text: string) => writeFileSync(join(migrations, name), text),
    close: async () => {
      await database.close();
      await storage.remove();
      folder.remove();
    },
  };
}
export type Model = Awaited<ReturnType<typeof modelWith>>;
