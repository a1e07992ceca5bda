// The explorer's pages: every operation with its purpose, body fields in the order of the definition, the logged-in user's
// organization, and their size.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { before, describe, test } from 'node:test';
import { builtOnce } from '../../plugins/api/explorer/built-once.ts';
import type { Schema } from '../../plugins/api/explorer/index.ts';
import { schemaRows, typeText } from '../../plugins/api/explorer/schema-rows.ts';
import { transitionDiagram } from '../../plugins/api/explorer/transition-diagram.ts';
import { administratorOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { assertGerman, namesIn } from '../support/german.ts';
import { onBothDrivers } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';
import { definitions } from '../support/records.ts';

/** The parts of the OpenAPI document that the pages are compared with. */
interface Described extends Readonly<Record<string, unknown>> {
  readonly tags: readonly { readonly name: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly webhooks: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly security: Security;
  readonly components: {
    readonly securitySchemes: Readonly<Record<string, { readonly type: string; readonly name?: string }>>;
  };
}
type Security = readonly Readonly<Record<string, unknown>>[];
interface Operation {
  readonly security?: Security;
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly tags: readonly string[];
}

/** Maximum size of all pages and files of the explorer together, compressed, in bytes. */
const maxBytes = 1_000_000;

const schemas: Readonly<Record<string, Schema>> = {
  Size: { type: 'string', enum: ['small', 'large'] },
  Base: { type: 'object', properties: { id: { type: 'integer', readOnly: true } }, required: ['id'] },
  Thing: {
    allOf: [
      { $ref: '#/components/schemas/Base' },
      {
        type: 'object',
        properties: {
          size: { $ref: '#/components/schemas/Size' },
          old: { type: 'string', deprecated: true, description: 'Old.' },
        },
        required: ['size'],
      },
    ],
  },
};
const thing: Schema = { $ref: '#/components/schemas/Thing' };

test('a document that could not be built is built again, and only once', async () => {
  let builds = 0;
  const built = builtOnce(async () => {
    if (++builds === 1) throw new Error('not yet');
    return builds;
  });
  await assert.rejects(built(), /not yet/);
  assert.deepEqual(await Promise.all([built(), built()]), [2, 2]);
  assert.equal(await built(), 2);
});

describe("the explorer's types", () => {
  for (const [text, schema] of [
    ['string', { type: ['string', 'null'] }],
    ['integer (int64)', { type: 'integer', format: 'int64' }],
    ['array of integer (int64)', { type: ['array', 'null'], items: { type: 'integer', format: 'int64' } }],
    ['string or integer', { type: ['string', 'integer'] }],
    ['string', { $ref: '#/components/schemas/Size' }],
    ['object', thing],
    ['string or object', { anyOf: [{ type: 'string' }, thing, { type: 'null' }] }],
    ['string', { oneOf: [{ type: 'string' }, { type: 'string' }] }],
    ['"leads"', { const: 'leads' }],
    ['any', {}],
  ] as const satisfies readonly (readonly [string, Schema])[])
    test(`${JSON.stringify(schema)} is ${text}`, () => assert.equal(typeText(schema, schemas), text));

  test('the fields of a body are listed with the fields of the objects in it', () => {
    const rows = (schema: Schema) =>
      schemaRows(schema, schemas).map((row) =>
        [
          '.'.repeat(row.depth) + row.name,
          row.type,
          ...(row.isRequired ? ['required'] : []),
          ...(row.isReadOnly ? ['read-only'] : []),
          ...(row.isDeprecated ? ['deprecated'] : []),
          ...(row.description === undefined ? [] : [row.description]),
        ].join(' '),
      );
    const fields = ['id integer required read-only', 'size string required', 'old string deprecated Old.'];
    assert.deepEqual(rows(thing).toSorted(), fields.toSorted());
    assert.deepEqual(rows({ type: 'array', items: thing }), rows(thing));
    assert.deepEqual(rows({ anyOf: [thing, { type: 'null' }] }), rows(thing));
    assert.deepEqual(rows({ anyOf: [thing, { type: 'object', properties: {} }] }), []);
    const nested = (depth: number): Schema =>
      depth === 0
        ? { type: 'string' }
        : { type: 'object', properties: { [`level${depth}`]: nested(depth - 1) } };
    assert.deepEqual(rows(nested(5)), [
      'level5 object',
      '.level4 object',
      '..level3 object',
      '...level2 object',
    ]);
  });
});

test('the diagram of transitions escapes and shortens its labels, and draws each change once', () => {
  const [first, long, last] = ['a<b & "c">', 'x'.repeat(41), 'last'];
  const svg = transitionDiagram({
    name: 'status & more',
    values: [first, long, last],
    transitions: {
      initial: [first],
      next: new Map([
        [first, [long, last, first]],
        [long, [first]],
      ]),
    },
  });
  assert.match(svg, /<title id="title">Transitions of status &#38; more<\/title>/);
  assert.doesNotMatch(svg, /a<b|x{41}<\/text>/);
  assert.deepEqual(
    [...svg.matchAll(/>([^<]+)<\/text>/g)].map(([, label]) => label),
    ['a&#60;b &#38; &#34;c&#34;&#62;', `${'x'.repeat(39)}…`, last],
  );
  // To the next value, to the one after it on the right, and back on the left.
  const [, left, right] = /<rect class="box" x="(\d+)" y="\d+" width="(\d+)"/.exec(svg)?.map(Number) ?? [];
  const ends = [...svg.matchAll(/<path class="arrow" d="M([\d.]+) [\d.]+([VC])/g)];
  assert.deepEqual(
    ends.map(([, x, command]) => `${command}${x}`),
    [`V${Number(left) + Number(right) / 2}`, `C${Number(left) + Number(right)}`, `C${left}`],
  );
});

/** Returns a page's text without markup. */
const plain = (html: string): string => readable(html.replace(/<[^>]+>/g, ''));

/** Returns the HTML of one operation on a page. */
function operationIn(page: string, id: string): string {
  const [, rest = ''] = page.split(`<details class="operation" id="${id}"`);
  return rest.split('<details class="operation"')[0] ?? '';
}

onBothDrivers('The explorer', (instance) => {
  let document: Described;
  const pages = new Map<string, string>();
  before(async () => {
    document = (await instance().call('GET /docs/openapi.json')).json as Described;
    for (const { name } of document.tags) pages.set(name, (await instance().call(`GET /docs/${name}`)).text);
  });

  test('shows every operation on the page of its tag, and starts with its purpose', () => {
    let count = 0;
    for (const [path, item] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        if (method === 'parameters') continue;
        const { operationId, summary, description, tags } = operation;
        const html = operationIn(pages.get(tags[0] ?? '') ?? '', operationId);
        const [, heading = ''] = /<summary>(.*?)<\/summary>/s.exec(html) ?? [];
        assert.equal(plain(heading).trim(), `${method.toUpperCase()}${summary}${path}`);
        const [, purpose = ''] = /<p class="purpose" lang="en">(.*?)<\/p>/s.exec(html) ?? [];
        assert.equal(plain(purpose), description.replaceAll('`', ''));
        assert.match(description, /^[A-Z][a-z]+s\b[^.]*[.:]/, 'a sentence about what the operation does');
        count++;
      }
    }
    assert.ok(count > 60, `${count} operations`);
  });

  test('lists body fields in the order of the definition', () => {
    for (const { name, singular, fields } of definitions) {
      const id = `create${singular.charAt(0).toUpperCase()}${singular.slice(1)}`;
      const [, table = ''] = operationIn(pages.get(name) ?? '', id).split('<h3>Body fields</h3>');
      const rows = (table.split('</dl>')[0] ?? '').matchAll(/<div class="depth-0"><dt><code>([^<]+)</g);
      const names = [...rows].map(([, field = '']) => field);
      assert.ok(names.length > 3, name);
      assert.deepEqual(
        names,
        fields.map((field) => field.name).filter((field) => names.includes(field)),
      );
    }
  });

  test('fills in examples only for requests that do not change existing records', () => {
    const page = pages.get('accounts') ?? '';
    const idIn = (id: string) => /data-in="path"[^>]* value="([^"]*)"/.exec(operationIn(page, id))?.[1];
    const bodyIn = (id: string) =>
      /<textarea class="code"[^>]*>\n(.*?)<\/textarea>/s.exec(operationIn(page, id))?.[1];
    assert.equal(idIn('getAccount'), '1');
    for (const id of ['replaceAccount', 'patchAccount', 'deleteAccount']) assert.equal(idIn(id), '', id);
    for (const id of ['batchPatchAccounts', 'batchDeleteAccounts']) assert.equal(bodyIn(id), '', id);
    assert.match(bodyIn('createAccount') ?? '', /^\{\n/);
    assert.match(bodyIn('replaceAccount') ?? '', /^\{\n/);
  });

  test('asks for the credential of each operation, and offers no response that never ends', () => {
    const schemes = document.components.securitySchemes;
    const kinds = new Map<string, number>();
    for (const item of Object.values(document.paths))
      for (const [method, operation] of Object.entries(item)) {
        if (method === 'parameters') continue;
        const { operationId, tags, security = document.security } = operation;
        const html = operationIn(pages.get(tags[0] ?? '') ?? '', operationId);
        const [name] = security.flatMap((each) => Object.keys(each));
        const kind = /data-credential="(\w+)"/.exec(html)?.[1];
        const scheme = schemes[name ?? ''];
        const isCaller = ['apiKey', 'token', 'session'].includes(name ?? '');
        assert.equal(kind, name === undefined ? 'none' : isCaller ? 'caller' : 'secret', operationId);
        kinds.set(kind ?? '', (kinds.get(kind ?? '') ?? 0) + 1);
        const field = /type="password"[^>]* data-name="([^"]*)" data-prefix="([^"]*)"/.exec(html)?.slice(1);
        const expected = scheme?.type === 'http' ? ['Authorization', 'Bearer '] : [scheme?.name, ''];
        assert.deepEqual(field, kind === 'secret' ? expected : undefined, operationId);
        assert.doesNotMatch(html, /<option>text\/event-stream/, operationId);
      }
    assert.deepEqual([...kinds.keys()].toSorted(), ['caller', 'none', 'secret']);
  });

  test('the parameters that every operation accepts follow the optional ones of an operation, and headers are last', () => {
    const [, optional = ''] =
      /<details class="optional">(.*?)<\/details>/s.exec(
        operationIn(pages.get('leads') ?? '', 'listLeads'),
      ) ?? [];
    const inputs = [...optional.matchAll(/data-in="(\w+)" data-name="([^"]*)"/g)].map(([, place, name]) =>
      place === 'header' ? place : name === 'org' ? name : 'own',
    );
    assert.match(inputs.join(), /^(?:own,)+org(?:,header)+$/);
  });

  test('requests that the instance sends have no form', () => {
    const sent = Object.values(document.webhooks).flatMap((item) => Object.values(item));
    assert.ok(sent.length > 0);
    for (const { operationId, tags } of sent) {
      const html = operationIn(pages.get(tags[0] ?? '') ?? '', operationId);
      assert.match(html, /<span class="badge quiet">Sent to your URL<\/span>/);
      assert.match(html, /<h3>Headers<\/h3>/);
      assert.doesNotMatch(html, /<form/, operationId);
    }
  });

  test('is in the language of the browser, and marks the English descriptions', async () => {
    const headers = { 'accept-language': 'de' };
    const names = namesIn(instance(), ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']);
    for (const path of [
      '/docs',
      '/docs/leads',
      '/docs/partners',
      '/docs/authentication',
      '/docs/error-codes',
    ]) {
      const page = await instance().call(`GET ${path}`, { headers });
      assert.equal(page.status, 200, path);
      // What remains are the explorer's own words. Names of parameters and examples are values.
      const text = page.text
        .replace(/<title>.*?<\/title>/, '')
        .replace(/<(\w+)(?: [^>]*)? lang="en"[^>]*>[\s\S]*?<\/\1>/g, '')
        .replace(/<span class="type">[^<]*/g, (type) => type.replaceAll(', ', '<br>'))
        .replace(/(?<=>)<code>[^<]*<\/code>/g, '');
      const own = text.replace(/ placeholder="(?!Ein Wert)[^"]*"/g, '');
      assertGerman({ headers: page.headers, text: own }, names);
      assert.match(text, /Anmelden, um Anfragen zu senden/);
    }
    const { text } = await instance().call('GET /docs/leads', { headers });
    assert.match(text, /<h2 lang="en">Create a lead<\/h2>/);
    assert.match(text, /<p class="purpose" lang="en">Creates /);
    const english = await instance().call('GET /docs/leads');
    assert.deepEqual(
      [english.headers.get('content-language'), /<html lang="(..)"/.exec(english.text)?.[1]],
      ['en', 'en'],
    );
  });

  test('an unknown page is not found, and pages accept only GET and HEAD', async () => {
    const { status, json } = await instance().call('GET /docs/nothing');
    assert.deepEqual([status, json.code], [404, 'not_found']);
    for (const path of ['/docs', '/docs/leads', '/docs/error-codes']) {
      const answer = await instance().call(`POST ${path}`);
      assert.deepEqual([answer.status, answer.headers.get('allow')], [405, 'GET, HEAD, OPTIONS'], path);
    }
  });

  describe('a user', () => {
    let browser: Visitor;
    let email: string;
    before(async () => {
      const parts = [await instance().organization('alpha'), await instance().organization('beta')];
      const person = await makePerson(
        instance(),
        parts.map((organization) => ({ organization })),
      );
      email = person.email;
      browser = await signIn(instance(), person);
    });
    const chosen = (html: string) => /<option value="([^"]*)" selected>/.exec(html)?.[1];

    test('returns to the explorer after the login', async () => {
      const { text, headers } = await instance().call('GET /docs/leads');
      assert.equal(headers.get('cache-control'), 'no-store');
      assert.match(text, /<a href="\/setup\/login\?next=\/docs\/leads">Log in to send requests<\/a>/);
      const visitor = await signIn(instance(), administratorOf(await instance().organization('gamma')));
      visitor.cookies.delete('crm_session');
      const form = await visitor.submit('/setup/login?next=/docs/leads', '/setup/login', {
        email: 'admin@gamma.example',
        password: 'a long enough password',
      });
      assert.equal(form.headers.get('location'), '/docs/leads');
      const page = await visitor.get('/docs/leads');
      assert.match(plain(page.text), /Requests are sent as admin@gamma\.example in Gamma/i);
    });

    test('sends requests to the organization visited last, or to another one', async () => {
      await browser.get('/setup/o/beta');
      const page = (await browser.get('/docs/leads')).text;
      assert.match(page, new RegExp(`Requests are sent as <strong>${email}</strong>`));
      assert.equal(chosen(page), 'beta');
      assert.equal(chosen((await browser.get('/docs/leads?org=alpha')).text), 'alpha');
      assert.equal(chosen((await browser.get('/docs')).text), 'alpha');
      for (const query of ['org=unknown', 'org=', 'org=alpha&org=beta'])
        assert.equal(chosen((await browser.get(`/docs?${query}`)).text), 'alpha', query);
    });

    test('does not find a credential in a page', async () => {
      const { text } = await browser.get('/docs/leads');
      for (const secret of browser.cookies.values()) assert.ok(!text.includes(secret));
      assert.doesNotMatch(text, /eyJ|crm_[\w]{20}/);
    });

    test('is logged out of the explorer with the session', async () => {
      const { status } = await instance().call('POST /auth/logout', {
        headers: {
          cookie: `crm_session=${browser.cookies.get('crm_session')}`,
          'sec-fetch-site': 'same-origin',
        },
      });
      assert.equal(status, 200);
      assert.match((await browser.get('/docs/leads')).text, /Log in to send requests/);
    });
  });

  test('all pages and files are smaller than 1 MB together', async () => {
    const sizeOf = (path: string) =>
      new Promise<{ size: number; coding: string | undefined }>((resolve, reject) => {
        request(instance().url + path, { headers: { 'accept-encoding': 'gzip' } }, (response) => {
          let size = 0;
          response.on('data', (chunk: Buffer) => {
            size += chunk.length;
          });
          response.on('end', () => resolve({ size, coding: response.headers['content-encoding'] }));
        })
          .on('error', reject)
          .end();
      });
    const paths = new Set(['/docs', ...[...pages.keys()].map((name) => `/docs/${name}`)]);
    for (const html of pages.values()) {
      for (const [, path = ''] of html.matchAll(
        /(?:src|href)="(\/(?:docs|setup)\/(?:assets|transitions)\/[^"#]+)/g,
      ))
        paths.add(path);
    }
    const [styles = ''] = [...paths].filter((path) => path.endsWith('setup.css'));
    for (const [, font = ''] of (await instance().call(`GET ${styles}`)).text.matchAll(/url\("([^"]+)"\)/g))
      paths.add(styles.replace('setup.css', font));
    let total = 0;
    for (const path of paths) {
      const { size, coding } = await sizeOf(path);
      assert.ok(size > 0, path);
      if (!/\.(svg|woff2)$/.test(path)) assert.equal(coding, 'gzip', path);
      total += size;
    }
    assert.ok([...paths].some((path) => path.endsWith('.woff2')) && paths.size > 15, [...paths].join());
    assert.ok(total < maxBytes, `${total} bytes`);
  });
});
