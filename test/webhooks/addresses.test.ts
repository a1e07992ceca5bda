// Allowed receiver URLs: protection against server-side request forgery.
import assert from 'node:assert/strict';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import {
  type AddressPolicy,
  isMetadata,
  isPublic,
  pinnedAddress,
  receiverUrl,
} from '../../engine/addresses.ts';
import { reasonSentence } from '../../webhooks/queue/reasons.ts';
import { defaults } from '../../webhooks/settings/settings.ts';
import { deliveryQueue } from '../../webhooks/subscriptions/deliveries.ts';
import {
  bodyStart,
  maxBytes,
  maxStoredBytes,
  poster,
  requestTimeoutMs,
} from '../../webhooks/subscriptions/post.ts';
import { type DeliveryReason, deliveryReasons } from '../../webhooks/subscriptions/reasons.ts';
import { until } from '../support/process.ts';
import { patienceMs } from '../support/promised.ts';

const allowed: AddressPolicy = { ...defaults.events, allow_http: true };

/** Returns the English sentence for a failure. */
const sentence = (failure: DeliveryReason | undefined) =>
  failure === undefined ? '' : reasonSentence(deliveryReasons, failure);

/** Rejected URLs and the reason. HTTP is allowed, so that only the address matters. */
const refused: readonly (readonly [url: string, reason: RegExp])[] = [
  ...[
    '127.0.0.1',
    '127.8.9.10',
    '2130706433',
    '0177.0.0.1',
    '0x7f000001',
    '0x7f.1',
    '127.1',
    '0.0.0.0',
    '0',
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '100.64.0.1',
    '169.254.169.254',
    '192.0.0.192',
    '192.0.2.1',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::127.0.0.1]',
    '[64:ff9b::a9fe:a9fe]',
    '[64:ff9b:1::7f00:1]',
    '[2002:7f00:1::]',
    '[2001:0:7f00:1::]',
    '[fd00:ec2::254]',
    '[fc00::1]',
    '[fe80::1]',
    '[fec0::1]',
    '[ff02::1]',
    '[2001:db8::1]',
    '１２７.0.0.1',
    '127。0。0。1',
  ].map((host) => [`http://${host}/`, /private IP address/] as const),
  ['https://user:password@example.com/', /user or password/],
  ['https://:password@example.com/', /user or password/],
  ['https://example.com@127.0.0.1/', /user or password/],
  ['https://example.com:22/', /ports: 80, 443, 8080, 8443/],
  ['https://example.com:5432/', /ports/],
  ['file:///etc/passwd', /https:/],
  ['gopher://example.com/', /https:/],
  ['ftp://example.com/', /https:/],
  ['javascript:alert(1)', /https:/],
  ['//example.com', /absolute URL/],
  ['https://', /absolute URL/],
  [`https://example.com/${'x'.repeat(1981)}`, /absolute URL/],
  ['https://example.com/#x', /contain a fragment/],
];

/** Metadata services of cloud providers, also embedded in IPv6 addresses. */
const metadata: readonly string[] = [
  ...['169.254.169.254', '169.254.170.2', '168.63.129.16', '100.100.100.200', '192.0.0.192'].flatMap(
    (ipv4) => {
      const bytes = ipv4.split('.').map((byte) => Number(byte).toString(16).padStart(2, '0'));
      const inverted = ipv4.split('.').map((byte) => (Number(byte) ^ 255).toString(16).padStart(2, '0'));
      const [a, b, c, d] = bytes;
      return [
        ipv4,
        `::ffff:${ipv4}`,
        `::${ipv4}`,
        `::ffff:0:${ipv4}`,
        `64:ff9b::${ipv4}`,
        `64:ff9b:1::${ipv4}`,
        `64:ff9b:1:${a}${b}:00${c}:${d}00::`,
        `64:ff9b:1:00${a}:00${b}:${c}${d}::`,
        `64:ff9b:1:0:00${a}:${b}${c}:${d}00::`,
        `2002:${a}${b}:${c}${d}::1`,
        `2001:0:${a}${b}:${c}${d}::1`,
        `2001:0:102:304:0:0:${inverted[0]}${inverted[1]}:${inverted[2]}${inverted[3]}`,
        `fe80::5efe:${ipv4}`,
      ];
    },
  ),
  '2001:db8:64::168.63.129.16',
  'fd00:ec2::254',
  'fd00:ec2::23',
  'fd00:0ec2:0:0:0:0:0:0254',
  'fd20:ce::254',
  'fd00:42::42',
];

