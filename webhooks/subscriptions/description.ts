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

/** An object with all of these keys, and perhaps more. */
const object = (
  properties: Readonly<Record<string, JsonSchema>>,
  required = Object.keys(properties),
): JsonSchema => ({
  type: 'object',
  required,
  properties,
});

const wish = {
  url: {
    ...text,
    description: 'Where events are sent: https, and a public address unless the operator allows others.',
  },
  resources: list('The resources whose changes are sent.'),
  actions: list('`create`, `update`, `delete`; all by default.'),
  filter: {
    ...text,
    description:
      'Parameters of a list, such as `status=New`: only records that meet them when they are sent. Empty: all. Deletions are always sent.',
  },
};

const subscription = {
  id: int64,
  ...wish,
  profile: {
    ...text,
    description:
      'Events show what this profile may read: that of whoever made the subscription, or of the last one to change what it sends, or where, who may read less.',
  },
  state: {
    ...text,
    description: '`on`; `off`; `gone`: the receiver responded 410; `failed`: no event arrived for five days.',
  },
  failing_since: { ...nullable(time), description: 'Since when no event arrives; null if the last one did.' },
  created_at: time,
};

const secret = {
  ...text,
  description: 'Signs the events (Standard Webhooks), begins with `whsec_`. Shown this once.',
};

const delivery = {
  id: int64,
  event: { ...text, description: 'What happened, such as `update leads 5 v2`.' },
  status: { ...text, description: '`waiting`, `done` or `dead` (given up).' },
  attempts: { type: 'integer' },
  error: { ...text, description: 'Why the last attempt failed; empty if it did not.' },
  queued_at: time,
  request: { ...text, description: 'The head of the last request.' },
  response: { ...text, description: 'The head of its response; empty if there was none.' },
};

const failures = {
  401: ref('responses', 'Unauthorized'),
  403: ref('responses', 'Forbidden'),
  500: ref('responses', 'Failure'),
  501: ref('responses', 'NotRecorded'),
  503: ref('responses', 'Unavailable'),
};
const ofOne = { 404: ref('responses', 'NotFound') };
const withBody = { 400: ref('responses', 'BadRequest'), 413: ref('responses', 'TooLarge') };

/** @param more parts of the operation */
const operation = (
  operationId: string,
  summary: string,
  success: JsonSchema,
  responses: JsonSchema,
  more: JsonSchema = {},
  status = 200,
) => ({
  operationId,
  summary,
  tags: ['events'],
  ...more,
  responses: { [status]: success, ...responses, ...failures },
});

const body = (schema: string) => ({ requestBody: { required: true, content: json(ref('schemas', schema)) } });
const id = [
  { name: 'id', in: 'path', required: true, description: 'The subscription.', schema: int64 },
  ref('parameters', 'org'),
];
const one = `${subscriptionsPath}/{id}`;

