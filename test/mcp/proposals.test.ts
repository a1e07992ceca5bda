// Proposals of agents: keys whose writes a person must approve.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { configured } from '../support/agents.ts';
import { administratorOf, optionOf, signIn, type Visitor } from '../support/forms.ts';
import { hookedModules, hookedSources } from '../support/hooked.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';

const sources = await sourcesWith(...hookedSources);

onBothDrivers(
  'Proposals of agents',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
    });
    const api = (request: string, { key = acme.key, body }: { key?: string; body?: object } = {}) => {
      const [method, path] = request.split(' ');
      return instance().call(`${method} /api/v1/${path}`, { key, ...(body && { body }) });
    };
    const make = async (body: object): Promise<string> => {
      const { status, json, text } = await api('POST tasks', { body });
      assert.equal(status, 201, text);
      return String(json.id);
    };

    test('a key that proposes cannot write with the API', async () => {
      const { key } = await acme.makeKey({ access: 'propose' });
      const id = await make({ title: 'kept' });
      assert.equal((await api(`GET tasks/${id}`, { key })).json.title, 'kept');
      const me = await instance().call('GET /auth/me', { key });
      assert.equal((me.json.key as { access: string }).access, 'propose');
      for (const [request, body] of [
        ['POST tasks', { title: 'new' }],
        [`PATCH tasks/${id}`, { title: 'changed' }],
        [`DELETE tasks/${id}`, undefined],
        ['POST tasks/batch', { records: [{ title: 'new' }] }],
        [`POST tasks/${id}/actions/close`, { hours: 1 }],
        ['POST projects/actions/plan', {}],
      ] as const) {
        const answer = await api(request, { key, ...(body && { body }) });
        assert.equal(answer.status, 403, request);
        assert.match(String(answer.json.error), /^This key can only propose writes/);
        assert.match(String(answer.json.hint), /POST \/mcp/);
      }
      const reader = await acme.makeKey({ access: 'read-only' });
      const answer = await api(`PATCH tasks/${id}`, { key: reader.key, body: { title: 'changed' } });
      assert.equal(answer.status, 403);
      assert.doesNotMatch(String(answer.json.error), /propose/);
      assert.equal((await api(`GET tasks/${id}`)).json.title, 'kept');
    });

    test('administrators choose the access of a key, and a rotated key keeps it', async () => {
      const page = '/setup/o/acme/keys';
      const holder = await instance().call('GET /auth/me', { key: acme.key });
      assert.equal((holder.json.key as { access?: string }).access, undefined);
      const profile = await optionOf(admin, `${page}/create`, 'administrator');
      const create = (access: string) =>
        admin.submit(`${page}/create`, `${page}/create`, { name: 'Careful', profile, expires: '30', access });
      assert.equal((await create('propose')).status, 200);
      const list = await admin.get(`${page}?q=Careful`);
      assert.match(list.text, /proposes writes/);
      const id = /\/keys\/rotate\?id(?:=|&#x3D;)(\d+)/.exec(list.text)?.[1] ?? '';
      const rotated = await admin.submit(`${page}/rotate?id=${id}`, `${page}/rotate`, { id, overlap: '1h' });
      const key = /crm_\w+/.exec(rotated.text)?.[0] ?? '';
      const me = await instance().call('GET /auth/me', { key });
      assert.equal((me.json.key as { access: string }).access, 'propose');
      assert.equal((await create('all')).status, 400);
    });
  },
  {
    sources,
    modules: hookedModules([]),
    environment: configured('proposals', 'mcp: true\n'),
  },
);
