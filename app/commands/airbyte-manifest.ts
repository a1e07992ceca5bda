import { stringify } from 'yaml';
import type { JsonSchema } from '../../engine/fields/index.ts';
import { apiPrefix } from '../../engine/http/index.ts';
import { pageSize } from '../../engine/query/index.ts';
import { removalActions } from '../../engine/records/index.ts';
import {
  type DocumentResource,
  type OpenApiDocument,
  resolve,
  resourcesIn,
  type Schema,
} from '../../plugins/api/explorer/index.ts';

/** Version of the Airbyte CDK whose components the manifest uses. */
const cdkVersion = '6.0.0';

/** Formats of timestamps set by the server, which are in UTC and have microseconds unless they are zero. */
const timeFormats = ['%Y-%m-%dT%H:%M:%S.%fZ', '%Y-%m-%dT%H:%M:%SZ'];

/**
 * A timestamp is the start time of a transaction, which can be committed after a sync has read the records. Transactions
 * that take longer than an hour are rare enough to ignore.
 */
const lookback = 'PT1H';

/** Returns a schema without references and without the keywords that Airbyte does not know. Every value can be null. */
function airbyteSchema(input: Schema, schemas: OpenApiDocument['components']['schemas']): JsonSchema {
  const { type = [], format, description, properties, items, additionalProperties } = resolve(input, schemas);
  const types = new Set([type].flat());
  return {
    ...(types.size > 0 && { type: [...types.add('null')] }),
    ...(description !== undefined && { description }),
    ...(format === 'date-time' && { format, airbyte_type: 'timestamp_with_timezone' }),
    ...(format === 'date' && { format }),
    ...(properties !== undefined && { properties: airbyteProperties(properties, schemas) }),
    ...(items !== undefined && { items: airbyteSchema(items, schemas) }),
    ...(additionalProperties !== undefined && { additionalProperties: true }),
  };
}

const airbyteProperties = (
  properties: Readonly<Record<string, Schema>>,
  schemas: OpenApiDocument['components']['schemas'],
): JsonSchema =>
  Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [name, airbyteSchema(schema, schemas)]),
  );

const schemaLoader = (properties: JsonSchema) => ({
  type: 'InlineSchemaLoader',
  schema: {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    additionalProperties: true,
    properties,
  },
});

const requester = (path: string) => ({
  type: 'HttpRequester',
  url_base: "{{ config['url'] }}",
  path,
  http_method: 'GET',
  authenticator: { type: 'BearerAuthenticator', api_token: "{{ config['api_key'] }}" },
  request_headers: { Accept: 'application/json', Prefer: 'handling=strict' },
});

/** Incremental sync by a timestamp. @param more how the API is asked for the records after the last sync */
const incrementalBy = (field: string, more: JsonSchema) => ({
  type: 'DatetimeBasedCursor',
  cursor_field: field,
  datetime_format: timeFormats[0],
  cursor_datetime_formats: timeFormats,
  start_datetime: {
    type: 'MinMaxDatetime',
    datetime: "{{ config.get('start_date') or '1970-01-01T00:00:00Z' }}",
    datetime_format: '%Y-%m-%dT%H:%M:%SZ',
  },
  lookback_window: lookback,
  ...more,
});

