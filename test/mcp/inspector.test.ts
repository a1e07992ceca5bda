// The inspector of the Model Context Protocol: its command line lists and calls every tool, and reads resources and prompts.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { configured } from '../support/agents.ts';
import { hookedModules, hookedSources } from '../support/hooked.ts';
import {
  drivers,
  type Instance,
  type Organization,
  startInstance,
  temporaryFolder,
} from '../support/instance.ts';
import { start } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const program = join(
  import.meta.dirname,
  '../clients/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js',
);
const skip = !existsSync(program) && 'needs npm ci --prefix test/clients';

type Json = Readonly<Record<string, unknown>>;

const folder = temporaryFolder();
process.on('exit', folder.remove);

/** Arguments with which each tool is called, in this order. `id` is the ID of the created record. */
const calls: readonly (readonly [tool: string, input: (id: unknown) => object])[] = [
  ['describe', () => ({ resource: 'tasks' })],
  ['create', () => ({ resource: 'tasks', values: { title: 'Inspect', points: 2 } })],
  ['find', () => ({ resource: 'tasks', where: { field: 'title', op: 'eq', value: 'Inspect' } })],
  ['get', (id) => ({ resource: 'tasks', id })],
  ['aggregate', () => ({ resource: 'leads', measure: ['count()'] })],
  ['update', (id) => ({ resource: 'tasks', id, values: { points: 3 } })],
  ['act', (id) => ({ resource: 'tasks', id, action: 'close', input: { hours: 1 } })],
  ['delete', (id) => ({ resource: 'tasks', id })],
  ['restore', (id) => ({ resource: 'tasks', id })],
  ['history', (id) => ({ resource: 'tasks', id })],
];

describe('the inspector', { skip }, () => {
  let instance: Instance;
  let acme: Organization;
  before(async () => {
    instance = await startInstance(drivers.at(-1) ?? 'postgresql', {
      sources: await sourcesWith(...hookedSources),
      modules: hookedModules([]),
      environment: configured('inspector', 'mcp: true\n'),
    });
    acme = await instance.organization('acme');
  });
  after(() => instance.close());

  /** Sends a request with the inspector. @returns the result, and what the inspector reports about it */
  const inspect = async (method: string, ...options: readonly string[]) => {
    const { code, stdout, stderr } = await start(
      [
        ...['--cli', '--transport', 'http', '--server-url', `${instance.url}/mcp`, '--format', 'json'],
        ...['--header', `Authorization: Bearer ${acme.key}`, '--method', method, ...options],
      ],
      // The inspector stores settings in the home folder.
      { HOME: folder.path },
      { program: [program] },
    ).ended;
    assert.equal(code, 0, stdout + stderr);
    const { result } = JSON.parse(stdout) as { readonly result: Json };
    return { result, report: stderr };
  };
  const namesIn = (list: unknown) => (list as readonly { readonly name: string }[]).map(({ name }) => name);

  for (const era of ['legacy', 'modern'])
    test(`lists tools whose schemas all clients can convert (${era})`, async () => {
      const { result, report } = await inspect('tools/list', '--strict', '--protocol-era', era);
      assert.deepEqual(namesIn(result.tools).sort(), calls.map(([tool]) => tool).sort());
      assert.doesNotMatch(report, /^(Warning|Error)/m);
    });

  test('calls every tool', async () => {
    let id: unknown;
    const results = new Map<string, Json>();
    for (const [tool, input] of calls) {
      const json = JSON.stringify(input(id));
      const { result } = await inspect('tools/call', '--tool-name', tool, '--tool-args-json', json);
      assert.equal(result.isError, undefined, JSON.stringify(result));
      const content = result.structuredContent as Json;
      results.set(tool, content);
      if (tool === 'create') ({ id } = content.record as Json);
    }
    assert.equal(typeof id, 'number');
    const valueIn = (tool: string, key: string) => results.get(tool)?.[key];
    assert.equal(valueIn('describe', 'name'), 'tasks');
    assert.deepEqual((valueIn('find', 'records') as readonly Json[]).length, 1);
    assert.equal((valueIn('get', 'record') as Json).title, 'Inspect');
    assert.deepEqual(valueIn('aggregate', 'groups'), [{ 'count()': 0 }]);
    assert.equal((valueIn('update', 'record') as Json).points, 3);
    assert.equal(valueIn('delete', 'deleted'), id);
    assert.equal((valueIn('restore', 'record') as Json).id, id);
    assert.deepEqual(
      (valueIn('history', 'changes') as readonly Json[]).map(({ action }) => action),
      ['restore', 'trash', 'update', 'update', 'create'],
    );
  });

  test('lists and reads resources', async () => {
    const key = { key: acme.key, body: { title: 'Read' } };
    const { id } = (await instance.call('POST /api/v1/tasks', key)).json;
    const { result } = await inspect('resources/list');
    const uris = (result.resources as readonly { readonly uri: string }[]).map(({ uri }) => uri);
    assert.ok(uris.includes('crm://tasks'), String(uris));
    for (const [uri, name, value] of [
      ['crm://tasks', 'name', 'tasks'],
      [`crm://tasks/${id}`, 'title', 'Read'],
    ] as const) {
      const { result: read } = await inspect('resources/read', '--uri', uri);
      const [content] = read.contents as readonly { readonly text: string }[];
      assert.equal((JSON.parse(content?.text ?? '{}') as Json)[name], value);
    }
    const { result: templates } = await inspect('resources/templates/list');
    assert.deepEqual(namesIn(templates.resourceTemplates), ['record']);
  });

  test('lists and gets every prompt', async () => {
    const { result } = await inspect('prompts/list');
    const prompts = result.prompts as readonly { readonly name: string; readonly arguments: unknown }[];
    assert.deepEqual(namesIn(prompts), ['summarize', 'review', 'find_duplicates']);
    for (const { name, arguments: parameters } of prompts) {
      const values = namesIn(parameters).map((parameter) => `${parameter}=${parameter}-value`);
      const { result: prompt } = await inspect(
        'prompts/get',
        '--prompt-name',
        name,
        '--prompt-args',
        ...values,
      );
      const [message] = prompt.messages as readonly { readonly content: { readonly text: string } }[];
      assert.match(message?.content.text ?? '', /resource-value/);
    }
  });
});
