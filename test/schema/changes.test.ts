// Every kind of schema change: the resulting tables, its statements, and its form in a migration file.
import assert from 'node:assert/strict';
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import { modelOf } from '../../app/instance.ts';
import { compileResource } from '../../engine/compile/compile.ts';
import type { TableShape } from '../../engine/database/index.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { UserError } from '../../engine/errors.ts';
import { apiPrefix } from '../../engine/http/openapi.ts';
import type { Change } from '../../engine/schema/changes/change.ts';
import { applyChanges, kindOf, sqlOf } from '../../engine/schema/changes/index.ts';
import { simpleKinds } from '../../engine/schema/changes/simple.ts';
import { createMigration } from '../../engine/schema/create.ts';
import { difference } from '../../engine/schema/difference.ts';
import { listedChanges } from '../../engine/schema/migration-log.ts';
import { type Model, shapesOf } from '../../engine/schema/model.ts';
import { changeOf, type Intent } from '../../engine/schema/model-change.ts';
import { planChanges } from '../../engine/schema/plan.ts';
import { storedModel } from '../../engine/schema/stored-model.ts';
import { temporaryFolder } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';

const folder = temporaryFolder();
const config = { ...readConfig({ MIGRATIONS_DIR: folder.path }), platformMigrations: null };
const shipped = await sourcesWith();
const modelWith = (fields?: string, name = 'things'): Model => {
  const more =
    fields === undefined
      ? []
      : [{ file: `${name}.yaml`, text: `common: all\n${fields.replace(/^ +/gm, '')}` }];
  return modelOf(compileResource(checkSources([...shipped, ...more]), apiPrefix, []));
};

/** Edits whose migrations contain every kind of change, except for raw SQL. */
const edits: readonly (readonly [
  what: string,
  fields?: string | undefined,
  name?: string | undefined,
  intent?: Intent,
])[] = [
  [
    'a new resource',
    'fields: { title: { type: string }, code: { type: string }, note: { type: string, nullable: true } }',
  ],
  [
    'values with all quotes, which a migration file contains as they are',
    `fields: { title: { type: string, enum: ["it's", '"', '\`', '$\{title}', '\\'], closed: true }, code: { type: string }, note: { type: string, nullable: true } }`,
  ],
  [
    'an index, a reference, a search and a rule',
    `fields: { title: { type: string, unique: true, min_length: 2 }, code: { type: string }, note: { type: string }, account_id: { type: reference, to: accounts, nullable: true } }
    filters: [code, account_id]
    search: [title]`,
  ],
  [
    'types and a rule',
    `fields: { title: { type: string, unique: true }, code: { type: integer, min: 0 }, note: { type: timestamp, nullable: true }, account_id: { type: string, nullable: true } }
    filters: [code, account_id]
    search: [title]`,
  ],
  [
    'names',
    `renamed_from: things
    fields: { name: { type: string, unique: true, renamed_from: title }, number: { type: integer, min: 0, renamed_from: code }, at: { type: timestamp, nullable: true, renamed_from: note }, account_id: { type: string, nullable: true } }
    filters: [number, account_id]
    search: [name]`,
    'items',
  ],
  [
    'a retired field with a rule',
    `fields: { name: { type: string, unique: true }, number: { type: integer, min: 0, retired: true }, at: { type: timestamp, nullable: true }, account_id: { type: string, nullable: true } }
    filters: [account_id]
    search: [name]`,
    'items',
  ],
  [
    'a drop',
    'fields: { name: { type: string } }',
    'items',
    { drop: ['items.number', 'items.at', 'items.account_id'] },
  ],
  [
    'a reference',
    'fields: { name: { type: string }, parent_id: { type: reference, to: items, nullable: true } }',
    'items',
  ],
  [
    'a stored rollup',
    `fields: { name: { type: string }, parent_id: { type: reference, to: items, nullable: true }, parts: { type: integer, rollup: { count: true, of: items, by: parent_id, stored: true } } }`,
    'items',
  ],
  [
    'another condition',
    `fields: { name: { type: string }, parent_id: { type: reference, to: items, nullable: true }, parts: { type: integer, rollup: { count: true, of: items, by: parent_id, where: name != "", stored: true } } }`,
    'items',
  ],
  ['a dropped resource', undefined, undefined, { drop: ['items'] }],
];

