// Rate limiting for logins: after twenty wrong passwords for a user or a hundred from an IP address, unknown
// devices are rejected. A device that has logged in before is only delayed by its own failures. Attempts are
// counted in memory, so one driver is sufficient. Concurrent tests hash at the real cost, so that the
// attempts overlap.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { attempts, networkOf } from '../../../plugins/access/rate-limiting/attempts.ts';
import { visitor } from '../../support/forms.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../../support/instance.ts';
import { realCost } from '../../support/low-cost.ts';
import {
  deviceOf,
  fresh,
  makePerson,
  type Node,
  type Person,
  secondNode,
  told,
} from '../../support/people.ts';
import { assertErrorShape } from '../../support/scenario.ts';

const perAccount = 20;
const perDevice = 10;
const perAddress = 100;
const quarterOfAnHour = 900;

// Needs no database, because attempts are counted in memory.
test('a device that has logged in before can fail as often as before after a success', async () => {
  const failures = 3;
  const limiter = attempts(fresh('test'), { failures, waiting: 10, slowDown: true });
  const fail = () => limiter.run('device', async () => undefined);
  /** Starts twice as many successful attempts as can fail. @returns how many of them run concurrently */
  const concurrent = async (): Promise<number> => {
    const opened = Promise.withResolvers<void>();
    let running = 0;
    const all = Array.from({ length: 2 * failures }, () =>
      limiter.run('device', async () => {
        running++;
        await opened.promise;
        return true;
      }),
    );
    // Failures are counted in memory, so attempts that are not delayed have started by then.
    await nextTurn();
    const started = running;
    opened.resolve();
    await Promise.all(all);
    return started;
  };
  for (let count = 0; count < failures - 1; count++) await fail();
  assert.equal(await concurrent(), 1, 'one failure is left');
  assert.equal(await concurrent(), failures, 'a success resets the count');
  await fail();
  assert.equal(await concurrent(), failures - 1);
  assert.equal(await concurrent(), failures);
});

