// Two branches that make the same change, or changes that contradict each other, each have a valid migration. The merged
// migrations cannot be applied, which is reported before any database is changed.
import assert from 'node:assert/strict';
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import type { Change } from '../../engine/schema/changes/change.ts';
import { assertMergeable } from '../../engine/schema/merged.ts';
import { drivers, temporaryFolder } from '../support/instance.ts';
import { type OwnFiles, ownFiles } from '../support/own-files.ts';
import { crm, migratedStorage, type Storage } from '../support/process.ts';

const text = { type: 'text' } as const;
const createTable = (table: string): Change => ({
  kind: 'createTable',
  table,
  columns: { id: { type: 'bigint' } },
  primaryKey: { name: `${table}_pkey`, columns: ['id'] },
});
const dropTable = (table: string): Change => ({ kind: 'dropTable', table, triggers: [] });
const renameTable = (table: string, to: string): Change => ({ kind: 'renameTable', table, to, triggers: [] });
const addColumns = (table: string, ...names: string[]): Change => ({
  kind: 'addColumns',
  table,
  columns: Object.fromEntries(names.map((name) => [name, text])),
});
const dropColumns = (table: string, ...columns: string[]): Change => ({
  kind: 'dropColumns',
  table,
  columns,
});
const renameColumn = (column: string, to: string): Change => ({
  kind: 'renameColumn',
  table: 'leads',
  column,
  to,
});
const leads = (name: string) => ({ table: 'leads', name }) as const;
const createIndex = (name: string, column = 'fax'): Change => ({
  kind: 'createIndex',
  ...leads(name),
  index: { keys: [`"${column}"`] },
});
const dropIndex = (name: string): Change => ({ kind: 'dropIndex', ...leads(name) });
const renameIndex = (name: string, to: string): Change => ({ kind: 'renameIndex', ...leads(name), to });
const key = { columns: ['fax'], to: 'accounts', toColumns: ['id'] } as const;
const addForeignKey = (name: string): Change => ({ kind: 'addForeignKey', ...leads(name), key });
const addConstraint = (name: string): Change => ({
  kind: 'addConstraint',
  ...leads(name),
  check: { condition: '"fax" <> \'\'' },
});
const createTrigger = (name: string): Change => ({
  kind: 'createTrigger',
  ...leads(name),
  trigger: { timing: 'before', events: ['insert'], body: 'return new;' },
});
const alterTypes: Change = {
  kind: 'alterTypes',
  table: 'leads',
  columns: [{ name: 'fax', type: 'bigint', using: '"fax"::bigint' }],
};
const raw = (sql: string): Change => ({ kind: 'raw', sql });

