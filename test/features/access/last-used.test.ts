// Times at which keys and sessions were last used are known on their node before they are stored.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Fastify from 'fastify';
import { lastUsed } from '../../../plugins/access/last-used/index.ts';
import { until } from '../../support/process.ts';

test('a use is known while it is being stored, and uses are stored one batch after another', async (context) => {
  context.mock.timers.enable({ apis: ['setInterval'] });
  const app = Fastify();
  const gate = Promise.withResolvers<void>();
  const batches: [string, number][][] = [];
  const uses = lastUsed<number>(app, async (batch) => {
    batches.push([...batch]);
    await gate.promise;
  });
  uses.record('one', 1);
  uses.record('two', 1);
  context.mock.timers.tick(30_000);
  await until(() => batches.length === 1, 'store the first batch');
  uses.record('two', 2);
  context.mock.timers.tick(30_000);
  assert.deepEqual([uses.get('one'), uses.get('two')], [1, 2]);
  assert.equal(batches.length, 1);
  const closing = app.close();
  gate.resolve();
  await closing;
  const first = [
    ['one', 1],
    ['two', 1],
  ];
  assert.deepEqual(batches, [first, [['two', 2]]]);
  assert.deepEqual([uses.get('one'), uses.get('two')], [undefined, undefined]);
});
