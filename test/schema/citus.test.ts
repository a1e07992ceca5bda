// Checks all tables and statements against the rules of Citus (https://docs.citusdata.com). Citus is not
// required: functions with the same names as those in Citus, on a real PostgreSQL server, read the catalog
// and reject what Citus would reject.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { modelOf } from '../../app/instance.ts';
import { compileResources } from '../../app/serve/build.ts';
import { type CitusKind, citusModel } from '../../engine/schema/citus.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { idempotencyRetention } from '../../plugins/api/idempotency/index.ts';
import { mergesRetention } from '../../plugins/tenants/merges/index.ts';
import { publicUrl } from '../support/channels.ts';
import { everyType } from '../support/every-type.ts';
import { type Route, routesOf } from '../support/hostile/routes.ts';
import { type Target, targetsOf } from '../support/hostile/targets.ts';
import { accessTo, partnerSecrets } from '../support/hostile/world.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { entries, organization, variables } from '../support/payments.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { patient } from '../support/promised.ts';
import { openScreens, type Screens } from '../support/screens.ts';
import { sourcesWith } from '../support/sources.ts';

const { environment } = settingsFile(
  {
    public_url: publicUrl,
    partners: {
      booking_forms_whatsapp: { secrets: ['${BOOKING_FORMS_WHATSAPP_TOKEN}'], organization: 'acme' },
      payments: entries,
    },
    messaging: { acme: { sender: 'log' } },
  },
  { ...variables, ...partnerSecrets, ...patient },
);

const rules = `
create table citus_kinds (name text primary key, kind text);
create function create_reference_table(given regclass) returns void language plpgsql as $$ begin
  if exists (select from pg_constraint where contype = 'f' and given in (conrelid, confrelid)) then
    raise 'foreign keys of %: not all of its neighbours are on Citus yet', given; end if;
  insert into citus_kinds values (given::text, 'reference'); end $$;
create function citus_add_local_table_to_metadata(given regclass) returns void language plpgsql as $$ begin
  insert into citus_kinds values (given::text, 'local'); end $$;
create function create_distributed_table(given regclass, by text, colocate_with text) returns void language plpgsql as $$
declare place smallint := (select attnum from pg_attribute where attrelid = given and attname = by and atttypid = 'bigint'::regtype); begin
  if place is null then raise '% has no %', given, by; end if;
  if exists (select from pg_index where indrelid = given and (indisunique or indisexclusion) and not place = any (indkey)) then
    raise 'cannot create constraint on %: it does not include %', given, by; end if;
  if exists (select from pg_trigger where tgrelid = given and not tgisinternal and tgtype & 1 = 0) then
    raise '% has a trigger for statements', given; end if;
  if exists (select from pg_trigger where tgrelid = given and not tgisinternal)
      and coalesce(current_setting('citus.enable_unsafe_triggers', true), 'off') <> 'on' then
    raise 'cannot distribute relation % because it has triggers', given; end if;
  if exists (select from pg_constraint where contype = 'f' and given in (conrelid, confrelid)) then
    raise 'foreign keys of %: not all of its neighbours are on Citus yet', given; end if;
  if (colocate_with = 'none') = exists (select from citus_kinds where kind = 'distributed') then
    raise '% is in a group of its own', given; end if;
  insert into citus_kinds values (given::text, 'distributed'); end $$;`;

/** Foreign keys that Citus rejects. */
const refused = `
select c.conname from pg_constraint c
join citus_kinds f on f.name = c.conrelid::regclass::text join citus_kinds t on t.name = c.confrelid::regclass::text
cross join lateral (select a.attnum from pg_attribute a where a.attrelid = c.conrelid and a.attname = 'organization_id') here
cross join lateral (select coalesce((select a.attnum from pg_attribute a where a.attrelid = c.confrelid and a.attname = 'organization_id'), 0) as attnum) there
where c.contype = 'f' and case
  when f.kind = 'distributed' and t.kind = 'distributed' then
    array_position(c.conkey, here.attnum) is null or array_position(c.confkey, there.attnum::int2) is distinct from array_position(c.conkey, here.attnum)
    or c.confdeltype in ('n', 'd') or c.confupdtype in ('n', 'd', 'c')
  when f.kind = 'distributed' and t.kind = 'reference' then
    here.attnum = any (c.conkey) and (c.confdeltype in ('n', 'd') or c.confupdtype in ('n', 'd', 'c'))
  else f.kind <> t.kind and not (f.kind = 'local' and t.kind = 'reference') end`;

const suite = drivers.includes('postgresql') ? describe : describe.skip;

