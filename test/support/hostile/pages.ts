// Test support: an organization whose records, notes, views, jobs, proposals, names and messages are as long, deep, numerous and
// confusing as allowed, and every page of the admin UI that shows them.
import assert from 'node:assert/strict';
import { type RawBuilder, sql } from 'kysely';
import type { ModuleCode } from '../../../engine/records/index.ts';
import { Rejection } from '../../../engine/records/index.ts';
import { type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import { changeName } from '../../../plugins/access/identity/users.ts';
import { createProfile, profileId } from '../../../plugins/access/profiles/profiles.ts';
import { instanceSecrets } from '../../../plugins/access/secrets/instance-secrets.ts';
import { sealing } from '../../../plugins/access/secrets/sealing.ts';
import { addTeamMember, createTeam } from '../../../plugins/access/teams/teams.ts';
import { createView } from '../../../plugins/admin-ui/saved-views/index.ts';
import { feedEnd } from '../../../plugins/change-log/feed.ts';
import { createNote } from '../../../plugins/tenants/notes/index.ts';
import { createSubscription, sendTest } from '../../../webhooks/subscriptions/subscriptions.ts';
import { useTool } from '../agents.ts';
import { whatsappBody } from '../channels.ts';
import { administratorOf, optionOf, readable, signIn, type Visitor } from '../forms.ts';
import type { Answer, Instance, Organization } from '../instance.ts';
import { type ClientHost, connect, openConsent } from '../oauth-client.ts';
import { deliver, delivered, integrate, unmatchedPayment } from '../partners.ts';
import { command, fresh, makePerson } from '../people.ts';
import { until } from '../process.ts';
import { sourcesWith } from '../sources.ts';
import type { Route } from './routes.ts';

/** Text that becomes about six times as long in HTML. */
const markup = '<"\'&`=';
/** End of {@link long}, which no page shows. */
export const endOfLong = 'THE-END-OF-IT';
/** Returns almost a megabyte of text that becomes about six times as long in HTML and has a recognizable end. */
export const long = (name: string): string => `${name}${markup.repeat(140_000)}${endOfLong}`;
/** Text that reverses the direction of what follows, moves the cursor, and starts terminal escape sequences. */
const confusing = '\u202e\u2066\u05e9\u05dc\u05d5\u05dd\u0007\u001b[2J\b\r\n\u2028\ufeff\u{e0041}\u0301';
/** Returns a text with exactly this many characters, which starts with a name and repeats a unit. */
const sized = (name: string, length: number, unit = markup): string =>
  `${name}${unit.repeat(Math.ceil(length / unit.length))}`.slice(0, length);

/** A resource whose records have a page of every kind. */
export const pageSources = await sourcesWith({
  file: 'resources/parcels.yaml',
  text: `
singular: parcel
common: all
trash: 30 days
custom_fields: true
fields:
  owner_id: { assignable: true }
  name: { type: string }
  code: { type: string, unique: true, nullable: true }
  status: { type: string, enum: [new, open, done], closed: true, default: new }
  details: { type: json, nullable: true }
  tags: { type: list }
  parent_id: { type: reference, to: parcels, nullable: true }
  related_ids: { type: references, to: parcels }
  due_on: { type: date, nullable: true }
  due_at: { type: timestamp, nullable: true }
sort: { by: created_at, direction: desc }
search: [name]
filters:
  - status
  - name
  - parent_id
  - { field: due_on, operators: [eq, in, gt, gte, lt, lte] }
  - { field: due_at, operators: [eq, in, gt, gte, lt, lte] }
  - { field: created_at, operators: [gt, gte, lt, lte] }
screen: { title: [name, code], columns: [status, details, tags, parent_id, related_ids], board: status }
`,
});

/** Actions with long results and errors. */
export const pageModules: readonly ModuleCode[] = [
  {
    name: 'scales',
    actions: {
      parcels: {
        weigh: {
          description: sized('Weighs a parcel. ', 1000),
          input: {
            type: 'object',
            properties: { note: { type: 'string' }, day: { type: 'string', format: 'date' } },
          },
          run: () => ({}),
        },
        count: { description: 'Counts the parcels.', ofCollection: true, run: () => ({}) },
        scan: {
          description: 'Scans a parcel.',
          job: true,
          input: { type: 'object', properties: { how: { type: 'string' } } },
          run: async ({ input }) => {
            if (input.how === 'fail') throw new Rejection(long('fails '));
            const rooms = Object.fromEntries(
              Array.from({ length: 2000 }, (_, index) => [`x${index}`, markup]),
            );
            return { ...rooms, text: long('scanned ') };
          },
        },
      },
    },
  },
];

/** The organization's records of each resource, for the tests of their pages. */
export interface HostileOrganization {
  readonly acme: Organization;
  readonly admin: Visitor;
  /** ID of a record of each resource. The lead has a long history. */
  readonly ids: Readonly<Record<string, string>>;
  /** Pages to start with. All others are linked from them. */
  readonly start: readonly string[];
}

/** Number of changes to the lead in {@link HostileOrganization}. */
export const versions = 20;
/** Number of records on a page of a list, and one more. */
const manyRecords = 21;
/** Number of objects on a page of the setup, and a few more. */
const manyObjects = 60;

/**
 * Creates an organization with hostile values.
 * @param host serves the metadata of an app
 */
export async function hostileOrganization(
  instance: Instance,
  host: ClientHost,
): Promise<HostileOrganization> {
  const acme = await instance.organization('acme');
  const admin = await signIn(instance, administratorOf(acme));
  const world = { instance, acme, admin, host };
  // Searches all that is stored, so it precedes the long values.
  const erasure = await searchPerson(world);
  const leads = await storeRecords(world);
  const parcels = await storeParcels(world);
  await storeMembers(world);
  await storeMessages(world);
  const proposals = await storeProposals(world, parcels);
  const data = '/setup/o/acme/data';
  const ids: Readonly<Record<string, string>> = { ...leads.ids, parcels: parcels.id };
  const every = ['description', 'last_name', 'company'].map((column) => `columns=${column}`).join('&');
  return {
    acme,
    admin,
    ids,
    start: [
      `${data}/parcels/${parcels.id}`,
      `${data}/leads/${ids.leads}`,
      `${data}/leads/${leads.deleted}`,
      `${data}/leads?${every}`,
      `${data}/leads?${every}&sort=last_name`,
      `${data}/leads?q=lead`,
      `${data}/parcels/merge?id=${parcels.id}&id=${parcels.other}`,
      ...['delete', 'edit', 'reassign'].map(
        (page) => `${data}/parcels/${page}?id=${parcels.id}&id=${parcels.other}`,
      ),
      `${data}/parcels/views/new?q=${encodeURIComponent(markup.repeat(300))}`,
      `${data}/parcels/reassign?field=owner_id`,
      `${data}/parcels?view=1`,
      ...parcels.pages,
      ...proposals,
      erasure,
      erasure.replace('/search', '/forget'),
      ...Object.entries(ids).flatMap(([resource, id]) => [
        ...['', '/board', '/new', `/${id}`, `/${id}/edit`, `/${id}/delete`].map(
          (page) => `${data}/${resource}${page}`,
        ),
      ]),
      ...[
        '',
        '/search?q=lead',
        '/jobs?show=failed',
        '/events?show=event-deliveries',
        '/deliveries?status=done',
        '/profiles',
        '/profiles?q=read-only',
      ].map((page) => `/setup/o/acme${page}`),
      '/setup/organizations',
      '/setup/shortcuts',
      '/setup/organizations/new',
      '/setup/me',
      '/setup/me/second-factor/recovery-codes',
      '/setup/me/second-factor/remove-app',
      '/setup/invite/x',
      '/setup/reset/x',
      '/setup/login',
      '/setup/login/second-factor',
      '/setup/forgot',
    ],
  };
}

interface World {
  readonly instance: Instance;
  readonly acme: Organization;
  readonly admin: Visitor;
  readonly host: ClientHost;
}

/** Sends a request to the API that must succeed. */
async function call(
  { instance, acme }: World,
  request: string,
  body?: object,
): Promise<Record<string, unknown>> {
  const answer = await instance.call(request, { key: acme.key, ...(body && { body }) });
  assert.ok(answer.status < 300, answer.text.slice(0, 500));
  return answer.json;
}

const create = async (world: World, resource: string, body: object): Promise<string> =>
  String((await call(world, `POST /api/v1/${resource}`, body)).id);

/** Stores long values in the shipped resources. */
async function storeRecords(world: World) {
  const accounts = await create(world, 'accounts', { name: long('account') });
  const contacts = await create(world, 'contacts', {
    last_name: long('contact'),
    account_id: Number(accounts),
  });
  const cases = await create(world, 'cases', { subject: long('case'), contact_id: Number(contacts) });
  const opportunities = await create(world, 'opportunities', {
    name: long('order'),
    account_id: Number(accounts),
  });
  const leads = await create(world, 'leads', { last_name: long('lead') });
  for (let version = 1; version <= versions; version++)
    await call(world, `PATCH /api/v1/leads/${leads}`, { description: long(`version ${version} `) });
  await call(world, `PATCH /api/v1/leads/${leads}`, { company: long('company') });
  const deleted = await create(world, 'leads', { last_name: long('deleted') });
  await call(world, `DELETE /api/v1/leads/${deleted}`);
  const copied = await create(world, 'leads', { last_name: long('lead') });
  await call(world, `PATCH /api/v1/leads/${copied}`, { company: long('company') });
  const tables = tablesOf(world.instance.database);
  await copyRows(tables, 'leads', { where: sql`id = ${copied}::bigint`, times: manyRecords });
  // The changes also appear on the activity page.
  await copyRows(tables, 'crm_ledger', { where: sql`object = 'accounts'`, times: manyObjects });
  return { ids: { leads, accounts, contacts, cases, opportunities }, deleted };
}

/** Stores parcels with deep, numerous and confusing values, custom fields, notes, views, jobs, merges and a trash. */
async function storeParcels(world: World) {
  const { instance, acme, admin } = world;
  const data = '/setup/o/acme/data/parcels';
  const types = ['string', 'text', 'integer', 'boolean', 'date', 'timestamp'];
  for (let count = 0; count < 100; count++) {
    const type = types[count % types.length];
    const isText = count % types.length < 2;
    await call(world, 'POST /fields/parcels', {
      ...{ name: `field_${count}`, type, label: sized(`${count}`, 60), help: sized('h', 300) },
      ...(isText && { max_length: 10_000 }),
      ...(type === 'string' &&
        count < 18 && { enum: Array.from({ length: 100 }, (_, index) => sized(`${index}`, 100)) }),
    });
  }
  await call(world, 'DELETE /fields/parcels/field_99');
  const texts = Array.from({ length: 100 }, (_, count) => count).filter(
    (count) => count % types.length === 1,
  );
  const customOf = (counts: readonly number[]) =>
    Object.fromEntries(counts.map((count) => [`field_${count}`, sized(confusing, 2400)]));
  let deep: unknown = markup;
  for (let depth = 0; depth < 150; depth++) deep = [deep, { [sized(markup, 20)]: depth }];
  const details = { deep, many: Array.from({ length: 100 }, (_, index) => [index, confusing]) };
  const tags = Array.from({ length: 100 }, (_, index) => sized(`${index}${confusing}`, 200));
  const parcel = (name: string, more: object = {}) =>
    create(world, 'parcels', {
      name: `${confusing}${name}${markup.repeat(1000)}`,
      details,
      tags,
      custom: customOf(texts.slice(0, 4)),
      ...more,
    });
  const parent = await parcel('parent');
  const others = [];
  for (let count = 0; count < manyRecords; count++)
    others.push(await parcel(`parcel ${count}`, { parent_id: Number(parent) }));
  const [other = '', merged = '', trashed = ''] = others;
  const id = await parcel('main', {
    parent_id: Number(parent),
    related_ids: others.slice(3).map(Number),
    custom: customOf(texts),
  });
  await call(world, `POST /api/v1/parcels/${id}/merge`, { from: Number(merged) });
  await call(world, `DELETE /api/v1/parcels/${trashed}`);
  await transaction(instance.database, async (tables) => {
    const actor = command(instance);
    for (let count = 0; count < manyObjects; count++) {
      const text = sized(`${count}${confusing}`, 10_000, count % 2 === 0 ? markup : confusing);
      const record = { organization: acme.id, resource: 'parcels', record: id };
      await createNote(tables, actor, record, { author: acme.user, text });
    }
    for (let count = 0; count < 50; count++) {
      const list = { organization: acme.id, user: acme.user, resource: 'parcels' };
      const query = new URLSearchParams({ q: markup.repeat(16), 'due_at[gte]': '2026-01-01T00:00:00Z' });
      await createView(tables, actor, list, {
        name: sized(`${count}`, 60),
        query: String(query),
        isShared: count % 2 === 0,
      });
    }
  });
  const pages: string[] = [];
  const scan = `${data}/${id}/actions/scan`;
  for (const how of ['work', 'fail']) {
    const started = await admin.submit(scan, scan, { 'input.how': how });
    pages.push(started.headers.get('location') ?? assert.fail(started.text.slice(0, 500)));
  }
  const file = [
    `name,status,${sized('x', 1000, "<&'")}`,
    ...Array.from({ length: 900 }, (_, index) => `${index},${sized(confusing.replace('\r\n', ''), 300)}`),
  ].join('\n');
  const _csrf = await admin.token(`${data}/import`);
  const imported = await admin.post(`${data}/import`, {
    ...{ _csrf, step: 'import', key: fresh('form'), content: Buffer.from(file).toString('base64') },
  });
  pages.push(imported.headers.get('location') ?? assert.fail(imported.text.slice(0, 2000)));
  for (const page of pages)
    await until(async () => !(await admin.get(page)).headers.has('refresh'), `the job of ${page}`);
  return { id, other, pages };
}

/** Stores names of members, teams, keys and profiles that are as long as allowed. */
async function storeMembers({ instance, acme, admin }: World): Promise<void> {
  const actor = command(instance);
  await transaction(instance.database, async (tables) => {
    for (let count = 0; count < manyObjects; count++) {
      const name = (length: number) => sized(`${count}`, length);
      await createProfile(tables, actor, acme.id, name(190), []);
      const team = await createTeam(tables, actor, acme.id, name(190));
      await addTeamMember(tables, actor, acme.id, team, acme.user);
    }
    await changeName(tables, acme.user, sized('Ada', 100));
  });
  for (let count = 0; count < 5; count++) {
    const person = await makePerson(instance, [{ organization: acme }]);
    await changeName(tablesOf(instance.database), person.id, sized(`${count}`, 100));
  }
  await acme.makeKey();
  await sql`update crm_api_keys set name = ${sized('key', 190)} where organization_id = ${acme.id}::bigint`.execute(
    tablesOf(instance.database),
  );
  const invite = '/setup/o/acme/members/invite';
  const profile = await optionOf(admin, invite, 'read-only');
  await admin.submit(invite, invite, { email: `${'a'.repeat(60)}@${'b'.repeat(60)}.example`, profile });
}

/** Searches for the data of a person with long terms. */
async function searchPerson(world: World): Promise<string> {
  const { admin } = world;
  const texts = Array.from({ length: 20 }, (_, index) => sized(`${index} person`, 200));
  await create(world, 'leads', { last_name: texts[0] ?? '', description: texts.join(' ') });
  const find = '/setup/o/acme/forgetting/find';
  const started = await admin.submit(find, find, { texts: texts.join('\n'), records: '' });
  const search = started.headers.get('location') ?? assert.fail(started.text.slice(0, 500));
  await until(async () => !(await admin.get(search)).headers.has('refresh'), 'the search');
  return search;
}

/** Stores messages from partners and to subscribers, which are as long as allowed. */
async function storeMessages({ instance, acme }: World): Promise<void> {
  const tables = tablesOf(instance.database);
  await unmatchedPayment(instance, acme.id, { payload: long('payment') });
  const channel = await integrate(instance, acme, 'whatsapp');
  const message = { type: 'text', text: { body: 'x'.repeat(100_000) }, from: '491705550199' };
  await deliver(
    instance,
    channel,
    whatsappBody({ messages: [{ ...message, id: `wamid.${'"'.repeat(200)}`, timestamp: '1767225600' }] }),
  );
  const inbox = tables.selectFrom('crm_inbox').select('id');
  await until(
    async () => (await inbox.where('status', '=', 'waiting').execute()).length === 0,
    'the delivery',
  );
  for (let count = 0; count < manyObjects; count++)
    await delivered(instance, acme.id, channel.id, {
      event: sized(fresh('event'), 200),
      payload: sized('', 100_000, confusing.replaceAll('\0', '')),
      error: sized('rejected: ', 500),
    });
  const { end } = await feedEnd(instance.database);
  const actor = command(instance);
  const subscription = await transaction(instance.database, async (inTransaction) =>
    createSubscription(inTransaction, actor, sealing(instanceSecrets(instance.config)), {
      organization: acme.id,
      profile: await profileId(inTransaction, acme.id, 'read-only'),
      position: end,
      url: `https://hook.invalid/${sized('', 1900, '%3C%22')}`,
      resources: ['leads'],
      actions: ['delete'],
      filter: sized('status=', 1900),
      filterWhen: 'matches',
      transitions: {},
      format: 'standard',
      batch: null,
    }),
  );
  await sql`update crm_event_subscriptions set paused_until = 'infinity' where id = ${subscription.id}::bigint`.execute(
    tables,
  );
  for (let count = 0; count < manyObjects; count++) await sendTest(tables, acme.id, subscription.id);
  await tables
    .updateTable('crm_event_deliveries')
    .set({
      ...{ status: 'done', done_at: new Date(), error: sized('failed: ', 500) },
      ...{ request: sized('a: ', 4000), response: sized('b: ', 4000), url: sized('https://x/', 2000) },
      ...{ request_body: sized('', 8000), response_body: sized('', 8000, confusing) },
    })
    .where('subscription_id', '=', subscription.id)
    .execute();
}

/** Stores an app, calls of agents, and proposals of a key for large records. */
async function storeProposals(world: World, parcels: { readonly id: string }): Promise<string[]> {
  const { instance, acme, admin, host } = world;
  const writer = await acme.makeKey();
  const { run } = await useTool(instance, writer.key, 'describe');
  await useTool(instance, writer.key, 'create', {
    resource: 'parcels',
    values: { name: sized('agent', 1000) },
    run,
  });
  const { key } = await acme.makeKey({ access: 'propose' });
  const values = { name: long('proposed ') };
  for (const [tool, input] of [
    ['create', { values }],
    ['update', { id: Number(parcels.id), values }],
    ['delete', { id: Number(parcels.id) }],
    ['act', { id: Number(parcels.id), action: 'weigh', input: { note: sized('weigh', 10_000) } }],
  ] as const)
    await useTool(instance, key, tool, { resource: 'parcels', ...input });
  await copyRows(tablesOf(instance.database), 'crm_proposals', { where: sql`true`, times: manyObjects / 4 });
  const client = host.serve('/client', { client_name: sized('App', 100) });
  await connect(instance, admin, client);
  const { page } = await openConsent(instance, admin, client);
  const { rows } = await sql<{ id: string }>`select id from crm_proposals limit 50`.execute(
    tablesOf(instance.database),
  );
  const selected = rows.map(({ id }) => `id=${id}`).join('&');
  return [page, `/setup/o/acme/proposals/approve?${selected}`];
}

/** Copies the rows of a table that meet a condition. */
async function copyRows(
  tables: Tables,
  table: string,
  { where, times }: { readonly where: RawBuilder<unknown>; readonly times: number },
): Promise<void> {
  const { rows } = await sql<{ name: string }>`select column_name as name from information_schema.columns
    where table_name = ${table} and table_schema = current_schema() and column_name <> 'id'`.execute(tables);
  const columns = sql.join(rows.map(({ name }) => sql.ref(name)));
  await sql`insert into ${sql.table(table)} (${columns})
    select ${columns} from ${sql.table(table)} cross join generate_series(1, ${times}::int) where ${where}`.execute(
    tables,
  );
}

/** A page of the admin UI. */
export interface Page {
  /** The pattern of its route. */
  readonly url: string;
  readonly path: string;
}

/** Pages that are not HTML, or whose size depends on what they export. */
const isFile = (url: string): boolean => /\/(?:export|value|errors\.csv|logout)$|\/assets\//.test(url);

/** Returns the patterns of the routes of the admin UI's pages. */
export const pageRoutes = (routes: readonly Route[]): string[] => [
  ...new Set(
    routes
      .filter(({ methods, url }) => methods.includes('GET') && url.startsWith('/setup') && !isFile(url))
      .map(({ url }) => url.replace(/\/$/, '')),
  ),
];

/** Returns the links to pages of the admin UI in a response. */
export const linksIn = ({ text }: Pick<Answer, 'text'>): string[] =>
  [...text.matchAll(/ href="(\/setup[^"]*)"/g)].map(([, href = '']) => readable(href).replace(/#.*/, ''));

/** Parameters whose values select different pages, and parameters that only distinguish pages by their presence. */
const [selecting, distinguishing] = [
  ['show', 'status'],
  ['id', 'change', 'history', 'edit', 'view', 'by'],
];

/**
 * Opens the start pages and the pages that they link to: one page of each route, for each combination of the parameters that
 * select content.
 * @param open opens a page
 * @returns the pages, in their order
 */
export async function followLinks(
  urls: readonly string[],
  start: readonly string[],
  open: (page: Page) => Promise<Answer>,
): Promise<Page[]> {
  // Static segments precede parameters.
  const patterns = urls
    .toSorted((a, b) => a.split(':').length - b.split(':').length || b.length - a.length)
    .map((url) => ({
      url,
      pattern: new RegExp(`^${url.replace(/:\w+/g, '[^/]+').replaceAll('.', '\\.')}$`),
    }));
  const urlOf = (path: string) => patterns.find(({ pattern }) => pattern.test(path.replace(/\?.*/, '')))?.url;
  const kindOf = (url: string, path: string) => {
    const parameters = [...new URLSearchParams(path.split('?')[1])];
    const selected = parameters.flatMap(([name, value]) =>
      selecting.includes(name) ? `${name}=${value}` : distinguishing.includes(name) ? name : [],
    );
    return `${url}?${[...new Set(selected)].sort().join('&')}`;
  };
  const found: Page[] = [];
  const kinds = new Set<string>();
  const add = (path: string, isStart: boolean) => {
    const url = urlOf(path);
    if (url === undefined || isFile(path.replace(/\?.*/, '')) || found.some((page) => page.path === path))
      return;
    const kind = kindOf(url, path);
    if (kinds.has(kind) && !isStart) return;
    kinds.add(kind);
    found.push({ url, path });
  };
  for (const path of start) add(path, true);
  // The list grows while it is read.
  for (const page of found) {
    const answer = await open(page);
    if (answer.status === 200) for (const link of linksIn(answer)) add(link, false);
  }
  return found;
}
