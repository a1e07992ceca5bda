// The effect of each signal on a service with one or several processes, whether a terminal or a supervisor
// sends it.
import assert from 'node:assert/strict';
import { readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { temporaryFolder } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import {
  childrenOf,
  type Environment,
  emptyStorage,
  type Service,
  type Storage,
  serve,
  until,
} from '../support/process.ts';

/** Returns whether a signal to a process has not been delivered yet. */
const isPending = (pid: number): boolean =>
  !/^ShdPnd:\s*0+$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));

for (const workers of [1, 2]) {
  describe(`signals to ${workers} process(es)`, { skip: process.platform !== 'linux' }, () => {
    let storage: Storage;
    let environment: Environment;
    let service: Service;
    const withSecret = (secret: string) => ({ partners: { inbound_leads: { secrets: [secret] } } });
    const settings = settingsFile(withSecret('first-partner-secret'));
    // A file behind a symbolic link changes without an event, so the service notices it only after the
    // signal.
    const folder = temporaryFolder();
    const link = join(folder.path, 'config.yaml');
    before(async () => {
      symlinkSync(settings.path, link);
      storage = await emptyStorage('postgresql');
      environment = {
        ...storage.environment,
        CRM_CONFIG: link,
        WORKERS: String(workers),
        MIGRATE_ON_START: 'true',
        LOG_LEVEL: 'fatal',
        // Longer than a test, so a process that waits for this delay does not stop.
        STOP_DELAY_MS: '600000',
      };
    });
    afterEach(() => service.kill());
    after(async () => {
      await storage.remove();
      folder.remove();
    });
    const ended = async () => {
      let code: number | null | undefined;
      void service.ended.then((outcome) => {
        code = outcome.code;
      });
      await until(() => code !== undefined, 'end');
      return code;
    };
    const isServed = async () => (await service.call('GET /docs/openapi.json')).status === 200;
    /** Returns whether every process accepts a secret. Concurrent requests reach all processes. */
    const takes = async (secret: string) => {
      const headers = { 'x-inbound-secret': secret };
      const request = () => service.call('POST /webhooks/inbound-leads', { headers, body: {} });
      const responses = await Promise.all(Array.from({ length: 8 }, request));
      return responses.every(({ status }) => status === 400);
    };

    test('SIGHUP: reloads the configuration in every process without stopping any', async () => {
      service = await serve(environment);
      for (const secret of ['second-partner-secret', 'third-partner-secret']) {
        settings.write(withSecret(secret));
        assert.ok(!(await takes(secret)));
        service.signal('SIGHUP');
        await until(() => takes(secret), 'take the new secret');
      }
      assert.ok(await isServed());
    });

    test('SIGINT: stops without the delay for load balancers', async () => {
      service = await serve(environment);
      service.signal('SIGINT');
      assert.equal(await ended(), 0);
      await assert.rejects(isServed(), 'the port is closed');
    });

    test('SIGTERM: serves requests during the delay, which another signal ends', async () => {
      // npm repeats a signal that it received. The repetition does not count as another signal if it arrives within a
      // second. Linux merges it with the first one if that has not been delivered yet.
      const servesAfterRepetition = async () => {
        service = await serve(environment);
        const start = performance.now();
        service.signal('SIGTERM');
        await until(() => !isPending(service.pid), 'the delivery of the signal');
        service.signal('SIGTERM');
        const result = await isServed().catch(() => false);
        assert.ok(result || performance.now() - start > 1000, 'the repetition does not stop the service');
        return result;
      };
      await until(servesAfterRepetition, 'receive both signals within a second');
      let code: number | null | undefined;
      void service.ended.then((outcome) => {
        code = outcome.code;
      });
      await until(() => {
        service.signal('SIGINT');
        return code !== undefined;
      }, 'end');
      assert.equal(code, 1);
      await assert.rejects(isServed(), 'the port is closed');
    });

    if (workers === 1) return;

    test('workers ignore a terminal signal and leave it to the first process', async () => {
      service = await serve(environment);
      const children = childrenOf(service.pid);
      assert.equal(children.length, workers);
      for (const name of ['SIGINT', 'SIGTERM'] as const) for (const pid of children) process.kill(pid, name);
      assert.ok(await isServed());
      assert.deepEqual(childrenOf(service.pid), children);
      for (const pid of children) process.kill(pid, 'SIGINT');
      service.signal('SIGINT');
      assert.equal(await ended(), 0);
    });
  });
}
