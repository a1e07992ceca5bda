// Named statements stay prepared on a connection. One that has failed is prepared again the next time it runs.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { statementsPerConnection } from '../../engine/database/named-statements.ts';
import { onBothDrivers } from '../support/instance.ts';

/** More than the number of connections, each of which can have an invalid plan. */
const manyAttempts = 40;

onBothDrivers('named statements', (instance) => {
  const administrate = (text: string) => instance().database.run({ name: '', text, values: [] });
  for (const [lane, context] of [
    ['separate', undefined],
    // On PostgreSQL, short reads of organizations share connections.
    ['shared', { organization: '1', access: 'read' }],
  ] as const) {
    describe(`on ${lane} connections`, () => {
      const named = (name: string, text: string, ...values: readonly string[]) =>
        instance().database.run({ lane: 'read', name: `${name}_${lane}`, text, values }, context);

      test('one that failed while it was prepared succeeds once its table exists', async () => {
        const run = () => named('later', `select n::text from later_${lane}`);
        for (let count = 0; count < 3; count++) await assert.rejects(run, { code: '42P01' });
        await administrate(`create table later_${lane} (n int)`);
        assert.deepEqual(await run(), []);
        await administrate(`insert into later_${lane} values (1)`);
        assert.deepEqual(await run(), [['1']]);
      });

      test('one that failed while it ran succeeds with other values', async () => {
        const run = (value: string) => named('divides', 'select (12 / $1::int)::text', value);
        assert.deepEqual(await run('3'), [['4']]);
        for (const [value, code] of [
          ['0', '22012'],
          ['x', '22P02'],
        ] as const) {
          await assert.rejects(run(value), { code });
          assert.deepEqual(await run('4'), [['3']]);
        }
      });

      test('one whose result type has changed fails at most once per connection', async () => {
        const run = () => named('altered', `select * from altered_${lane}`);
        const runAgain = async () => {
          for (let attempt = 1; ; attempt++) {
            try {
              return await run();
            } catch (cause) {
              if (attempt === manyAttempts) throw cause;
            }
          }
        };
        await administrate(`create table altered_${lane} (a text)`);
        await administrate(`insert into altered_${lane} values ('x')`);
        assert.deepEqual(await run(), [['x']]);
        await administrate(`alter table altered_${lane} add column b text default 'y'`);
        assert.deepEqual(await runAgain(), [['x', 'y']]);
        await administrate(`alter table altered_${lane} drop column a`);
        assert.deepEqual(await runAgain(), [['y']]);
      });

      test('one that was closed in favor of many others is prepared again', async () => {
        for (let round = 0; round < 2; round++)
          for (let number = 0; number <= statementsPerConnection; number++)
            assert.deepEqual(await named(`one_of_many_${number}`, `select '${number}'`), [[String(number)]]);
      });

      test('a failed one does not affect the others', async () => {
        const echo = (value: string) => named('echo', 'select $1::text', value);
        assert.deepEqual(await echo('before'), [['before']]);
        await assert.rejects(named('nowhere', 'select from nowhere'), { code: '42P01' });
        assert.deepEqual(await echo('after'), [['after']]);
      });
    });
  }
});