/** The OpenAPI description of subscriptions. */
export const subscriptionsFragment: Fragment = {
  paths: {
    [subscriptionsPath]: {
      parameters: [ref('parameters', 'org')],
      get: operation(
        'listSubscriptions',
        'List event subscriptions',
        { description: 'All of them, oldest first.', content: json(ref('schemas', 'SubscriptionList')) },
        { 400: ref('responses', 'BadRequest') },
        { description: 'Needs the grant `list` on `events`. Secrets are never shown again.' },
      ),
      post: operation(
        'createSubscription',
        'Subscribe to changes',
        {
          description: 'The subscription, with its secret.',
          headers: { Location: { description: 'Its path.', required: true, schema: text } },
          content: json(ref('schemas', 'NewSubscription')),
        },
        withBody,
        {
          description:
            'Changes of records are sent to an address as they happen, signed as Standard Webhooks has it (`webhook-id`, `webhook-timestamp`, `webhook-signature`), at least once, in order for each record. Needs the grant `create` on `events`, which `*` does not give; events show what the caller may read.',
          ...body('SubscriptionInput'),
        },
        201,
      ),
    },
    [one]: {
      parameters: id,
      get: operation(
        'getSubscription',
        'Read an event subscription',
        { description: 'The subscription.', content: json(ref('schemas', 'Subscription')) },
        { ...ofOne, 400: ref('responses', 'BadRequest') },
        { description: 'Needs the grant `read` on `events`. The secret is never shown again.' },
      ),
      patch: operation(
        'patchSubscription',
        'Change an event subscription, or switch it',
        { description: 'The subscription.', content: json(ref('schemas', 'Subscription')) },
        { ...withBody, ...ofOne },
        {
          description:
            'Switched on again, it goes on where it was. Whoever changes what it sends, or where, and may not read all that its profile may, gives it the own profile.',
          ...body('SubscriptionChange'),
        },
      ),
      delete: operation(
        'deleteSubscription',
        'Delete an event subscription with its deliveries',
        { description: 'It is deleted.', content: json(ref('schemas', 'Deleted')) },
        { ...ofOne, 400: ref('responses', 'BadRequest') },
        { description: 'Nothing is sent any more, also of what waits.' },
      ),
    },
    [`${one}/secrets`]: {
      parameters: id,
      post: operation(
        'rotateSubscriptionSecret',
        'Give an event subscription a new secret',
        {
          description: 'The new secret; the one before signs as well for 24 hours.',
          content: json(ref('schemas', 'SubscriptionSecret')),
        },
        { ...ofOne, 400: ref('responses', 'BadRequest') },
        {
          description:
            'Meanwhile events have a signature for each secret, so that a receiver can change over.',
        },
      ),
    },
    [`${one}/test`]: {
      parameters: id,
      post: operation(
        'testSubscription',
        'Send a test event',
        {
          description: 'The id of its delivery, which shows what the receiver responds.',
          content: json(ref('schemas', 'TestDelivery')),
        },
        { ...ofOne, 400: ref('responses', 'BadRequest') },
        { description: 'It has the type `test` and is signed as every other event.' },
      ),
    },
    [`${one}/replay`]: {
      parameters: id,
      post: operation(
        'replaySubscription',
        'Send events again',
        {
          description: 'How many deliveries wait to be sent again at once.',
          content: json(ref('schemas', 'Replayed')),
        },
        { ...withBody, ...ofOne, 410: ref('responses', 'CursorExpired') },
        {
          description:
            'Deliveries between two ids, or every change after a cursor of `GET /events`, in order, and then what comes.',
          ...body('ReplayInput'),
        },
      ),
    },
    [`${one}/deliveries`]: {
      parameters: id,
      get: operation(
        'listDeliveries',
        'List the deliveries of an event subscription',
        { description: 'Up to 50, newest first.', content: json(ref('schemas', 'DeliveryList')) },
        { ...ofOne, 400: ref('responses', 'BadRequest') },
        {
          description: 'With the heads of request and response, kept for some days.',
          parameters: [ref('parameters', 'deliveries.before'), ref('parameters', 'deliveries.status')],
        },
      ),
    },
  },
  webhooks: {
    event: {
      post: {
        operationId: 'receiveEvent',
        summary: 'A change of a record',
        description:
          'What event subscriptions send. Verify `webhook-signature` over the bytes that came, with a library of Standard Webhooks.',
        tags: ['events'],
        parameters: ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => ({
          name,
          in: 'header',
          required: true,
          schema: text,
        })),
        requestBody: { required: true, content: json(ref('schemas', 'Event')) },
        responses: {
          '2XX': { description: 'It has arrived.' },
          410: { description: 'Ends the subscription.' },
          default: { description: 'It is sent again later; `Retry-After` is obeyed.' },
        },
      },
    },
  },
  parameters: {
    'deliveries.before': {
      name: 'before',
      in: 'query',
      description: 'The `next` of the response before.',
      schema: int64,
    },
    'deliveries.status': {
      name: 'status',
      in: 'query',
      description: 'Only those that are `waiting`, `done` or `dead`.',
      schema: text,
    },
  },
  schemas: {
    Subscription: object(subscription),
    NewSubscription: object({ ...subscription, secret }),
    SubscriptionList: object({ data: { type: 'array', items: ref('schemas', 'Subscription') } }),
    SubscriptionInput: object(wish, ['url', 'resources']),
    SubscriptionChange: object({ ...wish, state: { ...text, description: '`on` or `off`.' } }, []),
    SubscriptionSecret: object({ secret }),
    TestDelivery: object({ delivery: int64 }),
    ReplayInput: object(
      {
        after: { ...text, description: 'A cursor of `GET /events`; instead of the ids.' },
        from: { ...int64, description: 'The first delivery.' },
        to: { ...int64, description: 'The last one; the first by default.' },
      },
      [],
    ),
    Replayed: object({ queued: { type: 'integer' } }),
    Event: object({
      type: { ...text, description: 'Such as `leads.updated`; `test` for a test, whose `data` is empty.' },
      timestamp: time,
      data: object(
        {
          position: text,
          action: { ...text, description: '`create`, `update` or `delete`.' },
          resource: text,
          id: int64,
          version: {
            ...int64,
            description: 'Counts the changes of the record. Ignore one that is lower than you have seen.',
          },
          changed: list('The fields that this change changed.'),
          record: {
            type: ['object', 'null'],
            additionalProperties: true,
            description: 'The record as GET responds it when the event is sent; null if it is gone.',
          },
        },
        [],
      ),
    }),
    Delivery: object(delivery),
    DeliveryList: object({
      data: { type: 'array', items: ref('schemas', 'Delivery') },
      next: { ...nullable(int64), description: 'The `before` of the next page; null: there is none.' },
    }),
  },
  examples: {
    SubscriptionInput: { url: 'https://example.com/crm', resources: ['leads'], actions: [...eventActions] },
    SubscriptionChange: { state: 'off' },
    ReplayInput: { from: 1, to: 1 },
  },
};
