// Sequences: fields whose values number the records of each organization.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { sourcesWith } from '../support/sources.ts';

const secret = 'the-inbound-secret';
const { environment } = settingsFile(
  { partners: { inbound_leads: { secrets: ['${INBOUND_SECRET}'] } } },
  { INBOUND_SECRET: secret },
);

const tickets = {
  file: 'tickets.yaml',
  text: `
singular: ticket
common: all
fields:
  number: { type: string, sequence: "T-{year}-{0000}" }
  name: { type: string, max_length: 20 }
  code: { type: string, unique: true }
  project_id: { type: reference, to: projects, nullable: true }
filters: [{ field: number, operators: [eq, in, starts_with] }]
search: [number]
`,
};

const projects = {
  file: 'projects.yaml',
  text: `
singular: project
common: all
fields:
  code: { type: string, sequence: "{0}/it's" }
  name: { type: string, required: true }
trash: 30 days
children: { tickets: { of: tickets, by: project_id, writable: true } }
`,
};

const leads = {
  file: 'leads-extended.yaml',
  text: `
extends: leads
fields: { reference: { type: string, sequence: "L{000000}" } }
`,
};

/** Returns a resource of numbered records. */
const numbered = (singular: string, sequence: string) => ({
  file: `${singular}s.yaml`,
  text: `
singular: ${singular}
common: all
fields: { number: { type: string, sequence: "${sequence}" } }
`,
});

/** A field whose records were numbered by hand before it got a sequence. */
const invoices = numbered('invoice', 'R-{00}');
const receipts = numbered('receipt', '{000}/{year}');

type Json = Readonly<Record<string, unknown>>;

