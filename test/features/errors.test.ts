// Errors for programs: an error code, and a request ID that the caller can choose.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { errorCodes } from '../../engine/errors.ts';
import { onBothDrivers } from '../support/instance.ts';
import { activityOf } from '../support/people.ts';
import { missing } from '../support/records.ts';
import { assertErrorShape, type Scenario, scenarios } from '../support/scenario.ts';
import { opened } from '../support/wire.ts';

const generated = /^[0-9a-f]{8}-[0-9a-z]+$/;

onBothDrivers('Errors', (instance) => {
  const callers: Record<string, string> = {};
  const values: Record<string, string> = { missing };
  let organization: string;
  before(async () => {
    const alpha = await instance().organization('alpha');
    organization = alpha.id;
    callers.admin = alpha.key;
    callers.nobody = await alpha.keyWith([]);
    const lead = await instance().call('POST /api/v1/leads', { key: alpha.key, body: {} });
    values.lead = String(lead.json.id);
  });

  const cases: readonly (Scenario & { readonly code: keyof typeof errorCodes })[] = [
    { does: 'GET /api/v1/leads', gets: 401, code: 'unauthenticated' },
    { as: 'nobody', does: 'GET /api/v1/leads', gets: 403, code: 'forbidden' },
    { as: 'admin', does: 'GET /api/v1/leads/{missing}', gets: 404, code: 'not_found' },
    { as: 'admin', does: 'GET /api/v1/nothing', gets: 404, code: 'not_found' },
    { as: 'admin', does: 'PROPFIND /api/v1/leads', gets: 405, code: 'method_not_allowed' },
    { as: 'admin', does: 'POST /api/v1/leads', with: '{', gets: 400, code: 'invalid_json' },
    { as: 'admin', does: 'POST /api/v1/leads', with: { email: 1 }, gets: 400, code: 'invalid_input' },
    { as: 'admin', does: 'GET /api/v1/leads?page=x', gets: 400, code: 'invalid_input' },
    {
      as: 'admin',
      does: 'POST /api/v1/contacts',
      with: { account_id: Number(missing) },
      gets: 400,
      code: 'missing_reference',
    },
    {
      as: 'admin',
      does: 'GET /api/v1/leads/{lead}',
      headers: { 'if-match': 'x' },
      gets: 400,
      code: 'invalid_header',
    },
    {
      as: 'admin',
      does: 'DELETE /api/v1/leads/{lead}',
      headers: { 'if-match': '"x"' },
      gets: 412,
      code: 'precondition_failed',
    },
    {
      as: 'admin',
      does: 'POST /api/v1/leads',
      with: `"${'x'.repeat(1024 * 1024)}"`,
      gets: 413,
      code: 'body_too_large',
    },
    { does: 'POST /webhooks/inbound-leads', with: {}, gets: 501, code: 'not_configured' },
  ];
  const hints: readonly Scenario[] = [
    {
      as: 'admin',
      does: 'GET /api/v1/leads/count',
      gets: 404,
      has: { hint: '"count" is not an ID: IDs are 64-bit integers.' },
    },
    { as: 'admin', does: 'GET /api/v1/lead', gets: 404, has: { hint: 'Did you mean "leads"?' } },
    { as: 'admin', does: 'GET /api/v1/leads/', gets: 404, has: { hint: 'Remove the trailing slash.' } },
    ...['GET /api/v10/leads', 'GET /API/V1/LEADS'].map(
      (does): Scenario => ({
        as: 'admin',
        does,
        gets: 404,
        has: { hint: 'Did you mean "/api/v1/leads"?' },
      }),
    ),
    {
      as: 'admin',
      does: 'GET /api/v1/leads/%ff',
      gets: 404,
      has: { error: 'Lead not found in your organization' },
    },
    {
      as: 'admin',
      does: 'GET /api/v1/leads?mail=x',
      headers: { prefer: 'handling=strict' },
      gets: 400,
      has: {
        hint: 'Did you mean "email"?',
        fields: [
          {
            field: 'mail',
            message: 'mail is not a parameter of this operation. Did you mean "email"?',
            hint: 'Did you mean "email"?',
          },
        ],
      },
    },
    { as: 'admin', does: 'GET /api/v1/leads?page=x', gets: 400, has: { hint: undefined } },
    {
      as: 'nobody',
      does: 'GET /api/v1/leads',
      gets: 403,
      has: { hint: 'An administrator can add the grant leads:list.' },
    },
  ];
  scenarios(instance, () => ({ callers, values }), hints);
  scenarios(
    instance,
    () => ({ callers, values }),
    cases.map(({ code, ...scenario }) => ({ ...scenario, has: { code } })),
  );

  const problem = 'application/problem+json';
  for (const { code, as, does, with: body, headers, gets } of cases) {
    test(`${as ?? 'nobody'}: ${does} → ${gets} ${code} as problem details`, async () => {
      const request = does.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? '');
      const send = (accept: string) =>
        instance().call(request, {
          ...(as !== undefined && { key: callers[as] ?? '' }),
          ...(body !== undefined && { body }),
          headers: { ...headers, accept, 'x-request-id': 'mine' },
        });
      const [usual, answer] = [await send('application/json'), await send(problem)];
      assert.deepEqual([answer.status, answer.headers.get('content-type')], [gets, problem]);
      assert.deepEqual(
        [usual.headers.get('content-type'), usual.headers.get('vary')?.includes('accept,')],
        ['application/json; charset=utf-8', undefined],
      );
      assert.match(answer.headers.get('vary') ?? '', /\baccept\b/);
      assert.deepEqual(answer.json, {
        ...usual.json,
        type: `/docs/error-codes#${code}`,
        title: errorCodes[code].replaceAll('`', ''),
        status: gets,
        detail: usual.json.error,
        instance: 'urn:request-id:mine',
      });
    });
  }

  for (const [accept, isProblem] of [
    [`${problem}, */*`, true],
    [`${problem}, application/json`, true],
    [`text/html, APPLICATION/Problem+JSON; q=0.5`, true],
    [`application/json, ${problem}; q=0.9`, false],
    [`*/*, ${problem}; q=0.9`, false],
    [`${problem}; q=0`, false],
    ['application/problem+xml', false],
    ['application/*', false],
    ['*/*', false],
    ['', false],
  ] as const) {
    test(`Accept: ${accept} → ${isProblem ? 'problem details' : 'the default format'}`, async () => {
      const { headers, json } = await instance().call('GET /api/v1/leads', { headers: { accept } });
      assert.equal(headers.get('content-type'), isProblem ? problem : 'application/json; charset=utf-8');
      assert.equal('type' in json, isProblem);
    });
  }

  test('the page of error codes has an anchor for each code', async () => {
    const page = await instance().call('GET /docs/error-codes');
    assert.deepEqual([page.status, page.headers.get('content-type')], [200, 'text/html; charset=utf-8']);
    for (const code of Object.keys(errorCodes)) assert.ok(page.text.includes(`id="${code}"`), code);
  });

  test('a request rejected before routing receives problem details', async () => {
    for (const [request, status] of [
      [`GET /%ff HTTP/1.1\r\nHost: x`, 401],
      [`GET / HTTP/1.1\r\nHost: x\r\nExpect: wonders`, 417],
    ] as const) {
      const socket = await opened(instance().url);
      socket.send(`${request}\r\nAccept: ${problem}\r\nConnection: close\r\n\r\n`);
      await socket.ended;
      assert.match(socket.text(), new RegExp(`^HTTP/1.1 ${status} `));
      assert.match(socket.text(), /^content-type: application\/problem\+json\r$/im);
      assert.match(socket.text(), /^vary: accept\r$/im);
      assert.match(socket.text(), new RegExp(`"status":${status},"detail":`));
    }
  });

  for (const [label, request, status, code] of [
    [
      'a head that is too large',
      `GET / HTTP/1.1\r\nHost: x\r\nA: ${'x'.repeat(20_000)}\r\n\r\n`,
      431,
      'head_too_large',
    ],
    ['no HTTP', 'nonsense\r\n\r\n', 400, 'invalid_request'],
    ['no Host', 'GET / HTTP/1.1\r\nConnection: close\r\n\r\n', 400, 'invalid_request'],
    [
      'an expectation',
      'GET / HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\nX-Request-Id: mine\r\nConnection: close\r\n\r\n',
      417,
      'expectation_failed',
    ],
    ['no address', 'GET /%ff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', 401, 'unauthenticated'],
  ] as const) {
    test(`${label}: ${status} ${code}`, async () => {
      const socket = await opened(instance().url);
      socket.send(request);
      await socket.ended;
      const [head = '', body = ''] = socket.text().split('\r\n\r\n');
      const headers = new Headers(
        head
          .split('\r\n')
          .slice(1)
          .map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]),
      );
      const json = JSON.parse(body.replace(/^[0-9a-f]+\r\n|\r\n0$/g, '')) as Record<string, unknown>;
      assertErrorShape({ status, headers, text: body, json });
      assert.equal(Number(head.split(' ')[1]), status);
      assert.equal(json.code, code);
      if (label === 'an expectation') assert.equal(json.request_id, 'mine');
    });
  }

  test('the description lists every code and accepts new ones', async () => {
    const { json } = await instance().call('GET /docs/openapi.json');
    const { ErrorCode: code } = (json.components as { schemas: Record<string, Record<string, unknown>> })
      .schemas;
    assert.deepEqual(code?.['x-extensible-enum'], Object.keys(errorCodes));
    assert.equal(code?.enum, undefined);
    for (const each of Object.keys(errorCodes)) assert.match(each, /^[a-z]+(_[a-z]+)*$/);
  });

  describe('X-Request-Id', () => {
    const send = (id: string | undefined, request = 'GET /api/v1/leads') =>
      instance().call(request, {
        key: callers.admin ?? '',
        ...(id !== undefined && { headers: { 'x-request-id': id } }),
      });
    test('each request without one gets a new ID', async () => {
      const ids = [await send(undefined), await send(undefined)].map(({ headers }) =>
        headers.get('x-request-id'),
      );
      for (const id of ids) assert.match(String(id), generated);
      assert.notEqual(ids[0], ids[1]);
    });
    for (const id of ['a', '8e03978e-40d5-43dd-bc93-6894a57f9324', 'Root_1.2:3', 'x'.repeat(128)]) {
      test(`${id.slice(0, 40)} is accepted`, async () => {
        assert.equal((await send(id)).headers.get('x-request-id'), id);
        const response = await send(id, 'GET /api/v1/leads?page=x');
        assert.deepEqual([response.status, response.json.request_id], [400, id]);
      });
    }
    for (const id of ['', 'x'.repeat(129), 'two words', 'a,b', '<b>', '"x"', 'caf\u00e9', '\u00a0', "';--"]) {
      test(`${JSON.stringify(id.slice(0, 20))} is replaced`, async () =>
        assert.match(String((await send(id)).headers.get('x-request-id')), generated));
    }
    test('appears in every response and in the activity', async () => {
      for (const request of [
        'GET /docs/openapi.json',
        'GET /setup/login',
        'GET /nothing',
        'HEAD /api/v1/leads',
      ]) {
        assert.equal((await send('everywhere', request)).headers.get('x-request-id'), 'everywhere', request);
      }
      await instance().call('POST /api/v1/leads', {
        key: callers.admin ?? '',
        body: {},
        headers: { 'x-request-id': 'order-66' },
      });
      assert.equal((await activityOf(instance(), organization)).at(-1)?.requestId, 'order-66');
    });
  });
});
