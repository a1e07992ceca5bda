// Connectors: OAuth clients that use the endpoint for agents on behalf of a user.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { failTool, sendMessage, useTool } from '../support/agents.ts';
import { administratorOf } from '../support/forms.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { type ClientHost, connect, oauthSettings, post, startClientHost } from '../support/oauth-client.ts';
import { until } from '../support/process.ts';

for (const driver of drivers) {
  describe(`connectors (${driver})`, () => {
    let instance: Instance;
    let host: ClientHost;
    let acme: Organization;
    let client = '';
    before(async () => {
      host = await startClientHost();
      client = host.serve('/client.json');
      instance = await startInstance(driver, { environment: oauthSettings([host.port]).environment });
      acme = await instance.organization('acme');
    });
    after(async () => {
      await instance.close();
      await host.close();
    });

    test('a request without a valid token says where the authorization server is', async () => {
      const metadata = `${instance.url}/.well-known/oauth-protected-resource/mcp`;
      for (const key of ['', 'x.y.z', `${acme.key}x`]) {
        const answer = await sendMessage(instance, key, { method: 'tools/list' });
        assert.equal(answer.status, 401);
        assert.equal(answer.headers.get('www-authenticate'), `Bearer resource_metadata="${metadata}"`);
      }
      const { json } = await instance.call(`GET ${new URL(metadata).pathname}`);
      assert.equal(json.resource, `${instance.url}/mcp`);
    });

    test('a client writes with tools on behalf of the user, until it is disconnected', async () => {
      const user = administratorOf(acme);
      const { access, refresh } = await connect(instance, user, client);
      const { record } = await useTool(instance, access, 'create', {
        resource: 'leads',
        values: { last_name: 'Lovelace' },
      });
      const { id } = record as { readonly id: number };
      const { changes } = await useTool(instance, access, 'history', { resource: 'leads', id });
      assert.deepEqual(
        (changes as readonly { readonly by: string }[]).map(({ by }) => by),
        [`Assistant (127.0.0.1) on behalf of ${user.email} (mcp create)`],
      );
      await post(instance, '/oauth/revoke', { token: refresh, client_id: client });
      const isRejected = async () =>
        (await sendMessage(instance, access, { method: 'tools/list' })).status === 401;
      await until(isRejected, 'the token ends');
    });

    test('a read-only client cannot write', async () => {
      const { access } = await connect(instance, administratorOf(acme), client, { access: 'read-only' });
      await useTool(instance, access, 'find', { resource: 'leads' });
      const { error } = await failTool(instance, access, 'create', { resource: 'leads', values: {} });
      assert.match(String(error), /create/);
    });
  });
}
