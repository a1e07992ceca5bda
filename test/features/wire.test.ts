// Malformed HTTP over raw sockets: each request is rejected with the common error shape, and the service keeps
// responding.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { errorCodes } from '../../engine/errors.ts';
import { type Instance, type Organization, startInstance } from '../support/instance.ts';
import { until } from '../support/process.ts';
import { patienceMs } from '../support/promised.ts';
import { errorOf } from '../support/scenario.ts';
import { opened } from '../support/wire.ts';

const limit = 1024 * 1024;
const crlf = '\r\n';
const json = 'Content-Type: application/json';

/** A response as received. */
interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Parses a connection's responses. Bodies have a Content-Length, but responses to HEAD do not have a body.
 */
function replies(text: string, isHead = false): Reply[] {
  const responses: Reply[] = [];
  for (let rest = text; rest !== ''; ) {
    const end = rest.indexOf(crlf + crlf);
    assert.ok(end > 0, `no head in ${JSON.stringify(rest.slice(0, 200))}`);
    const [line = '', ...fields] = rest.slice(0, end).split(crlf);
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(line)?.[1]);
    assert.ok(status >= 100, line);
    const headers = Object.fromEntries(
      fields.map((field) => [field.split(':')[0]?.toLowerCase(), field.replace(/^[^:]*: */, '')]),
    ) as Record<string, string>;
    const length = isHead ? 0 : Number(headers['content-length'] ?? 0);
    const start = end + 4;
    responses.push({ status, headers, body: rest.slice(start, start + length) });
    rest = rest.slice(start + length);
  }
  return responses;
}

