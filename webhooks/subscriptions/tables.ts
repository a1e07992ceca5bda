import type { Generated } from 'kysely';
import {
  bigintColumn,
  defineTable,
  identity,
  integerColumn,
  now,
  tenant,
  tenantLink,
  textColumn,
  timestampColumn,
} from '../../engine/tables/index.ts';
import { type QueueRow, queueTable } from '../queue/index.ts';

declare module '../../engine/tables/index.ts' {
  interface TableRows {
    crm_event_subscriptions: {
      organization_id: string;
      id: Generated<string>;
      /** The profile whose grants determine the contents of events. */
      profile_id: string;
      url: string;
      /** Comma-separated list of `create`, `update` and `delete`. */
      actions: string;
      /** List parameters, or an empty string. */
      filter: string;
      /** `matches`, `enters` or `leaves`: when a change is sent, depending on which states of the record match the filter. */
      filter_when: Generated<string>;
      /** Transitions that are sent, as JSON, or an empty string if all changes are sent. */
      transitions: Generated<string>;
      /** Format of the request bodies: `standard` or `cloudevents`. */
      format: Generated<string>;
      /** Maximum number of events in a request, or 0 if each event is sent in its own request. */
      batch_events: Generated<number>;
      /** Maximum number of seconds that an event waits for other events of its batch. */
      batch_seconds: Generated<number>;
      /** Signing secret, encrypted (JWE). The previous secret is empty if there was no rotation. */
      secret: string;
      previous_secret: Generated<string>;
      previous_until: Generated<Date>;
      /**
       * `on`, `off` (by a user), `gone` (the receiver responded with 410) or `failed` (no event was delivered
       * for days).
       */
      state: Generated<string>;
      /** Number of failures since the last success, and the time of the first failure. */
      failures: Generated<number>;
      failing_since: Date | null;
      /** No event is sent before this time. */
      paused_until: Generated<Date>;
      /** Position in the change log. Changes after it have not been queued yet. */
      epoch: string;
      transaction: string;
      ledger_id: string;
      read_at: Generated<Date>;
      /** Changes before this time are skipped. */
      since: Generated<Date>;
      /** Number of replays from a position. Events delivered in an earlier generation are redelivered. */
      generation: Generated<number>;
      created_at: Generated<Date>;
    };
    crm_event_resources: { organization_id: string; subscription_id: string; resource: string };
    crm_event_deliveries: QueueRow & {
      subscription_id: string;
      /** The change's position; null for a test event or a batch. */
      position: string | null;
      object: string;
      object_id: string | null;
      version: string | null;
      /** `create`, `update`, `delete`, `test` or `batch`. */
      action: string;
      /** Names of the changed fields, as JSON. */
      changed: Generated<string>;
      at: Generated<Date>;
      generation: Generated<number>;
      /** The delivery of the batch that contains the event. The status of the event is `batched`. */
      batch_id: string | null;
      /** When the events of a batch were fixed, before its first request; null for other deliveries. */
      sealed_at: Date | null;
      /** Headers from the last request and its response. */
      request: Generated<string>;
      response: Generated<string>;
      /** URL and start of the body of the last request, and start of the body of its response. Empty if they are not text. */
      url: Generated<string>;
      request_body: Generated<string>;
      response_body: Generated<string>;
    };
  }
}

const emptyText = { ...textColumn, defaultRaw: "''" };
const zero = { ...integerColumn, defaultRaw: '0' };
const infinitePast = { ...timestampColumn, defaultRaw: `'-infinity'` };

const subscriptions = defineTable('crm_event_subscriptions', {
  ...tenant(),
  id: identity,
  ...tenantLink('crm_event_subscriptions', 'profile', 'crm_profiles', { ownColumns: ['profile_id'] }),
  url: textColumn,
  actions: textColumn,
  filter: textColumn,
  filter_when: { ...textColumn, defaultRaw: "'matches'" },
  transitions: emptyText,
  format: { ...textColumn, defaultRaw: "'standard'" },
  batch_events: zero,
  batch_seconds: zero,
  secret: textColumn,
  previous_secret: emptyText,
  previous_until: infinitePast,
  state: { ...textColumn, defaultRaw: "'on'" },
  failures: zero,
  failing_since: { ...timestampColumn, nullable: true },
  paused_until: infinitePast,
  epoch: textColumn,
  transaction: { type: 'string', columnType: 'xid8' },
  ledger_id: bigintColumn,
  read_at: now,
  since: infinitePast,
  generation: zero,
  created_at: now,
});

const resources = defineTable(
  'crm_event_resources',
  {
    ...tenantLink('crm_event_resources', 'subscription', 'crm_event_subscriptions', {
      primary: true,
      deleteRule: 'cascade',
    }),
    resource: { ...textColumn, primary: true },
  },
  { resourceColumns: ['resource'], placement: 'everywhere' },
);

const deliveries = queueTable(
  'crm_event_deliveries',
  { name: 'subscription', table: 'crm_event_subscriptions' },
  {
    position: { ...textColumn, nullable: true },
    object: textColumn,
    object_id: { ...bigintColumn, nullable: true },
    version: { ...bigintColumn, nullable: true },
    action: textColumn,
    changed: { ...textColumn, defaultRaw: "'[]'" },
    at: now,
    generation: zero,
    ...tenantLink('crm_event_deliveries', 'batch', 'crm_event_deliveries', {
      ownColumns: ['batch_id'],
      nullable: true,
      deleteRule: 'cascade',
    }),
    sealed_at: { ...timestampColumn, nullable: true },
    request: emptyText,
    response: emptyText,
    url: emptyText,
    request_body: emptyText,
    response_body: emptyText,
  },
  {
    indexes: [
      // Finds earlier changes to a record that a delivery must wait for.
      {
        name: 'crm_event_deliveries_order',
        keys: ['"organization_id"', '"subscription_id"', '"object"', '"object_id"', '"version"'],
        where: `"status" = 'waiting'`,
      },
      // Finds the events of a batch.
      {
        name: 'crm_event_deliveries_batch',
        keys: ['"organization_id"', '"batch_id"'],
        where: `"batch_id" is not null`,
      },
      // Finds the events about a record, by version, newest first.
      {
        name: 'crm_event_deliveries_record',
        keys: ['"organization_id"', '"object"', '"object_id"', '"at"', '"version"'],
        where: `"object_id" is not null`,
      },
      // Finds batches that other deliveries must wait for.
      {
        name: 'crm_event_deliveries_batches',
        keys: ['"organization_id"', '"subscription_id"', '"id"'],
        where: `"status" = 'waiting' and "action" = 'batch'`,
      },
    ],
    resourceColumns: ['object'],
    personalData: {
      label: 'requests and responses of sent events',
      columns: ['request', 'response', 'error', 'attempt_log', 'url', 'request_body', 'response_body'],
      erasure: 'clear',
      // The outcome of an attempt in progress contains the request. If `attempts` has changed, it is not recorded, and
      // the event is sent again.
      alsoSet: { attempts: `attempts + (status = 'waiting' and attempts > 0)::int` },
      record: { resource: 'object', id: 'object_id', container: 'batch_id' },
    },
  },
);

/** Tables for subscriptions, their resources and their deliveries. */
export const subscriptionTables = [subscriptions, resources, deliveries];
