import type { JsonSchema } from '../../../engine/fields/index.ts';
import { usedSchemas } from '../../../engine/http/index.ts';
import { pastTenses } from '../../../engine/records/index.ts';
import { type DocumentResource, type OpenApiDocument, resourcesIn } from './document.ts';

const ref = (kind: 'channels' | 'messages' | 'schemas', name: string) => ({
  $ref: kind === 'channels' ? `#/channels/${name}` : `#/components/${kind}/${name}`,
});
const nullable = (schema: JsonSchema): JsonSchema => ({ oneOf: [schema, { type: 'null' }] });
const text = { type: 'string' };

/** Media type of an event in the JSON format of CloudEvents 1.0. */
const cloudEventsType = 'application/cloudevents+json';

/** Media type of an array of events in the JSON batch format of CloudEvents 1.0. */
const cloudEventsBatchType = 'application/cloudevents-batch+json';

/** Returns the types of the events about a resource's records, for example `leads.updated`. */
const eventTypes = ({ name, hasTrash }: DocumentResource): readonly string[] =>
  Object.entries(pastTenses)
    .filter(([action]) => hasTrash || !['trash', 'restore', 'purge'].includes(action))
    .map(([, tense]) => `${name}.${tense}`);

/** Returns the schemas of a resource's events and changes, keyed by name. */
function resourceSchemas(resource: DocumentResource): Readonly<Record<string, JsonSchema>> {
  const { name, record, properties } = resource;
  const values = ref('schemas', `${record}Values`);
  const complete = nullable({ allOf: [values, { type: 'object', required: ['id'] }] });
  const type = { ...text, enum: eventTypes(resource) };
  const data = ref('schemas', `${record}EventData`);
  return {
    [`${record}Values`]: { type: 'object', description: `Values of a record of ${name}.`, properties },
    [`${record}EventData`]: {
      allOf: [
        ref('schemas', 'EventData'),
        {
          type: 'object',
          properties: {
            resource: { ...text, const: name },
            previous: nullable(values),
            after: complete,
            record: complete,
          },
        },
      ],
    },
    [`${record}Event`]: { allOf: [ref('schemas', 'Event'), { type: 'object', properties: { type, data } }] },
    [`${record}CloudEvent`]: {
      allOf: [ref('schemas', 'CloudEvent'), { type: 'object', properties: { type, data } }],
    },
    [`${record}Change`]: {
      allOf: [
        ref('schemas', 'Change'),
        {
          type: 'object',
          properties: { resource: { ...text, const: name }, before: complete, after: complete },
        },
      ],
    },
  };
}

/** Returns the messages about a resource's records, keyed by name. */
const resourceMessages = ({ name, record }: DocumentResource) => ({
  events: {
    [`${record}Event`]: {
      name: `${record}Event`,
      title: `Change to a record of ${name}`,
      contentType: 'application/json',
      headers: ref('schemas', 'EventHeaders'),
      payload: ref('schemas', `${record}Event`),
    },
    [`${record}CloudEvent`]: {
      name: `${record}CloudEvent`,
      title: `Change to a record of ${name} (CloudEvents)`,
      contentType: cloudEventsType,
      headers: ref('schemas', 'EventHeaders'),
      payload: ref('schemas', `${record}CloudEvent`),
    },
  },
  changes: {
    [`${record}Change`]: {
      name: `${record}Change`,
      title: `Change to a record of ${name}, in the feed`,
      contentType: 'application/json',
      payload: ref('schemas', `${record}Change`),
    },
  },
});

const eventHeaders = {
  type: 'object',
  description: 'Headers of Standard Webhooks, which contain the signature.',
  required: ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
  properties: {
    'webhook-id': { ...text, description: 'ID of the event or batch, the same in every attempt.' },
    'webhook-timestamp': { ...text, description: 'Seconds since 1970.' },
    'webhook-signature': {
      ...text,
      description:
        'Signatures of the form `v1,<base64>`, separated by spaces. Verify them with a Standard Webhooks library.',
    },
  },
};

/** Returns the schema of an event without data that tests a subscription. @param base the schema of events in its format */
const testEventSchema = (base: string): JsonSchema => ({
  allOf: [
    ref('schemas', base),
    {
      type: 'object',
      properties: { type: { ...text, const: 'test' }, data: { type: 'object', maxProperties: 0 } },
    },
  ],
});

