import type { Fragment } from '../../engine/compile/index.ts';
import type { ResourceDefinition } from '../../engine/definition/index.ts';
import type { JsonSchema } from '../../engine/fields/index.ts';
import { changeActionsText } from '../../engine/records/index.ts';
import { type ApiOperation, operations, subscriptionsPath } from './api.ts';
import { cloudEventsBatchType, cloudEventsType } from './formats.ts';
import { eventActions, maxBatchEvents, maxBatchSeconds } from './input.ts';

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const text = { type: 'string' };
const int64 = { type: 'integer', format: 'int64' };
const time = { type: 'string', format: 'date-time' };
const nullable = (schema: JsonSchema) => ({ ...schema, type: [schema.type, 'null'] });
const list = (description: string) => ({ type: 'array', items: text, description });
const json = (schema: JsonSchema) => ({ 'application/json': { schema } });

/** Describes an object. All properties are required by default, and additional properties are allowed. */
const object = (
  properties: Readonly<Record<string, JsonSchema>>,
  required = Object.keys(properties),
): JsonSchema => ({
  type: 'object',
  required,
  properties,
});

const input = {
  url: {
    ...text,
    description: 'Receiver URL. Must use https and a public IP address, unless the operator allows others.',
  },
  resources: list('Resources whose changes are sent.'),
  actions: list('Changes to send: `create`, `update`, `delete`. Default: all.'),
  filter: {
    ...text,
    description:
      'List parameters, for example `status=New`. Only records that match when the event is sent are included; deletions are always sent. Empty: all records.',
  },
  filter_when: {
    ...text,
    description:
      '`matches` sends changes if the record matches the filter when the event is sent. `enters` and `leaves` send only changes that make the record match the filter or stop matching it; a record that does not exist does not match. Default: `matches`.',
  },
  transitions: {
    type: 'object',
    additionalProperties: {
      type: 'object',
      properties: {
        from: { description: 'Previous value, or a list of them. Default: any value.' },
        to: { description: 'New value, or a list of them. Default: any value.' },
      },
    },
    description:
      'Sends only updates that change each of these fields from and to these values, for example `{"status":{"from":"New","to":["Qualified"]}}`. Empty: all changes.',
  },
  format: {
    ...text,
    description:
      'Format of the request bodies: `standard`, or `cloudevents` for the JSON format of CloudEvents 1.0. Default: `standard`.',
  },
  batch: {
    type: ['object', 'null'],
    properties: {
      max_events: {
        type: 'integer',
        description: `Maximum number of events in a request, 1 to ${maxBatchEvents}. Default: 100.`,
      },
      max_wait_seconds: {
        type: 'integer',
        description: `Maximum time that an event waits for others, 1 to ${maxBatchSeconds}. Default: 5.`,
      },
    },
    description:
      'Sends several events in one request, as an array in the order of the change log. Null: one request per event. Default: null.',
  },
};

const subscription = {
  id: int64,
  ...input,
  profile: {
    ...text,
    description:
      "Profile that determines what events contain. It is the creator's profile, or the profile of a later editor with fewer grants.",
  },
  state: {
    ...text,
    description:
      '`on`, `off`, `gone` (the receiver responded with 410) or `failed` (no events delivered for five days).',
  },
  failing_since: {
    ...nullable(time),
    description: 'Time of the first failure since the last success, or null.',
  },
  created_at: time,
};

const secret = {
  ...text,
  description: 'Signing secret (Standard Webhooks), with the prefix `whsec_`. Returned only once.',
};

const delivery = {
  id: int64,
  event: { ...text, description: 'The event, for example `update leads 5 v2`.' },
  status: { ...text, description: '`waiting`, `done` or `dead` (will not be retried).' },
  attempts: { type: 'integer' },
  error: { ...text, description: 'Why the last attempt failed, or an empty string.' },
  queued_at: time,
  request: { ...text, description: 'Headers of the last request.' },
  response: { ...text, description: 'Status and headers of the last response, or an empty string.' },
  events: list(
    'Events in the batch, for example `update leads 5 v2`. Only present if the delivery is a batch.',
  ),
};

/** Describes an operation. */
function describe({ method, path, success, failures, body, parameters, ...operation }: ApiOperation) {
  const { description, schema, isCreated } = success;
  const location = { Location: { description: "The subscription's path.", required: true, schema: text } };
  const failureNames = {
    ...{ 400: 'BadRequest', 401: 'Unauthorized', 403: 'Forbidden' },
    ...(path !== '' && { 404: 'NotFound' }),
    ...(body !== undefined && { 413: 'TooLarge' }),
    ...{ ...failures, 500: 'Failure', 501: 'NotRecorded', 503: 'Unavailable' },
  };
  return {
    operationId: operation.operationId,
    summary: operation.summary,
    tags: ['events'],
    description: operation.description,
    ...(body !== undefined && { requestBody: { required: true, content: json(ref('schemas', body)) } }),
    ...(parameters && { parameters: parameters.map((name) => ref('parameters', name)) }),
    responses: {
      [isCreated ? 201 : 200]: {
        description,
        ...(isCreated && { headers: location }),
        content: json(ref('schemas', schema)),
      },
      ...Object.fromEntries(
        Object.entries(failureNames).map(([status, name]) => [status, ref('responses', name)]),
      ),
    },
  };
}

const id = { name: 'id', in: 'path', required: true, description: "The subscription's ID.", schema: int64 };

