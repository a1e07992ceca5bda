// `crm mcp` connects clients that start programs: with a real client, and with messages on standard input.
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { forwardMessages } from '../../app/commands/mcp-command.ts';
import { configured } from '../support/agents.ts';
import { inherited } from '../support/command-process.ts';
import { type Instance, type Organization, startInstance } from '../support/instance.ts';
import { assertRefused, commandLine, crm, project } from '../support/process.ts';

let instance: Instance;
let acme: Organization;
before(async () => {
  instance = await startInstance('embedded', { environment: configured('bridge', 'mcp: true\n') });
  acme = await instance.organization('acme');
});
after(() => instance.close());

for (const [revision, mode] of [
  ['2026-07-28', { pin: '2026-07-28' }],
  ['2025-11-25', 'legacy'],
] as const) {
  test(`a client of the revision ${revision} calls tools through crm mcp`, async () => {
    const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } });
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [...commandLine, 'mcp', '--url', instance.url],
      cwd: project,
      env: { ...inherited(), CRM_API_KEY: acme.key },
    });
    await client.connect(transport);
    try {
      assert.equal(client.getNegotiatedProtocolVersion(), revision);
      assert.equal((await client.listTools()).tools.length, 10);
      const { structuredContent } = await client.callTool({
        name: 'find',
        arguments: { resource: 'leads' },
      });
      assert.deepEqual(structuredContent, { records: [] });
    } finally {
      await client.close();
    }
  });
}

/** Forwards lines, and returns the responses. */
async function forward(
  lines: readonly string[],
  url = instance.url,
  key = acme.key,
): Promise<readonly unknown[]> {
  const input = new PassThrough();
  const output = new PassThrough();
  const written = text(output);
  input.end(lines.join('\n'));
  await forwardMessages(input, output, { url: new URL('/mcp', url), key });
  output.end();
  return (await written)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown);
}

const ping = '{"jsonrpc":"2.0","id":7,"method":"ping"}';
const errorIn = ([response]: readonly unknown[]) =>
  (response as { readonly error: { readonly message: string } }).error.message;

test('each message gets its response, and notifications get none', async () => {
  const notification = '{"jsonrpc":"2.0","method":"notifications/initialized"}';
  assert.deepEqual(await forward([ping, '', notification]), [{ jsonrpc: '2.0', id: 7, result: {} }]);
  const [invalid] = await forward(['{']);
  assert.equal((invalid as { readonly error: { readonly code: number } }).error.code, -32700);
});

test('messages sent without waiting for the response to initialize have the revision that it names', async () => {
  const protocolVersion = '2025-11-25';
  const initialize = JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
    params: { protocolVersion, capabilities: {}, clientInfo: { name: 'test', version: '1.0.0' } },
  });
  const received: unknown[] = [];
  const { server } = instance.app;
  const receive = ({ headers }: IncomingMessage) =>
    received.push([headers['mcp-method'], headers['mcp-protocol-version'], headers['mcp-name']]);
  const own = JSON.stringify({
    ...{ jsonrpc: '2.0', id: 2, method: 'tools/call' },
    params: { name: 'describe', _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } },
  });
  server.on('request', receive);
  try {
    const [first, ...others] = await forward([initialize, ping, ping, own]);
    assert.equal((first as { readonly id: number }).id, 1);
    assert.equal(others.length, 3);
  } finally {
    server.off('request', receive);
  }
  const [initialized, ...sent] = received;
  assert.deepEqual(initialized, ['initialize', undefined, undefined]);
  assert.deepEqual(sent.toSorted(), [
    ['ping', protocolVersion, undefined],
    ['ping', protocolVersion, undefined],
    ['tools/call', '2026-07-28', 'describe'],
  ]);
});

test('errors of HTTP and of the connection are responses to the message', async () => {
  const [unauthenticated] = await forward([ping], instance.url, 'crm_wrong');
  assert.equal((unauthenticated as { readonly id: number }).id, 7);
  assert.match(
    errorIn([unauthenticated]),
    /responded with 401: .*The API key or access token is missing or invalid/,
  );
  assert.match(
    errorIn(await forward([ping], 'http://127.0.0.1:1')),
    /^Cannot reach http:\/\/127\.0\.0\.1:1\/mcp/,
  );
  const notification = '{"jsonrpc":"2.0","method":"notifications/initialized"}';
  assert.deepEqual(await forward([notification], 'http://127.0.0.1:1'), [], 'notifications have no response');
});

test('a missing key and an invalid URL are reported', async () => {
  for (const key of ['', '  '])
    assertRefused(await crm(['mcp'], { CRM_API_KEY: key }), /CRM_API_KEY is not set/);
  assertRefused(
    await crm(['mcp', '--url', 'crm.example'], { CRM_API_KEY: acme.key }),
    '"crm.example" is not a URL, for example https://crm.example.',
  );
});
