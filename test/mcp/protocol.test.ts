// The endpoint of the Model Context Protocol: both revisions of the protocol, credentials and requests that it rejects.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { tablesOf } from '../../engine/tables/index.ts';
import { configured, sendMessage } from '../support/agents.ts';
import { administratorOf, signIn } from '../support/forms.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { logIn, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';

const settings = 'mcp: true\n';
const environment = configured('protocol', settings);

onBothDrivers(
  'The endpoint for agents',
  (instance) => {
    let acme: Organization;
    // The instance on the other driver starts with the same file.
    after(() => writeFileSync(environment.CRM_CONFIG, settings));
    before(async () => {
      acme = await instance().organization('acme');
    });
    const message = (content: object, headers = {}) => sendMessage(instance(), acme.key, content, headers);
    const errorOf = (answer: { readonly json: Readonly<Record<string, unknown>> }) =>
      answer.json.error as { readonly code: number; readonly message: string };

    for (const [revision, mode] of [
      ['2026-07-28', { pin: '2026-07-28' }],
      ['2025-11-25', 'legacy'],
    ] as const) {
      test(`a client of the revision ${revision} lists and calls tools`, async () => {
        const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } });
        const transport = new StreamableHTTPClientTransport(new URL('/mcp', instance().url), {
          requestInit: { headers: { authorization: `Bearer ${acme.key}` } },
        });
        await client.connect(transport);
        try {
          assert.equal(client.getNegotiatedProtocolVersion(), revision);
          const { tools } = await client.listTools();
          assert.deepEqual(
            tools.map(({ name }) => name),
            [
              'describe',
              'find',
              'get',
              'aggregate',
              'create',
              'update',
              'delete',
              'restore',
              'history',
              'act',
            ],
          );
          const values = { last_name: `Agent ${revision}` };
          const created = await client.callTool({ name: 'create', arguments: { resource: 'leads', values } });
          assert.equal(created.isError, undefined, JSON.stringify(created.content));
          const where = { field: 'last_name', op: 'in', value: [values.last_name] };
          const found = await client.callTool({ name: 'find', arguments: { resource: 'leads', where } });
          const { records } = found.structuredContent as {
            readonly records: readonly { last_name: string }[];
          };
          assert.deepEqual(
            records.map(({ last_name }) => last_name),
            [values.last_name],
          );
        } finally {
          await client.close();
        }
      });
    }

    test('tools that only read say so, and no others, and every parameter has single types', async () => {
      const { json } = await message({ method: 'tools/list' });
      const { tools } = json.result as {
        readonly tools: readonly {
          name: string;
          annotations?: { readOnlyHint?: boolean };
          inputSchema: {
            required: readonly string[];
            properties: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
          };
        }[];
      };
      assert.deepEqual(
        tools.filter(({ annotations }) => annotations?.readOnlyHint === true).map(({ name }) => name),
        ['describe', 'find', 'get', 'aggregate', 'history'],
      );
      // Some clients cannot convert lists of types.
      const schemaOf = (tool: string) =>
        tools.find(({ name }) => name === tool)?.inputSchema ?? assert.fail(tool);
      assert.deepEqual(schemaOf('get').required, ['resource', 'id']);
      assert.deepEqual(schemaOf('get').properties, {
        resource: { type: 'string' },
        id: { anyOf: [{ type: 'integer' }, { type: 'string' }] },
        fields: {
          description: 'Fields to return',
          anyOf: [{ type: 'array', items: { type: 'string' } }, { type: 'string' }],
        },
      });
      const { type, items } = schemaOf('update').properties.ids ?? {};
      assert.deepEqual([type, items], ['array', { anyOf: [{ type: 'integer' }, { type: 'string' }] }]);
      const { minimum, maximum, default: usual } = schemaOf('find').properties.limit ?? {};
      assert.deepEqual([minimum, maximum, usual], [1, 100, 25]);
    });

    test('lists that depend on the caller are cached only for the caller', async () => {
      const scopeOf = async (method: string) => {
        const version = '2026-07-28';
        const answer = await message(
          {
            method,
            params: {
              _meta: {
                'io.modelcontextprotocol/protocolVersion': version,
                'io.modelcontextprotocol/clientCapabilities': {},
                'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
              },
            },
          },
          { 'mcp-protocol-version': version, 'mcp-method': method },
        );
        assert.equal(answer.status, 200, answer.text);
        return (answer.json.result as { readonly cacheScope: string }).cacheScope;
      };
      assert.equal(await scopeOf('resources/list'), 'private');
      for (const method of ['tools/list', 'prompts/list', 'resources/templates/list'])
        assert.equal(await scopeOf(method), 'public', method);
    });

    test('the list of tools is short', async () => {
      const { text } = await message({ method: 'tools/list' });
      assert.ok(text.length / 4 < 3000, `${text.length} characters`);
    });

    test('requests work without initialization, sessions or streams', async () => {
      const list = await message({ method: 'tools/list' });
      assert.equal(list.status, 200);
      assert.equal(list.headers.get('content-type'), 'application/json; charset=utf-8');
      assert.equal(list.headers.get('mcp-session-id'), null);
      assert.equal(list.headers.get('cache-control'), 'no-store');
      const ping = await message({ method: 'ping' });
      assert.deepEqual(ping.json.result, {});
    });

    test('notifications get 202, and other methods than POST 405', async () => {
      const notification = await instance().call('POST /mcp', {
        key: acme.key,
        body: { jsonrpc: '2.0', method: 'notifications/initialized' },
      });
      assert.deepEqual([notification.status, notification.text], [202, '']);
      for (const method of ['GET', 'DELETE', 'PUT']) {
        const answer = await instance().call(`${method} /mcp`, { key: acme.key });
        assert.deepEqual([answer.status, answer.headers.get('allow')], [405, 'POST, OPTIONS']);
      }
    });

    test('malformed messages get errors of the protocol', async () => {
      const send = (body: string, headers = {}) =>
        instance().call('POST /mcp', {
          key: acme.key,
          body,
          headers: { 'content-type': 'application/json', ...headers },
        });
      for (const body of ['{', '[]', '"x"', '']) {
        const answer = await send(body);
        assert.deepEqual([answer.status, errorOf(answer).code], [400, -32700], body);
      }
      const version = await message({ method: 'tools/list' }, { 'mcp-protocol-version': '1999-01-01' });
      assert.equal(version.status, 400);
      assert.equal(typeof errorOf(version).code, 'number');
      assert.equal(errorOf(await message({ method: 'unknown/method' })).code, -32601);
      const tool = await message({ method: 'tools/call', params: { name: 'nothing', arguments: {} } });
      assert.match(errorOf(tool).message, /Unknown tool "nothing"\. Tools: describe, find/);
      const large = await send(JSON.stringify({ x: 'x'.repeat(1024 * 1024) }));
      assert.equal(large.status, 413);
    });

    test('clients cannot subscribe, because lists never change', async () => {
      const answer = await message(
        {
          method: 'subscriptions/listen',
          params: {
            notifications: { toolsListChanged: true },
            _meta: {
              'io.modelcontextprotocol/protocolVersion': '2026-07-28',
              'io.modelcontextprotocol/clientCapabilities': {},
              'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
            },
          },
        },
        { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' },
      );
      assert.equal(answer.status, 404);
      assert.deepEqual(answer.json, {
        jsonrpc: '2.0',
        id: 1,
        error: { code: -32601, message: 'Method not found' },
      });
    });

    test('only API keys are accepted', async () => {
      const person = await makePerson(instance(), [{ organization: acme }]);
      const { byToken, byCookie } = await logIn(instance(), person);
      const body = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
      const rejected = [{}, byToken, byCookie, { authorization: 'Bearer crm_wrong' }];
      for (const headers of rejected) {
        const answer = await instance().call('POST /mcp', { body, headers });
        assert.equal(answer.status, 401);
      }
    });

    test('pages of other origins are rejected', async () => {
      const other = await message({ method: 'ping' }, { origin: 'https://evil.example' });
      assert.equal(other.status, 403);
      const own = await message({ method: 'ping' }, { origin: instance().url });
      assert.equal(own.status, 200);
      // The owner of a name can let it refer to the machine of the instance.
      const host = `evil.example:${new URL(instance().url).port}`;
      const rebound = await message({ method: 'ping' }, { host, origin: `http://${host}` });
      assert.equal(rebound.status, 403);
    });

    test('pages of public_url are accepted, and no others', async () => {
      const statusOf = async (origin: string) => (await message({ method: 'ping' }, { origin })).status;
      writeFileSync(environment.CRM_CONFIG, `${settings}public_url: https://crm.example\n`);
      await until(async () => (await statusOf('https://crm.example')) === 200, 'apply the URL');
      for (const origin of [instance().url, 'http://crm.example', 'https://crm.example.evil.example'])
        assert.equal(await statusOf(origin), 403, origin);
      writeFileSync(environment.CRM_CONFIG, settings);
      await until(async () => (await statusOf(instance().url)) === 200, 'apply the URL');
    });

    test('the endpoint and the pages about agents do not exist unless it is enabled', async () => {
      const admin = await signIn(instance(), administratorOf(acme));
      const { key } = await acme.makeKey({ access: 'propose' });
      const params = { name: 'create', arguments: { resource: 'leads', values: { last_name: 'Proposed' } } };
      const proposed = await sendMessage(instance(), key, { method: 'tools/call', params });
      assert.match(proposed.text, /"status":"pending"/);
      const showsProposal = async () => (await admin.get('/setup/o/acme')).text.includes('Proposed');
      assert.ok(await showsProposal());
      const areListed = async () => {
        const { text } = await admin.get('/setup/o/acme');
        return ['agents', 'proposals'].map((page) => text.includes(`href="/setup/o/acme/${page}"`));
      };
      assert.deepEqual(await areListed(), [true, true]);
      writeFileSync(environment.CRM_CONFIG, 'mcp: false\n');
      await until(async () => (await message({ method: 'ping' })).status === 404, 'disabled endpoint');
      for (const method of ['POST', 'GET', 'DELETE', 'OPTIONS']) {
        const answer = await instance().call(`${method} /mcp`, { key: acme.key });
        const unknown = await instance().call(`${method} /unknown`, { key: acme.key });
        assert.deepEqual([answer.status, answer.json.error], [404, unknown.json.error]);
      }
      assert.deepEqual(await areListed(), [false, false]);
      assert.ok(!(await showsProposal()));
      writeFileSync(environment.CRM_CONFIG, 'mcp: true\nread_only: true\n');
      await until(async () => (await message({ method: 'ping' })).status === 200, 'enabled endpoint');
    });

    test('in read-only mode, tools read but do not write', async () => {
      const call = async (name: string, input: object) => {
        const answer = await message({ method: 'tools/call', params: { name, arguments: input } });
        return answer.json.result as {
          readonly isError?: boolean;
          readonly structuredContent: { code?: string };
        };
      };
      const stored = () =>
        tablesOf(instance().database)
          .selectFrom('crm_agent_calls')
          .select('id')
          .where('organization_id', '=', acme.id)
          .execute();
      const before = await stored();
      const find = await call('find', { resource: 'leads' });
      assert.equal(find.isError, undefined);
      for (const dry_run of [false, true]) {
        const create = await call('create', { resource: 'leads', values: {}, dry_run });
        assert.equal(create.structuredContent.code, 'read_only');
      }
      assert.deepEqual(await stored(), before, 'calls are not stored');
    });
  },
  { environment },
);