/** Returns the OpenAPI description of event subscriptions to changes to these resources. */
export const subscriptionsFragment = (definitions: readonly ResourceDefinition[]): Fragment => ({
  paths: Object.fromEntries(
    [...Map.groupBy(operations, ({ path }) => path)].map(([path, all]) => [
      `${subscriptionsPath}${path.replace(':id', '{id}')}`,
      {
        parameters: [...(path === '' ? [] : [id]), ref('parameters', 'org')],
        ...Object.fromEntries(all.map((operation) => [operation.method.toLowerCase(), describe(operation)])),
      },
    ]),
  ),
  webhooks: {
    event: {
      post: {
        operationId: 'receiveEvent',
        summary: 'A change to a record',
        description:
          'Sent by event subscriptions. Verify `webhook-signature` against the raw body with a Standard Webhooks library.',
        tags: ['events'],
        parameters: ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => ({
          name,
          in: 'header',
          required: true,
          schema: text,
        })),
        requestBody: {
          required: true,
          content: {
            ...json({ oneOf: [ref('schemas', 'Event'), ref('schemas', 'EventBatch')] }),
            [cloudEventsType]: { schema: ref('schemas', 'CloudEvent') },
            [cloudEventsBatchType]: { schema: ref('schemas', 'CloudEventBatch') },
          },
        },
        responses: {
          '2XX': { description: 'The event was accepted.' },
          410: { description: 'Disables the subscription.' },
          default: { description: 'The event is sent again later. `Retry-After` is respected.' },
        },
      },
    },
  },
  parameters: {
    'deliveries.before': {
      name: 'before',
      in: 'query',
      description: 'The value of `next` from the previous response.',
      schema: int64,
    },
    'deliveries.status': {
      name: 'status',
      in: 'query',
      description: 'Only deliveries in this state: `waiting`, `done` or `dead`.',
      schema: text,
    },
  },
  schemas: {
    Subscription: object(subscription),
    NewSubscription: object({ ...subscription, secret }),
    SubscriptionList: object({ data: { type: 'array', items: ref('schemas', 'Subscription') } }),
    SubscriptionInput: object(input, ['url', 'resources']),
    SubscriptionChange: object({ ...input, state: { ...text, description: '`on` or `off`.' } }, []),
    SubscriptionSecret: object({ secret }),
    TestDelivery: object({ delivery: int64 }),
    ReplayInput: object(
      {
        after: { ...text, description: 'A cursor from `GET /events`. Replaces `from` and `to`.' },
        from: { ...int64, description: 'ID of the first delivery.' },
        to: { ...int64, description: 'ID of the last delivery. Default: `from`.' },
      },
      [],
    ),
    Replayed: object({ queued: { type: 'integer' } }),
    Event: object({
      type: {
        ...text,
        description: 'For example `leads.updated`, or `test` for a test event, whose `data` is empty.',
      },
      timestamp: time,
      data: object(
        {
          position: text,
          action: { ...text, description: changeActionsText(definitions) },
          resource: text,
          id: int64,
          version: {
            ...int64,
            description: 'Increases with each change to the record. Ignore events with an older version.',
          },
          changed: list('Names of the changed fields.'),
          previous: {
            type: ['object', 'null'],
            additionalProperties: true,
            description:
              'Previous values of the changed fields, or of all fields if the record was deleted. Null if the record did not exist or its previous state is unknown. Absent if the change log no longer contains the change.',
          },
          after: {
            type: ['object', 'null'],
            additionalProperties: true,
            description:
              'The record after this change, as in the change feed, or null if it was deleted. Absent if the change log no longer contains the change.',
          },
          record: {
            type: ['object', 'null'],
            additionalProperties: true,
            description:
              'The record when the event is sent, in the format of a GET response, or null if it was deleted.',
          },
        },
        [],
      ),
    }),
    EventBatch: {
      type: 'array',
      minItems: 1,
      maxItems: maxBatchEvents,
      items: {
        allOf: [
          ref('schemas', 'Event'),
          object({ id: { ...text, description: "The event's ID, which is the same in every attempt." } }),
        ],
      },
      description: 'Body of a request from a subscription with `batch`.',
    },
    CloudEventBatch: {
      type: 'array',
      minItems: 1,
      maxItems: maxBatchEvents,
      items: ref('schemas', 'CloudEvent'),
      description: 'Body of a request from a subscription with `batch` and the format `cloudevents`.',
    },
    CloudEvent: object(
      {
        specversion: { ...text, const: '1.0' },
        id: {
          ...text,
          description: "The event's ID: the value of `webhook-id`, unless the event is in a batch.",
        },
        source: {
          type: 'string',
          format: 'uri-reference',
          description: "The subscription's URL, or its path if the instance has no public URL.",
        },
        type: { ...text, description: 'For example `leads.updated`, or `test` for a test event.' },
        subject: {
          ...text,
          description: 'Resource and ID of the record, for example `leads/5`. Test events do not have it.',
        },
        time,
        datacontenttype: { ...text, const: 'application/json' },
        data: { type: 'object', description: 'The same as in the format `standard`.' },
      },
      ['specversion', 'id', 'source', 'type', 'time', 'datacontenttype', 'data'],
    ),
    Delivery: object(
      delivery,
      Object.keys(delivery).filter((name) => name !== 'events'),
    ),
    DeliveryList: object({
      data: { type: 'array', items: ref('schemas', 'Delivery') },
      next: {
        ...nullable(int64),
        description: 'Value of `before` for the next page, or null on the last page.',
      },
    }),
  },
  examples: {
    SubscriptionInput: { url: 'https://example.com/crm', resources: ['leads'], actions: [...eventActions] },
    SubscriptionChange: { state: 'off' },
    ReplayInput: { from: 1, to: 1 },
  },
});
