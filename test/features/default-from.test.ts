// Defaults that the database calculates for new records.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { administratorOf, readable, signIn } from '../support/forms.ts';
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
  name: { type: string }
  code: { type: string, unique: true }
  project_id: { type: reference, to: projects, nullable: true }
  opened_on: { type: date, nullable: true, default_from: today }
  reply_by: { type: timestamp, nullable: true, default_from: 'now + duration("24h")' }
  starts_at: { type: timestamp, nullable: true }
  ends_at: { type: timestamp, nullable: true, default_from: starts_at }
  review_at: { type: timestamp, nullable: true, default_from: 'starts_at + duration("1h")' }
  price: { type: number, nullable: true }
  area: { type: number, nullable: true }
  price_m2: { type: number, nullable: true, default_from: price / area }
  is_large: { type: boolean, nullable: true, default_from: area > 100 }
  label: { type: string, nullable: true, default_from: name }
  agent_id: { type: user, nullable: true, default_from: me }
  sent: { type: int64 }
  score: { type: integer, nullable: true, max: 100, default_from: sent + 1 }
  copy: { type: integer, nullable: true, default_from: sent }
`,
};

const pages = {
  file: 'pages.yaml',
  text: `
singular: page
common: all
fields:
  name: { type: string }
  slug: { type: string, nullable: true, unique: true, default_from: name }
`,
};

const projects = {
  file: 'projects.yaml',
  text: `
singular: project
common: all
fields: { name: { type: string } }
children: { tickets: { of: tickets, by: project_id, writable: true } }
`,
};

const leads = {
  file: 'leads-extended.yaml',
  text: `
extends: leads
fields:
  answer_by: { type: timestamp, nullable: true, default_from: 'now + duration("1h")' }
  alias_name: { type: string, nullable: true, default_from: first_name }
