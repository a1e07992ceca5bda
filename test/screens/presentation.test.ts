// Labels, help, sections, icons, titles, columns and boards from the definitions, and retired resources.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import definitionSchema from '../../engine/definition/resource.schema.json' with { type: 'json' };
import type { Field } from '../../engine/fields/field.ts';
import { fieldTypes } from '../../engine/fields/field-types.ts';
import { fieldLabel, humanize, inSentence } from '../../engine/fields/labels.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { isTruncated, truncate } from '../../plugins/admin-ui/records/values.ts';
import { iconNames, initialsOf } from '../../plugins/admin-ui/shell/icon.ts';
import { runCommand } from '../support/command-line.ts';
import { settled } from '../support/erasures.ts';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers, temporaryFolder } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

const lofts = {
  file: 'resources/lofts.yaml',
  text: `singular: loft
label: { one: VIP loft, many: VIP lofts }
description: Flats under a roof.
help: Add only lofts that can be visited.
common: all
fields:
  name: { type: string }
  number: { type: integer }
  status:
    type: string
    enum: [draft, listed, sold <b> & let]
    closed: true
    default: draft
    initial: [listed]
    transitions: { draft: [listed], listed: [draft, sold <b> & let] }
    description: State of the sale.
  kind: { type: string, enum: [small, large] }
  vat_id: { type: string }
  price: { type: number, label: Asking price, help: Including VAT. }
  margin: { type: number, group: finance }
filters: [kind, status]
search: [name]
screen:
  section: Real estate
  icon: house
  title: [number, name]
  columns: [price, margin, number, vat_id]
  board: status
`,
};
const hidden = { file: 'resources/own-cases.yaml', text: 'extends: cases\nretired: true\n' };
const beams = {
  file: 'beams.yaml',
  text: `
singular: beam
common: all
fields:
  loft_id: { type: reference, to: lofts, nullable: true }
  state: { type: string, enum: [old, new] }
  cost: { type: number }
filters: [state]
screen: { hidden: true, board: state }
`,
};

/** The parts of an OpenAPI document that contain labels. */
interface Described {
  readonly tags: readonly Readonly<Record<string, string>>[];
  readonly components: {
    readonly schemas: Readonly<
      Record<
        string,
        {
          readonly title?: string;
          readonly properties: Readonly<
            Record<string, { readonly title?: string; readonly description?: string }>
          >;
        }
      >
    >;
  };
}
const described = ({ text }: Answer): Described => JSON.parse(text) as Described;

describe('labels', () => {
  const names = { linkedin_url: 'LinkedIn URL', vat_id: 'VAT ID', close_date: 'Close date', sla: 'SLA' };
  for (const [name, label] of Object.entries(names))
    test(`${name} is "${label}"`, () => assert.equal(humanize(name), label));

  test('in a sentence, only words without other capitals start with a lowercase letter', () => {
    assert.deepEqual(['VAT ID', 'Close date', 'LinkedIn URL', 'A'].map(inSentence), [
      'VAT ID',
      'close date',
      'LinkedIn URL',
      'a',
    ]);
  });

  const field: Field = {
    ...{ name: 'x_id', location: '', type: fieldTypes.reference, description: '', typeName: 'reference' },
    ...{ readOnly: false, nullable: true, required: false, default: null, unique: false, sensitive: false },
  };

  test('labels of references and users do not end with "ID"', () => {
    const { references, user, int64, string } = fieldTypes;
    for (const [part, label] of [
      [{ name: 'tag_ids', type: references }, 'Tags'],
      [{ name: 'owner_id', type: user }, 'Owner'],
      [{ name: 'editor_id', type: int64, set: 'editor' }, 'Editor'],
      [{ name: 'external_id', type: int64 }, 'External ID'],
      [{ name: 'vat_ids', type: string }, 'VAT IDs'],
      [{ name: 'about_id_lead_id', alternativeOf: 'about_id' }, 'About'],
    ] as const)
      assert.equal(fieldLabel({ ...field, ...part }), label);
  });

  test('a declared label replaces the derived one', () => {
    assert.deepEqual([fieldLabel(field), fieldLabel({ ...field, label: 'Y' })], ['X', 'Y']);
  });
});

test('a text is shortened to a number of characters, of which some consist of two code units', () => {
  for (const [text, length, shortened] of [
    ['abc', 3, 'abc'],
    ['abcd', 3, 'abc…'],
    ['😀😀😀', 3, '😀😀😀'],
    ['😀😀😀😀', 3, '😀😀😀…'],
    ['a😀b😀', 3, 'a😀b…'],
  ] as const) {
    assert.equal(truncate(text, length), shortened);
    assert.equal(isTruncated(text, length), text !== shortened, text);
  }
});

test('initials are the first letters of the first and the last word of a name', () => {
  for (const [name, initials] of [
    ['Ada', 'A'],
    ['ada king lovelace', 'AL'],
    ['ada.lovelace@people.example', 'AL'],
    ['(Émile) - zola', 'ÉZ'],
    ['7 of 9', '79'],
    ['@', ''],
  ] as const)
    assert.equal(initialsOf(name), initials, name);
});

