// Time limits of the client's requests to an instance that does not respond.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionError, type CrmClient, createClient } from '../../client/src/index.ts';

/** Each call, and its time limit in seconds. */
const calls: Readonly<
  Record<string, readonly [call: (crm: CrmClient) => Promise<unknown>, seconds: number]>
> = {
  'a list': [(crm) => crm.leads.list(), 30],
  'the caller': [(crm) => crm.me(), 30],
  'a page of the change feed': [(crm) => crm.events({ after: 'now' }).next(), 30],
  // The instance waits for changes for 25 s.
  'following the change feed': [(crm) => crm.events({ follow: true }).next(), 50],
  'the first page of the change feed that is followed from now': [
    (crm) => crm.events({ after: 'now', follow: true }).next(),
    50,
  ],
  'an import': [(crm) => crm.leads.import([{}]), Infinity],
};

test('the time limit of a request ends with its response', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const signals: AbortSignal[] = [];
  const fetch: typeof globalThis.fetch = async (_url, init) => {
    signals.push(init?.signal ?? assert.fail());
    return new Response('{"last_name":"Ames"}\n');
  };
  const { leads } = createClient({ url: 'http://127.0.0.1:1', fetch });
  // The body of a response can arrive later.
  const body = await leads.exportCsv();
  t.mock.timers.tick(24 * 3_600_000);
  assert.deepEqual(
    signals.map(({ aborted }) => aborted),
    [false],
  );
  assert.equal(await new Response(body).text(), '{"last_name":"Ames"}\n');
});

for (const [name, [call, seconds]] of Object.entries(calls)) {
  const limit = seconds === Infinity ? 'has no time limit' : `has a time limit of ${seconds} s`;
  test(`${name} ${limit}`, async (t) => {
    // The clock advances only in this test, so that the limits are exact on a slow machine.
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const sent = Promise.withResolvers<{ readonly url: URL; readonly signal: AbortSignal }>();
    const fetch: typeof globalThis.fetch = (url, init) =>
      new Promise((_, reject) => {
        const signal = init?.signal ?? assert.fail();
        signal.addEventListener('abort', () => reject(new Error('cut')));
        sent.resolve({ url: new URL(String(url)), signal });
      });
    const failure = call(createClient({ url: 'http://127.0.0.1:1', retries: 0, fetch })).catch(
      (error: unknown) => error,
    );
    const { url, signal } = await sent.promise;
    const wait = Number(url.searchParams.get('wait'));
    assert.ok(wait < seconds, `the instance can wait ${wait} s`);
    // The first page contains only the position.
    if (url.searchParams.get('after') === 'now') assert.equal(wait, 0);
    const lastMs = seconds === Infinity ? 24 * 3_600_000 : seconds * 1000 - 1;
    t.mock.timers.tick(lastMs);
    assert.equal(signal.aborted, false);
    if (seconds === Infinity) return;
    t.mock.timers.tick(1);
    const error = await failure;
    assert.ok(error instanceof ConnectionError);
    assert.match(error.message, new RegExp(`no response within ${seconds * 1000} ms$`));
  });
}
