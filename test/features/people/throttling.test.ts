// Guessing passwords is slow: ten wrong ones for an account or a hundred from an address, then everybody waits.
// Attempts are counted in memory, so one driver stands for both.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Answer, type Instance, type Organization, startInstance } from '../../support/instance.ts';
import { fresh, makePerson, type Node, type Person, secondNode, told } from '../../support/people.ts';
import { assertErrorShape } from '../../support/scenario.ts';

const perAccount = 10;
const perAddress = 100;
const quarterOfAnHour = 900;

describe('throttling', () => {
  let instance: Instance;
  let acme: Organization;
  before(async () => {
    instance = await startInstance('postgresql');
    acme = await instance.organization('acme');
  });
  after(() => instance.close());

  /** A node counts for itself, so that tests do not use up each other's attempts. */
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

  test('an account: after ten wrong passwords the right one has to wait too', () =>
    onNode(async (node) => {
      const ann = await person();
      const statuses = await times(perAccount, () => attempt(node, ann.email, 'wrong'));
      assert.deepEqual(statuses, all(perAccount, 401));
      const refused = await attempt(node, ann.email, ann.password);
      assert.equal(refused.status, 429);
      assertErrorShape(refused);
      assert.deepEqual(refused.headers.getSetCookie(), []);
      const wait = refused.headers.get('retry-after') ?? '';
      assert.match(wait, /^\d+$/);
      assert.ok(Number(wait) > quarterOfAnHour - 60 && Number(wait) <= quarterOfAnHour, wait);

      const bea = await person();
      assert.equal((await attempt(node, bea.email, bea.password)).status, 200, 'others do not wait');
    }));

  test('an account is one however it is written', () =>
    onNode(async (node) => {
      const ann = await person();
      const ways = [ann.email, ann.email.toUpperCase(), ` ${ann.email}`, `${ann.email}\t`, `\n${ann.email} `];
      const statuses = await times(perAccount, (index) =>
        attempt(node, ways[index % ways.length] ?? '', 'wrong'),
      );
      assert.deepEqual(statuses, all(perAccount, 401));
      for (const way of ways) assert.equal((await attempt(node, way, ann.password)).status, 429);
    }));

  test('an unknown account looks the same', () =>
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

  test('at once, no more than ten passwords are really compared', () =>
    onNode(async (node) => {
      const ann = await person();
      const answers = await Promise.all(
        Array.from({ length: 30 }, (_, index) => attempt(node, ann.email, `wrong ${index}`)),
      );
      const statuses = answers.map(({ status }) => status).sort();
      assert.deepEqual(statuses, [...all(perAccount, 401), ...all(20, 429)]);
    }));

  test('at once, right passwords are all let in', () =>
    onNode(async (node) => {
      const ann = await person();
      const answers = await Promise.all(
        Array.from({ length: 16 }, () => attempt(node, ann.email, ann.password)),
      );
      assert.deepEqual(
        answers.map(({ status }) => status),
        all(16, 200),
      );
    }));

  test('a login takes back what an account had used up', () =>
    onNode(async (node) => {
      const ann = await person();
      for (let round = 0; round < 3; round++) {
        const statuses = await times(perAccount - 1, () => attempt(node, ann.email, 'wrong'));
        assert.deepEqual(statuses, all(perAccount - 1, 401));
        assert.equal((await attempt(node, ann.email, ann.password)).status, 200);
      }
    }));

  test('what never was an attempt is not counted', () =>
    onNode(async (node) => {
      const ann = await person();
      const answers = await times(3 * perAccount, () =>
        node.call('POST /auth/login', { body: { email: ann.email, password: { $ne: '' } } }),
      );
      assert.deepEqual(answers, all(3 * perAccount, 400));
      assert.equal((await attempt(node, ann.email, ann.password)).status, 200);
    }));

  test('an address: after a hundred wrong passwords, whatever X-Forwarded-For says', () =>
    onNode(async (node) => {
      const answers = await Promise.all(
        Array.from({ length: perAddress }, (_, index) =>
          attempt(node, fresh('nobody'), 'wrong', { 'x-forwarded-for': `198.51.100.${index}` }),
        ),
      );
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [401]);
      const ann = await person();
      const refused = await attempt(node, ann.email, ann.password, { 'x-forwarded-for': '203.0.113.9' });
      assert.equal(refused.status, 429);
      assert.ok(Number(refused.headers.get('retry-after')) > quarterOfAnHour - 60);
    }));

  test('behind a trusted proxy, the address that the proxy saw; what its client claims is not believed', () =>
    onNode(async (node) => {
      const from = (address: string) => ({ 'x-forwarded-for': address });
      const answers = await Promise.all(
        Array.from({ length: perAddress }, (_, index) =>
          attempt(node, fresh('nobody'), 'wrong', from(`203.0.113.${index}, 2001:db8:1:2::${index + 1}`)),
        ),
      );
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [401]);
      const ann = await person();
      const login = (address: string) => attempt(node, ann.email, ann.password, from(address));
      assert.equal((await login('2001:db8:1:2:ffff::1')).status, 429, 'another address of the same /64');
      assert.equal((await login('203.0.113.200, 2001:db8:1:2::1')).status, 429, 'claimed by the client');
      assert.equal((await login('2001:db8:1:3::1')).status, 200, 'the next /64');
      assert.equal((await login('2001:db8:1:2::1, 198.51.100.1')).status, 200, 'an address of its own');
    }, 1));
});
