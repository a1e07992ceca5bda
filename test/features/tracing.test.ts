// Traces: requests and their statements, as received by an OpenTelemetry collector, and nothing without a collector.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import fastify from 'fastify';
import { readConfig } from '../../app/config.ts';
import { tracingModule } from '../../plugins/operations/tracing/index.ts';
import { traceRequests } from '../../plugins/operations/tracing/spans.ts';
import { tracingVariables } from '../../plugins/operations/tracing/variables.ts';
import { administratorOf } from '../support/forms.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { type Collector, startCollector } from '../support/otlp.ts';
import { logIn } from '../support/people.ts';
import { apart, crm, until } from '../support/process.ts';

const parent = '4bf92f3577b34da6a3ce929d0e0e4736';

for (const driver of drivers) {
  describe(`traces (${driver})`, () => {
    let collector: Collector;
    let instance: Instance;
    let acme: Organization;
    before(async () => {
      collector = await startCollector();
      instance = await startInstance(driver, {
        environment: {
          OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
          OTEL_SERVICE_NAME: 'crm-of-tests',
          OTEL_BSP_SCHEDULE_DELAY: '20',
          LOG_LEVEL: 'warn',
        },
      });
      acme = await instance.organization('acme');
    });
    after(async () => {
      await instance.close();
      await collector.close();
    });

    /**
     * Returns the spans for the request with this ID: the request's span first, then its statements' spans.
     */
    const spansOf = async (id: string) => {
      const own = () => collector.spans.find(({ attributes }) => attributes['crm.request_id'] === id);
      await until(() => own() !== undefined, 'be sent');
      const span = own() ?? assert.fail();
      return { span, statements: collector.spans.filter((each) => each.parent === span.id) };
    };

    test('a request has a route, status, organization and caller ID, and its statements are its children', async () => {
      const headers = { 'x-request-id': 'first' };
      await instance.call('GET /api/v1/leads?x=what-was-sent', { key: acme.key, headers });
      const { span, statements } = await spansOf('first');
      assert.deepEqual([span.name, span.kind, span.status, span.parent], ['GET /api/v1/leads', 2, 0, '']);
      const { 'crm.key.id': key, 'crm.statement_ms': ms, ...rest } = span.attributes;
      assert.deepEqual(rest, {
        'http.request.method': 'GET',
        'http.route': '/api/v1/leads',
        'http.response.status_code': 200,
        'crm.request_id': 'first',
        'crm.organization.id': acme.id,
        'crm.lane': 'list',
      });
      assert.match(String(key), /^\d+$/);
      assert.ok(Number(ms) > 0);
      const { 'service.name': service, 'service.version': version, 'process.pid': pid } = span.resource;
      assert.deepEqual([service, Number(pid)], ['crm-of-tests', process.pid]);
      assert.match(String(version), /^\d+\.\d+\.\d+/);
      assert.equal(statements.length, 1);
      const [statement = assert.fail()] = statements;
      assert.deepEqual(
        [statement.kind, statement.trace, statement.attributes['crm.lane']],
        [3, span.trace, 'list'],
      );
      assert.match(statement.name, /^leads/);
      assert.deepEqual(statement.attributes, {
        ...{ 'db.system.name': 'postgresql', 'crm.statement': statement.name, 'crm.lane': 'list' },
      });
      // The two spans read the clock in different ways, so their times can differ slightly.
      const early = 1_000_000_000n;
      assert.ok(statement.start + early >= span.start && statement.end <= span.end + early);
      assert.ok(!JSON.stringify([span.attributes, statement.attributes]).includes('what-was-sent'));
    });

    test("continues the caller's trace, and ignores a malformed one", async () => {
      const call = (id: string, traceparent: string) =>
        instance.call('GET /api/v1/leads/1', {
          key: acme.key,
          headers: { 'x-request-id': id, traceparent },
        });
      await call('continued', `00-${parent}-00f067aa0ba902b7-01`);
      const { span } = await spansOf('continued');
      assert.deepEqual([span.trace, span.parent], [parent, '00f067aa0ba902b7']);
      assert.equal((await call('malformed', `00-${'0'.repeat(32)}-nothing-01`)).status, 404);
      assert.equal((await spansOf('malformed')).span.parent, '');
      await call('unwanted', `00-${parent}-00f067aa0ba902b7-00`);
      await call('after', `00-${parent}-00f067aa0ba902b7-01`);
      await spansOf('after');
      const ids = collector.spans.map(({ attributes }) => attributes['crm.request_id']);
      assert.ok(!ids.includes('unwanted'), 'the caller does not sample it');
    });

    test('traces unauthenticated requests and unknown paths without their URL', async () => {
      const headers = { 'x-request-id': 'stranger' };
      await instance.call('GET /no/such/path', { headers });
      const { span, statements } = await spansOf('stranger');
      assert.deepEqual(
        [span.name, span.attributes['http.response.status_code'], span.status],
        ['GET', 404, 0],
      );
      assert.deepEqual(statements, []);
      assert.ok(!JSON.stringify(span.attributes).includes('such'));
    });

    test("marks a server error, and contains the user's ID instead of a key's", async () => {
      const { byToken } = await logIn(instance, administratorOf(acme));
      const rename = (from: string, to: string) =>
        instance.database.run({ name: '', text: `alter table ${from} rename to ${to}`, values: [] });
      await rename('cases', 'renamed_cases');
      const headers = { 'x-request-id': 'broken', ...byToken };
      const { status } = await instance
        .call('GET /api/v1/cases', { headers })
        .finally(() => rename('renamed_cases', 'cases'));
      const { span } = await spansOf('broken');
      assert.deepEqual([span.attributes['http.response.status_code'], span.status], [status, 2]);
      assert.ok(status >= 500, String(status));
      assert.deepEqual(
        [String(span.attributes['crm.user.id']), 'crm.key.id' in span.attributes],
        [acme.user, false],
      );
    });

    test('sends protocol buffers to /v1/traces', () => {
      const [{ path, headers } = assert.fail()] = collector.requests;
      assert.deepEqual([path, headers['content-type']], ['/v1/traces', 'application/x-protobuf']);
    });

    test('a failing collector does not affect requests and is logged once', async () => {
      collector.respond(400);
      const requestCount = collector.requests.length;
      // On a busy machine, background work can log warnings.
      const aboutTraces = (lines: readonly Record<string, unknown>[]) =>
        lines.filter(({ msg }) => /traces/.test(String(msg)));
      const lines = await logged(async (soFar) => {
        for (let count = 0; count < 3; count++) {
          assert.equal((await instance.call('GET /api/v1/leads', { key: acme.key })).status, 200);
          await until(() => collector.requests.length > requestCount + count, 'try to send');
        }
        collector.respond(200);
        await instance.call('GET /api/v1/leads', { key: acme.key, headers: { 'x-request-id': 'again' } });
        await spansOf('again');
        await until(() => collector.requests.length > requestCount + 3, 'send');
        await until(() => aboutTraces(soFar()).length >= 2, 'log both');
      });
      assert.deepEqual(
        aboutTraces(lines).map(({ msg, code }) => [msg, code]),
        [
          ['traces cannot be sent; pending traces are lost', 400],
          ['traces are being sent again', undefined],
        ],
      );
    });
  });
}

