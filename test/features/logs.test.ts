// Log entries for requests, slow statements, rejected logins and settings, none of which ever contains a
// secret.
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { buildService } from '../../app/serve/build.ts';
import { formatLogLine } from '../../engine/http/log.ts';
import { backgroundWork } from '../../engine/modules/index.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import {
  drivers,
  type Instance,
  type Organization,
  startInstance,
  temporaryFolder,
} from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { logIn, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { secretsIn } from '../support/secrets.ts';

const secrets = [
  'a-password-typed-by-ada',
  'the-secret-of-inbound',
  'what-a-record-holds',
  'typed-as-address',
];

for (const driver of drivers) {
  describe(`the log (${driver})`, () => {
    let instance: Instance;
    let acme: Organization;
    const folder = temporaryFolder();
    const file = join(folder.path, 'config.yaml');
    before(async () => {
      writeFileSync(file, '# defaults\n');
      instance = await startInstance(driver, {
        environment: {
          CRM_CONFIG: file,
          LOG_LEVEL: 'warn',
          LOG_REQUESTS: 'true',
          LOG_SLOW_MS: '1000',
          LOG_FORMAT: 'json',
          INBOUND_SECRET: 'the-secret-of-inbound',
        },
      });
      acme = await instance.organization('acme');
    });
    after(async () => {
      await instance.close();
      folder.remove();
    });

    /** Returns the log lines for a request, after asserting that they do not contain secrets. */
    const linesOf = async (request: string, call: Parameters<Instance['call']>[1] = {}) => {
      const all = await logged(async (lines) => {
        await instance.call(request, call);
        // The response is logged after it is sent.
        await until(() => lines().some(({ msg }) => msg === 'request'), 'log the request');
      });
      // On a busy machine, any statement can be slow, and background work can log warnings.
      const lines = all.filter(
        ({ msg, request_id: id }) =>
          id !== undefined && (instance.app.slowMs === 0 || msg !== 'slow statement'),
      );
      const text = JSON.stringify(all);
      for (const secret of [...secrets, acme.key]) assert.ok(!text.includes(secret), `${secret} in ${text}`);
      return lines;
    };
    test('logs one line per request with the route, caller and duration, without any input', async () => {
      const lines = await linesOf('POST /api/v1/leads?x=what-a-record-holds', {
        key: acme.key,
        body: { last_name: 'what-a-record-holds' },
        headers: { 'x-request-id': 'my-request' },
      });
      assert.equal(lines.length, 1);
      const { time, pid, hostname, key: id, duration_ms, statement_ms, ...rest } = lines[0] ?? {};
      assert.deepEqual(rest, {
        level: 30,
        msg: 'request',
        request_id: 'my-request',
        method: 'POST',
        route: '/api/v1/leads',
        organization: acme.id,
        status: 201,
        lane: 'write',
      });
      assert.match(String(id), /^\d+$/);
      assert.ok(Number(statement_ms) > 0 && Number(statement_ms) <= Number(duration_ms), `${statement_ms}`);
      assert.ok(time && pid && hostname);
    });

    for (const [request, call, expected] of [
      ['GET /api/v1/leads', { key: true }, { route: '/api/v1/leads', status: 200, lane: 'list' }],
      [
        'GET /api/v1/leads/1?q=what-a-record-holds',
        { key: true },
        { route: '/api/v1/leads/:id', lane: 'read' },
      ],
      ['GET /api/v1/leads', {}, { route: '/api/v1/leads', status: 401 }],
      ['GET /what-a-record-holds', {}, { route: null, status: 404 }],
      ['PROPFIND /api/v1/leads', {}, { method: 'PROPFIND', route: '/api/v1/leads', status: 405 }],
      [
        'POST /webhooks/inbound-leads',
        { headers: { 'x-inbound-secret': 'the-secret-of-inbound' }, body: { email: 'typed-as-address' } },
        { route: '/webhooks/inbound-leads', status: 201 },
      ],
    ] as const) {
      test(`${request} ${JSON.stringify(expected)}`, async () => {
        const { key: isKey, ...rest } = { key: false, ...call };
        const lines = await linesOf(request, { ...rest, ...(isKey && { key: acme.key }) });
        const requests = lines.filter(({ msg }) => msg === 'request');
        assert.equal(requests.length, 1);
        for (const [name, value] of Object.entries(expected)) assert.equal(requests[0]?.[name], value, name);
      });
    }

    test('logs the ID of a user who sends a request', async () => {
      const person = await makePerson(instance, [{ organization: acme }]);
      const { byToken } = await logIn(instance, person);
      const [line] = await linesOf('GET /api/v1/leads', { headers: byToken });
      assert.deepEqual([line?.organization, line?.user, line?.key], [acme.id, person.id, undefined]);
    });

    test('logs the caller of a request that its grants do not allow', async () => {
      const key = await acme.keyWith([]);
      const [line] = await linesOf('GET /api/v1/leads', { key });
      assert.deepEqual([line?.status, line?.organization, typeof line?.key], [403, acme.id, 'string']);
    });

    test('logs rejected logins without email address and password, because users mix them up', async () => {
      const body = { email: 'typed-as-address', password: 'a-password-typed-by-ada' };
      const [rejection, request] = await linesOf('POST /auth/login', { body });
      assert.deepEqual(
        [rejection?.level, rejection?.msg, rejection?.address, rejection?.code],
        [40, 'login rejected', '127.0.0.1', 'unauthenticated'],
      );
      assert.deepEqual(rejection?.users, []);
      assert.equal(rejection?.request_id, request?.request_id);
    });

    test("logs the user ID if a rejected login has a user's email address", async () => {
      const body = { email: 'admin@acme.example', password: 'a-password-typed-by-ada' };
      const [rejection] = await linesOf('POST /auth/login', { body });
      assert.deepEqual(
        [rejection?.msg, rejection?.users, rejection?.address],
        ['login rejected', [acme.user], '127.0.0.1'],
      );
      assert.doesNotMatch(JSON.stringify(rejection), /admin@acme/);
    });

    test('logs slow statements', async () => {
      const { slowMs } = instance.app;
      instance.app.slowMs = 0;
      try {
        for (const [request, body, expected] of [
          ['GET /api/v1/leads', undefined, { route: '/api/v1/leads', lane: 'list' }],
          // The database rejects the reference.
          ['POST /api/v1/contacts', { account_id: 987_654_321 }, { route: '/api/v1/contacts' }],
        ] as const) {
          const lines = await linesOf(request, { key: acme.key, body });
          const slow = lines.find(({ msg }) => msg === 'slow statement');
          assert.deepEqual([slow?.level, slow?.organization], [40, acme.id]);
          for (const [name, value] of Object.entries(expected)) assert.equal(slow?.[name], value, name);
        }
      } finally {
        instance.app.slowMs = slowMs;
      }
      assert.equal(slowMs, 1000);
    });

    test('one process logs probable errors in the settings, also after it takes over', async () => {
      const other = join(folder.path, 'other.yaml');
      writeFileSync(other, 'messaging: { acmee: { sender: log } }\n');
      const background = backgroundWork(() => {});
      let app: FastifyInstance | undefined;
      const notes = (lines: readonly Record<string, unknown>[]) =>
        lines.filter(({ msg }) => /organization "acmee" does not exist/.test(String(msg))).length;
      const before = await logged(async () => {
        app = await buildService(
          {
            ...instance,
            secrets: instanceSecrets(instance.config),
            config: { ...instance.config, settingsFile: other },
          },
          background,
        );
        await app.ready();
      });
      assert.equal(notes(before), 0);
      const after = await logged(async (lines) => {
        background.start();
        await until(() => notes(lines()) > 0, 'log it');
        await new Promise((resolve) => setTimeout(resolve, 50));
      });
      assert.equal(notes(after), 1);
      await app?.close();
    });

    test('logs rejected changes to the settings and unknown organizations', async () => {
      const lines = await logged(async (soFar) => {
        writeFileSync(file, 'messaging: { acmee: { sender: log } }\n');
        await until(() => soFar().some(({ msg }) => /"acmee" does not exist/.test(String(msg))), 'log it');
        writeFileSync(file, 'partners: { inbound_leads: { secrets: [the-secret-of-inbound, 7] } }\n');
        await until(() => instance.app.settingsProblem() !== undefined, 'reject the change');
        rmSync(file);
      });
      const texts = lines.map(({ msg }) => String(msg));
      assert.ok(
        texts.some((text) => /organization "acmee" does not exist\. Did you mean "acme"\?$/.test(text)),
      );
      assert.ok(texts.some((text) => /^rejected a change to the settings.*item 2 of secrets/.test(text)));
      assert.doesNotMatch(texts.join(), /the-secret-of-inbound/);
    });
  });
}

test('the secret scan over all logs finds keys, tokens, cookies and passwords', () => {
  const key = `crm_${'a1'.repeat(5)}_${'Bc3'.repeat(16)}`;
  for (const text of [
    key,
    `{"level":30,"authorization":"Bearer ${'x'.repeat(40)}"}`,
    'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmVk',
    'set-cookie: crm_session=abc',
    'postgres://crm:hidden@127.0.0.1/crm',
    'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    'telegram-secret-7',
    'typed: correct horse battery staple',
  ]) {
    assert.equal(secretsIn(text).length, 1, text);
  }
  assert.deepEqual(secretsIn('DATABASE_URL must be postgres://user:password@host:5432/name'), []);
  assert.deepEqual(secretsIn('{"level":30,"route":"/api/v1/leads/:id","key":"7","lane":"read"}'), []);
});

test('formats lines for people on a terminal', () => {
  const entry = {
    level: 40,
    time: Date.UTC(2026, 0, 2, 3, 4, 5, 6),
    pid: 1,
    hostname: 'vm',
    request_id: 'r-1',
    route: null,
    stack: ['a', 'b'],
    msg: 'the server failed',
  };
  assert.equal(
    formatLogLine(JSON.stringify(entry)),
    '03:04:05.006 WARN  the server failed request_id=r-1 stack=["a","b"]\n',
  );
});
