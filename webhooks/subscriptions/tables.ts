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
      /** What its events may show. */
      profile_id: string;
      url: string;
      /** Create, update and delete, with commas. */
      actions: string;
      /** Parameters of a list; empty: none. */
      filter: string;
      /** What signs its events, encrypted (JWE), and the one before, empty where there is none. */
      secret: string;
      previous_secret: Generated<string>;
      previous_until: Generated<Date>;
      /** on; off: by a person; gone: the receiver said 410; failed: for days. */
      state: Generated<string>;
      /** Failures since the last success, and when the first of them was. */
      failures: Generated<number>;
      failing_since: Date | null;
      /** Nothing is sent before. */
      paused_until: Generated<Date>;
      /** Where it is in the ledger: what comes after is not queued yet. */
      epoch: string;
      transaction: string;
      ledger_id: string;
      read_at: Generated<Date>;
      /** Changes before are not wanted, also if they are read. */
      since: Generated<Date>;
      /** Counts how often its place was set back: what was delivered before is delivered again. */
      generation: Generated<number>;
      created_at: Generated<Date>;
    };
    crm_event_resources: { organization_id: string; subscription_id: string; resource: string };
    crm_event_deliveries: QueueRow & {
      subscription_id: string;
      /** The change; null, and empty, for a test. */
      position: string | null;
      object: string;
      object_id: string | null;
      version: string | null;
      /** create, update, delete, or test. */
      action: string;
      /** Names of fields, JSON. */
      changed: Generated<string>;
      at: Generated<Date>;
      generation: Generated<number>;
      /** The head of the last request, and of its response. */
      request: Generated<string>;
      response: Generated<string>;
    };
  }
}

const nothing = { ...textColumn, defaultRaw: "''" };
const zero = { ...integerColumn, defaultRaw: '0' };
const never = { ...timestampColumn, defaultRaw: `'-infinity'` };

const subscriptions = defineTable('crm_event_subscriptions', {
  ...tenant(),
  id: identity,
  ...tenantLink('crm_event_subscriptions', 'profile', 'crm_profiles', { ownColumns: ['profile_id'] }),
  url: textColumn,
  actions: textColumn,
  filter: textColumn,
  secret: textColumn,
  previous_secret: nothing,
  previous_until: never,
  state: { ...textColumn, defaultRaw: "'on'" },
  failures: zero,
  failing_since: { ...timestampColumn, nullable: true },
  paused_until: never,
  epoch: textColumn,
  transaction: { type: 'string', columnType: 'xid8' },
  ledger_id: bigintColumn,
  read_at: now,
  since: never,
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
    request: nothing,
    response: nothing,
  },
  {
    indexes: [
      // Finds what a delivery must wait for: earlier changes of its record.
      {
        name: 'crm_event_deliveries_order',
        expression: `create index "crm_event_deliveries_order" on "crm_event_deliveries" ("organization_id", "subscription_id", "object", "object_id", "version") where "status" = 'waiting'`,
      },
    ],
    resourceColumns: ['object'],
    people: { called: 'heads of sent events', columns: ['request', 'response', 'error'], rows: 'stay' },
  },
);

/** Subscriptions, the resources that they want, and what is sent to them. */
export const subscriptionTables = [subscriptions, resources, deliveries];