/** Schemas and messages of the events that a subscription's test sends. */
const testEvents = {
  schemas: {
    TestEvent: testEventSchema('Event'),
    TestCloudEvent: testEventSchema('CloudEvent'),
  },
  messages: {
    TestEvent: {
      name: 'TestEvent',
      title: 'Test of a subscription',
      contentType: 'application/json',
      headers: ref('schemas', 'EventHeaders'),
      payload: ref('schemas', 'TestEvent'),
    },
    TestCloudEvent: {
      name: 'TestCloudEvent',
      title: 'Test of a subscription (CloudEvents)',
      contentType: cloudEventsType,
      headers: ref('schemas', 'EventHeaders'),
      payload: ref('schemas', 'TestCloudEvent'),
    },
  },
};

/** Returns the schemas and messages of batches, whose elements are any of the other messages. */
function batches(names: readonly string[]) {
  const elements = (suffix: string) => ({
    anyOf: names
      .filter((name) => name.endsWith('CloudEvent') === (suffix === 'CloudEvent'))
      .map((name) => ref('schemas', name)),
  });
  const id = { type: 'object', required: ['id'], properties: { id: text } };
  return {
    schemas: {
      EventBatch: { type: 'array', items: { allOf: [elements('Event'), id] } },
      CloudEventBatch: { type: 'array', items: elements('CloudEvent') },
    },
    messages: {
      EventBatch: {
        name: 'EventBatch',
        title: 'Several events of a subscription with `batch`',
        contentType: 'application/json',
        headers: ref('schemas', 'EventHeaders'),
        payload: ref('schemas', 'EventBatch'),
      },
      CloudEventBatch: {
        name: 'CloudEventBatch',
        title: 'Several events of a subscription with `batch` (CloudEvents)',
        contentType: cloudEventsBatchType,
        headers: ref('schemas', 'EventHeaders'),
        payload: ref('schemas', 'CloudEventBatch'),
      },
    },
  };
}

/** Generates the AsyncAPI 3.0 document of an instance's event subscriptions and change feed from its OpenAPI document. */
export function asyncApiDocument(document: OpenApiDocument): JsonSchema {
  const { info, components } = document;
  const { Event: event = {}, CloudEvent: cloudEvent = {}, Change: change = {} } = components.schemas;
  const resources = resourcesIn(document);
  const messages = resources.map(resourceMessages);
  const singleEvents = Object.assign(
    {},
    testEvents.messages,
    ...messages.map((each) => each.events),
  ) as JsonSchema;
  const batch = batches(Object.keys(singleEvents));
  const events: JsonSchema = { ...singleEvents, ...batch.messages };
  const changes = Object.assign({}, ...messages.map((each) => each.changes)) as JsonSchema;
  const schemas = {
    EventHeaders: eventHeaders,
    EventData: event.properties?.data,
    Event: event,
    CloudEvent: cloudEvent,
    Change: change,
    ...testEvents.schemas,
    ...batch.schemas,
    ...(Object.assign({}, ...resources.map(resourceSchemas)) as JsonSchema),
  };
  const references = (all: JsonSchema) =>
    Object.fromEntries(Object.keys(all).map((name) => [name, ref('messages', name)]));
  const inChannel = (channel: string, all: JsonSchema) =>
    Object.keys(all).map((name) => ({ $ref: `#/channels/${channel}/messages/${name}` }));
  return {
    asyncapi: '3.0.0',
    info: {
      title: `${info.title}: events`,
      version: info.version,
      description:
        "Changes to the organization's records, as webhooks and as a feed. `/docs/openapi.json` describes the requests that manage subscriptions.",
      license: { name: info.license.name },
    },
    defaultContentType: 'application/json',
    channels: {
      subscription: {
        // The subscription's own URL.
        address: null,
        title: 'Event subscription',
        description:
          'An event subscription (`POST /events/subscriptions`) sends each change as a POST request to its URL, at least once and in order for each record. Its `format` and `batch` select the messages.',
        messages: references(events),
      },
      feed: {
        address: '/events',
        title: 'Change feed',
        description:
          'Every change to the records that the caller can list, in order and each exactly once. With `Accept: text/event-stream`, each change is the data of a server-sent event whose ID is a cursor. Without it, a page is `{"data":[…],"next":"…"}`.',
        messages: references(changes),
      },
    },
    operations: {
      sendEvent: {
        action: 'send',
        channel: ref('channels', 'subscription'),
        title: 'Send an event to a subscription',
        messages: inChannel('subscription', events),
      },
      sendChange: {
        action: 'send',
        channel: ref('channels', 'feed'),
        title: 'Send a change to a reader of the feed',
        messages: inChannel('feed', changes),
        security: [{ $ref: '#/components/securitySchemes/apiKey' }],
      },
    },
    components: {
      schemas: { ...usedSchemas(components.schemas, schemas), ...schemas },
      messages: { ...events, ...changes },
      securitySchemes: {
        apiKey: {
          type: 'http',
          scheme: 'bearer',
          description: components.securitySchemes.apiKey?.description,
        },
      },
    },
  };
}
