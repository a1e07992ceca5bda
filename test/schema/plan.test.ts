// `crm plan` reports the effects of an edit on rows and callers before anything is written. `crm migrate
// --status` reports the state of a database.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { planText } from '../../app/commands/plan-commands.ts';
import { drivers } from '../support/instance.ts';
import { type OwnFiles, ownFiles } from '../support/own-files.ts';
import {
  assertRefused,
  connected,
  crm,
  migratedStorage,
  onDatabase,
  type Storage,
} from '../support/process.ts';

interface Statement {
  readonly sql: string;
  readonly title: string;
  readonly lock: string;
  readonly rows?: { readonly count: number; readonly isEstimate: boolean };
  readonly touches: string;
  readonly risks: readonly string[];
  readonly drops: readonly { readonly name: string; readonly count?: number }[];
}
interface Plan {
  readonly statements: readonly Statement[];
  readonly checks: readonly {
    name: string;
    says: string;
    count: number;
    examples: { id: string; value: string | null }[];
  }[];
  readonly api: readonly { kind: string; name: string; text: string; breaks: boolean }[];
  readonly partners: readonly { file: string; name: string }[];
  readonly undecided: readonly string[];
  readonly database?: { pending: string[]; problems: string[]; drift: string[] };
  readonly grants: readonly { organization: string; profile: string; grant: string; reason: string }[];
  readonly keys: readonly { readonly key: string; readonly resource: string; readonly field?: string }[];
  readonly clean: boolean;
}

