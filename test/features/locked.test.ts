// Locked records: writes to them and to their writable children are rejected in the statement that writes.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { purgeValues } from '../../plugins/tenants/custom-fields/retention.ts';
import { deleteOrganization } from '../../plugins/tenants/organizations/remove.ts';
import { purgeStep } from '../../plugins/tenants/trash/purge.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, readable, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { logIn, makePerson } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';
import { whileUncommitted } from '../support/uncommitted.ts';

const message = 'Paid invoices cannot be changed.';

const sources = [
  {
    file: 'customers.yaml',
    text: `
singular: customer
common: [id, organization_id]
fields:
  name: { type: string }
filters: [name]
`,
  },
  {
    file: 'buyers.yaml',
    text: `
singular: buyer
common: [id, organization_id]
fields:
  name: { type: string }
trash: 1 day
`,
  },
  {
    file: 'invoices.yaml',
    text: `
singular: invoice
common: all
fields:
  number: { type: string, unique: true }
  note: { type: string }
  hidden: { type: string, group: secret }
  customer_id: { type: reference, to: customers, nullable: true }
  agency_id: { type: reference, to: customers, nullable: true, on_delete: cascade }
  buyer_id: { type: reference, to: buyers, nullable: true }
  tag_ids: { type: references, to: customers }
  state: { type: string, enum: [draft, paid, refunded], closed: true, default: draft, initial: [paid], transitions: { draft: [paid], paid: [refunded], refunded: [draft] } }
  total: { type: number, rollup: { sum: amount, of: lines, by: invoice_id, stored: true } }
  received: { type: number, rollup: { sum: amount, of: payments, by: invoice_id, stored: true } }
locked: { when: state == "paid", message: ${message} }
trash: 30 days
custom_fields: true
scopes: { own: note == "mine" }
children: { lines: { of: lines, by: invoice_id, writable: true } }
`,
  },
  {
    file: 'lines.yaml',
    text: `
singular: line
common: [id, organization_id]
fields:
  invoice_id: { type: reference, to: invoices, nullable: true, on_delete: cascade }
  code: { type: string, unique: true }
  amount: { type: number, default: 0 }
`,
  },
  {
    file: 'payments.yaml',
    text: `
singular: payment
common: [id, organization_id]
fields:
  invoice_id: { type: reference, to: invoices, nullable: true }
  amount: { type: number, default: 0 }
`,
  },
  {
    file: 'orders.yaml',
    text: `
singular: order
common: [id, organization_id]
fields:
  closed: { type: boolean, default: false }
  step: { type: string, enum: [packed, sent], closed: true, nullable: true, initial: [packed], transitions: { packed: [sent], sent: [] } }
  receipt: { type: string, enum: [signed], closed: true, nullable: true, initial: [signed], transitions: { signed: [] } }
locked: { when: closed, message: Closed orders cannot be changed. }
children: { items: { of: items, by: order_id, writable: true }, parcels: { of: parcels, by: order_id, writable: true } }
`,
  },
  {
    file: 'parcels.yaml',
    text: `
singular: parcel
common: [id, organization_id]
fields:
  order_id: { type: reference, to: orders, nullable: true }
  closed: { type: boolean, default: false }
  step: { type: string, enum: [packed, sent], closed: true, nullable: true, initial: [packed], transitions: { packed: [sent], sent: [] } }
  receipt: { type: string, enum: [signed], closed: true, nullable: true, initial: [signed], transitions: { signed: [] } }
locked: { when: closed, message: Closed parcels cannot be changed. }
`,
  },
  {
    file: 'items.yaml',
    text: `
singular: item
common: [id, organization_id]
fields:
  order_id: { type: reference, to: orders, nullable: true }
  maker_id: { type: reference, to: customers, nullable: true }
  step: { type: string, enum: [made, used], closed: true, nullable: true, initial: [made], transitions: { made: [used] } }
  parts: { type: integer, rollup: { count: true, of: parts, by: item_id, stored: true } }
trash: 1 day
`,
  },
  {
    file: 'parts.yaml',
    text: `
singular: part
common: [id, organization_id]
fields:
  item_id: { type: reference, to: items, nullable: true }
`,
  },
  {
    file: 'periods.yaml',
    text: `
singular: period
common: [id, organization_id]
fields:
  name: { type: string }
  closed: { type: boolean, default: false, group: secret }
locked: { when: closed, message: Closed periods cannot be changed. }
`,
  },
];

