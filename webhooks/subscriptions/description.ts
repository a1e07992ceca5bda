import type { Fragment } from '../../engine/compile/index.ts';
import type { JsonSchema } from '../../engine/fields/index.ts';
import { subscriptionsPath } from './api.ts';
import { eventActions } from './input.ts';

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const text = { type: 'string' };
const int64 = { type: 'integer', format: 'int64' };
const time = { type: 'string', format: 'date-time' };
const nullable = (schema: JsonSchema) => ({ ...schema, type: [schema.type, 'null'] });
const list = (description: string) => ({ type: 'array', items: text, description });
const json = (schema: JsonSchema) => ({ 'application/json': { schema } });

/** Describes an object. All properties are required by default, and additional ones are allowed. */
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
};

const failures = {
  401: ref('responses', 'Unauthorized'),
  403: ref('responses', 'Forbidden'),
  500: ref('responses', 'Failure'),
  501: ref('responses', 'NotRecorded'),
  503: ref('responses', 'Unavailable'),
};
const notFound = { 404: ref('responses', 'NotFound') };
const withBody = { 400: ref('responses', 'BadRequest'), 413: ref('responses', 'TooLarge') };

/** Describes an operation. @param extraProperties additional properties of the operation */
const operation = (
  operationId: string,
  summary: string,
  success: JsonSchema,
  responses: JsonSchema,
  extraProperties: JsonSchema = {},
  status = 200,
) => ({
  operationId,
  summary,
  tags: ['events'],
  ...extraProperties,
  responses: { [status]: success, ...responses, ...failures },
});

const body = (schema: string) => ({ requestBody: { required: true, content: json(ref('schemas', schema)) } });
const id = [
  { name: 'id', in: 'path', required: true, description: "The subscription's ID.", schema: int64 },
  ref('parameters', 'org'),
];
const subscriptionPath = `${subscriptionsPath}/{id}`;

/** OpenAPI description of event subscriptions. */
export const subscriptionsFragment: Fragment = {
  paths: {
    [subscriptionsPath]: {
      parameters: [ref('parameters', 'org')],
      get: operation(
        'listSubscriptions',
        'List event subscriptions',
        {
          description: 'All event subscriptions, oldest first.',
          content: json(ref('schemas', 'SubscriptionList')),
        },
        { 400: ref('responses', 'BadRequest') },
        {
          description:
            'Lists event subscriptions without their secrets. Requires the grant `list` on `events`.',
        },
      ),
      post: operation(
        'createSubscription',
        'Subscribe to changes',
        {
          description: 'The subscription with its secret.',
          headers: { Location: { description: "The subscription's path.", required: true, schema: text } },
          content: json(ref('schemas', 'NewSubscription')),
        },
        withBody,
        {
          description:
            'Creates an event subscription, which sends changes to a URL as they happen: at least once, in order for each record, and signed according to Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`). Events contain only what the caller can read. Requires the grant `create` on `events`, which `*` does not include.',
          ...body('SubscriptionInput'),
        },
        201,
      ),
    },
    [subscriptionPath]: {
      parameters: id,
      get: operation(
        'getSubscription',
        'Read an event subscription',
        { description: 'The subscription.', content: json(ref('schemas', 'Subscription')) },
        { ...notFound, 400: ref('responses', 'BadRequest') },
        {
          description:
            'Returns an event subscription without its secret. Requires the grant `read` on `events`.',
        },
      ),
      patch: operation(
        'patchSubscription',
        'Change, enable or disable an event subscription',
        { description: 'The subscription.', content: json(ref('schemas', 'Subscription')) },
        { ...withBody, ...notFound },
        {
          description:
            "Changes, enables or disables an event subscription. When enabled again, it continues where it stopped. If the caller changes anything but the state and cannot read everything that the subscription's profile can, the subscription gets the caller's profile.",
          ...body('SubscriptionChange'),
        },
      ),
      delete: operation(
        'deleteSubscription',
        'Delete an event subscription with its deliveries',
        { description: 'The subscription was deleted.', content: json(ref('schemas', 'Deleted')) },
        { ...notFound, 400: ref('responses', 'BadRequest') },
        { description: 'Deletes an event subscription. Waiting events are not sent.' },
      ),
    },
    [`${subscriptionPath}/secrets`]: {
      parameters: id,
      post: operation(
        'rotateSubscriptionSecret',
        "Rotate an event subscription's secret",
        {
          description: 'The new secret.',
          content: json(ref('schemas', 'SubscriptionSecret')),
        },
        { ...notFound, 400: ref('responses', 'BadRequest') },
        {
          description:
            'Replaces the signing secret. For 24 hours, events are also signed with the previous secret, so that the receiver can switch over.',
        },
      ),
    },
    [`${subscriptionPath}/test`]: {
      parameters: id,
      post: operation(
        'testSubscription',
        'Send a test event',
        {
          description: "The ID of the delivery, which contains the receiver's response.",
          content: json(ref('schemas', 'TestDelivery')),
        },
        { ...notFound, 400: ref('responses', 'BadRequest') },
        { description: 'Sends a signed event of the type `test`.' },
      ),
    },
    [`${subscriptionPath}/replay`]: {
      parameters: id,
      post: operation(
        'replaySubscription',
        'Send events again',
        {
          description: 'The number of deliveries queued immediately.',
          content: json(ref('schemas', 'Replayed')),
        },
        { ...withBody, ...notFound, 410: ref('responses', 'CursorExpired') },
        {
          description:
            'Resends the deliveries between two IDs, or all changes after a cursor from `GET /events`, in order.',
          ...body('ReplayInput'),
        },
      ),
    },
    [`${subscriptionPath}/deliveries`]: {
      parameters: id,
      get: operation(
        'listDeliveries',
        'List the deliveries of an event subscription',
        { description: 'Up to 50 deliveries, newest first.', content: json(ref('schemas', 'DeliveryList')) },
        { ...notFound, 400: ref('responses', 'BadRequest') },
        {
          description:
            'Lists deliveries with the headers of their requests and responses. Deliveries are deleted after a retention period.',
          parameters: [ref('parameters', 'deliveries.before'), ref('parameters', 'deliveries.status')],
        },
      ),
    },
  },
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
        requestBody: { required: true, content: json(ref('schemas', 'Event')) },
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
          action: { ...text, description: '`create`, `update` or `delete`.' },
          resource: text,
          id: int64,
          version: {
            ...int64,
            description: 'Increases with each change to the record. Ignore events with an older version.',
          },
          changed: list('Names of the changed fields.'),
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
    Delivery: object(delivery),
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
};
