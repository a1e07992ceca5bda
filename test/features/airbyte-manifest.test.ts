// The Airbyte manifest reads all records, then changes and deletions, from an instance. The test follows the manifest like
// Airbyte's CDK does, for the components that the manifest uses.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { airbyteManifest } from '../../app/commands/airbyte-manifest.ts';
import type { OpenApiDocument } from '../../plugins/api/explorer/document.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { settledFeed } from '../support/receiver.ts';
import { definitions, oneOfEach } from '../support/records.ts';

type Json = Readonly<Record<string, unknown>>;

interface Stream {
  readonly type: 'DeclarativeStream';
  readonly name: string;
  readonly primary_key: readonly string[];
  readonly retriever: {
    readonly requester: {
      readonly path: string;
      readonly authenticator: { readonly api_token: string };
      readonly request_headers: Readonly<Record<string, string>>;
    };
    readonly record_selector: {
      readonly extractor: { readonly field_path: readonly ['data'] };
      readonly record_filter?: { readonly condition: string };
    };
    readonly paginator: {
      readonly page_token_option: { readonly type: string; readonly field_name?: string };
      readonly pagination_strategy: { readonly cursor_value: string; readonly stop_condition: string };
    };
  };
  readonly incremental_sync?: {
    readonly cursor_field: string;
    readonly cursor_datetime_formats: readonly string[];
    readonly lookback_window: string;
    readonly start_time_option?: { readonly field_name: string };
    readonly is_client_side_incremental?: boolean;
  };
  readonly schema_loader: { readonly schema: Json };
}