describe('schema changes', { concurrency: 1 }, () => {
  const changes: Change[] = [];

  test('a migration file contains the changes, which lead to the new model', async () => {
    for (const [index, [what, fields, name, intent]] of [
      ['the shipped resources'] as const,
      ...edits,
    ].entries()) {
      const model = modelWith(fields, name);
      const before = storedModel(config).tables;
      const { renamed, changes: planned } = await changeOf(config, model, intent);
      const created = await createMigration(config, model, `m${index}`, intent);
      assert.deepEqual(created.changes, planned, what);
      assert.deepEqual(await listedChanges(String(created.file), ''), planned, what);
      const after = applyChanges(before, planned);
      assert.deepEqual(difference(after, await shapesOf(config, model)), [], what);
      assert.deepEqual(difference(storedModel(config).tables, after), [], what);
      assert.deepEqual((await changeOf(config, model)).changes, [], what);
      assert.equal(renamed.tables === undefined, what !== 'names', what);
      changes.push(...planned);
    }
  });

  test('a new migration runs last, even if others were created in the same second or by a clock that is ahead', async () => {
    const migrations = temporaryFolder();
    const own = { ...config, migrations: migrations.path };
    const namesOfCreated: string[] = [];
    const create = async (name: string, fields: string) => {
      const { file } = await createMigration(own, modelWith(fields), name);
      namesOfCreated.push(basename(String(file)).replace(/\.\w+$/, ''));
    };
    const assertInOrder = () => assert.deepEqual(namesOfCreated, namesOfCreated.toSorted());
    await create('d', 'fields: { title: { type: string } }');
    // These change only the API, so they have only a model patch.
    await create('c', 'fields: { title: { type: string, pattern: x } }');
    await create('b', 'fields: { title: { type: string, pattern: y } }');
    await create('a', 'fields: { title: { type: string }, code: { type: string } }');
    assertInOrder();
    const ahead = new Date(Date.now() + 3_600_000).toISOString().replace(/\D/g, '').slice(0, 14);
    namesOfCreated.push(`Migration${ahead}_z`);
    writeFileSync(join(migrations.path, `Migration${ahead}_z.ts`), 'export const changes = [];');
    await create('c', 'fields: { title: { type: string }, code: { type: string }, c: { type: string } }');
    await create(
      'b',
      'fields: { title: { type: string, pattern: z }, code: { type: string }, c: { type: string } }',
    );
    assertInOrder();
    migrations.remove();
  });

  test('a field can be added again after it or its resource was dropped or renamed, but not twice', async () => {
    const migrations = temporaryFolder();
    const own = { ...config, migrations: migrations.path };
    const [plain, withFax] = [
      'fields: { title: { type: string } }',
      'fields: { title: { type: string }, fax: { type: string } }',
    ];
    const steps: readonly (readonly [fields?: string | undefined, name?: string, ...drop: string[]])[] = [
      [plain],
      [withFax],
      [plain, 'things', 'things.fax'],
      [withFax],
      [undefined, 'things', 'things'],
      [plain],
      [withFax],
      ['fields: { title: { type: string }, phone: { type: string, renamed_from: fax } }'],
      ['fields: { title: { type: string }, phone: { type: string }, fax: { type: string } }'],
      [`renamed_from: things\n${plain}`, 'items', 'items.fax', 'items.phone'],
      [`renamed_from: things\n${withFax}`, 'items'],
    ];
    let file = '';
    for (const [index, [fields, name, ...drop]] of steps.entries())
      file = String((await createMigration(own, modelWith(fields, name), `m${index}`, { drop })).file);
    for (const path of [file, file.replace('.ts', '.json')]) copyFileSync(path, path.replace('.', '_again.'));
    await assert.rejects(changeOf(own, modelWith()), /adds items\.fax, which \w+_m10 already adds/);
    migrations.remove();
  });

  test('a plan names the tables, the dropped fields, and the modules that need a removed name', async () => {
    const migrations = temporaryFolder();
    const own = { ...config, migrations: migrations.path };
    const fields = {
      title: 'title: { type: string }',
      code: 'code: { type: string }',
      due: 'due: { type: timestamp, nullable: true }',
    };
    const string = { types: ['string'] } as const;
    const needs = [
      { file: 'titles.ts', resource: 'things', fields: { title: string } },
      { file: 'codes.ts', resource: 'things', fields: { title: string, code: string } },
      { file: 'leads.ts', resource: 'leads', fields: { code: string } },
    ];
    const plan = (
      changed: Readonly<Record<string, string>>,
      more = '',
      name?: string,
      intent: Intent = {},
    ) => {
      const lines = Object.values({ ...fields, ...changed }).filter((line) => line !== '');
      const model = modelWith(`${more}fields: { ${lines.join(', ')} }`, name);
      return planChanges(own, model, needs, intent, undefined);
    };
    await createMigration(own, modelWith(), 'shipped');
    assert.deepEqual((await plan({})).tables, { created: ['things'], changed: [], dropped: [] });
    await createMigration(own, modelWith(`fields: { ${Object.values(fields).join(', ')} }`), 'things');
    const gone = await planChanges(own, modelWith(), needs, { drop: ['things'] }, undefined);
    assert.deepEqual(gone.tables, { created: [], changed: [], dropped: ['things'] });
    assert.deepEqual(gone.partners, [
      { file: 'titles.ts', name: 'things' },
      { file: 'codes.ts', name: 'things' },
    ]);
    assert.deepEqual(
      gone.statements.flatMap(({ drops }) => drops),
      [{ name: 'things', count: undefined }],
      'only one of several statements drops the table',
    );
    const withoutDue = await plan({ due: '' }, '', undefined, { drop: ['things.due'] });
    assert.deepEqual(withoutDue.tables, { created: [], changed: ['things'], dropped: [] });
    assert.deepEqual(
      withoutDue.statements.flatMap(({ drops }) => drops.map(({ name }) => name)),
      ['things.due'],
      'the column with the offset belongs to the field',
    );
    const alias = 'alias: true, deprecated: 2026-11-22, sunset: 2027-06-30';
    const renamed = (keys = '') => ({ code: `key: { type: string, renamed_from: code${keys} }` });
    const { partners } = await plan(renamed());
    assert.deepEqual(partners, [{ file: 'codes.ts', name: 'things.code' }]);
    assert.deepEqual((await plan(renamed(`, ${alias}`))).partners, []);
    const { partners: ofItems } = await plan({}, 'renamed_from: things\n', 'items');
    assert.deepEqual(ofItems, gone.partners);
    migrations.remove();
  });

  test('a sequence and the links of a list continue if their resource or field gets another name', async () => {
    const migrations = temporaryFolder();
    const own = { ...config, migrations: migrations.path };
    const fields = (code: string, tags: string, more = '') => {
      const from = (name: string, former: string) => (name === former ? '' : `, renamed_from: ${former}`);
      return `${more}fields: { ${code}: { type: string, sequence: "T-{00}"${from(code, 'code')} }, ${tags}: { type: references, to: accounts${from(tags, 'tags')} } }`;
    };
    await createMigration(own, modelWith(fields('code', 'tags')), 'things');
    for (const [name, code, tags] of [
      ['things', 'number', 'labels'],
      ['items', 'code', 'tags'],
      ['items', 'number', 'labels'],
    ] as const) {
      const more = name === 'things' ? '' : 'renamed_from: things\n';
      const { changes: planned } = await changeOf(own, modelWith(fields(code, tags, more), name));
      assert.deepEqual(
        planned.filter(({ table }) => table === 'crm_sequences' || table === 'things_Links_tags'),
        [
          { kind: 'renameTable', table: 'things_Links_tags', to: `${name}_Links_${tags}`, triggers: [] },
          {
            ...{ kind: 'renameValues', table: 'crm_sequences', column: 'field' },
            ...{ from: 'things.code', to: `${name}.${code}` },
          },
        ],
      );
    }
    migrations.remove();
  });

  test('names that do not exist are rejected in one line', async () => {
    const migrations = temporaryFolder();
    const own = { ...config, migrations: migrations.path };
    const things = (more = '') => modelWith(`${more}fields: { title: { type: string } }`);
    await createMigration(own, things(), 'things');
    const rejected: readonly (readonly [model: Model, intent: Intent, message: string])[] = [
      [
        things(),
        { using: new Map([['things.titel', "'x'"]]) },
        'unknown field "things.titel". Did you mean "things.title"?',
      ],
      [
        modelWith(),
        { drop: ['thing'] },
        '--allow-drop thing: no removed field, resource or table has this name. Did you mean "things"?',
      ],
      [
        modelWith('renamed_from: boxes\nfields: { title: { type: string } }', 'items'),
        {},
        'items.yaml  renamed_from: no resource has been named "boxes"',
      ],
    ];
    for (const [model, intent, message] of rejected)
      await assert.rejects(changeOf(own, model, intent), { name: 'UserError', message });
    const { undecided } = await changeOf(own, modelWith());
    assert.deepEqual(undecided, [
      `the resource "things" was removed, so its records would be dropped. Choose one:
  restore the file with things: keep its records
  --allow-drop things    with this command: drop its records`,
    ]);
    migrations.remove();
  });

  test('the name of a migration has up to 61 letters, digits and hyphens, which become underscores', async () => {
    const migrations = temporaryFolder();
    const own = { ...config, migrations: migrations.path };
    for (const name of ['-a', 'a b', '', 'x'.repeat(62)])
      await assert.rejects(createMigration(own, modelWith(), name), /is not a valid migration name/);
    const name = `2nd-Try_${'x'.repeat(53)}`;
    const { file } = await createMigration(own, modelWith(), name);
    assert.ok(file?.endsWith(`_2nd_Try_${'x'.repeat(53)}.ts`), file);
    migrations.remove();
  });

  test('a migration file with an invalid change is rejected in one line', async () => {
    const table = "table: 'things'";
    const files: readonly (readonly [content: string, problem: string])[] = [
      [
        `[{ kind: 'addColum', ${table} }]`,
        ': changes[0]: "addColum" is not a kind of change. Did you mean "addColumns"?',
      ],
      [`[{ kind: 'toString', ${table} }]`, ': changes[0]: "toString" is not a kind of change'],
      [`{ kind: 'raw', sql: 'select 1' }`, ': changes must be a list'],
      ['null', ': changes must be a list'],
      [`['select 1']`, ': changes[0] must be an object'],
      [
        `[{ kind: 'addColumns', tabel: 'things', columns: {} }]`,
        ': changes[0].tabel is unknown. Did you mean "table"?',
      ],
      [`[{ kind: 'addColumns', ${table} }]`, ': changes[0].columns must be an object'],
      [
        `[{ kind: 'addColumns', ${table}, columns: { fax: {} } }]`,
        ': changes[0].columns.fax.type must be a string',
      ],
      [
        `[{ kind: 'dropColumns', ${table}, columns: ['fax', 1] }]`,
        ': changes[0].columns[1] must be a string',
      ],
      [`[{ kind: 'default', ${table}, column: 'fax' }]`, ': changes[0].value must be a string'],
      [
        `[{ kind: 'nullability', ${table}, column: 'fax', nullable: 'false' }]`,
        ': changes[0].nullable must be true or false',
      ],
      [
        `[{ kind: 'backfill', ${table}, column: 'fax', value: '1', wehre: 'false' }]`,
        ': changes[0].wehre is unknown. Did you mean "where"?',
      ],
      [
        `[{ kind: 'createIndex', ${table}, name: 'i', index: { keys: ['"fax"'], kind: 'uniqe' } }]`,
        ': changes[0].index.kind must be primary key or unique constraint or unique',
      ],
      [
        `[{ kind: 'retypeColumns', ${table}, changes: [{ kind: 'raw' }] }]`,
        ': changes[0].changes[0].sql must be a string',
      ],
      [
        `[{ kind: 'addColumns', ${table}, columns: { fax: { type: 'text', nullable: false } } }]`,
        ': changes[0].columns.fax.nullable must be true or absent',
      ],
      [
        `[{ kind: 'raw', sql: 'select 1', effects: { lock: 'none', touches: 'nothing', risks: ['slow'], says: 'selects' } }]`,
        ': changes[0].effects.risks[0] must be destructive or data-dependent or blocking or needs a restart',
      ],
      [`[{ kind: 'raw' sql: 'select 1' }]`, 'SyntaxError'],
    ];
    for (const [index, [content, problem]] of files.entries()) {
      const path = join(folder.path, `invalid${index}.ts`);
      writeFileSync(path, `export const changes = ${content};`);
      await assert.rejects(listedChanges(path, ''), (error) => {
        assert.ok(error instanceof UserError, content);
        assert.ok(
          error.message.includes(`${path}${problem}`) ||
            error.message.startsWith(`cannot read ${path}: ${problem}`),
          error.message,
        );
        return !error.message.includes('\n');
      });
    }
    const empty = join(folder.path, 'empty.ts');
    writeFileSync(empty, 'export {};');
    await assert.rejects(listedChanges(empty, ''), {
      name: 'UserError',
      message: `${empty} does not export a migration`,
    });
    folder.remove();
  });

  test('a model patch that is not JSON is named', () => {
    const migrations = temporaryFolder();
    const path = join(migrations.path, 'Migration29990101000000_conflict.json');
    writeFileSync(path, '<<<<<<< ours');
    assert.throws(() => storedModel({ ...config, migrations: migrations.path }), {
      name: 'UserError',
      message: `${path} is not valid JSON`,
    });
    migrations.remove();
  });

  test('a reference is dropped before the table that it refers to, which would drop its foreign key', () => {
    const table: TableShape = { columns: {}, indexes: {}, foreignKeys: {}, checks: {}, triggers: {} };
    const key = {
      columns: ['organization_id', 'owner_id'],
      to: 'owners',
      toColumns: ['organization_id', 'id'],
    };
    const before = { owners: table, things: { ...table, foreignKeys: { things_owner: key } } };
    const kinds = difference(before, { things: table }).map(({ kind }) => kind);
    assert.deepEqual(kinds, ['dropForeignKey', 'dropTable']);
  });

  test('every kind has statements and a description, and is part of these migrations', () => {
    const all = changes.flatMap((change) => (change.kind === 'retypeColumns' ? change.changes : [change]));
    const kinds = new Set(all.map(({ kind }) => kind));
    assert.deepEqual([...kinds].sort(), Object.keys(simpleKinds).sort());
    for (const change of changes) {
      assert.ok(sqlOf([change]).length > 0, change.kind);
      assert.match(kindOf(change).describe(change), /^[a-z]/, change.kind);
    }
  });

  test('no regular expression reads SQL', () => {
    const room = new URL('../../engine/schema/', import.meta.url);
    const names = readdirSync(room, { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.endsWith('.ts'),
    );
    // These match file names and migration names.
    const others = ['create.ts', 'migration-log.ts', 'sequences.ts'];
    for (const name of names.filter((each) => !others.includes(each))) {
      const code = readFileSync(new URL(name, room), 'utf8');
      assert.doesNotMatch(
        code,
        /new RegExp|\.(exec|test|match|matchAll|search)\(|\.(replace|replaceAll|split)\(\//,
        name,
      );
    }
  });
});
