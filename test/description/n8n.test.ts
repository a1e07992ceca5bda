// The package for n8n: n8n's linters and compiler accept it, and its nodes read, write and receive records of an instance.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { n8nNames, n8nPackage } from '../../app/commands/n8n-package.ts';
import type { OpenApiDocument } from '../../plugins/api/explorer/index.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { until } from '../support/process.ts';
import { programsIn } from '../support/programs.ts';
import { eventsTo, settledFeed } from '../support/receiver.ts';
import { sourcesWith } from '../support/sources.ts';

const root = join(import.meta.dirname, '../clients/n8n');
const generated = join(root, 'generated');
const skip = !existsSync(join(root, 'node_modules')) && 'needs npm ci --prefix test/clients/n8n';

type Values = Readonly<Record<string, unknown>>;

/** See test/clients/n8n/node.ts. */
interface Webhook {
  readonly port: number;
  readonly url: string;
  readonly close: () => Promise<void>;
}
interface Trigger {
  readonly stored: Values;
  readonly sent: readonly { readonly status: number; readonly items: readonly Values[] }[];
  readonly requests: readonly { readonly headers: Readonly<Record<string, string>>; readonly body: Buffer }[];
  readonly post: (headers: Readonly<Record<string, string>>, body: Buffer) => Promise<number>;
  readonly reactivate: () => Promise<void>;
  readonly deactivate: () => Promise<void>;
}
interface Nodes {
  readonly testCredential: () => Promise<number>;
  readonly execute: (
    items: readonly Values[],
    options?: { readonly continueOnFail?: boolean },
  ) => Promise<readonly { readonly json: Values; readonly pairedItem: Values }[]>;
  readonly activate: (parameters: Values, webhook: Webhook) => Promise<Trigger>;
}
interface Runner {
  readonly openWebhook: () => Promise<Webhook>;
  readonly loadNodes: (folder: string, connection: { readonly url: string; readonly key: string }) => Nodes;
}

const until2027 = 'alias: true\ndeprecated: 2026-11-22\nsunset: 2027-06-30';
/** A resource with every kind of value, and texts that must be escaped. */
const firms = {
  file: 'firms.yaml',
  text: `
singular: firm
renamed_from: companies
${until2027}
description: "A firm's \`record\` <b>\${here}</b> */ \\\\ \\"quoted\\"."
common: all
trash: 30 days
custom_fields: true
fields:
  code: { type: string, required: true, unique: true, description: "The firm's id in '\${another}' \\\\ system" }
  title: { type: string, renamed_from: label, ${until2027.replaceAll('\n', ', ')} }
  tally: { type: int64, description: Exact count. }
  worth: { type: number, description: Exact value. }
  size: { type: integer, min: 0, max: 100 }
  active: { type: boolean }
  founded: { type: date, nullable: true }
  due: { type: timestamp, nullable: true }
  tier: { type: string, enum: [gold, silver, base_level], closed: true, default: silver }
  lead_ids: { type: references, to: leads }
  tags: { type: list, enum: [big, small], closed: true }
sort: { by: id }
filters: [code, { field: tally, operators: [gte, in] }, { field: due, operators: [gte] }, { field: lead_ids, operators: [any] }]
search: [code]
`,
};

const run = programsIn(root);

/** Writes a package with the values that its README asks for before it is published. */
function write(folder: string, files: ReadonlyMap<string, string>): void {
  for (const [path, text] of files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const path = join(folder, 'package.json');
  const added = { author: { name: 'Ada', email: 'ada@firm.example' }, homepage: 'https://firm.example' };
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), ...added }));
}