`,
};

/** The calculated fields that do not depend on the time. */
const calculated = {
  ends_at: '2026-03-01T09:30:00+01:00',
  review_at: '2026-03-01T09:30:00Z',
  price_m2: 2.5,
  is_large: false,
  label: 'Roof',
  agent_id: null,
  score: 8,
};
const complete = { name: 'Roof', starts_at: '2026-03-01T09:30:00+01:00', price: 100, area: 40, sent: 7 };
const nulls = Object.fromEntries(
  [...Object.keys(calculated), 'opened_on', 'reply_by'].map((name) => [name, null]),
);

onBothDrivers(
  'default_from',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const send = (request: string, body?: unknown, call: Call = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), { key: acme.key, body, ...call });
    const run = (text: string) =>
      sql.raw<Record<string, unknown>>(text).execute(tablesOf(instance().database));
    const get = async (id: unknown) => (await send(`GET /tickets/${id}`)).json;
    const assertCalculated = (record: Readonly<Record<string, unknown>>) =>
      assert.deepEqual(
        Object.fromEntries(Object.keys(calculated).map((name) => [name, record[name]])),
        calculated,
      );
    const assertNull = (record: Readonly<Record<string, unknown>>) =>
      assert.deepEqual(Object.fromEntries(Object.keys(nulls).map((name) => [name, record[name]])), nulls);

    test('absent fields are calculated from the other fields', async () => {
      const { status, json, text } = await send('POST /tickets', complete);
      assert.equal(status, 201, text);
      assertCalculated(json);
      const { rows } = await run(
        `select reply_by = created_at + interval '24 hours' and opened_on = (created_at at time zone 'UTC')::date as matches from tickets where id = ${json.id}`,
      );
      assert.deepEqual(rows, [{ matches: true }]);
    });

    test('a request with an Idempotency-Key calculates them, too', async () => {
      const call = { headers: { 'idempotency-key': 'default-from' } };
      const { json } = await send('POST /tickets', complete, call);
      assertCalculated(json);
      assert.deepEqual((await send('POST /tickets', complete, call)).json, json);
    });

    test('values and nulls in the body are stored', async () => {
      const { json } = await send('POST /tickets', { ...complete, ...nulls });
      assertNull(json);
      const { json: other } = await send('POST /tickets', {
        ...complete,
        label: '',
        price_m2: 3,
        ends_at: '2026-03-02T00:00:00Z',
      });
      assert.deepEqual([other.label, other.price_m2, other.ends_at], ['', 3, '2026-03-02T00:00:00Z']);
    });

    test('missing values and division by zero give null', async () => {
      const { json: empty } = await send('POST /tickets', {});
      assert.deepEqual(
        [empty.ends_at, empty.review_at, empty.price_m2, empty.is_large, empty.label],
        [null, null, null, false, ''],
      );
      const { json: zero } = await send('POST /tickets', { price: 1, area: 0 });
      assert.equal(zero.price_m2, null);
      const { json: third } = await send('POST /tickets', { price: 1, area: 3 });
      assert.equal(third.price_m2, 0.3333333333333333);
    });

    test('updates do not calculate', async () => {
      const { json } = await send('POST /tickets', complete);
      const patched = await send(`PATCH /tickets/${json.id}`, { price: 200 });
      assert.equal(patched.json.price_m2, 2.5);
      const replaced = await send(`PUT /tickets/${json.id}`, complete);
      assertNull(replaced.json);
    });

    test('batches calculate for each new record', async () => {
      const { json, text } = await send('POST /tickets/batch', {
        records: [complete, { ...complete, ...nulls }, { ...complete, label: 'Wall', price: 50 }],
      });
      const ids = (json.results as { id: number }[]).map(({ id }) => id);
      assert.equal(ids.length, 3, text);
      const [first = {}, second = {}, third = {}] = await Promise.all(ids.map(get));
      assertCalculated(first);
      assertNull(second);
      assert.deepEqual([third.label, third.price_m2], ['Wall', 1.25]);
    });

    test('an upsert calculates for new records only', async () => {
      const upsert = async (body: object) =>
        (await send('POST /tickets/batch', { match: ['code'], records: [body] })).json.results as {
          id: number;
        }[];
      const [created] = await upsert({ ...complete, code: 'A-1' });
      assertCalculated(await get(created?.id));
      const [updated] = await upsert({ code: 'A-1', name: 'Door', price: 400 });
      assert.equal(updated?.id, created?.id);
      const record = await get(created?.id);
      assert.deepEqual([record.name, record.label, record.price_m2], ['Door', 'Roof', 2.5]);
    });

    test('an import calculates empty cells', async () => {
      const { status, text } = await send('POST /tickets/import', undefined, {
        body: 'code,name,price,area,price_m2\r\nI-1,Roof,100,40,\r\nI-2,Roof,100,40,7\r\n',
        headers: { 'content-type': 'text/csv' },
      });
      assert.equal(status, 200, text);
      const { rows } = await run(
        `select label, price_m2::text from tickets where code in ('I-1', 'I-2') order by code`,
      );
      assert.deepEqual(rows, [
        { label: 'Roof', price_m2: '2.5' },
        { label: 'Roof', price_m2: '7' },
      ]);
    });

    test('children written with their record are calculated', async () => {
      const { status, json, text } = await send('POST /projects', { name: 'House', tickets: [complete] });
      assert.equal(status, 201, text);
      const { data } = (json.expanded as { tickets: { data: Record<string, unknown>[] } }).tickets;
      assertCalculated(data[0] ?? {});
    });

    test('rules apply to calculated values', async () => {
      const { status, json } = await send('POST /tickets', { sent: 100 });
      assert.equal(status, 400);
      assert.deepEqual(json.fields, [{ field: 'score', message: 'score must be at most 100' }]);
      const batch = await send('POST /tickets/batch', {
        on_error: 'continue',
        records: [{ sent: 1 }, { sent: 100 }],
      });
      assert.match(batch.text, /score must be at most 100/);
      const overflow = await send('POST /tickets', { sent: 3_000_000_000 });
      assert.deepEqual(
        [overflow.status, overflow.json.score, overflow.json.copy],
        [201, null, null],
        overflow.text,
      );
      assert.equal((await send('POST /tickets', { sent: 7 })).json.copy, 7);
    });

    test('calculated values are unique', async () => {
      const { json: first } = await send('POST /pages', { name: 'home' });
      const duplicate = await send('POST /pages', { name: 'home' });
      assert.deepEqual(
        [duplicate.status, duplicate.json.code, duplicate.json.existing_id],
        [409, 'duplicate', first.id],
      );
      const records = ['home', 'news', 'news', 'about'].map((name) => ({ name }));
      const batch = await send('POST /pages/batch', { records, on_error: 'continue' });
      assert.deepEqual(
        (batch.json.results as { status: number }[]).map(({ status }) => status),
        [409, 400, 400, 201],
        batch.text,
      );
      assert.equal((await send('POST /pages', { name: 'home', slug: 'other' })).status, 201);
    });

    test('a form calculates empty fields, with the user who submits it', async () => {
      const administrator = administratorOf(acme);
      const browser = await signIn(instance(), administrator);
      const base = '/setup/o/acme/data/tickets';
      const { text } = await browser.get(`${base}/new`);
      assert.match(readable(text), /Calculated if left empty\./);
      const saved = await browser.submit(`${base}/new`, `${base}/new`, {
        name: 'By form',
        price: '9',
        area: '2',
      });
      assert.equal(saved.status, 303, saved.text);
      const { rows } = await run(
        `select label, price_m2::text, agent_id = owner_id and agent_id is not null as is_mine, opened_on is not null as is_opened from tickets where name = 'By form'`,
      );
      assert.deepEqual(rows, [{ label: 'By form', price_m2: '4.5', is_mine: true, is_opened: true }]);
    });

    test('partner endpoints calculate, too', async () => {
      const { status, json, text } = await instance().call('POST /webhooks/inbound-leads', {
        body: { first_name: 'Ada', email: 'ada@example.org' },
        headers: { 'x-inbound-secret': secret },
      });
      assert.equal(status, 201, text);
      const { json: lead } = await send(`GET /leads/${json.id}`);
      assert.equal(lead.alias_name, 'Ada');
      assert.notEqual(lead.answer_by, null);
    });

    test('the API description names the expression', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const { properties } = (
        json as {
          components: { schemas: Record<string, { properties: Record<string, { description?: string }> }> };
        }
      ).components.schemas.TicketInput ?? { properties: {} };
      assert.equal(
        properties.price_m2?.description,
        'Default in a new record: `price / area`. Null is stored as null.',
      );
    });
  },
  { sources: await sourcesWith(tickets, projects, leads, pages), environment },
);
