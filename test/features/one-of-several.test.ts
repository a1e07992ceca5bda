// References to one of several resources: a resource and an ID, in every request that reads or writes records.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { clientSource, type Document } from '../../app/commands/client-command.ts';
import { deleteOrganization } from '../../plugins/tenants/organizations/index.ts';
import { administratorOf, formsOf, problemOf, readable, signIn } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey, limitedPerson } from '../support/limited.ts';
import { memos } from '../support/memos.ts';
import { until } from '../support/process.ts';
import { rowHashes } from '../support/reading.ts';
import { sourcesWith } from '../support/sources.ts';
import { recordStatements } from '../support/statements.ts';

const overlays = [
  {
    file: 'resources/named-accounts.yaml',
    text: 'extends: accounts\nscopes:\n  named: name == "Engines"\n',
  },
  {
    file: 'resources/own-contacts.yaml',
    text: 'extends: contacts\nfields:\n  owner_id: { assignable: true }\nscopes:\n  own: owner_id == me\n',
  },
  {
    file: 'resources/grouped.yaml',
    text: `common: all
fields:
  name: { type: string }
  secret: { type: reference, to: [leads, memos], nullable: true, group: internal }
filters: [name, secret]
`,
  },
];

onBothDrivers(
  'references to one of several resources',
  (instance) => {
    let acme: Organization;
    let lead: number;
    let contact: number;
    before(async () => {
      acme = await instance().organization('acme');
      lead = await create('leads', { last_name: 'Lovelace' });
      contact = await create('contacts', { last_name: 'Hopper' });
    });
    const send = (request: string, body?: unknown, { key = acme.key, headers = {} } = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), {
        key,
        headers,
        ...(body !== undefined && { body }),
      });
    const ok = async (request: string, body?: unknown, options?: { key?: string }): Promise<Answer> => {
      const answer = await send(request, body, options);
      assert.ok(answer.status < 300, `${request}: ${answer.text}`);
      return answer;
    };
    const create = async (resource: string, body: object = {}): Promise<number> =>
      Number((await ok(`POST /${resource}`, body)).json.id);
    const read = async (path: string) => (await ok(`GET /${path}`)).json;
    const subjectOf = async (id: number) => (await read(`memos/${id}`)).subject;
    const names = async (query: string) =>
      ((await read(`memos?${query}`)).data as { name: string }[]).map(({ name }) => name);
    const upload = (resource: string, type: string, body: string, query = '') =>
      send(`POST /${resource}/import${query}`, body, { headers: { 'content-type': type } });
    const aLead = () => ({ resource: 'leads', id: lead });
    const aContact = () => ({ resource: 'contacts', id: contact });

    describe('writing', () => {
      test('POST, PUT and PATCH write and return a resource and an ID', async () => {
        const answer = await ok('POST /memos', { name: 'First', subject: aLead() });
        assert.deepEqual(answer.json.subject, aLead());
        assert.ok(answer.text.includes(`"subject":{"resource":"leads","id":${lead}}`), answer.text);
        const id = Number(answer.json.id);
        assert.equal((await ok(`GET /memos/${id}`)).text, answer.text);
        assert.deepEqual((await ok(`PATCH /memos/${id}`, { subject: aContact() })).json.subject, aContact());
        assert.deepEqual((await ok(`PATCH /memos/${id}`, { name: 'Same' })).json.subject, aContact());
        assert.deepEqual((await ok(`PUT /memos/${id}`, { subject: aLead() })).json.subject, aLead());
        assert.equal((await ok(`PUT /memos/${id}`, {})).json.subject, null);
        await ok(`PATCH /memos/${id}`, { subject: aLead() });
        assert.equal((await ok(`PATCH /memos/${id}`, { subject: null })).json.subject, null);
      });

      test('rejects other values, and names the resources', async () => {
        const message =
          'subject must be an object such as {"resource":"leads","id":7} whose resource is leads, contacts or opportunities, or null';
        for (const subject of [
          7,
          'leads/7',
          {},
          { resource: 'accounts', id: 1 },
          { resource: 'leads' },
          { resource: 'leads', id: '1' },
          { resource: 'leads', id: 1.5 },
          { id: 1 },
          [],
        ]) {
          const { status, json } = await send('POST /memos', { subject });
          assert.deepEqual([status, json.code, json.error], [400, 'invalid_input', message]);
          assert.deepEqual(json.fields, [{ field: 'subject', message }]);
        }
        const required = await send('POST /pins', {});
        assert.deepEqual([required.status, required.json.error], [400, 'target is required']);
        const empty = await send('POST /pins', { target: null });
        assert.equal(
          empty.json.error,
          'target must be an object such as {"resource":"memos","id":7} whose resource is memos, leads or pins',
        );
      });

      test('rejects references to missing records and to records of other organizations', async () => {
        const other = await instance().organization('other');
        const foreign = (await ok('POST /leads', { last_name: 'Foreign' }, { key: other.key })).json.id;
        for (const subject of [
          { resource: 'contacts', id: 987654321 },
          { resource: 'leads', id: foreign },
        ]) {
          const message = `subject ${subject.id} does not exist in ${subject.resource}`;
          const { status, json } = await send('POST /memos', { subject });
          assert.deepEqual([status, json.code, json.error], [400, 'missing_reference', message]);
          assert.deepEqual(json.fields, [{ field: 'subject', message }]);
        }
      });

      test('IDs beyond 2^53 stay exact', async () => {
        const { json } = await instance().call('POST /api/v1/memos', {
          key: acme.key,
          headers: { 'content-type': 'application/json' },
          body: '{"subject":{"resource":"leads","id":9007199254740993}}',
        });
        assert.equal(json.error, 'subject 9007199254740993 does not exist in leads');
      });

      test('batches and imports', async () => {
        const records = [{ subject: aLead() }, { subject: aContact() }, { subject: null }, {}];
        const { json } = await ok('POST /memos/batch', { records });
        const ids = (json.results as { id: number }[]).map(({ id }) => id);
        assert.deepEqual(await Promise.all(ids.map(subjectOf)), [aLead(), aContact(), null, null]);
        const mixed = await ok('POST /memos/batch', {
          on_error: 'continue',
          records: [{ subject: { resource: 'leads', id: 987654321 } }, { subject: aLead() }],
        });
        const [failed, written] = mixed.json.results as Record<string, unknown>[];
        assert.deepEqual([failed?.code, written?.status], ['missing_reference', 201]);
        const patched = await ok('PATCH /memos/batch', { records: [{ id: ids[0], subject: aContact() }] });
        assert.equal((patched.json.results as { status: number }[])[0]?.status, 200);
        assert.deepEqual(await subjectOf(Number(ids[0])), aContact());

        const csv = `name,subject\r\nImported,leads/${lead}\r\nEmpty,\r\nWrong,leads-1\r\nMissing,contacts/987654321\r\n`;
        const report = await upload('memos', 'text/csv', csv);
        assert.deepEqual([report.json.created, report.json.failed], [2, 2], report.text);
        const lines = report.json.lines as { line: number; code: string }[];
        assert.deepEqual(
          lines.map(({ line, code }) => [line, code]),
          [
            [4, 'invalid_input'],
            [5, 'missing_reference'],
          ],
        );
        const [imported] = (await read('memos?name=Imported')).data as Record<string, unknown>[];
        assert.deepEqual(imported?.subject, aLead());
        const ndjson = `${JSON.stringify({ name: 'Line', subject: aContact() })}\n`;
        assert.equal((await upload('memos', 'application/x-ndjson', ndjson)).json.created, 1);
        assert.deepEqual(await names(`subject=contacts/${contact}&name=Line`), ['Line']);
      });

      test('the history contains the values', async () => {
        const id = await create('memos', { subject: aLead() });
        await ok(`PATCH /memos/${id}`, { subject: aContact() });
        const history = await read(`memos/${id}/history`);
        const [update, creation] = history.data as Record<string, Record<string, unknown>>[];
        assert.deepEqual(update?.changed, ['updated_at', 'subject']);
        assert.deepEqual([update?.before?.subject, update?.after?.subject], [aLead(), aContact()]);
        assert.deepEqual(creation?.after?.subject, aLead());
      });
    });

    describe('reading', () => {
      let onLead: number;
      let onNothing: number;
      before(async () => {
        onLead = await create('memos', { name: 'About a lead', subject: aLead() });
        await create('memos', { name: 'About a contact', subject: aContact() });
        onNothing = await create('memos', { name: 'About nothing' });
      });

      test('fields, exports and the change feed contain the value', async () => {
        assert.deepEqual(await read(`memos/${onLead}?fields=id,subject`), { id: onLead, subject: aLead() });
        const query = '?fields=name,subject&name=About a lead&name=About nothing'.replaceAll(' ', '%20');
        const exported = async (accept: string) =>
          (await send(`GET /memos${query}`, undefined, { headers: { accept } })).text;
        assert.equal(
          await exported('text/csv'),
          `id,name,subject\r\n${onLead},About a lead,leads/${lead}\r\n${onNothing},About nothing,\r\n`,
        );
        assert.equal(
          await exported('application/x-ndjson'),
          `{"id":${onLead},"name":"About a lead","subject":{"resource":"leads","id":${lead}}}\n{"id":${onNothing},"name":"About nothing","subject":null}\n`,
        );
        let change: Record<string, Record<string, unknown>> | undefined;
        await until(async () => {
          const feed = await instance().call('GET /events?resources=memos', { key: acme.key });
          const events = feed.json.data as Record<string, Record<string, unknown>>[];
          change = events.find(({ id }) => Number(id) === onLead);
          return change !== undefined;
        }, 'the feed to contain the memo');
        assert.deepEqual(change?.after?.subject, aLead());
      });

      test('filters', async () => {
        const about = ['About a contact', 'About a lead', 'About nothing'];
        const among = about.map((name) => `name=${encodeURIComponent(name)}`).join('&');
        const found = (query: string) => names(`${among}&${query}`);
        assert.deepEqual(await found(`subject=leads/${lead}`), ['About a lead']);
        assert.deepEqual(await found(`subject=leads/${lead}&subject=leads/987654321`), ['About a lead']);
        assert.deepEqual(await found(`subject=leads/${lead}&subject=contacts/${contact}`), about.slice(0, 2));
        assert.deepEqual(await found(`subject[in]=contacts/${contact}`), ['About a contact']);
        assert.deepEqual(await found(`subject[ne]=leads/${lead}`), ['About a contact', 'About nothing']);
        assert.deepEqual(await found('subject[is_null]=true'), ['About nothing']);
        assert.deepEqual(await found('subject[is_null]=false'), about.slice(0, 2));
        // The same ID in another resource is another record.
        assert.deepEqual(await found(`subject=opportunities/${lead}`), []);
        for (const value of [
          String(lead),
          `accounts/${lead}`,
          'leads/',
          'leads/x',
          'leads/9223372036854775808',
        ]) {
          const { status, json } = await send(`GET /memos?subject=${value}`);
          assert.equal(status, 400);
          assert.equal(
            json.error,
            'subject must be a resource and an ID, such as leads/7, where the resource is leads, contacts or opportunities',
          );
        }
      });

      test('expand returns the record with its resource', async () => {
        const expandedOf = async (query: string) =>
          ((await read(`memos?${query}&expand=subject`)).data as { expanded: Record<string, unknown> }[]).map(
            ({ expanded }) => expanded.subject as Record<string, unknown> | null,
          );
        const [record] = await expandedOf('name=About%20a%20lead');
        assert.deepEqual(record, { resource: 'leads', ...(await read(`leads/${lead}`)) });
        const [other] = await expandedOf('name=About%20a%20contact');
        assert.deepEqual([other?.resource, other?.last_name], ['contacts', 'Hopper']);
        assert.deepEqual(await expandedOf('name=About%20nothing'), [null]);
        const unknown = await send('GET /memos?expand=subject.account');
        assert.equal(unknown.status, 400);
      });

      test('expand follows the references that only some of the resources have, in one statement', async () => {
        const account = await create('accounts', { name: 'Engines' });
        const member = await create('contacts', { last_name: 'Byron', account_id: account });
        const subjects = [{ resource: 'contacts', id: member }, aContact(), aLead(), null];
        for (const subject of subjects) await create('memos', { name: 'Second level', subject });
        const path = 'memos?name=Second%20level&expand=subject.account_id';
        const expandedAt = async (url: string, name: string) => {
          const rows = (await read(url)).data as { expanded: { subject: Record<string, unknown> | null } }[];
          return rows.map(({ expanded: { subject } }) => {
            const { resource, expanded } = subject ?? {};
            return [resource, (expanded as Record<string, unknown> | undefined)?.[name]];
          });
        };
        assert.deepEqual(await expandedAt(path, 'account_id'), [
          ['contacts', await read(`accounts/${account}`)],
          ['contacts', null],
          ['leads', undefined],
          [undefined, undefined],
        ]);
        const statements = await recordStatements(instance().database, () => ok(`GET /${path}`));
        assert.equal(statements.length, 1);
        const [memo] = (await read(path)).data as { id: number }[];
        const nested = await ok(
          `GET /memos/${memo?.id}?fields=id&expand=subject.account_id,subject.cases,subject.memos`,
        );
        const { expanded } = (nested.json.expanded as { subject: Record<string, unknown> }).subject;
        assert.deepEqual(Object.keys(expanded as object), ['account_id', 'cases', 'memos']);
        // Leads have neither accounts nor cases.
        const onLead = await ok(`GET /memos?name=Second%20level&expand=subject.cases`);
        assert.match(onLead.text, /"resource":"leads","id":\d+,[^{}]*"expanded":\{\}/);
      });

      test('the second level requires the grants on the resources to which it leads', async () => {
        const grants = ['memos:list', 'leads:read', 'contacts:read', 'opportunities:read'];
        const { key } = await limitedKey(instance(), acme, grants);
        assert.equal((await send('GET /memos?expand=subject.owner_id', undefined, { key })).status, 200);
        const answer = await send('GET /memos?expand=subject.account_id', undefined, { key });
        assert.deepEqual([answer.status, answer.json.grant], [403, 'accounts:read']);
        const list = await send('GET /memos?expand=subject.cases', undefined, { key });
        assert.deepEqual([list.status, list.json.grant], [403, 'cases:list']);

        const limited = await limitedKey(instance(), acme, [...grants, 'accounts:read:named']);
        for (const [name, isVisible] of [
          ['Engines', true],
          ['Hidden', false],
        ] as const) {
          const account_id = await create('accounts', { name });
          const subject = { resource: 'contacts', id: await create('contacts', { account_id }) };
          await create('memos', { name: `About ${name}`, subject });
          const { json } = await ok(
            `GET /memos?name=About%20${name}&expand=subject.account_id`,
            undefined,
            limited,
          );
          const [memo] = json.data as {
            expanded: { subject: { expanded: { account_id: { name: string } | null } } };
          }[];
          assert.equal(memo?.expanded.subject.expanded.account_id?.name, isVisible ? name : undefined);
        }
      });

      test('expand follows the reference backwards, in one list per field', async () => {
        const { expanded } = await read(`leads/${lead}?expand=memos`);
        const { data, url } =
          (expanded as Record<string, { data: { subject: unknown }[]; url: string }>).memos ?? {};
        assert.ok((data?.length ?? 0) > 0);
        assert.ok(data?.every(({ subject }) => JSON.stringify(subject) === JSON.stringify(aLead())));
        assert.equal(url, `/api/v1/memos?subject=leads/${lead}`);
        const listed = await instance().call(`GET ${url}`, { key: acme.key });
        assert.equal((listed.json.data as unknown[]).length, data?.length);
        const nested = await read(`leads/${lead}?expand=memos.subject`);
        const [memo] =
          (nested.expanded as Record<string, { data: { expanded: unknown }[] }>).memos?.data ?? [];
        assert.deepEqual(memo?.expanded, {
          subject: { resource: 'leads', ...(await read(`leads/${lead}`)) },
        });
      });
    });

    test('deletes clear, cascade and restrict, separately for each resource', async () => {
      const doomed = { resource: 'leads', id: await create('leads', { last_name: 'Doomed' }) };
      const memo = await create('memos', { subject: doomed });
      const kept = await create('pins', { target: { resource: 'memos', id: memo } });
      const pinned = await create('pins', { target: doomed });
      const block = await create('blocks', { target: doomed });
      const rejected = await send(`DELETE /leads/${doomed.id}`);
      assert.deepEqual([rejected.status, rejected.json.code], [409, 'referenced']);
      assert.deepEqual(rejected.json.referrers, [{ resource: 'blocks', field: 'target', count: 1 }]);
      await ok(`PATCH /blocks/${block}`, { target: null });
      await ok(`DELETE /leads/${doomed.id}`);
      assert.equal(await subjectOf(memo), null);
      assert.equal((await send(`GET /pins/${pinned}`)).status, 404);
      assert.equal((await send(`GET /pins/${kept}`)).status, 200);
      const [cleared] = (await read(`memos/${memo}/history`)).data as Record<
        string,
        Record<string, unknown>
      >[];
      assert.deepEqual([cleared?.before?.subject, cleared?.after?.subject], [doomed, null]);
      await ok(`DELETE /memos/${memo}`);
      assert.equal((await send(`GET /pins/${kept}`)).status, 404);
    });

    test('an organization whose records refer to each other in a cycle can be deleted', async () => {
      const gamma = await instance().organization('gamma');
      const make = async (resource: string, body: object) =>
        Number((await ok(`POST /${resource}`, body, { key: gamma.key })).json.id);
      const target = { resource: 'leads', id: await make('leads', {}) };
      const first = await make('pins', { target });
      const second = await make('pins', { target: { resource: 'pins', id: first }, copy_id: first });
      await ok(`PATCH /pins/${first}`, { target: { resource: 'pins', id: second } }, { key: gamma.key });
      await make('pins', { target: { resource: 'pins', id: second } });
      await make('blocks', { target: { resource: 'memos', id: await make('memos', { subject: target }) } });
      await create('pins', { target: { resource: 'pins', id: await create('pins', { target: aLead() }) } });
      const others = await rowHashes(instance(), acme.id);
      assert.ok((await deleteOrganization(instance().database, gamma.id)) > 6);
      assert.deepEqual(await rowHashes(instance(), acme.id), others);
      const hashes = await rowHashes(instance(), gamma.id);
      assert.deepEqual(new Set(Object.values(hashes)), new Set(['0 ']));
    });

    test('the database rejects rows with several targets, or without a required target', async () => {
      const run = (text: string) => instance().database.run({ name: '', text, values: [] });
      const both = `update memos set subject_lead_id = ${lead}, subject_contact_id = ${contact}`;
      await assert.rejects(run(both), /memos_subject_target/);
      const pin = await create('pins', { target: aLead() });
      await assert.rejects(
        run(`update pins set target_lead_id = null where id = ${pin}`),
        /pins_target_target/,
      );
      const valid = await run(
        "select convalidated::text from pg_constraint where conname in ('memos_subject_target', 'pins_target_target')",
      );
      assert.deepEqual(valid, [['true'], ['true']]);
    });

    describe('access', () => {
      const everything = ['memos:*', 'leads:*', 'opportunities:*'];

      test('records outside the scope cannot be referred to or expanded, but unchanged references are kept', async () => {
        const person = await limitedPerson(instance(), acme, [...everything, 'contacts:read:own']);
        const id = await create('memos', { subject: aContact() });
        const caller = { key: person.key };
        const rejected = await send('POST /memos', { subject: aContact() }, caller);
        const missing = await send(
          'POST /memos',
          { subject: { resource: 'contacts', id: 987654321 } },
          caller,
        );
        assert.deepEqual([rejected.status, rejected.json.code], [400, 'missing_reference']);
        assert.equal(
          String(rejected.json.error).replace(String(contact), '987654321'),
          String(missing.json.error),
        );
        assert.equal((await send(`PUT /memos/${id}`, { subject: aContact() }, caller)).status, 200);
        assert.equal((await send('POST /memos', { subject: aLead() }, caller)).status, 201);
        const { json } = await send(`GET /memos/${id}?expand=subject`, undefined, caller);
        assert.deepEqual(json.expanded, { subject: null });
        assert.deepEqual(json.subject, aContact());
        const batch = await send('POST /memos/batch', { records: [{ subject: aContact() }] }, caller);
        assert.deepEqual([batch.status, batch.json.code], [400, 'items_refused']);
        assert.match(batch.text, /subject \d+ does not exist in contacts/);
      });

      test('expand requires a grant on every resource', async () => {
        const caller = await limitedKey(instance(), acme, everything);
        const { status, json } = await send('GET /memos?expand=subject', undefined, caller);
        assert.deepEqual([status, json.grant], [403, 'contacts:read']);
        assert.equal((await send('GET /memos', undefined, caller)).status, 200);
      });

      test('a field group hides the field and the reverse list', async () => {
        const id = await create('grouped', { name: 'Hidden', secret: aLead() });
        const caller = await limitedKey(instance(), acme, ['grouped:*', 'leads:*', 'memos:*']);
        const { json } = await send(`GET /grouped/${id}`, undefined, caller);
        assert.equal('secret' in json, false);
        await send(`PUT /grouped/${id}`, { name: 'Hidden', secret: null }, caller);
        assert.deepEqual((await read(`grouped/${id}`)).secret, aLead());
        assert.equal((await send('GET /grouped?expand=secret', undefined, caller)).status, 400);
        assert.equal((await send(`GET /leads/${lead}?expand=grouped`, undefined, caller)).status, 400);
        assert.equal((await send(`GET /leads/${lead}?expand=grouped`)).status, 200);
      });
    });

    test('pages show the record as a link, and forms accept a resource and an ID', async () => {
      const visitor = await signIn(instance(), administratorOf(acme));
      const path = `/setup/o/${acme.slug}/data/memos`;
      const blank = await visitor.get(`${path}/new`);
      const [form] = formsOf(blank).filter(({ action }) => action === `${path}/new`);
      assert.ok(form);
      assert.ok(blank.text.includes(`<option value="Lovelace (leads/${lead})">`));
      assert.ok(blank.text.includes(`<option value="Hopper (contacts/${contact})">`));
      assert.match(blank.text, /or type a resource and an ID, for example leads\/7\./);
      const { text: leadPage } = await visitor.get(`/setup/o/${acme.slug}/data/leads/${lead}`);
      assert.ok(readable(leadPage).includes(`href="${path}/new?subject=leads%2F${lead}"`));
      const given = async (query: string) =>
        formsOf(await visitor.get(`${path}/new?${query}`)).find(({ action }) => action === `${path}/new`)
          ?.values.subject;
      assert.equal(await given(`subject=leads%2F${lead}`), `Lovelace (leads/${lead})`);
      assert.equal(await given(`subject=contacts/${contact}`), `Hopper (contacts/${contact})`);
      for (const other of [lead, `leads-${lead}`, 'leads/x', `memos/${lead}`])
        assert.equal(await given(`subject=${other}`), '', String(other));
      const created = await visitor.post(form.action, {
        ...form.values,
        name: 'Form',
        subject: `leads/${lead}`,
      });
      assert.equal(created.status, 303, problemOf(created));
      const [memo] = (await read('memos?name=Form')).data as { id: number; subject: unknown }[];
      assert.deepEqual(memo?.subject, aLead());
      const page = await visitor.get(`${path}/${memo?.id}`);
      assert.ok(page.text.includes(`href="/setup/o/${acme.slug}/data/leads/${lead}"`), readable(page.text));
      // A member who can read only some of the resources sees the reference without a title.
      const partial = await signIn(
        instance(),
        await limitedPerson(instance(), acme, ['memos:list', 'memos:read', 'leads:read']),
      );
      for (const shown of [path, `${path}/${memo?.id}`]) {
        const { status, text } = await partial.get(shown);
        assert.deepEqual([status, text.includes(`leads/${lead}`)], [200, true], shown);
      }
      const edit = formsOf(await visitor.get(`${path}/${memo?.id}/edit`)).find(({ action }) =>
        action.endsWith('/edit'),
      );
      assert.equal(edit?.values.subject, `Lovelace (leads/${lead})`);
      const wrong = await visitor.post(edit?.action ?? '', { ...edit?.values, subject: 'Nobody' });
      assert.equal(wrong.status, 400);
      const saved = await visitor.post(edit?.action ?? '', {
        ...edit?.values,
        subject: `Hopper (contacts/${contact})`,
      });
      assert.equal(saved.status, 303, problemOf(saved));
      assert.deepEqual(await subjectOf(Number(memo?.id)), aContact());
      const [, undo = ''] =
        /href="([^"]*)"[^>]*>Undo</.exec((await visitor.get(`${path}/${memo?.id}`)).text) ?? [];
      const [question] = formsOf(await visitor.get(readable(undo))).slice(-1);
      assert.equal((await visitor.post(question?.action ?? '', question?.values ?? {})).status, 303);
      assert.deepEqual(await subjectOf(Number(memo?.id)), aLead());
    });

    test('the description names the schema, and the client has exact types', async () => {
      const document = (await instance().call('GET /docs/openapi.json')).json as unknown as Document;
      const { schemas, parameters } = document.components;
      const name = 'LeadOrContactOrOpportunityReference';
      const reference = { $ref: `#/components/schemas/${name}` };
      assert.deepEqual(schemas[name]?.properties, {
        resource: { type: 'string', enum: ['leads', 'contacts', 'opportunities'] },
        id: { type: 'integer', format: 'int64' },
      });
      assert.deepEqual(schemas.Memo?.properties?.subject, {
        anyOf: [reference, { type: 'null' }],
        description: 'What it is about.',
      });
      assert.deepEqual(schemas.PinInput?.properties?.target, {
        $ref: '#/components/schemas/MemoOrLeadOrPinReference',
      });
      assert.deepEqual(schemas.PinInput?.required, ['target']);
      assert.equal(parameters['memos.subject']?.schema.items?.type, 'string');
      const expand = parameters['memos.expand']?.schema.items?.enum ?? [];
      for (const path of ['subject', 'subject.account_id', 'subject.cases', 'subject.memos'])
        assert.ok(expand.includes(path), path);
      const { description } = parameters['memos.expand'] as { description?: string };
      assert.match(String(description), / `subject\.account_id`: only for contacts, opportunities\./);
      assert.match(String(description), / `subject\.cases`: only for contacts\./);
      const source = clientSource(document);
      for (const line of [
        `export interface ${name} {`,
        "  readonly resource: 'leads' | 'contacts' | 'opportunities';",
        '  readonly id: bigint;',
        `  readonly subject: ${name} | null;`,
        `  readonly subject?: ${name}Input | null;`,
        '    readonly subject: crm.RelationsOfAny<LeadTypes | ContactTypes | OpportunityTypes>;',
        "    readonly subject: (Lead & { readonly resource: 'leads' }) | (Contact & { readonly resource: 'contacts' }) | (Opportunity & { readonly resource: 'opportunities' }) | null;",
      ])
        assert.ok(source.includes(`${line}\n`), line);
      const [, numbers, references] =
        /\n {2}memos: \{\n {4}numbers: (.*),\n {4}references: (.*),\n/.exec(source) ?? [];
      assert.match(String(numbers), / subject: \{ id: 'int64' \}/);
      assert.equal(references, "{ subject: ['leads', 'contacts', 'opportunities'] }");
    });
  },
  { sources: await sourcesWith(...memos, ...overlays) },
);
