import type { Generated } from 'kysely';
import { defineTable, identity, now, tenant, textColumn } from '../../engine/tables/index.ts';

declare module '../../engine/tables/index.ts' {
  interface TableRows {
    crm_payment_events: {
      organization_id: string;
      id: Generated<string>;
      customer: string;
      event_id: string;
      /** The JSON response sent to the partner, without its closing brace, or null if no lead was found. */
      answer: string | null;
      /** The payload, so that administrators can find the lead. */
      payload: string;
      received_at: Generated<Date>;
    };
  }
}

const paymentEvents = defineTable(
  'crm_payment_events',
  {
    ...tenant(),
    id: identity,
    customer: textColumn,
    event_id: textColumn,
    answer: { ...textColumn, nullable: true },
    payload: textColumn,
    received_at: now,
  },
  {
    uniques: [
      { name: 'crm_payment_events_event', properties: ['organization_id_link', 'customer', 'event_id'] },
    ],
    personalData: { label: 'payment events', columns: ['payload', 'answer'], erasure: 'delete' },
  },
);

/** Table of processed payment events. */
export const paymentsTables = [paymentEvents];