describe('metadata services are rejected whatever the settings', () => {
  const everything: AddressPolicy = { allow_http: true, allow_private_addresses: true, ports: [80] };
  for (const address of metadata) {
    test(address, async () => {
      const host = address.includes(':') ? `[${address}]` : address;
      assert.throws(() => receiverUrl(`http://${host}/`, everything), /metadata service/);
      assert.throws(() => receiverUrl(`http://${host}/`, allowed), /private IP address|metadata service/);
      const family = address.includes(':') ? 6 : 4;
      const resolve = async () => [
        { address: '127.0.0.1', family: 4 },
        { address, family },
      ];
      const lookup = (settings: AddressPolicy) =>
        pinnedAddress(new URL('http://hook.example/'), settings, resolve);
      await assert.rejects(lookup(everything), /metadata service/);
      await assert.rejects(lookup(allowed), /private IP address|metadata service/);
    });
  }
  test('other private addresses remain allowed', () => {
    for (const address of ['127.0.0.1', '10.0.0.1', '168.63.129.17', '::1', 'fd00::254', '2606:4700::a9fe:1'])
      assert.ok(!isMetadata(address), address);
  });
});

describe('URLs rejected before DNS resolution', () => {
  for (const [url, reason] of refused)
    test(url.slice(0, 60), () => assert.throws(() => receiverUrl(url, allowed), reason));
  test('http is rejected unless configured', () => {
    assert.throws(() => receiverUrl('http://example.com/', defaults.events), /https:/);
    assert.equal(receiverUrl('http://example.com/', allowed).href, 'http://example.com/');
  });
  test('a URL without a port uses the port of its protocol', () => {
    for (const [url, ports] of [
      ['https://example.com/', [80]],
      ['http://example.com/', [443]],
    ] as const)
      assert.throws(() => receiverUrl(url, { ...allowed, ports }), new RegExp(`ports: ${ports}$`));
  });
  test('public URLs are accepted', () => {
    for (const url of [
      'https://example.com/hook?a=1',
      `https://example.com/${'x'.repeat(1980)}`,
      'https://93.184.216.34/',
      'https://[2606:4700::1111]:8443/',
    ])
      assert.equal(receiverUrl(url, defaults.events).href, url);
    assert.ok(isPublic('93.184.216.34') && isPublic('2606:4700::1111') && isPublic('::ffff:93.184.216.34'));
    assert.ok(!isPublic('nothing') && !isPublic(''));
  });
});

test('another node does not claim a delivery while its request is in progress', () =>
  assert.ok(deliveryQueue.leaseSeconds * 1000 >= 2 * requestTimeoutMs));