/** Returns an app that sends its traces to a collector. */
const tracedApp = (environment: Readonly<Record<string, string>>) => {
  const app = fastify({ requestIdHeader: 'x-request-id' });
  app.decorateRequest('principal', null);
  traceRequests(app, readConfig(environment), '1');
  return app;
};

describe('samplers', () => {
  let collector: Collector;
  before(async () => {
    collector = await startCollector();
  });
  after(() => collector.close());
  const all = ['root', 'sampled', 'unsampled'];
  for (const [sampler, ratio, traced] of [
    ['always_on', '0', all],
    ['always_off', '1', []],
    ['traceidratio', '1', all],
    ['traceidratio', '0.0', []],
    ['parentbased_always_on', '0', ['root', 'sampled']],
    ['parentbased_always_off', '1', ['sampled']],
    ['parentbased_traceidratio', '1.0', ['root', 'sampled']],
    ['parentbased_traceidratio', '.0', ['sampled']],
  ] as const)
    test(`${sampler}, ${ratio}`, async () => {
      const app = tracedApp({
        OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
        OTEL_TRACES_SAMPLER: sampler,
        OTEL_TRACES_SAMPLER_ARG: ratio,
      });
      app.get('/', async () => '');
      const from = collector.spans.length;
      for (const [id, flags] of [
        ['root', undefined],
        ['sampled', '01'],
        ['unsampled', '00'],
      ] as const) {
        const traceparent = flags && { traceparent: `00-${parent}-00f067aa0ba902b7-${flags}` };
        await app.inject({ url: '/', headers: { 'x-request-id': id, ...traceparent } });
      }
      // The last traces are sent before the app is closed.
      await app.close();
      const ids = collector.spans.slice(from).map(({ attributes }) => attributes['crm.request_id']);
      assert.deepEqual(ids, traced);
      assert.ok(collector.requests.every(({ path }) => path === '/v1/traces'));
    });

  test('accept ratios between 0 and 1', () => {
    const ratioOf = (text: string) => readConfig({ OTEL_TRACES_SAMPLER_ARG: text }).otelSamplerRatio;
    assert.deepEqual(['0', '1', '0.25', '.5', '1.0'].map(ratioOf), [0, 1, 0.25, 0.5, 1]);
    for (const text of ['1.1', '2', '-0.1', '0.5x', '1e-1', '.'])
      assert.throws(() => ratioOf(text), /^UserError: OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1/);
  });
});