describe('HTTP on the wire', { concurrency: 1 }, () => {
  let instance: Instance;
  let organization: Organization;
  before(async () => {
    instance = await startInstance('embedded');
    organization = await instance.organization('alpha');
  });
  after(() => instance.close());
  const count = async () => {
    const statement = { name: '', text: 'select count(*)::text from leads', values: [] };
    return (await instance.database.run(statement))[0]?.[0];
  };

  afterEach(async () => {
    const answer = await instance.call('GET /api/v1/leads', { key: organization.key });
    assert.equal(answer.status, 200, 'the service keeps responding');
  });

  const head = (line: string, ...fields: string[]) =>
    [line, 'Host: crm', `Authorization: Bearer ${organization.key}`, ...fields, '', ''].join(crlf);

  /** Sends bytes and returns every response once the service has closed the connection or the client gives up. */
  async function exchanged(
    bytes: string | Uint8Array,
    { isHead = false, limitMs = patienceMs } = {},
  ): Promise<Reply[]> {
    const socket = await opened(instance.url);
    socket.send(bytes);
    const late = setTimeout(socket.close, limitMs);
    await socket.ended;
    clearTimeout(late);
    const all = replies(socket.text(), isHead);
    for (const { headers } of all) assert.equal(headers['x-content-type-options'], 'nosniff');
    return all;
  }

  function assertError({ status, headers, body }: Reply, expected: number): void {
    assert.equal(status, expected, body);
    assert.match(headers['content-type'] ?? '', /^application\/json/);
    const { error, code, hint = '', request_id, ...more } = JSON.parse(body) as Record<string, unknown>;
    assert.deepEqual([typeof error, more], ['string', {}]);
    assert.ok(String(error).endsWith(String(hint)), body);
    assert.ok(Object.hasOwn(errorCodes, String(code)));
    assert.equal(request_id, headers['x-request-id']);
    assert.doesNotMatch(body, /HPE_|FST_|llhttp|Parse Error|\bat /);
  }

  const chunk = (text: string) => `${text.length.toString(16)}${crlf}${text}${crlf}`;
  const lead = '{"last_name":"smuggled"}';
  const post = 'POST /api/v1/leads HTTP/1.1';
  const list = 'GET /api/v1/leads HTTP/1.1';
  const close = 'Connection: close';

  /** Bytes that are rejected before there is a request. The connection is then closed. */
  const broken: Readonly<Record<string, () => string | Uint8Array>> = {
    'Content-Length and Transfer-Encoding': () =>
      `${head(post, json, 'Content-Length: 5', 'Transfer-Encoding: chunked')}${chunk(lead)}0${crlf}${crlf}`,
    'Transfer-Encoding and Content-Length': () =>
      `${head(post, json, 'Transfer-Encoding: chunked', 'Content-Length: 5')}${chunk(lead)}0${crlf}${crlf}`,
    'two different Content-Length': () =>
      `${head(post, json, `Content-Length: ${lead.length}`, 'Content-Length: 5')}${lead}`,
    'two equal Content-Length': () =>
      `${head(post, json, `Content-Length: ${lead.length}`, `Content-Length: ${lead.length}`)}${lead}`,
    'a list as Content-Length': () => `${head(post, json, 'Content-Length: 24, 24')}${lead}`,
    'a negative Content-Length': () => `${head(post, json, 'Content-Length: -1')}${lead}`,
    'Content-Length with letters': () => `${head(post, json, 'Content-Length: many')}${lead}`,
    'a Content-Length beyond 64 bits': () =>
      `${head(post, json, `Content-Length: ${'9'.repeat(30)}`)}${lead}`,
    'chunked not last': () =>
      `${head(post, json, 'Transfer-Encoding: chunked, gzip')}${chunk(lead)}0${crlf}${crlf}`,
    'a chunk size with letters': () => `${head(post, json, 'Transfer-Encoding: chunked')}zz${crlf}${lead}`,
    'no Host': () => [list, `Authorization: Bearer ${organization.key}`, '', ''].join(crlf),
    'two Host headers': () => head(list, 'Host: elsewhere', close),
    'two equal Host headers': () => head(list, 'host: crm', close),
    'two Host headers with HTTP/1.0': () => head('GET /api/v1/leads HTTP/1.0', 'HOST: crm'),
    garbage: () => Uint8Array.from({ length: 500 }, (_, index) => (index * 73) % 256),
    'TLS to a plain port': () => Buffer.from('16030100c8010000c40303', 'hex'),
    'a line of blanks': () => `   ${crlf}${crlf}`,
    'version 9': () => head('GET /api/v1/leads HTTP/9.9'),
    'HTTP/2 in cleartext': () => `PRI * HTTP/2.0${crlf}${crlf}SM${crlf}${crlf}`,
    'a lower-case method': () => head('get /api/v1/leads HTTP/1.1'),
    'an unknown method': () => head('HACK /api/v1/leads HTTP/1.1'),
    'a blank in the path': () => head('GET /api/v1/leads x HTTP/1.1'),
    'a folded first header': () => `${list}${crlf} folded: yes${crlf}${crlf}`,
    'a blank before the colon': () => head(list, 'X-Odd : 1'),
    'a header without a colon': () => head(list, 'nonsense'),
    'a zero byte in a header': () => head(list, 'X-Odd: a\0b'),
    'a line feed in a header': () => head(list, 'X-Odd: a\nb c'),
    'a bare carriage return': () => head(list, 'X-Odd: a\rb'),
  };
  for (const [name, bytes] of Object.entries(broken)) {
    test(`${name} → 400, connection closed`, async () => {
      const leads = await count();
      const answers = await exchanged(bytes());
      assert.equal(answers.length, 1, 'one response, so nothing after it counts as a request');
      for (const answer of answers) {
        assertError(answer, 400);
        assert.equal(answer.headers.connection, 'close');
      }
      assert.equal(await count(), leads, 'nothing is written');
    });
  }

  test('HTTP/0.9 has no headers and therefore no key', async () => {
    const [answer] = await exchanged(`GET /api/v1/leads${crlf}${crlf}`);
    assert.ok(answer);
    assertError(answer, 401);
  });

  test('HTTP/1.0 does not require a Host header', async () => {
    const [answer, ...more] = await exchanged(
      ['GET /api/v1/leads HTTP/1.0', `Authorization: Bearer ${organization.key}`, '', ''].join(crlf),
    );
    assert.deepEqual([answer?.status, more], [200, []]);
  });

  test('rejects a folded header or reads it as one value', async () => {
    const [answer] = await exchanged(head(list, 'X-Folded: a', ' b', close));
    assert.ok(answer);
    if (answer.status !== 200) assertError(answer, 400);
  });

  for (const [line, status] of [
    ['GET /api/v1/leads/ HTTP/1.1', 404],
    ['GET /API/V1/LEADS HTTP/1.1', 404],
    ['GET /api/v1/Leads HTTP/1.1', 404],
    ['GET //api/v1/leads HTTP/1.1', 404],
    ['GET /api/v1/../v1/leads HTTP/1.1', 404],
    ['GET /api/v1/%6Ceads%2F1 HTTP/1.1', 404],
    ['GET /api/v1/leads/%zz HTTP/1.1', 404],
    ['GET /api/v1/leads/%ff HTTP/1.1', 404],
    ['PROPFIND /api/v1/leads HTTP/1.1', 405],
    ['LOCK /api/v1/leads/1 HTTP/1.1', 405],
    ['PROPFIND /nowhere HTTP/1.1', 404],
    ['GET * HTTP/1.1', 404],
    ['TRACE /api/v1/leads HTTP/1.1', 405],
    ['PATCH /api/v1/leads HTTP/1.1', 405],
    ['DELETE /api/v1/leads HTTP/1.1', 405],
    ['POST /api/v1/leads/1 HTTP/1.1', 405],
    ['OPTIONS /nowhere HTTP/1.1', 404],
    ['TRACE /nowhere HTTP/1.1', 404],
  ] as const) {
    test(`${line} → ${status}`, async () => {
      const [answer, ...more] = await exchanged(head(line, close));
      assert.ok(answer);
      assert.deepEqual(more, []);
      assertError(answer, status);
      if (status === 405) assert.match(answer.headers.allow ?? '', /^GET, HEAD, /);
    });
  }

  test('an undecodable path reveals nothing without credentials', async () => {
    const answer = await instance.call('GET /api/v1/leads/%ff');
    const missing = await instance.call('GET /api/v1/leads/1');
    assert.deepEqual([answer.status, errorOf(answer)], [401, errorOf(missing)]);
  });

  test('an unsupported Expect returns 417 with the common error shape', async () => {
    const [answer] = await exchanged(head(list, close, 'expect: 200-maybe'));
    assert.ok(answer);
    assertError(answer, 417);
  });

  test('rejects an unknown path before the body is sent', async () => {
    const [answer, ...more] = await exchanged(
      head('POST /nowhere HTTP/1.1', json, close, `Content-Length: ${lead.length}`),
    );
    assert.deepEqual([answer?.status, more], [404, []]);
  });

  test('HEAD returns the head of GET and no body', async () => {
    const [get] = await exchanged(head(list, close));
    const [answer] = await exchanged(head('HEAD /api/v1/leads HTTP/1.1', close), { isHead: true });
    assert.deepEqual([answer?.status, answer?.body], [200, '']);
    assert.equal(answer?.headers['content-length'], get?.headers['content-length']);
  });

  test('uses the path of an absolute URI or rejects the request', async () => {
    const [answer] = await exchanged(head('GET http://elsewhere.example/api/v1/leads HTTP/1.1', close));
    assert.ok(answer);
    if (answer.status !== 200) assertError(answer, 404);
    assert.ok(!answer.body.includes('elsewhere'));
  });

  test('rejects heads of 16 KiB and more with 431', async () => {
    for (const length of [16_384, 20_000, 1_000_000]) {
      const [answer] = await exchanged(head(list, `X-Long: ${'x'.repeat(length)}`));
      assert.ok(answer);
      assertError(answer, 431);
    }
    const [response] = await exchanged(head(list, `X-Long: ${'x'.repeat(15_000)}`, close));
    assert.equal(response?.status, 200);
  });

  test('rejects a very long URL with 404 or 431', async () => {
    for (const [length, status] of [
      [10_000, 404],
      [100_000, 431],
    ] as const) {
      const [answer] = await exchanged(head(`GET /api/v1/leads/${'9'.repeat(length)} HTTP/1.1`, close));
      assert.ok(answer);
      assertError(answer, status);
    }
  });

  describe('a body of 1 MiB', () => {
    const sized = (length: number) => `{"description":"${'x'.repeat(length - 18)}"}`;
    const ways = {
      'Content-Length': (body: string) =>
        `${head(post, json, close, `Content-Length: ${body.length}`)}${body}`,
      chunks: (body: string) =>
        `${head(post, json, close, 'Transfer-Encoding: chunked')}${(body.match(/.{1,65536}/g) ?? []).map(chunk).join('')}0${crlf}${crlf}`,
    };
    for (const [way, bytes] of Object.entries(ways)) {
      for (const [length, status] of [
        [limit - 1, 201],
        [limit, 201],
        [limit + 1, 413],
        [3 * limit, 413],
      ] as const) {
        test(`${length} bytes by ${way} → ${status}`, async () => {
          const body = sized(length);
          assert.equal(body.length, length);
          const leads = Number(await count());
          const [answer] = await exchanged(bytes(body));
          assert.ok(answer);
          if (status === 413) assertError(answer, 413);
          else assert.equal(answer.status, status, answer.body.slice(0, 200));
          assert.equal(Number(await count()), leads + (status === 201 ? 1 : 0));
        });
      }
    }
    test('rejects a declared length that is too large before the body is sent', async () => {
      const [answer] = await exchanged(head(post, json, `Content-Length: ${100 * limit}`));
      assert.ok(answer);
      assertError(answer, 413);
    });
  });

  test('slow heads and bodies do not block other requests', async () => {
    const { server } = instance.app;
    const { headersTimeout } = server;
    // On a busy machine, the other requests can take longer than the head timeout.
    server.headersTimeout = patienceMs;
    after(() => {
      server.headersTimeout = headersTimeout;
    });
    const slow = await Promise.all(Array.from({ length: 50 }, () => opened(instance.url)));
    for (const [index, socket] of slow.entries()) {
      socket.send(index % 2 === 0 ? `${list}${crlf}Host:` : `${head(post, json, 'Content-Length: 24')}{`);
    }
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => instance.call('GET /api/v1/leads', { key: organization.key })),
    );
    for (const { status } of answers) assert.equal(status, 200);
    // A head sent in many chunks is accepted once it is complete.
    const [first] = slow;
    assert.ok(first);
    for (const byte of ` crm${crlf}Authorization: Bearer ${organization.key}${crlf}${close}${crlf}${crlf}`)
      first.send(byte);
    await first.ended;
    assert.equal(replies(first.text())[0]?.status, 200);
    for (const socket of slow) socket.close();
  });

  test('an incomplete head gets 408 within the timeout for heads', async () => {
    const { server } = instance.app;
    const { headersTimeout } = server;
    server.headersTimeout = 500;
    try {
      // By default, Node checks only every 30 s.
      const [answer] = await exchanged(`${list}${crlf}Host: cr`, { limitMs: 20_000 });
      assert.ok(answer);
      assertError(answer, 408);
    } finally {
      server.headersTimeout = headersTimeout;
    }
  });

  test('an incomplete body gets 408 within the timeout for bodies, unless it is an import', async () => {
    const { app, url } = instance;
    const { bodyTimeoutMs } = app;
    assert.equal(bodyTimeoutMs, 15_000);
    // Includes the time for looking up the key.
    app.bodyTimeoutMs = 1000;
    try {
      const statusLines = (text: string) => text.match(/HTTP\/1\.1 \d{3}/g) ?? [];
      const upload = await opened(url);
      const type = 'Content-Type: text/csv';
      upload.send(
        `${head('POST /api/v1/leads/import HTTP/1.1', type, 'Transfer-Encoding: chunked', close)}${chunk('last_name\n')}`,
      );
      // The body is complete, so the timeout applies only if the process is stopped while it reads the request.
      let kept = await opened(url);
      await until(async () => {
        if (statusLines(kept.text())[0] === 'HTTP/1.1 408') kept = await opened(url);
        if (kept.text() === '') kept.send(`${head(post, json, `Content-Length: ${lead.length}`)}${lead}`);
        await until(() => statusLines(kept.text()).length === 1, 'the first response');
        return statusLines(kept.text())[0] === 'HTTP/1.1 201';
      }, 'the lead');
      const incomplete = [
        [`Content-Length: ${lead.length}`, '{'],
        ['Transfer-Encoding: chunked', chunk('{')],
      ] as const;
      const answers = await Promise.all(
        incomplete.map(([framing, part]) =>
          exchanged(`${head(post, json, framing)}${part}`, { limitMs: 20_000 }),
        ),
      );
      for (const [answer] of answers) {
        assert.ok(answer);
        assertError(answer, 408);
      }
      // The timeouts of earlier requests have passed.
      upload.send(`${chunk('imported\n')}0${crlf}${crlf}`);
      await upload.ended;
      assert.deepEqual(statusLines(upload.text()), ['HTTP/1.1 200']);
      kept.send(head(list, close));
      await kept.ended;
      assert.deepEqual(statusLines(kept.text()), ['HTTP/1.1 201', 'HTTP/1.1 200']);
    } finally {
      app.bodyTimeoutMs = bodyTimeoutMs;
    }
  });

  test('answers pipelined requests in order', async () => {
    const socket = await opened(instance.url);
    const requests = ['/api/v1/leads', '/api/v1/nothing', '/api/v1/leads'];
    socket.send(requests.map((path) => head(`GET ${path} HTTP/1.1`)).join(''));
    const statusLines = () => socket.text().match(/HTTP\/1\.1 \d{3}/g) ?? [];
    await until(() => statusLines().length === 3, 'three answers');
    assert.deepEqual(statusLines(), ['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200']);
    socket.close();
  });
});
