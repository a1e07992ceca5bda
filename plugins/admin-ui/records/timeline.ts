import { isRowId } from '../../../engine/fields/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { listNotes, type Note, type NotedRecord } from '../../tenants/notes/index.ts';
import {
  type Form,
  field,
  isAdministrator,
  type RecordPage,
  type TimelineEntry,
  type TimelinePeriod,
  type TimelineSource,
} from '../shell/index.ts';
import type { Calls, DataRecord } from './calls.ts';
import { type People, personValue } from './people.ts';
import type { DataRequest } from './routes.ts';

type History = Awaited<ReturnType<Calls['history']>>;
type Timeline = NonNullable<RecordPage['changes']>;

/** Maximum number of entries on a page of a timeline, in addition to its changes. */
const maxEntries = 50;
/**
 * Maximum number of characters in the notes and messages on a page of a timeline. The first entry of a page is complete, even if it
 * is longer.
 */
const maxTextLength = 50_000;

/** A page of a record's timeline: its changes and the other entries from the same period. */
export interface TimelinePage {
  readonly changes: History['items'];
  readonly entries: readonly TimelineEntry[];
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
export const noteRights = (
  { member, calls, resource }: DataRequest,
  { author }: Pick<Note, 'author'>,
): { readonly canChange: boolean; readonly canDelete: boolean } => {
  const isPermitted = calls.allows(resource, 'update');
  const isAuthor = author === member.person.session.user.id;
  return {
    canChange: isPermitted && isAuthor,
    canDelete: isPermitted && (isAuthor || isAdministrator(member.membership)),
  };
};

/** Returns the notes about a record as entries of its timeline. */
const notesSource = (context: DataRequest): TimelineSource => ({
  name: 'notes',
  read: async ({ tables, ...request }) => {
    const notes = await listNotes(tables, request, request);
    return notes.map((note) => noteEntry(context, note));
  },
});

/** Returns a note as an entry of a timeline. */
function noteEntry(context: DataRequest, note: Note): TimelineEntry {
  const { path, t } = context;
  const { id, at, author, text, isChanged } = note;
  const { canChange, canDelete } = noteRights(context, note);
  const url = `${path}/${notedRecord(context).record}/notes/${id}`;
  return {
    ...{ id, at, author },
    icon: 'message-square',
    text: isChanged ? t('editedNoteBy') : t('noteBy'),
    note: text,
    links: [
      ...(canChange
        ? [{ label: t('editLabel'), name: t('editNoteFrom', { time: at }), href: `${url}/edit` }]
        : []),
      ...(canDelete
        ? [{ label: t('deleteLabel'), name: t('deleteNoteFrom', { time: at }), href: `${url}/delete` }]
        : []),
    ],
  };
}

/** IDs above and below those of all entries, as exclusive ends of a period. */
const [allIds, noIds] = [String(2n ** 63n - 1n), '0'];

/** The last entry of a page that ends within a page of changes. */
interface PageEnd {
  /** Position of its source. */
  readonly rank: number;
  readonly id: string;
}

/** Returns the end in a URL, or undefined without a valid one. */
function endIn(text: string, sources: readonly TimelineSource[]): PageEnd | undefined {
  const [name = '', id] = text.split('.');
  const rank = sources.findIndex((source) => source.name === name);
  return rank >= 0 && isRowId(id) ? { rank, id } : undefined;
}

/**
 * Returns the end of the period for a source. Entries with the same time are ordered by source, then by ID, newest first, and
 * precede changes.
 */
function periodEnd(
  until: string | undefined,
  end: PageEnd | undefined,
  rank: number,
): TimelinePeriod['before'] {
  if (until === undefined) return undefined;
  if (end === undefined || rank < end.rank) return { at: until, id: noIds };
  return { at: until, id: rank > end.rank ? allIds : end.id };
}

/**
 * Reads the other entries for a page of changes. A page covers the period from its last change to the end of the previous page:
 * the time in the parameter `until` and, among entries with this time, the entry in `entry`. If there are too many entries in
 * the period, the page ends with the last of them, and the next page shows the remaining changes, which the parameter `rest`
 * requests.
 * @param values the record's values
 */
export async function readTimeline(
  context: DataRequest,
  values: DataRecord,
  { items, next }: History,
): Promise<TimelinePage> {
  const { database, member, resource, request, language, hasNotes, isViewingAs } = context;
  const query = request.query as Form;
  const sources = [...(hasNotes ? [notesSource(context)] : []), ...request.server.timelineSources];
  const until = timestamp(field(query, 'until'));
  const end = until === undefined ? undefined : endIn(field(query, 'entry'), sources);
  const isRest = until !== undefined && field(query, 'rest') !== '';
  const remaining = isRest ? items.filter(({ at }) => instant(at) <= instant(until)) : items;
  const last = items.at(-1)?.at;
  const pages = await Promise.all(
    sources.map(async ({ name, read }, rank) => {
      const entries = await read({
        ...notedRecord(context),
        tables: tablesOf(database),
        membership: member.membership,
        canOpenSetup: isAdministrator(member.membership) && !isViewingAs,
        fields: resource.definition.fields,
        ...{ values, language, limit: maxEntries + 1 },
        before: periodEnd(until, end, rank),
        from: next === undefined ? undefined : last,
      });
      return entries.map((entry) => ({ name, entry }));
    }),
  );
  // Sorting is stable, so entries with the same time stay in the order of their sources.
  const found = pages.flat().toSorted((a, b) => instant(b.entry.at) - instant(a.entry.at));
  const shown = firstEntries(found);
  const entries = shown.map(({ entry }) => entry);
  const final = found.length > shown.length ? shown.at(-1) : undefined;
  if (final !== undefined) {
    const { at, id } = final.entry;
    return {
      changes: remaining.filter((change) => instant(change.at) > instant(at)),
      entries,
      older: { history: field(query, 'history'), until: at, entry: `${final.name}.${id}`, rest: '1' },
    };
  }
  if (next === undefined) return { changes: remaining, entries, older: undefined };
  // A change whose transaction started later can precede the last change of the previous page.
  const isOverlapping = until !== undefined && last !== undefined && instant(last) > instant(until);
  const position = isOverlapping
    ? { until, ...(end && { entry: field(query, 'entry') }) }
    : { ...(last !== undefined && { until: last }) };
  return { changes: remaining, entries, older: { history: next, ...position } };
}

/** Returns the first entries that fit on a page. */
function firstEntries<Item extends { readonly entry: TimelineEntry }>(
  found: readonly Item[],
): readonly Item[] {
  let length = 0;
  const end = found.findIndex(({ entry: { note = '' } }, index) => {
    length += note.length;
    return index === maxEntries || (index > 0 && length > maxTextLength);
  });
  return end < 0 ? found : found.slice(0, end);
}

/** Converts a timestamp to microseconds, because several entries can be written in the same millisecond. */
function instant(at: string): number {
  const [, fraction = ''] = /\.(\d+)/.exec(at) ?? [];
  return Math.floor(Date.parse(at) / 1000) * 1_000_000 + Number(fraction.slice(0, 6).padEnd(6, '0'));
}

/** Returns a timestamp from a URL, or undefined if it is not one. */
const timestamp = (text: string): string | undefined =>
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)$/.test(text) && !Number.isNaN(Date.parse(text))
    ? text
    : undefined;

/** Returns the IDs of the users who wrote entries. */
export const authorsOf = (entries: readonly TimelineEntry[]): string[] =>
  entries.flatMap(({ author }) => author ?? []);

/** Adds other entries to the changes in a history, newest first. @param people the authors of the entries */
export function withEntries(
  history: Timeline,
  entries: readonly TimelineEntry[],
  people: People,
): Timeline['all'] {
  const shown = entries.map(({ author, ...entry }): Timeline['all'][number] => {
    if (author === undefined) return entry;
    const { text, below }: { text: string; below?: string | null } = personValue(people, author);
    return { ...entry, actor: { text, ...(below != null && { title: below }) } };
  });
  const time = ({ at }: Timeline['all'][number]) => instant(typeof at === 'string' ? at : at.toISOString());
  // Sorting is stable, so changes and other entries keep their order.
  return [...shown, ...history.all].toSorted((a, b) => time(b) - time(a));
}