describe('rate limiting of logins', () => {
  let instance: Instance;
  let acme: Organization;
  before(async () => {
    instance = await startInstance('postgresql');
    acme = await instance.organization('acme');
  });
  after(() => instance.close());

  /** Runs a test on its own node. Each node has its own counters, so tests do not affect each other. */
  const onNode = async (work: (node: Node) => Promise<void>, trustedProxies = 0) => {
    const node = await secondNode(instance, { trustedProxies });
    try {
      await work(node);
    } finally {
      await node.close();
    }
  };
  const attempt = (node: Node, email: string, password: string, headers: Record<string, string> = {}) =>
    node.call('POST /auth/login', { body: { email, password }, headers });
  const times = async (count: number, make: (index: number) => Promise<Answer>): Promise<number[]> => {
    const statuses = [];
    for (let index = 0; index < count; index++) statuses.push((await make(index)).status);
    return statuses;
  };
  const all = (count: number, status: number) => Array<number>(count).fill(status);
  const person = (): Promise<Person> => makePerson(instance, [{ organization: acme }]);
  /** Checks that a wait ends a quarter of an hour after the first failure, which followed `start`. */
  const assertWait = (seconds: number, start: number) => {
    const least = quarterOfAnHour - 1 - (performance.now() - start) / 1000;
    assert.ok(seconds >= least && seconds <= quarterOfAnHour, `${seconds} s, at least ${least} s`);
  };

  test('user: after twenty wrong passwords, an unknown device has to wait even with the right one', () =>
    onNode(async (node) => {
      const ann = await person();
      const start = performance.now();
      const statuses = await times(perAccount, () => attempt(node, ann.email, 'wrong'));
      assert.deepEqual(statuses, all(perAccount, 401));
      const refused = await attempt(node, ann.email, ann.password);
      assert.equal(refused.status, 429);
      assertErrorShape(refused);
      assert.deepEqual(refused.headers.getSetCookie(), []);
      const wait = refused.headers.get('retry-after') ?? '';
      assert.match(wait, /^\d+$/);
      assertWait(Number(wait), start);

      const bea = await person();
      assert.equal(
        (await attempt(node, bea.email, bea.password)).status,
        200,
        'other users do not have to wait',
      );
    }));

  test('counts all spellings of an email address as one user', () =>
    onNode(async (node) => {
      const ann = await person();
      const ways = [ann.email, ann.email.toUpperCase(), ` ${ann.email}`, `${ann.email}\t`, `\n${ann.email} `];
      const statuses = await times(perAccount, (index) =>
        attempt(node, ways[index % ways.length] ?? '', 'wrong'),
      );
      assert.deepEqual(statuses, all(perAccount, 401));
      for (const way of ways) assert.equal((await attempt(node, way, ann.password)).status, 429);
    }));

  test('responds in the same way for unknown users', () =>
    onNode(async (node) => {
      const ann = await person();
      const answers: Record<string, ReturnType<typeof told>[]> = {};
      for (const email of [ann.email, 'nobody@people.example']) {
        const list: ReturnType<typeof told>[] = [];
        answers[email] = list;
        for (let index = 0; index <= perAccount; index++) {
          const { headers, ...rest } = told(await attempt(node, email, 'wrong'));
          list.push({ ...rest, headers: headers.filter(([name]) => name !== 'retry-after') });
        }
      }
      assert.deepEqual(answers[ann.email], answers['nobody@people.example']);
    }));

  test('concurrent attempts: compares at most twenty passwords', (t) =>
    onNode(async (node) => {
      t.after(realCost());
      const ann = await person();
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, index) => attempt(node, ann.email, `wrong ${index}`)),
      );
      const statuses = answers.map(({ status }) => status).sort();
      assert.deepEqual(statuses, [...all(perAccount, 401), ...all(20, 429)]);
    }));

  test('concurrent attempts: accepts any number of right passwords and locks no user out', (t) =>
    onNode(async (node) => {
      t.after(realCost());
      const ann = await person();
      const answers = await Promise.all(
        Array.from({ length: perAddress + 20 }, () => attempt(node, ann.email, ann.password)),
      );
      assert.deepEqual(
        answers.map(({ status }) => status),
        all(perAddress + 20, 200),
      );
      assert.equal((await attempt(node, ann.email, 'wrong')).status, 401);
      assert.equal((await attempt(node, ann.email, ann.password)).status, 200);
    }));

  test('a successful login from an unknown device does not reset the count', () =>
    onNode(async (node) => {
      const ann = await person();
      for (let round = 0; round < 2; round++) {
        const statuses = await times(perAccount / 2, () => attempt(node, ann.email, 'wrong'));
        assert.deepEqual(statuses, all(perAccount / 2, 401));
        const right = await attempt(node, ann.email, ann.password);
        assert.equal(right.status, round === 0 ? 200 : 429);
      }
    }));

  describe('a device that has logged in before', () => {
    const login = async (node: Node, { email, password }: Person, cookie = '') => {
      const answer = await attempt(node, email, password, { cookie });
      assert.equal(answer.status, 200, answer.text);
      return deviceOf(answer);
    };

    test('is accepted while unknown devices have to wait, for the user and for the IP address', () =>
      onNode(async (node) => {
        const [ann, bea] = [await person(), await person()];
        const cookie = await login(node, ann);
        await times(perAccount + 1, () => attempt(node, ann.email, 'wrong'));
        await Promise.all(Array.from({ length: perAddress }, () => attempt(node, fresh('nobody'), 'wrong')));
        assert.equal((await attempt(node, ann.email, ann.password)).status, 429);
        assert.equal((await attempt(node, bea.email, bea.password)).status, 429);
        assert.equal((await attempt(node, ann.email, ann.password, { cookie })).status, 200);
        assert.equal(
          (await attempt(node, bea.email, bea.password, { cookie })).status,
          429,
          'unknown to this user',
        );
      }));

    test('is delayed by its own failures but never rejected with the right password; other devices are not delayed', () =>
      onNode(async (node) => {
        const ann = await person();
        const cookie = await login(node, ann);
        const wrong = await times(perDevice, () => attempt(node, ann.email, 'wrong', { cookie }));
        assert.deepEqual(wrong, all(perDevice, 401));
        assert.equal((await attempt(node, ann.email, ann.password)).status, 200);
        const start = performance.now();
        assert.equal((await attempt(node, ann.email, ann.password, { cookie })).status, 200);
        assert.ok(performance.now() - start >= 990, 'delayed by a second');
        const again = await times(perDevice, () => attempt(node, ann.email, 'wrong', { cookie }));
        assert.deepEqual(again, all(perDevice, 401));
      }));

    test('does not use up the attempts that unknown devices have, for the user and for the IP address', () =>
      onNode(async (node) => {
        const people = await Promise.all(Array.from({ length: perAddress / perAccount }, person));
        for (const each of people) {
          const cookies: string[] = [];
          for (let count = 0; count <= perAccount / perDevice; count++) cookies.push(await login(node, each));
          for (const cookie of cookies) {
            const wrong = await times(perDevice, () => attempt(node, each.email, 'wrong', { cookie }));
            assert.deepEqual(wrong, all(perDevice, 401));
          }
        }
        for (const each of [...people, await person()]) await login(node, each);
      }));

    test("does use them up for another user's password with the same email address", () =>
      onNode(async (node) => {
        const email = `${fresh('namesake')}@people.example`;
        const [ann, bea] = [
          await makePerson(instance, [{ organization: acme }], { email, password: 'the password of ann' }),
          await makePerson(instance, [{ organization: await instance.organization(fresh('other')) }], {
            email,
            password: 'the password of bea',
          }),
        ];
        const cookies = [await login(node, ann), await login(node, ann), await login(node, ann)];
        const [first = '', second = '', third = ''] = cookies;
        for (const cookie of [first, second]) {
          const wrong = await times(perDevice, () => attempt(node, email, 'wrong', { cookie }));
          assert.deepEqual(wrong, all(perDevice, 401));
        }
        const headers = { cookie: third };
        assert.equal((await attempt(node, email, 'wrong', headers)).status, 429);
        assert.equal((await attempt(node, email, bea.password, headers)).status, 429);
        assert.equal((await attempt(node, email, ann.password, headers)).status, 200);
      }));

    test('can make many concurrent attempts with the right password', (t) =>
      onNode(async (node) => {
        t.after(realCost());
        const ann = await person();
        const cookie = await login(node, ann);
        // Retry if the service returns 503 because the machine is overloaded.
        const served = async () => {
          for (;;) {
            const { status } = await attempt(node, ann.email, ann.password, { cookie });
            if (status !== 503) return status;
          }
        };
        const statuses = await Promise.all(Array.from({ length: 60 }, served));
        assert.deepEqual([...new Set(statuses)], [200]);
      }));

    test('is recognized for several users and on every node', () =>
      onNode(async (node) => {
        const [ann, bea] = [await person(), await person()];
        const cookie = await login(node, bea, await login(node, ann));
        for (const { email, password } of [ann, bea]) {
          await onNode(async (other) => {
            await times(perAccount, () => attempt(other, email, 'wrong'));
            assert.equal((await attempt(other, email, password)).status, 429);
            assert.equal((await attempt(other, email, password, { cookie })).status, 200);
          });
        }
      }));

    test('is recognized for the latest five users', () =>
      onNode(async (node) => {
        const people = await Promise.all(Array.from({ length: 6 }, person));
        let cookie = '';
        const entries = () => cookie.replace('crm_device=', '').split('~');
        for (const each of people) cookie = await login(node, each, cookie);
        const before = entries();
        const third = people[2] ?? assert.fail();
        cookie = await login(node, third, cookie);
        const ids = people.map(({ id }) => id);
        const usersIn = (list: readonly string[]) => list.map((entry) => entry.split('.')[0]);
        assert.deepEqual(usersIn(before), ids.slice(1).reverse());
        assert.deepEqual(usersIn(entries()), [third.id, ids[5], ids[4], ids[3], ids[1]]);
        assert.deepEqual(entries().sort(), before.sort(), 'with the same IDs');
      }));

    test('is not recognized by a forged, altered or foreign cookie', () =>
      onNode(async (node) => {
        const [ann, bea] = [await person(), await person()];
        const cookie = await login(node, ann);
        const [user = '', id = '', signature = ''] = cookie.replace('crm_device=', '').split('.');
        await times(perAccount, () => attempt(node, bea.email, 'wrong'));
        const forged = [
          `${bea.id}.${id}.${signature}`,
          `${user}.x.${signature}~${bea.id}.${id}.`,
          `${bea.id}.${id}`,
          '~~~',
          `${bea.id}.${id}.${'A'.repeat(43)}`,
          'x'.repeat(5000),
        ];
        for (const value of forged) {
          const headers = { cookie: `crm_device=${value}` };
          assert.equal((await attempt(node, bea.email, bea.password, headers)).status, 429, value);
        }
      }));
  });

  test('keeps no state for finished attempts', async () => {
    const bounds = attempts('test', { failures: 3, waiting: 2 });
    const run = (key: string, result: true | undefined) => bounds.run(key, async () => result);
    await Promise.allSettled(
      Array.from({ length: 500 }, (_, index) =>
        run(`key ${index % 100}`, index % 2 === 0 ? true : undefined),
      ),
    );
    await assert.rejects(bounds.run('fails', () => Promise.reject(new Error('no database'))));
    assert.equal(bounds.busy(), 0);
  });

  test('rejects attempts while too many are waiting, and accepts the waiting ones', async () => {
    const { run } = attempts(fresh('test'), { failures: 1, waiting: 2 });
    const opened = Promise.withResolvers<void>();
    const attempt = () =>
      run('user', async () => {
        await opened.promise;
        return true;
      });
    const outcomes = Promise.allSettled([attempt(), attempt(), attempt(), attempt()]);
    // Failures are counted in memory, so the attempts are running, waiting or rejected by then.
    await nextTurn();
    opened.resolve();
    const statuses = (await outcomes).map((outcome) =>
      outcome.status === 'fulfilled' ? outcome.value : [outcome.reason.status, outcome.reason.extra.headers],
    );
    assert.deepEqual(statuses, [true, true, true, [429, { 'retry-after': '1' }]]);
    assert.equal(await attempt(), true);
  });

  test('an attempt that throws is not a failure', async () => {
    const { run } = attempts(fresh('test'), { failures: 1, waiting: 0 });
    await assert.rejects(
      run('user', () => Promise.reject(new Error('no database'))),
      /no database/,
    );
    assert.equal(await run('user', async () => undefined), undefined);
    await assert.rejects(
      run('user', async () => true),
      { status: 429 },
    );
    assert.equal(await run('another user', async () => true), true);
  });

  for (const [network, ...addresses] of [
    ['192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2::', '2001:db8:1:2::6', '2001:db8:1:2:3::6'],
    ['2001:db8:0:0', '2001:db8::1', '2001:db8::5:6:7:8', '2001:db8:0:0:5::', '2001:db8:0:0:5:6:7:8'],
    ['2001:0:0:2', '2001:0:0:2::1', '2001::2:5:6:7:8', '2001:0:0:2:5:6:7:8'],
    ['::ffff:192.0.2.7', '::ffff:192.0.2.7'],
    ['::ffff:192.0.2.8', '::ffff:192.0.2.8'],
  ] as const)
    test(`the network ${network} contains ${addresses.join(', ')}`, () => {
      for (const ip of addresses) assert.equal(networkOf({ ip }), network, ip);
    });

  test('IP address: limited after a hundred wrong passkeys', () =>
    onNode(async (node) => {
      const browser = visitor(node);
      const _csrf = await browser.token('/setup/login');
      const send = () => browser.post('/setup/login/passkey', { _csrf, ticket: 'x', credential: '{}' });
      assert.deepEqual(await times(perAddress, send), all(perAddress, 401));
      const refused = await send();
      assert.equal(refused.status, 429);
      assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/);
    }));

  test('does not count invalid requests', () =>
    onNode(async (node) => {
      const ann = await person();
      const answers = await times(3 * perAccount, () =>
        node.call('POST /auth/login', { body: { email: ann.email, password: { $ne: '' } } }),
      );
      assert.deepEqual(answers, all(3 * perAccount, 400));
      assert.equal((await attempt(node, ann.email, ann.password)).status, 200);
    }));

  test('IP address: limited after a hundred wrong passwords, whatever X-Forwarded-For contains', () =>
    onNode(async (node) => {
      const start = performance.now();
      const statuses = await times(perAddress, (index) =>
        attempt(node, fresh('nobody'), 'wrong', { 'x-forwarded-for': `198.51.100.${index}` }),
      );
      assert.deepEqual(statuses, all(perAddress, 401));
      const ann = await person();
      const refused = await attempt(node, ann.email, ann.password, { 'x-forwarded-for': '203.0.113.9' });
      assert.equal(refused.status, 429);
      assertWait(Number(refused.headers.get('retry-after')), start);
    }));

  test("trusted proxy: limits the IP address reported by the proxy and ignores the client's claims", () =>
    onNode(async (node) => {
      const from = (address: string) => ({ 'x-forwarded-for': address });
      const statuses = await times(perAddress, (index) =>
        attempt(node, fresh('nobody'), 'wrong', from(`203.0.113.${index}, 2001:db8:1:2::${index + 1}`)),
      );
      assert.deepEqual(statuses, all(perAddress, 401));
      const ann = await person();
      const login = (address: string) => attempt(node, ann.email, ann.password, from(address));
      assert.equal((await login('2001:db8:1:2:ffff::1')).status, 429, 'another IP address in the same /64');
      assert.equal((await login('203.0.113.200, 2001:db8:1:2::1')).status, 429, 'claimed by the client');
      assert.equal((await login('2001:db8:1:3::1')).status, 200, 'the next /64');
      assert.equal((await login('2001:db8:1:2::1, 198.51.100.1')).status, 200, 'a different IP address');
    }, 1));
});
