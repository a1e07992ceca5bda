// Event verification by receivers that use the client: timestamp, ID and signature.
import assert from 'node:assert/strict';
import { after, before, describe, mock, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { type EventHeaders, InvalidEventError, readEvent } from '../../client/src/index.ts';

const secret = 'whsec_c2VjcmV0IG9mIGEgc3Vic2NyaXB0aW9u';
const other = 'whsec_c2VjcmV0IG9mIGFub3RoZXIgb25l';
const body = '{"type":"test","timestamp":"2026-03-01T09:30:00Z","data":{}}';

/**
 * Returns the headers of an event sent the given number of seconds from now. `changes` are applied after
 * signing.
 */
function headersAt(seconds: number, changes: Record<string, string> = {}, by = secret) {
  const at = new Date(Date.now() + seconds * 1000);
  return {
    'webhook-id': 'evt_1_1',
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': new Webhook(by).sign('evt_1_1', at, body),
    ...changes,
  };
}
/** Returns the headers of an event with this body, which is sent now. */
function headersOf(text: string) {
  const at = new Date();
  return {
    'webhook-id': 'evt_1_1',
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign('evt_1_1', at, text),
  };
}
const accepts = async (headers: EventHeaders, secrets: string | readonly string[] = secret) =>
  assert.equal((await readEvent(body, headers, secrets)).type, 'test');
const rejects = (headers: EventHeaders, secrets: string | readonly string[] = secret) =>
  assert.rejects(readEvent(body, headers, secrets), InvalidEventError);

describe('readEvent', () => {
  // The clock stands still, so that the limits are exact on a slow machine.
  before(() => mock.timers.enable({ apis: ['Date'], now: Date.parse('2026-03-01T09:30:00Z') }));
  after(() => mock.timers.reset());

  // Clocks can differ by 300 s in either direction.
  for (const seconds of [0, -300, 300]) {
    test(`accepts an event within the tolerance: ${seconds} s from now`, () => accepts(headersAt(seconds)));
  }
  for (const seconds of [-301, 301, -86_400, 86_400, -1e9, 1e9]) {
    test(`rejects an event beyond the tolerance: ${seconds} s from now`, () => rejects(headersAt(seconds)));
  }

  test('returns an event in the format of CloudEvents like any other', async () => {
    const data = {
      position: '1-1',
      action: 'update',
      resource: 'leads',
      id: 5,
      version: 2,
      changed: ['rating'],
    };
    const text = JSON.stringify({
      specversion: '1.0',
      type: 'leads.updated',
      time: '2026-03-01T09:30:00Z',
      data,
    });
    const event = await readEvent(text, headersOf(text), secret);
    assert.equal(
      JSON.stringify(event),
      JSON.stringify({ type: 'leads.updated', timestamp: '2026-03-01T09:30:00Z', data }),
    );
  });

  test('returns the numbers of every state of a record exactly', async () => {
    const states = ['previous', 'after', 'record'].map((name) => `"${name}":{"lead_score":9007199254740993}`);
    const data = `"action":"update","resource":"leads","id":9007199254740995,"version":9007199254740997,${states}`;
    const text = `{"type":"leads.updated","timestamp":"2026-03-01T09:30:00Z","data":{${data}}}`;
    const event = await readEvent(text, headersOf(text), secret);
    assert.ok(event.type === 'leads.updated');
    const { id, version, previous, after, record } = event.data;
    assert.deepEqual(
      [id, version, previous?.lead_score, after?.lead_score, record?.lead_score],
      [9007199254740995n, 9007199254740997n, 9007199254740993n, 9007199254740993n, 9007199254740993n],
    );
  });

  test('rejects an event whose ID, timestamp or signature was changed', async () => {
    for (const [name, value] of [
      ['webhook-id', ''],
      ['webhook-id', 'evt_1_2'],
      ['webhook-timestamp', ''],
      ['webhook-timestamp', 'now'],
      ['webhook-timestamp', '-1'],
      ['webhook-timestamp', String(Math.floor(Date.now() / 1000) - 1)],
      ['webhook-signature', ''],
      ['webhook-signature', 'v1,'],
    ] as const) {
      await rejects(headersAt(0, { [name]: value }));
    }
  });

  test('fails without a secret, which could not reject anything', async () => {
    for (const none of ['', 'whsec_', 'whsec_not base64!'])
      for (const secrets of [none, [none, secret]])
        await assert.rejects(readEvent(body, headersAt(0), secrets), TypeError);
  });

  test('requires a version 1 signature by one of the secrets', async () => {
    const { 'webhook-signature': signature, ...headers } = headersAt(0);
    const foreign = headersAt(0, {}, other)['webhook-signature'];
    await accepts({ ...headers, 'webhook-signature': `${foreign} v2,x ${signature}` });
    await accepts({ ...headers, 'webhook-signature': signature }, [other, secret]);
    await accepts(new Headers({ ...headers, 'webhook-signature': signature }));
    await rejects({ ...headers, 'webhook-signature': signature }, other);
    await rejects({ ...headers, 'webhook-signature': foreign });
    await rejects({ ...headers, 'webhook-signature': signature.replace('v1,', 'v2,') });
  });
});
