// Constraints and triggers that the operator added to the database: a rejection counts as the caller's error
// rather than the server's, and is reported only for the rejected record.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { leadgenBody } from '../support/channels.ts';
import { type Answer, type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { deliver, inboxOf, integrate, settingsFile } from '../support/partners.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';
import { people } from '../support/unique-people.ts';

const secret = 'the-secret-of-inbound-leads';
const paymentKey = 'the-key-of-the-payment-hook';
const file = settingsFile({
  partners: {
    inbound_leads: { secrets: [secret] },
    payments: {
      shop: {
        organization: 'alpha',
        verify: { header: 'X-Shop-Key', secrets: [paymentKey] },
        event_id: '{{id}}',
        lead: { email: '{{email}}' },
        opportunity: { name: '{{name}}' },
      },
    },
  },
});

/** Rules of several kinds. Each rejects values that contain `no <rule>`. */
const rules = [
  `alter table leads add constraint leads_no_check check (company not like '%no check%')`,
  `create function leads_before() returns trigger language plpgsql as $$ begin
     if new.company like '%no before%' then raise exception 'company % is on the list', new.company; end if;
     if new.company = 'skipped' then return null; end if;
     if new.meta_leadgen_id = '666000' then raise exception 'lead % is on the list', new.meta_leadgen_id; end if;
     return new; end $$`,
  'create trigger leads_before before insert or update on leads for each row execute function leads_before()',
  `create function leads_after() returns trigger language plpgsql as $$ begin
     if new.company like '%no after%' then raise exception using errcode = '45000', constraint = 'leads_no_after', message = 'after'; end if;
     return null; end $$`,
  'create trigger leads_after after insert or update on leads for each row execute function leads_after()',
  `create function leads_deferred() returns trigger language plpgsql as $$ begin
     if new.company like '%no deferred%' then raise exception 'deferred'; end if; return null; end $$`,
  `create function leads_assert() returns trigger language plpgsql as $$ begin
     assert new.company not like '%no assert%', 'assert'; return new; end $$`,
  'create trigger leads_assert before insert or update on leads for each row execute function leads_assert()',
  'create constraint trigger leads_deferred after insert or update on leads deferrable initially deferred for each row execute function leads_deferred()',
  `create unique index leads_one_only on leads (organization_id, company) where company like '%no second%'`,
  `create function leads_kept() returns trigger language plpgsql as $$ begin
     if old.company = 'kept' then raise exception 'kept'; end if; return old; end $$`,
  'create trigger leads_kept before delete on leads for each row execute function leads_kept()',
  `alter table opportunities add constraint opportunities_no_check check (name not like '%no check%')`,
  `alter table people add constraint people_no_check check (name not like '%no check%')`,
];

const constraints = {
  check: 'leads_no_check',
  before: 'leads_before',
  after: 'leads_no_after',
  deferred: 'leads_deferred',
  assert: 'leads_assert',
};

onBothDrivers(
  'Rules of the database',
  (instance) => {
    let alpha: Organization;
    const ask = (request: string, body?: unknown, call: Call = {}) =>
      instance().call(request.replace(' ', ' /api/v1/'), { key: alpha.key, body, ...call });
    const run = (text: string) => sql.raw(text).execute(tablesOf(instance().database));
    const rejected = ({ status, json }: Answer, constraint: string) => {
      assert.deepEqual(
        [status, json.code, json.constraint, json.error],
        [400, 'rejected_by_database', constraint, `The database rejected the record: ${constraint}`],
      );
    };
    const count = async () => {
      const answer = await ask('GET leads', undefined, { headers: { prefer: 'count=exact' } });
      return Number(answer.headers.get('x-total-count'));
    };
    before(async () => {
      alpha = await instance().organization('alpha');
      for (const rule of rules) await run(rule);
    });

    for (const [kind, constraint] of Object.entries(constraints)) {
      describe(`a rule of the kind ${kind}`, () => {
        const company = `no ${kind}`;

        test("create, replace and patch return 400 with the rule's name, and the log contains its message", async () => {
          const { json } = await ask('POST leads', { company: 'fine' });
          const id = String(json.id);
          const all = await count();
          const lines = await logged(async () => {
            rejected(await ask('POST leads', { company }), constraint);
            const once = { headers: { 'idempotency-key': `one-${kind}` } };
            rejected(await ask('POST leads', { company }, once), constraint);
            rejected(await ask(`PUT leads/${id}`, { company }), constraint);
            rejected(await ask(`PATCH leads/${id}`, { company }), constraint);
          });
          const entries = lines.filter(({ msg }) => msg === 'the database rejected a write');
          assert.deepEqual([entries.length, entries[0]?.rule, entries[0]?.level], [4, constraint, 40]);
          assert.match(
            String(entries[0]?.reason),
            { check: /violates check constraint/, before: /company no before is on the list/ }[kind] ??
              new RegExp(`^${kind}$`),
          );
          assert.ok(!JSON.stringify(entries).includes('Failing row'), 'without the row');
          assert.equal(await count(), all);
        });

        test('a batch blames only the rejected records, and writes the others with on_error=continue', async () => {
          const all = await count();
          const companies = Array.from({ length: 37 }, (_, index) => (index % 9 === 4 ? company : 'fine'));
          const records = companies.map((each) => ({ company: each }));
          const stopped = await ask('POST leads/batch', { records });
          assert.deepEqual([stopped.status, stopped.json.code], [400, 'items_refused']);
          const locations = companies.flatMap((each, index) =>
            each === company ? [`records[${index}]`] : [],
          );
          const fields = stopped.json.fields as { field: string; message: string }[];
          assert.deepEqual(
            fields.map(({ field }) => field),
            locations,
          );
          assert.ok(fields.every(({ message }) => message.includes(constraint)));
          assert.equal(await count(), all, 'nothing was written');
          const lines = await logged(async () => {
            const continued = await ask(
              'POST leads/batch',
              { records, on_error: 'continue' },
              { headers: { 'idempotency-key': `batch-${kind}` } },
            );
            const results = continued.json.results as { status: number; constraint?: string }[];
            assert.deepEqual(
              results.map(({ status, constraint: named }) => [status, named]),
              companies.map((each) => (each === company ? [400, constraint] : [201, undefined])),
            );
          });
          assert.equal(lines.filter(({ msg }) => msg === 'the database rejected a write').length, 1);
          assert.equal(await count(), all + companies.length - locations.length);
        });

        test('an import reports the rejected lines', async () => {
          const all = await count();
          const headers = { 'content-type': 'application/x-ndjson' };
          const lines = ['a', company, 'b', 'c', company];
          const body = lines.map((each) => `${JSON.stringify({ company: each })}\n`).join('');
          const { json } = await ask('POST leads/import', undefined, { body, headers });
          assert.deepEqual([json.created, json.failed], [3, 2]);
          assert.deepEqual(
            (json.lines as { line: number; code: string; constraint: string }[]).map((each) => [
              each.line,
              each.code,
              each.constraint,
            ]),
            [
              [2, 'rejected_by_database', constraint],
              [5, 'rejected_by_database', constraint],
            ],
          );
          const stopped = await ask('POST leads/import?on_error=stop', undefined, { body, headers });
          assert.deepEqual(
            [stopped.json.created, stopped.json.failed, stopped.json.stopped],
            [1, 1, true],
            stopped.text,
          );
          assert.equal(await count(), all + 4);
        });

        test('of concurrent writes, only the invalid ones are rejected', async () => {
          const companies = Array.from({ length: 40 }, (_, index) => (index % 7 === 3 ? company : 'fine'));
          const answers = await Promise.all(companies.map((each) => ask('POST leads', { company: each })));
          for (const [index, answer] of answers.entries()) {
            if (companies[index] === company) rejected(answer, constraint);
            else assert.equal(answer.status, 201, answer.text);
          }
        });
      });
    }

    test('reports a unique index that no definition declares', async () => {
      const company = 'no second';
      assert.equal((await ask('POST leads', { company })).status, 201);
      rejected(await ask('POST leads', { company }), 'leads_one_only');
      const { json } = await ask('POST leads/batch', {
        records: [{ company: 'fine' }, { company }],
        on_error: 'continue',
      });
      assert.deepEqual(
        (json.results as { status: number; code?: string }[]).map(({ status, code }) => code ?? status),
        [201, 'rejected_by_database'],
      );
    });

    test('a create with an idempotency key that a trigger skips is not a server error', async () => {
      const all = await count();
      const once = { headers: { 'idempotency-key': 'skipped' } };
      const { status, json } = await ask('POST leads', { company: 'skipped' }, once);
      assert.deepEqual([status, json.code], [409, 'in_progress']);
      assert.equal(await count(), all);
    });

    test('deletes and batch patches report rejected records', async () => {
      const creation = await ask('POST leads/batch', { records: [{ company: 'kept' }, { company: 'fine' }] });
      const ids = (creation.json.results as { id: number }[]).map(({ id }) => id);
      rejected(await ask(`DELETE leads/${ids[0]}`), 'leads_kept');
      const records = ids.map((id, index) => ({ id, company: index === 0 ? 'no check' : 'fine' }));
      const patched = await ask('PATCH leads/batch', { records, on_error: 'continue' });
      const codes = ({ json }: Answer) =>
        (json.results as { status: number; code?: string }[]).map(({ status, code }) => code ?? status);
      assert.deepEqual(codes(patched), ['rejected_by_database', 200]);
      const deleted = await ask('DELETE leads/batch', { ids, on_error: 'continue' });
      assert.deepEqual(codes(deleted), ['rejected_by_database', 200]);
    });

    test('a rejected record and a duplicate each get their own error', async () => {
      await ask('POST people', { email: 'ada@example.com', name: 'Ada' });
      const { json } = await ask('POST people/batch', {
        records: [
          { email: 'ada@example.com', name: 'Ada' },
          { email: 'bob@example.com', name: 'no check' },
          { email: 'eve@example.com', name: 'Eve' },
        ],
        on_error: 'continue',
      });
      assert.deepEqual(
        (json.results as { status: number; code?: string }[]).map(({ status, code }) => code ?? status),
        ['duplicate', 'rejected_by_database', 201],
      );
    });

    test('partner endpoints', async () => {
      const inbound = (company: string) =>
        instance().call('POST /webhooks/inbound-leads', {
          headers: { 'x-inbound-secret': secret },
          body: { email: 'ada@people.example', company },
        });
      rejected(await inbound('no before'), 'leads_before');
      rejected(await inbound('no deferred'), 'leads_deferred');
      assert.equal((await inbound('fine')).status, 201);
      const pay = (id: string, name: string) =>
        instance().call('POST /webhooks/shop-payment', {
          headers: { 'x-shop-key': paymentKey },
          body: { id, name, email: 'ada@people.example' },
        });
      rejected(await pay('one', 'no check'), 'opportunities_no_check');
      const again = await pay('one', 'fine');
      assert.deepEqual(
        [again.status, again.json.duplicate],
        [200, undefined],
        'the first attempt left nothing behind',
      );
    });

    test('an event of a channel becomes a dead letter at its first attempt, and the log contains the reason', async () => {
      const page = await integrate(instance(), alpha, 'meta-lead-ads');
      const item = async () => (await inboxOf(instance(), page))[0];
      const lines = await logged(async () => {
        assert.equal((await deliver(instance(), page, leadgenBody({ leadgen: '"666000"' }))).status, 200);
        await until(async () => ((await item())?.error ?? '') !== '', 'be rejected');
      });
      const { id, status, attempts, error } = (await item()) ?? assert.fail();
      assert.deepEqual(
        [status, Number(attempts), error],
        ['dead', 1, 'The database rejected the record: leads_before'],
      );
      const entries = lines.filter(({ msg }) => msg === 'the database rejected a write');
      assert.deepEqual(
        entries.map(({ request_id, reason }) => [request_id, reason]),
        [[`inbox-${id}`, 'lead 666000 is on the list']],
      );
    });
  },
  { sources: await sourcesWith(people), environment: file.environment },
);