test('a request whose client disconnects has an error without a status, and is sent to the URL for traces', async () => {
  const collector = await startCollector();
  const app = tracedApp({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/own`,
  });
  app.get('/slow', ({ raw }) => once(raw.socket, 'close'));
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as { port: number };
  const socket = connect(port, '127.0.0.1');
  const received = once(app.server, 'request');
  socket.write('GET /slow HTTP/1.1\r\nHost: crm\r\n\r\n');
  const [{ socket: serverSocket }] = (await received) as [{ socket: typeof socket }];
  const closed = once(serverSocket, 'close');
  socket.destroy();
  await closed;
  await app.close();
  assert.deepEqual(
    collector.spans.map(({ name, status, attributes }) => [
      name,
      status,
      attributes['http.response.status_code'],
    ]),
    [['GET /slow', 2, undefined]],
  );
  assert.deepEqual(
    collector.requests.map(({ path }) => path),
    ['/own'],
  );
  await collector.close();
});

test('an endpoint or the exporter enables tracing, unless it is disabled', async () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' };
  for (const [environment, isEnabled] of [
    [{}, false],
    [endpoint, true],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:1/own' }, true],
    [{ OTEL_TRACES_EXPORTER: 'otlp' }, true],
    [{ ...endpoint, OTEL_TRACES_EXPORTER: 'none' }, false],
    [{ ...endpoint, OTEL_SDK_DISABLED: 'true' }, false],
    [{ OTEL_TRACES_EXPORTER: 'otlp', OTEL_SDK_DISABLED: 'true' }, false],
  ] as const) {
    const app = fastify();
    await tracingModule.register?.(app, { config: readConfig(environment), versions: { version: '1' } });
    assert.equal(app.tracesStatements === true, isEnabled, JSON.stringify(environment));
    await app.close();
  }
});

test('credentials in the URL of the collector are hidden', () => {
  const { otlpEndpoint, otlpTracesEndpoint } = tracingVariables;
  for (const { show } of [otlpEndpoint, otlpTracesEndpoint]) {
    assert.equal(show?.('https://crm:secret@collector:4318/v1'), 'https://…@collector:4318/v1');
    assert.equal(show?.('https://crm:a@b@collector:4318/v1'), 'https://…@collector:4318/v1');
    assert.equal(show?.('https:crm:secret@collector/v1'), 'https://…@collector/v1');
    // A valid URL, whose host is "crm", with a password that contains a slash.
    assert.equal(show?.('https://crm:12/secret@collector/v1'), 'https://…@collector/v1');
    // A path could be the end of a password.
    assert.equal(show?.('http://collector:4318/a@b'), 'http://…@b');
    assert.equal(show?.('http://collector:4318/v1'), 'http://collector:4318/v1');
    assert.equal(show?.(undefined), 'not set');
  }
});

test('reports each invalid setting in one line', () => {
  const environment = {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_TRACES_SAMPLER: 'jaeger_remote',
    OTEL_TRACES_SAMPLER_ARG: '7',
  };
  assert.throws(
    () => readConfig(environment),
    ({ message }: Error) => {
      assert.deepEqual(
        message.split('\n').map((line) => line.split(' must be ')[0]),
        Object.keys(environment),
      );
      return true;
    },
  );
});

test('does not load the libraries unless tracing is used', async () => {
  const script = `
    const { registerHooks } = await import('node:module');
    const loaded = [];
    registerHooks({ resolve: (name, context, next) => { loaded.push(name); return next(name, context); } });
    const { buildService: build } = await import('./app/serve/build.ts');
    const { operationsModule } = await import('./plugins/operations/monitoring/index.ts');
    const { tracingModule } = await import('./plugins/operations/tracing/index.ts');
    const { readConfig } = await import('./app/config.ts');
    for (const environment of [{}, { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a', OTEL_SDK_DISABLED: 'true' }, { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a', OTEL_TRACES_EXPORTER: 'none' }])
      for (const each of [operationsModule, tracingModule]) await each.register(undefined, { config: readConfig(environment) });
    const found = loaded.filter((name) => /^@(?:opentelemetry|prometheus-io)/.test(name));
    process.stdout.write(JSON.stringify({ found, all: loaded.length, built: typeof build }));`;
  const { stdout, stderr } = await crm([], {}, { ...apart, program: ['--input-type=module', '-e', script] });
  const { found, all, built } = JSON.parse(stdout || '{}') as { found: string[]; all: number; built: string };
  assert.deepEqual([found, built, stderr], [[], 'function', '']);
  assert.ok(all > 100);
});