describe('the package for n8n', { skip }, () => {
  let instance: Instance;
  let organization: Organization;
  let webhook: Webhook;
  let nodes: Nodes;
  let document: OpenApiDocument;
  const source = join(generated, 'source');
  before(async () => {
    const { openWebhook, loadNodes } = (await import(pathToFileURL(join(root, 'node.ts')).href)) as Runner;
    webhook = await openWebhook();
    instance = await startInstance(drivers.at(-1) ?? 'postgresql', {
      sources: await sourcesWith(firms),
      environment: settingsFile(eventsTo(webhook.port)).environment,
      ownServer: true,
    });
    organization = await instance.organization('alpha');
    document = (await instance.call('GET /docs/openapi.json')).json as OpenApiDocument;
    rmSync(generated, { recursive: true, force: true });
    write(source, n8nPackage(document, n8nNames('Acme CRM')));
    await run(source, 'npm', 'pack', '--offline', '--pack-destination', generated);
    await run(generated, 'tar', '-xzf', 'n8n-nodes-acme-crm-0.1.0.tgz');
    const { key } = organization;
    nodes = loadNodes(join(generated, 'package'), { url: `${instance.url}/`, key });
  });
  after(async () => {
    await instance.close();
    await webhook.close();
  });

  const call = (request: string, body?: unknown) =>
    instance.call(request, { key: organization.key, ...(body !== undefined && { body }) });
  const execute = async (parameters: Values) => (await nodes.execute([parameters])).map(({ json }) => json);
  const one = async (parameters: Values): Promise<Values> => {
    const [record, ...more] = await execute({ resource: 'firms', ...parameters });
    assert.deepEqual(more, []);
    return record ?? assert.fail('no output');
  };

  test("passes n8n's linters for community nodes without messages", async () => {
    assert.equal(await run(root, process.execPath, 'lint.ts', source), '');
  });

  test('the linters check the nodes, their parameters and the credential', async () => {
    const broken = join(generated, 'broken');
    const files = [...n8nPackage(document, n8nNames('Acme CRM'))].map(
      ([path, text]) =>
        [
          path,
          text
            .replace('usableAsTool: true,', '')
            .replace("displayName: 'Return All'", "displayName: 'Return all'")
            .replace('typeOptions: { password: true },', ''),
        ] as const,
    );
    write(broken, new Map(files));
    const findings = await run(root, process.execPath, 'lint.ts', broken);
    for (const rule of [
      'node-usable-as-tool',
      'node-param-display-name-miscased',
      'credential-password-field',
    ])
      assert.match(findings, new RegExp(rule));
    rmSync(broken, { recursive: true });
  });

  test("compiles strictly with n8n's types", async () => {
    await run(root, 'tsc', '-p', '.');
  });

  test('is the same for the same definitions, and its names depend on --name', () => {
    const files = n8nPackage(document, n8nNames('Acme CRM'));
    assert.deepEqual([...n8nPackage(structuredClone(document), n8nNames('Acme CRM'))], [...files]);
    assert.ok(n8nPackage(document, n8nNames('CRM')).has('dist/nodes/Crm/CrmTrigger.node.js'));
    for (const name of ['', '9 lives', "CRM'", 'a/b', 'a  b', 'x'.repeat(41)])
      assert.throws(() => n8nNames(name), /--name must start with a letter/);
    assert.equal(n8nNames(`A ${'x'.repeat(38)}`).className, `AX${'x'.repeat(37)}`);
  });

  test('the credential test succeeds with a key that has no grants, and fails with a wrong key', async () => {
    const { loadNodes } = (await import(pathToFileURL(join(root, 'node.ts')).href)) as Runner;
    const statusWith = (key: string) =>
      loadNodes(join(generated, 'package'), { url: instance.url, key }).testCredential();
    assert.equal(await statusWith(await organization.keyWith([])), 200);
    assert.equal(await statusWith('crm_wrong'), 401);
  });

  test('creates, reads, updates, deletes and restores a record, with all digits', async () => {
    const lead = await call('POST /api/v1/leads', { last_name: 'x' });
    const exact = { tally: '9007199254740993', worth: '123456789012345678.123456789' };
    const created = await one({
      operation: 'create',
      field_code: "o'1",
      additionalFields: {
        ...exact,
        size: 12,
        active: true,
        founded: '2020-02-29T00:00:00',
        due: '2026-07-01T09:30:00',
        tier: 'base_level',
        lead_ids: ` ${lead.json.id} `,
        tags: ['big'],
      },
    });
    const { code, tally, worth, size, active, founded, due, tier, lead_ids: leads, tags } = created;
    assert.deepEqual(
      { code, tally, worth, size, active, founded, due, tier, leads, tags },
      {
        ...exact,
        code: "o'1",
        size: 12,
        active: true,
        founded: '2020-02-29',
        due: '2026-07-01T09:30:00+02:00',
        tier: 'base_level',
        leads: [lead.json.id],
        tags: ['big'],
      },
    );
    const { text } = await call(`GET /api/v1/firms/${created.id}`);
    for (const [field, value] of Object.entries(exact)) assert.ok(text.includes(`"${field}":${value}`), text);

    const recordId = String(created.id);
    const updated = await one({
      operation: 'update',
      recordId,
      updateFields: { tally: -5, due: '2026-12-01T09:30:00', founded: '', title: '' },
    });
    assert.deepEqual(
      [updated.tally, updated.due, updated.founded, updated.worth],
      [-5, '2026-12-01T09:30:00+01:00', null, exact.worth],
    );
    const projection = await one({ operation: 'get', recordId, options: { fields: ['code', 'size'] } });
    assert.deepEqual(projection, { id: created.id, code: "o'1", size: 12 });
    assert.deepEqual(await one({ operation: 'delete', recordId }), { id: recordId, deleted: true });
    assert.equal((await call(`GET /api/v1/firms/${recordId}`)).status, 404);
    assert.equal((await one({ operation: 'restore', recordId })).id, created.id);
    assert.equal((await one({ operation: 'get', recordId })).tally, -5);
  });

  test('creates once for each idempotency key, and upserts by unique fields', async () => {
    const create = { operation: 'create', field_code: 'once', options: { idempotencyKey: 'run-1' } };
    assert.equal((await one(create)).id, (await one(create)).id);
    const upsert = (size: number) =>
      one({ operation: 'upsert', match: 'code', field_code: 'merged', additionalFields: { size } });
    const first = await upsert(1);
    assert.equal(first.created, true);
    assert.deepEqual(await upsert(2), { id: first.id, created: false });
    assert.equal((await call(`GET /api/v1/firms/${first.id}`)).json.size, 2);
    await assert.rejects(upsert(101), ({ httpCode, message }: Failure) => {
      assert.equal(httpCode, '400');
      assert.match(message, /^size must /);
      return true;
    });
  });

  test('reads and writes custom fields', async () => {
    for (const [name, type] of [
      ['shoe_size', 'integer'],
      ['serial', 'int64'],
    ])
      assert.equal((await call('POST /fields/firms', { name, type })).status, 201);
    const custom = '{"shoe_size": 38, "serial": 9007199254740995}';
    const created = await one({ operation: 'create', field_code: 'custom', additionalFields: { custom } });
    assert.deepEqual(created.custom, { shoe_size: 38, serial: '9007199254740995' });
    const customFilters = { filter: [{ name: 'shoe_size[gte]', value: '38' }] };
    assert.equal((await one({ operation: 'getAll', customFilters })).id, created.id);
  });

  test('lists three pages, a limited number of records, and records that match filters', async () => {
    const records = Array.from({ length: 45 }, (_, index) => ({ code: `page ${index}`, tally: index }));
    assert.equal((await call('POST /api/v1/firms/batch', { records })).status, 200);
    const list = async (parameters: Values) =>
      (await execute({ resource: 'firms', operation: 'getAll', ...parameters })).map(({ code }) => code);
    const options = { q: 'page', sort: 'tally', dir: 'desc' };
    const codes = records.map(({ code }) => code).toReversed();
    assert.deepEqual(await list({ returnAll: true, options }), codes);
    assert.deepEqual(await list({ limit: 25, options }), codes.slice(0, 25));
    assert.deepEqual(await list({ filters: { tally__gte: '43' }, options }), codes.slice(0, 2));
    const some = { code: ['page 1', 'page 2'] };
    assert.deepEqual(await list({ filters: some, options }), ['page 2', 'page 1']);
    assert.deepEqual(await list({ filters: { tally__in: '3, 4' }, options }), ['page 4', 'page 3']);
    const due = { due__gte: '2026-12-01T09:30:00' };
    assert.deepEqual(await list({ filters: due }), ["o'1"]);
    assert.deepEqual(await list({ filters: { due__gte: '2026-12-01T09:30:01' } }), []);
  });

  test('workflows with former names still run', async () => {
    const created = await one({
      resource: 'companies',
      operation: 'create',
      field_code: 'renamed',
      additionalFields: { label: 'old' },
    });
    assert.equal(created.title, 'old');
  });

  test('errors show the message and the hint, and can be output instead', async () => {
    const firms = { resource: 'firms', operation: 'getAll' };
    const misspelled = { ...firms, options: { sort: 'titel' } };
    const read = { ...firms, filters: { code: ['renamed'] } };
    const inexact = { ...firms, operation: 'create', field_code: 'y', additionalFields: { tally: 2 ** 60 } };
    await assert.rejects(nodes.execute([read, misspelled]), (error: Failure) => {
      assert.equal(error.constructor.name, 'NodeApiError');
      assert.equal(error.httpCode, '400');
      assert.match(error.message, /^sort must be one of /);
      assert.equal(error.description, 'Did you mean "title"?');
      assert.equal(error.context.itemIndex, 1);
      return true;
    });
    const several = {
      ...firms,
      operation: 'create',
      field_code: 'z',
      additionalFields: { size: 101, tier: 'bronze' },
    };
    await assert.rejects(nodes.execute([several]), ({ description }: Failure) => {
      assert.match(description, /^size: .*\ntier: /);
      return true;
    });
    const output = await nodes.execute([misspelled, read, inexact], { continueOnFail: true });
    const [failed, found, rejected] = output.map(({ json }) => json);
    assert.equal(failed?.status, 400);
    assert.match(String(failed?.hint), /Did you mean "title"\?/);
    assert.equal(found?.code, 'renamed');
    assert.match(String(rejected?.error), /^tally: "1152921504606847000" is not an exact number/);
    assert.deepEqual(
      output.map(({ pairedItem }) => pairedItem),
      [{ item: 0 }, { item: 1 }, { item: 2 }],
    );
  });

  test('the trigger subscribes, verifies signatures, starts with events, and unsubscribes', async () => {
    const subscriptions = async () =>
      (await call('GET /events/subscriptions')).json.data as readonly Values[];
    const { loadNodes } = (await import(pathToFileURL(join(root, 'node.ts')).href)) as Runner;
    const actions = ['*'] as const;
    const key = await organization.keyWith([
      { object: '*', actions },
      { object: 'events', actions: ['read', 'create', 'delete'] },
    ]);
    const { activate } = loadNodes(join(generated, 'package'), { url: instance.url, key });
    await settledFeed(instance);
    const trigger = await activate({ resources: ['firms'], actions: ['create', 'delete'] }, webhook);
    const [subscription] = await subscriptions();
    assert.deepEqual(
      [subscription?.url, subscription?.resources, subscription?.actions],
      [webhook.url, ['firms'], ['create', 'delete']],
    );
    await trigger.reactivate();
    assert.equal((await subscriptions()).length, 1);

    const created = await one({
      operation: 'create',
      field_code: 'event',
      additionalFields: { tally: '9007199254740997' },
    });
    await until(() => trigger.sent.length === 1, 'the event to be sent');
    const [{ items = [], status } = {}] = trigger.sent;
    assert.equal(status, 200);
    assert.equal(items.length, 1);
    const { type, id, data } = items[0] as { type: string; id: string; data: { record: Values } };
    assert.equal(type, 'firms.created');
    assert.equal(data.record.id, created.id);
    assert.equal(data.record.tally, '9007199254740997');

    const [{ headers, body } = assert.fail()] = trigger.requests;
    assert.equal(headers['webhook-id'], id);
    const signed = Object.fromEntries(
      Object.entries(headers).filter(([name]) => name.startsWith('webhook-')),
    );
    const old = String(Number(headers['webhook-timestamp']) - 301);
    for (const [forged, content] of [
      [{ ...signed, 'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}` }, body],
      [{ ...signed, 'webhook-timestamp': old }, body],
      [{ ...signed, 'webhook-id': 'evt_other' }, body],
      [signed, Buffer.concat([body, Buffer.from(' ')])],
      [{}, body],
    ] as const)
      assert.equal(await trigger.post(forged, content), 401, JSON.stringify(forged));
    assert.equal(await trigger.post(signed, body), 200);
    assert.deepEqual(
      trigger.sent.map(({ items: started }) => started.length),
      [1, 0, 0, 0, 0, 0, 1],
    );

    assert.equal((await call(`POST /events/subscriptions/${subscription?.id}/test`)).status, 200);
    await until(() => trigger.sent.length === 8, 'the test event to be sent');
    assert.deepEqual(trigger.sent.at(-1), { status: 200, items: [] });

    // A subscription that was deleted elsewhere is created again.
    await call(`DELETE /events/subscriptions/${subscription?.id}`);
    await trigger.reactivate();
    assert.equal((await subscriptions()).length, 1);
    await trigger.deactivate();
    assert.deepEqual(await subscriptions(), []);
    assert.deepEqual(trigger.stored, {});
  });

  test('the trigger shows why it cannot subscribe', async () => {
    const { loadNodes } = (await import(pathToFileURL(join(root, 'node.ts')).href)) as Runner;
    const key = await organization.keyWith([{ object: '*', actions: ['*'] }]);
    const { activate } = loadNodes(join(generated, 'package'), { url: instance.url, key });
    await assert.rejects(activate({ resources: ['firms'] }, webhook), ({ httpCode, message }: Failure) => {
      assert.equal(httpCode, '403');
      assert.match(message, /events/);
      return true;
    });
  });
});

/** An error that n8n shows. */
interface Failure extends Error {
  readonly httpCode: string;
  readonly description: string;
  readonly context: { readonly itemIndex: number };
}
