import type { Database } from '../../../engine/database/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { listNotes, type Note, type NotedRecord } from '../../tenants/notes/index.ts';
import { type Form, field, isAdministrator, type RecordPage } from '../shell/index.ts';
import type { Calls } from './calls.ts';
import { type People, personValue } from './people.ts';
import type { DataRequest } from './routes.ts';

type History = Awaited<ReturnType<Calls['history']>>;
type Timeline = NonNullable<RecordPage['changes']>;

/** Maximum number of notes on a page of a timeline. */
const maxNotes = 50;

/** A page of a record's timeline: its changes and the notes written in the same period. */
export interface TimelinePage {
  readonly changes: History['items'];
  readonly notes: readonly Note[];
  /** Query parameters of the page with older entries, if there are any. */
  readonly older: Readonly<Record<string, string>> | undefined;
}

/** Returns the record that a page is about. */
export const notedRecord = ({
  member,
  resource,
  request,
}: Pick<DataRequest, 'member' | 'resource' | 'request'>): NotedRecord => ({
  organization: member.membership.organization,
  resource: resource.context.stored.name,
  record: (request.params as { id: string }).id,
});

/** Returns whether a member can change or delete a note. Administrators can also delete the notes of others. */
export const noteRights = ({ member, calls, resource }: DataRequest, { author }: Note) => {
  const isPermitted = calls.allows(resource, 'update');
  const isAuthor = author === member.person.session.user.id;
  return {
    canChange: isPermitted && isAuthor,
    canDelete: isPermitted && (isAuthor || isAdministrator(member.membership)),
  };
};

/**
 * Reads the notes for a page of changes. A page covers the period from its last change to the end of the previous page, which
 * the parameter `until` contains. If there are too many notes in the period, the page ends with the last of them, and the
 * next page shows the remaining changes, which the parameter `rest` requests.
 */
export async function readTimeline(
  database: Database,
  record: NotedRecord,
  { items, next }: History,
  query: Form,
): Promise<TimelinePage> {
  const until = timestamp(field(query, 'until'));
  const isRest = until !== undefined && field(query, 'rest') !== '';
  const remaining = isRest ? items.filter(({ at }) => instant(at) < instant(until)) : items;
  const last = items.at(-1);
  const from = next === undefined ? undefined : last?.at;
  const found = await listNotes(tablesOf(database), record, { before: until, from, limit: maxNotes + 1 });
  const notes = found.slice(0, maxNotes);
  const end = found.length > maxNotes ? notes.at(-1)?.at : undefined;
  if (end !== undefined)
    return {
      changes: remaining.filter(({ at }) => instant(at) >= instant(end)),
      notes,
      older: { history: field(query, 'history'), until: end, rest: '1' },
    };
  const older = next === undefined ? undefined : { history: next, ...(last && { until: last.at }) };
  return { changes: remaining, notes, older };
}

/** Converts a timestamp to microseconds, because changes and notes can be written in the same millisecond. */
function instant(at: string): number {
  const [, fraction = ''] = /\.(\d+)/.exec(at) ?? [];
  return Math.floor(Date.parse(at) / 1000) * 1_000_000 + Number(fraction.slice(0, 6).padEnd(6, '0'));
}

/** Returns a timestamp from a URL, or undefined if it is not one. */
const timestamp = (text: string): string | undefined =>
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)$/.test(text) && !Number.isNaN(Date.parse(text))
    ? text
    : undefined;

/** Adds notes to the entries of a history, newest first. */
export function withNotes(
  context: DataRequest,
  history: Timeline,
  notes: readonly Note[],
  people: People,
): Timeline['all'] {
  const { path, t } = context;
  const { id: record } = context.request.params as { id: string };
  const entries = notes.map((note): Timeline['all'][number] => {
    const { canChange, canDelete } = noteRights(context, note);
    const url = `${path}/${record}/notes/${note.id}`;
    const { text, below }: { text: string; below?: string | null } = personValue(people, note.author);
    return {
      at: note.at,
      icon: 'message-square',
      text: note.isChanged ? t('editedNoteBy') : t('noteBy'),
      actor: { text, ...(below != null && { title: below }) },
      note: note.text,
      fields: [],
      links: [
        ...(canChange
          ? [{ label: t('editLabel'), name: t('editNoteFrom', { time: note.at }), href: `${url}/edit` }]
          : []),
        ...(canDelete
          ? [{ label: t('deleteLabel'), name: t('deleteNoteFrom', { time: note.at }), href: `${url}/delete` }]
          : []),
      ],
    };
  });
  const time = ({ at }: Timeline['all'][number]) => instant(typeof at === 'string' ? at : at.toISOString());
  // Sorting is stable, so changes keep their order.
  return [...entries, ...history.all].toSorted((a, b) => time(b) - time(a));
}
