// Resources and prompts of the Model Context Protocol: definitions and records by URI, and prompts that clients offer.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { configured, sendMessage } from '../support/agents.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';

onBothDrivers(
  'Resources and prompts for agents',
  (instance) => {
    let acme: Organization;
    let lead = 0;
    before(async () => {
      acme = await instance().organization('acme');
      const body = { last_name: 'Lovelace', description: 'x'.repeat(5000) };
      lead = Number((await instance().call('POST /api/v1/leads', { key: acme.key, body })).json.id);
    });
    const ask = async (method: string, params: object = {}, key = acme.key) => {
      const { json, text } = await sendMessage(instance(), key, { method, params });
      return { result: json.result as Readonly<Record<string, unknown>>, error: json.error, text };
    };
    const read = async (uri: string, key?: string) => {
      const { result, error } = await ask('resources/read', { uri }, key);
      const [content] = (result?.contents ?? []) as readonly { readonly text: string }[];
      return content === undefined
        ? (error as { readonly code: number }).code
        : (JSON.parse(content.text) as Readonly<Record<string, unknown>>);
    };

    test('the definitions that the caller can use are listed and read', async () => {
      const { result } = await ask('resources/list');
      const uris = (result.resources as readonly { readonly uri: string }[]).map(({ uri }) => uri);
      assert.deepEqual(uris, [
        'crm://accounts',
        'crm://cases',
        'crm://contacts',
        'crm://leads',
        'crm://opportunities',
      ]);
      const leads = await read('crm://leads');
      assert.equal(typeof leads === 'object' && leads.name, 'leads');
      const limited = await acme.keyWith([{ object: 'cases', actions: ['list', 'read'] }]);
      const { result: own } = await ask('resources/list', {}, limited);
      assert.deepEqual(
        (own.resources as readonly { readonly name: string }[]).map(({ name }) => name),
        ['cases'],
      );
      assert.equal(await read('crm://leads', limited), -32602);
    });

    test('records are read by their URI, with the grants of the caller', async () => {
      const record = await read(`crm://leads/${lead}`);
      assert.ok(typeof record === 'object');
      assert.equal(record.last_name, 'Lovelace');
      assert.ok(String(record.description).length < 5000, 'long texts are truncated as in get');
      const beta = await instance().organization('beta');
      for (const [uri, key] of [
        [`crm://leads/${lead}`, beta.key],
        ['crm://leads/0', acme.key],
        ['crm://leads/99999999999999999999', acme.key],
        ['crm://leads/1/history', acme.key],
        ['crm://nothing', acme.key],
        ['file:///etc/passwd', acme.key],
      ] as const)
        assert.equal(await read(uri, key), -32602, uri);
      const { result } = await ask('resources/templates/list');
      assert.deepEqual(
        (result.resourceTemplates as readonly { readonly uriTemplate: string }[]).map(
          ({ uriTemplate }) => uriTemplate,
        ),
        ['crm://{resource}/{id}'],
      );
    });

    test('prompts have parameters, and none of them asks for a write', async () => {
      const { result } = await ask('prompts/list');
      const prompts = result.prompts as readonly {
        readonly name: string;
        readonly arguments: readonly { readonly name: string }[];
      }[];
      assert.deepEqual(
        prompts.map(({ name }) => name),
        ['summarize', 'review', 'find_duplicates'],
      );
      for (const prompt of prompts) {
        const values = Object.fromEntries(prompt.arguments.map(({ name }) => [name, `the ${name}`]));
        const { text } = await ask('prompts/get', { name: prompt.name, arguments: values });
        assert.match(text, /the resource/);
        assert.match(text, /Do not change anything\.|Ask me before you change anything\./);
      }
      const { error } = await ask('prompts/get', { name: 'summarize', arguments: { resource: 'leads' } });
      assert.match(JSON.stringify(error), /The prompt summarize needs the argument id/);
      assert.match(
        JSON.stringify((await ask('prompts/get', { name: 'x' })).error),
        /Prompts: summarize, review/,
      );
    });
  },
  { environment: configured('resources', 'mcp: true\n') },
);
