// Runs the requests in docs/agents.md, connects clients with its configurations, and checks what the page says about tools.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { projectFolder } from '../../engine/config/index.ts';
import { tools } from '../../plugins/api/mcp/tools.ts';
import { configured } from '../support/agents.ts';
import { inherited } from '../support/command-process.ts';
import { pattern, runSteps, stepsOf, withoutSpaces } from '../support/guide.ts';
import { drivers, type Instance, onBothDrivers, startInstance } from '../support/instance.ts';
import { commandLine } from '../support/process.ts';

const page = readFileSync(join(projectFolder, 'docs/agents.md'), 'utf8');
const steps = stepsOf(page.slice(page.indexOf('## Try it with curl')));

onBothDrivers(
  'the page about agents',
  (instance) => {
    let outputs: Awaited<ReturnType<typeof runSteps>> = [];
    before(async () => {
      const acme = await instance().organization('acme');
      // Records of a key without a user do not have an owner.
      outputs = await runSteps(steps, instance().url, (await acme.makeKey()).key);
    });

    for (const [index, { commands, shown = '' }] of steps.entries()) {
      test(commands.trim().split('\n').at(-1) ?? '', () => {
        const { output = '', status } = outputs[index] ?? {};
        assert.equal(status, '0', output);
        assert.match(withoutSpaces(output), pattern(shown), output);
      });
    }
  },
  { environment: configured('guide', 'mcp: true\n') },
);

/** The configuration of a server in a client's file. */
interface ServerConfiguration {
  readonly type?: string;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly command?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** The configurations on the page, as they are, with the instance's URL and a key instead of the example's. */
function configurations(url: string, key: string): readonly ServerConfiguration[] {
  const blocks = [...page.matchAll(/^```json\n(\{\n[\s\S]*?)^```$/gm)].map(([, text = '']) => text);
  const texts = blocks.filter((text) => text.includes('"mcpServers"'));
  return texts.map((text) => {
    const replaced = text.replaceAll('https://crm.example', url).replaceAll('crm_…', key);
    const { mcpServers } = JSON.parse(replaced) as {
      readonly mcpServers: Readonly<Record<string, ServerConfiguration>>;
    };
    assert.deepEqual(Object.keys(mcpServers), ['crm']);
    return mcpServers.crm ?? {};
  });
}

describe('the configurations of clients', () => {
  let instance: Instance;
  let programs: ServerConfiguration[];
  let servers: ServerConfiguration[];
  before(async () => {
    instance = await startInstance(drivers.at(-1) ?? 'postgresql', {
      environment: configured('configurations', 'mcp: true\n'),
    });
    const { key } = await instance.organization('acme');
    const all = configurations(instance.url, key);
    programs = all.filter(({ command }) => command !== undefined);
    servers = all.filter(({ command }) => command === undefined);
  });
  after(() => instance.close());
  const toolsOf = async (transport: Transport) => {
    const client = new Client({ name: 'test', version: '1.0.0' });
    await client.connect(transport);
    try {
      return (await client.listTools()).tools.map(({ name }) => name);
    } finally {
      await client.close();
    }
  };
  const names = tools.map(({ name }) => name);

  test('with HTTP connect to the instance', async () => {
    assert.equal(servers.length, 1);
    for (const { type, url = '', headers = {} } of servers) {
      assert.equal(type, 'http');
      const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
      assert.deepEqual(await toolsOf(transport), names);
    }
  });

  test('with a program start crm mcp', async () => {
    assert.equal(programs.length, 1);
    for (const { command, args = [], env = {} } of programs) {
      const [name, ...rest] = args;
      // npx runs the command of the package, which the test starts directly.
      assert.deepEqual([command, name], ['npx', 'crm']);
      const transport = new StdioClientTransport({
        command: process.execPath,
        args: [...commandLine, ...rest],
        cwd: projectFolder,
        env: { ...inherited(), ...env },
      });
      assert.deepEqual(await toolsOf(transport), names);
    }
  });

  test('on the command line have the same URL and header', () => {
    const lines = [...page.matchAll(/`(claude mcp add [^`]+)`/g)].map(([, line = '']) => line);
    assert.deepEqual(lines, [
      'claude mcp add --transport http crm https://crm.example/mcp',
      'claude mcp add --transport http crm https://crm.example/mcp --header "Authorization: Bearer crm_…"',
    ]);
  });
});

test('the page lists all tools with their parameters', () => {
  const [, section = ''] = /^## Tools\n([\s\S]*?)^## /m.exec(page) ?? [];
  const rows = [...section.matchAll(/^\| `(\w+)` \| (.*?) \| .* \|$/gm)];
  assert.deepEqual(
    rows.map(([, name, parameters = '']) => [
      name,
      [...parameters.matchAll(/`(\w+)`/g)].map(([, one]) => one),
    ]),
    tools.map(({ name, parameters }) => [name, Object.keys(parameters)]),
  );
});
