// Errors thrown inside the service: the caller's response and the log, in the API and the admin UI. Error
// messages can contain input, so neither includes them.
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { after, before, describe, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { HttpError, UserError } from '../../engine/errors.ts';
import { forgetDescription } from '../support/described.ts';
import { type Answer, drivers, type Instance, startInstance } from '../support/instance.ts';
import { logged } from '../support/logged.ts';

const hidden = 'what-nobody-may-read';
const failed = 'the server failed';
const database = 'The database did not respond as expected';

/** The admin UI's messages for API errors. */
const pageTexts: Readonly<Record<string, string>> = {
  [failed]: 'Something went wrong. Try again later.',
  'not found': 'Page not found.',
};

/** Values that can be thrown, keyed by name: a factory, and the response that the caller receives. */
const thrown: Readonly<Record<string, readonly [make: () => unknown, status: number, text: string]>> = {
  'an error': [() => new Error(hidden), 500, failed],
  'a type error': [() => new TypeError(hidden), 500, failed],
  'an error with a user message': [() => new UserError(hidden), 500, failed],
  'an error with several lines': [() => new Error(`a\n    at ${hidden}\n    at ${hidden}`), 500, failed],
  'an error with a later message': [() => Object.assign(new Error(hidden), { message: 'a' }), 500, failed],
  'an error with a cause': [() => new Error('a', { cause: new Error(hidden) }), 500, failed],
  'several errors': [() => new AggregateError([new Error(hidden)], hidden), 500, failed],
  'an error with a code': [() => Object.assign(new Error(hidden), { code: `E ${hidden}` }), 500, failed],
  'an error with a name': [
    () => Object.assign(new Error(hidden), { name: `${hidden} ${hidden}` }),
    500,
    failed,
  ],
  'an error with a status': [() => Object.assign(new Error(hidden), { statusCode: 404 }), 404, 'not found'],
  'an error with a success status': [
    () => Object.assign(new Error(hidden), { statusCode: 201 }),
    500,
    failed,
  ],
  'a text': [() => hidden, 500, failed],
  'an object': [() => ({ message: hidden, stack: hidden, detail: hidden }), 500, failed],
  nothing: [() => undefined, 500, failed],
  'a failure with a cause': [
    () => new HttpError(500, 'internal', 'public', {}, { cause: new Error(hidden) }),
    500,
    'public',
  ],
  'a failed message': [() => new HttpError(502, 'send_failed', 'public'), 502, 'public'],
  'a disabled endpoint': [() => new HttpError(501, 'not_configured', 'public'), 501, 'public'],
  'a lost connection': [() => Object.assign(new Error(hidden), { code: 'ECONNRESET' }), 500, database],
  'a connection closed here': [() => new Error('Client was closed and is not queryable'), 500, database],
  'a statement that was cancelled': [
    () => Object.assign(new Error(hidden), { code: '57014' }),
    503,
    'The request took too long',
  ],
  "a driver's error": [
    () => Object.assign(new Error(hidden), { code: '23505', detail: hidden, where: hidden, query: hidden }),
    500,
    database,
  ],
};

for (const driver of drivers) {
  describe(`thrown errors (${driver})`, () => {
    let instance: Instance;
    let next: unknown;
    before(async () => {
      const listen = (message: unknown) => {
        const { fastify } = message as { fastify: FastifyInstance };
        fastify.addHook('preHandler', async ({ headers }) => {
          if ('x-throw' in headers) throw next;
        });
      };
      subscribe('fastify.initialization', listen);
      instance = await startInstance(driver, { environment: { LOG_LEVEL: 'info' } });
      unsubscribe('fastify.initialization', listen);
      forgetDescription(instance.url);
    });
    after(() => instance.close());

    /**
     * Throws a value in a request, and checks that its message is never returned or logged and that it is logged once
     * if required.
     */
    async function check(value: unknown, status: number, text: string): Promise<Record<string, unknown>[]> {
      next = value;
      const all: Record<string, unknown>[] = [];
      for (const [method, path] of [
        ['POST', '/auth/login'],
        ['GET', '/setup/login'],
      ] as const) {
        const answers: Answer[] = [];
        const lines = await logged(async () => {
          const headers = { 'x-throw': 'yes' };
          answers.push(await instance.call(`${method} ${path}?${hidden}`, { headers }));
        });
        const [answer = assert.fail()] = answers;
        assert.equal(answer.status, status, answer.text);
        assert.ok(!answer.text.includes(hidden), answer.text);
        assert.ok(!JSON.stringify(lines).includes(hidden), JSON.stringify(lines));
        const isPage = path.startsWith('/setup');
        const request = isPage
          ? /\b[0-9a-f]{8}-[0-9a-z]+\b/.exec(answer.text)?.[0]
          : String(answer.json.request_id);
        if (isPage) assert.ok(answer.text.includes(`<p>${pageTexts[text] ?? text}</p>`), answer.text);
        else assert.equal(answer.json.error, text);
        // On a busy machine, background work can log warnings.
        const ofRequest = lines.filter((line) => line.request_id !== undefined);
        assert.deepEqual(
          ofRequest.map((line) => [line.level, line.status, line.route, line.request_id]),
          // A disabled endpoint and an overloaded server are expected.
          status < 500 || [501, 503].includes(status) ? [] : [[50, status, path, request]],
        );
        all.push(...ofRequest);
      }
      return all;
    }

    for (const [name, [make, status, text]] of Object.entries(thrown)) {
      test(`${name} → ${status}`, async () => void (await check(make(), status, text)));
    }

    test('logs the stack frames of the throwing code', async () => {
      const [line = assert.fail()] = await check(new Error(hidden), 500, failed);
      assert.match(String([line.stack].flat()[0]), /thrown\.test\.ts:\d+/);
    });

    const statements = {
      'a text that is not a number': [`select '${hidden}'::int`, '22P02'],
      'a missing table': [`select * from "${hidden}"`, '42P01'],
      'a duplicate value': [
        `insert into crm_organizations (slug, name) values ('${hidden}', 'a'), ('${hidden}', 'b')`,
        '23505',
      ],
      'invalid SQL': [`select ${hidden}`, undefined],
    } as const;
    for (const [name, [text, state]] of Object.entries(statements)) {
      test(`a database error: ${name}`, async () => {
        const error: unknown = await instance.database.run({ name: '', text, values: [] }).then(
          () => assert.fail('it ran'),
          (cause: unknown) => cause,
        );
        const [line] = await check(error, 500, database);
        if (state !== undefined) assert.equal(line?.sqlstate, state);
        assert.match(String(line?.sqlstate), /^[0-9A-Z]{5}$/);
      });
    }
  });
}
