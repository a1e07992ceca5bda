// `crm plan` reports the effects of an edit on rows and callers before anything is written. `crm migrate
// --status` reports the state of a database.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { drivers } from '../support/instance.ts';
import { type OwnFiles, ownFiles } from '../support/own-files.ts';
import { connected, crm, migratedStorage, onDatabase, type Storage } from '../support/process.ts';

interface Statement {
  readonly sql: string;
  readonly title: string;
  readonly lock: string;
  readonly rows?: { readonly count: number; readonly isEstimate: boolean };
  readonly touches: string;
  readonly risks: readonly string[];
}
interface Plan {
  readonly statements: readonly Statement[];
  readonly checks: readonly {
    name: string;
    says: string;
    count: number;
    examples: { id: string; value: string | null }[];
  }[];
  readonly api: readonly { kind: string; name: string; breaks: boolean }[];
  readonly partners: readonly { file: string; name: string }[];
  readonly undecided: readonly string[];
  readonly database?: { pending: string[]; problems: string[]; drift: string[] };
  readonly clean: boolean;
}

for (const driver of drivers) {
  describe(`crm plan (${driver})`, { concurrency: 1 }, () => {
    let storage: Storage;
    let own: OwnFiles;
    let environment: Readonly<Record<string, string>>;
    const plan = async (...args: string[]) => {
      const { code, stdout, stderr } = await crm(['plan', '--json', ...args], environment);
      assert.equal(stderr, '');
      return { code, ...(JSON.parse(stdout) as Plan) };
    };
    const sql = (text: string) => onDatabase(storage.environment, (query) => query(text));
    const find = (statements: readonly Statement[], pattern: RegExp) =>
      statements.find((each) => pattern.test(each.title)) ?? assert.fail(String(pattern));

    before(async () => {
      own = ownFiles();
      storage = await migratedStorage(driver);
      environment = { ...storage.environment, ...own.environment };
      const migrated = await crm(['migrate'], environment);
      assert.equal(migrated.code, 0, migrated.stderr);
      await sql(`insert into crm_organizations (slug, name) values ('alpha', 'Alpha')`);
      await sql(
        `insert into leads (organization_id, company, source, lead_score, created_at, updated_at)
         select 1, 'Same', 'Web ' || n, case when n > 12 then 0 else 3000000000 end, now(), now() from generate_series(1, 20) n`,
      );
    });
    after(async () => {
      await storage.remove();
      own.remove();
    });

    test('reports no changes without an edit', async () => {
      const found = await plan('--check');
      const { statements, checks, api, database, clean, code } = found;
      assert.deepEqual([statements, checks, api, clean, code], [[], [], [], true, 0]);
      assert.deepEqual(database, { pending: [], problems: [], waiting: [], drift: [] });
    });

    test('reports statements with their locks, rows and risks, values that do not fit, and changes for callers', async () => {
      own.edit('leads', '  timezone: { type: string,', '  zone: { type: string, renamed_from: timezone,');
      own.edit('leads', 'lead_score: { type: int64,', 'lead_score: { type: integer,');
      own.edit('leads', 'company: { type: string,', 'company: { type: string, unique: true,');
      own.edit('leads', /^ {2}instagram_handle:.*\n/m, '');
      own.edit('leads', 'field: rating, operators: [eq, ne, in]', 'field: rating, operators: [eq]');
      own.edit('leads', '  linkedin_url:', '  fax: { type: string, nullable: true }\n  linkedin_url:');
      own.edit('leads', 'filters:\n', 'filters:\n  - fax\n');
      const files = readdirSync(join(own.path, 'migrations'));
      const { statements, checks, api, undecided, partners, clean, code } = await plan('--check');
      assert.deepEqual([clean, code], [false, 1]);
      assert.deepEqual(readdirSync(join(own.path, 'migrations')), files, 'nothing is written');

      const rename = find(statements, /rename column "timezone" to "zone"/);
      assert.deepEqual(
        [rename.lock, rename.touches, rename.risks],
        ['ACCESS EXCLUSIVE', 'nothing', ['needs a restart']],
      );
      const retype = find(statements, /"lead_score" type int/);
      assert.deepEqual(retype.rows, { count: 20, isEstimate: false });
      assert.deepEqual(
        [retype.touches, retype.risks.includes('blocking')],
        ['rewrites', driver === 'embedded'],
      );
      const unique = find(statements, /create unique index/);
      assert.deepEqual(
        [unique.lock, unique.rows?.count, unique.risks],
        driver === 'postgresql'
          ? ['SHARE UPDATE EXCLUSIVE', 20, ['data-dependent']]
          : ['SHARE', 20, ['blocking', 'data-dependent']],
      );
      assert.deepEqual(find(statements, /drop column "instagram_handle"/).risks, [
        'destructive',
        'needs a restart',
      ]);
      assert.deepEqual(find(statements, /add "fax"/).risks, []);
      const index = find(statements, /create index "leads_fax_index"/);
      const isOnline = driver === 'postgresql';
      assert.deepEqual(
        [index.lock, index.risks],
        isOnline ? ['SHARE UPDATE EXCLUSIVE', []] : ['SHARE', ['blocking']],
      );
      assert.ok(find(statements, /^fail if leads\.lead_score is not a 32-bit integer in any record$/));

      const [score, company] = checks;
      assert.deepEqual([score?.name, score?.count, score?.examples.length], ['leads.lead_score', 12, 10]);
      assert.equal(score?.examples[0]?.value, '3000000000');
      assert.deepEqual([company?.name, company?.count], ['leads.company', 20]);
      assert.equal(undecided.length, 1);
      assert.match(undecided[0] ?? '', /--allow-drop leads\.instagram_handle/);
      assert.deepEqual(partners, []);
      assert.deepEqual(api.map(({ kind, name, breaks }) => `${kind} ${name}${breaks ? '!' : ''}`).sort(), [
        'added leads.fax',
        'removed leads filter rating[in]!',
        'removed leads filter rating[ne]!',
        'removed leads.instagram_handle!',
        'renamed leads.timezone!',
        'retyped leads.lead_score!',
        'stricter leads.company!',
      ]);
    });

    test('prints text and Markdown', async () => {
      const told = await crm(['plan'], environment);
      assert.match(
        told.stdout,
        driver === 'embedded'
          ? /lock ACCESS EXCLUSIVE · rewrites 20 rows · blocking/
          : /lock ROW EXCLUSIVE · rewrites 20 rows · data-dependent/,
      );
      assert.match(
        told.stdout,
        /leads\.lead_score is not a 32-bit integer in 12 records\. The migration will fail until they are fixed\.\n {4}record \d+ of organization 1: "3000000000"/,
      );
      assert.match(told.stdout, /renamed +leads\.timezone +is zone now +breaks clients/);
      const pasted = (await crm(['plan', '--markdown'], environment)).stdout;
      assert.match(pasted, /^### Plan\n\n\| statement \| lock \| rows \|/);
      assert.doesNotMatch(pasted, /3000000000/, 'a pull request must not contain record values');
    });

    test('omits the values of sensitive fields from every format', async () => {
      const text = own.text('leads');
      own.edit('leads', 'lead_score: { type: integer,', 'lead_score: { type: integer, sensitive: true,');
      own.edit('leads', 'unique: true,', 'unique: true, sensitive: true,');
      for (const form of [[], ['--json'], ['--markdown']]) {
        const { stdout } = await crm(['plan', ...form], environment);
        assert.match(stdout, /leads\.lead_score/);
        assert.doesNotMatch(stdout, /3000000000|Same/);
      }
      const { checks } = await plan();
      assert.deepEqual(
        checks.map(({ name, count, examples }) => [name, count, examples.length, examples[0]?.value]),
        [
          ['leads.lead_score', 12, 10, null],
          ['leads.company', 20, 10, null],
        ],
      );
      own.add('leads', text);
    });

    if (driver === 'postgresql') {
      test('reports a count that takes more than 5 s as unknown', async () => {
        await connected(String(environment.DATABASE_URL), async (client) => {
          await client.query('begin');
          await client.query('lock table leads');
          const { code, stdout, stderr } = await crm(['plan'], environment);
          assert.deepEqual([code, stderr], [0, '']);
          assert.match(
            stdout,
            /integer in more records than can be counted in 5 s\. The migration will fail/,
          );
          assert.match(stdout, /rewrites (\?|~\d+) rows/);
          await client.query('rollback');
        });
      });
    }

    test('matches the resulting database schema', async () => {
      await sql('update leads set lead_score = 1, company = id::text');
      const planned = await plan('--allow-drop', 'leads.instagram_handle');
      const made = await crm(
        ['migrate', '--json', '--create', 'x', '--allow-drop', 'leads.instagram_handle'],
        environment,
      );
      assert.deepEqual(
        (JSON.parse(made.stdout) as { statements: string[] }).statements,
        planned.statements.map(({ sql: text }) => text),
      );
      assert.deepEqual(
        planned.checks.map(({ count }) => count),
        [0, 0],
      );
      const behind = await crm(['migrate', '--status'], environment);
      assert.deepEqual([behind.code, /^pending: Migration\d+_x$/m.test(behind.stdout)], [1, true]);
      assert.equal((await crm(['migrate'], environment)).code, 0);
      const after = await plan('--check');
      assert.deepEqual([after.clean, after.code, after.database?.drift], [true, 0, []]);
    });

    test('names fields written by a partner endpoint', async () => {
      const text = own.text('leads');
      own.edit('leads', /^ {2}meta_ad_id: .*\n/m, '');
      const { partners } = await plan();
      assert.ok(
        partners.some(({ name }) => name === 'leads.meta_ad_id'),
        JSON.stringify(partners),
      );
      own.add('leads', text);
    });

    test('reports everything except row counts without a database', async () => {
      const text = own.text('leads');
      own.edit('leads', 'lead_score: { type: integer,', 'lead_score: { type: string,');
      const { statements, database } = await plan('--offline');
      assert.equal(find(statements, /type text/).rows, undefined);
      assert.equal(database ?? null, null);
      own.add('leads', text);
    });

    test('reports drift caused by manual changes to the database', async () => {
      await sql('alter table leads add column by_hand text');
      await sql('drop index leads_source_index');
      const { code, database } = await plan('--check');
      assert.equal(code, 1);
      assert.deepEqual(database?.drift, [
        'the column leads.by_hand was not created by a migration',
        'leads_source_index of leads is missing or invalid',
      ]);
      await sql('alter table leads drop column by_hand');
    });

    test('reports changed, missing and out-of-order migrations, and a database ahead of the code', async () => {
      const folder = join(own.path, 'migrations');
      const [last = ''] = readdirSync(folder).filter((name) => /_x\.ts$/.test(name));
      const path = join(folder, last);
      const text = readFileSync(path, 'utf8');
      const status = async () => (await crm(['migrate', '--status'], environment)).stdout;
      const name = last.replace('.ts', '');
      rmSync(path);
      assert.match(
        await status(),
        new RegExp(`^the database is ahead of this code: it has ${name}, which `, 'm'),
      );
      writeFileSync(path, text);
      const old = 'Migration20261122080348_filters.ts';
      const oldText = readFileSync(join(folder, old), 'utf8');
      rmSync(join(folder, old));
      assert.match(
        await status(),
        /^Migration20261122080348_filters was applied, and its file is missing in /m,
      );
      writeFileSync(join(folder, old), oldText);
      const between = 'Migration20261122080349_between';
      writeFileSync(
        join(folder, `${between}.ts`),
        `import { Migration } from '@mikro-orm/migrations';\nexport class ${between} extends Migration { override up(): void { this.addSql('select 1'); } }\n`,
      );
      assert.match(
        await status(),
        new RegExp(`^${between} is not applied, although ${name}, which comes after it, is`, 'm'),
      );
      rmSync(join(folder, `${between}.ts`));
      // As if the file had had other content then: a process loads a module only once.
      await sql(`update crm_migrations set checksum = 'other' where name = '${name}'`);
      assert.match(await status(), new RegExp(`^${name} was changed after it was applied`, 'm'));
    });
  });
}
