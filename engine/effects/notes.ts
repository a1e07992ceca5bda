import type { Generated } from 'kysely';
import { flagVariable } from '../config/index.ts';
import { literal } from '../sql/index.ts';
import {
  bigintColumn,
  defineTable,
  identity,
  now,
  tenant,
  textColumn,
  timestampColumn,
} from '../tables/index.ts';
import type { Effect } from './effect.ts';

declare module '../tables/index.ts' {
  interface TableRows {
    crm_notes: {
      organization_id: string;
      id: Generated<string>;
      resource: string;
      record_id: string;
      /** The user who wrote the note, who might have been deleted since. */
      author_id: string;
      text: string;
      created_at: Generated<Date>;
      /** When the text was last changed; null if it was never changed. */
      changed_at: Date | null;
    };
  }
}

const notes = defineTable(
  'crm_notes',
  {
    ...tenant(),
    id: identity,
    resource: textColumn,
    record_id: bigintColumn,
    author_id: bigintColumn,
    text: textColumn,
    created_at: now,
    changed_at: { ...timestampColumn, nullable: true },
  },
  {
    indexes: [
      {
        name: 'crm_notes_record',
        properties: ['organization_id_link', 'resource', 'record_id', 'created_at', 'id'],
      },
    ],
    resourceColumns: ['resource'],
    personalData: { label: 'notes', columns: ['text'], erasure: 'delete' },
  },
);

/**
 * Deletes a record's notes with the record. Notes of records in the trash are kept. Notes of a merged record move to the record
 * that remains. Without the effect, members cannot write notes.
 */
export const recordNotes: Effect = {
  variable: flagVariable('NOTES', true),
  tables: [notes],
  on: ['delete', 'purge'],
  expression: ({ resource, written, source, row }) =>
    `${written}_notes as (delete from "crm_notes" _n using (select ${row}."organization_id", ${row}."id" from ${source}) _d where _n."organization_id" = _d."organization_id" and _n."resource" = ${literal(resource)} and _n."record_id" = _d."id")`,
  ofMerge: {
    table: 'crm_notes',
    move: ({ resource, organization, id, from, rows }) =>
      `update "crm_notes" set "record_id" = ${id} where "organization_id" = ${organization} and "resource" = ${literal(resource)} and "record_id" = ${from}${rows === undefined ? '' : ` and "id" in (${rows})`} returning "id"`,
  },
};
