// Changes to computed fields and rollups, which are not stored: the API changes, and at most an index is replaced.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { UserError } from '../../engine/errors.ts';
import { apiChanges, apiOf } from '../../engine/schema/api.ts';
import { applyPending } from '../../engine/schema/apply.ts';
import { drivers } from '../support/instance.ts';
import { type Model, modelWith } from '../support/models.ts';

const fields = `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
`;

/** Returns the definitions of flats with this field, and of their rooms. */
const flats = (field: string) =>
  checkSources([
    { file: 'flats.yaml', text: `${fields}  area: { type: number }\n  value: { type: number, ${field} }\n` },
    {
      file: 'rooms.yaml',
      text: `${fields}  flat_id: { type: reference, to: flats, nullable: true }\n  size: { type: number }\n`,
    },
  ]);

const stored = 'nullable: true';
const doubled = 'computed: area * 2';
const summed = 'rollup: { sum: size, of: rooms, by: flat_id }';

describe('API changes', () => {
  for (const [before, after, ...expected] of [
    [doubled, doubled],
    [doubled, 'computed: area * 3', 'retyped flats.value is now calculated: area * 3'],
    [
      stored,
      doubled,
      'stricter flats.value is now read-only and ignored in request bodies (breaks clients)',
      'retyped flats.value is now calculated: area * 2',
    ],
    [
      doubled,
      stored,
      'looser flats.value can now be set in request bodies',
      'retyped flats.value is now stored',
    ],
    [
      summed,
      summed.replace(' }', ', where: size > 5 }'),
      'retyped flats.value is now calculated: sum of size in rooms by flat_id where size > 5',
    ],
    [
      doubled,
      summed,
      'looser flats.value is no longer null in responses',
      'retyped flats.value is now calculated: sum of size in rooms by flat_id',
    ],
  ] as const)
    test(`${before} → ${after}`, () => {
      const definitions = flats(after);
      const changes = apiChanges(apiOf(flats(before)), apiOf(definitions), definitions);
      assert.deepEqual(
        changes
          .filter(({ name }) => !name.includes(' '))
          .map(
            ({ kind, name, text, breaks }) => `${kind} ${name} ${text}${breaks ? ' (breaks clients)' : ''}`,
          ),
        expected,
      );
    });
});

describe('migrations', () => {
  let model: Model;
  const write = (more: string) =>
    model.write({
      things: `common: all\nfields:\n  price: { type: number }\n  area: { type: number }\n${more}`,
    });
  const migrate = () => applyPending(model.database, model.config);
  const values = async () =>
    (await model.records('things')).map((record) => String((record as { value: unknown }).value));
  before(async () => {
    const [driver = 'postgresql'] = drivers.toReversed();
    model = await modelWith(driver);
    write('');
    await model.create();
    await migrate();
    await model.sql(
      'insert into things (organization_id, price, area, created_at, updated_at) values (1, 10, 4, now(), now()), (1, 5, 0, now(), now())',
    );
  });
  after(() => model.close());

  test('a computed field changes nothing but the index of its filter', async () => {
    write('  value: { type: number, computed: price / area }\nfilters: [value]\n');
    const statements = await model.create();
    assert.equal(statements.length, 1, statements.join('\n'));
    assert.match(statements[0] ?? '', /^create index "things_value_index" on "things" /);
    await migrate();
    assert.deepEqual(await values(), ['2.5', 'null']);
    assert.deepEqual(await model.drift(), []);
  });

  test('another expression replaces the index, which is built concurrently', async () => {
    write('  value: { type: number, computed: price * area }\nfilters: [value]\n');
    const statements = await model.create();
    assert.deepEqual(
      statements.map((statement) => /^\w+ index "\w+"/.exec(statement)?.[0]),
      ['drop index "things_value_index"', 'create index "things_value_index"'],
    );
    await migrate();
    assert.deepEqual(await values(), ['40', '0']);
    assert.deepEqual(await model.drift(), []);
    const [[index]] = (await model.sql(
      "select indexdef from pg_indexes where indexname = 'things_value_index'",
    )) as [[string]];
    assert.match(index, /price \* area/);
  });

  test('without a filter, nothing is migrated', async () => {
    write('  value: { type: number, computed: price + area }\n');
    assert.match((await model.create()).join('\n'), /^drop index "things_value_index";?$/);
    await migrate();
    write('  value: { type: number, computed: price - area }\n');
    assert.deepEqual((await model.change()).changes, []);
    assert.deepEqual(await values(), ['6', '5']);
  });

  test('a stored field becomes computed only if its values may be dropped', async () => {
    model.write({
      things:
        'common: all\nfields:\n  price: { type: number }\n  area: { type: number, computed: price * 2 }\n',
    });
    await assert.rejects(
      model.create(),
      (error) => error instanceof UserError && /values of things\.area would be dropped/.test(error.message),
    );
    const statements = await model.create({ drop: ['things.area'] });
    assert.match(statements.join('\n'), /drop column "area"/);
    await migrate();
    write('');
    assert.match((await model.create()).join('\n'), /add "area" numeric/);
    await migrate();
    assert.deepEqual(await model.drift(), []);
  });
});
