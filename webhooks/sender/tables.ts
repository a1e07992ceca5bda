import type { Generated } from 'kysely';
import { identity, now, table, tenant, text } from '../../engine/tables/index.ts';

declare module '../../engine/tables/index.ts' {
  interface TableRows {
    crm_messages: {
      organization_id: string;
      id: Generated<string>;
      recipient: string;
      body: string;
      template: string;
      /** sent or failed. */
      status: string;
      provider_id: string | null;
      /** Why it was not sent. */
      error: string | null;
      created_at: Generated<Date>;
    };
  }
}

const messages = table(
  'crm_messages',
  {
    ...tenant(),
    id: identity,
    recipient: text,
    body: text,
    template: text,
    status: text,
    provider_id: { ...text, nullable: true },
    error: { ...text, nullable: true },
    created_at: now,
  },
  {
    indexes: [{ name: 'crm_messages_provider', properties: ['organization_id_link', 'provider_id'] }],
    people: { called: 'messages to people', columns: ['recipient', 'body', 'error'], rows: 'go' },
  },
);

/** Outgoing messages, sent and failed. */
export const senderTables = [messages];
