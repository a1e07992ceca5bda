// `crm client`: the shipped client is up to date, and clients for other resources are correct.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parseSync } from 'oxc-parser';
import { clientSource, type Document } from '../../app/commands/client-command.ts';
import { compilers, type Installed, install, runProgram } from '../support/client-package.ts';
import { everyType } from '../support/every-type.ts';
import { type Instance, startInstance, temporaryFolder } from '../support/instance.ts';
import { nested } from '../support/nested.ts';
import { assertRefused, crm, crmJson, project } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';
import { people } from '../support/unique-people.ts';

const shipped = join(project, 'client');
const nowhere = { DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/nothing' };

/** Returns a client's source files by path. */
const filesOf = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !/\/(dist|node_modules)\b/.test(`${entry.parentPath}/`))
      .map(({ parentPath, name }) => join(parentPath, name))
      .map((path) => [path.slice(folder.length + 1), readFileSync(path, 'utf8')]),
  );

describe('crm client', () => {
  const folder = temporaryFolder();
  after(folder.remove);
  const output = (name: string) => join(folder.path, name);

  test('generates the shipped client: run `npm run -s crm -- client` if this fails', async () => {
    await crmJson(['client', '--output', output('shipped')], nowhere);
    const [generated, committed] = [filesOf(output('shipped')), filesOf(shipped)];
    const paths = Object.keys({ ...generated, ...committed });
    assert.ok(paths.includes('src/resources.generated.ts'));
    const different = paths.filter((path) => generated[path] !== committed[path]);
    assert.deepEqual(different, []);
  });

  test('replaces the source and keeps package.json', async () => {
    const mine = output('mine');
    await crm(['client', '--output', mine], nowhere);
    writeFileSync(join(mine, 'package.json'), '{ "name": "mine" }');
    writeFileSync(join(mine, 'src/resources.generated.ts'), 'old');
    const { stdout, code } = await crm(['client', '--output', mine], nowhere);
    assert.deepEqual([code, stdout.startsWith('Wrote a client to')], [0, true]);
    assert.equal(readFileSync(join(mine, 'package.json'), 'utf8'), '{ "name": "mine" }');
    assert.equal(filesOf(mine)['src/resources.generated.ts'], filesOf(shipped)['src/resources.generated.ts']);
  });

  test('fails if the folder contains other files', async () => {
    mkdirSync(output('full'));
    writeFileSync(join(output('full'), 'precious.txt'), '');
    assertRefused(
      await crm(['client', '--output', output('full')], nowhere),
      /is not empty and does not contain a client/,
    );
    assert.deepEqual(readdirSync(output('full')), ['precious.txt']);
    const file = join(output('full'), 'precious.txt');
    assertRefused(
      await crm(['client', '--output', file], nowhere),
      /cannot be read: it is a file, not a folder/,
    );
  });

  for (const [url, message] of [
    ['nowhere', /must be a URL such as https:/],
    ['http://127.0.0.1:1', /does not respond/],
  ] as const) {
    test(`--url ${url} fails`, async () =>
      assertRefused(await crm(['client', '--output', output('never'), '--url', url], nowhere), message));
  }
});