test('every icon of the definition language exists', () => {
  const svg = readFileSync(new URL('../../plugins/admin-ui/shell/assets/icons.svg', import.meta.url), 'utf8');
  const symbols = [...svg.matchAll(/<symbol id="([^"]+)"/g)].map(([, id]) => id);
  const names: readonly string[] = iconNames;
  assert.deepEqual(symbols, names);
  for (const icon of definitionSchema.properties.screen.properties.icon.enum) assert.ok(names.includes(icon));
});

onBothDrivers(
  'presentation',
  (instance) => {
    const data = '/setup/o/acme/data';
    let acme: Organization;
    let admin: Visitor;
    let loft = '';
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
      const body = { name: 'Attic', number: 7, price: 100, margin: 11, vat_id: 'DE1', status: 'listed' };
      const made = await instance().call('POST /api/v1/lofts', { key: acme.key, body });
      assert.equal(made.status, 201, made.text);
      loft = String(made.json.id);
    });
    const headings = (text: string) =>
      [...text.matchAll(/<th scope="col"[^>]*>(.*?)<\/th>/g)].map(([, html = '']) =>
        readable(html.replace(/<[^>]*>/g, '')).trim(),
      );

    test('the navigation and the home page list resources by section, with their icons', async () => {
      const { text } = await admin.get('/setup/o/acme');
      const navigation = [...text.matchAll(/<p class="heading"[^>]*>(.*?)<\/p>/g)].map(([, title]) => title);
      assert.deepEqual(navigation.slice(0, 2), ['Real estate', 'Records']);
      assert.match(text, /href="\/setup\/o\/acme\/data\/lofts"[^>]*><svg[^>]*><use href="[^"]*#house"/);
      assert.match(text, /<section aria-label="Real estate"><h2>Real estate<\/h2>/);
    });

    test('a hidden resource has pages, but is neither in the navigation nor on the home page', async () => {
      const { text } = await admin.get('/setup/o/acme');
      assert.doesNotMatch(text, /data\/beams/);
      const recent = async () => {
        const { text: home } = await admin.get('/setup/o/acme');
        return /<section class="recent" aria-label="Recent activity"[\s\S]*?<\/section>/
          .exec(home)?.[0]
          .match(/<li>/g);
      };
      const entries = await recent();
      assert.ok(entries !== null && entries !== undefined);
      assert.match((await admin.get(`${data}/beams`)).text, /<h1>Beams<\/h1>/);
      const body = { loft_id: Number(loft), state: 'old', cost: 1 };
      for (let count = 0; count < 5; count++)
        assert.equal((await instance().call('POST /api/v1/beams', { key: acme.key, body })).status, 201);
      assert.deepEqual(await recent(), entries, 'as many other entries as before');
      assert.match((await admin.get(`${data}/lofts/${loft}`)).text, /data\/beams\//);
      assert.doesNotMatch((await admin.get('/setup/o/acme')).text, /data\/beams/);
    });

    test('lists show the title, the columns and the labels', async () => {
      const { text } = await admin.get(`${data}/lofts`);
      assert.deepEqual(headings(text).slice(0, 4), ['VIP loft', 'Asking price', 'Margin', 'VAT ID']);
      assert.match(text, /<h1>VIP lofts<\/h1>/);
      assert.match(text, new RegExp(`href="${data}/lofts/${loft}[^"]*">7 Attic</a>`));
      assert.match(text, /Add only lofts that can be visited\./);
      assert.match(text, /Create VIP loft/);
      assert.match(text, /placeholder="Search VIP lofts"/);
      const large = await instance().call('POST /api/v1/lofts', {
        ...{ key: acme.key, body: { name: 'Wide', number: 1234 } },
      });
      assert.match(
        (await admin.get(`${data}/lofts/${large.json.id}`)).text,
        /<h1>1234 Wide<\/h1>/,
        'no number',
      );
      const found = await admin.get('/setup/o/acme/search?q=vip');
      assert.match(found.text, /Create VIP loft/);
    });

    test('forms show labels and help', async () => {
      const { text } = await admin.get(`${data}/lofts/new`);
      assert.match(text, /Asking price/);
      assert.match(text, /Including VAT\./);
      assert.match(text, /State of the sale\./);
    });

    test('the board starts with the declared field', async () => {
      const { text } = await admin.get(`${data}/lofts/board`);
      assert.match(text, /<h1>VIP lofts by status<\/h1>/);
      assert.match(text, /data-value="listed"[\s\S]*7 Attic/);
    });

    test('the API description contains declared labels, and help without a description', async () => {
      const document = described(await instance().call('GET /docs/openapi.json'));
      const { Loft } = document.components.schemas;
      assert.ok(Loft);
      assert.equal(Loft.title, 'VIP loft');
      assert.deepEqual(
        [Loft.properties.price?.title, Loft.properties.price?.description],
        ['Asking price', 'Including VAT.'],
      );
      assert.equal(Loft.properties.vat_id?.title, undefined);
      const tag = document.tags.find(({ name }) => name === 'lofts');
      assert.equal(tag?.['x-displayName'], 'VIP lofts');
    });

    test('the explorer shows transitions as a diagram with a text alternative', async () => {
      const { text } = await instance().call('GET /docs/lofts');
      assert.match(text, /<h1>VIP lofts<\/h1>/);
      assert.match(readable(text), /Flats under a roof\./);
      assert.match(
        text,
        /<li>listed, where new records can start, can change to draft or sold &lt;b&gt; &amp; let\.<\/li>/,
      );
      assert.match(text, /<li>sold &lt;b&gt; &amp; let is final\.<\/li>/);
      const [, path = ''] = /<img src="([^"]+)" alt="Diagram of the transitions of status/.exec(text) ?? [];
      const image = await instance().call(`GET ${path}`);
      assert.equal(image.headers.get('content-type'), 'image/svg+xml; charset=utf-8');
      assert.equal(image.text.match(/marker-end/g)?.length, 3, 'one arrow for each transition');
      assert.equal(image.text.match(/class="start"/g)?.length, 2, 'one dot for each initial value');
      assert.equal(image.text.match(/class="inner"/g)?.length, 1, 'a double border for the final value');
      assert.match(image.text, /<desc[^>]*>draft, where new records can start, can change to listed\./);
      assert.match(image.text, /prefers-color-scheme:dark/);
      assert.doesNotMatch(image.text, /<b>|&(?!#\d+;)/, 'invalid XML');
      const document = described(await instance().call('GET /docs/openapi.json'));
      assert.equal(document.tags.find(({ name }) => name === 'lofts')?.description, 'Flats under a roof.');
    });

    test('columns of a field group are hidden without its grants', async () => {
      const person = await makePerson(instance(), [
        { organization: acme, grants: [{ object: 'lofts', actions: ['list', 'read'] }] },
      ]);
      const { text } = await (await signIn(instance(), person)).get(`${data}/lofts`);
      assert.deepEqual(headings(text).slice(0, 4), ['VIP loft', 'Asking price', 'VAT ID']);
    });

    test('a retired resource has no routes, pages or grants and keeps its records', async () => {
      const { database } = instance();
      const account = await instance().call('POST /api/v1/accounts', { key: acme.key, body: { name: 'A' } });
      const { id } = account.json;
      await sql`insert into cases (organization_id, id, subject, account_id, created_at, updated_at) values (${acme.id}::bigint, 1, 'Kept', ${String(id)}::bigint, now(), now())`.execute(
        tablesOf(database),
      );
      const unknown = await instance().call('GET /api/v1/cases', { key: acme.key });
      assert.deepEqual([unknown.status, unknown.json.code], [404, 'not_found']);
      assert.equal((await admin.get(`${data}/cases`)).status, 404);
      assert.doesNotMatch((await admin.get('/setup/o/acme')).text, /data\/cases/);
      assert.doesNotMatch((await admin.get('/setup/o/acme/profiles/create')).text, /cases:/);
      const document = await instance().call('GET /docs/openapi.json');
      assert.doesNotMatch(document.text, /\/api\/v1\/cases/);
      assert.equal('Case' in described(document).components.schemas, false);
      const expand = await instance().call('GET /api/v1/accounts?expand=cases', { key: acme.key });
      assert.equal(expand.status, 400);
      const deleted = await instance().call(`DELETE /api/v1/accounts/${id}`, { key: acme.key });
      assert.equal(deleted.status, 200, deleted.text);
      const { rows } = await sql`select subject, account_id from cases`.execute(tablesOf(database));
      assert.deepEqual(rows, [{ subject: 'Kept', account_id: null }]);
    });

    test('the records of a retired resource are exported and erased, by commands and in the browser', async () => {
      const tables = tablesOf(instance().database);
      await sql`insert into cases (organization_id, id, subject, status, created_at, updated_at)
        select ${acme.id}::bigint, 100 + n, 'About Ada', 'Retired ' || n, now(), now() from generate_series(1, 2) n`.execute(
        tables,
      );
      const folder = temporaryFolder();
      const file = join(folder.path, 'acme.ndjson');
      await runCommand(instance(), ['org', 'export', 'acme', file]);
      const page = await admin.get('/setup/organizations/acme/export');
      for (const text of [readFileSync(file, 'utf8'), page.text])
        assert.equal(text.match(/^\{"kind":"record","resource":"cases",.*"About Ada"/gm)?.length, 2);
      folder.remove();
      const forget = ['person', 'forget', '--org', 'acme', '--records', 'cases?status=Retired 1'];
      await runCommand(instance(), [...forget, '--erase']);
      const find = '/setup/o/acme/forgetting/find';
      const found = await settled(
        admin,
        await admin.submit(find, find, { records: 'cases?status=Retired 2' }),
      );
      const form = formsOf(found).find(({ action }) => action.endsWith('/forget'));
      assert.ok(form, readable(found.text));
      await settled(admin, await admin.post(form.action, { ...form.values, word: 'erase' }));
      const { rows } = await sql`select from cases where subject = 'About Ada'`.execute(tables);
      assert.deepEqual(rows, []);
    });
  },
  { sources: await sourcesWith(lofts, hidden, beams) },
);