onBothDrivers(
  'sequence',
  (instance) => {
    let year = '';
    let next = 0;
    const organizations: Organization[] = [];
    before(async () => {
      const { rows } = await run(`select to_char(now() at time zone 'UTC', 'YYYY') as year`);
      year = String(rows[0]?.year);
    });
    /** Returns a new organization, whose records are numbered from 1. */
    const create = async (): Promise<Organization> => {
      const organization = await instance().organization(`org-${++next}`);
      organizations.push(organization);
      return organization;
    };
    const run = (text: string) => sql.raw<Json>(text).execute(tablesOf(instance().database));
    const sender =
      ({ key }: Organization) =>
      (request: string, body?: unknown, call: Call = {}) =>
        instance().call(request.replace(' /', ' /api/v1/'), { key, body, ...call });
    const t = (...numbers: number[]) => numbers.map((n) => `T-${year}-${String(n).padStart(4, '0')}`);
    const numbersOf = async ({ slug }: Organization): Promise<unknown[]> => {
      const { rows } = await run(
        `select number from tickets where organization_id = (select id from crm_organizations where slug = '${slug}') order by id`,
      );
      return rows.map(({ number }) => number);
    };

    test('each organization has its own numbers', async () => {
      const [acme, globex] = [await create(), await create()];
      const first = await sender(acme)('POST /tickets', { name: 'a', number: 'mine' });
      assert.equal(first.status, 201, first.text);
      assert.equal(first.json.number, t(1)[0]);
      await sender(acme)('POST /tickets', {});
      assert.equal((await sender(globex)('POST /tickets', {})).json.number, t(1)[0]);
      assert.deepEqual(await numbersOf(acme), t(1, 2));
      const strict = await sender(acme)(
        'POST /tickets',
        { number: 'mine' },
        { headers: { prefer: 'handling=strict' } },
      );
      assert.deepEqual(strict.json.fields, [{ field: 'number', message: 'number is read-only' }]);
    });

    test('updates keep the number, and requests find records by it', async () => {
      const send = sender(await create());
      const { json } = await send('POST /tickets', { name: 'a' });
      await send('POST /tickets', { name: 'b' });
      assert.equal(
        (await send(`PATCH /tickets/${json.id}`, { name: 'c', number: 'x' })).json.number,
        t(1)[0],
      );
      assert.equal((await send(`PUT /tickets/${json.id}`, { name: 'd' })).json.number, t(1)[0]);
      for (const query of [`number=${t(1)}`, `number[starts_with]=${t(1)}`, `q=${t(1)}`]) {
        const { json: page, text } = await send(`GET /tickets?${query}`);
        assert.deepEqual(
          (page.data as Json[]).map(({ name }) => name),
          ['d'],
          text,
        );
      }
    });

    test('rejected writes, dry runs and repeated requests take no number', async () => {
      const organization = await create();
      const send = sender(organization);
      const call = { headers: { 'idempotency-key': 'once' } };
      const first = await send('POST /tickets', { code: 'x' }, call);
      assert.deepEqual((await send('POST /tickets', { code: 'x' }, call)).json, first.json);
      assert.equal((await send('POST /tickets', { code: 'x' })).status, 409);
      assert.equal((await send('POST /tickets', { project_id: 1_000_000 })).status, 400);
      assert.equal(
        (await send('POST /tickets/batch', { records: [{ code: 'y' }, { code: 'x' }] })).status,
        400,
      );
      const dry = await send('POST /tickets/import?dry_run=true', undefined, {
        body: 'name\r\na\r\n',
        headers: { 'content-type': 'text/csv' },
      });
      assert.equal(dry.status, 200, dry.text);
      await send('POST /tickets', {});
      assert.deepEqual(await numbersOf(organization), t(1, 2));
    });

    test('batches and imports number their records in order', async () => {
      const organization = await create();
      const send = sender(organization);
      const call = { headers: { 'idempotency-key': 'batch' } };
      for (const _ of [1, 2]) {
        const { status, text } = await send('POST /tickets/batch', { records: [{}, {}, {}] }, call);
        assert.equal(status, 200, text);
      }
      const partial = await send('POST /tickets/batch', {
        on_error: 'continue',
        records: [{ name: 'x'.repeat(21) }, { project_id: 1_000_000 }, { code: 'a' }],
      });
      assert.equal(partial.status, 200, partial.text);
      const imported = await send('POST /tickets/import', undefined, {
        body: 'number,name\r\nT-1,a\r\nT-2,b\r\n',
        headers: { 'content-type': 'text/csv' },
      });
      assert.equal(imported.status, 200, imported.text);
      assert.deepEqual(await numbersOf(organization), t(1, 2, 3, 4, 5, 6));
    });

    test('an upsert numbers only new records, in the order of the request', async () => {
      const organization = await create();
      const send = sender(organization);
      await send('POST /tickets', { code: 'm' });
      const upsert = (...codes: string[]) =>
        send('POST /tickets/batch', {
          match: ['code'],
          records: codes.map((code) => ({ code, name: code })),
        });
      const { status, text } = await upsert('z', 'm', 'a');
      assert.equal(status, 200, text);
      await upsert('z', 'm', 'a');
      const { json } = await send('GET /tickets?fields=code,number&sort=id');
      assert.deepEqual(Object.fromEntries((json.data as Json[]).map(({ code, number }) => [code, number])), {
        m: t(1)[0],
        z: t(2)[0],
        a: t(3)[0],
      });
    });

    test('children and partner endpoints number their records', async () => {
      const organization = await create();
      const send = sender(organization);
      const { status, json, text } = await send('POST /projects', { name: 'House', tickets: [{}, {}] });
      assert.equal(status, 201, text);
      assert.equal(json.code, "1/it's");
      assert.deepEqual(await numbersOf(organization), t(1, 2));
      const failed = await send('POST /projects', {
        name: 'Shed',
        tickets: [{ project_id: 1 }, { code: 'a' }, { code: 'a' }],
      });
      assert.notEqual(failed.status, 201);
      assert.equal((await send('POST /projects', { name: 'Barn', tickets: [] })).json.code, "2/it's");
      const lead = await instance().call('POST /webhooks/inbound-leads', {
        body: { first_name: 'Ada', email: 'ada@example.org' },
        headers: { 'x-inbound-secret': secret },
      });
      assert.equal(lead.status, 201, lead.text);
      const { rows } = await run(`select reference from leads where id = ${lead.json.id}`);
      assert.deepEqual(rows, [{ reference: 'L000001' }]);
    });

    test('concurrent requests of several organizations never share a number', async () => {
      const [acme, globex] = [await create(), await create()];
      const writes = Array.from({ length: 60 }, (_, index) => {
        const organization = index % 6 === 0 ? globex : acme;
        const send = sender(organization);
        if (index % 10 === 9) return send('POST /tickets/batch', { records: [{}, {}, {}, {}] });
        return index % 10 === 8
          ? send('POST /projects', { name: 'p', tickets: [{}, {}] })
          : send('POST /tickets', {});
      });
      for (const { status, text } of await Promise.all(writes)) assert.ok(status < 300, text);
      for (const organization of [acme, globex]) {
        const numbers = await numbersOf(organization);
        assert.deepEqual(numbers.toSorted(), t(...numbers.map((_, index) => index + 1)));
      }
      assert.ok((await numbersOf(acme)).length >= 50);
    });

    test('undo and restore keep the number', async () => {
      const organization = await create();
      const send = sender(organization);
      const browser = await signIn(instance(), administratorOf(organization));
      const ids: unknown[] = [];
      for (const name of ['a', 'b']) ids.push((await send('POST /tickets', { name })).json.id);
      const base = `/setup/o/${organization.slug}/data/tickets`;
      assert.equal((await send(`DELETE /tickets/${ids[1]}`)).status, 200);
      const { rows } = await run(
        `select transaction || '-' || id as position from crm_ledger where object = 'tickets' and object_id = ${ids[1]} and action = 'delete'`,
      );
      const change = String(rows[0]?.position);
      const undo = `${base}/${ids[1]}/undo`;
      const undone = await browser.submit(`${undo}?change=${change}`, undo, { change });
      assert.equal(undone.status, 303, undone.text);
      await send('POST /tickets', { name: 'c' });
      assert.deepEqual(await numbersOf(organization), t(1, 2, 3));

      const project = (await send('POST /projects', { name: 'p' })).json;
      await send(`DELETE /projects/${project.id}`);
      assert.equal((await send('POST /projects', { name: 'q' })).json.code, "2/it's");
      assert.equal((await send(`POST /projects/${project.id}/restore`)).json.code, "1/it's");
    });

    test('a merge keeps the number of the record, and undoing it the number of the other one', async () => {
      const organization = await create();
      const send = sender(organization);
      const [id, from] = [
        (await send('POST /tickets', {})).json.id,
        (await send('POST /tickets', {})).json.id,
      ];
      await run(`update tickets set number = null where id = ${id}`);
      assert.equal((await send(`POST /tickets/${id}/merge`, { from })).json.number, null);
      await send('POST /tickets', {});
      const undone = await send(`POST /tickets/${id}/unmerge`, { from });
      assert.equal(undone.status, 200, undone.text);
      await send('POST /tickets', {});
      assert.deepEqual(await numbersOf(organization), [null, ...t(2, 3, 4)]);
    });

    test('numbers grow beyond their digits and continue after existing values', async () => {
      const organization = await create();
      const send = sender(organization);
      const { json } = await send('POST /invoices', {});
      assert.equal(json.number, 'R-01');
      await run(
        `update crm_sequences set value = 98 where organization_id = ${json.organization_id} and field = 'invoices.number'`,
      );
      assert.equal((await send('POST /invoices', {})).json.number, 'R-99');
      assert.equal((await send('POST /invoices', {})).json.number, 'R-100');

      await run(`delete from crm_sequences where organization_id = ${json.organization_id}`);
      await run(`update invoices set number = 'R-250' where id = ${json.id}`);
      const [first, second] = await Promise.all([send('POST /invoices', {}), send('POST /invoices', {})]);
      assert.deepEqual([first, second].map(({ json }) => json.number).toSorted(), ['R-251', 'R-252']);

      // A value written by hand is in the way.
      await run(`update invoices set number = 'R-253' where id = ${json.id}`);
      const conflict = await send('POST /invoices', {});
      assert.deepEqual([conflict.status, conflict.json.code], [409, 'duplicate'], conflict.text);
    });

    test('a sequence continues only after values of the organization in its format', async () => {
      const [acme, globex] = [await create(), await create()];
      const values = ['R-7', 'S-900', 'R-9x', 'R--8', 'R-', `R-${'9'.repeat(19)}`];
      for (const number of values) {
        const { json } = await sender(acme)('POST /invoices', {});
        await run(`update invoices set number = '${number}' where id = ${json.id}`);
      }
      const { json } = await sender(globex)('POST /invoices', {});
      assert.equal(json.number, 'R-01');
      await run(`update invoices set number = 'R-500' where id = ${json.id}`);
      await run(`delete from crm_sequences where field = 'invoices.number'`);
      assert.equal((await sender(acme)('POST /invoices', {})).json.number, 'R-08');
      assert.equal((await sender(globex)('POST /invoices', {})).json.number, 'R-501');
    });

    test('older records have no number, and a new year starts at 1', async () => {
      const organization = await create();
      const send = sender(organization);
      const { json } = await send('POST /tickets', {});
      await run(`update tickets set number = null where id = ${json.id}`);
      assert.equal((await send(`GET /tickets/${json.id}`)).json.number, null);
      await run(
        `update crm_sequences set period = '${Number(year) - 1}' where organization_id = ${json.organization_id}`,
      );
      assert.equal((await send('POST /tickets', {})).json.number, t(1)[0]);
    });

    test('a new year starts at 1 if the year follows the number', async () => {
      const send = sender(await create());
      const { json } = await send('POST /receipts', {});
      assert.equal(json.number, `001/${year}`);
      assert.equal((await send('POST /receipts', {})).json.number, `002/${year}`);
      const last = Number(year) - 1;
      const ofOrganization = `where organization_id = ${json.organization_id}`;
      await run(`update receipts set number = replace(number, '${year}', '${last}') ${ofOrganization}`);
      await run(`update crm_sequences set period = '${last}' ${ofOrganization} and period = '${year}'`);
      assert.equal((await send('POST /receipts', {})).json.number, `001/${year}`);
    });

    test('the API description explains the numbers', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const { schemas } = json.components as {
        schemas: Record<string, { properties: Record<string, Json> }>;
      };
      assert.deepEqual(schemas.Ticket?.properties.number, {
        type: ['string', 'null'],
        description:
          "Numbers the organization's records in the format `T-{year}-{0000}`. Null in records that are older than the numbering.",
        readOnly: true,
      });
      assert.equal(schemas.TicketInput?.properties.number, undefined);
    });

    test('deleting an organization deletes its sequences', async () => {
      const organization = organizations[0];
      assert.ok(organization);
      const { json } = await sender(organization)('POST /tickets', {});
      const count = async () =>
        (
          await run(
            `select count(*)::int as count from crm_sequences where organization_id = ${json.organization_id}`,
          )
        ).rows[0]?.count;
      assert.ok(Number(await count()) > 0);
      await runCommand(instance(), ['org', 'delete', organization.slug, '--yes', organization.slug]);
      assert.equal(await count(), 0);
    });
  },
  { sources: await sourcesWith(tickets, projects, leads, invoices, receipts), environment },
);