describe('an untrusted API description', () => {
  const property = (name: string, schema: object): Record<string, object> => ({ [name]: schema });
  const documentOf = (properties: Record<string, object>, more: Record<string, object> = {}): Document => {
    const list = { responses: {}, parameters: [] };
    const create = {
      responses: { 201: { content: { 'application/json': { schema: { $ref: '#/x/Lead' } } } } },
    };
    const codes = { type: 'string', 'x-extensible-enum': ['not_found'] };
    return {
      paths: { '/api/v1/leads': { get: list, post: create }, '/api/v1/leads/{id}': { get: list } },
      components: {
        schemas: { Lead: { properties }, ErrorCode: codes, ...more },
        parameters: {},
      },
    };
  };

  test('must describe resources and error codes', () => {
    const { paths, components } = documentOf({});
    const { ErrorCode: _, ...schemas } = components.schemas;
    for (const other of [
      { paths: {}, components },
      { paths, components: { ...components, schemas } },
    ])
      assert.throws(() => clientSource(other), /does not contain resources\. Pass the URL of a CRM instance/);
  });

  test('cannot inject code into the client', () => {
    for (const [properties, message] of [
      [property("a: 'int64', [(globalThis.pwned = 1, 'b')]", { type: 'integer' }), /contains the name "a: /],
      [property('a', { type: 'string; export const pwned = 1' }), /contains the type "string; /],
      [
        property('a', { type: 'object', properties: property('b: 1 }; pwned', {}) }),
        /contains the name "b: /,
      ],
    ] as const)
      assert.throws(() => clientSource(documentOf(properties)), message);
    const expanded = property('account.a: never }; pwned', { anyOf: [{ $ref: '#/x/Lead' }] });
    const groups = property('sum(a: 1 }; pwned)', { type: 'integer' });
    for (const [more, message] of [
      [
        { LeadProjection: { properties: { expanded: { properties: expanded } } } },
        /contains the name "a: never/,
      ],
      [
        { LeadAggregates: { properties: { data: { items: { properties: groups } } } } },
        /contains the name "a: 1/,
      ],
    ] as const)
      assert.throws(() => clientSource(documentOf({}, more)), message);
    const text = "*/ x' | never;\n'; globalThis.pwned = 1; */";
    const source = clientSource(
      documentOf(property('a', { type: 'string', description: text, 'x-extensible-enum': [text] })),
    );
    const { program } = parseSync('resources.ts', source);
    const kinds = new Set(program.body.map(({ type }) => type));
    assert.deepEqual([...kinds].sort(), [
      'ExportNamedDeclaration',
      'ImportDeclaration',
      'VariableDeclaration',
    ]);
  });
});

describe('a client for other resources', () => {
  let instance: Instance;
  let installed: Installed;
  const folder = temporaryFolder();
  // Singular names that collide with TypeScript's types or the client's types.
  const odd = ['client', 'record', 'date', 'page', 'id', 'array', 'crm', 'promise'].map((singular) => ({
    file: `resources/list_of_${singular}.yaml`,
    text: `singular: ${singular}\ncommon: [id, organization_id]\nfields:\n  name: { type: string, required: true, description: "*/ it's" }\n`,
  }));
  const former = 'alias: true, deprecated: 2026-11-22, sunset: 2027-06-30';
  const renamed = {
    file: 'resources/bargains.yaml',
    text: `singular: bargain
renamed_from: deals
${former.replaceAll(', ', '\n')}
common: [id, organization_id]
fields:
  price: { type: number, renamed_from: cost, ${former} }
`,
  };
  const parcels = {
    file: 'resources/parcels.yaml',
    text: 'singular: parcel\ncommon: [id, organization_id]\ntrash: 30 days\nfields:\n  name: { type: string }\nfilters: [name]\n',
  };
  before(async () => {
    instance = await startInstance('postgresql', {
      sources: await sourcesWith(people, renamed, parcels, ...everyType, ...odd, ...nested),
    });
    const client = join(folder.path, 'client');
    await crmJson(['client', '--output', client, '--url', `${instance.url}/`], nowhere);
    installed = await install(client);
  });
  after(async () => {
    installed?.remove();
    folder.remove();
    await instance?.close();
  });

  test('is a package of JavaScript and types', () => {
    const names = [
      'changes',
      'client',
      'errors',
      'events',
      'http',
      'index',
      'instance',
      'json',
      'query',
      'resources.generated',
    ];
    assert.deepEqual(installed.files, [
      'LICENSE',
      'README.md',
      ...names.flatMap((name) => [`dist/${name}.d.ts`, `dist/${name}.js`]),
      'package.json',
    ]);
  });

  test('cannot be generated for another URL', async () => {
    const output = join(folder.path, 'elsewhere');
    assertRefused(
      await crm(['client', '--output', output, '--url', `${instance.url}/docs`], nowhere),
      `${instance.url}/docs/docs/openapi.json responded with 404`,
    );
    assert.ok(!existsSync(output));
  });

  test('marks deprecated fields', () => {
    const types = readFileSync(
      join(installed.folder, 'node_modules/@crm-engine/client/dist/resources.generated.d.ts'),
      'utf8',
    );
    assert.match(types, /@deprecated.*\n +readonly cost: string;/);
    assert.doesNotMatch(types, /@deprecated.*\n +readonly price/);
  });

  test('compiles, and its types reject what the instance would reject', async () => {
    await installed.compile({
      'round.ts': `
import { createClient } from '@crm-engine/client';
export async function round(url: string, key: string) {
  const crm = createClient({ url, key });
  const ada = await crm.people.create({ email: 'ada@example.com', code: 2n ** 62n, since: '1843-01-01' });
  const [changed] = await crm.people.upsert([{ email: 'ada@example.com', age: 27 }], ['email']);
  await crm.people.upsert([{ account_id: null, since: null }], ['account_id', 'since']).catch(() => {});
  const shown = await crm.people.get(ada.id, { fields: ['age'], expand: ['account_id'] });
  const loose = await crm.loose.create({ n_number: '0.10', p_int64: 2n ** 62n, n_boolean: true, n_date: null });
  const { data } = await crm.loose.list({ where: { n_boolean: true } });
  await crm.list_of_page.create({ name: 'a page' });
  const { price, cost } = await crm.bargains.create({ cost: '1.25' });
  const quote = await crm.quotes.create({ title: 'A', lines: [{ name: 'a', amount: '0.10' }] });
  const [line] = quote.expanded?.lines?.data ?? [];
  const read = await crm.quotes.get(quote.id, { expand: ['lines'] });
  await crm.quotes.replace(quote.id, { lines: [{ id: line?.id ?? null, amount: 2 }] });
  const parcel = await crm.parcels.create({ name: 'a' });
  await crm.parcels.delete(parcel.id);
  const { data: [trashed] } = await crm.parcels.list({ trashed: true, where: { name: 'a' }, sort: 'trashed_at' });
  const times = [trashed?.trashed_at.length];
  for await (const { trashed_at } of crm.parcels.export({ trashed: true })) times.push(trashed_at.length);
  const restored = await crm.parcels.restore(parcel.id);
  const { data: [listed] } = await crm.parcels.list({ fields: ['name'] });
  const trash = [times.every((length) => length !== undefined && length > 0), times.length, restored.id === parcel.id, listed?.name];
  return [trash, line?.amount, read.expanded.lines.data[0]?.id === line?.id, changed?.id === ada.id, shown.age, shown.expanded.account_id, loose.n_number, loose.p_int64, data.length, price, cost];
}
export async function wrong(crm: ReturnType<typeof createClient>) {
  // @ts-expect-error: no such field
  await crm.people.create({ mail: 'ada@example.com' });
  // @ts-expect-error: no such field of a line
  await crm.quotes.create({ lines: [{ nane: 'a' }] });
  // @ts-expect-error: a required field
  await crm.list_of_page.create({});
  // @ts-expect-error: not unique
  await crm.people.upsert([], ['age']);
  // @ts-expect-error: leads have no unique fields
  await crm.leads.upsert([], ['email']);
  // @ts-expect-error: no such filter
  await crm.leads.list({ where: { mail: 'x' } });
  // @ts-expect-error: no such operator
  await crm.leads.list({ where: { email: { contains: 'x' } } });
  // @ts-expect-error: an ID is not a string
  await crm.leads.get('7');
  // @ts-expect-error: cases have a fixed order
  await crm.cases.list({ sort: 'id' });
  await crm.cases.list({ q: 'x', where: { account_id: { in: 7n } } });
  // @ts-expect-error: leads have no trash
  await crm.leads.list({ trashed: true });
  // @ts-expect-error: leads have no trash
  await crm.leads.restore(7n);
  // @ts-expect-error: not a filter
  await crm.parcels.list({ where: { trashed: true } });
  // @ts-expect-error: only in lists of the trash
  await crm.parcels.list({ fields: ['trashed_at'] });
  // @ts-expect-error: a former name
  await crm.deals.list();
  // @ts-expect-error: not a reference
  await crm.cases.list({ expand: ['queue_id'] });
  const { data } = await crm.cases.list({ fields: ['subject'] });
  // @ts-expect-error: not one of the requested fields
  return data[0]?.status;
}`,
    });
    const { round } = (await import(join(installed.folder, 'compiled/round.js'))) as {
      readonly round: (url: string, key: string) => Promise<unknown>;
    };
    const { key } = await instance.organization('alpha');
    assert.deepEqual(await round(instance.url, key), [
      [true, 2, true, 'a'],
      '0.1',
      true,
      true,
      27n,
      null,
      '0.1',
      2n ** 62n,
      1,
      '1.25',
      '1.25',
    ]);
  });
});

describe('the client is portable', () => {
  const sources = Object.entries(filesOf(shipped)).filter(([path]) => path.endsWith('.ts'));

  test('imports only its own modules', () => {
    assert.ok(sources.length >= 5);
    const imported = sources.flatMap(([, text]) =>
      [...text.matchAll(/(?:\bfrom |\bimport\(|^import )'([^']+)'/gm)].map(([, name = '']) => name),
    );
    assert.ok(imported.length >= 10);
    assert.deepEqual(
      imported.filter((name) => !name.startsWith('./')),
      [],
    );
    const { dependencies = {} } = JSON.parse(readFileSync(join(shipped, 'package.json'), 'utf8')) as {
      readonly dependencies?: object;
    };
    assert.deepEqual(dependencies, {});
  });

  // The project's own type check compiles the client with the types from Node.js.
  for (const [version, path] of compilers) {
    const skip = !existsSync(path) && 'needs npm ci --prefix test/clients';
    for (const globals of ['dom', 'webworker']) {
      test(`TypeScript ${version} compiles it with only the globals of ${globals}`, { skip }, async () => {
        const options = ['-p', '.', '--noEmit', '--lib', `es2023,${globals}`];
        await runProgram(shipped, process.execPath, join(path, 'bin/tsc'), ...options);
      });
    }
  }
});