describe('host names', () => {
  let server: Server;
  let port: number;
  let requests: (string | undefined)[] = [];
  let respond: (response: ServerResponse) => void = (response) => response.end();
  before(async () => {
    server = createServer((request, response) => {
      requests.push(request.headers.host);
      respond(response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    ({ port } = server.address() as AddressInfo);
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  /** Posts to a host name. Each lookup returns the next list of IP addresses. */
  const post = async (
    answers: readonly (readonly string[])[],
    { allow_private_addresses = false, path = '/', longestMs = patienceMs } = {},
  ) => {
    requests = [];
    let lookups = 0;
    const here = { ...allowed, allow_private_addresses, ports: [port] };
    const resolve = async () =>
      (answers[lookups++] ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    const posting = poster(() => here, resolve, longestMs);
    const posted = await posting.post(`http://hook.example:${port}${path}`, Buffer.from('{}'), {});
    posting.close();
    return { ...posted, lookups, requests };
  };

  for (const addresses of [
    ['127.0.0.1'],
    ['93.184.216.34', '127.0.0.1'],
    ['::ffff:127.0.0.1'],
    ['::1'],
    ['169.254.169.254'],
  ]) {
    test(`no connection to a host name with ${addresses}`, async () => {
      const { status, failure, requests } = await post([addresses]);
      assert.deepEqual(
        [status, sentence(failure), requests],
        [undefined, 'url must not resolve to a private IP address', []],
      );
    });
  }

  test('a host name is resolved only once, so a later DNS response has no effect', async () => {
    // A second lookup for the connection would return the loopback address.
    const rebound = await post([['192.0.2.1'], ['127.0.0.1']], { longestMs: 200 });
    assert.deepEqual([rebound.lookups, rebound.requests], [1, []]);
    const there = await post([['127.0.0.1'], ['192.0.2.1']], { allow_private_addresses: true });
    assert.deepEqual([there.status, there.lookups, there.requests], [200, 1, [`hook.example:${port}`]]);
  });

  test('the restrictions apply when a request is sent, whatever they were when the URL was stored', async () => {
    respond = (response) => response.end();
    requests = [];
    const here: AddressPolicy = { allow_http: true, allow_private_addresses: true, ports: [port] };
    let policy = here;
    const posting = poster(
      () => policy,
      async () => [{ address: '127.0.0.1', family: 4 }],
      patienceMs,
    );
    const send = (url: string) => posting.post(url, Buffer.from('{}'), {});
    const [name, address] = [`http://hook.example:${port}/`, `http://127.0.0.1:${port}/`];
    for (const [changes, url, reason] of [
      [{ allow_http: false }, name, /https:/],
      [{ ports: [443] }, name, /ports: 443/],
      [{ allow_private_addresses: false }, name, /private IP address/],
      [{ allow_private_addresses: false }, address, /private IP address/],
    ] as const) {
      policy = { ...here, ...changes };
      assert.match(sentence((await send(url)).failure), reason);
    }
    assert.deepEqual(requests, []);
    policy = here;
    assert.equal((await send(name)).status, 200);
    assert.equal((await send(address)).status, 200);
    posting.close();
  });

  test('host names without an IP address, and failed lookups', async () => {
    assert.equal(sentence((await post([[]])).failure), 'the host name cannot be resolved');
    const posting = poster(
      () => ({ ...allowed, ports: [port] }),
      () => new Promise(() => {}),
      50,
    );
    assert.equal(
      sentence((await posting.post(`http://hook.example:${port}/`, Buffer.from('{}'), {})).failure),
      'no response in time',
    );
    posting.close();
  });

  test('redirects are not followed', async () => {
    for (const location of ['http://169.254.169.254/', `http://127.0.0.1:${port}/again`, '/again']) {
      respond = (response) => response.writeHead(307, { location }).end();
      const { status, requests } = await post([['127.0.0.1']], { allow_private_addresses: true });
      assert.deepEqual([status, requests.length], [307, 1], location);
    }
  });

  test('an endless body is cut off, and a slow or missing body times out', async () => {
    let sent = 0;
    respond = (response) => {
      const more = () => {
        if (response.destroyed || sent > 64 * maxBytes) return;
        sent += 16 * 1024;
        if (response.write(Buffer.alloc(16 * 1024))) setImmediate(more);
        else response.once('drain', more);
      };
      more();
    };
    const endless = await post([['127.0.0.1']], { allow_private_addresses: true });
    assert.equal(endless.status, 200);
    assert.ok(sent < 64 * maxBytes, `${sent} bytes`);
    assert.ok(Number(endless.bytes) > maxBytes);
    respond = (response) => response.writeHead(200).write('a');
    // Neither response ever ends. On a slow machine, the headers take longer to arrive.
    let longestMs = 500;
    await until(async () => {
      const slow = await post([['127.0.0.1']], { allow_private_addresses: true, longestMs });
      longestMs *= 2;
      return slow.status === 200;
    }, 'receive the headers');
    respond = () => {};
    const late = await post([['127.0.0.1']], { allow_private_addresses: true, longestMs: 100 });
    assert.deepEqual([late.status, sentence(late.failure)], [undefined, 'no response in time']);
  });

  test('responses that are not HTTP, and oversized headers', async () => {
    respond = (response) => response.socket?.end('SSH-2.0-OpenSSH_9\r\n');
    assert.match(
      sentence((await post([['127.0.0.1']], { allow_private_addresses: true })).failure),
      /^connection failed/,
    );
    respond = (response) =>
      response.socket?.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n');
    assert.equal(
      sentence((await post([['127.0.0.1']], { allow_private_addresses: true })).failure),
      'connection failed',
    );
    respond = (response) => response.writeHead(200, { 'x-large': 'x'.repeat(20_000) }).end();
    assert.match(
      sentence((await post([['127.0.0.1']], { allow_private_addresses: true })).failure),
      /^connection failed/,
    );
    respond = (response) => response.writeHead(200, { 'x-long': `${'x'.repeat(8000)}` }).end();
    const { response } = await post([['127.0.0.1']], { allow_private_addresses: true });
    assert.equal(response.length, 4000, 'the stored headers are limited');
  });

  test('the start of a text is kept, other content only as its size', async () => {
    const bodies: readonly (readonly [sent: string | Buffer, kept: string])[] = [
      ['', ''],
      ['{\r\n"error":"schön"}\r\n', '{\n"error":"schön"}\n'],
      ['a\u001bb', 'a\ufffdb'],
      ['a\0b', ''],
      [Buffer.from([0xff, 0xd8, 0xff]), ''],
      // The limit is within the last character.
      [`${'x'.repeat(maxStoredBytes - 1)}äz`, 'x'.repeat(maxStoredBytes - 1)],
      ['ä'.repeat(maxStoredBytes), 'ä'.repeat(maxStoredBytes / 2)],
    ];
    for (const [sent, kept] of bodies) {
      respond = (response) => response.writeHead(500).end(sent);
      const { body, bytes } = await post([['127.0.0.1']], { allow_private_addresses: true });
      assert.deepEqual([body, bytes], [kept, Buffer.byteLength(sent)]);
      assert.equal(bodyStart(Buffer.from(sent)), kept);
    }
  });
});
