// A client that retries each create until it receives a response creates each record exactly once, whichever
// requests or responses are lost.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { diceOf } from '../support/dice.ts';
import { type Call, drivers, onBothDrivers, send } from '../support/instance.ts';
import { migratedStorage, type Service, type Storage, serve } from '../support/process.ts';
import { walk } from '../support/reading.ts';

const leads = '/api/v1/leads';
const creation = (key: string, name: string): Call => ({
  key,
  body: { company: name },
  headers: { 'idempotency-key': name },
});

/** Returns the companies with this prefix, one for each lead. */
async function companies(url: string, key: string, mark: string): Promise<string[]> {
  const pages = await walk(
    { call: (request, call) => send(url, request, call) },
    leads,
    'sort=id&dir=asc',
    key,
  );
  return pages.flat().flatMap(({ company }) => (String(company).startsWith(mark) ? [String(company)] : []));
}

onBothDrivers('Creates through a lossy network', (instance) => {
  let key: string;
  before(async () => {
    ({ key } = await instance().organization('alpha'));
  });

  /**
   * Sends a request and loses three of ten responses, by not reading the response or by closing the
   * connection midway.
   */
  async function lossy(name: string, dice: () => number): Promise<string | undefined> {
    const { body, headers } = creation(key, name);
    const lost = dice() < 0.3;
    const cut = new AbortController();
    if (lost && dice() < 0.7) void pause(dice() * 12).then(() => cut.abort());
    try {
      const response = await fetch(instance().url + leads, {
        method: 'POST',
        headers: { ...headers, authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: cut.signal,
      });
      const text = await response.text();
      if (lost || response.status === 409) return undefined;
      assert.equal(response.status, 201, text);
      return text;
    } catch (cause) {
      // The connection was closed during the request or before it.
      assert.ok(cause instanceof TypeError || cut.signal.aborted, String(cause));
      return undefined;
    }
  }

  test('creates each record once and sends the same response to every retry', async () => {
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 30 }), fc.integer(), async (records, seed) => {
        const mark = `lossy${run++}-`;
        const dice = diceOf(seed);
        const names = Array.from({ length: records }, (_, index) => `${mark}${index}`);
        await Promise.all(
          names.map(async (name) => {
            const told = new Set<string>();
            // One more than needed: a client might not have received its response.
            for (let answers = 0; answers < 2; ) {
              const text = await lossy(name, dice);
              if (text === undefined) continue;
              answers++;
              told.add(text);
            }
            assert.equal(told.size, 1);
          }),
        );
        assert.deepEqual((await companies(instance().url, key, mark)).sort(), names.sort());
      }),
      { numRuns: 5, endOnFailure: true },
    );
  });
});

for (const driver of drivers) {
  describe(`Creates while the process is killed (${driver})`, () => {
    let storage: Storage;
    let service: Service;
    before(async () => {
      storage = await migratedStorage(driver);
    });
    after(async () => {
      await service?.kill();
      await storage.remove();
    });

    test('creates each record once when requests are retried on the next process', async () => {
      const { environment } = storage;
      service = await serve(environment);
      const key = String(service.printed.key);
      for (const killAfter of [5, 25]) {
        const mark = `killed${killAfter}-`;
        const names = Array.from({ length: 60 }, (_, index) => `${mark}${index}`);
        let told = 0;
        let killed: Promise<unknown> | undefined;
        await Promise.all(
          names.map(async (name) => {
            const answer = await service.call(`POST ${leads}`, creation(key, name)).catch(() => undefined);
            if (answer?.status === 201 && ++told === killAfter) killed = service.kill();
          }),
        );
        assert.ok(killed, 'the process was killed during requests');
        await killed;
        service = await serve(environment);
        let replayed = 0;
        for (const name of names) {
          const { status, text, headers } = await service.call(`POST ${leads}`, creation(key, name));
          assert.equal(status, 201, text);
          if (headers.get('idempotency-replayed') === 'true') replayed++;
        }
        assert.ok(replayed >= told, `${replayed} of at least ${told}`);
        assert.deepEqual((await companies(service.url, key, mark)).sort(), names.sort());
      }
    });
  });
}
