// Background work of one process: which runs start, which are skipped, and what closing the app waits for.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fastify from 'fastify';
import { backgroundWork, repeatedWork } from '../../engine/modules/background.ts';
import { until } from '../support/process.ts';

/** Work whose runs last until they are ended. */
function slowWork() {
  const runs: (() => void)[] = [];
  return {
    work: () => new Promise<void>((resolve) => void runs.push(resolve)),
    started: () => runs.length,
    endAll: async () => {
      for (const end of runs) end();
      await turn();
    },
  };
}

describe('periodic tasks', () => {
  const appWith = (background: ReturnType<typeof backgroundWork>) => {
    let isReadOnly = false;
    const app = fastify();
    app.decorate('isReadOnly', () => isReadOnly);
    const { work, ...runs } = slowWork();
    const { runNow } = background.every(app, 'sweep', 3_600_000, work);
    const setReadOnly = (value: boolean) => {
      isReadOnly = value;
    };
    return { app, runNow, ...runs, setReadOnly };
  };

  test('start with the app, never overlap, and the app closes after the current run', async () => {
    const background = backgroundWork();
    const { app, runNow, started, endAll } = appWith(background);
    assert.equal(started(), 0);
    await app.ready();
    runNow();
    assert.equal(started(), 1);
    await endAll();
    runNow();
    assert.equal(started(), 2);
    let isClosed = false;
    const closed = app.close().then(() => {
      isClosed = true;
    });
    for (let turns = 0; turns < 20; turns++) await turn();
    assert.equal(isClosed, false);
    await endAll();
    await closed;
    background.run('sweep');
    assert.equal(started(), 2);
  });

  test('are repeated at their interval until the app closes', async () => {
    const app = fastify();
    let runs = 0;
    backgroundWork().every(app, 'tick', 1, () => void runs++);
    await app.ready();
    await until(() => runs >= 3, 'three runs');
    await app.close();
    const before = runs;
    let later = 0;
    const timer = setInterval(() => void later++, 1);
    await until(() => later >= 3, 'other timers');
    clearInterval(timer);
    assert.equal(runs, before);
  });

  test('pause while the app is read-only', async () => {
    const { app, runNow, started, endAll, setReadOnly } = appWith(backgroundWork());
    setReadOnly(true);
    await app.ready();
    runNow();
    assert.equal(started(), 0);
    setReadOnly(false);
    runNow();
    assert.equal(started(), 1);
    await endAll();
    await app.close();
  });

  test('run in the responsible process, which other processes ask for runs', async () => {
    const requested: string[] = [];
    const background = backgroundWork((name) => void requested.push(name));
    const { app, runNow, started, endAll } = appWith(background);
    await app.ready();
    runNow();
    assert.deepEqual([started(), requested, background.isResponsible()], [0, ['sweep'], false]);
    for (let times = 0; times < 2; times++) {
      background.start();
      await endAll();
    }
    assert.deepEqual([started(), background.isResponsible()], [1, true]);
    background.run('sweep');
    await endAll();
    runNow();
    await endAll();
    background.run('another');
    assert.deepEqual([started(), requested], [3, ['sweep']]);
    await app.close();
  });
});

test('work requested during a run is repeated once after it, unless it is paused', async () => {
  let isPaused = false;
  const { work, started, endAll } = slowWork();
  const { wake, ended } = repeatedWork(work, () => isPaused);
  await ended();
  for (let times = 0; times < 3; times++) wake();
  assert.equal(started(), 1);
  await endAll();
  assert.equal(started(), 2);
  await endAll();
  assert.equal(started(), 2);
  isPaused = true;
  wake();
  assert.equal(started(), 2);
  isPaused = false;
  wake();
  assert.equal(started(), 3);
  await endAll();
  await ended();
  assert.equal(started(), 3);
});
