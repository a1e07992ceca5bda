// Erasure: no table contains the person afterwards, other data is unchanged, and the change log has an entry for the erasure.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { personalDataTables, tablesOf, transaction } from '../../engine/tables/index.ts';
import { createErasure } from '../../plugins/tenants/erasure/erase-person.ts';
import { whatsappBody } from '../support/channels.ts';
import { runCommand } from '../support/command-line.ts';
import { settled } from '../support/erasures.ts';
import { administratorOf, formsOf, problemOf, readable, signIn } from '../support/forms.ts';
import { alignIds } from '../support/ids.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { deliver, integrate, unmatchedPayment } from '../support/partners.ts';
import { activityOf, command, dump, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';

const email = 'Zoë.Quill@example.com';
const phone = '+49 170 5550199';
/** Patterns that match the person's data in any spelling. No match may remain. */
const traces = [/zo.{1,8}\.quill/i, /0?1?70\s*5550199/, /Quillfeather/];
const other = 'somebody.else@example.com';

/**
 * Organization tables without personal data from records. They contain names entered by members, states,
 * hashes, IP addresses and accounts.
 */
const nobodys = [
  // Labels that administrators enter, and values that are deleted together with their records.
  'crm_custom_fields',
  'crm_custom_values',
  'crm_agent_calls',
  'crm_api_keys',
  'crm_connected_apps',
  // Its rows are sealed and expire.
  'crm_erasures',
  'crm_default_views',
  'crm_event_resources',
  'crm_event_subscriptions',
  'crm_grants',
  'crm_integrations',
  'crm_invites',
  'crm_ledger',
  'crm_name_uses',
  'crm_profiles',
  'crm_teams',
  'crm_request_counts',
  'crm_resets',
  'crm_sequences',
  'crm_users',
];

onBothDrivers('erasure', (instance) => {
  let acme: Organization;
  let globex: Organization;
  const call = async (request: string, body?: object, { key } = acme, headers = {}) => {
    const answer = await instance().call(request, { key, headers, ...(body && { body }) });
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  };
  const forget = (org: Organization, ...args: string[]) =>
    runCommand(instance(), ['person', 'forget', '--org', org.slug, ...args]);
  const person = { last_name: 'Quillfeather', email, phone };
  /** Stores the person's data in every kind of row. @returns IDs */
  const storePerson = async (org: Organization) => {
    const { id } = await call('POST /api/v1/leads', person, org, { 'idempotency-key': `"k-${org.slug}"` });
    await call(`PATCH /api/v1/leads/${id}`, { description: 'Quillfeather called' }, org);
    const { id: deleted } = await call('POST /api/v1/leads', { ...person, company: 'x' }, org);
    await call(`DELETE /api/v1/leads/${deleted}`, undefined, org);
    const { id: contact } = await call('POST /api/v1/contacts', person, org);
    const { id: duplicate } = await call('POST /api/v1/contacts', person, org);
    await call(`POST /api/v1/contacts/${contact}/merge`, { from: duplicate }, org);
    const { id: left } = await call('POST /api/v1/cases', { subject: 'A', contact_id: contact }, org);
    const channel = await integrate(instance(), org, 'whatsapp');
    const text = { type: 'text', text: { body: 'It is Quillfeather' }, from: '491705550199', id: 'wamid.1' };
    const delivery = await deliver(
      instance(),
      channel,
      whatsappBody({ messages: [{ ...text, timestamp: '1767225600' }] }),
    );
    assert.equal(delivery.status, 200, delivery.text);
    const tables = tablesOf(instance().database);
    await until(async () => {
      const all = tables.selectFrom('crm_received_messages').select('id');
      return (await all.where('organization_id', '=', org.id).execute()).length === 1;
    }, 'the message');
    for (const payload of [
      `{"payer":"zo\\u00eb.quill@example.com"}`,
      `mail=${encodeURIComponent(email)}`,
      other,
    ])
      await unmatchedPayment(instance(), org.id, { payload });
    await sql`insert into crm_messages (organization_id, recipient, body, template, status)
      values (${org.id}::bigint, ${'+491705550199'}, 'Hello', 'x', 'sent')`.execute(tables);
    // Notes about the person's own record and about another one.
    await sql`insert into crm_notes (organization_id, resource, record_id, author_id, text)
      select ${org.id}::bigint, resource, record, ${org.user}::bigint, text from (values
        ('leads', ${id}::bigint, 'Quillfeather is away'),
        ('cases', ${left}::bigint, 'Call Quillfeather'), ('cases', ${left}::bigint, ${other})) n(resource, record, text)`.execute(
      tables,
    );
    await sql`insert into crm_saved_views (organization_id, user_id, resource, name, query, is_shared)
      values (${org.id}::bigint, ${org.user}::bigint, 'leads', 'One', ${`email=${encodeURIComponent(email)}`}, false)`.execute(
      tables,
    );
    await sql`insert into crm_proposals (organization_id, key_id, tool, resource, action, body, tag, expires_at)
      select organization_id, min(id), 'create', 'leads', '', ${JSON.stringify({ email })}::text, '', now() + interval '30 days'
      from crm_api_keys where organization_id = ${org.id}::bigint group by organization_id`.execute(tables);
    return { id: String(id), deleted: String(deleted), contact: String(contact), left: Number(left) };
  };
  before(async () => {
    acme = await instance().organization('acme');
    globex = await instance().organization('globex');
  });

  test("every table with an organization's texts is searched or listed as free of personal data", async () => {
    const { rows } = await sql<{ name: string }>`select distinct t.table_name as name
      from information_schema.columns t join information_schema.columns o using (table_schema, table_name)
      where t.table_schema = current_schema() and t.data_type in ('text', 'jsonb', 'bytea') and o.column_name = 'organization_id'
        and t.table_name like 'crm\\_%'`.execute(tablesOf(instance().database));
    const names = rows.map(({ name }) => name).filter((name) => !nobodys.includes(name));
    assert.deepEqual(names.sort(), [...personalDataTables.keys()].sort());
  });

  test('the command previews an erasure, then erases the person everywhere and leaves other people unchanged', async () => {
    const ids = await storePerson(acme);
    await storePerson(globex);
    const { id: otherId } = await call('POST /api/v1/leads', { last_name: 'Else', email: other });
    const criteria = [
      ...[
        '--records',
        `leads?email=${encodeURIComponent(email)}`,
        `contacts?email=${encodeURIComponent(email)}`,
      ],
      ...['--text', 'Quillfeather'],
    ];
    const preview = await forget(acme, ...criteria);
    assert.match(
      preview.text,
      /^where +what\nleads +record \d+\n[\s\S]*\nSearched for: Quillfeather, [\s\S]*\nNothing was erased\. To erase this data permanently, pass --erase\.$/,
    );
    const places = preview.text.split('\n').slice(1, -2);
    assert.deepEqual(places.map((line) => line.replace(/ {2,}/, ': ').trimEnd()).sort(), [
      'changes in the change log: 8',
      `contacts: record ${ids.contact}`,
      'integration events: 1',
      `leads: record ${ids.id}`,
      'merges: 1',
      'notes: 2',
      'outgoing messages: 1',
      'payment events: 2',
      'proposals of agents: 1',
      'received messages: 1',
      'saved views: 1',
      'stored responses: 1',
    ]);
    const before = preview.json as Record<string, Record<string, unknown>>;
    assert.deepEqual(before.records, { leads: [ids.id], contacts: [ids.contact] });
    assert.deepEqual(before.rows, {
      crm_idempotency: 1,
      crm_inbox: 1,
      crm_received_messages: 1,
      crm_messages: 1,
      crm_payment_events: 2,
      crm_event_deliveries: 0,
      crm_hook_places: 0,
      crm_jobs: 0,
      crm_merges: 1,
      crm_notes: 2,
      crm_proposals: 1,
      crm_saved_views: 1,
    });
    assert.equal((await call(`GET /api/v1/leads/${ids.id}`)).email, email);

    const erasure = await forget(acme, ...criteria, '--erase');
    assert.deepEqual(erasure.json, { ...before, erased: true });
    assert.match(erasure.text, /^where +erased\nleads +record \d+\n[\s\S]*\nSearched for: [^\n]+$/);
    const history = await call(`GET /api/v1/leads/${ids.id}/history`);
    assert.deepEqual(
      (history.data as Record<string, unknown>[]).map(({ action, before: was, after }) => [
        action,
        was,
        after,
      ]),
      [
        ['delete', null, null],
        ['update', null, null],
        ['create', null, null],
      ],
    );
    assert.equal((await call(`GET /api/v1/cases/${ids.left}`)).contact_id, null);
    assert.equal((await call(`GET /api/v1/leads/${otherId}`)).email, other);
    assert.equal(
      (
        (await call(`GET /api/v1/leads?email=${encodeURIComponent(email)}`, undefined, globex))
          .data as unknown[]
      ).length,
      1,
    );
    const actions = (await activityOf(instance(), acme.id)).map((each) => each.did);
    assert.equal(actions.at(-1), 'forget person null');
    assert.match((await forget(acme, ...criteria)).text, /No data about this person was found/);

    const { json: erased } = await forget(globex, ...criteria, '--erase');
    assert.deepEqual(
      [(erased as typeof before).rows, (erased as typeof before).changes],
      [before.rows, before.changes],
      'the first erasure left the other organization unchanged',
    );
    const everything = await dump(instance());
    for (const trace of traces) assert.doesNotMatch(everything, trace);
    assert.ok(everything.includes(other), 'the same search finds other people');
  });

  test('records of other resources with the same ID keep their history and their idempotency keys', async () => {
    const names = instance().resources.map(({ name }) => name);
    const number = await alignIds(instance(), names);
    const made = new Map<string, string>();
    const create = async (name: string) => {
      const answer = await instance().call(`POST /api/v1/${name}`, {
        key: acme.key,
        headers: { 'idempotency-key': `same-number-${name}` },
        body: name === 'leads' ? { email: 'same.number@example.com' } : {},
      });
      assert.equal(answer.status, 201, answer.text);
      return { text: answer.text, isReplayed: answer.headers.get('idempotency-replayed') === 'true' };
    };
    for (const name of names) {
      const { text, isReplayed } = await create(name);
      assert.ok(!isReplayed && text.includes(`"id":${number},`), text);
      made.set(name, text);
    }
    await forget(acme, '--records', 'leads?email=same.number@example.com', '--erase');
    for (const name of names.filter((each) => each !== 'leads')) {
      const { data } = await call(`GET /api/v1/${name}/${number}/history`);
      assert.notEqual((data as { after: unknown }[])[0]?.after, null, name);
      assert.deepEqual(await create(name), { text: made.get(name), isReplayed: true }, name);
    }
    assert.equal((await create('leads')).isReplayed, false);
  });

  test('rows about an erased record are deleted even if no term appears in them', async () => {
    const email = 'nameless@example.com';
    const id = Number((await call('POST /api/v1/leads', { email })).id);
    const tables = tablesOf(instance().database);
    // Rows about the person's record, and about records with the same ID of another resource and of another organization.
    const owners = [
      [acme, 'leads'],
      [acme, 'cases'],
      [globex, 'leads'],
    ] as const;
    for (const [org, resource] of owners) {
      await sql`insert into crm_idempotency (organization_id, caller, path, key, body_hash, record, record_id, tag)
        values (${org.id}::bigint, 'key 0', ${`${resource}/batch`}, 'nameless', '', '{}', ${id}::bigint, '')`.execute(
        tables,
      );
      await sql`insert into crm_jobs (organization_id, resource, action, record_id, input, caller_kind, request_id, state)
        values (${org.id}::bigint, ${resource}, 'nameless', ${id}::bigint, '', 'command', '', 'completed')`.execute(
        tables,
      );
      await sql`insert into crm_proposals (organization_id, key_id, tool, resource, record_id, action, body, tag, expires_at)
        select organization_id, min(id), 'nameless', ${resource}::text, ${id}::bigint, '', '{}', '', now() + interval '30 days'
        from crm_api_keys where organization_id = ${org.id}::bigint group by organization_id`.execute(tables);
      await sql`insert into crm_merges (organization_id, resource, record_id, from_id, before)
        values (${org.id}::bigint, ${resource}, ${id}::bigint, 900001, 'nameless'), (${org.id}::bigint, ${resource}, 900002, ${id}::bigint, 'nameless')`.execute(
        tables,
      );
      await sql`insert into crm_ledger (organization_id, actor_kind, actor_name, action, object, object_id, version, record)
        values (${org.id}::bigint, 'command', 'nameless', 'update', ${resource}, ${id}::bigint, 2, '{"kept":true}')`.execute(
        tables,
      );
    }
    await forget(acme, '--records', `leads?email=${email}`, '--erase');
    const { rows } = await sql<{ row: string }>`
      select kind || ' ' || o.slug || ' ' || resource as row from (
        select 'idempotency' as kind, organization_id, split_part(path, '/', 1) as resource from crm_idempotency where key = 'nameless'
        union all select 'job', organization_id, resource from crm_jobs where action = 'nameless'
        union all select 'proposal', organization_id, resource from crm_proposals where tool = 'nameless'
        union all select 'merge', organization_id, resource from crm_merges where before = 'nameless'
        union all select 'change', organization_id, object from crm_ledger where actor_name = 'nameless' and record <> '{}'
      ) r join crm_organizations o on o.id = r.organization_id`.execute(tables);
    assert.deepEqual(
      rows.map(({ row }) => row).sort(),
      ['change', 'idempotency', 'job', 'merge', 'merge', 'proposal']
        .flatMap((kind) => [`${kind} acme cases`, `${kind} globex leads`])
        .sort(),
    );
  });

  test("a record's values of 5 to 200 characters are search terms", async () => {
    const lengths = [4, 5, 200, 201];
    const records = lengths.map((length) => ({
      status: 'Lengths',
      email: String(length).padEnd(length, 'x'),
    }));
    await call('POST /api/v1/leads/batch', { records });
    const { json, text } = await forget(acme, '--records', 'leads?status=Lengths');
    const { texts } = json as { texts: string[] };
    assert.deepEqual(
      texts.map(({ length }) => length),
      [5, 200],
    );
    assert.match(text, /^leads +records \d+, \d+, \d+, \d+$/m);
  });

  test('finds a deleted record whose changes follow many others in the same transaction', async () => {
    const records = Array.from({ length: 150 }, (_, n) => ({ last_name: n === 149 ? 'Latecomer' : 'Other' }));
    const { results } = await call('POST /api/v1/leads/batch', { records });
    const { id } = (results as { id: number }[]).at(-1) ?? assert.fail();
    await call(`DELETE /api/v1/leads/${id}`);
    assert.equal((await forget(acme, '--text', 'Latecomer', '--erase')).json.changes, 2);
    const { data } = await call(`GET /api/v1/leads/${id}/history`);
    assert.deepEqual(
      (data as Record<string, unknown>[]).map(({ before: was, after }) => [was, after]),
      [
        [null, null],
        [null, null],
      ],
    );
  });

  test('finds a deleted record by its values in an earlier version, and by its last values alone', async () => {
    const { id: earlier } = await call('POST /api/v1/leads', { last_name: 'Namechanger' });
    await call(`PATCH /api/v1/leads/${earlier}`, { last_name: 'Other' });
    const { id: last } = await call('POST /api/v1/leads', { last_name: 'Namechanger' });
    for (const id of [earlier, last]) await call(`DELETE /api/v1/leads/${id}`);
    // What the retention of the change log leaves.
    await sql`delete from crm_ledger where object = 'leads' and object_id = ${last}::bigint and action = 'create'`.execute(
      tablesOf(instance().database),
    );
    assert.equal((await forget(acme, '--text', 'Namechanger', '--erase')).json.changes, 4);
    assert.doesNotMatch(await dump(instance()), /Namechanger/);
  });

  test('erases more rows than one statement does, and keeps the changes of as many existing records', async () => {
    const records = Array.from({ length: 501 }, () => ({ last_name: 'Manifold' }));
    const { results } = await call('POST /api/v1/leads/batch', { records });
    const { id } = (results as { id: number }[]).at(-1) ?? assert.fail();
    const tables = tablesOf(instance().database);
    await sql`insert into crm_notes (organization_id, resource, record_id, author_id, text)
      select ${acme.id}::bigint, 'leads', ${id}::bigint, ${acme.user}::bigint, 'Manifold' from generate_series(1, 501)`.execute(
      tables,
    );
    const { json } = await forget(acme, '--text', 'Manifold', '--erase');
    assert.deepEqual([json.changes, (json.rows as Record<string, number>).crm_notes], [0, 501]);
    const { rows } = await sql`select from crm_notes where text = 'Manifold'`.execute(tables);
    assert.deepEqual(rows, []);
    const { data } = await call(`GET /api/v1/leads/${id}/history`);
    assert.equal((data as { after: { last_name: string } }[])[0]?.after.last_name, 'Manifold');
  });

  test('a row that does not contain the person by the time of the erasure stays', async () => {
    const { database, resources } = instance();
    const tables = tablesOf(database);
    const { rows } = await sql<{
      id: string;
    }>`insert into crm_notes (organization_id, resource, record_id, author_id, text)
      select ${acme.id}::bigint, 'leads', n, ${acme.user}::bigint, 'Ask Vanishing' from generate_series(1, 2) n returning id::text as id`.execute(
      tables,
    );
    const { find, erase } = createErasure(resources);
    const input = { organization: acme.id, records: [], texts: ['Vanishing'] };
    const found = await find({ run: async (query) => (await query.execute(tables)).rows }, input);
    assert.equal(found.rows.get('crm_notes'), 2);
    await sql`update crm_notes set text = 'Ask somebody' where id = ${rows[0]?.id}::bigint`.execute(tables);
    await transaction(database, (within) => erase(within, command(instance()), input, found));
    const left = await sql`select text from crm_notes where text like 'Ask %'`.execute(tables);
    assert.deepEqual(left.rows, [{ text: 'Ask somebody' }]);
  });

  test('a selection can repeat a filter', async () => {
    const emails = ['one.address@example.com', 'another.address@example.com'];
    for (const email of emails) await call('POST /api/v1/leads', { email });
    const query = emails.map((email) => `email=${email}`).join('&');
    const { json } = await forget(acme, '--records', `leads?${query}`);
    assert.deepEqual((json as { texts: string[] }).texts, emails);
  });

  test("a record's values of fewer than five characters are not search terms", async () => {
    const email = 'short.phone@example.com';
    await call('POST /api/v1/leads', { email, phone: '1234' });
    const { id } = await call('POST /api/v1/cases', { subject: 'Invoice 12345' });
    const { json } = await forget(acme, '--records', `leads?email=${email}`, '--erase');
    assert.deepEqual([json.texts, json.mentions], [[email], {}]);
    assert.equal((await call(`GET /api/v1/cases/${id}`)).subject, 'Invoice 12345');
  });

  for (const [term, storedText, isFound] of [
    ['+49 (170) 22-33-445', '004917022.33.445', true],
    ['7654321', '76-54-321', true],
    ['765432', '76-54-32', false],
    ['order 7654322', '76-54-322', false],
  ] as const) {
    test(`${term} ${isFound ? 'finds' : 'does not find'} ${storedText}`, async () => {
      await unmatchedPayment(instance(), acme.id, { payload: storedText });
      const { json } = await forget(acme, '--text', term, '--erase');
      assert.equal((json.rows as Record<string, number>).crm_payment_events, Number(isFound));
    });
  }

  for (const [input, storedText] of [
    ['Zoë.Quill@example.com', 'ZOË.QUILL@EXAMPLE.COM'],
    ['ZOË.QUILL@EXAMPLE.COM', 'zoë.quill@example.com'],
    ['zoë.quill@example.com', 'Zoë.Quill@Example.com'],
  ] as const) {
    test(`${input} finds ${storedText} in every encoding`, async () => {
      const json = JSON.stringify(storedText).slice(1, -1);
      const payloads = [
        storedText,
        json.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
        encodeURIComponent(storedText),
        new URLSearchParams({ payer: storedText }).toString(),
      ];
      for (const payload of payloads) await unmatchedPayment(instance(), acme.id, { payload });
      const { json: report } = await forget(acme, '--text', input, '--erase');
      const { crm_payment_events: count } = (report as { rows: Record<string, number> }).rows;
      assert.equal(count, payloads.length);
    });
  }

  test('lists records that mention the person and leaves them unchanged', async () => {
    const { id } = await call('POST /api/v1/cases', { subject: 'About Wintermute and others' });
    const { id: another } = await call('POST /api/v1/cases', { subject: 'Again about Wintermute' });
    const { id: account } = await call('POST /api/v1/accounts', { name: 'Friends of Wintermute' });
    const history = async () => (await call(`GET /api/v1/cases/${id}/history`)).data;
    const changes = await history();
    const { json, text } = await forget(acme, '--text', 'wintermute', '--erase');
    assert.deepEqual((json as Record<string, unknown>).mentions, {
      accounts: [String(account)],
      cases: [String(id), String(another)],
    });
    const others = `accounts ${account}; cases ${id}, ${another}`;
    assert.ok(text.endsWith(`\nAlso mentioned in records that are left unchanged: ${others}`), text);
    assert.equal((await call(`GET /api/v1/cases/${id}`)).subject, 'About Wintermute and others');
    assert.deepEqual(await history(), changes);
  });

  test('lists the first 20 records of a resource that mention the person', async () => {
    const records = Array.from({ length: 21 }, () => ({ subject: 'About Mentionable' }));
    const { results } = await call('POST /api/v1/cases/batch', { records });
    const ids = (results as { id: number }[]).map(({ id }) => String(id));
    const { mentions } = (await forget(acme, '--text', 'Mentionable')).json;
    assert.deepEqual(mentions, { cases: ids.slice(0, 20) });
  });

  test('rejects records with more than 50 search terms', async () => {
    const term = (n: number) => ({ status: 'Terms', email: `${n}@terms.example`, phone: `+49 170 2000${n}` });
    await call('POST /api/v1/leads/batch', { records: Array.from({ length: 25 }, (_, n) => term(n + 100)) });
    const search = () => forget(acme, '--records', 'leads?status=Terms');
    assert.equal(((await search()).json.texts as string[]).length, 50);
    await call('POST /api/v1/leads', { status: 'Terms', email: 'one.more@terms.example' });
    await assert.rejects(
      search(),
      /the search would need more than 50 search terms\. Select fewer records\./,
    );
  });

  test('every text of messages, payments and deliveries is searched and erased', async () => {
    const org = await instance().organization('channels');
    const tables = tablesOf(instance().database);
    const { id: integration_id } = await integrate(instance(), org, 'telegram');
    const { rows } = await sql<{ id: string }>`
      insert into crm_event_subscriptions (organization_id, profile_id, url, actions, filter, secret, epoch, transaction, ledger_id, state)
      select organization_id, min(id), 'https://a.example/', '', '', '', '', '1', 0, 'off' from crm_profiles
      where organization_id = ${org.id}::bigint group by organization_id returning id`.execute(tables);
    const item = { event_id: '', status: 'done', done_at: '2026-03-01T09:30:00Z' };
    const searched: Readonly<Record<string, readonly [row: object, columns: readonly string[]]>> = {
      crm_messages: [{ template: '', status: 'sent' }, ['recipient', 'body', 'error']],
      crm_received_messages: [{ integration_id }, ['sender', 'body']],
      crm_inbox: [{ integration_id, ...item }, ['payload', 'error', 'attempt_log']],
      crm_payment_events: [{ customer: 'acme' }, ['payload', 'answer']],
      crm_event_deliveries: [
        { subscription_id: rows[0]?.id, object: '', action: 'test', ...item },
        ['request', 'response', 'error', 'attempt_log', 'url', 'request_body', 'response_body'],
      ],
    };
    const counts = async () => {
      const found: [string, number][] = [];
      for (const table of Object.keys(searched)) {
        const { rows } = await sql`select from ${sql.table(table)} t
          where organization_id = ${org.id}::bigint and t::text like '%Feathermore%'`.execute(tables);
        found.push([table, rows.length]);
      }
      return Object.fromEntries(found);
    };
    for (const [table, [row, columns]] of Object.entries(searched))
      for (const column of columns) {
        const id = { crm_received_messages: 'provider_id' }[table] ?? 'event_id';
        const texts = Object.fromEntries(columns.map((name) => [name, name === column ? 'Feathermore' : '']));
        const values = {
          ...{ organization_id: org.id, ...row, ...texts },
          ...(table !== 'crm_messages' && { [id]: column }),
        };
        const names = sql.join(Object.keys(values).map((name) => sql.ref(name)));
        await sql`insert into ${sql.table(table)} (${names}) select ${names}
          from json_populate_record(null::${sql.table(table)}, ${JSON.stringify(values)}::text::json)`.execute(
          tables,
        );
      }
    const all = Object.fromEntries(
      Object.entries(searched).map(([table, [, columns]]) => [table, columns.length]),
    );
    assert.deepEqual(await counts(), all);
    const { rows: selected } = (await forget(org, '--text', 'Feathermore', '--erase')).json as {
      readonly rows: Readonly<Record<string, number>>;
    };
    const none = Object.fromEntries(Object.keys(all).map((table) => [table, 0]));
    assert.deepEqual(
      Object.keys(all).map((table) => [table, selected[table]]),
      Object.entries(all),
    );
    assert.deepEqual(await counts(), none);
  });

  test('accepts input of the maximum size, and terms of the minimum length', () => {
    const { check } = createErasure(instance().resources);
    const records = Array.from({ length: 20 }, () => 'leads?email=x'.padEnd(500));
    const texts = [' abcde ', ...Array.from({ length: 19 }, () => 'x'.repeat(200))];
    check({ organization: acme.id, records, texts });
    assert.throws(() => check({ organization: acme.id, records, texts: ['abcd'] }), /"abcd" is too short/);
  });

  for (const [args, message] of [
    [[], /specify the person's records/],
    [['--text', 'Ada'], /"Ada" is too short/],
    [['--records', 'leads'], /"leads" is not a resource and filter/],
    [['--records', 'leeds?email=x'], /Resources: .*leads/],
    [['--records', 'leads?colour=red'], /"colour" is not a filter of leads/],
    [['--records', 'leads?created_at[gte]=x'], /created_at\[gte\] must be/],
  ] as const) {
    test(`rejected: ${args.join(' ')}`, async () => {
      await assert.rejects(forget(acme, ...args), message);
    });
  }

  for (const [input, args, message] of [
    [
      '21 texts',
      Array.from({ length: 21 }, (_, n) => ['--text', `text ${n}`]).flat(),
      /at most 20 search terms are allowed, but there are 21/,
    ],
    ['a long text', ['--text', 'x'.repeat(201)], /is too long\. Enter at most 200 characters/],
    [
      '21 lines',
      Array.from({ length: 21 }, () => ['--records', 'leads?email=x']).flat(),
      /at most 20 lines can select records, but 21 were entered/,
    ],
    ['a long line', ['--records', `leads?email=${'x'.repeat(500)}`], /can have at most 500 characters/],
  ] as const) {
    test(`limits the size of the input: ${input}`, async () => {
      await assert.rejects(forget(acme, ...args), message);
      const browser = await signIn(instance(), administratorOf(acme));
      const page = '/setup/o/acme/forgetting/find';
      const lines = (option: string) => args.filter((_, index) => args[index - 1] === option).join('\n');
      const answer = await browser.submit(page, page, {
        records: lines('--records'),
        texts: lines('--text'),
      });
      assert.equal(answer.status, 400);
      assert.match(problemOf(answer), message);
    });
  }

  test('counts a record once that several selections contain', async () => {
    const selected = { last_name: 'Twice', email: 'twice@example.com' };
    await call('POST /api/v1/leads/batch', { records: Array.from({ length: 100 }, () => selected) });
    const selection = 'leads?email=twice@example.com';
    const { records } = (
      await forget(acme, '--records', selection, `${selection}&created_at[gte]=2000-01-01T00:00:00Z`)
    ).json as { records: Record<string, string[]> };
    assert.equal(records.leads?.length, 100);
    await call('POST /api/v1/contacts', selected);
    const both = forget(acme, '--records', selection, 'contacts?email=twice@example.com');
    await assert.rejects(both, /more than 100 records/, 'the limit applies to all resources together');
  });

  test('rejects more records than one person can have', async () => {
    const records = Array.from({ length: 101 }, () => ({ last_name: 'Many', status: 'New' }));
    await call('POST /api/v1/leads/batch', { records });
    await assert.rejects(
      forget(acme, '--records', 'leads?id[gte]=0', '--erase').catch(async () =>
        forget(acme, '--records', 'leads?created_at[gte]=2000-01-01T00:00:00Z', '--erase'),
      ),
      /more than 100 records/,
    );
    const browser = await signIn(instance(), administratorOf(acme));
    const page = '/setup/o/acme/forgetting/find';
    const selection = 'leads?created_at[gte]=2000-01-01T00:00:00Z';
    const failed = await settled(browser, await browser.submit(page, page, { records: selection }));
    assert.match(problemOf(failed), /more than 100 records/);
    assert.ok(readable(failed.text).includes(selection), 'the form keeps the input');
  });

  test('an administrator finds, confirms and erases a person in the browser', async () => {
    const { id } = await call('POST /api/v1/leads', {
      last_name: 'Browserly',
      email: 'browserly@example.com',
    });
    await forget(acme, '--text', 'nobody@example.com', '--erase');
    const browser = await signIn(instance(), administratorOf(acme));
    const page = '/setup/o/acme/forgetting';
    const nobody = await settled(
      browser,
      await browser.submit(`${page}/find`, `${page}/find`, { texts: 'nobody@example.com' }),
    );
    assert.equal(problemOf(nobody), 'no data about this person was found');
    assert.match(nobody.text, /nobody@example\.com/, 'the form keeps the input');
    const help = readable((await browser.get(`${page}/find`)).text);
    assert.match(help, /One resource and filter per line, for example \w+\?email=ada@example\.com/);
    const search = await browser.submit(`${page}/find`, `${page}/find`, {
      records: 'leads?email=browserly@example.com',
    });
    const found = await settled(browser, search);
    assert.equal(found.status, 200);
    for (const part of [`record ${id}`, 'changes in the change log', 'browserly@example.com'])
      assert.ok(readable(found.text).includes(part), part);
    const form =
      formsOf(found).find(({ action }) => action === `${page}/forget`) ?? assert.fail(readable(found.text));
    const response = await browser.post(`${page}/forget`, { ...form.values, word: 'no' });
    assert.equal(response.status, 400);
    assert.equal((await call(`GET /api/v1/leads/${id}`)).id, id);
    const { id: confirmer, ...login } = await makePerson(instance(), [{ organization: acme }]);
    const other = await signIn(instance(), login);
    const question = formsOf(await other.get(search.headers.get('location') ?? '')).find(
      ({ action }) => action === `${page}/forget`,
    );
    const done = await other.post(`${page}/forget`, { ...question?.values, word: ' Erase ' });
    assert.match(readable((await settled(other, done)).text), /has been erased/);
    const [{ actor, did } = assert.fail()] = (await activityOf(instance(), acme.id)).slice(-1);
    assert.deepEqual(
      [actor, did],
      [`user ${confirmer}`, 'forget person null'],
      'the member who confirmed it',
    );
    const list = readable((await browser.get(page)).text);
    assert.ok(list.includes(login.email));
    assert.ok(list.indexOf(login.email) < list.indexOf('command line'), 'the newest erasure comes first');
    assert.equal((await instance().call(`GET /api/v1/leads/${id}`, { key: acme.key })).status, 404);
    assert.doesNotMatch(await dump(instance()), /browserly/i);
  });
});