suite('a database on Citus', { concurrency: 1 }, () => {
  let instance: Instance;
  let acme: Organization;
  let routes: Route[];
  let watched: ReturnType<typeof watchStatements>;
  let screens: Screens;
  let kinds: ReadonlyMap<string, CitusKind>;
  let statements: readonly string[];

  before(async () => {
    watched = watchStatements();
    const receipts = {
      file: 'receipts.yaml',
      text: 'singular: receipt\ncommon: all\nfields: { number: { type: string, sequence: "{0}" } }\n',
    };
    const sources = await sourcesWith(...everyType, receipts);
    const found = await routesOf(() => startInstance('postgresql', { sources, environment }));
    instance = found.built;
    routes = found.routes(instance.app);
    screens = await openScreens(instance);
    await instance.organization(organization);
    ({ acme } = screens);
    ({ kinds, statements } = await citusModel(instance.config, modelOf(instance.resources)));
  });
  after(async () => {
    watched.stop();
    await instance.close();
  });

  const query = (text: string) =>
    connected(String(instance.config.environment.DATABASE_URL), (client) => client.query(text));
  const api = (request: string, body?: unknown) =>
    instance.call(request.replace(' ', ' /api/v1/'), { key: acme.key, body });

  test('distributes every resource and every table that grows with its records', () => {
    const spread = [...kinds].filter(([, kind]) => kind === 'distributed').map(([name]) => name);
    for (const { name } of instance.resources) assert.ok(spread.includes(name), name);
    assert.deepEqual(spread.filter((name) => name.startsWith('crm_')).sort(), [
      'crm_custom_fields',
      'crm_custom_values',
      'crm_default_views',
      'crm_idempotency',
      'crm_ledger',
      'crm_merges',
      'crm_messages',
      'crm_notes',
      'crm_payment_events',
      'crm_received_messages',
      'crm_saved_views',
      'crm_sequences',
    ]);
    assert.deepEqual(
      [...kinds].filter(([, kind]) => kind === 'local').map(([name]) => name),
      [
        'crm_jobs',
        'crm_inbox',
        'crm_hook_places',
        'crm_erasures',
        'crm_event_deliveries',
        'crm_request_counts',
        'crm_proposals',
        'crm_agent_calls',
      ],
    );
  });

  test('rejects resources whose triggers write other tables', async () => {
    const sources = await sourcesWith(
      {
        file: 'shops.yaml',
        text: 'common: all\ncustom_fields: true\nfields:\n  name: { type: string }\n',
      },
      { file: 'stalls.yaml', text: 'common: all\nfields:\n  shop_ids: { type: references, to: shops }\n' },
    );
    await assert.rejects(
      () => citusModel(instance.config, modelOf(compileResources(instance.config, sources))),
      {
        name: 'UserError',
        message:
          'stalls has fields of type references, whose triggers write other tables\nshops has custom fields, whose trigger writes another table',
      },
    );
  });

  test('runs the statements in order without breaking the rules', async () => {
    await query(rules);
    const keys = `select count(*)::int as count from pg_constraint where contype = 'f' and conparentid = 0`;
    const before = (await query(keys)).rows;
    await query(statements.join(';\n'));
    assert.deepEqual((await query(keys)).rows, before, 'every foreign key is restored');
    assert.deepEqual((await query(refused)).rows, []);
    // Deleting a record sets the references to it to null in another statement, so they are checked at the end.
    const { rows: deferred } = await query(
      `select distinct f.kind || ' ' || t.kind as kinds, c.condeferred from pg_constraint c
       join citus_kinds f on f.name = c.conrelid::regclass::text join citus_kinds t on t.name = c.confrelid::regclass::text
       where c.contype = 'f' and (c.condeferred or f.kind = 'distributed') order by 1`,
    );
    assert.deepEqual(deferred, [
      { kinds: 'distributed distributed', condeferred: true },
      { kinds: 'distributed reference', condeferred: false },
    ]);
    const { rows } = await query('select name, kind from citus_kinds');
    assert.deepEqual(new Map(rows.map(({ name, kind }) => [name, kind])), new Map(kinds));
  });

  for (const [text, message] of [
    [
      'create table own (id bigint primary key, organization_id bigint); select create_distributed_table($$own$$, $$organization_id$$, $$x$$)',
      /does not include/,
    ],
    [
      'create table own (organization_id bigint); create trigger t before update on own for each row execute function suppress_redundant_updates_trigger(); select create_distributed_table($$own$$, $$organization_id$$, $$x$$)',
      /has triggers/,
    ],
  ] as const) {
    test(`detects a violation: ${message.source}`, () => assert.rejects(query(text), message));
  }

  test('clears references to a deleted record and rejects missing ones through foreign keys', async () => {
    const account = Number((await api('POST accounts', { name: 'Acme' })).json.id);
    const made = await api('POST contacts', { last_name: 'Doe', account_id: account });
    const { id, updated_at: changed } = made.json;
    assert.equal(made.json.account_id, account, made.text);
    assert.equal((await api(`DELETE accounts/${account}`)).status, 200);
    const left = await api(`GET contacts/${id}`);
    assert.equal(left.json.account_id, null);
    assert.notEqual(left.json.updated_at, changed);
    assert.notEqual(left.headers.get('etag'), made.headers.get('etag'));
    const missing = await api(`PUT contacts/${id}`, { last_name: 'Doe', account_id: account });
    assert.equal(missing.status, 400, missing.text);
    assert.equal((await api(`DELETE accounts/${account}`)).status, 404);
  });

  test('names the organization in all statements of modules for distributed tables, with known exceptions', async () => {
    const access = await accessTo(instance, screens);
    for (const route of routes.filter(isOfModule)) {
      for (const target of await targetsOf(access, route)) await send(instance, target);
    }
    await stored('crm_received_messages');
    const [receipt, other] = [await api('POST receipts', {}), await api('POST receipts', {})];
    for (const step of ['merge', 'unmerge']) {
      const answer = await api(`POST receipts/${receipt.json.id}/${step}`, { from: other.json.id });
      assert.equal(answer.status, 200, answer.text);
    }
    for (const remove of [idempotencyRetention, mergesRetention]) await remove(tablesOf(instance.database));
    const spread = [...kinds].flatMap(([name, kind]) => (kind === 'distributed' ? [name] : []));
    const touched = new Set<string>();
    const across = [...watched.seen].flatMap((text) => {
      const tables = spread.filter((name) => new RegExp(`\\b${name}\\b`).test(text));
      for (const name of tables) touched.add(name);
      return tables.length === 0 || isBound(text) ? [] : [text.replace(/\s+/g, ' ').trim()];
    });
    assert.deepEqual(
      [...touched].filter((name) => name.startsWith('crm_')).sort(),
      spread.filter((name) => name.startsWith('crm_')).sort(),
      'a statement uses each table',
    );
    const ofSubscriptions = /"crm_event_subscriptions" s cross join _now/;
    const others = across.filter(
      (text) => !/^(?:create|alter|analyze) /.test(text) && !ofSubscriptions.test(text),
    );
    assert.deepEqual(
      others.map(
        (text) =>
          /with old as materialized .* from "(\w+)" .* for update skip locked/.exec(text)?.[1] ?? text,
      ),
      ['crm_idempotency', 'crm_merges'],
      'only the deletion of old rows and the poll for changes, as described in docs/administrators.md',
    );
  });

  /** Waits until a table has a row. */
  const stored = (table: string) =>
    until(async () => (await query(`select from ${table} limit 1`)).rowCount === 1, table);
});

