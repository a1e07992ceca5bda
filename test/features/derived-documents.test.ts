// Documents derived from the API description: OpenAPI 3.2, AsyncAPI and llms.txt.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import { openApi32 } from '../../engine/http/openapi-3-2.ts';
import { asyncApiDocument } from '../../plugins/api/explorer/async-api.ts';
import { type OpenApiDocument, resourcesIn } from '../../plugins/api/explorer/document.ts';
import { llmsText } from '../../plugins/api/explorer/llms-text.ts';
import { ajvFor, inAjv } from '../support/described.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { until } from '../support/process.ts';
import { eventsTo, settledFeed, startReceiver } from '../support/receiver.ts';
import { definitions, oneOfEach, pathOf } from '../support/records.ts';

type Json = Readonly<Record<string, unknown>>;
const object = (value: unknown): Json => (value ?? {}) as Json;

const receiver = await startReceiver();
after(() => receiver.close());

onBothDrivers(
  'Documents derived from the API description',
  (instance) => {
    let document: Json;
    let events: Json;
    let ajv: Ajv2020;
    let organization: Organization;
    before(async () => {
      document = (await instance().call('GET /docs/openapi.json')).json;
      events = (await instance().call('GET /docs/asyncapi.json')).json;
      organization = await instance().organization('alpha');
      ajv = ajvFor();
      ajv.addSchema({ $id: 'api', components: inAjv(events.components) });
    });

    test('OpenAPI 3.2 is valid, and the 3.1 document stays the same', async () => {
      const before = JSON.stringify(document);
      const converted = openApi32(document, '/api/v1');
      assert.equal(JSON.stringify(document), before);
      const [first, ...others] = document.tags as readonly Json[];
      const titled = openApi32(
        { ...document, tags: [{ ...first, 'x-displayName': 'A title' }, ...others] },
        '/api/v1',
      );
      const tags = (titled.tags as readonly Json[]).filter(({ summary }) => summary !== undefined);
      assert.deepEqual(
        tags.map(({ name, summary, ...tag }) => [name, summary, 'x-displayName' in tag]),
        [
          ['Records', 'Records', false],
          [first?.name, 'A title', false],
        ],
      );
      assert.equal(converted.openapi, '3.2.0');
      const { valid, errors = [] } = await new Validator().validate(structuredClone(converted));
      assert.deepEqual([valid, errors], [true, []]);
      assert.deepEqual(Object.keys(object(converted.paths)), Object.keys(object(document.paths)));
      const schemas = object(object(converted.components).schemas);
      const references = JSON.stringify(converted).matchAll(/"#\/components\/schemas\/([\w.-]+)"/g);
      const used = new Set([...references].map(([, name = '']) => name));
      assert.deepEqual(Object.keys(schemas).toSorted(), [...used].toSorted(), 'no schema is unused');
    });

    test('OpenAPI 3.2 describes QUERY and the items of exports, imports and streams, and groups the tags', () => {
      const converted = openApi32(document, '/api/v1');
      const mediaOf = (path: string, method: string, part: (operation: Json) => unknown, type: string) =>
        object(object(part(object(object(object(converted.paths)[path])[method])))[type]);
      const response = ({ responses }: Json) => object(object(responses)[200]).content;
      for (const definition of definitions) {
        const path = pathOf(definition);
        const list = mediaOf(path, 'get', response, 'application/x-ndjson');
        assert.match(String(object(list.itemSchema).$ref), /Projection$/);
        assert.ok(!('schema' in list));
        const body = ({ requestBody }: Json) => object(requestBody).content;
        const lines = mediaOf(`${path}/import`, 'post', body, 'application/x-ndjson');
        assert.match(String(object(lines.itemSchema).$ref), /Input$/);
        const { query } = object(object(converted.paths)[path]);
        const { post } = object(object(converted.paths)[`${path}/query`]);
        assert.equal(object(query).operationId, `${object(post).operationId}ByQueryMethod`);
        assert.deepEqual(object(query).requestBody, object(post).requestBody);
      }
      const stream = mediaOf('/events', 'get', response, 'text/event-stream');
      assert.deepEqual(object(stream.itemSchema).required, ['id', 'data']);
      const tags = (converted.tags as readonly Json[]).filter(({ parent }) => parent === 'Records');
      assert.deepEqual(
        tags.map(({ name }) => name),
        definitions.map(({ name }) => name).toSorted(),
      );
    });

    test('AsyncAPI contains the schemas to which the fields of records refer', () => {
      const changed = structuredClone(document) as unknown as OpenApiDocument & {
        components: { schemas: Record<string, { properties: Record<string, Json> }> };
      };
      const [resource] = resourcesIn(changed);
      const { schemas } = changed.components;
      Object.assign(schemas[`${resource?.record}Projection`]?.properties ?? {}, {
        about: { anyOf: [{ $ref: '#/components/schemas/About' }, { type: 'null' }] },
      });
      Object.assign(schemas, { About: { type: 'string', description: 'A reference.' } });
      const typesIn = (description: Json) => {
        const all = object(object(description.components).schemas);
        const [, own] = object(all[`${resource?.record}Event`]).allOf as readonly Json[];
        return (object(object(own?.properties).type).enum as readonly string[]).map(
          (type) => type.split('.')[1],
        );
      };
      assert.deepEqual(typesIn(asyncApiDocument(changed)), ['created', 'updated', 'deleted']);
      const withTrash = { ...changed.paths, [`/api/v1/${resource?.name}/{id}/restore`]: {} };
      assert.deepEqual(typesIn(asyncApiDocument({ ...changed, paths: withTrash })).toSorted(), [
        'created',
        'deleted',
        'purged',
        'restored',
        'trashed',
        'updated',
      ]);
      const text = JSON.stringify(asyncApiDocument(changed));
      const { components } = JSON.parse(text) as { readonly components: { readonly schemas: Json } };
      const names = [...text.matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map(([, name = '']) => name);
      assert.ok(names.includes('About'));
      assert.deepEqual(
        names.filter((name) => !Object.hasOwn(components.schemas, name)),
        [],
      );
    });

    test('llms.txt contains the first sentence about each resource', () => {
      const source = document as OpenApiDocument;
      const [first, second] = resourcesIn(source);
      const texts = new Map([
        [first?.name, 'Version 1.5 of people. More.'],
        [second?.name, 'No sentence'],
      ]);
      const tags = source.tags.map((tag) => ({
        ...tag,
        description: texts.get(tag.name) ?? tag.description ?? '',
      }));
      const text = llmsText({ ...source, tags });
      assert.ok(text.includes(`\n- [${first?.name}](/docs/${first?.name}): Version 1.5 of people.\n`), text);
      assert.ok(text.includes(`\n- [${second?.name}](/docs/${second?.name}): No sentence\n`), text);
    });

    test('AsyncAPI describes every change in the feed', async () => {
      await oneOfEach(instance(), organization.key, 'fed');
      const { key } = organization;
      const lead = await instance().call('POST /api/v1/leads', { key, body: { email: 'a@example.com' } });
      await instance().call(`PATCH /api/v1/leads/${lead.json.id}`, { key, body: { company: 'A' } });
      await instance().call(`DELETE /api/v1/leads/${lead.json.id}`, { key });
      await settledFeed(instance());
      const { data } = (await instance().call('GET /events', { key })).json;
      const changes = data as readonly Json[];
      assert.deepEqual(
        [...new Set(changes.map(({ resource }) => resource))].toSorted(),
        definitions.map(({ name }) => name).toSorted(),
      );
      for (const change of changes) {
        const matching = messages('feed').filter((payload) => ajv.validate(inAjv(payload) as Json, change));
        assert.equal(matching.length, 1, JSON.stringify(change));
        const wrong = { ...change, after: { id: 'x' } };
        assert.ok(messages('feed').every((payload) => !ajv.validate(inAjv(payload) as Json, wrong)));
      }
    });

    test('AsyncAPI describes events in both formats', async () => {
      const { key } = organization;
      for (const format of ['standard', 'cloudevents']) {
        const at = `/${format}-${instance().driver}`;
        const body = { url: receiver.url + at, resources: ['leads'], format };
        await settledFeed(instance());
        const subscription = await instance().call('POST /events/subscriptions', { key, body });
        assert.equal(subscription.status, 201);
        const lead = await instance().call('POST /api/v1/leads', { key, body: { email: 'b@example.com' } });
        await instance().call(`PATCH /api/v1/leads/${lead.json.id}`, { key, body: { company: 'B' } });
        await instance().call(`DELETE /api/v1/leads/${lead.json.id}`, { key });
        await instance().call(`POST /events/subscriptions/${subscription.json.id}/test`, { key });
        await until(async () => receiver.at(at).length >= 4, '4 events');
        const types = receiver.at(at).map(({ text }) => {
          const event = JSON.parse(text) as Json;
          const matching = messages('subscription').filter((payload) =>
            ajv.validate(inAjv(payload) as Json, event),
          );
          assert.deepEqual(
            matching.map(({ $ref }) => $ref),
            [
              `#/components/schemas/${event.type === 'test' ? 'Test' : 'Lead'}${format === 'standard' ? 'Event' : 'CloudEvent'}`,
            ],
            text,
          );
          return event.type;
        });
        assert.deepEqual(types.toSorted(), ['leads.created', 'leads.deleted', 'leads.updated', 'test']);
      }
    });

    /** Returns the payload schemas of a channel's messages. */
    function messages(channel: string): readonly Json[] {
      const names = Object.keys(object(object(object(events.channels)[channel]).messages));
      const all = object(object(events.components).messages);
      return names.map((name) => object(object(all[name]).payload));
    }

    for (const [path, type] of [
      ['/docs/asyncapi.json', 'application/json; charset=utf-8'],
      ['/llms.txt', 'text/plain; charset=utf-8'],
    ] as const) {
      test(`${path} needs no key, has an entity tag and accepts only GET and HEAD`, async () => {
        const { status, headers } = await instance().call(`GET ${path}`);
        assert.deepEqual([status, headers.get('content-type')], [200, type]);
        assert.equal(headers.get('cache-control'), 'no-cache');
        const etag = headers.get('etag') ?? '';
        const again = await instance().call(`GET ${path}`, { headers: { 'if-none-match': etag } });
        assert.deepEqual([again.status, again.text], [304, '']);
        const other = await instance().call(`POST ${path}`);
        assert.deepEqual([other.status, other.headers.get('allow')], [405, 'GET, HEAD, OPTIONS']);
      });
    }

    test('llms.txt has the format of llmstxt.org, lists every resource, and its links exist', async () => {
      const { text } = await instance().call('GET /llms.txt');
      assert.match(text, /^# .+\n\n> .+\n\n(?:- .+\n)+(?:\n## .+\n\n(?:- \[[^\]]+\]\([^)]+\): .+\n)+)+$/);
      assert.ok(text.length < 10_000);
      assert.match(text, /^- Agents: .*`POST \/mcp`.*`docs\/agents\.md`/m);
      for (const { name } of definitions) assert.ok(text.includes(`\n- [${name}](/docs/${name}): `), name);
      for (const [, link = ''] of text.matchAll(/\]\(([^)]+)\)/g))
        assert.equal((await instance().call(`GET ${link}`)).status, 200, link);
    });
  },
  { environment: settingsFile(eventsTo(receiver.port)).environment, ownServer: true },
);