onBothDrivers(
  'locked records',
  (instance) => {
    let acme: Organization;
    let count = 0;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const send = (request: string, body?: unknown, call: Call = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), { key: acme.key, body, ...call });
    const create = async (path: string, body: object) => {
      const { status, json, text } = await send(`POST /${path}`, body);
      assert.equal(status, 201, text);
      return Number(json.id);
    };
    const next = () => `n${++count}`;
    /** Creates an invoice with a line. */
    const invoice = async (body: object = {}) => {
      const id = await create('invoices', { number: next(), lines: [{ code: next(), amount: 5 }], ...body });
      const { json } = await send(`GET /invoices/${id}?expand=lines`);
      const { lines } = json.expanded as { lines: { data: readonly { id: number; code: string }[] } };
      const [line] = lines.data;
      assert(line !== undefined);
      return { id, line: line.id, code: line.code, number: String(json.number) };
    };
    const paid = (body: object = {}) => invoice({ state: 'paid', ...body });
    const assertLocked = (answer: Awaited<ReturnType<typeof send>>, text = message) =>
      assert.deepEqual(
        [answer.status, answer.json.code, answer.json.error],
        [409, 'locked', text],
        answer.text,
      );
    const resultsOf = ({ json, text }: Awaited<ReturnType<typeof send>>) => {
      assert(Array.isArray(json.results), text);
      return (json.results as readonly { status: number; code?: string }[]).map(({ status, code }) =>
        code === undefined ? status : `${status} ${code}`,
      );
    };

    test('updates and deletes of a locked record are rejected, and other records can be written', async () => {
      const { id, number } = await paid({ note: 'a' });
      const open = await invoice();
      for (const [request, body] of [
        [`PATCH /invoices/${id}`, { note: 'b' }],
        [`PATCH /invoices/${id}`, { note: 'a' }],
        [`PATCH /invoices/${id}`, { custom: {} }],
        [`PATCH /invoices/${id}`, { state: 'paid' }],
        [`PATCH /invoices/${id}`, { state: 'refunded', note: 'b' }],
        [`PUT /invoices/${id}`, { number, note: 'b', state: 'paid' }],
        [`DELETE /invoices/${id}`, undefined],
      ] as const)
        assertLocked(await send(request, body));
      const { json } = await send(`GET /invoices/${id}`);
      assert.deepEqual([json.note, json.state], ['a', 'paid']);
      assert.equal((await send(`PATCH /invoices/${open.id}`, { note: 'b' })).status, 200);
      assert.equal((await send(`PATCH /invoices/${open.id}`, { state: 'paid', note: 'c' })).status, 200);
      assertLocked(await send(`PATCH /invoices/${open.id}`, { note: 'd' }));
    });

    test('a transition that is the only change is allowed', async () => {
      const { id, number } = await paid({ note: 'a' });
      const rejected = await send(`PATCH /invoices/${id}`, { state: 'draft' });
      assert.deepEqual([rejected.status, rejected.json.code], [409, 'invalid_transition']);
      assertLocked(await send(`PATCH /invoices/${id}`, { state: 'refunded', lines: [] }));
      assertLocked(await send(`PATCH /invoices/${id}`, { lines: [] }));
      const whole = { number, note: 'a', state: 'refunded' };
      assert.equal((await send(`PUT /invoices/${id}`, whole)).status, 200);
      assert.equal((await send(`PATCH /invoices/${id}`, { note: 'b', lines: [] })).status, 200);
    });

    test('a user other than the last editor can make a transition', async () => {
      const { id } = await paid();
      const person = await makePerson(instance(), [{ organization: acme }]);
      const { token } = await logIn(instance(), person);
      const changed = await send(`PATCH /invoices/${id}`, { state: 'refunded' }, { key: token });
      assert.deepEqual([changed.status, changed.json.last_modified_by_id], [200, Number(person.id)]);
    });

    test('a request can lock a record and write its children', async () => {
      const { id, line } = await invoice();
      const body = {
        state: 'paid',
        lines: [
          { id: line, amount: 7 },
          { code: next(), amount: 1 },
        ],
      };
      const { status, json, text } = await send(`PATCH /invoices/${id}`, body);
      assert.deepEqual([status, json.total], [200, 8], text);
      assertLocked(await send(`PATCH /invoices/${id}`, body));
    });

    test('children of a locked record cannot be written through their own endpoints', async () => {
      const { id, line, code } = await paid();
      const other = await invoice();
      const trashed = await send(`DELETE /invoices/${(await invoice()).id}`);
      assert.equal(trashed.status, 200);
      for (const [request, body] of [
        ['POST /lines', { code: next(), invoice_id: id }],
        [`PATCH /lines/${line}`, { amount: 6 }],
        [`PATCH /lines/${line}`, { amount: 5 }],
        [`PATCH /lines/${line}`, { invoice_id: other.id }],
        [`PATCH /lines/${other.line}`, { invoice_id: id }],
        [`PUT /lines/${line}`, { code, amount: 6 }],
        [`DELETE /lines/${line}`, undefined],
      ] as const)
        assertLocked(await send(request, body));
      assert.equal((await send(`PATCH /lines/${other.line}`, { amount: 6 })).status, 200);
      assert.equal((await send(`GET /invoices/${id}`)).json.total, 5);
      assert.equal((await send(`GET /invoices/${other.id}`)).json.total, 6);
    });

    test('batches, upserts and imports report each locked record', async () => {
      const [locked, open] = [await paid(), await invoice()];
      const batch = (request: string, body: object) => send(request, { on_error: 'continue', ...body });
      const patch = [locked, open].map(({ id }) => ({ id, note: 'b' }));
      assert.deepEqual(resultsOf(await batch('PATCH /invoices/batch', { records: patch })), [
        '409 locked',
        200,
      ]);
      const upsert = [locked, open].map(({ number }) => ({ number, note: 'c' }));
      assert.deepEqual(
        resultsOf(await batch('POST /invoices/batch', { match: ['number'], records: upsert })),
        ['409 locked', 200],
      );
      const lines = [locked, open].map(({ id }) => ({ code: next(), invoice_id: id }));
      assert.deepEqual(resultsOf(await batch('POST /lines/batch', { records: lines })), ['409 locked', 201]);
      const changed = [locked, open].map(({ line }) => ({ id: line, amount: 9 }));
      assert.deepEqual(resultsOf(await batch('PATCH /lines/batch', { records: changed })), [
        '409 locked',
        200,
      ]);
      const removed = { ids: [locked.line, open.line] };
      assert.deepEqual(resultsOf(await batch('DELETE /lines/batch', removed)), ['409 locked', 200]);
      const imported = await send(
        'POST /invoices/import?match=number&on_error=continue',
        `number,note\n${locked.number},d\n${open.number},d\n`,
        {
          headers: { 'content-type': 'text/csv' },
        },
      );
      assert.equal(imported.json.failed, 1, imported.text);
      assert.match(imported.text, /Paid invoices cannot be changed/);
      const ids = { ids: [locked.id, open.id] };
      assert.deepEqual(resultsOf(await batch('DELETE /invoices/batch', ids)), ['409 locked', 200]);
      const stopped = await send('PATCH /invoices/batch', { records: patch.slice(0, 1) });
      assert.equal(stopped.status, 400);
      const { json } = await send(`GET /invoices/${locked.id}`);
      assert.deepEqual([json.note, json.total], ['', 5]);
    });

    test('a delete cannot delete or change locked records through references', async () => {
      const [customer, agency, tag] = [
        await create('customers', { name: 'a' }),
        await create('customers', { name: 'b' }),
        await create('customers', { name: 'c' }),
      ];
      const { id } = await paid({ customer_id: customer, agency_id: agency, tag_ids: [tag] });
      for (const target of [customer, agency, tag]) assertLocked(await send(`DELETE /customers/${target}`));
      const ids = { ids: [customer, agency, tag], on_error: 'continue' };
      assert.deepEqual(resultsOf(await send('DELETE /customers/batch', ids)), [
        '409 locked',
        '409 locked',
        '409 locked',
      ]);
      assert.equal((await send(`PATCH /invoices/${id}`, { state: 'refunded' })).status, 200);
      for (const target of [customer, tag, agency])
        assert.equal((await send(`DELETE /customers/${target}`)).status, 200);
      assert.equal((await send(`GET /invoices/${id}`)).status, 404);
    });

    test('stored rollups over other records change', async () => {
      const { id } = await paid();
      const payment = await create('payments', { invoice_id: id, amount: 3 });
      assert.equal((await send(`GET /invoices/${id}`)).json.received, 3);
      assert.equal((await send(`PATCH /payments/${payment}`, { amount: 4 })).status, 200);
      assert.equal((await send(`DELETE /payments/${payment}`)).status, 200);
      assert.equal((await send(`GET /invoices/${id}`)).json.received, 0);
    });

    test('records in the trash are not locked, and their children return with them', async () => {
      const { id, line } = await invoice();
      assert.equal((await send(`DELETE /invoices/${id}`)).status, 200);
      await sql`update invoices set state = 'paid' where id = ${id}`.execute(tablesOf(instance().database));
      assert.equal((await send(`POST /invoices/${id}/restore`)).status, 200);
      assertLocked(await send(`PATCH /lines/${line}`, { amount: 1 }));
      assertLocked(await send(`DELETE /invoices/${id}`));
    });

    test('children of a locked record neither move to the trash nor return from it, and expired ones are deleted', async () => {
      const closed = 'Closed orders cannot be changed.';
      const order = await create('orders', {});
      const maker = await create('customers', { name: 'maker' });
      const [kept, trashed] = [
        await create('items', { order_id: order }),
        await create('items', { order_id: order, maker_id: maker }),
      ];
      assert.equal((await send(`DELETE /items/${trashed}`)).status, 200);
      assert.equal((await send(`PATCH /orders/${order}`, { closed: true })).status, 200);
      assertLocked(await send(`DELETE /items/${kept}`), closed);
      assertLocked(await send(`POST /items/${trashed}/restore`), closed);
      // What happens to a child in the trash is not a change to the order.
      assert.equal((await send(`DELETE /customers/${maker}`)).status, 200);
      // A stored rollup of a child is not a change to the child.
      await create('parts', { item_id: kept });
      assert.equal((await send(`GET /items/${kept}`)).json.parts, 1);
      const { database, resources } = instance();
      const tables = tablesOf(database);
      await sql`update items set "_trashed_at" = now() - interval '2 days' where id = ${trashed}`.execute(
        tables,
      );
      const items = resources.find(({ name }) => name === 'items');
      assert(items !== undefined);
      await purgeStep(database, items)(tables);
      const { rows } = await sql`select id from items where order_id = ${order}`.execute(tables);
      assert.deepEqual(rows, [{ id: String(kept) }]);
    });

    test('hand-written SQL cannot change locked records', async () => {
      const { id, line } = await paid();
      const tables = tablesOf(instance().database);
      for (const statement of [
        sql`update invoices set note = 'x' where id = ${id}`,
        sql`delete from invoices where id = ${id}`,
        sql`update lines set amount = 1 where id = ${line}`,
        sql`delete from lines where id = ${line}`,
      ])
        await assert.rejects(statement.execute(tables), /This invoice is locked and cannot be changed/);
    });

    test('a writer that waits for another writer sees the state that it stored', async () => {
      // The embedded database runs one transaction at a time.
      if (instance().driver === 'embedded') return;
      const writers: readonly ((ids: { id: number; line: number }) => ReturnType<typeof send>)[] = [
        ({ id }) => send(`PATCH /invoices/${id}`, { note: 'late' }),
        ({ id }) => send(`DELETE /invoices/${id}`),
        ({ id }) => send(`PATCH /invoices/${id}`, { lines: [] }),
        ({ id }) => send('POST /lines', { code: next(), invoice_id: id }),
        ({ line }) => send(`PATCH /lines/${line}`, { amount: 1 }),
        ({ line }) => send(`DELETE /lines/${line}`),
      ];
      for (const write of writers) {
        const ids = await invoice();
        const paying = [`update invoices set state = 'paid' where id = ${ids.id}`];
        assertLocked(await whileUncommitted(instance(), paying, () => write(ids)));
        const { json } = await send(`GET /invoices/${ids.id}`);
        assert.deepEqual([json.note, json.total], ['', 5]);
      }
    });

    test('a caller that cannot see a record does not learn that it is locked', async () => {
      const [mine, theirs] = [await paid({ note: 'mine' }), await paid()];
      const key = await acme.keyWith([
        { object: 'invoices', actions: ['read:own', 'update:own', 'delete:own'] as never },
        { object: 'periods', actions: ['*'] as never },
      ]);
      assertLocked(await send(`PATCH /invoices/${mine.id}`, { number: 'x' }, { key }));
      for (const [method, body] of [
        ['PATCH', { number: 'x' }],
        ['PATCH', { lines: [] }],
        ['DELETE', undefined],
      ] as const)
        assert.equal((await send(`${method} /invoices/${theirs.id}`, body, { key })).status, 404);
      const permissions = await instance().call(`GET /auth/permissions?resource=invoices&id=${theirs.id}`, {
        key,
      });
      assert.equal(permissions.status, 404);
      // The message would reveal a field that the caller cannot read.
      const period = await create('periods', { name: 'a', closed: true });
      assertLocked(
        await send(`PATCH /periods/${period}`, { name: 'b' }, { key }),
        'This period is locked and cannot be changed',
      );
      assertLocked(
        await send(`PATCH /periods/${period}`, { name: 'b' }),
        'Closed periods cannot be changed.',
      );
    });

    test('/auth/permissions says why a record is locked', async () => {
      const { id, line } = await paid();
      const permissionsOn = async (resource: string, record: number) => {
        const { json } = await instance().call(`GET /auth/permissions?resource=${resource}&id=${record}`, {
          key: acme.key,
        });
        return (
          json.resources as Readonly<
            Record<string, { actions: object; locked?: string; fields: { writable: readonly string[] } }>
          >
        )[resource];
      };
      const permissions = await permissionsOn('invoices', id);
      assert.deepEqual(permissions?.locked, message);
      assert.partialDeepStrictEqual(permissions?.actions, {
        read: { allowed: true },
        update: { allowed: true },
        delete: { allowed: false, reason: message },
      });
      assert.deepEqual(permissions?.fields.writable, ['state']);
      const ofLine = await permissionsOn('lines', line);
      assert.partialDeepStrictEqual(ofLine?.actions, { update: { allowed: false, reason: message } });
      assert.deepEqual(ofLine?.fields.writable, []);
      const open = await invoice();
      assert.equal((await permissionsOn('invoices', open.id))?.locked, undefined);
      assert.equal((await permissionsOn('lines', open.line))?.locked, undefined);
      // A field can change only if its transitions lead somewhere, and never in a child of a locked record.
      const order = await create('orders', {});
      const item = await create('items', { order_id: order });
      // A child can be locked even if the record to which it belongs is not.
      const parcel = await create('parcels', { order_id: await create('orders', {}) });
      for (const [resource, record] of [
        ['orders', order],
        ['parcels', parcel],
      ] as const) {
        const set = async (body: object) => {
          const answer = await send(`PATCH /${resource}/${record}`, body);
          assert.equal(answer.status, 200, answer.text);
        };
        const writable = async () => (await permissionsOn(resource, record))?.fields.writable;
        await set({ closed: true });
        assert.deepEqual(await writable(), ['step', 'receipt'], resource);
        for (const [change, names] of [
          [{ step: 'packed' }, ['step', 'receipt']],
          [{ step: 'sent' }, ['receipt']],
          [{ receipt: 'signed' }, []],
        ] as const) {
          await set(change);
          assert.deepEqual(await writable(), names, resource);
        }
      }
      assert.deepEqual((await permissionsOn('items', item))?.fields.writable, []);
    });

    test("a locked record's page shows the reason instead of buttons", async () => {
      const browser = await signIn(instance(), administratorOf(acme));
      const base = '/setup/o/acme/data/invoices';
      const { id } = await paid();
      const open = await invoice();
      const { text } = await browser.get(`${base}/${id}`);
      assert(readable(text).includes(message));
      assert(!text.includes(`${base}/${id}/edit"`) && !text.includes(`${base}/${id}/delete`));
      assert(!text.includes(`${base}/${id}/merge`) && !text.includes(`${base}/${id}/undo`));
      assert(readable(text).includes('?edit=state'));
      assert(!readable(text).includes('?edit=note'));
      const other = await browser.get(`${base}/${open.id}`);
      assert(!other.text.includes(message) && other.text.includes(`${base}/${open.id}/edit`));
      assert(other.text.includes(`${base}/${open.id}/merge`));
      const line = await browser.get(`/setup/o/acme/data/lines/${(await paid()).line}`);
      assert(readable(line.text).includes(message) && !line.text.includes('/edit"'));
    });

    test('a record in the trash to which a locked record refers stays there', async () => {
      const buyer = await create('buyers', { name: 'a' });
      const { id } = await paid({ buyer_id: buyer });
      assert.equal((await send(`DELETE /buyers/${buyer}`)).status, 200);
      const { database, resources } = instance();
      const tables = tablesOf(database);
      await sql`update buyers set "_trashed_at" = now() - interval '2 days'`.execute(tables);
      const buyers = resources.find(({ name }) => name === 'buyers');
      assert(buyers !== undefined);
      const purged = async () => {
        await purgeStep(database, buyers)(tables);
        return (await sql`select from buyers where id = ${buyer}`.execute(tables)).rows.length === 0;
      };
      assert.equal(await purged(), false);
      const browser = await signIn(instance(), administratorOf(acme));
      const form = `/setup/o/acme/data/buyers/${buyer}/purge`;
      const rejected = await browser.submit(form, form);
      assert.equal(rejected.status, 409);
      assert.match(readable(rejected.text), /Paid invoices cannot be changed/);
      assert.equal((await send(`GET /invoices/${id}`)).json.buyer_id, buyer);
      assert.equal((await send(`PATCH /invoices/${id}`, { state: 'refunded' })).status, 200);
      assert.equal(await purged(), true);
    });

    test('values of deleted custom fields are also deleted in locked records', async () => {
      const fields = (request: string, body?: object) =>
        instance().call(request.replace(' ', ' /fields/invoices'), { key: acme.key, body });
      assert.equal((await fields('POST ', { name: 'memo', type: 'string' })).status, 201);
      const { id } = await paid({ custom: { memo: 'x' } });
      assert.equal((await fields('DELETE /memo')).status, 200);
      const tables = tablesOf(instance().database);
      await sql`update crm_custom_fields set deleted_at = now() - interval '31 days' where name = 'memo'`.execute(
        tables,
      );
      await purgeValues({ name: 'invoices' })(tables);
      const { rows } = await sql`select custom::text from invoices where id = ${id}`.execute(tables);
      assert.deepEqual(rows, [{ custom: '{}' }]);
    });

    test('an erasure deletes what locked records refer to', async () => {
      const customer = await create('customers', { name: 'Zoe Quillfeather' });
      const agency = await create('customers', { name: 'Agency Quillfeather' });
      const [cleared, deleted] = [await paid({ customer_id: customer }), await paid({ agency_id: agency })];
      for (const name of ['Zoe Quillfeather', 'Agency Quillfeather'])
        await runCommand(instance(), [
          'person',
          'forget',
          ...['--org', acme.slug, '--records', `customers?name=${name}`, '--erase'],
        ]);
      const { json } = await send(`GET /invoices/${cleared.id}`);
      assert.deepEqual([json.customer_id, json.state], [null, 'paid']);
      assert.equal((await send(`GET /invoices/${deleted.id}`)).status, 404);
    });

    test('an organization with locked records can be deleted', async () => {
      const gone = await instance().organization('gone');
      const { status } = await send(
        'POST /invoices',
        { number: '1', state: 'paid', lines: [{ code: '1' }] },
        { key: gone.key },
      );
      assert.equal(status, 201);
      await deleteOrganization(instance().database, gone.id);
      const { rows } = await sql`select from lines where organization_id = ${gone.id}`.execute(
        tablesOf(instance().database),
      );
      assert.deepEqual(rows, []);
    });
  },
  { sources: await sourcesWith(...sources) },
);