test('the text of a plan distinguishes singular and plural, and omits empty sections', () => {
  const statement = { sql: '', table: 'leads', says: 'does it', lock: 'none', risks: [], drops: [] } as const;
  const check = { refuses: true, tookTooLong: false, examples: [] } as const;
  const drop = (name: string, count: number | undefined) => ({ name, count });
  const nothing = {
    ...{ statements: [], checks: [], api: [], partners: [], undecided: [], dependents: [] },
    ...{ database: undefined, keys: [], grants: [] },
    tables: { created: [], changed: [], dropped: [] },
  };
  assert.equal(
    planText(nothing, 'no database'),
    'The definitions have not changed since the last migration.',
  );
  const api = { kind: 'added', name: 'leads filter fax', text: 'is new', breaks: false } as const;
  const added = { ...api, name: 'visits' };
  assert.match(
    planText({ ...nothing, api: [api] }, undefined),
    /^1 API change\.\n\nThe change affects only the API\. The tables do not change\.\n\nAPI clients:\n/,
  );
  const text = planText(
    {
      ...nothing,
      statements: [
        { ...statement, title: 'a'.repeat(161), touches: 'rewrites', rows: { count: 1, isEstimate: false } },
        { ...statement, title: 'b'.repeat(160), touches: 'reads', rows: { count: 2000, isEstimate: true } },
        { ...statement, title: 'c', touches: 'writes', rows: undefined },
        { ...statement, title: 'd', touches: 'nothing', rows: undefined },
        {
          ...statement,
          title: 'e',
          touches: 'nothing',
          rows: undefined,
          drops: [
            ...[drop('cases', 1), drop('tasks', 2000), drop('leads.fax', 1), drop('leads.code', 2)],
            drop('leads.zone', undefined),
          ],
        },
      ],
      checks: [
        { ...check, name: 'leads.a', says: 'is long', count: 1 },
        { ...check, name: 'leads.b', says: 'is long', count: undefined },
        { ...check, name: 'leads.c', says: 'is long', count: 0 },
        {
          ...check,
          name: 'leads.d',
          says: 'is long',
          count: 2,
          refuses: false,
          replaces: true,
          examples: [
            { organization: '1', id: '7', value: 'x' },
            { organization: '2', id: '8', value: null },
          ],
        },
      ],
      api: [api, added, { ...added, kind: 'removed', name: 'cases', breaks: true }, { ...api, breaks: true }],
      partners: [{ file: 'leads.ts', name: 'leads.fax' }],
      undecided: ['decide'],
      dependents: ['view v'],
      database: {
        ...{ pending: ['one', 'two'], unfinished: ['unfinished'], problems: ['problem'] },
        ...{ waiting: ['waiting'], drift: ['different'] },
      },
      tables: { created: ['visits'], changed: ['leads', 'tasks'], dropped: ['cases'] },
    },
    'no database',
  );
  const [clients = '', ...rest] = text.split(/\n(?= {2}change )[\s\S]*?\n\n/);
  assert.equal(
    [clients, ...rest].join('\n\n'),
    `1 new table, 2 changed tables, 1 dropped table, 1 new resource, 1 removed resource, 2 other API changes (1 breaks clients).

The database:
  1. ${'a'.repeat(160)}…
     lock none · rewrites 1 row
     does it
  2. ${'b'.repeat(160)}
     lock none · reads ~2000 rows
     does it
  3. c
     lock none · writes ? rows
     does it
  4. d
     lock none · no rows
     does it
  5. e
     lock none · drops cases: 1 record, drops tasks: 2,000 records, drops leads.fax: 1 record has a value, drops leads.code: 2 records have a value, drops leads.zone: an unknown number of records have a value
     does it

Stored values incompatible with the new definitions:
  leads.a is long in 1 record. The migration will fail until they are fixed.
  leads.b is long in an unknown number of records. The migration will fail until they are fixed.

Stored values that the migration replaces:
  leads.d is long in 2 records
    record 7 of organization 1: "x"
    record 8 of organization 2

API clients:

Integrations still need removed fields or resources, so the migration cannot be written:
  leads.ts needs leads.fax

These objects were not created by a migration and use a column whose type changes. The migration will fail until they are dropped:
  view v

Decide what happens to these fields and resources before creating the migration (this plan drops them):
decide

Pending migrations: one, two.
unfinished
problem
waiting

The database differs from its migrations:
  different

Rows are not counted: no database.`,
  );
});

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
        `insert into leads (organization_id, company, source, lead_score, instagram_handle, created_at, updated_at)
         select 1, 'Same', 'Web ' || n, case when n > 12 then 0 else 3000000000 end, case when n > 13 then '' else 'x' end, now(), now() from generate_series(1, 20) n`,
      );
      await sql(
        `with p as (insert into crm_profiles (organization_id, name) values (1, 'Website') returning id),
           k as (insert into crm_api_keys (organization_id, public_id, secret_hash, last_four, name, profile_id)
             select 1, 'x', 'x', 'abcd', 'Website', id from p returning id)
         insert into crm_name_uses (organization_id, key_id, resource, name) select 1, id, 'leads', name
           from k, (values (''), ('company'), ('timezone'), ('instagram_handle')) v (name)`,
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
      assert.deepEqual(database, { pending: [], unfinished: [], problems: [], waiting: [], drift: [] });
    });

    test('names the profiles that lose access, which --check does not accept', async () => {
      const text = own.text('leads');
      own.add('leads', `${text}\nscopes:\n  own: owner_id == me\n`);
      own.edit('leads', 'lead_score: { type: int64,', 'lead_score: { type: int64, group: scoring,');
      await sql("insert into crm_profiles (organization_id, name) values (1, 'Sales')");
      await sql(
        `insert into crm_grants (organization_id, profile_id, object, action)
         select organization_id, id, object, action from crm_profiles,
           (values ('leads', 'list'), ('leads', 'update:own'), ('leads.scoring', 'read'), ('*', 'read')) v (object, action)
         where name = 'Sales'`,
      );
      try {
        assert.deepEqual((await plan('--check')).grants, []);
        own.add('leads', text);
        const { grants, clean, code } = await plan('--check');
        assert.deepEqual([clean, code], [false, 1]);
        const names = 'accounts, cases, contacts, leads, opportunities, events, members, *';
        const profile = { organization: 'alpha', profile: 'Sales' };
        assert.deepEqual(grants, [
          {
            ...profile,
            grant: 'leads.scoring:read',
            reason: `object "leads.scoring" does not exist. Available: ${names}`,
          },
          {
            ...profile,
            grant: 'leads:update:own',
            reason: 'leads does not define scopes, but the grant names "own"',
          },
        ]);
        const line =
          'alpha: the grant leads:update:own of the profile "Sales" allows nothing: leads does not';
        for (const command of [['plan'], ['plan', '--markdown'], ['migrate']])
          assert.ok((await crm(command, environment)).stdout.includes(line), command.join(' '));
      } finally {
        await sql("delete from crm_profiles where name = 'Sales'");
        own.add('leads', text);
      }
    });

    test('--check fails for a change to the API that breaks clients, although the tables do not change', async () => {
      const text = own.text('leads');
      for (const [from, to, code] of [
        ['  company: { type: string,', '  company: { type: string, required: true,', 1],
        ['  - { field: rating, operators: [eq, ne, in] }', '  - { field: rating, operators: [eq] }', 1],
        ['enum: [Hot, Warm, Cold]', 'enum: [Hot, Warm, Cold, Lost]', 0],
        ['  timezone: { type: string,', '  timezone: { type: string, group: place,', 1],
        ['sort:', 'scopes: { hot: rating == "Hot" }\nsort:', 0],
      ] as const) {
        own.edit('leads', from, to);
        const { statements, api, ...result } = await plan('--check', '--offline');
        assert.ok(api.length > 0, to);
        assert.deepEqual([statements, result.clean, result.code], [[], code === 0, code], to);
        own.add('leads', text);
      }
    });

    test('reports a change of on_delete to callers, although the tables do not change', async () => {
      const text = own.text('contacts');
      for (const [rule, change, code] of [
        ['restrict', 'stricter contacts.account_id now prevents its record from being deleted', 1],
        [
          'cascade',
          'stricter contacts.account_id now has its own record deleted together with the record that it refers to',
          1,
        ],
        ['clear', undefined, 0],
      ] as const) {
        own.edit('contacts', 'to: accounts,', `to: accounts, on_delete: ${rule},`);
        const { statements, api, ...result } = await plan('--check', '--offline');
        assert.deepEqual(
          api.map(({ kind, name, text }) => `${kind} ${name} ${text}`),
          change === undefined ? [] : [change],
        );
        assert.deepEqual([statements, result.code], [[], code]);
        own.add('contacts', text);
      }
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
      const { statements, checks, api, undecided, partners, keys, clean, code } = await plan('--check');
      assert.deepEqual([clean, code], [false, 1]);
      assert.deepEqual(readdirSync(join(own.path, 'migrations')), files, 'nothing is written');

      const rename = find(statements, /rename column "timezone" to "zone"/);
      assert.deepEqual(
        [rename.lock, rename.touches, rename.risks, rename.rows],
        ['ACCESS EXCLUSIVE', 'nothing', ['needs a restart'], undefined],
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
      const drop = find(statements, /drop column "instagram_handle"/);
      assert.deepEqual(drop.risks, ['destructive', 'needs a restart']);
      assert.deepEqual(drop.drops, [{ name: 'leads.instagram_handle', count: 13 }]);
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
      const ids = score?.examples.map(({ id }) => Number(id)) ?? [];
      assert.deepEqual(
        ids,
        ids.toSorted((a, b) => a - b),
      );
      assert.deepEqual([company?.name, company?.count], ['leads.company', 20]);
      assert.equal(undecided.length, 1);
      assert.match(undecided[0] ?? '', /--allow-drop leads\.instagram_handle/);
      assert.deepEqual(partners, []);
      assert.deepEqual(
        keys.map(({ key, resource, field }) => `${key} ${resource}.${field}`),
        ['Website (…abcd) leads.instagram_handle', 'Website (…abcd) leads.timezone'],
      );
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
      assert.match(told.stdout, /renamed +leads\.timezone +is now zone +breaks clients/);
      const used = /alpha: Website \(…abcd\) used leads\.timezone, last on \d{4}-\d\d-\d\d$/m;
      assert.match(told.stdout, used);
      const drop = /drops leads\.instagram_handle: 13 records have a value/;
      assert.match(told.stdout, drop);
      const pasted = (await crm(['plan', '--markdown'], environment)).stdout;
      assert.match(
        pasted,
        /^### Plan\n\n1 changed table, 7 API changes \(6 break clients\)\.\n\n\| statement \| lock \| rows \|/,
      );
      assert.match(told.stdout, /^1 changed table, 7 API changes \(6 break clients\)\.\n\nThe database:\n/);
      assert.match(pasted, drop);
      assert.match(pasted, used);
      assert.doesNotMatch(pasted, /3000000000/, 'a pull request must not contain record values');
    });

    test('Markdown tables escape vertical bars', async () => {
      const text = own.text('leads');
      own.edit('leads', 'facebook_url: { type: string,', 'facebook_url: { type: string, pattern: "^(a|b)$",');
      const { stdout } = await crm(['plan', '--markdown', '--offline'], environment);
      assert.ok(
        stdout.includes('| stricter | leads.facebook_url | must match ^(a\\|b)$ | breaks clients |'),
        stdout,
      );
      own.add('leads', text);
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

    test('--using and --default take everything after the first equals sign', async () => {
      const sqlOf = async (...args: string[]) =>
        (await plan('--offline', ...args)).statements.map((statement) => statement.sql).join('\n');
      const expression = `case when source = 'a=b' then 'x=' else '' end`;
      assert.ok((await sqlOf('--using', `leads.company=${expression}`)).includes(expression));
      assert.ok((await sqlOf('--default', `leads.company=it's=x=`)).includes(`'it''s=x='`));
      const { stdout } = await crm(['plan', '--markdown', '--default', 'leads.company=x'], environment);
      assert.match(
        stdout,
        /\n\*\*Stored values that the migration replaces\*\*\n\n- leads\.company has a duplicate value in 20 records\n/,
      );
      const both = await sqlOf('--using', `leads.company=${expression}`, '--default', 'leads.lead_score=7');
      assert.ok(both.includes(expression) && both.includes(`'7'`), both);
      for (const option of ['--using', '--default'])
        for (const value of ['leads.company', '=x', '=x=y'])
          assertRefused(
            await crm(['plan', '--offline', option, value], environment),
            `${option} needs a field and a value, for example leads.score=0`,
          );
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

    test('the migrated definitions are imported by their unique fields', async () => {
      const file = join(own.path, 'leads.csv');
      writeFileSync(file, 'company,source\n1,Matched\nnew,Added\n');
      const args = ['import', 'leads', file, '--org', 'alpha', '--match', 'company'];
      assert.equal((await crm(args, environment)).stdout, '1 created, 1 updated, 0 failed.\n');
      await sql("delete from leads where source = 'Added'");
    });

    test('marks a removed unique key, search, order or sort parameter as breaking clients', async () => {
      const texts = ['leads', 'accounts'].map((name) => [name, own.text(name)] as const);
      own.edit('leads', 'company: { type: string, unique: true,', 'company: { type: string,');
      own.edit('leads', /^search: .*\n/m, '');
      own.edit('leads', 'direction: desc', 'direction: asc');
      own.edit('accounts', 'by: name, direction: asc', 'by: created_at, direction: asc, selectable: false');
      const { api, code } = await plan('--offline', '--check');
      assert.equal(code, 1);
      assert.deepEqual(api.map(({ kind, name, breaks }) => `${kind} ${name}${breaks ? '!' : ''}`).sort(), [
        'removed accounts parameter sort!',
        'removed leads match company!',
        'removed leads search q!',
        'retyped accounts order!',
        'retyped leads order!',
      ]);
      for (const [name, text] of texts) own.add(name, text);
    });

    test('counts no values of a column that a pending migration has yet to add', async () => {
      const text = own.text('leads');
      const shipped = own.migrations();
      own.edit('leads', /^fields:$/m, 'fields:\n  pager: { type: string }');
      const created = await crm(['migrate', '--create', 'pager'], environment);
      assert.equal(created.code, 0, created.stderr);
      own.edit('leads', 'pager: { type: string }', 'pager: { type: integer }');
      assert.deepEqual(
        (await plan()).checks.map(({ name, count }) => [name, count]),
        [['leads.pager', undefined]],
      );
      own.add('leads', text);
      const { statements } = await plan('--allow-drop', 'leads.pager');
      assert.deepEqual(find(statements, /drop column "pager"/).drops, [{ name: 'leads.pager' }]);
      for (const name of own.migrations()) if (!shipped.includes(name)) own.removeMigration(name);
    });

    test('names fields written by a partner endpoint', async () => {
      const text = own.text('leads');
      own.edit('leads', /^ {2}meta_ad_id: .*\n/m, '');
      const { partners } = await plan();
      assert.ok(
        partners.some(({ name }) => name === 'leads.meta_ad_id'),
        JSON.stringify(partners),
      );
      assert.match(
        (await crm(['plan', '--markdown'], environment)).stdout,
        /\n\*\*Needed by\*\*\n\n(?:- `.*` needs .*\n)*- `\S+` needs leads\.meta_ad_id\n/,
      );
      own.add('leads', text);
    });

    test('a dropped table counts its records; a new one locks no table but those it refers to', async () => {
      own.add(
        'visits',
        'common: all\nfields:\n  place: { type: string }\n  account_id: { type: reference, to: accounts, nullable: true }\nfilters: [place]\n',
      );
      const cases = own.text('cases');
      own.drop('cases');
      await sql(
        `insert into cases (organization_id, description, created_at, updated_at) select 1, case n when 1 then '' else 'x' end, now(), now() from generate_series(1, 3) n`,
      );
      own.add('tickets', `renamed_from: cases\n${cases.replace(/^ {2}description: .*\n/m, '')}`);
      assert.deepEqual(find((await plan()).statements, /drop column "description"/).drops, [
        { name: 'tickets.description', count: 2 },
      ]);
      own.drop('tickets');
      const { statements } = await plan();
      assert.deepEqual(find(statements, /^drop table .*"cases"/).drops, [{ name: 'cases', count: 3 }]);
      await sql('delete from cases');
      const index = find(statements, /^create index .* on "visits"/);
      assert.deepEqual([index.lock, index.touches, index.risks], ['none', 'nothing', []]);
      const link = find(statements, /^alter table "visits" .* references "accounts"/);
      assert.deepEqual([link.lock, link.touches, link.risks], ['SHARE ROW EXCLUSIVE', 'nothing', []]);
      own.add('cases', cases);
      own.drop('visits');
    });

    test('reports everything except row counts without a database', async () => {
      const text = own.text('leads');
      own.edit('leads', 'lead_score: { type: integer,', 'lead_score: { type: string,');
      own.edit('leads', '  measures: [lead_score]\n', '');
      const { statements, database } = await plan('--offline');
      assert.equal(find(statements, /type text/).rows, undefined);
      assert.equal(database ?? null, null);
      const textWith = async (variables: Readonly<Record<string, string>>, ...args: string[]) => {
        const { code, stdout } = await crm(['plan', ...args], { ...own.environment, ...variables });
        assert.equal(code, 0);
        assert.match(stdout, /· rewrites \? rows/);
        return stdout.trimEnd().split('\n').at(-1);
      };
      assert.equal(await textWith({}, '--offline'), 'Rows are not counted: --offline.');
      assert.equal(
        await textWith({ DATA_DIR: join(own.path, 'none') }),
        'Rows are not counted: the database does not exist yet.',
      );
      assert.match(
        String(await textWith({ DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing' })),
        /^Rows are not counted: the database at 127\.0\.0\.1:1\/nothing does not respond: .*\.$/,
      );
      own.add('leads', text);
    });

    test('reports drift caused by manual changes to the database', async () => {
      await sql('alter table leads add column by_hand text');
      await sql('drop index leads_source_index');
      await sql('drop trigger _version on leads');
      await sql('alter table contacts disable trigger _version');
      await sql('alter table cases alter column subject drop not null');
      await sql('alter table cases alter column priority type varchar(99)');
      await sql('alter table opportunities drop column probability');
      await sql("update pg_index set indisvalid = false where indexrelid = 'leads_status_index'::regclass");
      const link = 'opportunities_account_id_foreign';
      await sql(`alter table opportunities drop constraint ${link}`);
      await sql(
        `alter table opportunities add constraint ${link} foreign key (organization_id, account_id) references accounts (organization_id, id) not valid`,
      );
      await sql('alter table crm_notes rename to crm_notes_by_hand');
      // Tables in another schema do not count.
      await sql('create schema other');
      await sql('create table other.leads (by_other text)');
      await sql(
        'create trigger _version before update on other.leads for each row execute function suppress_redundant_updates_trigger()',
      );
      await sql(`create table other.opportunities (id bigint, constraint ${link} check (id > 0))`);
      const { code, database } = await plan('--check');
      assert.equal(code, 1);
      assert.deepEqual([...(database?.drift ?? [])].sort(), [
        'leads_source_index of leads is missing or invalid',
        'leads_status_index of leads is missing or invalid',
        `${link} of opportunities is missing or invalid`,
        'the column cases.priority is character varying not null, not text not null',
        'the column cases.subject is text, not text not null',
        'the column leads.by_hand was not created by a migration',
        'the column opportunities.probability is missing',
        'the table crm_notes is missing',
        'the trigger _version of contacts is missing or disabled',
        'the trigger _version of leads is missing or disabled',
      ]);
      await sql('drop schema other cascade');
      await sql('alter table crm_notes_by_hand rename to crm_notes');
      const doctor = await crm(['doctor'], environment);
      assert.match(doctor.stdout + doctor.stderr, /the trigger _version of leads is missing or disabled/);
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
        /^Migration20261122080348_filters was applied, but its file is missing from /m,
      );
      writeFileSync(join(folder, old), oldText);
      const between = 'Migration20261122080349_between';
      writeFileSync(
        join(folder, `${between}.ts`),
        `import { Migration } from '@mikro-orm/migrations';\nexport class ${between} extends Migration { override up(): void { this.addSql('select 1'); } }\n`,
      );
      assert.match(
        await status(),
        new RegExp(`^${between} was skipped, because the later migration ${name} is already applied`, 'm'),
      );
      rmSync(join(folder, `${between}.ts`));
      // Simulate a file that has been edited since. It cannot be edited here, because a process loads a
      // module only once.
      await sql(`update crm_migrations set checksum = 'other' where name = '${name}'`);
      assert.match(await status(), new RegExp(`^${name} was changed after it was applied`, 'm'));
    });
  });
}
