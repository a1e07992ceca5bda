import type { Generated } from 'kysely';
import {
  booleanColumn,
  defineTable,
  identity,
  now,
  tenant,
  tenantLink,
  textColumn,
} from '../../engine/tables/index.ts';
import { contactKey } from '../endpoint/index.ts';
import { type QueueRow, queueTable } from '../queue/index.ts';

declare module '../../engine/tables/index.ts' {
  interface TableRows {
    crm_integrations: {
      organization_id: string;
      id: Generated<string>;
      provider: string;
      name: string;
      /** Last segment of the callback URL. It is random so that it cannot be guessed. */
      endpoint: string;
      /** SHA-256 digest of the handshake's verify token, in hex. */
      verify_token_hash: string;
      /** The provider's secret, encrypted (JWE). */
      secret: string;
      /** The access token for calls to the provider, encrypted (JWE), or an empty string. */
      token: string;
      enabled: Generated<boolean>;
      created_at: Generated<Date>;
    };
    crm_inbox: QueueRow & { integration_id: string; payload: string };
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

const integrations = defineTable(
  'crm_integrations',
  {
    ...tenant(),
    id: identity,
    provider: textColumn,
    name: textColumn,
    endpoint: textColumn,
    verify_token_hash: textColumn,
    secret: textColumn,
    token: textColumn,
    enabled: { ...booleanColumn, defaultRaw: 'true' },
    created_at: now,
  },
  { uniques: [{ name: 'crm_integrations_endpoint', properties: ['endpoint'] }] },
);

const inbox = queueTable(
  'crm_inbox',
  { name: 'integration', table: 'crm_integrations' },
  { payload: textColumn },
  {
    personalData: {
      label: 'integration events',
      columns: ['payload', 'error', 'attempt_log'],
      erasure: 'delete',
    },
  },
);

const receivedMessages = defineTable(
  'crm_received_messages',
  {
    ...tenant(),
    id: identity,
    ...tenantLink('crm_received_messages', 'integration', 'crm_integrations', {
      ownColumns: ['integration_id'],
      deleteRule: 'cascade',
    }),
    provider_id: textColumn,
    sender: textColumn,
    body: textColumn,
    received_at: now,
  },
  {
    uniques: [
      {
        name: 'crm_received_messages_provider',
        properties: ['organization_id_link', 'integration_id', 'provider_id'],
      },
    ],
    indexes: [
      // Finds the messages from a person, newest first.
      {
        name: 'crm_received_messages_sender',
        keys: ['"organization_id"', contactKey('"sender"'), '"received_at"', '"id"'],
      },
    ],
    personalData: { label: 'received messages', columns: ['sender', 'body'], erasure: 'delete' },
  },
);

/** Tables for integrations, their events and received messages. */
export const inboxTables = [integrations, inbox, receivedMessages];
