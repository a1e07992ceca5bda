import type { Generated } from 'kysely';
import { defineTable, identity, now, tenant, textColumn } from '../../engine/tables/index.ts';
import { contactKey } from '../endpoint/index.ts';

declare module '../../engine/tables/index.ts' {
  interface TableRows {
    crm_messages: {
      organization_id: string;
      id: Generated<string>;
      recipient: string;
      body: string;
      template: string;
      /** `sent` or `failed`; a sent message later becomes `delivered` or `read`. */
      status: string;
      provider_id: string | null;
      /** Why the message could not be sent. */
      error: string | null;
      created_at: Generated<Date>;
    };
  }
}

const messages = defineTable(
  'crm_messages',
  {
    ...tenant(),
    id: identity,
    recipient: textColumn,
    body: textColumn,
    template: textColumn,
    status: textColumn,
    provider_id: { ...textColumn, nullable: true },
    error: { ...textColumn, nullable: true },
    created_at: now,
  },
  {
    indexes: [
      { name: 'crm_messages_provider', properties: ['organization_id_link', 'provider_id'] },
      // Finds the messages to a person, newest first.
      {
        name: 'crm_messages_recipient',
        keys: ['"organization_id"', contactKey('"recipient"'), '"created_at"', '"id"'],
      },
    ],
    personalData: { label: 'outgoing messages', columns: ['recipient', 'body', 'error'], erasure: 'delete' },
  },
);

/** Table of outgoing messages, including those that could not be sent. */
export const senderTables = [messages];
