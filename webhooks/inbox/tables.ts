import type { Generated } from 'kysely';
import {
  boolean,
  identity,
  integer,
  now,
  table,
  tenant,
  tenantLink,
  text,
  time,
} from '../../engine/tables/index.ts';

declare module '../../engine/tables/index.ts' {
  interface TableRows {
    crm_integrations: {
      organization_id: string;
      id: Generated<string>;
      provider: string;
      name: string;
      /** The last part of the address that the provider calls; random, so that it cannot be guessed. */
      endpoint: string;
      /** SHA-256 of the verify token of the handshake, hex. */
      verify_token_hash: string;
      /** The provider's secret, encrypted (JWE). */
      secret: string;
      /** The token for calls to the provider, encrypted (JWE); empty if none is needed. */
      token: string;
      enabled: Generated<boolean>;
      created_at: Generated<Date>;
    };
    crm_inbox: {
      organization_id: string;
      id: Generated<string>;
      integration_id: string;
      event_id: string;
      payload: string;
      /** waiting, done or dead. */
      status: Generated<string>;
      attempts: Generated<number>;
      next_at: Generated<Date>;
      error: Generated<string>;
      received_at: Generated<Date>;
      done_at: Date | null;
    };
    crm_received_messages: {
      organization_id: string;
      id: Generated<string>;
      integration_id: string;
      provider_id: string;
      sender: string;
      body: string;
      received_at: Generated<Date>;
    };
  }
}

const integration = (table: string) =>
  tenantLink(table, 'integration', 'crm_integrations', {
    ownColumns: ['integration_id'],
    deleteRule: 'cascade',
  });

const integrations = table(
  'crm_integrations',
  {
    ...tenant(),
    id: identity,
    provider: text,
    name: text,
    endpoint: text,
    verify_token_hash: text,
    secret: text,
    token: text,
    enabled: { ...boolean, defaultRaw: 'true' },
    created_at: now,
  },
  { uniques: [{ name: 'crm_integrations_endpoint', properties: ['endpoint'] }] },
);

const inbox = table(
  'crm_inbox',
  {
    ...tenant(),
    id: identity,
    ...integration('crm_inbox'),
    event_id: text,
    payload: text,
    status: { ...text, defaultRaw: "'waiting'" },
    attempts: { ...integer, defaultRaw: '0' },
    next_at: now,
    error: { ...text, defaultRaw: "''" },
    received_at: now,
    done_at: { ...time, nullable: true },
  },
  {
    uniques: [
      { name: 'crm_inbox_event', properties: ['organization_id_link', 'integration_id', 'event_id'] },
    ],
    indexes: [
      // Finds due items, organization by organization (webhooks/inbox/claim.ts).
      {
        name: 'crm_inbox_due',
        expression: `create index "crm_inbox_due" on "crm_inbox" ("organization_id", "integration_id", "next_at") where "status" = 'waiting'`,
      },
      // Finds dead items among many that are done.
      {
        name: 'crm_inbox_dead',
        expression: `create index "crm_inbox_dead" on "crm_inbox" ("organization_id", "id") where "status" = 'dead'`,
      },
      // Finds items that are old enough to remove.
      {
        name: 'crm_inbox_ended',
        expression: `create index "crm_inbox_ended" on "crm_inbox" ("status", "done_at") where "status" <> 'waiting'`,
      },
    ],
    // A claim walks through the organizations.
    placement: 'coordinator',
  },
);

const receivedMessages = table(
  'crm_received_messages',
  {
    ...tenant(),
    id: identity,
    ...integration('crm_received_messages'),
    provider_id: text,
    sender: text,
    body: text,
    received_at: now,
  },
  {
    uniques: [
      {
        name: 'crm_received_messages_provider',
        properties: ['organization_id_link', 'integration_id', 'provider_id'],
      },
    ],
  },
);

/** Integrations, their events, and received messages. */
export const inboxTables = [integrations, inbox, receivedMessages];