/** Returns the stream of a resource's records. */
function recordStream({ name, properties, list }: DocumentResource, { components }: OpenApiDocument) {
  const parameters = (list.parameters ?? []).map((each) => resolve(each, components.parameters).name);
  const filter = 'updated_at[gte]';
  return {
    type: 'DeclarativeStream',
    name,
    primary_key: ['id'],
    retriever: {
      type: 'SimpleRetriever',
      requester: requester(`${apiPrefix}/${name}`),
      record_selector: {
        type: 'RecordSelector',
        extractor: { type: 'DpathExtractor', field_path: ['data'] },
      },
      paginator: {
        type: 'DefaultPaginator',
        page_token_option: { type: 'RequestPath' },
        pagination_strategy: {
          type: 'CursorPagination',
          page_size: pageSize,
          cursor_value: "{{ headers['link']['next']['url'] }}",
          stop_condition: "{{ 'next' not in headers['link'] }}",
        },
      },
    },
    ...('updated_at' in properties && {
      incremental_sync: incrementalBy(
        'updated_at',
        parameters.includes(filter)
          ? {
              start_time_option: {
                type: 'RequestOption',
                inject_into: 'request_parameter',
                field_name: filter,
              },
            }
          : { is_client_side_incremental: true },
      ),
    }),
    schema_loader: schemaLoader(airbyteProperties(properties, components.schemas)),
  };
}

/** Returns the stream of deleted records, which comes from the change feed. */
function deletionStream({ components }: OpenApiDocument) {
  const { before: _, after: __, changed: ___, ...properties } = components.schemas.Change?.properties ?? {};
  return {
    type: 'DeclarativeStream',
    name: 'deletions',
    primary_key: ['position'],
    retriever: {
      type: 'SimpleRetriever',
      requester: requester('/events'),
      record_selector: {
        type: 'RecordSelector',
        extractor: { type: 'DpathExtractor', field_path: ['data'] },
        record_filter: {
          type: 'RecordFilter',
          condition: `{{ record['action'] in [${removalActions.map((action) => `'${action}'`).join(', ')}] }}`,
        },
      },
      paginator: {
        type: 'DefaultPaginator',
        page_token_option: {
          type: 'RequestOption',
          inject_into: 'request_parameter',
          field_name: 'after',
        },
        pagination_strategy: {
          type: 'CursorPagination',
          cursor_value: "{{ response['next'] }}",
          stop_condition: "{{ response['data'] | length == 0 }}",
        },
      },
    },
    // The feed's cursors are opaque, and a manifest can store only timestamps between syncs.
    incremental_sync: incrementalBy('at', { is_client_side_incremental: true }),
    transformations: [{ type: 'RemoveFields', field_pointers: [['before'], ['after'], ['changed']] }],
    schema_loader: schemaLoader(airbyteProperties(properties, components.schemas)),
  };
}

/**
 * Generates the manifest of an Airbyte connector for an instance: a stream for each resource, and a stream of deletions.
 * @param document the instance's OpenAPI document
 */
export function airbyteManifest(document: OpenApiDocument): string {
  const resources = resourcesIn(document);
  const streams = [
    ...resources.map((resource) => recordStream(resource, document)),
    deletionStream(document),
  ];
  const manifest = {
    version: cdkVersion,
    type: 'DeclarativeSource',
    description: `Records and deletions of a CRM instance: ${resources.map(({ name }) => name).join(', ')}.`,
    check: { type: 'CheckStream', stream_names: streams.slice(0, 1).map(({ name }) => name) },
    streams,
    spec: {
      type: 'Spec',
      connection_specification: {
        $schema: 'http://json-schema.org/draft-07/schema#',
        title: 'CRM',
        type: 'object',
        required: ['url', 'api_key'],
        additionalProperties: true,
        properties: {
          url: {
            type: 'string',
            title: 'URL',
            description: "The instance's origin, for example https://crm.example.com.",
            pattern: '^https?://[^/]+$',
            order: 0,
          },
          api_key: {
            type: 'string',
            title: 'API key',
            description: 'An API key of the organization whose profile grants list on the resources to sync.',
            airbyte_secret: true,
            order: 1,
          },
          start_date: {
            type: 'string',
            title: 'Start date',
            description: 'Only records changed since this time are synced. Default: all records.',
            format: 'date-time',
            pattern: '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}Z$',
            order: 2,
          },
        },
      },
    },
  };
  return `# Generated by "crm connector airbyte". Import it in Airbyte's Connector Builder.\n${stringify(manifest, { lineWidth: 0, aliasDuplicateObjects: false })}`;
}