/** What the last of some migrations m1, m2, … repeats or contradicts, or undefined if it can be applied. */
const merges: readonly (readonly [
  what: string,
  migrations: readonly (readonly Change[])[],
  conflict: string | undefined,
])[] = [
  // Parts that both add.
  ['a table', [[createTable('cars')], [createTable('cars')]], 'adds the table cars, which m1 already adds'],
  [
    'a table with its parts',
    [
      [createTable('leads'), createIndex('i'), addForeignKey('f')],
      [createTable('leads'), createIndex('i'), addForeignKey('f')],
    ],
    'adds the table leads, which m1 already adds',
  ],
  [
    'several fields',
    [
      [addColumns('leads', 'fax', 'tel'), addColumns('cars', 'fax')],
      [addColumns('leads', 'tel', 'web', 'fax')],
    ],
    'adds leads.tel and leads.fax, which m1 already adds',
  ],
  [
    'a field with its index and constraint',
    [
      [addColumns('leads', 'fax'), createIndex('i'), addConstraint('c')],
      [addColumns('leads', 'fax'), createIndex('i'), addConstraint('c')],
    ],
    'adds leads.fax, which m1 already adds',
  ],
  ['an index', [[createIndex('i')], [createIndex('i')]], 'adds the index i of leads, which m1 already adds'],
  [
    'an index of a retyped field',
    [[createIndex('i')], [{ kind: 'retypeColumns', table: 'leads', changes: [createIndex('i') as never] }]],
    'adds the index i of leads, which m1 already adds',
  ],
  [
    'a foreign key',
    [[addForeignKey('f')], [addForeignKey('f')]],
    'adds the foreign key f of leads, which m1 already adds',
  ],
  [
    'a constraint',
    [[addConstraint('c')], [addConstraint('c')]],
    'adds the constraint c of leads, which m1 already adds',
  ],
  [
    'a trigger',
    [[createTrigger('t')], [createTrigger('t')]],
    'adds the trigger t of leads, which m1 already adds',
  ],
  ['a field of different tables', [[addColumns('leads', 'fax')], [addColumns('cars', 'fax')]], undefined],
  // Parts that both drop.
  [
    'dropped fields and their indexes',
    [
      [dropIndex('i'), dropColumns('leads', 'fax')],
      [dropIndex('i'), dropColumns('leads', 'fax')],
    ],
    'drops leads.fax, which m1 already drops',
  ],
  [
    'dropped indexes',
    [[dropIndex('i')], [dropIndex('i')]],
    'drops the index i of leads, which m1 already drops',
  ],
  [
    'dropped foreign keys and constraints',
    [
      [
        { kind: 'dropForeignKey', ...leads('f') },
        { kind: 'dropConstraint', ...leads('c') },
      ],
      [
        { kind: 'dropForeignKey', ...leads('f') },
        { kind: 'dropConstraint', ...leads('c') },
      ],
    ],
    'drops the foreign key f of leads and the constraint c of leads, which m1 already drops',
  ],
  [
    'dropped tables and triggers, which need not exist',
    [
      [dropTable('cars'), { kind: 'dropTrigger', ...leads('t') }],
      [dropTable('cars'), { kind: 'dropTrigger', ...leads('t') }],
    ],
    undefined,
  ],
  // Parts that both rename.
  [
    'renamed tables',
    [[renameTable('leads', 'people')], [renameTable('leads', 'people')]],
    'renames the table leads, which m1 already renames to people',
  ],
  [
    'renamed fields and their indexes',
    [
      [renameColumn('fax', 'telefax'), renameIndex('i', 'j')],
      [renameColumn('fax', 'tel'), renameIndex('i', 'k')],
    ],
    'renames leads.fax, which m1 already renames to leads.telefax',
  ],
  [
    'renamed indexes',
    [[renameIndex('i', 'j')], [renameIndex('i', 'j')]],
    'renames the index i of leads, which m1 already renames to j',
  ],
  [
    'renamed foreign keys',
    [
      [{ kind: 'renameForeignKey', ...leads('f'), to: 'g' }],
      [{ kind: 'renameForeignKey', ...leads('f'), to: 'g' }],
    ],
    'renames the foreign key f of leads, which m1 already renames to g',
  ],
  // Changes that contradict each other.
  [
    'a field of a renamed table',
    [[renameTable('leads', 'people')], [addColumns('leads', 'fax'), createIndex('i')]],
    'changes the table leads, which m1 renames to people',
  ],
  [
    'a field of a dropped table',
    [[dropTable('leads')], [addColumns('leads', 'fax')]],
    'changes the table leads, which m1 drops',
  ],
  [
    'a renamed table that is dropped',
    [[renameTable('leads', 'people')], [dropTable('leads')]],
    'drops the table leads, which m1 renames to people',
  ],
  [
    'a renamed field that is dropped',
    [[renameColumn('fax', 'telefax')], [dropColumns('leads', 'fax')]],
    'drops leads.fax, which m1 renames to leads.telefax',
  ],
  [
    'a dropped field that is converted',
    [[dropColumns('leads', 'fax')], [alterTypes]],
    'changes leads.fax, which m1 drops',
  ],
  [
    'a dropped field whose rule changes',
    [
      [dropColumns('leads', 'fax')],
      [
        { kind: 'nullability', table: 'leads', column: 'fax', nullable: true },
        { kind: 'default', table: 'leads', column: 'fax', value: null },
        { kind: 'backfill', table: 'leads', column: 'fax', value: "''" },
      ],
    ],
    'changes leads.fax, which m1 drops',
  ],
  [
    'a field with the new name of another',
    [[renameColumn('fax', 'telefax')], [addColumns('leads', 'telefax')]],
    'adds leads.telefax, to which m1 renames leads.fax',
  ],
  [
    'a field renamed to the name of a new field',
    [[addColumns('leads', 'telefax')], [renameColumn('fax', 'telefax')]],
    'renames leads.fax to leads.telefax, which m1 already adds',
  ],
  [
    'a table renamed to the name of a new table',
    [[createTable('people')], [renameTable('leads', 'people')]],
    'renames the table leads to people, which m1 already adds',
  ],
  [
    'different conflicts',
    [
      [addColumns('leads', 'fax'), dropColumns('leads', 'tel')],
      [createIndex('i')],
      [addColumns('leads', 'fax'), dropColumns('leads', 'tel'), createTable('cars')],
    ],
    'adds leads.fax, which m1 already adds, and drops leads.tel, which m1 already drops',
  ],
  // Renamed parts stay the same parts.
  [
    'a field of a table that was renamed in between',
    [[addColumns('leads', 'fax')], [renameTable('leads', 'people')], [addColumns('people', 'fax')]],
    'adds people.fax, which m1 already adds',
  ],
  [
    'an index that was renamed in between',
    [[createIndex('i')], [renameIndex('i', 'j')], [createIndex('j')]],
    'adds the index j of leads, to which m2 renames the index i of leads',
  ],
  [
    'the former name of a field',
    [[addColumns('leads', 'fax')], [renameColumn('fax', 'telefax')], [addColumns('leads', 'fax')]],
    undefined,
  ],
  [
    'the former name of a table, with a field of the same name',
    [
      [addColumns('leads', 'fax')],
      [renameTable('leads', 'people')],
      [createTable('leads')],
      [addColumns('leads', 'fax')],
    ],
    undefined,
  ],
  // Dropped parts can be added again.
  [
    'a dropped field',
    [[addColumns('leads', 'fax')], [dropColumns('leads', 'fax')], [addColumns('leads', 'fax')]],
    undefined,
  ],
  [
    'a replaced field',
    [[addColumns('leads', 'fax')], [dropColumns('leads', 'fax'), addColumns('leads', 'fax')]],
    undefined,
  ],
  [
    'a dropped table and its fields',
    [
      [createTable('leads'), addColumns('leads', 'fax')],
      [dropTable('leads')],
      [createTable('leads'), addColumns('leads', 'fax')],
      [dropColumns('leads', 'fax')],
    ],
    undefined,
  ],
  [
    'an index dropped with its field',
    [
      [addColumns('leads', 'fax'), createIndex('i')],
      [dropColumns('leads', 'fax')],
      [addColumns('leads', 'fax'), createIndex('i')],
    ],
    undefined,
  ],
  ['a changed index', [[createIndex('i')], [dropIndex('i'), createIndex('i')]], undefined],
  [
    'a changed trigger',
    [[createTrigger('t')], [{ kind: 'dropTrigger', ...leads('t') }, createTrigger('t')]],
    undefined,
  ],
  [
    'an index dropped with its field after a rename',
    [
      [addColumns('leads', 'fax'), createIndex('i')],
      [renameColumn('fax', 'tel')],
      [dropColumns('leads', 'tel')],
      [addColumns('leads', 'tel'), createIndex('i', 'tel')],
    ],
    undefined,
  ],
  [
    'a foreign key dropped with the table that it refers to',
    [
      [createTable('accounts'), addForeignKey('f')],
      [dropTable('accounts')],
      [createTable('accounts'), addForeignKey('f')],
    ],
    undefined,
  ],
  // Hand-written statements can do anything.
  [
    'parts in hand-written statements',
    [
      [addColumns('leads', 'fax'), createIndex('i_by_fax'), dropColumns('leads', 'tel')],
      [raw('drop index "i_by_fax"'), raw('alter table leads drop fax, add tel text')],
      [addColumns('leads', 'fax'), createIndex('i_by_fax'), dropColumns('leads', 'tel')],
    ],
    undefined,
  ],
  [
    'a table in hand-written statements',
    [[dropTable('cars')], [raw('create table cars (id bigint)')], [addColumns('cars', 'fax')]],
    undefined,
  ],
  [
    'parts that hand-written statements do not name',
    [
      [addColumns('leads', 'fax')],
      [raw('alter table leads rename to former; create table leads (id bigint)')],
      [addColumns('leads', 'fax')],
    ],
    undefined,
  ],
  [
    'parts that are added after hand-written statements',
    [[raw('select 1')], [addColumns('leads', 'fax')], [addColumns('leads', 'fax')]],
    'adds leads.fax, which m2 already adds',
  ],
];