onBothDrivers(
  'The Airbyte manifest',
  (instance) => {
    let streams: ReadonlyMap<string, Stream>;
    let manifest: Json & { readonly streams: readonly Stream[] };
    let text: string;
    let organization: Organization;
    before(async () => {
      const document = (await instance().call('GET /docs/openapi.json')).json as OpenApiDocument;
      text = airbyteManifest(document);
      manifest = parse(text);
      streams = new Map(manifest.streams.map((stream) => [stream.name, stream]));
      organization = await instance().organization('alpha');
    });

    const streamOf = (name: string): Stream => streams.get(name) ?? assert.fail(name);

    /** Reads a stream. @param since the time of the previous sync, if any */
    async function read(name: string, since = '1970-01-01T00:00:00.000000Z'): Promise<readonly Json[]> {
      const { retriever, incremental_sync: incremental } = streamOf(name);
      const { requester, record_selector: selector, paginator } = retriever;
      assert.equal(requester.authenticator.api_token, "{{ config['api_key'] }}");
      const parameters = new URLSearchParams();
      const filter = incremental?.start_time_option?.field_name;
      if (filter !== undefined) parameters.set(filter, since);
      const records: Json[] = [];
      let url: string | undefined = `${requester.path}?${parameters}`;
      while (url !== undefined) {
        const page = await instance().call(`GET ${url}`, {
          key: organization.key,
          headers: requester.request_headers,
        });
        assert.equal(page.status, 200, page.text);
        const data = page.json[selector.extractor.field_path[0]] as readonly Json[];
        records.push(...data);
        const { cursor_value: cursor, stop_condition: stop } = paginator.pagination_strategy;
        if (paginator.page_token_option.type === 'RequestPath') {
          assert.equal(cursor, "{{ headers['link']['next']['url'] }}");
          assert.equal(stop, "{{ 'next' not in headers['link'] }}");
          url = /<([^>]+)>; rel="next"/
            .exec(page.headers.get('link') ?? '')?.[1]
            ?.replace(instance().url, '');
        } else {
          assert.equal(cursor, "{{ response['next'] }}");
          assert.equal(stop, "{{ response['data'] | length == 0 }}");
          parameters.set(paginator.page_token_option.field_name ?? '', String(page.json.next));
          url = data.length === 0 ? undefined : `${requester.path}?${parameters}`;
        }
      }
      const [, actions] =
        /record\['action'\] in \[(.*)\]/.exec(selector.record_filter?.condition ?? '') ?? [];
      return records
        .filter(({ action }) => actions === undefined || actions.includes(`'${action}'`))
        .filter(
          (record) =>
            incremental?.is_client_side_incremental !== true ||
            Date.parse(String(record[incremental.cursor_field])) >= Date.parse(since),
        );
    }

    test('has a stream for each resource, and one for deletions', () => {
      assert.equal(manifest.type, 'DeclarativeSource');
      assert.deepEqual(
        [...streams.keys()].toSorted(),
        [...definitions.map(({ name }) => name), 'deletions'].toSorted(),
      );
      for (const stream of streams.values()) {
        const { type, primary_key: key, schema_loader: loader, incremental_sync: incremental } = stream;
        assert.equal(type, 'DeclarativeStream');
        // Records of transactions that were still open during a sync have earlier timestamps.
        assert.equal(incremental?.lookback_window, 'PT1H');
        assert.deepEqual(incremental.cursor_datetime_formats, [
          '%Y-%m-%dT%H:%M:%S.%fZ',
          '%Y-%m-%dT%H:%M:%SZ',
        ]);
        assert.equal(incremental.cursor_field in (loader.schema.properties as Json), true);
        const { properties } = loader.schema as { readonly properties: Json };
        for (const field of key) assert.ok(Object.hasOwn(properties, field), field);
      }
      // The check reads a stream that needs no grant on events, and unknown parameters are errors.
      const [first] = manifest.streams;
      assert.deepEqual(manifest.check, { type: 'CheckStream', stream_names: [first?.name] });
      assert.notEqual(first?.name, 'deletions');
      assert.equal(first?.retriever.requester.request_headers.Prefer, 'handling=strict');
      const { condition = '' } = streamOf('deletions').retriever.record_selector.record_filter ?? {};
      assert.match(condition, /in \['delete', 'trash', 'purge'\]/);
      assert.match(text, /airbyte_secret: true/);
      assert.doesNotMatch(text, /[&*]a\d/, 'no anchors');
    });

    test('syncs without a filter by time read all records, and without the time all of them are new', async () => {
      const document = (await instance().call('GET /docs/openapi.json')).json as OpenApiDocument;
      const { parameters, schemas } = structuredClone(document.components) as {
        parameters: Record<string, { name: string }>;
        schemas: Record<string, { properties?: Record<string, unknown> }>;
      };
      for (const [name, parameter] of Object.entries(parameters))
        if (name.startsWith('leads.') && parameter.name === 'updated_at[gte]') parameter.name = 'x';
      delete schemas.AccountProjection?.properties?.updated_at;
      const changed = { ...document, components: { ...document.components, parameters, schemas } };
      const all = (parse(airbyteManifest(changed as OpenApiDocument)) as typeof manifest).streams;
      const syncOf = (name: string) => all.find((stream) => stream.name === name)?.incremental_sync;
      assert.deepEqual(
        ['leads', 'cases'].map((name) => {
          const { is_client_side_incremental: isLocal, start_time_option: option } = syncOf(name) ?? {};
          return [isLocal, option?.field_name];
        }),
        [
          [true, undefined],
          [undefined, 'updated_at[gte]'],
        ],
      );
      assert.equal(syncOf('accounts'), undefined);
    });

    test('declares that every value can be null', () => {
      const assertNullable = (name: string, schema: Json) => {
        const { type, properties, items } = schema;
        if (type !== undefined) assert.ok(Array.isArray(type) && type.includes('null'), `${name}: ${type}`);
        for (const [key, value] of Object.entries(properties ?? {})) assertNullable(`${name}.${key}`, value);
        if (items !== undefined) assertNullable(`${name}[]`, items as Json);
      };
      for (const { name, schema_loader: loader } of streams.values())
        for (const [field, schema] of Object.entries(loader.schema.properties as Record<string, Json>))
          assertNullable(`${name}.${field}`, schema);
    });

    test('reads every page of every resource, and each record matches its schema', async () => {
      await oneOfEach(instance(), organization.key, 'synced');
      const records = Array.from({ length: 45 }, (_, index) => ({ email: `${index}@example.com` }));
      const { key } = organization;
      assert.equal(
        (await instance().call('POST /api/v1/leads/batch', { key, body: { records } })).status,
        200,
      );
      for (const { name } of definitions) {
        const rows = await read(name);
        assert.equal(rows.length, name === 'leads' ? 46 : 1, name);
        assert.equal(new Set(rows.map(({ id }) => id)).size, rows.length);
        const ajv = new Ajv({ strict: false, formats: { 'date-time': true, date: true } });
        const { $schema: _, ...schema } = streamOf(name).schema_loader.schema;
        for (const row of rows) assert.ok(ajv.validate(schema, row), ajv.errorsText());
        const { properties } = schema as { readonly properties: Json };
        for (const field of Object.keys(rows[0] ?? {})) assert.ok(Object.hasOwn(properties, field), field);
      }
    });

    test('reads only changed records after a sync, and deletions from the feed', async () => {
      const { key } = organization;
      const body = { email: 'old@example.com' };
      const [first, second] = [
        await instance().call('POST /api/v1/leads', { key, body }),
        await instance().call('POST /api/v1/leads', { key, body }),
      ];
      await instance().call(`PATCH /api/v1/leads/${first.json.id}`, {
        key,
        body: { email: 'new@example.com' },
      });
      const changed = (await instance().call(`GET /api/v1/leads/${first.json.id}`, { key })).json;
      const synced = await read('leads', String(changed.updated_at));
      assert.deepEqual(
        synced.map(({ id, email }) => [id, email]),
        [[first.json.id, 'new@example.com']],
      );
      assert.deepEqual(await read('deletions'), []);
      await instance().call(`DELETE /api/v1/leads/${second.json.id}`, { key });
      await settledFeed(instance());
      const deletions = await read('deletions');
      assert.deepEqual(
        deletions.map(({ resource, id, action }) => [resource, id, action]),
        [['leads', second.json.id, 'delete']],
      );
      assert.deepEqual(await read('deletions', '2999-01-01T00:00:00Z'), []);
    });
  },
  { ownServer: true },
);
