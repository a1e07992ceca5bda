// Hooks that call their own instance while their transaction holds the connection of the embedded database.
import assert from 'node:assert/strict';
import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import type { ModuleCode } from '../../engine/records/index.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { until } from '../support/process.ts';

/** Status and error code of a response. */
type Outcome = readonly [status: number | undefined, code: unknown];

const codeOf = (text: string): unknown => (JSON.parse(text) as { readonly code?: unknown }).code;

const withFetch = async (url: string): Promise<Outcome> => {
  const response = await fetch(url);
  return [response.status, codeOf(await response.text())];
};

const withHttp = (url: string): Promise<Outcome> =>
  new Promise((resolve, reject) => {
    get(url, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => resolve([response.statusCode, codeOf(text)]));
    }).on('error', reject);
  });

describe('hooks that call their own instance (embedded)', { skip: !drivers.includes('embedded') }, () => {
  let instance: Instance;
  let acme: Organization;
  const outcomes: Outcome[] = [];
  const committed: Outcome[] = [];
  /** What the hook calls. */
  let calls: (() => Promise<Outcome>)[] = [];
  let late: Promise<Outcome> | undefined;
  const released = Promise.withResolvers<void>();
  const modules: readonly ModuleCode[] = [
    {
      name: 'caller',
      hooks: {
        leads: {
          beforeWrite: async ({ input }) => {
            for (const call of calls) outcomes.push(await call());
            if (input?.company === 'late')
              late = released.promise.then(() => withFetch(`${instance.url}/api/v1/leads`));
            return undefined;
          },
          afterCommit: async () => {
            committed.push(await withFetch(`${instance.url}/api/v1/leads`));
          },
        },
      },
      actions: {
        leads: {
          call: {
            description: 'Calls the instance.',
            ofCollection: true,
            run: async () => {
              const [status, code] = await withFetch(`${instance.url}/api/v1/leads`);
              return { status: Number(status), code: String(code) };
            },
          },
        },
      },
    },
  ];
  before(async () => {
    instance = await startInstance('embedded', { modules });
    acme = await instance.organization('acme');
  });
  after(() => instance.close());
  const create = (company: string) =>
    instance.call('POST /api/v1/leads', { key: acme.key, body: { company } });

  test('receive 500 immediately, under every name of the host and with every client', async () => {
    const { port } = new URL(instance.url);
    calls = [
      () => withFetch(`${instance.url}/api/v1/leads`),
      () => withFetch(`http://127.1:${port}/auth/me`),
      () => withHttp(`http://127.0.0.1:${port}/api/v1/leads/1`),
    ];
    const lines = await logged(async () => {
      assert.equal((await create('own')).status, 201);
    });
    calls = [];
    assert.deepEqual(
      outcomes,
      Array.from({ length: 3 }, () => [500, 'module_failed']),
    );
    assert.ok(lines.some((line) => JSON.stringify(line).includes('it called its own instance')));
  });

  test('also receive it in an action', async () => {
    const { json } = await instance.call('POST /api/v1/leads/actions/call', { key: acme.key, body: {} });
    assert.deepEqual(json, { status: 500, code: 'module_failed' });
  });

  test('can call other servers', async () => {
    const marks: unknown[] = [];
    const server = createServer(({ headers }, response) => {
      marks.push(headers['crm-module-call']);
      response.end('{}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    calls = [() => withFetch(`http://127.0.0.1:${port}/`)];
    outcomes.length = 0;
    assert.equal((await create('other')).status, 201);
    calls = [];
    assert.deepEqual(outcomes, [[200, undefined]]);
    assert.match(String(marks[0]), /^[\da-f-]{36}$/);
    await withFetch(`http://127.0.0.1:${port}/`);
    assert.equal(marks[1], undefined);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  test('are served after the commit, and when the hook has ended', async () => {
    assert.equal((await create('late')).status, 201);
    released.resolve();
    assert.deepEqual(await late, [401, 'unauthenticated']);
    await until(async () => committed.length > 0, 'call the hook after the commit');
    assert.deepEqual(committed[0], [401, 'unauthenticated']);
  });
});