describe('conflicts between migrations', () => {
  const stop = 'run "crm migrate --create" for the rest of its changes.';
  /** Writes migrations into a folder and checks them. Content is source code or a list of changes. */
  async function check(contents: readonly (string | readonly Change[])[]): Promise<string> {
    const { path, remove } = temporaryFolder();
    const nameOf = (index: number) => `Migration${index + 1}_m`;
    for (const [index, content] of contents.entries()) {
      const source =
        typeof content === 'string' ? content : `export const changes = ${JSON.stringify(content)};`;
      writeFileSync(join(path, `${nameOf(index)}.ts`), source);
      if (typeof content !== 'string') writeFileSync(join(path, `${nameOf(index)}.json`), '{"tables":{}}');
    }
    try {
      await assertMergeable({ ...readConfig({}), migrations: path, platformMigrations: null });
      return '';
    } catch (error) {
      return (error as Error).message.replaceAll(`${path}/`, '').replace(/Migration(\d+)_m/g, 'm$1');
    } finally {
      remove();
    }
  }

  for (const [what, migrations, conflict] of merges) {
    test(what, async () => {
      const last = `m${migrations.length}`;
      const expected =
        conflict === undefined
          ? ''
          : `${last}.ts  ${conflict}. Delete this migration and ${last}.json, then ${stop}`;
      assert.equal(await check(migrations), expected);
    });
  }

  test('each migration with conflicts is reported, with the first one that made the change', async () => {
    const twice = [addColumns('leads', 'fax')];
    assert.equal(
      await check([twice, twice, twice]),
      ['m2', 'm3']
        .map(
          (name) =>
            `${name}.ts  adds leads.fax, which m1 already adds. Delete this migration and ${name}.json, then ${stop}`,
        )
        .join('\n'),
    );
  });

  test('a class with hand-written statements can change everything, and is not loaded', async () => {
    const add = [addColumns('leads', 'fax')];
    assert.equal(await check([add, 'throw new Error("loaded");', add]), '');
    assert.match(await check(['', add, add]), /^m3\.ts {2}adds leads\.fax, which m2 already adds\./);
  });
});

