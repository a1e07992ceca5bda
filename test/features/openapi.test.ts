// The API description: valid, complete and without secrets. `send` checks every response against it.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import { errorEntries } from '../../engine/errors.ts';
import { responses } from '../../engine/http/openapi-components.ts';
import { ajvFor, inAjv } from '../support/described.ts';
import { type Answer, type Call, type Organization, onBothDrivers, send } from '../support/instance.ts';
import {
  definitions,
  fullBody,
  hasBody,
  make,
  missing,
  oneOfEach,
  operations,
  pathOf,
  requestOf,
} from '../support/records.ts';

type Json = Readonly<Record<string, unknown>>;
const object = (value: unknown): Json => (value ?? {}) as Json;
const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];

onBothDrivers('The API description', (instance) => {
  let answer: Answer;
  let document: Json;
  let organization: Organization;
  let ajv: Ajv2020;
  before(async () => {
    organization = await instance().organization('alpha');
    answer = await send(instance().url, 'GET /docs/openapi.json');
    assert.equal(answer.status, 200);
    document = answer.json;
    ajv = ajvFor();
    ajv.addSchema({ $id: 'api', components: inAjv(document.components) });
  });

  /** Resolves a part of the document that can be a reference. */
  const resolved = (part: unknown): Json => {
    const { $ref } = object(part);
    if (typeof $ref !== 'string') return object(part);
    return resolved(
      $ref
        .slice(2)
        .split('/')
        .reduce((found, name) => object(found)[name] as Json, document),
    );
  };
  const operationOf = (template: string, method: string) =>
    object(object(object(document.paths)[template])[method]);

  test('needs no key, is JSON, and is valid OpenAPI 3.1', async () => {
    assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
    assert.match(String(document.openapi), /^3\.1\.\d+$/);
    const { valid, errors = [] } = await new Validator().validate(structuredClone(document));
    assert.deepEqual([valid, errors], [true, []]);
  });

  test('has an entity tag, returns 304 if it matches, and is compressed', async () => {
    const ask = (headers: Record<string, string>) =>
      send(instance().url, 'GET /docs/openapi.json', { headers });
    const etag = answer.headers.get('etag') ?? '';
    assert.match(etag, /^W\/"[\w-]+"$/);
    assert.equal(answer.headers.get('cache-control'), 'no-cache', 'caches check whether it has changed');
    for (const known of [etag, `"other", ${etag}`, etag.slice(2), '*']) {
      const same = await ask({ 'if-none-match': known });
      assert.deepEqual([same.status, same.text, same.headers.get('etag')], [304, '', etag]);
      assert.equal(same.headers.get('vary'), 'accept-encoding');
    }
    assert.equal((await ask({ 'if-none-match': '"other"' })).text, answer.text);
    for (const coding of ['br', 'gzip']) {
      const { headers, text } = await ask({ 'accept-encoding': coding });
      assert.deepEqual([headers.get('content-encoding'), text], [coding, answer.text]);
    }
  });

  test('every schema compiles, every reference resolves, and every operation has a unique name', () => {
    const { schemas } = object(document.components);
    for (const name of Object.keys(object(schemas))) {
      assert.ok(ajv.getSchema(`api#/components/schemas/${name}`), name);
    }
    const references = [...answer.text.matchAll(/"\$ref":"([^"]+)"/g)].map(([, to = '']) => to);
    for (const $ref of new Set(references)) {
      assert.ok(Object.keys(resolved({ $ref })).length > 0, $ref);
      assert.match(
        $ref,
        /^#\/components\/\w+\/[\w.-]+$/,
        'generators name components, but not parts of components',
      );
    }
    const ids = [...answer.text.matchAll(/"operationId":"([^"]+)"/g)].map(([, id]) => id);
    assert.equal(new Set(ids).size, ids.length);
    assert.ok(ids.length >= 5 * definitions.length);
  });

  test('every described path accepts exactly the described methods, and others return 405', async () => {
    for (const [template, item] of Object.entries(object(document.paths))) {
      const path = template.replace(/\{\w+\}/g, missing);
      const described = methods.filter((method) => Object.hasOwn(object(item), method));
      // A path does not support bulk changes without a preference.
      const expected = described.filter(
        (method) => !JSON.stringify(object(object(item)[method]).parameters ?? []).includes('PreferBulk'),
      );
      const other = await instance().call(`PROPFIND ${path}`);
      assert.equal(other.status, 405, `${path}: ${other.text}`);
      const allowed = (other.headers.get('allow') ?? '').toLowerCase().split(', ');
      // HEAD and OPTIONS are described in prose, because separate operations would double the reads. OpenAPI 3.1 has no QUERY.
      const inWords = [
        'options',
        ...(expected.includes('get') ? ['head'] : []),
        ...(Object.hasOwn(object(document.paths), `${template}/query`) ? ['query'] : []),
      ];
      assert.deepEqual(
        expected.filter((method) => inWords.includes(method)),
        [],
        template,
      );
      assert.deepEqual([...allowed].sort(), [...expected, ...inWords].sort(), template);
      for (const method of [...expected, ...inWords.filter((method) => method === 'head')]) {
        const response = await instance().call(`${method.toUpperCase()} ${path}`);
        // 501: a partner endpoint without a secret. 404: an unknown payment hook.
        assert.ok([400, 401, 404, 501].includes(response.status), `${method} ${path}: ${response.status}`);
      }
    }
  });

  test('includes every route of the API', () => {
    const paths = Object.keys(object(document.paths)).map((path) =>
      path.replace('{customer}-payment', ':hook').replace(/\{(\w+)\}/g, ':$1'),
    );
    const routes = [
      ...instance()
        .app.printRoutes({ commonPrefix: false })
        .matchAll(/[─ ]((?:\/|:)\S*) \(/g),
    ];
    assert.ok(routes.length > 0);
    for (const definition of definitions) {
      for (const more of [
        '',
        '/query',
        '/aggregate',
        '/:id',
        '/:id/merge',
        '/:id/unmerge',
        '/:id/history',
        '/batch',
        '/import',
      ])
        assert.ok(paths.includes(pathOf(definition) + more), more);
    }
    const templates = paths.filter((path) => path.startsWith('/api/v1/'));
    assert.equal(templates.length, 9 * definitions.length);
    for (const path of paths) {
      assert.ok(instance().app.hasRoute({ url: path, method: 'TRACE' }), `${path} is a route`);
    }
  });

  test('lists: every filter with its operators, search, cursors, and the headers of pages', () => {
    for (const definition of definitions) {
      const operation = operationOf(pathOf(definition), 'get');
      const parameters = new Map(
        (operation.parameters as Json[]).map(resolved).map((each) => [String(each.name), each]),
      );
      const declared = definition.filters.flatMap(({ parameters: all }) => all);
      for (const { name, operator } of declared) {
        const { style, explode, schema, in: place } = parameters.get(name) ?? {};
        const repeatable = ['eq', 'ne', 'in'].includes(operator);
        const expected = repeatable
          ? ['query', 'form', true, 'array']
          : ['query', undefined, undefined, undefined];
        const { type } = object(schema);
        assert.deepEqual([place, style, explode, repeatable ? type : undefined], expected, name);
      }
      assert.equal(parameters.has('q'), definition.search.length > 0);
      assert.ok(parameters.has('cursor'));
      assert.deepEqual(parameters.get('page')?.schema, { type: 'integer', default: 1 });
      const { headers } = object(object(operation.responses)[200]);
      assert.deepEqual(Object.keys(object(headers)), [
        'X-Request-Id',
        'Preference-Applied',
        'Link',
        'X-Total-Count',
      ]);
    }
  });

  test('says in words that HEAD is supported', () => {
    assert.match(
      String(object(document.info).description),
      / Every path with GET also supports HEAD, which is not listed and returns the same status and headers without the body\. /,
    );
    assert.doesNotMatch(answer.text, /"head":/);
  });

  test('contains no secret', () => {
    assert.doesNotMatch(
      answer.text,
      /password_hash|secret_hash|token_version|crm_api_keys|crm_users|127\.0\.0\.1/,
    );
    assert.ok(!answer.text.includes(organization.key));
    assert.doesNotMatch(answer.text, /\/(?:home|root|tmp|work)\//);
  });

  for (const definition of definitions) {
    describe(definition.name, () => {
      test('every response matches the description', async () => {
        const ids = await oneOfEach(instance(), organization.key, 'told');
        const nothing = await organization.keyWith([]);
        const { key } = organization;
        const empty = (await make(instance(), key, definition)).id;
        for (const operation of operations) {
          const { one, success } = operation;
          const bodies: Call[] = hasBody(operation)
            ? [{ body: fullBody(definition, 'told', ids) }, { body: {} }]
            : [{}];
          const check = async (status: number, call: Call, id = ids[definition.name] ?? '', query = '') => {
            const response = await instance().call(requestOf(operation, definition, id) + query, call);
            assert.equal(response.status, status, response.text);
          };
          for (const body of bodies) {
            await check(401, body);
            await check(403, { ...body, key: nothing });
            if (one) await check(404, { ...body, key }, missing);
            await check(success, { ...body, key });
          }
          if (hasBody(operation)) {
            await check(400, { key, body: '{"x":' });
            await check(400, { key, body: [] });
            await check(413, { key, body: `"${'x'.repeat(1024 * 1024)}"` });
          } else if (!one) {
            await check(400, { key }, '', '?page=x');
            await check(success, { key }, '', '?page=1000');
          }
          await check(
            400,
            { ...bodies[0], key, headers: { prefer: 'handling=strict' } },
            empty,
            '?nonsense=1',
          );
          if (one && success === 200) await check(success, { ...bodies[0], key }, empty);
        }
      });

      test('405 has the common error shape and an Allow header', async () => {
        const isError = ajv.getSchema('api#/components/schemas/Error');
        assert.ok(isError);
        for (const request of [
          `PATCH ${pathOf(definition)}`,
          `PROPFIND ${pathOf(definition, '1')}`,
          `POST ${pathOf(definition, '1')}`,
        ]) {
          const response = await instance().call(request, { key: organization.key });
          assert.deepEqual([response.status, isError(response.json)], [405, true]);
        }
      });

      test('the schema of a body accepts the same bodies as the API', async () => {
        const operation = operationOf(pathOf(definition), 'post');
        const { schema } = object(object(object(operation.requestBody).content)['application/json']);
        const accepts = ajv.compile(inAjv(schema) as object);
        const body = fullBody(definition, 'told');
        for (const accepted of [{}, JSON.parse(body)])
          assert.ok(accepts(accepted), ajv.errorsText(accepts.errors));
        for (const name of Object.keys(object(resolved(schema).properties))) {
          const invalid = { [name]: { wrong: true } };
          assert.ok(!accepts(invalid), name);
          const response = await instance().call(`POST ${pathOf(definition)}`, {
            key: organization.key,
            body: invalid,
          });
          assert.equal(response.status, 400, name);
        }
      });
    });
  }

  test('/docs has a strict Content-Security-Policy and loads nothing from other hosts', async () => {
    for (const path of ['/docs', '/docs/', '/docs/leads']) {
      const page = await send(instance().url, `GET ${path}`);
      assert.deepEqual([page.status, page.headers.get('content-type')], [200, 'text/html; charset=utf-8']);
      const policy = new Map(
        (page.headers.get('content-security-policy') ?? '')
          .split(';')
          .map((directive) => directive.split(/ (.*)/s).slice(0, 2) as [string, string]),
      );
      assert.equal(policy.get('default-src'), "'none'");
      for (const name of ['script-src', 'style-src', 'connect-src']) assert.equal(policy.get(name), "'self'");
      for (const name of ['frame-ancestors', 'base-uri']) assert.equal(policy.get(name), "'none'");
      assert.doesNotMatch([...policy.values()].join(' '), /https?:|\*|'unsafe-/);
      const references = [
        ...new Set([...page.text.matchAll(/\b(?:src|href|action)="([^"]*)"/g)].map(([, to = '']) => to)),
      ];
      assert.ok(references.length > 0);
      for (const reference of references) assert.match(reference, /^\/(?!\/)|^#|^data:/, reference);
      assert.doesNotMatch(page.text, /@import|url\(\s*['"]?(?:https?:)?\/\//);
      for (const reference of references.filter((each) => each.startsWith('/'))) {
        assert.equal((await send(instance().url, `GET ${reference}`)).status, 200, reference);
      }
    }
  });
});

test('error responses describe the headers of their errors', () => {
  const codesWith = (header: string) =>
    Object.values(errorEntries).flatMap((entry) =>
      'headers' in entry && Object.hasOwn(entry.headers, header) ? [entry.code] : [],
    );
  const waiting = new Set<string>([...codesWith('retry-after'), 'too_many_attempts']);
  const authenticating = new Set<string>(codesWith('www-authenticate'));
  for (const [name, { headers, content }] of Object.entries(responses)) {
    const described = headers as Readonly<Record<string, { readonly required?: boolean }>>;
    const codes = Object.keys(content['application/json'].examples);
    for (const [header, codesWithHeader] of [
      ['Retry-After', waiting],
      ['WWW-Authenticate', authenticating],
    ] as const) {
      const sent = codes.filter((code) => codesWithHeader.has(code));
      const required = sent.length === 0 ? undefined : sent.length === codes.length;
      assert.equal(described[header]?.required, required, `${header} of ${name}`);
    }
    assert.equal('Allow' in described, codes.includes('method_not_allowed'), name);
  }
});

test('the limits of bodies are described', () => {
  assert.match(
    responses.TooLarge.description,
    /: 1 MiB by default, 8 MiB for a batch, 256 KiB for a query, 8 KiB for a bulk change, 16 KiB under `\/auth`, /,
  );
});
