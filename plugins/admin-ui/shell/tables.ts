import type { Generated } from 'kysely';
import { defineTable, now, textColumn } from '../../../engine/tables/index.ts';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_sent_forms: {
      /** SHA-256 hash of the form's identity, in hexadecimal. */
      form: string;
      sent_at: Generated<Date>;
    };
  }
}

const sentForms = defineTable(
  'crm_sent_forms',
  { form: { ...textColumn, primary: true }, sent_at: now },
  { indexes: [{ name: 'crm_sent_forms_sent_at', properties: ['sent_at'] }] },
);

/** Submitted forms, stored so that each form is processed only once. */
export const adminUiTables = [sentForms];
