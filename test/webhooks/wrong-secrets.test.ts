// Rate limiting for wrong secrets. A valid secret is always accepted, even from the same IP address. Failures
// are counted in memory, so testing one driver is sufficient.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import pLimit from 'p-limit';
import { providers, publicUrl } from '../support/channels.ts';
import { type Answer, type Instance, startInstance } from '../support/instance.ts';
import { integrate, settingsFile } from '../support/partners.ts';
import { customers, entries, newSecret, organization, variables } from '../support/payments.ts';
import { fresh } from '../support/people.ts';
import { assertErrorShape } from '../support/scenario.ts';

const most = 100;
const quarterOfAnHour = 900;
const [inbound, booking] = ['the-secret-of-inbound-leads', 'the-token-of-booking-forms'];
const { environment } = settingsFile(
  {
    public_url: publicUrl,
    partners: {
      inbound_leads: { secrets: [inbound] },
      booking_forms_whatsapp: { secrets: [booking], organization },
      payments: entries,
    },
    messaging: { [organization]: { sender: 'log' } },
  },
  variables,
);

type Headers = Readonly<Record<string, string>>;

/** An endpoint: how to call it with a secret, and its response to a wrong secret. */
interface Endpoint {
  readonly request: string;
  readonly body?: string;
  readonly headers: (secret: string) => Headers;
  readonly secret: string;
  readonly refused: number;
}

describe('wrong secrets', () => {
  let instance: Instance;
  const endpoints = new Map<string, Endpoint>();
  const names = ['inbound leads', 'booking forms', ...customers.map(({ name }) => name)];
  const channels = [...providers.map(({ provider }) => provider), 'a handshake'];
  before(async () => {
    instance = await startInstance('postgresql', { environment: { ...environment, TRUSTED_PROXIES: '1' } });
    const shop = await instance.organization(organization);
    const partner = { headers: (secret: string) => ({ authorization: `Bearer ${secret}` }), refused: 401 };
    endpoints.set('inbound leads', {
      ...partner,
      request: 'POST /webhooks/inbound-leads',
      body: '{"email":"a@example.com"}',
      secret: inbound,
    });
    endpoints.set('booking forms', {
      ...partner,
      request: 'POST /api/booking-forms/whatsapp',
      body: '{"to":"+15550100","message":"x"}',
      secret: booking,
    });
    for (const { name, payload, headers } of customers) {
      const body = JSON.stringify(
        payload({ event: fresh('event'), email: 'unknown@example.com', phone: null }),
      );
      const request = `POST /webhooks/${name}-payment`;
      const headersOf = (secret: string) => headers(body, secret, 'event');
      endpoints.set(name, { request, body, headers: headersOf, secret: newSecret(name), refused: 401 });
    }
    for (const { provider, type, body, headers } of providers) {
      const { path, secret } = await integrate(instance, shop, provider);
      const raw = body('1234567');
      const headersOf = (candidate: string) => ({
        'content-type': type,
        ...headers({ path, secret: candidate }, raw),
      });
      endpoints.set(provider, {
        request: `POST ${path}`,
        body: raw,
        headers: headersOf,
        secret,
        refused: 401,
      });
    }
    const { path, verifyToken } = await integrate(instance, shop, 'messenger');
    const query = (token: string) => `hub.mode=subscribe&hub.challenge=1&hub.verify_token=${token}`;
    endpoints.set('a handshake', {
      request: `GET ${path}?${query('SECRET')}`,
      headers: () => ({}),
      secret: verifyToken,
      refused: 403,
    });
  });
  after(() => instance.close());

  const call = ({ request, body, headers }: Endpoint, secret: string, more: Headers = {}): Promise<Answer> =>
    instance.call(request.replace('SECRET', secret), {
      headers: { 'content-type': 'application/json', ...headers(secret), ...more },
      ...(body === undefined ? {} : { body }),
    });

  for (const name of [...names, ...channels]) {
    test(`${name}: after 100 failures, a wrong secret gets 429 and a valid one is accepted`, async () => {
      const endpoint = endpoints.get(name) ?? assert.fail(name);
      const { secret, refused } = endpoint;
      const accepted = await call(endpoint, secret);
      assert.ok(accepted.status < 300);
      if (names.includes(name))
        assert.deepEqual(
          ['cache-control', 'content-type'].map((header) => accepted.headers.get(header)),
          ['no-store', 'application/json; charset=utf-8'],
        );
      const limited = pLimit(8);
      const wrong = await limited.map(Array(most).keys(), (index) =>
        call(endpoint, `a-wrong-secret-${index}`),
      );
      assert.deepEqual([...new Set(wrong.map(({ status }) => status))], [refused]);

      const answer = await call(endpoint, 'one-more-wrong-secret');
      assert.equal(answer.status, 429);
      assertErrorShape(answer);
      const wait = Number(answer.headers.get('retry-after'));
      assert.ok(wait > quarterOfAnHour - 120 && wait <= quarterOfAnHour, String(wait));

      assert.ok((await call(endpoint, secret)).status < 300, 'valid secret, same IP address');
      const elsewhere = { 'x-forwarded-for': '203.0.113.9' };
      assert.equal((await call(endpoint, 'wrong', elsewhere)).status, refused, 'another IP address');
      if (names.includes(name)) {
        const { status } = await instance.call(endpoint.request, { body: endpoint.body });
        assert.equal(status, 401, 'a missing secret does not count');
      }
    });
  }

  test('failures of all addresses in an IPv6 network are counted together', async () => {
    const endpoint = endpoints.get('inbound leads') ?? assert.fail();
    const statusFrom = async (address: string) =>
      (await call(endpoint, 'a-wrong-secret', { 'x-forwarded-for': address })).status;
    const limited = pLimit(8);
    const statuses = await limited.map(Array(most).keys(), (index) =>
      statusFrom(`2001:db8:1:2::${index.toString(16)}`),
    );
    assert.deepEqual([...new Set(statuses)], [endpoint.refused]);
    assert.equal(await statusFrom('2001:db8:1:2:ffff::1'), 429);
    assert.equal(await statusFrom('2001:db8:1:3::1'), endpoint.refused, 'another network');
  });

  test('failures are counted per endpoint', async () => {
    const shop = await instance.organization('another');
    const { path } = await integrate(instance, shop, 'telegram');
    const headers = { 'x-telegram-bot-api-secret-token': 'wrong' };
    assert.equal((await instance.call(`POST ${path}`, { body: {}, headers })).status, 401);
  });
});