/**
 * Edits the definitions and writes the migration twice, as two branches do.
 * @returns the names of both migrations, in order
 */
async function createdTwice(own: OwnFiles, edit: (own: OwnFiles) => void, args: readonly string[] = []) {
  const folder = join(own.path, 'migrations');
  const elsewhere = temporaryFolder();
  const shipped = own.migrations();
  const added = () => own.migrations().filter((name) => !shipped.includes(name));
  const create = async (name: string) => {
    const { code, stderr } = await crm(['migrate', '--create', name, ...args], own.environment);
    assert.equal(code, 0, stderr);
  };
  edit(own);
  await create('ours');
  const ours = added();
  for (const name of ours) {
    copyFileSync(join(folder, name), join(elsewhere.path, name));
    own.removeMigration(name);
  }
  await create('theirs');
  for (const name of ours) copyFileSync(join(elsewhere.path, name), join(folder, name));
  elsewhere.remove();
  const [first = '', second = '', ...more] = added()
    .filter((name) => name.endsWith('.ts'))
    .map((name) => name.replace('.ts', ''));
  assert.deepEqual(more, []);
  return { first, second };
}

/** Returns the text with which a command rejects the second migration. */
const rejection = (second: string, conflict: string) =>
  `${second}.ts  ${conflict}. Delete this migration and ${second}.json, then run "crm migrate --create" for the rest of its changes.`;

