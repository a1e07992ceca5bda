import { sql } from 'kysely';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { isStorable } from '../../../engine/fields/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { inPeriod, microseconds, type TimelinePeriod, TranslatedError } from '../../admin-ui/shell/index.ts';
import { notesTexts } from './texts/index.ts';

/** The record that a note is about. IDs are decimal strings. */
export interface NotedRecord {
  readonly organization: string;
  readonly resource: string;
  readonly record: string;
}

/** A note about a record. */
export interface Note {
  readonly id: string;
  readonly text: string;
  /** ID of the user who wrote the note. */
  readonly author: string;
  /** Time at which the note was written, as an RFC 3339 timestamp in microseconds. */
  readonly at: string;
  readonly isChanged: boolean;
}

/** Maximum number of characters in a note. */
export const maxNoteLength = 10_000;

/** Number of notes that an export reads per statement. */
const exportBatch = 500;

/** Selects the notes about a record. */
const notesOf = (tables: Tables, { organization, resource, record }: NotedRecord) =>
  tables
    .selectFrom('crm_notes')
    .select(['id', 'text', 'author_id as author'])
    .select([microseconds('created_at').as('at'), sql<boolean>`changed_at is not null`.as('isChanged')])
    .where('organization_id', '=', organization)
    .where('resource', '=', resource)
    .where('record_id', '=', record);

/** Returns a record's notes in a period, newest first. The caller must be able to read the record. */
export const listNotes = (tables: Tables, record: NotedRecord, period: TimelinePeriod): Promise<Note[]> =>
  notesOf(tables, record)
    .where(inPeriod(period, { at: 'created_at', id: 'id' }))
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(period.limit)
    .execute();

/** Returns one of a record's notes, or undefined if it does not exist. */
export const findNote = (tables: Tables, record: NotedRecord, id: string): Promise<Note | undefined> =>
  notesOf(tables, record).where('id', '=', id).executeTakeFirst();

/** Writes a note. @throws UserError if its text is empty, too long or cannot be stored */
export async function createNote(
  tables: Tables,
  actor: Actor,
  { organization, resource, record }: NotedRecord,
  { author, text }: Pick<Note, 'author' | 'text'>,
): Promise<void> {
  const { id } = await tables
    .insertInto('crm_notes')
    .values({
      ...{ organization_id: organization, resource, record_id: record },
      ...{ author_id: author, text: textOf(text), changed_at: null },
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  await log(tables, actor, organization, 'create', id);
}

/** Changes a note's text. @throws UserError if the text is empty, too long or cannot be stored */
export async function changeNote(
  tables: Tables,
  actor: Actor,
  { organization }: NotedRecord,
  { id, text }: Pick<Note, 'id' | 'text'>,
): Promise<void> {
  await tables
    .updateTable('crm_notes')
    .set({ text: textOf(text), changed_at: sql<Date>`now()` })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .execute();
  await log(tables, actor, organization, 'update', id);
}

/** Deletes a note. */
export async function deleteNote(
  tables: Tables,
  actor: Actor,
  { organization }: NotedRecord,
  id: string,
): Promise<void> {
  await tables
    .deleteFrom('crm_notes')
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .execute();
  await log(tables, actor, organization, 'delete', id);
}

/** Yields an organization's notes as JSON objects, in the order in which they were written. */
export async function* exportNotes(tables: Tables, organization: string): AsyncGenerator<string> {
  for (let after: string | undefined = '0'; after !== undefined; ) {
    const { rows }: { rows: { id: string; note: string }[] } = await sql<{ id: string; note: string }>`
      select id::text as id, json_build_object('id', id, 'resource', resource, 'record_id', record_id,
        'author_id', author_id, 'text', text, 'created_at', created_at, 'changed_at', changed_at)::text as note
      from crm_notes n where organization_id = ${organization}::bigint and id > ${after}::bigint
      order by n.id limit ${sql.lit(exportBatch)}`.execute(tables);
    for (const { note } of rows) yield note;
    after = rows.length < exportBatch ? undefined : rows.at(-1)?.id;
  }
}

/** Returns a note's text with uniform line breaks. @throws UserError if it is empty, too long or cannot be stored */
function textOf(input: string): string {
  const text = input.replace(/\r\n?/g, '\n').trim();
  if (text === '' || text.length > maxNoteLength || !isStorable(text))
    throw new TranslatedError(notesTexts.later('length', { max: String(maxNoteLength) }));
  return text;
}

/** Records that a note was written, changed or deleted, without its text. */
const log = (
  tables: Tables,
  actor: Actor,
  organization: string,
  action: 'create' | 'update' | 'delete',
  objectId: string,
): Promise<void> => recordChanges(tables, actor, { organization, action, object: 'note', objectId });
