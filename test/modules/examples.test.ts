// The modules in examples/.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import * as compiled from '../../app/index.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { project } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

describe('the package', () => {
  test('exports everything that app/index.ts does', async () => {
    const exported: object = await import(`${project}/bin/index.js`);
    assert.deepEqual(Object.keys(exported).sort(), Object.keys(compiled).sort());
  });
});

/** Returns the shipped resources with the fields that the examples need. */
async function sourcesOfExamples() {
  const [, fields = ''] =
    /\nfields:\n([\s\S]*)$/.exec(readFileSync(`${project}/examples/convert-lead.yaml`, 'utf8')) ?? [];
  return (await sourcesWith()).map(({ file, text }) => ({
    file,
    text: file.endsWith('leads.yaml') ? text.replace('\nfields:\n', `$&${fields}`) : text,
  }));
}

const secret = 'the-secret-of-inbound-leads';
const file = settingsFile({
  modules: ['convert-lead', 'unique-leads'].map((name) => `${project}/examples/${name}.ts`),
});

onBothDrivers(
  'the modules in examples',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const send = (request: string, body?: unknown, key = acme.key) =>
      instance().call(request.replace(' ', ' /api/v1/'), { key, ...(body !== undefined && { body }) });
    const create = async (body: object) => {
      const answer = await send('POST leads', body);
      assert.equal(answer.status, 201, answer.text);
      return Number(answer.json.id);
    };

    test('convert-lead creates an account, a contact and an opportunity', async () => {
      const id = await create({
        first_name: 'Ada',
        last_name: 'Byron',
        company: 'Engines',
        email: 'ada@engines.example',
      });
      const answer = await send(`POST leads/${id}/actions/convert`, { opportunity: 'First engine' });
      assert.equal(answer.status, 200, answer.text);
      const { account_id: account, contact_id: contact, opportunity_id: opportunity } = answer.json;
      assert.equal((await send(`GET accounts/${account}`)).json.name, 'Engines');
      const { json } = await send(`GET contacts/${contact}`);
      assert.deepEqual(
        [json.account_id, json.first_name, json.email],
        [account, 'Ada', 'ada@engines.example'],
      );
      assert.equal((await send(`GET opportunities/${opportunity}`)).json.account_id, account);
      assert.equal((await send(`GET leads/${id}`)).json.status, 'Closed - Converted');
      const again = await send(`POST leads/${id}/actions/convert`);
      assert.deepEqual([again.status, again.json.error], [400, 'The lead has already been converted']);
    });

    test('a conversion can be undone unless other records refer to the account', async () => {
      const id = await create({
        company: 'Undone',
        email: 'u@undone.example',
        status: 'Working - Contacted',
      });
      const { json } = await send(`POST leads/${id}/actions/convert`, { opportunity: 'Deal' });
      const paths = [
        `accounts/${json.account_id}`,
        `contacts/${json.contact_id}`,
        `opportunities/${json.opportunity_id}`,
      ];
      const contact = await send('POST contacts', { last_name: 'Own', account_id: json.account_id });
      const refused = await send(`POST leads/${id}/actions/undo-conversion`);
      assert.deepEqual(
        [refused.status, refused.json.error],
        [400, 'The account has other contacts. Move them to another account first.'],
      );
      assert.equal((await send(`DELETE contacts/${contact.json.id}`)).status, 200);
      assert.equal((await send(`POST leads/${id}/actions/undo-conversion`)).status, 200);
      for (const path of paths) assert.equal((await send(`GET ${path}`)).status, 404, path);
      const lead = (await send(`GET leads/${id}`)).json;
      assert.deepEqual([lead.status, lead.converted_account_id], ['Working - Contacted', null]);
      assert.equal((await send(`POST leads/${id}/actions/undo-conversion`)).status, 400);
      assert.equal((await send(`POST leads/${id}/actions/convert`)).status, 200);
    });

    test('convert-lead writes nothing if the caller cannot create one of the records', async () => {
      const id = await create({ company: 'Looms' });
      const key = await acme.keyWith([
        { object: 'leads', actions: ['read', 'update', 'convert'] },
        { object: 'accounts', actions: ['create'] },
      ]);
      const answer = await send(`POST leads/${id}/actions/convert`, {}, key);
      assert.deepEqual([answer.status, answer.json.grant], [403, 'contacts:create']);
      assert.deepEqual((await send('GET accounts?name=Looms')).json.data, []);
      const nameless = await send(`POST leads/${await create({})}/actions/convert`);
      assert.deepEqual([nameless.status, nameless.json.code], [400, 'invalid_input']);
    });

    test('unique-leads rejects the email address of another open lead, in single requests and imports', async () => {
      const id = await create({ email: 'one@leads.example' });
      const second = await send('POST leads', { email: 'ONE@leads.example' });
      assert.equal(second.status, 400);
      assert.deepEqual(second.json.fields, [
        {
          field: 'email',
          message: 'email is already used by another open lead. Update that lead, or merge the leads.',
          hint: 'Update that lead, or merge the leads.',
        },
      ]);
      assert.equal(
        (await send(`PATCH leads/${id}`, { email: 'one@leads.example', rating: 'Hot' })).status,
        200,
      );
      const imported = await instance().call('POST /api/v1/leads/import', {
        key: acme.key,
        headers: { 'content-type': 'text/csv' },
        body: 'email\none@leads.example\ntwo@leads.example\n',
      });
      assert.deepEqual([imported.json.created, imported.json.failed], [1, 1], imported.text);
      assert.equal((await send(`PATCH leads/${id}`, { status: 'Closed - Not Converted' })).status, 200);
      await create({ email: 'one@leads.example' });
    });

    test('hooks run for inbound leads, whose sender receives the rejection', async () => {
      await create({ email: 'inbound@leads.example' });
      const headers = { 'x-inbound-secret': secret, 'x-org-slug': 'acme' };
      const body = { email: 'inbound@leads.example', first_name: 'Ada' };
      const rejected = await instance().call('POST /webhooks/inbound-leads', { headers, body });
      assert.deepEqual([rejected.status, rejected.json.code], [400, 'invalid_input'], rejected.text);
      const other = { ...body, email: 'new@leads.example' };
      const created = await instance().call('POST /webhooks/inbound-leads', { headers, body: other });
      assert.equal(created.status, 201, created.text);
      assert.equal((await send(`GET leads/${created.json.id}`)).json.email, 'new@leads.example');
    });
  },
  { environment: { CRM_CONFIG: file.path, INBOUND_SECRET: secret }, sources: await sourcesOfExamples() },
);