/** Deletes a migration, as the text of the rejection says. */
const removeMigration = (own: OwnFiles, name: string) => {
  for (const ending of ['ts', 'json']) own.removeMigration(`${name}.${ending}`);
};

describe('the same change in two branches', { concurrency: 1 }, () => {
  let own: OwnFiles;
  beforeEach(() => {
    own = ownFiles();
  });
  afterEach(() => own.remove());

  for (const [what, edit, args, conflict] of [
    [
      'a new resource with a list',
      ({ add }) =>
        add(
          'cars',
          'singular: car\ncommon: all\nfields:\n  plate: { type: string, unique: true }\n  colors: { type: list, of: string }\n',
        ),
      [],
      (first) => `adds the table cars, which ${first} already adds`,
    ],
    [
      'a new filter',
      ({ edit: replace }) =>
        replace('leads', /^filters:\n/m, 'filters:\n  - { field: timezone, operators: [eq] }\n'),
      [],
      (first) => `adds the index leads_timezone_index of leads, which ${first} already adds`,
    ],
    [
      'a renamed field',
      ({ edit: replace }) => replace('leads', /^ {2}timezone: \{/m, '  zone: { renamed_from: timezone,'),
      [],
      (first) => `renames leads.timezone, which ${first} already renames to leads.zone`,
    ],
    [
      'a dropped field',
      ({ edit: replace }) => replace('leads', /^ {2}timezone: .*\n/m, ''),
      ['--allow-drop', 'leads.timezone'],
      (first) => `drops leads.timezone, which ${first} already drops`,
    ],
  ] satisfies [string, (own: OwnFiles) => void, string[], (first: string) => string][]) {
    test(`${what} is reported`, async () => {
      const { first, second } = await createdTwice(own, edit, args);
      const { code, stderr } = await crm(['check'], own.environment);
      assert.equal(code, 1);
      assert.ok(stderr.includes(rejection(second, conflict(first))), stderr);
      removeMigration(own, second);
      const repaired = await crm(['check'], own.environment);
      assert.equal(repaired.code, 0, repaired.stderr);
    });
  }
});

for (const driver of drivers) {
  describe(`merged branches (${driver})`, { concurrency: 1 }, () => {
    let own: OwnFiles;
    let storage: Storage;
    let environment: Readonly<Record<string, string>>;
    before(async () => {
      own = ownFiles();
      storage = await migratedStorage(driver);
      environment = { ...storage.environment, ...own.environment };
    });
    after(async () => {
      own.remove();
      await storage.remove();
    });

    test('reports a field and a resource added by both branches with both migrations in check, plan and migrate', async () => {
      const { first, second } = await createdTwice(own, ({ add, edit }) => {
        edit('leads', /^fields:$/m, 'fields:\n  fax: { type: string, description: Fax. }');
        add('cars', 'singular: car\ncommon: all\nfields:\n  plate: { type: string }\n');
      });
      const message = rejection(second, `adds the table cars and leads.fax, which ${first} already adds`);
      for (const command of [
        ['check'],
        ['plan', '--offline'],
        ['plan', '--check'],
        ['migrate'],
        ['migrate', '--create', 'more'],
      ]) {
        const { code, stderr } = await crm(command, environment);
        assert.equal(code, 1, command.join(' '));
        assert.ok(stderr.includes(message), stderr);
      }
      removeMigration(own, second);
      assert.equal((await crm(['check'], environment)).code, 0);
      const { code, stderr } = await crm(['migrate'], environment);
      assert.equal(code, 0, stderr);
    });
  });
}