/** Returns whether a route belongs to a module. Routes that only reject requests have many methods. */
const isOfModule = ({ url, methods }: Route): boolean =>
  !url.startsWith('/api/v1/') && methods.length === 1 && /GET|POST/.test(String(methods));

/** Sends the body that a route expects, with its credentials. */
async function send(instance: Instance, { method, path, headers, expected: { type, shape } }: Target) {
  const text =
    type === 'application/json' ? JSON.stringify(shape) : String(new URLSearchParams(shape as never));
  const body = ['GET', 'HEAD'].includes(method) ? undefined : Buffer.from(text);
  const sent = { ...headers(body ?? Buffer.alloc(0), path), ...(body && { 'content-type': type }) };
  await instance.call(`${method} ${path}`, { body, headers: sent });
}

/** Returns whether a statement is restricted to one organization, by a value or by an inserted column. */
const isBound = (text: string): boolean =>
  /organization_id"? = (\$\d+|'\d+')/.test(text) || /insert into "?\w+"? \([^)]*organization_id/.test(text);

/** Records the text of every later statement on the service's pools, which use a subclass of the client. */
function watchStatements(): { seen: ReadonlySet<string>; stop: () => void } {
  const seen = new Set<string>();
  const { query } = pg.Client.prototype;
  pg.Client.prototype.query = function (this: pg.Client, ...given: unknown[]) {
    const text = typeof given[0] === 'string' ? given[0] : (given[0] as { text: string }).text;
    if (this.constructor !== pg.Client) seen.add(text);
    return Reflect.apply(query, this, given);
  } as typeof query;
  const stop = () => {
    pg.Client.prototype.query = query;
  };
  return { seen, stop };
}
