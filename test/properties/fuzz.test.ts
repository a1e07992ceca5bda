// Sends 10,000 arbitrary requests to a running server. No response is a 5xx, every error has the documented
// shape, no data of another organization is shown or changed, memory does not grow, and the server keeps
// responding.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { type Answer, onBothDrivers } from '../support/instance.ts';
import { inOneLine, type OddRequest, oddRequests, sender } from '../support/odd-requests.ts';
import { exactRecord, numberText, rowHashes } from '../support/reading.ts';
import { assertErrorShape } from '../support/scenario.ts';

const batch = 50;
const batches = 200;
/**
 * Numbers of batches after which memory is measured: a warm-up until caches are full and functions are
 * compiled, then two intervals.
 */
const ends = [60, 130, batches];
/** The minimum of this many measurements counts, because V8's caches vary. */
const measured = 3;
/**
 * Maximum heap growth in bytes during the 3,500 requests of an interval. Only the statement texts of lists
 * requested for the first time can accumulate, and the definitions limit their number. 2 MiB is about 600
 * bytes per request, less than one request with its headers and body, so retained requests, responses or
 * callers would exceed it. They would do so in both intervals, while functions compiled late on a slow
 * machine are compiled once.
 */
const growth = 2 * 1024 * 1024;

setFlagsFromString('--expose-gc');
// V8 drops compiled functions that have not been called for a while, and recompiles them later. A slow
// machine drops more.
setFlagsFromString('--no-flush-bytecode');
const collectGarbage = runInNewContext('gc') as (how: Readonly<Record<string, string>>) => void;
function heap(): number {
  // Collect garbage as if memory had run out, so that V8 clears its own caches, too.
  collectGarbage({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

const secret = 'marker-of-beta';

/** Asserts the properties that every response must have. */
function assertSound({ method }: OddRequest, answer: Answer): void {
  // 501: a partner endpoint without a secret.
  const sound = (answer.status >= 200 && answer.status < 500) || answer.status === 501;
  assert.ok(sound, `${answer.status} ${answer.text}`);
  assert.ok(!answer.text.includes(secret), answer.text);
  if (method === 'HEAD') assert.equal(answer.text, '');
  else if (answer.status >= 400) assertErrorShape(answer);
  else if (/^application\/json/.test(answer.headers.get('content-type') ?? '')) assert.ok(answer.json);
}

onBothDrivers('10,000 odd requests', (instance) => {
  test('returns no 5xx, one error shape and nothing foreign, does not grow, and keeps responding', async (context) => {
    const alpha = await instance().organization('alpha');
    const beta = await instance().organization('beta');
    const viewer = (await alpha.makeKey({ profile: 'read-only' })).key;
    const ids: Record<string, string[]> = {};
    for (const { name } of instance().resources) {
      ids[name] = [];
      for (const { key } of [alpha, alpha, alpha, beta]) {
        const body = key === beta.key ? { name: secret, last_name: secret, subject: secret } : {};
        const made = await instance().call(`POST /api/v1/${name}`, { key, body });
        ids[name].push(numberText(exactRecord(made.text).id));
      }
    }
    const before = await rowHashes(instance(), beta.id);
    const { send, close } = sender(instance().url);
    const seen = new Map<number, number>();
    let runs = 0;
    const heaps: number[] = [];
    const requests = oddRequests(instance().resources, [alpha.key, alpha.key, alpha.key, viewer], ids);
    try {
      const lists = fc.noShrink(fc.array(requests, { minLength: batch, maxLength: batch, size: 'max' }));
      const property = fc.asyncProperty(lists, async (list) => {
        // Send all requests concurrently, over 16 connections.
        for (const status of await Promise.all(list.map((odd) => ask(odd)))) {
          seen.set(status, (seen.get(status) ?? 0) + 1);
        }
        runs++;
        if (ends.some((end) => runs <= end && runs > end - measured)) heaps.push(heap());
      });
      const ask = async (odd: OddRequest): Promise<number> => {
        try {
          const answer = await send(odd);
          assertSound(odd, answer);
          return answer.status;
        } catch (cause) {
          throw new Error(`${cause}\n  ${inOneLine(odd)}`, { cause });
        }
      };
      // Reporting the failed request is more useful than the list of 50.
      const { failed, seed, errorInstance } = await fc.check(property, { numRuns: batches });
      assert.ok(!failed, `seed ${seed}: ${errorInstance}`);
    } finally {
      close();
    }
    context.diagnostic(
      [...seen]
        .sort(([a], [b]) => a - b)
        .map(([status, times]) => `${status}: ${times}`)
        .join(', '),
    );
    for (const status of [200, 201, 400, 401, 403, 404, 405])
      assert.ok((seen.get(status) ?? 0) >= 20, `${status} occurred`);
    assert.deepEqual(await rowHashes(instance(), beta.id), before);

    const [warm = 0, between = 0, last = 0] = ends.map((_, index) =>
      Math.min(...heaps.slice(index * measured, (index + 1) * measured)),
    );
    const inKiB = [warm, between, last].map((bytes) => `${Math.round(bytes / 1024)} KiB`);
    context.diagnostic(`heap ${inKiB[0]} after warm-up, ${inKiB[1]} between, ${inKiB[2]} at the end`);
    const grown = Math.min(between - warm, last - between);
    assert.ok(warm > 0 && grown < growth, `the heap grew by ${grown} bytes, and again`);

    const answer = await instance().call('POST /api/v1/accounts', {
      key: alpha.key,
      body: { name: 'Still here' },
    });
    assert.deepEqual([answer.status, answer.json.name], [201, 'Still here']);
  });
});
