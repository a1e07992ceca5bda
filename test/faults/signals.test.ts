// Signals: what each does to a service of one process and of several, wherever a terminal or a supervisor sends it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, describe, test } from 'node:test';
import { settingsFile } from '../support/partners.ts';
import {
  type Environment,
  emptyStorage,
  type Service,
  type Storage,
  serve,
  until,
} from '../support/process.ts';

/** The processes that a process has started. */
const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).map(Number);

for (const workers of [1, 2]) {
  describe(`signals to ${workers} process(es)`, { skip: process.platform !== 'linux' }, () => {
    let storage: Storage;
    let environment: Environment;
    let service: Service;
    const settings = settingsFile({});
    before(async () => {
      storage = await emptyStorage('postgresql');
      environment = {
        ...storage.environment,
        ...settings.environment,
        WORKERS: String(workers),
        MIGRATE_ON_START: 'true',
        LOG_LEVEL: 'info',
        // Whatever waits for it does not end within a test.
        STOP_DELAY_MS: '600000',
      };
    });
    afterEach(() => service.kill());
    after(() => storage.remove());
    const ended = async () => {
      let code: number | null | undefined;
      void service.ended.then((outcome) => {
        code = outcome.code;
      });
      await until(() => code !== undefined, 'end', 30_000);
      return code;
    };
    const isServed = async () => (await service.call('GET /docs/openapi.json')).status === 200;
    const reloads = () => service.stderr().split('reloaded ').length - 1;

    test('SIGHUP: every process reads the configuration again, and none ends', async () => {
      service = await serve(environment);
      for (let count = 0; count < 2; count++) {
        const before = reloads();
        service.signal('SIGHUP');
        await until(() => reloads() >= before + workers, `be reloaded by ${workers}`, 60_000);
      }
      assert.ok(await isServed());
    });

    test('SIGINT: the service stops without the delay for balancers', async () => {
      service = await serve(environment);
      service.signal('SIGINT');
      assert.equal(await ended(), 0);
      await assert.rejects(isServed(), 'nothing listens');
    });

    test('SIGTERM: requests are served during the delay; another signal ends it', async () => {
      service = await serve(environment);
      service.signal('SIGTERM');
      // npm repeats a signal that it has been sent: that is not another one.
      service.signal('SIGTERM');
      assert.ok(await isServed());
      let code: number | null | undefined;
      void service.ended.then((outcome) => {
        code = outcome.code;
      });
      await until(
        () => {
          service.signal('SIGINT');
          return code !== undefined;
        },
        'end',
        30_000,
      );
      assert.equal(code, 1);
      await assert.rejects(isServed(), 'nothing listens');
    });

    if (workers === 1) return;

    test('a terminal signals workers too: they leave it to the first process', async () => {
      service = await serve(environment);
      const children = childrenOf(service.pid);
      assert.equal(children.length, workers);
      for (const name of ['SIGINT', 'SIGTERM'] as const) for (const pid of children) process.kill(pid, name);
      service.signal('SIGHUP');
      await until(() => reloads() >= workers, 'respond after that', 60_000);
      assert.deepEqual(childrenOf(service.pid), children);
      for (const pid of children) process.kill(pid, 'SIGINT');
      service.signal('SIGINT');
      assert.equal(await ended(), 0);
    });
  });
}
